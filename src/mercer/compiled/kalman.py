"""Kalman filter over groups of runs, one run with its own linear dynamical system per lane.

The filter is ALG-KF. Covariances and gains do not depend on the observations. They are computed once where they are the
same: in all steps after the covariance has converged, until the next gap, and in all groups of runs of one model, up to
their first gap. Steps with one record are a *stretch*: only the mean goes on, m <- b + K (x - d) + L m, L = A - K C,
and all else is a product of matrices with a row per step. A covariance that has converged in a lane stays as it is
there, whatever the other lanes do. A run that has ended leaves its lane to itself; its results are read when it ends.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman_step import (
    ACTIVE,
    CM,
    EYE,
    FC,
    FIRST,
    GAIN,
    GOING,
    INVERSE,
    KT,
    LOOP,
    LOWER,
    MARK,
    MEAN,
    MINUS,
    MISSING,
    MU,
    ONE,
    PC,
    PM,
    RECORD,
    RECORDS,
    RM,
    SEEN,
    SOME,
    SQUARES,
    STATE,
    STATES,
    UNIT,
    WORK,
    ZE,
    A,
    B,
    C,
    D,
    M,
    Q,
    R,
    S,
    Z,
    begin_buffer,
    begin_probability,
    load_lane,
    log_density,
    places,
    read_lane,
    take_probability,
    update_covariance,
)  # fmt: skip
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.small_entries import add, add_squares, copy, keep_converged, scale_rows
from mercer.compiled.small_layout import LANES, ZERO
from mercer.compiled.small_matrices import (
    block_product,
    chain,
    product,
    solve,
    solve_upper,
    symmetric_product,
)

__all__ = ["places", "run_filter"]


# -- runs and observations -------------------------------------------------------------------------------


@compiled
def _load_models(w: Floats, at: Any, systems: Any, runs: Floats, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Lay the systems of a group out for its lanes; a lane without a run gets the first one's."""
    a, b, c, offset, q, r, mu, s = systems
    for lane in range(LANES):
        model = runs[2, lane]
        load_lane(w, at[A], a, model * n * n, n * n, lane)
        load_lane(w, at[B], b, model * n, n, lane)
        load_lane(w, at[C], c, model * d * n, d * n, lane)
        load_lane(w, at[D], offset, model * d, d, lane)
        load_lane(w, at[Q], q, model * n * n, n * n, lane)
        load_lane(w, at[R], r, model * d * d, d * d, lane)
        load_lane(w, at[MU], mu, model * n, n, lane)
        load_lane(w, at[S], s, model * n * n, n * n, lane)


@compiled
def begin_groups(w: Floats, at: Any, block: int, d: int) -> None:  # pragma: no cover - compiled
    """Set the vectors that all groups share."""
    begin_buffer(w, at)
    copy(w, at[GOING], at[ONE], 1)
    for k in range(d * d):
        copy(w, at[EYE] + k * LANES, at[ONE] if k % (d + 1) == 0 else ZERO, 1)
    for s in range(-1, block + 1):
        copy(w, at[STATES] + s * at[STATE] + at[UNIT], at[ONE], 1)


