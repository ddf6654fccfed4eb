"""Weighted first and second moments of vectors about given centers, for every sample and state.

Points are processed in blocks of `POINTS` in SIMD lanes, so that the loop over them vectorizes for any numbers of
states and coordinates. Blocks start with the sample: its sums do not depend on other samples.
"""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

POINTS = 2 * MACHINE.width


@vector_function(POINTS)
def _add_first(
    e: Emitter, mass: Value, first: Value, at: Value, points: Value, seen: Value, c: Value, shares: Value,
    j: Value, center: Value,
) -> None:  # fmt: skip
    """Add w and w (x - c) of the points of a block."""
    weight = e.multiply(e.load(shares, j), e.load(seen, c))
    away = e.builder.fsub(e.load(points, c), e.filled(center))
    e.store(e.add(e.load(mass, at), weight), mass, at)
    e.store(e.add(e.load(first, at), e.multiply(weight, away)), first, at)


@vector_function(POINTS)
def _add_second(
    e: Emitter, second: Value, at: Value, points: Value, seen: Value, a: Value, b: Value, shares: Value,
    j: Value, center: Value, other: Value,
) -> None:  # fmt: skip
    """Add w (x_a - c_a)(x_b - c_b) of the points of a block."""
    weight = e.multiply(e.load(shares, j), e.load(seen, a))
    left = e.builder.fsub(e.load(points, a), e.filled(center))
    right = e.builder.fsub(e.load(points, b), e.filled(other))
    e.store(e.add(e.load(second, at), e.multiply(e.multiply(weight, left), right)), second, at)


@vector_function(POINTS)
def _collapse(e: Emitter, sums: Value, at: Value) -> None:
    """Replace the sums over the points of a block by their total, in every lane."""
    e.store(e.across(e.load(sums, at), e.add), sums, at)


@compiled
def _total(sums: Floats, at: int) -> float:  # pragma: no cover - compiled
    _collapse(sums, at)
    return float(sums[at])


@compiled
def _load_block(
    x: Floats, weights: Floats, begin: int, end: int, points: Floats, seen: Floats, shares: Floats, gaps: bool
) -> bool:  # pragma: no cover - compiled
    """Transpose rows of points and weights to columns; missing points get weight zero.

    Missing coordinates get weight zero; returns whether there are any. ``gaps`` says so for the previous block.
    """
    d, n = x.shape[1], weights.shape[1]
    count = min(POINTS, end - begin)
    missing = False
    for t in range(count):
        for c in range(d):
            value = x[begin + t, c]
            missing |= value != value
            points[c * POINTS + t] = value
        for j in range(n):
            shares[j * POINTS + t] = weights[begin + t, j]
    for t in range(count, POINTS):
        for c in range(d):
            points[c * POINTS + t] = 0.0
        for j in range(n):
            shares[j * POINTS + t] = 0.0
    if missing or gaps:
        for k in range(d * POINTS):
            seen[k] = 1.0 if points[k] == points[k] else 0.0
            points[k] = points[k] if points[k] == points[k] else 0.0
    return missing


@compiled
def moments(
    x: Floats, weights: Floats, offsets: Floats, center: Floats, mass: Floats, first: Floats, second: Floats
) -> None:  # pragma: no cover - compiled
    """Sum w, w (x - c) and w (x - c)^2 over the observed values of every coordinate.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points; NaN is ignored.
    weights : ndarray of shape (T, n)
        Weight of every point in every state.
    offsets : ndarray of int of shape (S + 1,)
        Sample s has the points ``offsets[s]:offsets[s + 1]``.
    center : ndarray of shape (S, n, d) or (1, n, d)
        The centers c.
    mass, first, second : ndarray of shape (S, n, d)
        Output sums; empty to skip.
    """
    d, n = x.shape[1], weights.shape[1]
    points, seen, shares = np.empty(d * POINTS), np.ones(d * POINTS), np.empty(n * POINTS)
    masses, firsts, seconds = np.empty(n * d * POINTS), np.empty(n * d * POINTS), np.empty(n * d * POINTS)
    gaps = False
    for s in range(len(offsets) - 1):
        own = min(s, len(center) - 1)
        masses[:] = 0.0
        firsts[:] = 0.0
        seconds[:] = 0.0
        for begin in range(offsets[s], offsets[s + 1], POINTS):
            gaps = _load_block(x, weights, begin, offsets[s + 1], points, seen, shares, gaps)
            for j in range(n):
                for c in range(d):
                    at, a, middle = (j * d + c) * POINTS, c * POINTS, center[own, j, c]
                    if first.size > 0:
                        _add_first(masses, firsts, at, points, seen, a, shares, j * POINTS, middle)
                    if second.size > 0:
                        _add_second(seconds, at, points, seen, a, a, shares, j * POINTS, middle, middle)
        for j in range(n):
            for c in range(d):
                at = (j * d + c) * POINTS
                if first.size > 0:
                    mass[s, j, c], first[s, j, c] = _total(masses, at), _total(firsts, at)
                if second.size > 0:
                    second[s, j, c] = _total(seconds, at)


@compiled
def full_moments(
    x: Floats, weights: Floats, offsets: Floats, center: Floats, second: Floats
) -> None:  # pragma: no cover - compiled
    """Sum w (x - c)(x - c)' in ``second (S, n, d, d)``. Parameters as in `moments`, without NaN."""
    d, n = x.shape[1], weights.shape[1]
    points, seen, shares = np.empty(d * POINTS), np.ones(d * POINTS), np.empty(n * POINTS)
    sums = np.empty(n * d * d * POINTS)
    gaps = False
    for s in range(len(offsets) - 1):
        own = min(s, len(center) - 1)
        sums[:] = 0.0
        for begin in range(offsets[s], offsets[s + 1], POINTS):
            gaps = _load_block(x, weights, begin, offsets[s + 1], points, seen, shares, gaps)
            for j in range(n):
                for a in range(d):
                    for b in range(a + 1):
                        _add_second(
                            sums, ((j * d + a) * d + b) * POINTS, points, seen, a * POINTS, b * POINTS, shares,
                            j * POINTS, center[own, j, a], center[own, j, b],
                        )  # fmt: skip
        for j in range(n):
            for a in range(d):
                for b in range(a + 1):
                    second[s, j, a, b] = second[s, j, b, a] = _total(sums, ((j * d + a) * d + b) * POINTS)
