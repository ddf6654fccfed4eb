"""Numba: sums of exp(-c |x - y|^2) over pairs of points, eight points of one side in lanes, four of the other at once.

Distances are summed from differences in registers and nothing of a pair of points reaches memory, so that no digit
cancels and no table is made. Every pair of sets is summed alone: its bits do not depend on its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["NEAREST", "ROWS", "SMALLEST", "SUM", "TWO_SUMS", "over_pairs", "over_rows"]

ROWS = 4
"""Points that share every load of eight points of the other side, and fill the pipeline beside each other."""
SUM, NEAREST, TWO_SUMS = 1, 2, 3
"""What is asked: the sum of 2^t, the smallest squared distance, or the sums of 2^t and of its square."""
SMALLEST = {SUM: -1020.0, TWO_SUMS: -500.0}
"""Exponents below this are raised to it: what they stand for does not count."""
TERMS = 13
"""Of Taylor's polynomial of 2^f, |f| <= 1/2: the next one is below 2e-16."""


def _power_of_two(e: Emitter, t: Value) -> Value:
    """Compute 2^t for -1020 <= t <= 1000: the whole part goes into the exponent, the rest into a polynomial."""
    b = e.builder
    integers = ir.VectorType(e.integer, LANES)
    magic = e.number(1.5 * 2.0**52)  # adding it rounds to a whole number, which then lies in the lowest bits
    moved = b.fadd(t, magic)
    rest = b.fsub(t, b.fsub(moved, magic))
    value = e.number(math.log(2) ** (TERMS - 1) / math.factorial(TERMS - 1))
    for k in range(TERMS - 2, -1, -1):  # four rows side by side hide the latency of Horner's scheme
        value = e.add(e.multiply(value, rest), e.number(math.log(2) ** k / math.factorial(k)))
    whole = b.shl(b.bitcast(moved, integers), ir.Constant(integers, [52] * LANES))
    return b.bitcast(b.add(b.bitcast(value, integers), whole), e.vector)


@intrinsic(prefer_literal=True)
def _row_block(
    typing: Any, what: Any, x: Any, row: Any, y: Any, first: Any, groups: Any, d: Any, scale: Any, shift: Any, at: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Write, for four points x, sums over all groups of eight points y of 2^(scale |x - y|^2 + shift)."""

    def emit(
        e: Emitter, what: int, x: Value, row: Value, y: Value, first: Value, groups: Value, d: Value, scale: Value,
        shift: Value, at: Value, out: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        factor = e.filled(scale)
        moved = [e.spread(shift, b.add(at, e.constant(r))) for r in range(ROWS)]
        begins = [b.add(row, b.mul(e.constant(r), d)) for r in range(ROWS)]

        def squares(group: Value) -> list[Value]:
            start = b.add(first, b.mul(group, b.mul(d, e.constant(LANES))))

            def terms(k: Value) -> list[Value]:
                eight = e.load(y, e.offset(start, k, LANES))
                apart = [b.fsub(e.spread(x, b.add(begin, k)), eight) for begin in begins]
                return [e.multiply(a, a) for a in apart]

            return e.loop_sums(ROWS, d, terms)

        def powers(group: Value) -> list[Value]:
            found = []
            for square, plus in zip(squares(group), moved, strict=True):
                t = e.add(e.multiply(square, factor), plus)
                found.append(_power_of_two(e, e.at_least(t, SMALLEST[what])))
            return found if what == SUM else found + [e.multiply(p, p) for p in found]

        if what == NEAREST:
            values = _largest(e, ROWS, groups, lambda group: [b.fneg(s) for s in squares(group)])
            for r, value in enumerate(values):
                e.store(e.across(value, e.larger), out, e.constant(r * LANES))
            return
        sums = e.loop_sums(ROWS if what == SUM else 2 * ROWS, groups, powers)
        for r, value in enumerate(sums):
            e.store(e.across(value, e.add), out, e.constant(r * LANES))

    return operation(what, (x, row, y, first, groups, d, scale, shift, at, out), emit)


def _largest(e: Emitter, count: int, trips: Value, terms: Callable[[Value], list[Value]]) -> list[Value]:
    """Keep the largest of ``count`` vectors over a loop."""
    cells = [cgutils.alloca_once(e.builder, e.vector) for _ in range(count)]
    for cell in cells:
        e.builder.store(e.number(-math.inf), cell)
    with cgutils.for_range(e.builder, trips) as loop:
        for cell, term in zip(cells, terms(loop.index), strict=True):
            e.builder.store(e.larger(term, e.builder.load(cell)), cell)
    return [e.builder.load(cell) for cell in cells]


@compiled
def _sum_block(x, row, y, first, groups, d, scale, shift, at, out):  # type: ignore[no-untyped-def]
    _row_block(1, x, row, y, first, groups, d, scale, shift, at, out)


@compiled
def _nearest_block(x, row, y, first, groups, d, scale, shift, at, out):  # type: ignore[no-untyped-def]
    _row_block(2, x, row, y, first, groups, d, scale, shift, at, out)


@compiled
def _two_block(x, row, y, first, groups, d, scale, shift, at, out):  # type: ignore[no-untyped-def]
    _row_block(3, x, row, y, first, groups, d, scale, shift, at, out)


@compiled
def over_pairs(what, rows, row_at, blocks, lanes, lane_at, groups, left, right, d, scale, shift, out, found):  # type: ignore[no-untyped-def]
    """Write into ``out (P, 2)`` what is asked of every pair ``left[p], right[p]`` of sets.

    ``rows`` holds points one after the other, set i from ``row_at[i]`` on in ``blocks[i]`` blocks of four; ``lanes``
    holds them in groups of eight, coordinate by coordinate. ``found`` is room for eight vectors.
    """
    four = found[8 * LANES :]
    for p in range(len(left)):
        i, j = left[p], right[p]
        first, second = 0.0, 0.0
        if what == NEAREST:
            first = -math.inf
        four[:ROWS] = shift[p]
        for block in range(blocks[i]):
            row = row_at[i] + block * ROWS * d
            if what == SUM:
                _sum_block(rows, row, lanes, lane_at[j], groups[j], d, scale[p], four, 0, found)
                for r in range(ROWS):
                    first += found[r * LANES]
            elif what == NEAREST:
                _nearest_block(rows, row, lanes, lane_at[j], groups[j], d, scale[p], four, 0, found)
                for r in range(ROWS):
                    first = max(first, found[r * LANES])
            else:
                _two_block(rows, row, lanes, lane_at[j], groups[j], d, scale[p], four, 0, found)
                for r in range(ROWS):
                    first += found[r * LANES]
                    second += found[(ROWS + r) * LANES]
        out[p, 0] = -first if what == NEAREST else first
        out[p, 1] = second


@compiled
def over_rows(what, rows, blocks, lanes, lane_at, groups, d, scale, shift, out, found):  # type: ignore[no-untyped-def]
    """Write into ``out`` what is asked of every single point of ``rows`` and one set."""
    for block in range(blocks):
        row, at = block * ROWS * d, block * ROWS
        if what == SUM:
            _sum_block(rows, row, lanes, lane_at, groups, d, scale, shift, at, found)
            for r in range(ROWS):
                out[at + r] = found[r * LANES]
        else:
            _nearest_block(rows, row, lanes, lane_at, groups, d, scale, shift, at, found)
            for r in range(ROWS):
                out[at + r] = -found[r * LANES]
