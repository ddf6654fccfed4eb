"""Forward and backward recursions over groups of runs; an exchangeable *sink* uses the posteriors (ALG-FB).

A *group* is computed together in SIMD lanes: several runs, longest first, or one run with its states in the lanes
(`mercer.compiled.forward_form.Form`). A lane whose run has ended has likelihoods of zero, which keep its weights at
zero and change no sum.

All results are upper bounds of the exact values, because positive numbers are raised to `FLOOR`. A weight that was
raised at observation t was at most `FLOOR` after the division by the sum c_t, or before it. So the paths through it add
at most ``FLOOR * beta_t / c_t`` to a total of 1, where beta is the scaled backward weight, itself an upper bound. If
beta_t / c_t stays below `TRUSTED` at all reachable states, the total error is below
``FLOOR * TRUSTED * length * n_states``, or 1e-19 for a million, which is negligible.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled import forward_steps as steps
from mercer.compiled.code import compiled
from mercer.compiled.forward_form import Form
from mercer.compiled.forward_sums import choose
from mercer.compiled.lanes import vector_function
from mercer.compiled.ranged import LOG_2

TRUSTED = 1e75
FOUND = 4
"""Results per run: log probability, smallest sum, smallest weight, largest backward weight."""
BLOCK = 32
"""Number of observations that are processed together, so that they stay in the cache."""


class Sink(NamedTuple):
    """Consumer of the posteriors: three functions that are compiled into the backward pass.

    ``make(form, n)`` returns compiled functions ``begin``, ``block`` and ``end``; n is 0 if it is not known in advance.

    - ``begin(given, room, runs, n)`` is called before the backward pass over a group,
    - ``block(given, room, runs, alpha, waiting, gamma, seen, top, time, longest, n)`` after every `BLOCK` observations,
      the first of which is ``time``. alpha are the forward weights; gamma are the posteriors of the block. The
      posterior of a step from i at t to j is ``alpha[t](i) transition(i, j) waiting[t + 1](j)``. If ``top`` is
      positive, ``seen`` are the codes of all observations, lane by lane, all below ``top``.
    - ``end(given, room, runs, visits, gamma, top, exact, n)`` after the pass, when gamma starts with the first
    observation.

    ``given`` are the arguments of the sink, ``room`` is its scratch memory. ``runs`` has five rows with one number per
    lane: the first observation, the number of observations, the model, the run or -1, and one free for the sink.
    """

    make: Callable[[Form, int], tuple[Any, Any, Any]]


@compiled
def _nothing(*arguments: Any) -> None:  # pragma: no cover - compiled
    """Do nothing: the functions of an absent sink."""


@compiled
def _open(record: Floats, runs: Floats, lanes: int, width: int) -> int:  # pragma: no cover - compiled
    """Initialize the record of a group; return the largest length."""
    longest = 0
    record[:] = 0.0
    for lane in range(lanes):
        record[steps.PRODUCT * lanes + lane] = 1.0
        record[steps.LEAST * lanes + lane] = 1.0
        record[steps.LOW * lanes + lane] = 1.0
        length = runs[1, min(lane, width - 1)]
        record[steps.LENGTH * lanes + lane] = length
        longest = max(longest, length)
    return longest


@compiled
def _place(
    slots: Floats, start: Floats, length: Floats, model: Floats, group: int, width: int, runs: Floats
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Record the first observation, the number of observations, the model, and the run (or -1) of every lane."""
    for lane in range(width):
        run = slots[group * width + lane]
        runs[0, lane] = start[run] if run >= 0 else 0
        runs[1, lane] = length[run] if run >= 0 else 0
        runs[2, lane] = model[run] if run >= 0 else 0
        runs[3, lane] = run


