"""Sums over pairs of points and of windows that take several calls."""

from __future__ import annotations

import numpy as np
import pytest

from mercer._native import points
from mercer._native.points import NEAREST, SUM, TWO_SUMS

LENGTHS = np.array([3, 40, 1, 17, 90, 0, 8])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
PAIRS = tuple(grid.ravel() for grid in np.indices((7, 7)))
X = np.random.default_rng(0).normal(size=(OFFSETS[-1] + 8, 2))
SETS = points.PointSets.of(X[: OFFSETS[-1]], OFFSETS)


@pytest.fixture
def in_parts(monkeypatch):
    """Compute in one call, and in many; return both results, and how many pairs each of the many calls had."""

    def compute(work):
        sizes, call = [], points.call

        def counted(name, **arguments):
            sizes.append(len(arguments["begin_x"]))
            return call(name, **arguments)

        whole = work()
        with monkeypatch.context() as patched:
            patched.setattr(points, "call", counted)
            patched.setattr(points, "LONG_CALL", 1500.0)
            return whole, work(), sizes

    return compute


@pytest.mark.parametrize("term", [SUM, NEAREST, TWO_SUMS])
def test_points(in_parts, term):
    whole, parts, sizes = in_parts(lambda: SETS.ask(term, SETS, *PAIRS, np.full(49, -0.3)))
    np.testing.assert_allclose(parts, whole, rtol=1e-13)
    assert sum(sizes) > 49  # long pairs are divided
    assert max(sizes) > 1  # short ones share a call


def test_every_point(in_parts):
    asked = points.PointSets.of(X[:60], np.array([0, 60]))
    whole, parts, sizes = in_parts(lambda: asked.ask_each(SUM, SETS, 4, -0.3, np.zeros(60)))
    np.testing.assert_array_equal(parts, whole)
    assert len(sizes) > 1


@pytest.mark.parametrize("width", [1, 3])
def test_windows(in_parts, width):
    codes, offsets = np.random.default_rng(0).integers(0, 3, OFFSETS[-1]).astype(np.int32), (OFFSETS, OFFSETS)
    pairs = tuple(side[np.minimum(*LENGTHS[np.stack(PAIRS)]) >= width] for side in PAIRS)
    whole, parts, sizes = in_parts(lambda: points.difference_counts((codes, codes), offsets, pairs, width))
    np.testing.assert_array_equal(parts, whole)
    assert len(sizes) > 1
    y, shift = points.by_coordinate(X), np.zeros(len(pairs[0]))
    for term in (SUM, NEAREST):
        whole, parts, _ = in_parts(lambda term=term: points.window_sums(term, X, y, offsets, pairs, width, -0.3, shift))
        np.testing.assert_allclose(parts, whole, rtol=1e-13)
