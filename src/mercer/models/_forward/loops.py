"""Loops over observations around the vector steps of `mercer.models._forward.steps`, compiled for a number of states.

A *group* is what the vector lanes take together: eight runs, longest first, or one run with its states in the lanes.
A lane whose run has ended holds likelihoods of zero; they keep all its weights at zero and change no sum.

Everything computed here is an upper bound of the truth, because what is possible was raised to `FLOOR`. A weight that
was raised at observation t had at most `FLOOR` after the division by the sum c_t, or before it. So the paths through it
add at most ``FLOOR * beta_t / c_t`` to what is 1 in total, with beta the scaled backward weight, itself an upper bound.
Where beta_t / c_t stays below `TRUSTED` at all states that can be reached, all that was added is below
``FLOOR * TRUSTED * length * n_states``, 1e-19 for a million: nothing.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import LANES
from mercer.models._forward import steps

__all__ = ["FOUND", "TRUSTED", "both_passes", "forward_pass", "history_size", "work_size"]

TRUSTED = 1e75
FOUND = 4
"""Numbers that are found of every run: log probability, least sum, lowest weight, largest backward weight."""
BLOCK = 32
"""Observations whose products with their successors are added together, while they are in the cache."""
_PRODUCT, _EXPONENT, _SHIFT, _ERROR, _LEAST, _LOW, _TOP, _LENGTH = (LANES * line for line in range(steps.LINES))
_LAST, _SCRATCH = LANES * steps.LINES, LANES * (steps.LINES + 1)
_LOG_2 = math.log(2.0)


@compiled
def _open(record: Floats, slots: Floats, length: Floats, group: int, width: int) -> int:  # pragma: no cover - compiled
    """Start the record of a group; return the largest length."""
    longest = 0
    record[:] = 0.0
    for lane in range(LANES):
        record[_PRODUCT + lane] = 1.0
        record[_LEAST + lane] = 1.0
        record[_LOW + lane] = 1.0
        run = slots[group * width + min(lane, width - 1)]
        if run >= 0:
            record[_LENGTH + lane] = length[run]
            longest = max(longest, length[run])
    return longest


@compiled
def _load_models(
    initial: Floats, transition: Floats, slots: Floats, model: Floats, group: int, width: int, stride: int, size: int,
    n: int, known: Floats, pi: Floats, forth: Floats, back: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Lay the models of a group out for its lanes, unless they lie there already."""
    for lane in range(width):
        run = slots[group * width + lane]
        if run < 0 or model[run] == known[lane]:
            continue
        known[lane] = model[run]
        p = model[run] * n
        for i in range(n):
            pi[i * stride + lane] = initial[p + i]
            for j in range(n):
                value = transition[(p + i) * n + j]
                forth[i * size + j * stride + lane] = value
                back[j * size + i * stride + lane] = value