@compiled
def place_runs(
    w: Floats, at: Any, systems: Any, group: int, slots: Floats, start: Floats, length: Floats, model: Floats,
    runs: Floats, before: int, n: int, d: int,
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """Take down where the runs of a group begin, their lengths and models, and the runs; load the models.

    Returns the model of all lanes, or -1 if there are several; ``before`` is what was returned for the group before.
    """
    same = True
    for lane in range(LANES):
        run = slots[group * LANES + lane]
        known = run if run >= 0 else slots[group * LANES]
        runs[0, lane] = start[known]
        runs[1, lane] = length[known] if run >= 0 else 0
        runs[2, lane] = model[known]
        runs[3, lane] = run
        same &= runs[2, lane] == runs[2, 0]
    if not same or runs[2, 0] != before:
        _load_models(w, at, systems, runs, n, d)
    return runs[2, 0] if same else -1


@compiled
def next_end(runs: Floats, t: int) -> int:  # pragma: no cover - compiled
    """Return the smallest length of the runs of a group that is larger than t, or t."""
    found = t
    for lane in range(LANES):
        if runs[1, lane] > t:
            found = runs[1, lane] if found == t else min(found, runs[1, lane])
    return found


@compiled
def previous_end(runs: Floats, t: int) -> int:  # pragma: no cover - compiled
    """Return the largest length of the runs of a group that is at most t, or 0."""
    found = 0
    for lane in range(LANES):
        if runs[1, lane] <= t:
            found = max(found, runs[1, lane])
    return found


def _emit_loaded(
    e: Emitter, w: Value, out: Value, step: Value, offset: Value, active: Value, x: Value, cursor: Value, d: Value,
    gaps: Value, steps: Value,
) -> None:  # fmt: skip
    """Emit x - d of some steps of all lanes, and a bit for every lane in which a coordinate is missing."""
    code, one = e.builder, e.constant(LANES)
    bits = ir.VectorType(ir.IntType(1), LANES)
    missing = cgutils.alloca_once(code, bits)
    going = code.fcmp_ordered(">", e.load(w, active), e.number(0.0))
    with cgutils.for_range(code, steps) as times:
        t = times.index
        code.store(ir.Constant(bits, [0] * LANES), missing)
        with cgutils.for_range(code, d) as loop:
            i, value = loop.index, ir.Constant(e.vector, ir.Undefined)
            for lane in range(LANES):
                place = code.add(code.load(code.gep(cursor, [e.constant(lane)])), i)
                number = code.load(code.gep(x, [place]))
                value = code.insert_element(value, number, ir.Constant(ir.IntType(32), lane))
            value = code.select(going, value, e.number(0.0))
            value = code.fsub(value, e.load(w, code.add(offset, code.mul(i, one))))
            code.store(code.or_(code.load(missing), code.fcmp_unordered("uno", value, value)), missing)
            e.store(value, w, code.add(code.add(out, code.mul(t, step)), code.mul(i, one)))
        whole = code.bitcast(code.load(missing), ir.IntType(LANES))
        code.store(code.zext(whole, e.integer), code.gep(gaps, [t]))
        ahead = code.bitcast(cursor, e.words.as_pointer())
        move = code.select(going, e.filled(d, e.words), e.word(0))
        code.store(code.add(code.load(ahead, align=8), move), ahead, align=8)


_loaded = vector_function(LANES)(_emit_loaded)


@compiled
def _load_steps(
    w: Floats, out: int, step: int, offset: int, active: int, x: Floats, cursor: Floats, d: int, gaps: Floats,
    steps: int,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    _loaded(w, out, step, offset, active, x, cursor, d, gaps, steps)


@compiled
def _observe(
    w: Floats, at: Any, x: Floats, runs: Floats, begin: int, end: int, gaps: Floats, d: int
) -> None:  # pragma: no cover - compiled
    """Bring the observations of a block into its states, less the offset, and take down which lanes have gaps."""
    cursor = np.empty(LANES, np.int64)
    t = begin
    while t < end:
        stop = min(next_end(runs, t), end)
        for lane in range(LANES):
            active = t < runs[1, lane]
            w[at[ACTIVE] + lane] = 1.0 if active else 0.0
            cursor[lane] = (runs[0, lane] + t) * d if active else 0
        state = at[STATES] + (t - begin) * at[STATE]
        _load_steps(
            w, state + at[ZE], at[STATE], at[D], at[ACTIVE], x, cursor, d, gaps[t - begin :], stop - t
        )  # fmt: skip
        t = stop


def _emit_left_out(
    e: Emitter, w: Value, ze: Value, seen: Value, some: Value, missing: Value, out: Value, noise: Value, d: Value
) -> None:
    """Emit what a step has seen, zeros for the rest of it, and the noise of what was seen."""
    code, one = e.builder, e.constant(LANES)
    no, yes = e.number(0.0), e.number(1.0)
    count = cgutils.alloca_once(code, e.vector)
    code.store(no, count)

    def at(base: Value, *steps: Value) -> Value:
        return code.add(base, code.mul(functools.reduce(code.add, steps), one))

    with cgutils.for_range(code, d) as loop:
        value = e.load(w, at(ze, loop.index))
        mark = e.where(value, "==", value, yes, no)
        e.store(mark, w, at(seen, loop.index))
        e.store(e.where(value, "==", value, value, no), w, at(ze, loop.index))
        code.store(code.fadd(code.load(count), mark), count)
    found = code.load(count)
    e.store(e.where(found, ">", no, yes, no), w, some)
    whole = e.filled(code.sitofp(d, ir.DoubleType()))
    e.store(code.fadd(e.load(w, missing), code.fsub(whole, found)), w, missing)
    with cgutils.for_range(code, d) as rows, cgutils.for_range(code, d) as columns:
        i, j = rows.index, columns.index
        both = code.fmul(e.load(w, at(seen, i)), e.load(w, at(seen, j)))
        own = code.select(code.icmp_signed("==", i, j), yes, no)
        here = code.add(code.mul(i, d), j)
        e.store(e.where(both, ">", no, e.load(w, at(noise, here)), own), w, at(out, here))


_left_out = vector_function(LANES)(_emit_left_out)


@compiled
def _leave_out(w: Floats, at: Any, state: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Take the coordinates that were not seen in a step out of it, and out of emission and noise."""
    _left_out(w, state + at[ZE], state + at[SEEN], state + at[SOME], at[MISSING], at[RM], at[R], d)
    scale_rows(w, at[CM], at[C], state + at[SEEN], d, n)


# -- covariances -----------------------------------------------------------------------------------------


@compiled
def predict_covariance(w: Floats, at: Any, out: int, record: int, n: int) -> None:  # pragma: no cover - compiled
    """Compute the covariance of the state after the step of a record, A F A' + Q."""
    symmetric_product(w, out, at[Q], record + at[M], n, 1, at[A], 1, n, n, n, 1.0)


@compiled
def _next_covariance(w: Floats, at: Any, out: int, record: int, n: int) -> bool:  # pragma: no cover - compiled
    """Predict the next covariance; return whether it is that of the record in all lanes."""
    predict_covariance(w, at, out, record, n)
    kept = keep_converged(w, at[MARK], out, record + at[PC], n)
    add(w, at[WORK], at[WORK], at[ONE], at[ONE], 1)
    add(w, at[WORK], at[WORK], at[MARK], at[MINUS], 1)
    return kept


@compiled
def _fill_record(w: Floats, at: Any, record: int, cm: int, rm: int, n: int, d: int) -> None:  # pragma: no cover
    """Condition the predicted covariance of a record on an observation, and compute what means take."""
    update_covariance(w, at, record, cm, rm, n, d)
    gain, kt, loop = record + at[GAIN], record + at[KT], record + at[LOOP]
    solve_upper(w, gain, record + at[LOWER], record + at[INVERSE], record + at[Z], d, n)
    product(w, kt, ZERO, gain, n, 1, at[A], 1, n, d, n, n, 1.0)
    product(w, loop, at[A], kt, 1, n, cm, n, 1, n, d, n, -1.0)
    product(w, record + at[M], ZERO, at[A], n, 1, record + at[FC], n, 1, n, n, n, 1.0)


# -- means -----------------------------------------------------------------------------------------------


@compiled
def _filter_means(
    w: Floats, at: Any, record: int, state: int, steps: int, cm: int, n: int, d: int, filtered: bool
) -> None:  # pragma: no cover - compiled
    """Filter a stretch: predict the means of its steps and the one behind, and take its probability down."""
    step = at[STATE] // LANES
    mean, ze = state + at[MEAN], state + at[ZE]
    block_product(
        w, mean + at[STATE], step, at[B], 0, ze, step, 1, record + at[KT], n, 1, steps, d, n, 1.0
    )  # fmt: skip
    chain(w, mean, step, record + at[LOOP], 1, n, n, steps)
    block_product(w, ze, step, ze, step, mean, step, 1, cm, 1, n, steps, n, d, -1.0)
    solve(w, ze, ze, 1, step, record + at[LOWER], record + at[INVERSE], False, d, steps)
    take_probability(w, at, record, steps)
    if filtered:
        block_product(w, mean, step, mean, step, ze, step, 1, record + at[Z], n, 1, steps, d, n, 1.0)


# -- many steps ------------------------------------------------------------------------------------------


@compiled
def begin_runs(w: Floats, at: Any, runs: Floats, n: int, log_prob: Floats) -> int:  # pragma: no cover - compiled
    """Start before the first observation; return the largest length."""
    copy(w, at[PM], at[MU], n)
    copy(w, at[FIRST], at[S], n * n)
    begin_probability(w, at)
    copy(w, at[WORK], ZERO, 1)
    longest = 0
    for lane in range(LANES):
        longest = max(longest, runs[1, lane])
        if runs[3, lane] >= 0:
            log_prob[runs[3, lane]] = 0.0  # of an empty run
    return longest


@compiled
def forward(
    w: Floats, at: Any, x: Floats, runs: Floats, begin: int, end: int, known: int, which: Floats, gaps: Floats, n: int,
    d: int, log_prob: Floats, means: Floats, covariances: Floats, filtered: bool,
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """Filter a block of steps, from ``begin`` to ``end``, of the runs of a group.

    The first ``known`` records hold for these models already. Takes down the record ``which`` each step has, and its
    ``gaps``. Returns how many records from the first hold for the models after any steps without gaps.
    """
    _observe(w, at, x, runs, begin, end, gaps, d)
    copy(w, at[STATES] + at[MEAN], at[PM], n)
    steady, s, count, record, last = False, 0, end - begin, 0, 0
    waiting = 0  # squares of steps from here on are not in the sum yet
    while s < count:
        state, gap = at[STATES] + s * at[STATE], gaps[s] != 0
        cm, rm = at[C], at[R]
        if gap:
            _leave_out(w, at, state, n, d)
            cm, rm, known, steady = at[CM], at[RM], min(known, s), False
        if s >= known:
            if steady:
                which[s] = which[s - 1]
            else:
                record = at[RECORDS] + s * at[RECORD]
                if s == 0:
                    copy(w, record + at[PC], at[FIRST], n * n)
                else:
                    before = at[RECORDS] + which[s - 1] * at[RECORD]
                    steady = _next_covariance(w, at, record + at[PC], before, n)
                    steady = steady and not gap and gaps[s - 1] == 0
                which[s] = which[s - 1] if steady else s
                if not steady:
                    _fill_record(w, at, record, cm, rm, n, d)
            if s == known and not gap:
                known = s + 1
        if s >= last:
            last = min(next_end(runs, begin + s) - begin, count)
        stop = s + 1
        while not gap and stop < last and gaps[stop] == 0:
            if stop >= known:
                if not steady:
                    break
                which[stop] = which[s]
                known = stop + 1 if stop == known else known
            elif which[stop] != which[s]:
                break
            stop += 1
        record = at[RECORDS] + which[s] * at[RECORD]
        _filter_means(w, at, record, state, stop - s, cm, n, d, filtered)
        if stop == last:
            squares = at[STATES] + waiting * at[STATE] + at[ZE]
            add_squares(w, at[SQUARES], squares, at[STATE] // LANES, d, stop - waiting)
            waiting = stop
            for lane in range(LANES):
                if begin + stop == runs[1, lane]:
                    log_prob[runs[3, lane]] = log_density(w, at, lane, runs[1, lane] * d)
        if means.size > 0:
            for k in range(s, stop):
                for lane in range(LANES):
                    if begin + k < runs[1, lane]:
                        place = runs[0, lane] + begin + k
                        read_lane(w, at[STATES] + k * at[STATE] + at[MEAN], n, lane, means, place * n)
                        read_lane(w, record + at[FC], n * n, lane, covariances, place * n * n)
        s = stop
    copy(w, at[PM], at[STATES] + count * at[STATE] + at[MEAN], n)
    _next_covariance(w, at, at[FIRST], record, n)
    return known


@compiled
def run_filter(
    w: Floats, at: Any, systems: Any, x: Floats, start: Floats, length: Floats, model: Floats, slots: Floats,
    block: int, n: int, d: int, log_prob: Floats, means: Floats, covariances: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Filter every run.

    Parameters
    ----------
    w, at : ndarray
        Buffer, and where its parts are.
    systems : tuple of ndarray
        Flat arrays of the parameters of all models: A, b, C, d, Q, R, mu, S.
    x : ndarray
        Observations, flat; NaN is missing.
    start, length, model : ndarray of int of shape (S,)
        First observation, number of observations and model of every run.
    slots : ndarray of int
        The runs of every group of lanes, longest first; -1 is none.
    block : int
        Steps that the buffer has records of.
    n, d : int
        Numbers of state and observed coordinates.
    log_prob : ndarray of shape (S,)
        Where log probabilities are written.
    means, covariances : ndarray
        Where filtered states are written, flat, one per observation; empty ones are not wanted.
    """
    runs, which, gaps = np.empty((4, LANES), np.int64), np.empty(block, np.int64), np.empty(block, np.int64)
    before, known = -1, 0
    begin_groups(w, at, block, d)
    for group in range(len(slots) // LANES):
        own = place_runs(w, at, systems, group, slots, start, length, model, runs, before, n, d)
        known = known if own == before and own >= 0 else 0
        before = own
        longest = begin_runs(w, at, runs, n, log_prob)
        for begin in range(0, longest, block):
            end = min(begin + block, longest)
            known = forward(
                w, at, x, runs, begin, end, known if begin == 0 else 0, which, gaps, n, d, log_prob, means, covariances,
                means.size > 0,
            )  # fmt: skip
        if longest > block:
            known = 0
