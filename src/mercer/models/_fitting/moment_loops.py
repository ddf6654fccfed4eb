"""Weighted sums of vectors over the observations of every model, compiled by Numba."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

__all__ = ["first_moments", "full_second_moments", "second_moments"]


@compiled
def first_moments(
    x: Floats, weights: Floats, offsets: Floats, center: Floats, mass: Floats, total: Floats
) -> None:  # pragma: no cover - compiled
    """Add the weight and the weighted difference to ``center (N, k, d)`` of every coordinate that was observed.

    ``x`` is ``(T, d)``, ``weights (T, k)``; model i has the observations ``offsets[i]:offsets[i + 1]``. ``mass`` and
    ``total`` are ``(N, k, d)``, zeros at first.
    """
    d = x.shape[1]
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            for j in range(weights.shape[1]):
                w = weights[t, j]
                for c in range(d):
                    seen = x[t, c] == x[t, c]
                    mass[i, j, c] += w if seen else 0.0
                    total[i, j, c] += w * (x[t, c] - center[i, j, c]) if seen else 0.0


@compiled
def second_moments(
    x: Floats, weights: Floats, offsets: Floats, center: Floats, total: Floats
) -> None:  # pragma: no cover
    """Add the weighted squares of the differences to ``center``, coordinate by coordinate, to ``total (N, k, d)``."""
    d = x.shape[1]
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            for j in range(weights.shape[1]):
                w = weights[t, j]
                for c in range(d):
                    if x[t, c] == x[t, c]:
                        difference = x[t, c] - center[i, j, c]
                        total[i, j, c] += w * difference * difference


@compiled
def full_second_moments(
    x: Floats, weights: Floats, offsets: Floats, center: Floats, total: Floats
) -> None:  # pragma: no cover - compiled
    """Add the weighted outer products of the differences to ``center`` to ``total (N, k, d, d)``."""
    d = x.shape[1]
    difference = np.empty(d)
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            for j in range(weights.shape[1]):
                w = weights[t, j]
                for c in range(d):
                    difference[c] = x[t, c] - center[i, j, c]
                for a in range(d):
                    scaled = w * difference[a]
                    for b in range(a + 1):
                        total[i, j, a, b] += scaled * difference[b]
        for j in range(weights.shape[1]):
            for a in range(d):
                for b in range(a):
                    total[i, j, b, a] = total[i, j, a, b]
