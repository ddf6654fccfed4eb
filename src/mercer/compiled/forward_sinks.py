"""Sinks of the forward and backward pass: expectations of runs, and steps by the symbols at their two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.forward import BLOCK, Sink, few_codes
from mercer.compiled.forward_form import ROW, Form
from mercer.compiled.forward_sums import count, outer
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

# -- expectations: posteriors, and expected numbers of transitions, visits and symbols ----------------------


def expectations_room(form: Form, n: int) -> int:
    """Return the size of the memory for sums of products and counts of few codes."""
    return (n + few_codes(form)) * form.size


def _expectations(form: Form, known: int) -> tuple[Any, Any, Any]:
    """Sink with the arguments first, transitions, visits, states, symbols (flat; empty to skip), codes, n_codes.

    Products of forward and backward weights are summed over all steps, and multiplied by the transitions at the end.
    """
    width, stride, size, row = form.runs, form.stride, form.size, form.row
    count_code, add_products = (vector_function(form.lanes, form)(emit) for emit in (count, outer))

    @compiled
    def begin(given: Any, room: Floats, runs: Floats, n: int) -> None:  # pragma: no cover - compiled
        room[:] = 0.0

    @compiled
    def block(
        given: Any, room: Floats, runs: Floats, alpha: Floats, waiting: Floats, gamma: Floats, seen: Floats, top: int,
        time: int, longest: int, n: int,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        _, _, _, posterior, symbols, codes, n_codes = given
        for i in range(n if row else 1):
            add_products(room, i, alpha, time * size, waiting, min(BLOCK, longest - 1 - time))
        observed = min(BLOCK, longest - time)
        if symbols.size > 0:
            for c in range(top):
                count_code(room[n * size :], c, seen, time * width, gamma, observed)
        one_by_one = symbols.size > 0 and top == 0
        if posterior.size == 0 and not one_by_one:
            return
        for t in range(observed):
            for lane in range(width):
                if time + t >= runs[1, lane]:
                    continue
                at, place = t * size + lane, runs[0, lane] + time + t
                if posterior.size > 0:
                    for j in range(n):
                        posterior[place * n + j] = gamma[at + j * stride]
                if one_by_one:
                    p = runs[3, lane] * n * n_codes + codes[place]
                    for j in range(n):
                        symbols[p + j * n_codes] += gamma[at + j * stride]

    @compiled
    def end(
        given: Any, room: Floats, runs: Floats, visits: Floats, gamma: Floats, top: int, exact: Floats, n: int
    ) -> None:  # pragma: no cover - compiled
        first_state, transitions, visits_of, _, symbols, _, n_codes = given
        for lane in range(width):
            run = runs[3, lane]
            if run < 0:
                continue
            for i in range(n):
                visits_of[run * n + i] = visits[i * stride + lane]
                first_state[run * n + i] = gamma[i * stride + lane] if runs[1, lane] > 0 else 0.0
                if symbols.size > 0:
                    for c in range(top):
                        symbols[(run * n + i) * n_codes + c] = room[((n + c) * n + i) * stride + lane]
                for j in range(n):
                    weight = exact[(runs[2, lane] * n + i) * n + j]
                    transitions[(run * n + i) * n + j] = room[i * size + j * stride + lane] * weight

    return begin, block, end


EXPECTATIONS = Sink(_expectations)


# -- steps: expected transitions by the symbols at their two ends (MK-7, second order) ----------------------


def steps_room(form: Form, n: int, cells: int) -> int:
    """Return the size of the memory for ``cells`` cells and the rows of a block."""
    return (cells * n + BLOCK * form.runs) * Form.alone(n).size


def _steps(form: Form, n: int) -> tuple[Any, Any, Any]:
    """Sink with the arguments cell ``(T,)``, cells ``(S + 1,)`` and out ``(number of cells, n, n)``.

    Writes the posteriors of its steps to every cell, divided by the number of steps of its run. Run s has the cells
    ``cells[s]:cells[s + 1]``, and its step to observation t belongs to number ``cell[t]`` of them.
    """
    width, stride, size, row, line = form.runs, form.stride, form.size, form.row, Form.alone(n).size
    add_step = vector_function(ROW, n)(_add_step)

    @compiled
    def begin(given: Any, room: Floats, runs: Floats, known: int) -> None:  # pragma: no cover - compiled
        cells = given[1]
        total = BLOCK * width * line
        for lane in range(width):
            runs[4, lane] = total
            if runs[3, lane] >= 0:
                total += (cells[runs[3, lane] + 1] - cells[runs[3, lane]]) * (n * line)
        room[:total] = 0.0

    @compiled
    def block(
        given: Any, room: Floats, runs: Floats, alpha: Floats, waiting: Floats, gamma: Floats, seen: Floats, top: int,
        time: int, longest: int, known: int,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        cell = given[0]
        count = min(BLOCK, longest - 1 - time)
        if not row:  # lanes become rows
            for lane in range(width):
                for t in range(count):
                    for j in range(n):
                        room[(t * width + lane) * line + j] = waiting[(time + t + 1) * size + j * stride + lane]
        for t in range(count):
            here = (time + t) * size
            for lane in range(width):  # one by one: a cell is rarely used again soon
                if time + t + 1 >= runs[1, lane]:
                    continue
                at = runs[4, lane] + cell[runs[0, lane] + time + t + 1] * (n * line)
                if row:
                    add_step(room, at, alpha, here, stride, waiting, here + size)
                else:
                    add_step(room, at, alpha, here + lane, stride, room, (t * width + lane) * line)

    @compiled
    def end(
        given: Any, room: Floats, runs: Floats, visits: Floats, gamma: Floats, top: int, exact: Floats, known: int
    ) -> None:  # pragma: no cover - compiled
        _, cells, out = given
        for lane in range(width):
            run = runs[3, lane]
            if run < 0:
                continue
            at, share = runs[4, lane], 1.0 / max(runs[1, lane] - 1, 1)
            for c in range(cells[run], cells[run + 1]):
                for i in range(n):
                    for j in range(n):
                        out[c, i, j] = room[at + j] * (exact[(runs[2, lane] * n + i) * n + j] * share)
                    at += line

    return begin, block, end


STEPS = Sink(_steps)


def _add_step(
    e: Emitter, n: int, cell: Value, at: Value, alpha: Value, here: Value, stride: Value, row: Value, there: Value
) -> None:
    """Add the products of n weights, ``stride`` apart, with a zero-padded row of n numbers to a cell."""
    b, blocks = e.builder, -(-n // ROW)
    after = [e.load(row, b.add(there, e.constant(k * ROW))) for k in range(blocks)]

    def add(first: Value, count: int) -> None:
        """Load everything before storing: the compiler cannot know that the arrays do not overlap."""
        before = [e.spread(alpha, b.add(here, b.mul(b.add(first, e.constant(i)), stride))) for i in range(count)]
        places = [
            [e.offset(at, b.add(first, e.constant(i)), blocks * ROW, k * ROW) for k in range(blocks)]
            for i in range(count)
        ]
        sums = [
            [e.add(e.load(cell, p), e.multiply(w, v)) for p, v in zip(line, after, strict=True)]
            for w, line in zip(before, places, strict=True)
        ]
        for line, values in zip(places, sums, strict=True):
            for p, value in zip(line, values, strict=True):
                e.store(value, cell, p)

    if n * blocks <= MACHINE.registers // 2:
        add(e.constant(0), n)
        return
    with cgutils.for_range(b, e.constant(n)) as loop:
        add(loop.index, 1)


@compiled
def pair_cells(
    codes: Floats, offsets: Floats, width: int, cell: Floats, owner: Floats, pair: Floats
) -> int:  # pragma: no cover - compiled
    """Assign a cell to every step, one per sequence and pair of codes; return the number of cells.

    The step to observation t has cell number ``cell[t]`` of its sequence; ``owner`` and ``pair`` are the sequence and
    the codes ``first * width + second`` of each cell.
    """
    slot = np.full(width * width, -1)
    count = 0
    for s in range(len(offsets) - 1):
        before = count
        for t in range(offsets[s] + 1, offsets[s + 1]):
            p = codes[t - 1] * width + codes[t]
            if slot[p] < 0:
                slot[p] = count - before
                owner[count] = s
                pair[count] = p
                count += 1
            cell[t] = slot[p]
        for t in range(offsets[s] + 1, offsets[s + 1]):
            slot[codes[t - 1] * width + codes[t]] = -1
    return count
