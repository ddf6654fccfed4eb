"""Numba: sums over every sequence that Fisher scores are made of. A sequence's sums depend on it alone."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled(contract=True)
def diagonal_sums(
    x: Floats, offsets: Floats, weights: Floats, mean: Floats, precision: Floats, location: Floats, spread: Floats
) -> None:  # pragma: no cover - compiled
    """Add up w (x - m) / v and w ((x - m)^2 / v - 1) of all states; NaN coordinates add nothing.

    ``mean`` and ``precision`` are ``(d, n)``, so that the states stand side by side; ``location`` and ``spread`` are
    ``(S, n, d)``.
    """
    d, n = mean.shape
    first, second = np.empty((d, n)), np.empty((d, n))
    for s in range(len(offsets) - 1):
        first[:] = 0.0
        second[:] = 0.0
        for t in range(offsets[s], offsets[s + 1]):
            for k in range(d):
                value = x[t, k]
                if np.isnan(value):
                    continue
                for i in range(n):
                    away = value - mean[k, i]
                    weighted = weights[t, i] * (away * precision[k, i])
                    first[k, i] += weighted
                    second[k, i] += weighted * away - weights[t, i]
        for i in range(n):
            for k in range(d):
                location[s, i, k] = first[k, i]
                spread[s, i, k] = second[k, i]


@compiled(contract=True)
def full_sums(
    x: Floats, offsets: Floats, weights: Floats, mean: Floats, first: Floats, second: Floats
) -> None:  # pragma: no cover - compiled
    """Add up w (x - m), ``(S, d, n)``, and the lower triangle of w (x - m)(x - m)', ``(S, d (d + 1) / 2, n)``.

    ``mean`` is ``(d, n)``, so that the states stand side by side.
    """
    d, n = mean.shape
    away, weighted = np.empty((d, n)), np.empty(n)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            place = 0
            for k in range(d):
                value = x[t, k]
                for i in range(n):
                    away[k, i] = value - mean[k, i]
                    weighted[i] = weights[t, i] * away[k, i]
                    first[s, k, i] += weighted[i]
                for j in range(k + 1):
                    for i in range(n):
                        second[s, place, i] += weighted[i] * away[j, i]
                    place += 1


@compiled(contract=True)
def posterior_ratios(
    initial: Floats,
    transition: Floats,
    likelihood: Floats,
    offsets: Floats,
    first: Floats,
    steps: Floats,
    visits: Floats,
) -> None:  # pragma: no cover - compiled
    """Posteriors divided by what they are proportional to, computed without the division (FK-8).

    ``first (S, n)``: gamma_1 / pi. ``steps (S, n, n)``: sum over t of xi_t / A. ``visits (T, n)``: gamma_t divided by
    the likelihood.
    """
    n = len(initial)
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        if begin == end:
            continue
        forward = np.empty((end - begin, n))
        scale = np.empty(end - begin)
        for t in range(begin, end):
            for j in range(n):
                predicted = initial[j]
                if t > begin:
                    predicted = 0.0
                    for i in range(n):
                        predicted += forward[t - begin - 1, i] * transition[i, j]
                visits[t, j] = predicted
                forward[t - begin, j] = predicted * likelihood[t, j]
            scale[t - begin] = forward[t - begin].sum()
            forward[t - begin] /= scale[t - begin]
        backward = np.ones(n)
        for t in range(end - 1, begin - 1, -1):
            ahead = likelihood[t] * backward / scale[t - begin]
            visits[t] *= backward / scale[t - begin]
            if t == begin:
                first[s] = ahead
                break
            for i in range(n):
                for j in range(n):
                    steps[s, i, j] += forward[t - begin - 1, i] * ahead[j]
            backward = transition @ ahead
