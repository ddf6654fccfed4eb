"""Recursions of profile hidden Markov models: forward and expected counts (Plan 7).

A row is ``(3, M + 2)``: match, insert and delete states of the nodes, with zeros before the first and after the last
node. The flanks N, J and C, and the begin B of the profile, are four numbers beside it. Each recursion is written once
and instantiated for two kinds of numbers (`mercer.compiled.profile_numbers`). A model is a tuple of arrays ``odds,
insert_odds (codes, M + 2)``, ``steps (7, M + 2)``, ``entry, leave (M + 2,)``, ``flanks (4,)``, in the kind's own
numbers.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer.compiled.code import compiled
from mercer.compiled.profile_numbers import FLOATS, LOGS, Kind


class Recursions(NamedTuple):
    """The recursions in one kind of numbers."""

    forward: Any
    expected: Any


@functools.cache
def recursions(logs: bool) -> Recursions:
    """Instantiate the recursions for floats, or for logarithms."""
    kind = LOGS if logs else FLOATS
    begin, onward = _begin(kind), _onward(kind)
    return Recursions(_forward(kind, begin, onward), _expected(kind, begin, onward))


def _begin(kind: Kind) -> Any:
    zero, one = kind.zero, kind.one

    @compiled(contract=True)
    def begin(row: Floats, ends: Floats, model: Any) -> None:  # pragma: no cover - compiled
        """Write the row before the first symbol; ``ends`` are N, B, J and C."""
        flanks = model[5]
        row[:] = zero
        ends[:] = zero
        ends[0], ends[1] = one, flanks[1]

    return begin


def _onward(kind: Kind) -> Any:
    plus, times, scaled, zero = kind.plus, kind.times, kind.scaled, kind.zero

    @compiled(contract=True)
    def advance(
        before: Floats, after: Floats, ends: Floats, code: int, model: Any
    ) -> None:  # pragma: no cover - compiled
        """Write the row of the next symbol, and update ``ends``."""
        all_odds, all_insert_odds, steps, entry, leave, flanks = model
        odds, insert_odds = all_odds[code], all_insert_odds[code]
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
    def onward(
        before: Floats, after: Floats, ends: Floats, code: int, model: Any, watch: bool
    ) -> tuple[int, bool]:  # pragma: no cover - compiled
        """Advance by a symbol and scale the row; return the exponent, and whether small numbers may be lost."""
        advance(before, after, ends, code, model)
        return scaled(after, ends, watch)

    return onward


def _forward(kind: Kind, begin: Any, onward: Any) -> Any:
    times, logarithm, zero = kind.times, kind.logarithm, kind.zero

    @compiled
    def forward(codes: Indices, model: Any, watch: bool) -> tuple[float, bool]:  # pragma: no cover - compiled
        """Return the log odds of a sequence against background symbols, and whether small numbers may be lost."""
        entry, flanks = model[3], model[5]
        width = entry.shape[0]
        before, after, ends = np.empty((3, width)), np.full((3, width), zero), np.empty(4)
        begin(before, ends, model)
        exponent, lost = 0, False
        for code in codes:
            moved, small = onward(before, after, ends, code, model, watch)
            exponent += moved
            lost = lost or small
            before, after = after, before
        return logarithm(times(ends[3], flanks[1]), exponent), lost

    return forward


def _retreat(kind: Kind) -> Any:
    plus, times, zero = kind.plus, kind.times, kind.zero

    @compiled(contract=True)
    def retreat(
        row: Floats, ends: Floats, reached: Floats, inserted: Floats, model: Any, last: bool
    ) -> None:  # pragma: no cover - compiled
        """Write the row of a symbol from that of the next one; ``ends`` are N, B, J, C and E.

        ``reached`` and ``inserted`` are the next match and insert states times the odds of the next symbol.
        """
        _, _, steps, entry, leave, flanks = model
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

    return retreat


def _expected(kind: Kind, begin: Any, onward: Any) -> Any:
    times, scaled, logarithm, factor_of = kind.times, kind.scaled, kind.logarithm, kind.factor
    zero, one = kind.zero, kind.one
    retreat, share = _retreat(kind), kind.share

    @compiled
    def expected(
        codes: Indices, model: Any, watch: bool, counts: Any
    ) -> tuple[float, bool]:  # pragma: no cover - compiled
        """Add the expected counts of a sequence; return its log odds, and whether small numbers may be lost.

        ``counts`` are ``matched`` and ``inserted (codes, M + 2)`` of symbols, ``stepped (7, M + 2)`` of transitions
        and ``entered (M + 2,)`` of entries. Forward rows are stored for every block of about sqrt(L) symbols, and
        computed again within a block.
        """
        odds, insert_odds, steps, entry, _, flanks = model
        matched, inserted, stepped, entered = counts
        length, width = codes.shape[0], entry.shape[0]
        size = max(1, int(math.sqrt(length)))
        blocks = (length + size - 1) // size
        kept, kept_ends = np.full((blocks + 1, 3, width), zero), np.full((blocks + 1, 4), zero)
        exponents, lost, exponent = np.zeros(blocks + 1, np.int64), False, 0
        begin(kept[0], kept_ends[0], model)
        before, after, ends = kept[0].copy(), np.full((3, width), zero), kept_ends[0].copy()
        for t in range(length):
            moved, small = onward(before, after, ends, codes[t], model, watch)
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
                row_ends[j + 1] = row_ends[j]
                moved, _ = onward(rows[j], rows[j + 1], row_ends[j + 1], codes[first + j], model, False)
                row_exponents[j + 1] = row_exponents[j] + moved
            for j in range(count, 0, -1):
                t = first + j  # number of symbols up to here
                retreat(row, back, reached, staying, model, t == length)
                moved, small = scaled(row, back, watch)
                back_exponent += moved
                lost = lost or small
                code, forth = codes[t - 1], rows[j]
                factor = factor_of(row_exponents[j] + back_exponent, total, total_exponent)
                for k in range(1, width - 1):
                    matched[code, k] += share(forth[0, k], row[0, k], one, factor)
                    inserted[code, k] += share(forth[1, k], row[1, k], one, factor)
                    stepped[2, k] += share(forth[0, k], steps[2, k], row[2, k + 1], factor)
                    stepped[6, k] += share(forth[2, k], steps[6, k], row[2, k + 1], factor)
                for k in range(1, width - 1):
                    reached[k] = times(row[0, k], odds[code, k])
                    staying[k] = times(row[1, k], insert_odds[code, k])
                forth, start = rows[j - 1], row_ends[j - 1, 1]
                factor = factor_of(row_exponents[j - 1] + back_exponent, total, total_exponent)
                for k in range(1, width - 1):
                    entered[k] += share(start, entry[k], reached[k], factor)
                    stepped[0, k] += share(forth[0, k], steps[0, k], reached[k + 1], factor)
                    stepped[3, k] += share(forth[1, k], steps[3, k], reached[k + 1], factor)
                    stepped[5, k] += share(forth[2, k], steps[5, k], reached[k + 1], factor)
                    stepped[1, k] += share(forth[0, k], steps[1, k], staying[k], factor)
                    stepped[4, k] += share(forth[1, k], steps[4, k], staying[k], factor)
        return logarithm(total, total_exponent), lost

    return expected
