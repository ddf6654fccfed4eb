"""Numba: expected steps of hidden chains, apart by what is seen at their two ends (MK-7, second order).

Forward and backward are those of `mercer.models._forward`, eight sequences at once. What they leave behind is all that
is needed: the posterior of the step from state i at time t to j is alpha_t(i) transition(i, j) w_{t+1}(j), and w waits
where the likelihoods were. So the products alpha_t w_{t+1} are added up in the cell of their two symbols while
both are in the cache, and transitions are multiplied at the end.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation
from mercer.models._forward import steps
from mercer.models._forward.loops import BLOCK, _close, _gather, _load_models, _open, _place
from mercer.models._forward.wide_range import _scaled, _split_all, _sum, forward_all

__all__ = ["pair_cells", "step_passes", "wide_steps", "work_size"]

_RECORD = LANES * steps.LINES
_LOG_2 = math.log(2.0)


@intrinsic(prefer_literal=True)
def _add_step(
    typing: Any, n: Any, cell: Any, at: Any, alpha: Any, here: Any, stride: Any, row: Any, there: Any
) -> Any:  # fmt: skip
    """Add the products of n weights, ``stride`` apart, and a row of n numbers, filled up by zeros, to a cell."""

    def emit(
        e: Emitter, n: int, cell: Value, at: Value, alpha: Value, here: Value, stride: Value, row: Value, there: Value
    ) -> None:
        b, blocks = e.builder, -(-n // LANES)
        after = [e.load(row, b.add(there, e.constant(k * LANES))) for k in range(blocks)]

        def add(first: Value, count: int) -> None:
            """Load all before anything is stored: the compiler cannot know that the arrays do not overlap."""
            before = [e.spread(alpha, b.add(here, b.mul(b.add(first, e.constant(i)), stride))) for i in range(count)]
            places = [
                [e.offset(at, b.add(first, e.constant(i)), blocks * LANES, k * LANES) for k in range(blocks)]
                for i in range(count)
            ]
            sums = [
                [e.add(e.load(cell, p), e.multiply(w, v)) for p, v in zip(line, after, strict=True)]
                for w, line in zip(before, places, strict=True)
            ]
            for line, values in zip(places, sums, strict=True):
                for p, value in zip(line, values, strict=True):
                    e.store(value, cell, p)

        if blocks == 1:
            add(e.constant(0), n)
            return
        with cgutils.for_range(b, e.constant(n)) as loop:
            add(loop.index, 1)

    return operation(n, (cell, at, alpha, here, stride, row, there), emit)


def work_size(form: int, n: int) -> int:
    """Count the numbers that both passes need beside their history and the cells."""
    return _RECORD + (3 + 2 * n) * abs(form) * LANES + BLOCK * LANES * -(-n // LANES) * LANES


@functools.cache
def step_passes(form: int, n: int) -> Any:
    """Compile forward, backward and the sums of steps for groups of one form (see `_forward.steps`) and n states."""
    width, stride = (LANES, LANES) if form > 0 else (1, 1)
    size, line = abs(form) * LANES, -(-n // LANES) * LANES

    @compiled
    def loop(
        values: Floats, codes: Floats, n_codes: int, initial: Floats, transition: Floats, start: Floats,
        length: Floats, model: Floats, slots: Floats, first: int, last: int, work: Floats, found: Floats,
        history: Floats, exact: Floats, cell: Floats, cells: Floats, room: Floats, out: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Write into every cell of ``out`` the posteriors of its steps, divided by the number of all steps.

        Run s has the cells ``cells[s]:cells[s + 1]``, and its step into observation t belongs to the ``cell[t]``-th.
        """
        record, rest = work[:_RECORD], work[_RECORD:]
        pi, visits, gamma = rest[:size], rest[size : 2 * size], rest[2 * size : 3 * size]
        forth, back = rest[3 * size : (3 + n) * size], rest[(3 + n) * size : (3 + 2 * n) * size]
        rows = rest[(3 + 2 * n) * size :]
        work[:] = 0.0
        known, places, begins = np.full(LANES, -1), np.zeros((3, LANES), np.int64), np.zeros(LANES, np.int64)
        nothing = 0.0 if n_codes > 0 else -np.inf
        for group in range(first, last):
            longest = _open(record, slots, length, group, width)
            _place(slots, start, length, model, group, width, n_codes, places)
            _load_models(initial, transition, slots, model, group, width, stride, size, n, known, pi, forth, back)
            end = (longest + 1) * size
            alpha, waiting, inverse = history[:end], history[end : 2 * end], history[2 * end :]
            for time in range(longest):
                at = time * size
                _gather(values, codes, n_codes, places, time, width, stride, size, n, waiting, at, nothing)
                if n_codes == 0:
                    steps.weigh(form, waiting, at, record)
                if time == 0:
                    steps.begin(form, alpha, 0, pi, waiting, 0, inverse, 0, record, 0.0)
                else:
                    steps.forward(
                        form, alpha, at - size, at, forth, waiting, at, inverse, time * LANES, record, float(time), n
                    )
                if time & 3 == 3:
                    steps.settle(form, record)
            waiting[longest * size :] = 0.0
            total = 0
            for lane in range(width):
                begins[lane] = total
                run = slots[group * width + lane]
                if run >= 0:
                    total += (cells[run + 1] - cells[run]) * (n * line)
            room[:total] = 0.0
            for time in range(longest - 1, -1, -1):
                steps.backward(
                    form, alpha, time * size, back, waiting, inverse, time * LANES, visits, gamma, record,
                    float(time), n,
                )  # fmt: skip
                if time % BLOCK > 0:  # successors of this block are not known yet
                    continue
                count = min(BLOCK, longest - 1 - time)
                if form > 0:  # lanes become rows
                    for lane in range(width):
                        for t in range(count):
                            for j in range(n):
                                rows[(t * LANES + lane) * line + j] = waiting[(time + t + 1) * size + j * LANES + lane]
                for t in range(count):
                    here = (time + t) * size
                    for lane in range(width):  # one by one: a cell is seldom wanted again before it is written
                        if time + t + 1 >= places[1, lane]:
                            continue
                        at = begins[lane] + cell[places[0, lane] + time + t + 1] * (n * line)
                        if form > 0:
                            _add_step(n, room, at, alpha, here + lane, stride, rows, (t * LANES + lane) * line)
                        else:
                            _add_step(n, room, at, alpha, here, stride, waiting, here + size)
            steps.settle(form, record)
            _close(record, slots, group, width, found)
            for lane in range(width):
                run = slots[group * width + lane]
                if run < 0:
                    continue
                at, share = begins[lane], 1.0 / max(length[run] - 1, 1)
                for c in range(cells[run], cells[run + 1]):
                    for i in range(n):
                        for j in range(n):
                            out[c, i, j] = room[at + j] * (exact[(model[run] * n + i) * n + j] * share)
                        at += line

    return loop


