"""Sums over all vectors of counts: tables of totals that grow outcome by outcome (PPK-3.3) or word by word (GMMK-10a).

All terms are nonnegative, so nothing cancels, unlike in a Fourier transform with small sums. Where terms underflow,
the same sums are computed in the log domain.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from mercer.compiled.code import compiled
from mercer.compiled.copies import copy_to
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.machine import MACHINE

Vector: TypeAlias = np.ndarray[Any, Any]

LANES = MACHINE.width
"""Number of pairs in one vector."""
TOTALS = 4
"""Number of totals that are summed at once: they share the loads of terms, and hide latency."""
NEGLIGIBLE, LARGE = 1e-40, 1e-18
"""For values above the second, factors below the first are negligible: tables contain numbers up to 1."""
SURE = 1e-250
"""Values above this have lost no significant term by underflow."""


# -- convolutions over outcomes, for every pair of rows ----------------------------------------------------


def advance(tables: Vector, left: Vector, right: Vector) -> None:
    """Convolve all tables, in place, with the products of the terms of both sides.

    Parameters
    ----------
    tables : ndarray of shape (I, groups, s + 1, LANES)
        Sums for every total so far.
    left, right : ndarray of shape (I, w, s + 1) and (groups, w, s + 1, LANES)
        Terms of w outcomes.
    """
    _advance(tables.reshape(-1), left, right.reshape(-1), tables.shape[1], aligned((tables.shape[2] * LANES,)))


@vector_function(LANES)
def _products(
    e: Emitter, left: Value, left_at: Value, right: Value, right_at: Value, size: Value, term: Value
) -> None:  # fmt: skip
    """Multiply the terms of one row by those of a group."""
    b = e.builder

    def product(k: Value) -> list[Value]:
        mine, theirs = e.spread(left, b.add(left_at, k)), e.load(right, e.offset(right_at, k, LANES))
        e.store(e.multiply(mine, theirs), term, e.offset(e.constant(0), k, LANES))
        return []

    e.loop_sums(0, size, product)


def _totals(e: Emitter, count: int, tables: Value, at: Value, term: Value, total: Value) -> None:
    """Write the new sums of ``count`` totals, from ``total`` down: sum_k table[total - k] term[k] of each."""
    b, zero = e.builder, e.constant(0)

    def cell(index: Value) -> Value:
        return e.load(tables, e.offset(at, index, LANES))

    def terms(k: Value) -> list[Value]:
        factor = e.load(term, e.offset(zero, k, LANES))
        return [e.multiply(cell(b.sub(b.sub(total, k), e.constant(c))), factor) for c in range(count)]

    sums = e.loop_sums(count, b.sub(total, e.constant(count - 2)), terms)
    for c in range(count):  # larger totals have more terms than the smallest, whose last term is table[0]
        for j in range(count - 2 - c, -1, -1):
            factor = e.load(term, e.offset(zero, b.sub(total, e.constant(c + j)), LANES))
            sums[c] = e.add(sums[c], e.multiply(cell(e.constant(j)), factor))
    for c, value in enumerate(sums):
        e.store(value, tables, e.offset(at, b.sub(total, e.constant(c)), LANES))


_several_totals, _one_total = (vector_function(LANES, count)(_totals) for count in (TOTALS, 1))


@compiled
def _advance(tables: Vector, left: Vector, right: Vector, groups: int, term: Vector) -> None:  # pragma: no cover
    n, width, size = left.shape
    flat = left.reshape(-1)
    for i in range(n):
        for group in range(groups):
            table = (i * groups + group) * size * LANES
            for d in range(width):
                _products(flat, (i * width + d) * size, right, (group * width + d) * size * LANES, size, term)
                total = size - 1
                while total >= TOTALS - 1:  # downward, so that smaller totals still have their old values
                    _several_totals(tables, table, term, total)
                    total -= TOTALS
                while total >= 0:
                    _one_total(tables, table, term, total)
                    total -= 1


@compiled
def advance_logs(
    logs: Vector, left: Vector, right: Vector, rows: Vector, columns: Vector
) -> None:  # pragma: no cover - compiled
    """Do the same for given pairs in the log domain; ``logs (P, s + 1)``, terms ``(I, w, s + 1)`` and ``(J, ...)``."""
    last, row = logs.shape[1] - 1, np.empty(logs.shape[1])
    for pair in range(len(rows)):
        for d in range(left.shape[1]):
            factor = left[rows[pair], d : d + 1] + right[columns[pair], d : d + 1]
            _grow_log_table(logs[pair : pair + 1], factor, row, 0, last)


# -- exact mean maps of two multinomial vectors of counts, pair by pair (GMMK-10a) ---------------------------
#
# x ~ Mult(s, a) is x_d ~ Poisson(s a_d) given that the total is s. So the kernel is an entry of a table of the two
# totals, computed word by word. A word of only one side needs a table of one total; a word of neither side is free.


@compiled
def _log_poisson(n: int, rate: float) -> float:  # pragma: no cover - compiled
    """Log probability of the count n for a positive rate."""
    return n * math.log(rate) - rate - math.lgamma(n + 1.0)


@compiled
def _grow_table(table: Vector, factor: Vector, row: Vector, s: int, t: int, least: float) -> None:
    """Multiply a table of two totals by that of a word, in place: only rows above n read row n."""
    for n in range(s, -1, -1):
        row[: t + 1] = 0.0
        for k in range(n + 1):
            below = table[n - k]
            for j in range(t + 1):
                weight = factor[k, j]
                if weight > least:
                    for m in range(j, t + 1):
                        row[m] += weight * below[m - j]
        copy_to(table[n], row[: t + 1])


@compiled
def _grow_log_table(table: Vector, factor: Vector, row: Vector, s: int, t: int) -> None:
    """Do the same in the log domain."""
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
        copy_to(table[n], row[: t + 1])


@compiled
def _add_word(
    table: Vector, factor: Vector, row: Vector, s: int, t: int, rate: float, other_rate: float, gamma: float, log: bool,
    least: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Add a word to a table of the totals s and t, in place; a side without the word has the total zero."""
    for n in range(s + 1):
        for m in range(t + 1):
            value = -gamma * (n - m) ** 2
            if s > 0:
                value += _log_poisson(n, rate)
            if t > 0:
                value += _log_poisson(m, other_rate)
            factor[n, m] = value if log else math.exp(value)
    if log:
        _grow_log_table(table, factor, row, s, t)
    else:
        _grow_table(table, factor, row, s, t, least)


