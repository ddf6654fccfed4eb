"""Numba: sums over pairs of weighted points, and over the steps of hidden chains, for latent kernels.

Nothing of a pair of points reaches memory: distances and weights are summed in registers, eight points of one side in
lanes, four of the other at once. Every pair of data is summed alone: its bits do not depend on its neighbours.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

from mercer._array import Floats
from mercer._vector import LANES, Emitter, Value, operation

__all__ = ["ROWS", "pair_cells", "step_counts", "weighted_sums"]

ROWS = 4
"""Points that share every load of eight points of the other side."""
SMALLEST = -690.0
"""Exponents below this are raised to it: what they stand for does not count."""
LOST = 1e-250
"""Below this, a state's probability before its observation has lost terms, and is not divided by."""
SMALL = 1e-50
"""Weights of all states together that are scaled to 1 again."""
NEGLIGIBLE = 1e-18
"""Posteriors of at most this may be lost."""

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


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


@njit(**_OPTIONS)
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


@njit(**_OPTIONS)
def pair_cells(
    codes: Floats, offsets: Floats, width: int, cell: Floats, owner: Floats, pair: Floats
) -> int:  # pragma: no cover - compiled
    """Give every step a cell: one for every sequence and pair of codes in it; returns their number.

    The step into observation t has ``cell[t]``; ``owner`` and ``pair`` say whose it is, and of which codes
    ``first * width + second``.
    """
    slot = np.full(width * width, -1)
    count = 0
    for s in range(len(offsets) - 1):
        for t in range(offsets[s] + 1, offsets[s + 1]):
            p = codes[t - 1] * width + codes[t]
            if slot[p] < 0:
                slot[p] = count
                owner[count] = s
                pair[count] = p
                count += 1
            cell[t] = slot[p]
        for t in range(offsets[s] + 1, offsets[s + 1]):
            slot[codes[t - 1] * width + codes[t]] = -1
    return count


@functools.cache
def step_counts(n: int) -> Any:
    """Compile the loop over steps for a number of states, so that its inner loops are short and known."""

    @njit(fastmath={"contract"}, **_OPTIONS)
    def loop(
        initial: Floats, transition: Floats, table: Floats, row: Floats, states: Floats, offsets: Floats, first: int,
        last: int, cell: Floats, cells: Floats, out: Floats, sound: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Write into every cell of ``out`` the posteriors of its steps, divided by the number of all steps.

        With the posteriors of the states known, one pass forward is enough: the posterior of a step is that of the
        state after it times the probability of the state before it given that and the past. Likelihoods of observation
        t are ``table[row[t]]``. Where digits were lost, ``sound`` is False. Sequence s, from first to last,
        has the cells ``cells[s]:cells[s + 1]``.
        """
        before, after, share = np.empty(n), np.empty(n), np.empty(n)
        for s in range(first, last):
            begin, end = offsets[s], offsets[s + 1]
            if begin == end:
                continue
            for i in range(n):
                before[i] = initial[i]
            for t in range(begin, end):
                if t > begin:
                    for j in range(n):
                        after[j] = 0.0
                    for i in range(n):
                        weight = before[i]
                        for j in range(n):
                            after[j] += weight * transition[i, j]
                    for j in range(n):
                        share[j] = 0.0
                        if after[j] > LOST:
                            share[j] = states[t, j] / after[j]
                        elif states[t, j] > NEGLIGIBLE:
                            sound[s] = False
                    at = cell[t]
                    for i in range(n):
                        weight = before[i]
                        for j in range(n):
                            out[at, i, j] += weight * share[j]
                    for j in range(n):
                        before[j] = after[j]
                total = 0.0
                for j in range(n):
                    before[j] *= table[row[t], j]
                    total += before[j]
                if not total > LOST:
                    sound[s] = False
                    break
                if total < SMALL:  # seldom: what is not divided every time does not wait for a sum
                    for j in range(n):
                        before[j] /= total
            for at in range(cells[s], cells[s + 1]):  # while they are in the cache
                for i in range(n):
                    for j in range(n):
                        out[at, i, j] *= transition[i, j] / max(end - begin - 1, 1)

    return loop
