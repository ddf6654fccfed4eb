"""Pair HMMs in the lanes of this processor against numbers of unlimited range, and work that takes several calls."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer._native import call, pairs


def proteins(flanked: bool = False):
    rng = np.random.default_rng(0)
    hidden = rng.random((20, 20)) ** 4 + 5 * np.eye(20)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / 20
    parts = [joint], [joint.sum(axis=0)], [0.03], [0.6], [0.95]
    if flanked:
        return mc.models.LocalPairHMMs(*parts, [0.9], [0.98], alphabet="protein")
    return mc.models.AffinePairHMMs(*parts, alphabet="protein")


def strings(*sizes: int) -> mc.Sequences:
    rng = np.random.default_rng(len(sizes))
    return mc.Sequences.from_codes([rng.integers(0, 20, size) for size in sizes], "protein")


@pytest.mark.parametrize("flanked", [False, True], ids=["global", "local"])
def test_lanes_and_numbers_of_unlimited_range_agree(flanked):
    operand = proteins(flanked).shared_history(strings(0, 1, 3, 4, 5, 8, 9, 33, 64, 70, 40, 16, 17))
    everyone = np.arange(len(operand))
    rows, columns = (grid.ravel() for grid in np.meshgrid(everyone, everyone, indexing="ij"))
    expected = operand.some(operand, rows, columns).reshape(len(operand), len(operand))
    np.testing.assert_allclose(operand.pair(operand), expected, rtol=1e-12)


@pytest.mark.parametrize("flanked", [False, True], ids=["global", "local"])
def test_work_of_several_calls_has_the_same_bits(flanked, monkeypatch):
    calls = []
    monkeypatch.setattr(pairs, "call", lambda name, **given: calls.append(name) or call(name, **given))
    left, right = (proteins(flanked).shared_history(strings(*sizes)) for sizes in ([5000] * 9, [4900, 5000]))
    together = left.pair(right)
    assert len(calls) > 1
    alone = np.concatenate([left[i : i + 1].pair(right) for i in (0, 4, 8)])
    np.testing.assert_array_equal(together[[0, 4, 8]], alone)
