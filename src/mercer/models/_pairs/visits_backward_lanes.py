"""What `mercer.models._pairs.visits_backward` does, for eight pairs side by side in vector lanes (MK-5).

Rows of cells lie as [cell][state or exponent][lane], with an unreachable cell before the first one. Lanes differ in
their lengths: what is beyond the end of a string has emissions of zero, and weights of zero.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import literally

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation
from mercer.models._pairs.visits_loops import NEVER, power, profile

__all__ = ["lane_counts"]

_LOG_2 = math.log(2.0)


def _load_cell(e: Emitter, n: int, array: Value, place: Value) -> tuple[list[Value], Value]:
    """Load the weights of a cell and its exponent."""
    numbers = [e.load(array, e.builder.add(place, e.constant(a * LANES))) for a in range(n + 1)]
    return numbers[:n], numbers[n]


def _store_scaled(e: Emitter, values: list[Value], top: Value, array: Value, place: Value) -> None:
    """Store weights relative to their largest, and their exponent."""
    b, zero = e.builder, e.number(0.0)
    largest = functools.reduce(e.larger, values)
    possible = b.fcmp_ordered(">", largest, zero)
    _, exponent = e.split(largest)
    scale = power(e, b.select(possible, b.fsub(zero, exponent), zero))
    for a, value in enumerate(values):
        e.store(b.fmul(value, scale), array, b.add(place, e.constant(a * LANES)))
    e.store(
        b.select(possible, b.fadd(top, exponent), e.number(NEVER)), array, b.add(place, e.constant(len(values) * LANES))
    )


def _together(e: Emitter, cells: list[tuple[list[Value], Value]]) -> tuple[list[list[Value]], Value]:
    """Bring three cells to the largest of their exponents."""
    top = functools.reduce(e.larger, [exponent for _, exponent in cells])
    found = []
    for values, exponent in cells:
        factor = power(e, e.builder.fsub(exponent, top))
        found.append([e.builder.fmul(value, factor) for value in values])
    return found, top


def _three_ways(
    e: Emitter, n: int, cells: list[list[Value]], left: Value, s: Value, right: Value, t: Value, silent: Value
) -> list[tuple[Value, Value, Value]]:
    """Weigh the three kinds of a visit, in every state: a symbol for s alone, for t alone, for both."""
    b, found = e.builder, []
    for a in range(n):
        shift, nothing = e.constant(a * LANES), e.spread(silent, e.constant(a))
        here, there = e.load(left, b.add(s, shift)), e.load(right, b.add(t, shift))
        first = b.fmul(cells[0][a], b.fmul(here, nothing))
        second = b.fmul(cells[1][a], b.fmul(there, nothing))
        found.append((first, second, b.fmul(cells[2][a], b.fmul(here, there))))
    return found


@intrinsic(prefer_literal=True)
def _go(
    typing: Any, n: Any, rows: Any, before: Any, at: Any, been: Any, left: Any, s: Any, right: Any, t: Any,
    silent: Any, step: Any,
) -> Any:  # fmt: skip
    """Fill the cell at ``at`` of S and G; the cell above it stands at ``before``."""

    def emit(
        e: Emitter, n: int, rows: Value, before: Value, at: Value, been: Value, left: Value, s: Value, right: Value,
        t: Value, silent: Value, step: Value,
    ) -> None:  # fmt: skip
        b, width = e.builder, e.constant((n + 1) * LANES)
        places = (before, b.sub(at, width), b.sub(before, width))
        cells, top = _together(e, [_load_cell(e, n, rows, place) for place in places])
        sums: list[Value] = []
        for a, (up, beside, across) in enumerate(_three_ways(e, n, cells, left, s, right, t, silent)):
            weight = b.fadd(b.fadd(up, beside), across)
            e.store(weight, been, b.add(at, e.constant(a * LANES)))
            terms = [e.multiply(weight, e.spread(step, e.constant(a * n + c))) for c in range(n)]
            sums = [e.add(x, y) for x, y in zip(sums, terms, strict=True)] if sums else terms
        e.store(top, been, b.add(at, e.constant(n * LANES)))
        _store_scaled(e, sums, top, rows, at)

    return operation(n, (rows, before, at, been, left, s, right, t, silent, step), emit)


@intrinsic(prefer_literal=True)
def _return(
    typing: Any, n: Any, after: Any, here: Any, j: Any, left: Any, s: Any, right: Any, t: Any, silent: Any, step: Any,
    rows: Any, been: Any, at: Any, ends: Any, sums: Any, column: Any, entry: Any,
) -> Any:  # fmt: skip
    """Fill cell ``j`` of ``here``, what follows a visit, and add what is expected of the visits that begin here.

    ``sums`` holds, eight numbers each: once (n), symbols of s in this row (n), moves (n n); ``column`` the symbols of
    t; ``entry`` receives what follows an entry (n) and its exponent; ``ends`` holds 1 / total and its exponent.
    """

    def emit(
        e: Emitter, n: int, after: Value, here: Value, j: Value, left: Value, s: Value, right: Value, t: Value,
        silent: Value, step: Value, rows: Value, been: Value, at: Value, ends: Value, sums: Value, column: Value,
        entry: Value,
    ) -> None:  # fmt: skip
        b, width = e.builder, e.constant((n + 1) * LANES)
        beyond = b.add(j, width)
        places = ((after, j), (here, beyond), (after, beyond))
        cells, top = _together(e, [_load_cell(e, n, array, place) for array, place in places])
        ways = _three_ways(e, n, cells, left, s, right, t, silent)
        inverse, whole = e.load(ends, e.constant(0)), e.load(ends, e.constant(LANES))

        def relative(exponent: Value) -> Value:
            """Give the exponent of a posterior, times 1 / kappa."""
            total = b.fsub(b.fadd(exponent, top), whole)
            total = e.where(total, ">", e.number(1000.0), e.number(1000.0), total)
            return b.fmul(power(e, total), inverse)

        entered, entered_exponent = _load_cell(e, n, rows, at)
        visited, visited_exponent = _load_cell(e, n, been, at)
        scale, weight = relative(entered_exponent), relative(visited_exponent)
        follows = []
        for a, (up, beside, across) in enumerate(ways):
            shift = e.constant(a * LANES)
            follows.append(b.fadd(b.fadd(up, beside), across))
            e.store(follows[a], entry, shift)
            share = b.fmul(entered[a], scale)
            for array, place, kind in (
                (sums, shift, b.fadd(up, beside)),
                (sums, e.constant((n + a) * LANES), b.fadd(up, across)),
                (column, b.add(t, shift), b.fadd(beside, across)),
            ):
                e.store(e.add(e.load(array, place), e.multiply(share, kind)), array, place)
        e.store(top, entry, e.constant(n * LANES))
        back = []
        for i in range(n):
            gone = b.fmul(visited[i], weight)
            terms = []
            for a in range(n):
                place = e.constant((2 * n + i * n + a) * LANES)
                e.store(e.add(e.load(sums, place), e.multiply(gone, follows[a])), sums, place)
                terms.append(e.multiply(e.spread(step, e.constant(i * n + a)), follows[a]))
            back.append(functools.reduce(e.add, terms))
        _store_scaled(e, back, top, here, j)

    kinds = (after, here, j, left, s, right, t, silent, step, rows, been, at, ends, sums, column, entry)
    return operation(n, kinds, emit)


@compiled
def _blank(size: int, n: int) -> Floats:  # pragma: no cover - compiled
    """Return so many numbers of cells that are unreachable."""
    cells = np.zeros(size)
    for place in range(0, size, (n + 1) * LANES):
        cells[place + n * LANES : place + (n + 1) * LANES] = NEVER
    return cells


@compiled
def _who(slots: Floats, first: Floats, second: Floats, offsets: Floats) -> tuple[Floats, Floats]:  # pragma: no cover
    """Return where the strings of both sides begin, ``(2, 8)``, and their lengths, -1 where there is no pair."""
    begin, length = np.zeros((2, LANES), np.int64), np.full((2, LANES), -1)
    for lane in range(LANES):
        if slots[lane] >= 0:
            for side, who in enumerate((first[slots[lane]], second[slots[lane]])):
                begin[side, lane], length[side, lane] = offsets[who], offsets[who + 1] - offsets[who]
    return begin, length


@compiled
def _forward_row(
    n: int, i: int, base: int, line: int, wide: int, rows: Floats, been: Floats, left: Floats, right: Floats,
    silent: Floats, start: Floats, step: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill row i of S and G, which begins at ``base``; the row above it stands ``line`` numbers before."""
    width, states = (n + 1) * LANES, n * LANES
    for j in range(wide + 1):
        at = base + j * width
        if i + j > 0:
            _go(literally(n), rows, at - line, at, been, left, i * states, right, j * states, silent, step)
            continue
        for lane in range(LANES):
            for a in range(n):
                rows[at + a * LANES + lane], been[at + a * LANES + lane] = start[a], 0.0
            rows[at + n * LANES + lane], been[at + n * LANES + lane] = 0.0, NEVER


