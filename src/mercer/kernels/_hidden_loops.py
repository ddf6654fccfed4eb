"""Numba: sums over pairs of weighted points, for latent kernels.

Nothing of a pair of points reaches memory: distances and weights are summed in registers, eight points of one side in
lanes, four of the other at once. Every pair of data is summed alone: its bits do not depend on its neighbours.
"""

from __future__ import annotations

from typing import Any

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["ROWS", "weighted_sums"]

ROWS = 4
"""Points that share every load of eight points of the other side."""
SMALLEST = -690.0
"""Exponents below this are raised to it: what they stand for does not count."""


@intrinsic(prefer_literal=True)
def _row_block(
    typing: Any, rows: Any, x: Any, x_at: Any, v: Any, v_at: Any, y: Any, y_at: Any, w: Any, w_at: Any, groups: Any,
    d: Any, m: Any, scale: Any, out: Any,
) -> Any:  # fmt: skip
    """Write, for four points x, sums over all groups of eight points y of exp(scale |x - y|^2) <v, w>."""

    def emit(
        e: Emitter, rows: int, x: Value, x_at: Value, v: Value, v_at: Value, y: Value, y_at: Value, w: Value,
        w_at: Value, groups: Value, d: Value, m: Value, scale: Value, out: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        factor = e.filled(scale)
        points = [b.add(x_at, b.mul(e.constant(r), d)) for r in range(rows)]
        weights = [b.add(v_at, b.mul(e.constant(r), m)) for r in range(rows)]

        def terms(group: Value) -> list[Value]:
            point = b.add(y_at, b.mul(group, b.mul(d, e.constant(LANES))))
            weight = b.add(w_at, b.mul(group, b.mul(m, e.constant(LANES))))

            def squares(k: Value) -> list[Value]:
                eight = e.load(y, e.offset(point, k, LANES))
                apart = [b.fsub(e.spread(x, b.add(begin, k)), eight) for begin in points]
                return [e.multiply(a, a) for a in apart]

            def products(k: Value) -> list[Value]:
                eight = e.load(w, e.offset(weight, k, LANES))
                return [e.multiply(e.spread(v, b.add(begin, k)), eight) for begin in weights]

            found = []
            for square, inner in zip(e.loop_sums(rows, d, squares), e.loop_sums(rows, m, products), strict=True):
                base = e.exponential(e.at_least(e.multiply(square, factor), SMALLEST))
                found.append(e.multiply(base, inner))
            return found

        for r, value in enumerate(e.loop_sums(rows, groups, terms)):
            e.store(e.across(value, e.add), out, e.constant(r * LANES))

    return operation(rows, (x, x_at, v, v_at, y, y_at, w, w_at, groups, d, m, scale, out), emit)


@compiled
def weighted_sums(
    x: Floats, v: Floats, row_at: Floats, blocks: Floats, y: Floats, w: Floats, lane_at: Floats, groups: Floats,
    left: Floats, right: Floats, d: int, m: int, scale: float, out: Floats, room: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write into ``out (P,)`` the sums over all points of the pairs ``left[p], right[p]`` of data.

    ``x`` and ``v`` hold points and weights one after the other, datum i from block ``row_at[i]`` on in ``blocks[i]``
    blocks of four; ``y`` and ``w`` hold them in groups of eight, coordinate by coordinate.
    """
    for p in range(len(left)):
        i, j = left[p], right[p]
        total = 0.0
        y_at, w_at = lane_at[j] * LANES * d, lane_at[j] * LANES * m
        for block in range(row_at[i], row_at[i] + blocks[i]):
            x_at, v_at = block * ROWS * d, block * ROWS * m
            _row_block(4, x, x_at, v, v_at, y, y_at, w, w_at, groups[j], d, m, scale, room)
            for r in range(ROWS):
                total += room[r * LANES]
        out[p] = total