@compiled
def _load_models(
    initial: Floats, transition: Floats, runs: Floats, width: int, stride: int, size: int, n: int, known: Floats,
    pi: Floats, forth: Floats, back: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Arrange the models of a group in lanes, unless they are there already."""
    for lane in range(width):
        if runs[3, lane] < 0 or runs[2, lane] == known[lane]:
            continue
        known[lane] = runs[2, lane]
        p = known[lane] * n
        for i in range(n):
            pi[i * stride + lane] = initial[p + i]
            for j in range(n):
                value = transition[(p + i) * n + j]
                forth[i * size + j * stride + lane] = value
                back[j * size + i * stride + lane] = value


@compiled
def _note_codes(
    codes: Floats, runs: Floats, longest: int, lanes: int, seen: Floats
) -> int:  # pragma: no cover - compiled
    """Arrange the codes of a group in lanes, -1 after the end of a run; return the number of codes."""
    top = 0
    for lane in range(lanes):
        for time in range(longest):
            code = codes[runs[0, lane] + time] if time < runs[1, lane] else -1
            seen[time * lanes + lane] = code
            top = max(top, code + 1)
    return top


@compiled
def _load_tables(
    values: Floats, n_codes: int, top: int, runs: Floats, lanes: int, n: int, tables: Floats
) -> None:  # pragma: no cover - compiled
    """Arrange the likelihoods of the first codes in lanes: [code][state][lane]."""
    for lane in range(lanes):
        for k in range(top * n):
            tables[k * lanes + lane] = values[runs[2, lane] * n_codes * n + k]


@compiled
def _gather(
    values: Floats, codes: Floats, n_codes: int, runs: Floats, time: int, width: int, stride: int, size: int, n: int,
    target: Floats, at: int, nothing: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Arrange the evidence of one observation of every run in lanes."""
    for lane in range(width):
        base = at + lane
        if time < runs[1, lane]:
            row = runs[0, lane] + time
            if n_codes > 0:
                row = runs[2, lane] * n_codes + codes[row]
            row *= n
            for j in range(n):
                target[base + j * stride] = values[row + j]
        else:
            for j in range(n):
                target[base + j * stride] = nothing
    for k in range(n * stride, size):  # padding states of the last vector
        target[at + k] = nothing


@compiled
def _close(record: Floats, runs: Floats, lanes: int, width: int, found: Floats) -> None:  # pragma: no cover - compiled
    """Write the results of the runs of a group."""
    for lane in range(width):
        if runs[3, lane] < 0:
            continue
        at = runs[3, lane] * FOUND
        small = math.log(record[steps.PRODUCT * lanes + lane]) + record[steps.EXPONENT * lanes + lane] * LOG_2
        found[at] = record[steps.SHIFT * lanes + lane] + (small + record[steps.ERROR * lanes + lane])
        found[at + 1] = record[steps.LEAST * lanes + lane]
        low, top = steps.LOW * lanes + lane, steps.TOP * lanes + lane
        count = lanes if width == 1 else 1  # for a single run, the lanes are states
        found[at + 2] = record[low : low + count].min()
        found[at + 3] = record[top : top + count].max()


def work_size(form: Form, n: int) -> int:
    """Return the size of the scratch memory of a pass, without its history and the sink's memory."""
    return steps.LINES * form.lanes + (2 + BLOCK + 2 * n + few_codes(form)) * form.size


def few_codes(form: Form) -> int:
    """Return the number of codes that are looked up and counted in lanes instead of one by one."""
    return 0 if form.row else form.lanes


def history_size(form: Form, longest: int, whole: bool) -> int:
    """Return the size of the history of a group: all observations for a sink, else one `BLOCK`; all codes."""
    kept = longest if whole else BLOCK
    return (kept + 1) * (2 * form.size + form.lanes) + longest * form.lanes


@functools.cache
def passes(form: Form, sink: Sink | None, n_states: int = 0) -> Any:
    """Compile the forward pass over groups of one form and, if there is a sink, the backward pass.

    A row is compiled for its number of vectors; a sink may need the number of states, too.
    """
    lanes, width, stride, size = form.lanes, form.runs, form.stride, form.size
    few = few_codes(form)
    whole, known_n = sink is not None, n_states if form.row else form.vectors
    emitters = choose, steps.weigh, steps.begin, steps.forward, steps.backward, steps.settle
    look_up, weigh, begin, forward, backward, settle = (vector_function(lanes, form)(emit) for emit in emitters)
    sink_begin, sink_block, sink_end = sink.make(form, known_n) if sink else (_nothing,) * 3

    @compiled
    def loop(
        values: Floats, codes: Floats, n_codes: int, initial: Floats, transition: Floats, exact: Floats, states: int,
        start: Floats, length: Floats, model: Floats, slots: Floats, first: int, last: int,
        work: Floats, history: Floats, room: Floats, found: Floats, given: Any,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        n = states if known_n == 0 else known_n
        # Numba compiles a function anew for every constant that it is given; these are no constants to it.
        n_, lanes_, width_, stride_, size_ = (
            np.int64(n), np.int64(lanes), np.int64(width), np.int64(stride), np.int64(size)
        )  # fmt: skip
        record, rest = work[: steps.LINES * lanes], work[steps.LINES * lanes :]
        pi, visits, gamma = rest[:size], rest[size : 2 * size], rest[2 * size : (2 + BLOCK) * size]
        matrices = rest[(2 + BLOCK) * size :]
        forth, back, tables = matrices[: n * size], matrices[n * size : 2 * n * size], matrices[2 * n * size :]
        work[:] = 0.0
        known, runs = np.full(lanes, -1), np.zeros((5, lanes), np.int64)
        nothing = 0.0 if n_codes > 0 else -np.inf
        for group in range(first, last):
            _place(slots, start, length, model, group, width_, runs)
            longest = _open(record, runs, lanes_, width_)
            _load_models(initial, transition, runs, width_, stride_, size_, n_, known, pi, forth, back)
            kept = longest if whole else BLOCK
            end = (kept + 1) * size
            alpha, likelihood, rest = history[:end], history[end : 2 * end], history[2 * end :]
            inverse, seen = rest[: (kept + 1) * lanes], rest[(kept + 1) * lanes :]
            top = 0
            if few > 0 and n_codes > 0:
                top = _note_codes(codes, runs, longest, lanes_, seen)
                top = top if top <= few else 0
                _load_tables(values, n_codes, top, runs, lanes_, n_, tables)
            for block in range(0, longest, BLOCK):
                skip = 0 if whole else block  # without a sink, a block overwrites the previous one
                until = min(block + BLOCK, longest)
                # The whole block first: reading a vector right after writing its numbers one by one stalls
                for time in range(block, until):
                    at = (time - skip) * size
                    if top > 0:
                        look_up(likelihood, at, tables, top, seen, time * lanes)
                        continue
                    _gather(values, codes, n_codes, runs, time, width_, stride_, size_, n_, likelihood, at, nothing)
                if n_codes == 0:
                    for time in range(block, until):
                        weigh(likelihood, (time - skip) * size, record)
                for time in range(block, until):
                    at = (time - skip) * size
                    where = (time - skip) * lanes
                    if time == 0:
                        begin(alpha, 0, pi, likelihood, 0, inverse, 0, record, 0.0)
                    else:
                        before = at - size if whole or at > 0 else (BLOCK - 1) * size
                        forward(alpha, before, at, forth, likelihood, at, inverse, where, record, float(time), n)
                    if time & 3 == 3:
                        settle(record)
            if whole:
                likelihood[longest * size :] = 0.0
                visits[:] = 0.0
                sink_begin(given, room, runs, n)
                for time in range(longest - 1, -1, -1):
                    backward(
                        alpha, time * size, back, likelihood, inverse, time * lanes, visits, gamma,
                        (time % BLOCK) * size, record, float(time), n,
                    )  # fmt: skip
                    if time % BLOCK == 0:
                        sink_block(given, room, runs, alpha, likelihood, gamma, seen, top, time, longest, n)
                sink_end(given, room, runs, visits, gamma, top, exact, n)
            settle(record)
            _close(record, runs, lanes_, width_, found)

    return loop