@compiled
def wide_steps(
    initial: Floats, transition: Floats, lm: Floats, le: Floats, cell: Floats, out: Floats
) -> float:  # pragma: no cover - compiled
    """Do the same for one sequence, slowly, with numbers that cannot leave their range; return the log probability.

    Likelihoods are ``lm 2^le``, ``(L, n)``, as in `mercer.models._forward.wide_range`. ``out`` are its cells.
    """
    length, n = lm.shape
    am, ae = _split_all(transition)
    m, e = np.empty((length, n)), np.empty((length, n))
    out[:] = 0.0
    total, exponent = forward_all(initial, am, ae, lm, le, m, e)
    if total == 0.0:
        return -np.inf
    beta_m, beta_e, new_m, new_e = np.ones(n), np.zeros(n), np.empty(n), np.empty(n)
    terms_m, terms_e = np.empty(n), np.empty(n)
    scale = 1.0 / (total * max(length - 1, 1))
    for t in range(length - 1, 0, -1):
        for i in range(n):
            for j in range(n):
                terms_m[j], terms_e[j] = am[i, j] * (lm[t, j] * beta_m[j]), ae[i, j] + le[t, j] + beta_e[j]
                out[cell[t], i, j] += _scaled(m[t - 1, i] * terms_m[j] * scale, e[t - 1, i] + terms_e[j] - exponent)
            new_m[i], new_e[i] = _sum(terms_m, terms_e)
        beta_m, beta_e, new_m, new_e = new_m, new_e, beta_m, beta_e
    return float(math.log(total) + exponent * _LOG_2)


@compiled
def pair_cells(
    codes: Floats, offsets: Floats, width: int, cell: Floats, owner: Floats, pair: Floats
) -> int:  # pragma: no cover - compiled
    """Give every step a cell: one for every sequence and pair of codes in it; returns the number of all.

    The step into observation t has the ``cell[t]``-th of its sequence; ``owner`` and ``pair`` say whose a cell is, and
    of which codes ``first * width + second``.
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
