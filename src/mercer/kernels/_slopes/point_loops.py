"""Numba: sums of q exp(scale q + shift) over the squared distances q of pairs of points, as in `models._kde.loops`.

`mercer.kernels._slopes.points` imports this file when it needs it.
"""

from __future__ import annotations

from typing import Any

from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import Emitter, Value, operation
from mercer.compiled.points import LANES, ROWS

__all__ = ["LANES", "ROWS", "weighted_squares"]

SMALLEST = -690.0
"""Exponents below this stand for nothing: the largest is about 0."""


@intrinsic(prefer_literal=True)
def _row_block(
    typing: Any, rows: Any, x: Any, row: Any, y: Any, first: Any, groups: Any, d: Any, scale: Any, shift: Any, out: Any
) -> Any:  # fmt: skip
    """Write, for four points x, sums over all groups of eight points y."""

    def emit(
        e: Emitter, rows: int, x: Value, row: Value, y: Value, first: Value, groups: Value, d: Value, scale: Value,
        shift: Value, out: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        factor, moved = e.filled(scale), e.filled(shift)
        begins = [b.add(row, b.mul(e.constant(r), d)) for r in range(rows)]

        def terms(group: Value) -> list[Value]:
            start = b.add(first, b.mul(group, b.mul(d, e.constant(LANES))))

            def squares(k: Value) -> list[Value]:
                eight = e.load(y, e.offset(start, k, LANES))
                apart = [b.fsub(e.spread(x, b.add(begin, k)), eight) for begin in begins]
                return [e.multiply(a, a) for a in apart]

            found = []
            for square in e.loop_sums(rows, d, squares):
                t = e.add(e.multiply(square, factor), moved)
                weight = e.exponential(e.at_least(t, SMALLEST))
                # What fills up a group is infinitely far away.
                nothing = e.number(0.0)
                found.append(e.where(t, "<=", e.number(SMALLEST), nothing, e.multiply(square, weight)))
            return found

        for r, value in enumerate(e.loop_sums(rows, groups, terms)):
            e.store(e.across(value, e.add), out, e.constant(r * LANES))

    return operation(rows, (x, row, y, first, groups, d, scale, shift, out), emit, LANES)


@compiled
def weighted_squares(rows, row_at, blocks, lanes, lane_at, groups, left, right, d, scale, shift, out, found):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the sums of every pair ``left[p], right[p]`` of sets into ``out (P,)``; ``found`` is room for four vectors.

    ``rows`` holds points one after the other, set i from ``row_at[i]`` on in ``blocks[i]`` blocks of four; ``lanes``
    holds them in groups of eight, coordinate by coordinate.
    """
    for p in range(len(left)):
        i, j = left[p], right[p]
        total = 0.0
        for block in range(row_at[i], row_at[i] + blocks[i]):
            row = block * ROWS * d
            _row_block(4, rows, row, lanes, lane_at[j] * LANES * d, groups[j], d, scale[p], shift[p], found)
            for r in range(ROWS):
                total += found[r * LANES]
        out[p] = total