@compiled
def _close(
    n: int, lane: int, at: int, pair: int, been: Floats, stop: Floats, ends: Floats, moves: Floats, value: Floats
) -> None:  # pragma: no cover - compiled
    """Write the log kernel of a pair whose last cell is at ``at``, and what is expected of its last step."""
    total = 0.0
    for a in range(n):
        total += been[at + a * LANES] * stop[a]
    whole = been[at + n * LANES]
    value[pair] = math.log(total) + whole * _LOG_2 if total > 0.0 else -np.inf
    ends[lane], ends[LANES + lane] = 1.0 / total if total > 0.0 else 0.0, whole
    for a in range(n):
        moves[pair, a, n] = been[at + a * LANES] * ends[lane]


@compiled
def _backward_row(
    n: int, i: int, base: int, length: Floats, wide: int, after: Floats, here: Floats, left: Floats, right: Floats,
    silent: Floats, step: Floats, stop: Floats, rows: Floats, been: Floats, ends: Floats, sums: Floats, column: Floats,
    entry: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill row i of what follows a visit, ``here``, and add up what is expected of the visits that begin in it."""
    width, states = (n + 1) * LANES, n * LANES
    sums[states : 2 * states] = 0.0
    last = False
    for lane in range(LANES):
        last = last or length[0, lane] == i
    for j in range(wide, -1, -1):
        _return(
            literally(n), after, here, j * width, left, (i + 1) * states, right, (j + 1) * states, silent, step, rows,
            been, base + j * width, ends, sums, column, entry,
        )  # fmt: skip
        for lane in range(LANES):
            if last and length[0, lane] == i and length[1, lane] == j:  # here the end is possible
                for a in range(n):
                    here[j * width + a * LANES + lane] = stop[a]
                here[j * width + n * LANES + lane] = 0.0


@compiled
def _collect(
    n: int, lane: int, pair: int, t: Floats, ends: Floats, sums: Floats, column: Floats, entry: Floats, gain: Floats,
    moves: Floats, symbols: Floats, once: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write what one lane has added up, for the pair whose second string is ``t``."""
    weight = 2.0 ** min(max(entry[n * LANES + lane] - ends[LANES + lane], -1000.0), 1000.0) * ends[lane]
    for a in range(n):
        once[pair, a] = sums[a * LANES + lane]
        gain[pair, a] = entry[a * LANES + lane] * weight
        for c in range(n):
            moves[pair, a, c] = sums[(2 * n + a * n + c) * LANES + lane]
        for j in range(len(t)):
            symbols[pair, a, t[j]] += column[((j + 1) * n + a) * LANES + lane]


@functools.cache
def lane_counts(n: int) -> Any:
    """Return the compiled loop for ``n`` states.

    It takes the numbers of eight pairs ``slots``, -1 where there is none, and as `visits_loops.lane_sweep` who they are
    and the model; it writes gradients in the eliminated start ``gain (P, n + 1)`` and step ``moves (P, n, n + 1)``,
    numbers of ``symbols (P, n, C)`` and of nothing beside a symbol ``once (P, n)``, and log kernels ``value (P,)``. No
    pair has two empty strings.
    """

    @compiled
    def loop(
        slots: Floats, first: Floats, second: Floats, codes: Floats, offsets: Floats, table: Floats, silent: Floats,
        start: Floats, step: Floats, stop: Floats, gain: Floats, moves: Floats, symbols: Floats, once: Floats,
        value: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        width, states = (n + 1) * LANES, n * LANES
        begin, length = _who(slots, first, second, offsets)
        tall, wide = length[0].max(), length[1].max()
        left = profile(codes, begin[0], length[0], tall + 1, table)
        right = profile(codes, begin[1], length[1], wide + 1, table)
        block = math.ceil(math.sqrt(tall + 1.0))
        count = (tall + block) // block
        line = (wide + 2) * width
        kept, rows, been = np.empty((count, line)), _blank((block + 1) * line, n), _blank((block + 1) * line, n)
        after, here = _blank((wide + 3) * width, n), _blank((wide + 3) * width, n)
        ends, sums, column = np.zeros(2 * LANES), np.zeros((2 + n) * states), np.zeros((wide + 2) * states)
        entry = np.zeros(width)
        for q in range(2 * count):  # all blocks forward, then from the last one: forward once more, and backward
            again = q >= count
            part = 2 * count - 1 - q if again else q
            if again:
                rows[:line] = kept[part]
            else:
                kept[part] = rows[:line]
            low, top = part * block, min((part + 1) * block, tall + 1)
            for i in range(low, top):
                base = (i - low + 1) * line + width
                _forward_row(n, i, base, line, wide, rows, been, left, right, silent, start, step)
                for lane in range(LANES):
                    if not again and slots[lane] >= 0 and length[0, lane] == i:
                        at = base + length[1, lane] * width + lane
                        _close(n, lane, at, slots[lane], been, stop, ends, moves, value)
            if not again:
                rows[:line] = rows[(top - low) * line : (top - low + 1) * line]
                continue
            for i in range(top - 1, low - 1, -1):
                _backward_row(
                    n, i, (i - low + 1) * line + width, length, wide, after, here, left, right, silent, step, stop,
                    rows, been, ends, sums, column, entry,
                )  # fmt: skip
                for lane in range(LANES):
                    if i < length[0, lane]:
                        code = codes[begin[0, lane] + i]
                        for a in range(n):
                            symbols[slots[lane], a, code] += sums[(n + a) * LANES + lane]
                after, here = here, after
        for lane in range(LANES):
            if slots[lane] >= 0:
                t = codes[begin[1, lane] : begin[1, lane] + length[1, lane]]
                _collect(n, lane, slots[lane], t, ends, sums, column, entry, gain, moves, symbols, once)

    return loop
