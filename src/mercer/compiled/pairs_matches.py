"""The alignment of maximum expected accuracy."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled
def most_accurate(probability: Floats, least: float) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Return rows and columns of the increasing chain of cells with the largest sum of probabilities.

    Of chains with equal sums, the one with fewer cells.
    """
    n, m = probability.shape
    best = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            value = max(best[i - 1, j], best[i, j - 1])
            if probability[i - 1, j - 1] > 0.0 and probability[i - 1, j - 1] >= least:
                value = max(value, best[i - 1, j - 1] + probability[i - 1, j - 1])
            best[i, j] = value
    rows, columns = np.empty(min(n, m), dtype=np.int64), np.empty(min(n, m), dtype=np.int64)
    count, i, j = 0, n, m
    while i > 0 and j > 0:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i -= 1
            j -= 1
            rows[count], columns[count] = i, j
            count += 1
    return rows[:count][::-1].copy(), columns[:count][::-1].copy()
