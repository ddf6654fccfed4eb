"""Numba: exact mean maps of two multinomial vectors of counts, pair by pair (GMMK-10a).

x ~ Mult(s, a) is x_d ~ Poisson(s a_d) given that the total is s. So the kernel is an entry of a table of the two totals
that grows word by word. All terms are nonnegative and nothing cancels, as it would in a Fourier transform where the
kernel is small. Words of one side alone cost a table of one total; words of neither cost nothing. Where the value is so
small that terms underflow, the same sums are made in logarithms.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from mercer.compiled.code import compiled

Vector: TypeAlias = np.ndarray[Any, Any]


NEGLIGIBLE, LARGE = 1e-40, 1e-18
"""Of values above the second, factors below the first are no digit: tables hold numbers up to 1."""
SURE = 1e-250
"""Values above this have lost no term that counts to underflow."""


@compiled
def _log_poisson(n: int, rate: float) -> float:
    """Log probability of the count n for a positive rate."""
    return n * math.log(rate) - rate - math.lgamma(n + 1.0)


@compiled
def _grow_line(line: Vector, factor: Vector, total: int, rate: float, gamma: float, log: bool) -> None:
    """Add a word that the other side lacks to a table of one total, in place: the other side counts zero of it."""
    for k in range(total + 1):
        value = _log_poisson(k, rate) - gamma * k * k
        factor[k] = value if log else math.exp(value)
    for n in range(total, -1, -1):
        value, top = 0.0, -np.inf
        if log:
            for k in range(n + 1):
                top = max(top, line[n - k] + factor[k])
            for k in range(n + 1):
                value += math.exp(line[n - k] + factor[k] - top)  # line[0] is finite, hence top too
            line[n] = top + math.log(value)
        else:
            for k in range(n + 1):
                value += line[n - k] * factor[k]
            line[n] = value


@compiled
def _grow_table(table: Vector, factor: Vector, row: Vector, s: int, t: int, least: float) -> None:
    """Multiply a table of two totals by that of a word, in place: row n is read by rows above n alone."""
    for n in range(s, -1, -1):
        row[: t + 1] = 0.0
        for k in range(n + 1):
            below = table[n - k]
            for j in range(t + 1):
                weight = factor[k, j]
                if weight > least:
                    for m in range(j, t + 1):
                        row[m] += weight * below[m - j]
        table[n, : t + 1] = row[: t + 1]


@compiled
def _grow_log_table(table: Vector, factor: Vector, row: Vector, s: int, t: int) -> None:
    """Do the same in logarithms."""
    for n in range(s, -1, -1):
        for m in range(t + 1):
            top = -np.inf
            for k in range(n + 1):
                for j in range(m + 1):
                    top = max(top, table[n - k, m - j] + factor[k, j])
            value = 0.0
            if top > -np.inf:
                for k in range(n + 1):
                    for j in range(m + 1):
                        value += math.exp(table[n - k, m - j] + factor[k, j] - top)
            row[m] = top + math.log(value) if value > 0 else -np.inf
        table[n, : t + 1] = row[: t + 1]


@compiled
def _one_pair(
    a: Vector, words: Vector, s: int, b: Vector, others: Vector, t: int, gamma: float, log: bool, least: float,
    left: Vector, right: Vector, table: Vector, factor: Vector, row: Vector,
) -> float:  # fmt: skip
    """Return the coefficient of the totals (s, t), or its logarithm; a and b are the rows' entries, sorted by word."""
    nothing = -np.inf if log else 0.0
    left[: s + 1] = nothing
    right[: t + 1] = nothing
    left[0] = right[0] = 0.0 if log else 1.0
    i, j = 0, 0
    while i < len(words) or j < len(others):  # words of one side first
        if j == len(others) or (i < len(words) and words[i] < others[j]):
            if s > 0:
                _grow_line(left, row, s, a[i] * s, gamma, log)
            i += 1
        elif i == len(words) or others[j] < words[i]:
            if t > 0:
                _grow_line(right, row, t, b[j] * t, gamma, log)
            j += 1
        else:
            i += 1
            j += 1
    for n in range(s + 1):
        for m in range(t + 1):
            table[n, m] = left[n] + right[m] if log else left[n] * right[m]
    i, j = 0, 0
    while i < len(words) and j < len(others):
        if words[i] < others[j]:
            i += 1
        elif others[j] < words[i]:
            j += 1
        else:
            for n in range(s + 1):
                for m in range(t + 1):
                    value = 0.0
                    if s > 0:
                        value += _log_poisson(n, a[i] * s)
                    if t > 0:
                        value += _log_poisson(m, b[j] * t)
                    value -= gamma * (n - m) ** 2
                    factor[n, m] = value if log else math.exp(value)
            if log:
                _grow_log_table(table, factor, row, s, t)
            else:
                _grow_table(table, factor, row, s, t, least)
            i += 1
            j += 1
    return float(table[s, t])


@compiled
def log_mean_maps(
    a: Vector, words: Vector, begins: Vector, s: Vector, b: Vector, others: Vector, other_begins: Vector, t: Vector,
    gamma: float, first: Vector, second: Vector, out: Vector,
) -> None:  # fmt: skip
    """Write log E exp(-gamma |x - y|^2) for the pairs of rows ``first[p], second[p]``, without the totals' own laws."""
    most, other_most = s.max() + 1, t.max() + 1
    left, right, row = np.empty(most), np.empty(other_most), np.empty(max(most, other_most))
    table, factor = np.empty((most, other_most)), np.empty((most, other_most))
    for p in range(len(first)):
        i, j = first[p], second[p]
        x, y = slice(begins[i], begins[i + 1]), slice(other_begins[j], other_begins[j + 1])
        for attempt in range(3):  # without what is no digit; with all; in logarithms
            log, least = attempt == 2, NEGLIGIBLE if attempt == 0 else 0.0
            value = _one_pair(
                a[x], words[x], s[i], b[y], others[y], t[j], gamma, log, least, left, right, table, factor, row
            )
            if log or value > (LARGE if attempt == 0 else SURE):
                out[p] = value if log else math.log(value)
                break
