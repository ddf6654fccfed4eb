"""Recursions of profile hidden Markov models: forward, expected counts, best path (Plan 7).

A row is ``(3, M + 2)``: match, insert and delete states of the nodes, with zeros before the first and after the last
node. The flanks N, J and C, and the begin B of the profile, are four numbers beside it. Each recursion is written once
and instantiated for two kinds of numbers: floats with a power of two per row, and logarithms, for numbers that floats
lose. A model is a tuple of arrays ``odds, insert_odds (codes, M + 2)``, ``steps (7, M + 2)``, ``entry, leave
(M + 2,)``, ``flanks (4,)``, in the kind's own numbers.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer.compiled.code import compiled

LARGE, SMALL = 2.0**100, 2.0**-100
"""A row whose largest number is outside of this range is scaled by a power of two."""
LOST = 2.0**-850
"""A positive number below this may have lost, or may soon lose, numbers that matter."""
_LOG_2 = math.log(2.0)


class Recursions(NamedTuple):
    """The recursions in one kind of numbers."""

    forward: Any
    expected: Any


@compiled
def _float_plus(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x + y


@compiled
def _float_times(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x * y


@compiled
def _float_share(x: float, y: float, z: float, factor: float) -> float:  # pragma: no cover - compiled
    return x * y * z * factor


@compiled
def _log_plus(x: float, y: float) -> float:  # pragma: no cover - compiled
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log1p(math.exp(y - x))


@compiled
def _log_times(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x + y


@compiled
def _log_share(x: float, y: float, z: float, factor: float) -> float:  # pragma: no cover - compiled
    return math.exp(x + y + z + factor)


@compiled
def _float_scaled(row: Floats, ends: Floats, watch: bool) -> tuple[int, bool]:  # pragma: no cover - compiled
    """Scale a row and its ``ends``; return the exponent, and whether small numbers may be lost."""
    top, low = 0.0, np.inf
    for x in ends:
        top = max(top, x)
    for kind in range(3):
        for k in range(row.shape[1]):
            top = max(top, row[kind, k])
    if watch:
        for kind in range(3):
            for k in range(row.shape[1]):
                low = min(low, row[kind, k] if row[kind, k] > 0.0 else np.inf)
        for x in ends:
            low = min(low, x if x > 0.0 else np.inf)
    exponent = 0
    if top > LARGE or (0.0 < top < SMALL):
        exponent = math.frexp(top)[1]
        # In two steps, since 2^-exponent itself may overflow.
        half = exponent // 2
        first, second = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
        row *= first
        row *= second
        ends *= first
        ends *= second
        low *= first
        low *= second
    return exponent, low < LOST


@compiled
def _log_scaled(row: Floats, ends: Floats, watch: bool) -> tuple[int, bool]:  # pragma: no cover - compiled
    return 0, False


@compiled
def _float_log(value: float, exponent: int) -> float:  # pragma: no cover - compiled
    return math.log(value) + exponent * _LOG_2 if value > 0.0 else -np.inf


@compiled
def _log_log(value: float, exponent: int) -> float:  # pragma: no cover - compiled
    return value


@compiled
def _float_factor(exponent: int, total: float, total_exponent: int) -> float:  # pragma: no cover - compiled
    return math.ldexp(1.0 / total, exponent - total_exponent)


@compiled
def _log_factor(exponent: int, total: float, total_exponent: int) -> float:  # pragma: no cover - compiled
    return -total


@functools.cache
def recursions(logs: bool) -> Recursions:
    """Instantiate the recursions for floats, or for logarithms."""
    plus, times, share, scaled, logarithm, factor_of = (
        (_log_plus, _log_times, _log_share, _log_scaled, _log_log, _log_factor)
        if logs
        else (_float_plus, _float_times, _float_share, _float_scaled, _float_log, _float_factor)
    )
    zero, one = (-np.inf, 0.0) if logs else (0.0, 1.0)

    @compiled(contract=True)
    def begin(row: Floats, ends: Floats, flanks: Floats) -> None:  # pragma: no cover - compiled
        """Write the row before the first symbol; ``ends`` are N, B, J and C."""
        row[:] = zero
        ends[:] = zero
        ends[0], ends[1] = one, flanks[1]

    @compiled(contract=True)
    def advance(
        before: Floats,
        after: Floats,
        ends: Floats,
        odds: Floats,
        insert_odds: Floats,
        steps: Floats,
        entry: Floats,
        leave: Floats,
        flanks: Floats,
    ) -> None:  # pragma: no cover - compiled
        """Write the row of the next symbol, whose odds are given, and update ``ends``."""
        m, start = entry.shape[0] - 2, ends[1]
        for k in range(1, m + 1):
            entered = plus(times(start, entry[k]), times(before[0, k - 1], steps[0, k - 1]))
            other = plus(times(before[1, k - 1], steps[3, k - 1]), times(before[2, k - 1], steps[5, k - 1]))
            after[0, k] = times(plus(entered, other), odds[k])
            inserted = plus(times(before[0, k], steps[1, k]), times(before[1, k], steps[4, k]))
            after[1, k] = times(inserted, insert_odds[k])
        left, deleted = zero, zero
        for k in range(1, m + 1):
            deleted = plus(times(after[0, k - 1], steps[2, k - 1]), times(deleted, steps[6, k - 1]))
            after[2, k] = deleted
            left = plus(left, times(leave[k], plus(after[0, k], deleted)))
        ends[0] = times(ends[0], flanks[0])
        ends[2] = plus(times(ends[2], flanks[0]), times(left, flanks[2]))
        ends[3] = plus(times(ends[3], flanks[0]), times(left, flanks[3]))
        ends[1] = times(plus(ends[0], ends[2]), flanks[1])

    @compiled
    def forward(
        codes: Indices,
        odds: Floats,
        insert_odds: Floats,
        steps: Floats,
        entry: Floats,
        leave: Floats,
        flanks: Floats,
        watch: bool,
    ) -> tuple[float, bool]:  # pragma: no cover - compiled
        """Return the log odds of a sequence against background symbols, and whether small numbers may be lost."""
        width = entry.shape[0]
        before, after, ends = np.empty((3, width)), np.full((3, width), zero), np.empty(4)
        begin(before, ends, flanks)
        exponent, lost = 0, False
        for code in codes:
            advance(before, after, ends, odds[code], insert_odds[code], steps, entry, leave, flanks)
            moved, small = scaled(after, ends, watch)
            exponent += moved
            lost = lost or small
            before, after = after, before
        return logarithm(times(ends[3], flanks[1]), exponent), lost

    @compiled(contract=True)
    def retreat(
        row: Floats,
        ends: Floats,
        reached: Floats,
        inserted: Floats,
        steps: Floats,
        entry: Floats,
        leave: Floats,
        flanks: Floats,
        last: bool,
    ) -> None:  # pragma: no cover - compiled
        """Write the row of a symbol from that of the next one; ``ends`` are N, B, J, C and E.

        ``reached`` and ``inserted`` are the next match and insert states times the odds of the next symbol.
        """
        m = entry.shape[0] - 2
        start = zero
        if last:
            ends[3] = flanks[1]
            ends[0] = ends[1] = ends[2] = zero
        else:
            for k in range(1, m + 1):
                start = plus(start, times(entry[k], reached[k]))
            ends[1] = start
            ends[3] = times(ends[3], flanks[0])
            ends[2] = plus(times(ends[2], flanks[0]), times(start, flanks[1]))
            ends[0] = plus(times(ends[0], flanks[0]), times(start, flanks[1]))
        end = plus(times(ends[3], flanks[3]), times(ends[2], flanks[2]))
        ends[4] = end
        deleted = zero
        for k in range(m, 0, -1):
            out = times(leave[k], end)
            following = zero if last else reached[k + 1]
            staying = zero if last else inserted[k]
            whole = plus(times(steps[0, k], following), times(steps[1, k], staying))
            row[0, k] = plus(plus(out, whole), times(steps[2, k], deleted))
            row[1, k] = plus(times(steps[3, k], following), times(steps[4, k], staying))
            deleted = plus(plus(out, times(steps[5, k], following)), times(steps[6, k], deleted))
            row[2, k] = deleted

    @compiled
    def expected(
        codes: Indices,
        odds: Floats,
        insert_odds: Floats,
        steps: Floats,
        entry: Floats,
        leave: Floats,
        flanks: Floats,
        watch: bool,
        matched: Floats,
        inserted: Floats,
        stepped: Floats,
        entered: Floats,
    ) -> tuple[float, bool]:  # pragma: no cover - compiled
        """Add the expected counts of a sequence; return its log odds, and whether small numbers may be lost.

        ``matched`` and ``inserted (codes, M + 2)`` count symbols, ``stepped (7, M + 2)`` transitions and
        ``entered (M + 2,)`` entries. Forward rows are stored for every block of about sqrt(L) symbols, and computed
        again within a block.
        """
        length, width = codes.shape[0], entry.shape[0]
        m = width - 2
        size = max(1, int(math.sqrt(length)))
        blocks = (length + size - 1) // size
        kept, kept_ends = np.full((blocks + 1, 3, width), zero), np.full((blocks + 1, 4), zero)
        exponents, lost, exponent = np.zeros(blocks + 1, np.int64), False, 0
        begin(kept[0], kept_ends[0], flanks)
        before, after, ends = kept[0].copy(), np.full((3, width), zero), kept_ends[0].copy()
        for t in range(length):
            code = codes[t]
            advance(before, after, ends, odds[code], insert_odds[code], steps, entry, leave, flanks)
            moved, small = scaled(after, ends, watch)
            exponent += moved
            lost = lost or small
            before, after = after, before
            if (t + 1) % size == 0 and (t + 1) // size <= blocks:
                at = (t + 1) // size
                kept[at], kept_ends[at], exponents[at] = before, ends, exponent
        total, total_exponent = times(ends[3], flanks[1]), exponent
        if total == zero:
            return -np.inf, lost
        rows, row_ends = np.full((size + 1, 3, width), zero), np.empty((size + 1, 4))
        row_exponents = np.zeros(size + 1, np.int64)
        row, back = np.full((3, width), zero), np.full(5, zero)
        reached, staying = np.full(width, zero), np.full(width, zero)
        back_exponent = 0
        for block in range(blocks - 1, -1, -1):
            first = block * size
            count = min(size, length - first)
            rows[0], row_ends[0], row_exponents[0] = kept[block], kept_ends[block], exponents[block]
            for j in range(count):
                code = codes[first + j]
                row_ends[j + 1] = row_ends[j]
                advance(
                    rows[j], rows[j + 1], row_ends[j + 1], odds[code], insert_odds[code], steps, entry, leave, flanks
                )
                row_exponents[j + 1] = row_exponents[j] + scaled(rows[j + 1], row_ends[j + 1], False)[0]
            for j in range(count, 0, -1):
                t = first + j  # number of symbols up to here
                retreat(row, back, reached, staying, steps, entry, leave, flanks, t == length)
                moved, small = scaled(row, back, watch)
                back_exponent += moved
                lost = lost or small
                factor = factor_of(row_exponents[j] + back_exponent, total, total_exponent)
                code, forth = codes[t - 1], rows[j]
                for k in range(1, m + 1):
                    matched[code, k] += share(forth[0, k], row[0, k], one, factor)
                    inserted[code, k] += share(forth[1, k], row[1, k], one, factor)
                    stepped[2, k] += share(forth[0, k], steps[2, k], row[2, k + 1], factor)
                    stepped[6, k] += share(forth[2, k], steps[6, k], row[2, k + 1], factor)
                for k in range(1, m + 1):
                    reached[k] = times(row[0, k], odds[code, k])
                    staying[k] = times(row[1, k], insert_odds[code, k])
                forth, start = rows[j - 1], row_ends[j - 1, 1]
                factor = factor_of(row_exponents[j - 1] + back_exponent, total, total_exponent)
                for k in range(1, m + 1):
                    entered[k] += share(start, entry[k], reached[k], factor)
                    stepped[0, k] += share(forth[0, k], steps[0, k], reached[k + 1], factor)
                    stepped[3, k] += share(forth[1, k], steps[3, k], reached[k + 1], factor)
                    stepped[5, k] += share(forth[2, k], steps[5, k], reached[k + 1], factor)
                    stepped[1, k] += share(forth[0, k], steps[1, k], staying[k], factor)
                    stepped[4, k] += share(forth[1, k], steps[4, k], staying[k], factor)
        return logarithm(total, total_exponent), lost

    return Recursions(forward, expected)