@compiled
def _place(
    slots: Floats, start: Floats, length: Floats, model: Floats, group: int, width: int, n_codes: int, places: Floats
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Take down where the observations of every lane begin, how many there are, and where its table of codes is."""
    for lane in range(width):
        run = slots[group * width + lane]
        places[0, lane] = start[run] if run >= 0 else 0
        places[1, lane] = length[run] if run >= 0 else 0
        places[2, lane] = model[run] * n_codes if run >= 0 else 0


@compiled
def _gather(
    values: Floats, codes: Floats, n_codes: int, places: Floats, time: int, width: int, stride: int, size: int, n: int,
    target: Floats, at: int, nothing: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Bring the evidence of one observation of every run into the lanes."""
    for lane in range(width):
        base = at + lane
        if time < places[1, lane]:
            row = places[0, lane] + time
            if n_codes > 0:
                row = places[2, lane] + codes[row]
            row *= n
            for j in range(n):
                target[base + j * stride] = values[row + j]
        else:
            for j in range(n):
                target[base + j * stride] = nothing
    for k in range(n * stride, size):  # states that fill up the last vector
        target[at + k] = nothing


@compiled
def _close(record: Floats, slots: Floats, group: int, width: int, found: Floats) -> None:  # pragma: no cover - compiled
    """Write what was found of the runs of a group."""
    for lane in range(width):
        run = slots[group * width + lane]
        if run < 0:
            continue
        at = run * FOUND
        small = math.log(record[_PRODUCT + lane]) + record[_EXPONENT + lane] * _LOG_2 + record[_ERROR + lane]
        found[at] = record[_SHIFT + lane] + small
        found[at + 1] = record[_LEAST + lane]
        found[at + 2] = record[_LOW + lane]
        found[at + 3] = record[_TOP + lane]
        if width == 1:  # its states lie in the lanes
            found[at + 2] = record[_LOW : _LOW + LANES].min()
            found[at + 3] = record[_TOP : _TOP + LANES].max()


def work_size(form: int, n: int) -> int:
    """Count the numbers that a pass needs beside its history."""
    return _SCRATCH + (4 + 3 * n) * abs(form) * LANES


def history_size(form: int, longest: int) -> int:
    """Count the numbers that both passes keep of a group."""
    return (longest + 1) * (2 * abs(form) + 1) * LANES


@functools.cache
def forward_pass(form: int) -> Any:
    """Compile the forward recursion: log likelihoods need no weights of the past."""
    width, stride = (LANES, LANES) if form > 0 else (1, 1)
    size = abs(form) * LANES

    @compiled
    def loop(
        values: Floats, codes: Floats, n_codes: int, initial: Floats, transition: Floats,
        start: Floats, length: Floats, model: Floats, slots: Floats, first: int, last: int, states: int,
        work: Floats, found: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        n = form if form > 0 else states
        record, inverse, rest = work[:_LAST], work[_LAST:_SCRATCH], work[_SCRATCH:]
        pi, likelihood, alpha = rest[:size], rest[size : 2 * size], rest[2 * size : 4 * size]
        forth, back = rest[4 * size : (4 + n) * size], rest[(4 + n) * size : (4 + 2 * n) * size]
        work[:] = 0.0
        known, places = np.full(LANES, -1), np.zeros((3, LANES), np.int64)
        nothing = 0.0 if n_codes > 0 else -np.inf
        for group in range(first, last):
            longest = _open(record, slots, length, group, width)
            _place(slots, start, length, model, group, width, n_codes, places)
            _load_models(initial, transition, slots, model, group, width, stride, size, n, known, pi, forth, back)
            for time in range(longest):
                _gather(values, codes, n_codes, places, time, width, stride, size, n, likelihood, 0, nothing)
                if n_codes == 0:
                    steps.weigh(form, likelihood, 0, record)
                if time == 0:
                    steps.begin(form, alpha, 0, pi, likelihood, 0, inverse, 0, record, 0.0)
                else:
                    before = ((time - 1) & 1) * size
                    steps.forward(
                        form, alpha, before, size - before, forth, likelihood, 0, inverse, 0, record, float(time), n
                    )
                if time & 3 == 3:
                    steps.settle(form, record)
            steps.settle(form, record)
            _close(record, slots, group, width, found)

    return loop


@functools.cache
def both_passes(form: int) -> Any:
    """Compile the forward and the backward recursion with expectations."""
    width, stride = (LANES, LANES) if form > 0 else (1, 1)
    size = abs(form) * LANES

    @compiled
    def loop(
        values: Floats, codes: Floats, n_codes: int, initial: Floats, transition: Floats,
        start: Floats, length: Floats, model: Floats, slots: Floats, first: int, last: int, states: int,
        work: Floats, found: Floats, history: Floats, exact: Floats,
        first_state: Floats, transitions: Floats, visits_of: Floats, posterior: Floats, symbols: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        n = form if form > 0 else states
        record, rest = work[:_LAST], work[_SCRATCH:]
        pi, visits, gamma = rest[:size], rest[size : 2 * size], rest[2 * size : 3 * size]
        forth, back = rest[3 * size : (3 + n) * size], rest[(3 + n) * size : (3 + 2 * n) * size]
        sums = rest[(3 + 2 * n) * size : (3 + 3 * n) * size]
        work[:] = 0.0
        known, places = np.full(LANES, -1), np.zeros((3, LANES), np.int64)
        nothing = 0.0 if n_codes > 0 else -np.inf
        for group in range(first, last):
            longest = _open(record, slots, length, group, width)
            _place(slots, start, length, model, group, width, n_codes, places)
            _load_models(initial, transition, slots, model, group, width, stride, size, n, known, pi, forth, back)
            room = (longest + 1) * size
            alpha, likelihood, inverse = history[:room], history[room : 2 * room], history[2 * room :]
            for time in range(longest):
                at = time * size
                _gather(values, codes, n_codes, places, time, width, stride, size, n, likelihood, at, nothing)
                if n_codes == 0:
                    steps.weigh(form, likelihood, at, record)
                if time == 0:
                    steps.begin(form, alpha, 0, pi, likelihood, 0, inverse, 0, record, 0.0)
                else:
                    steps.forward(
                        form, alpha, at - size, at, forth, likelihood, at, inverse, time * LANES, record, float(time), n
                    )
                if time & 3 == 3:
                    steps.settle(form, record)
            likelihood[longest * size :] = 0.0
            visits[:] = 0.0
            sums[:] = 0.0
            for time in range(longest - 1, -1, -1):
                at = time * size
                steps.backward(
                    form, alpha, at, back, likelihood, inverse, time * LANES, visits, gamma, record, float(time), n
                )
                if time % BLOCK == 0:  # all successors of this block are known
                    for i in range(n):
                        steps.outer(form, sums, i, alpha, at, likelihood, min(BLOCK, longest - 1 - time))
                if posterior.size > 0:
                    for lane in range(width):
                        if time < places[1, lane]:
                            row = (places[0, lane] + time) * n
                            for j in range(n):
                                posterior[row + j] = gamma[j * stride + lane]
                if symbols.size > 0:
                    for lane in range(width):
                        if time < places[1, lane]:
                            p = slots[group * width + lane] * n * n_codes + codes[places[0, lane] + time]
                            for j in range(n):
                                symbols[p + j * n_codes] += gamma[j * stride + lane]
            steps.settle(form, record)
            _close(record, slots, group, width, found)
            for lane in range(width):
                run = slots[group * width + lane]
                if run < 0:
                    continue
                for i in range(n):
                    visits_of[run * n + i] = visits[i * stride + lane]
                    first_state[run * n + i] = gamma[i * stride + lane] if length[run] > 0 else 0.0
                    for j in range(n):
                        weight = exact[(model[run] * n + i) * n + j]
                        transitions[(run * n + i) * n + j] = sums[i * size + j * stride + lane] * weight

    return loop