@compiled
def _one_pair(
    a: Vector, words: Vector, s: int, b: Vector, others: Vector, t: int, gamma: float, log: bool, least: float,
    left: Vector, right: Vector, line: Vector, table: Vector, factor: Vector, row: Vector,
) -> float:  # fmt: skip
    """Return the coefficient of the totals (s, t), or its logarithm; a and b are the rows' entries, sorted by word."""
    nothing = -np.inf if log else 0.0
    left[0, : s + 1] = nothing
    right[0, : t + 1] = nothing
    left[0, 0] = right[0, 0] = 0.0 if log else 1.0
    i, j = 0, 0
    while i < len(words) or j < len(others):  # words of only one side first
        if j == len(others) or (i < len(words) and words[i] < others[j]):
            if s > 0:
                _add_word(left, line, row, 0, s, 0.0, a[i] * s, gamma, log, 0.0)
            i += 1
        elif i == len(words) or others[j] < words[i]:
            if t > 0:
                _add_word(right, line, row, 0, t, 0.0, b[j] * t, gamma, log, 0.0)
            j += 1
        else:
            i += 1
            j += 1
    for n in range(s + 1):
        for m in range(t + 1):
            table[n, m] = left[0, n] + right[0, m] if log else left[0, n] * right[0, m]
    i, j = 0, 0
    while i < len(words) and j < len(others):
        if words[i] < others[j]:
            i += 1
        elif others[j] < words[i]:
            j += 1
        else:
            _add_word(table, factor, row, s, t, a[i] * s, b[j] * t, gamma, log, least)
            i += 1
            j += 1
    return float(table[s, t])


@compiled
def log_mean_maps(
    a: Vector, words: Vector, begins: Vector, s: Vector, b: Vector, others: Vector, other_begins: Vector, t: Vector,
    gamma: float, first: Vector, second: Vector, out: Vector,
) -> None:  # fmt: skip
    """Write log E exp(-gamma |x - y|^2) of the pairs of rows ``first[p], second[p]``, up to factors of the totals."""
    most, other_most = s.max() + 1, t.max() + 1
    largest = max(most, other_most)
    left, right, line, row = np.empty((1, most)), np.empty((1, other_most)), np.empty((1, largest)), np.empty(largest)
    table, factor = np.empty((most, other_most)), np.empty((most, other_most))
    for p in range(len(first)):
        i, j = first[p], second[p]
        x, y = slice(begins[i], begins[i + 1]), slice(other_begins[j], other_begins[j + 1])
        for attempt in range(3):  # without negligible factors; with all factors; in the log domain
            log, least = attempt == 2, NEGLIGIBLE if attempt == 0 else 0.0
            value = _one_pair(
                a[x], words[x], s[i], b[y], others[y], t[j], gamma, log, least, left, right, line, table, factor, row
            )
            if log or value > (LARGE if attempt == 0 else SURE):
                out[p] = value if log else math.log(value)
                break
