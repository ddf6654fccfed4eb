"""Kalman filter over groups of runs, one run with its own linear dynamical system per lane.

The filter is ALG-KF. A coordinate that was not observed has a zero row in the emission, a noise of variance one that is
correlated with nothing, and no surprise: it changes neither the state nor the probability.

Covariances and gains do not depend on the observations. They are kept in one *record* per step, and computed once
where they are the same: in all steps after the covariance has converged, until the next gap, and in all groups of runs
of one model, up to their first gap. What depends on the observations is kept in one *state* per step. A run that has
ended leaves its lane to itself; its results are read when it ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer.compiled.code import compiled
from mercer.compiled.small_matrices import (
    LANES,
    ZERO,
    add,
    canceled,
    cholesky,
    converged,
    copy,
    multiply_determinant,
    product,
    scale_rows,
    solve_lower,
    solve_upper,
    symmetric_product,
)

__all__ = ["places", "run_filter"]

_LOG_2PI = math.log(2 * math.pi)
_LOG_2 = math.log(2.0)

# Where the parts of a buffer begin: positions in the array that `places` returns.
(
    ONE, MINUS, MARK, GOING,
    # The models: s' = A s + b + noise Q, x = C s + d + noise R, first state N(mu, S).
    A, B, C, D, Q, R, MU, S,
    # What a block of steps starts from: predicted mean and covariance, and what makes up the probability so far.
    PM, FIRST, MANTISSA, EXPONENT, SQUARES, COUNT, END_OF_START,
    # One step: x - d, its surprise, the emission and the noise of what was seen, and the update.
    X, E, CM, RM, PC, NC, CP, V, GAIN, REST, T1, T2,
    # The way back: r and N, the smoothed state, and what they are made of; see `mercer.compiled.kalman_back`.
    BACK, CURVE, SM, SC, NEXT_SM, NEXT_SC, UE, U, KT, LOOP, NM, DC_PART, HR_PART, ROOT, ROOT_INVERSE, JT, T3,
    # Sums over time.
    SUMS, DA, DB, HQ, DC, DD, HR, S2, S1, O2, O1,
    # Records and states: where the first ones begin, their sizes, and their parts from there.
    RECORDS, RECORD, FC, M, LOWER, INVERSE, Z, DET, POWER,
    STATES, STATE, FM, ZE, SEEN, SOME,
    SIZE,
) = range(75)  # fmt: skip


def places(n: int, d: int, block: int) -> Indices:
    """Lay out the buffer of a group of systems with n state and d observed coordinates, for blocks of steps."""
    square, wide = n * n, d * n
    sizes = dict.fromkeys((ONE, MINUS, MARK, GOING, MANTISSA, EXPONENT, SQUARES, COUNT), 1)
    sizes |= dict.fromkeys((B, MU, PM, BACK, SM, NEXT_SM, ROOT_INVERSE, DB, S1, O1), n)
    sizes |= dict.fromkeys((D, X, E, UE, U, DD), d)
    sizes |= dict.fromkeys((A, Q, S, FIRST, PC, NC, REST, T1, T2, T3, CURVE, SC, NEXT_SC, LOOP, NM, ROOT, JT), square)
    sizes |= dict.fromkeys((DA, HQ, S2, O2), square)
    sizes |= dict.fromkeys((C, CM, CP, GAIN, KT, DC_PART, DC), wide)
    sizes |= dict.fromkeys((R, RM, V, HR_PART, HR), d * d)
    sizes |= {END_OF_START: 0, SUMS: 0, T2: max(square, wide, d * d)}
    record = {FC: square, M: square, LOWER: d * d, INVERSE: d, Z: wide, DET: 1, POWER: 1}
    state = {FM: n, ZE: d, SEEN: d, SOME: 1}
    at = np.zeros(SIZE + 1, np.int64)
    begin = LANES  # after the zero vector
    for part in range(RECORDS):
        at[part] = begin
        begin += sizes[part] * LANES
    for first, width, parts in ((RECORDS, RECORD, record), (STATES, STATE, state)):
        at[first], inside = begin, 0
        for part, size in parts.items():
            at[part] = inside
            inside += size * LANES
        at[width] = inside
        begin += block * inside
    at[SIZE] = begin
    return at


# -- runs and observations -------------------------------------------------------------------------------


@compiled
def _load(w: Floats, at: int, values: Floats, model: int, count: int, lane: int) -> None:  # pragma: no cover - compiled
    for k in range(count):
        w[at + k * LANES + lane] = values[model * count + k]


@compiled
def _load_models(w: Floats, at: Any, systems: Any, runs: Floats, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Lay the systems of a group out for its lanes; a lane without a run gets the first one's."""
    a, b, c, offset, q, r, mu, s = systems
    for lane in range(LANES):
        w[ZERO + lane], w[at[ONE] + lane], w[at[MINUS] + lane] = 0.0, 1.0, -1.0
        model = runs[2, lane]
        _load(w, at[A], a, model, n * n, lane)
        _load(w, at[B], b, model, n, lane)
        _load(w, at[C], c, model, d * n, lane)
        _load(w, at[D], offset, model, d, lane)
        _load(w, at[Q], q, model, n * n, lane)
        _load(w, at[R], r, model, d * d, lane)
        _load(w, at[MU], mu, model, n, lane)
        _load(w, at[S], s, model, n * n, lane)


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
def shortest_run(runs: Floats) -> int:  # pragma: no cover - compiled
    """Return the smallest length of the runs of a group that are not empty."""
    found = 0
    for lane in range(LANES):
        if runs[1, lane] > 0:
            found = runs[1, lane] if found == 0 else min(found, runs[1, lane])
    return found


@compiled
def _observe(
    w: Floats, at: Any, state: int, x: Floats, runs: Floats, t: int, d: int, shortest: int
) -> int:  # pragma: no cover - compiled
    """Bring one observation of every run into the lanes; return how many coordinates of all lanes are missing."""
    gaps = 0
    for lane in range(LANES):
        begin, active = (runs[0, lane] + t) * d, t < shortest or t < runs[1, lane]
        for i in range(d):
            value = x[begin + i] if active else 0.0
            gaps += value != value
            k = i * LANES + lane
            w[at[X] + k] = value - w[at[D] + k]
    for lane in range(LANES):
        w[state + at[SOME] + lane] = 1.0
        w[at[COUNT] + lane] += d
    if gaps > 0:
        for lane in range(LANES):
            count = 0
            for i in range(d):
                k = i * LANES + lane
                seen = w[at[X] + k] == w[at[X] + k]
                w[state + at[SEEN] + k] = 1.0 if seen else 0.0
                w[at[X] + k] = w[at[X] + k] if seen else 0.0
                count += seen
            w[state + at[SOME] + lane] = 1.0 if count > 0 else 0.0
            w[at[COUNT] + lane] += count - d
    return gaps


@compiled
def mask(w: Floats, at: Any, state: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Take the coordinates that were not seen out of emission and noise."""
    seen = state + at[SEEN]
    scale_rows(w, at[CM], at[C], seen, d, n)
    for i in range(d):
        for j in range(d):
            own = 1.0 if i == j else 0.0
            k = (i * d + j) * LANES
            for lane in range(LANES):
                both = w[seen + i * LANES + lane] * w[seen + j * LANES + lane]
                w[at[RM] + k + lane] = w[at[R] + k + lane] if both > 0.0 else own


# -- one step --------------------------------------------------------------------------------------------


@compiled(inline=True)
def predict_covariance(w: Floats, at: Any, out: int, record: int, n: int) -> None:  # pragma: no cover - compiled
    """Compute the covariance of the state after the step of a record, A F A' + Q."""
    symmetric_product(w, out, at[Q], record + at[M], n, 1, at[A], 1, n, n, n, 1.0)


@compiled(inline=True)
def _update_covariance(
    w: Floats, at: Any, record: int, pc: int, cm: int, rm: int, n: int, d: int
) -> None:  # pragma: no cover - compiled
    """Condition a predicted covariance on an observation; fill a record."""
    fc, z = record + at[FC], record + at[Z]
    lower, inverse = record + at[LOWER], record + at[INVERSE]
    product(w, at[CP], ZERO, cm, n, 1, pc, n, 1, d, n, n, 1.0)
    symmetric_product(w, at[V], rm, at[CP], n, 1, cm, 1, n, d, n, 1.0)
    cholesky(w, lower, inverse, at[V], d)
    copy(w, record + at[DET], at[ONE], 1)
    copy(w, record + at[POWER], ZERO, 1)
    multiply_determinant(w, record + at[DET], record + at[POWER], inverse, d)
    solve_lower(w, z, lower, inverse, at[CP], d, n)
    symmetric_product(w, fc, pc, z, 1, n, z, n, 1, n, d, -1.0)
    if canceled(w, fc, pc, n):
        solve_upper(w, at[GAIN], lower, inverse, z, d, n)
        product(w, at[REST], ZERO, at[GAIN], 1, n, cm, n, 1, n, d, n, -1.0)
        for i in range(n):
            add(w, at[REST] + i * (n + 1) * LANES, at[REST] + i * (n + 1) * LANES, at[ONE], at[ONE], 1)
        product(w, at[T1], ZERO, at[REST], n, 1, pc, n, 1, n, n, n, 1.0)
        symmetric_product(w, fc, ZERO, at[T1], n, 1, at[REST], 1, n, n, n, 1.0)
        product(w, at[T2], ZERO, rm, d, 1, at[GAIN], n, 1, d, d, n, 1.0)
        symmetric_product(w, fc, fc, at[GAIN], 1, n, at[T2], n, 1, n, d, 1.0)
    product(w, record + at[M], ZERO, at[A], n, 1, fc, n, 1, n, n, n, 1.0)


@compiled(inline=True)
def _update_mean(w: Floats, at: Any, record: int, state: int, cm: int, n: int, d: int) -> None:  # pragma: no cover
    """Condition the predicted mean on an observation, take its probability down, and predict the next mean."""
    fm, z, ze = state + at[FM], record + at[Z], state + at[ZE]
    product(w, at[E], at[X], cm, n, 1, at[PM], 1, 1, d, n, 1, -1.0)
    solve_lower(w, ze, record + at[LOWER], record + at[INVERSE], at[E], d, 1)
    product(w, at[SQUARES], at[SQUARES], ze, 1, 1, ze, 1, 1, 1, d, 1, 1.0)
    multiply_determinant(w, at[MANTISSA], at[EXPONENT], record + at[DET], 1)
    add(w, at[EXPONENT], at[EXPONENT], record + at[POWER], at[ONE], 1)
    product(w, fm, at[PM], z, 1, n, ze, 1, 1, n, d, 1, 1.0)
    product(w, at[PM], at[B], at[A], n, 1, fm, 1, 1, n, n, 1, 1.0)


# -- many steps ------------------------------------------------------------------------------------------


@compiled
def read_lane(w: Floats, at: int, count: int, lane: int, out: Floats, begin: int) -> None:  # pragma: no cover
    """Copy the entries of a matrix in a lane."""
    for k in range(count):
        out[begin + k] = w[at + k * LANES + lane]


@compiled
def begin_runs(w: Floats, at: Any, runs: Floats, n: int, log_prob: Floats) -> int:  # pragma: no cover - compiled
    """Start before the first observation; return the largest length."""
    copy(w, at[PM], at[MU], n)
    copy(w, at[FIRST], at[S], n * n)
    copy(w, at[MANTISSA], at[ONE], 1)
    for part in (at[EXPONENT], at[SQUARES], at[COUNT]):
        copy(w, part, ZERO, 1)
    longest = 0
    for lane in range(LANES):
        longest = max(longest, runs[1, lane])
        if runs[3, lane] >= 0:
            log_prob[runs[3, lane]] = 0.0  # of an empty run
    return longest


@compiled
def forward(
    w: Floats, at: Any, x: Floats, runs: Floats, begin: int, end: int, known: int, which: Floats, gaps: Floats, n: int,
    d: int, log_prob: Floats, means: Floats, covariances: Floats,
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """Filter a block of steps, from ``begin`` to ``end``, of the runs of a group.

    The first ``known`` records hold for these models already. Takes down the record ``which`` each step has, and its
    ``gaps``. Returns how many records from the first hold for the models after any steps without gaps.
    """
    pc, other, fresh, steady = at[PC], at[NC], False, False
    shortest = shortest_run(runs)
    for t in range(begin, end):
        s = t - begin
        state = at[STATES] + s * at[STATE]
        gaps[s] = _observe(w, at, state, x, runs, t, d, shortest)
        cm, rm, gap = at[C], at[R], gaps[s] > 0
        if gap:
            mask(w, at, state, n, d)
            cm, rm, known = at[CM], at[RM], min(known, s)
        if gap or s >= known:
            if gap or not steady:
                if s == 0:
                    copy(w, other, at[FIRST], n * n)
                else:
                    predict_covariance(w, at, other, at[RECORDS] + which[s - 1] * at[RECORD], n)
                steady = fresh and not gap and gaps[s - 1] == 0 and converged(w, other, pc, n)
                pc, other, fresh = other, pc, True
            if steady:
                which[s] = which[s - 1]
            else:
                which[s] = s
                _update_covariance(w, at, at[RECORDS] + s * at[RECORD], pc, cm, rm, n, d)
            if s == known and not gap:
                known = s + 1
        record = at[RECORDS] + which[s] * at[RECORD]
        _update_mean(w, at, record, state, cm, n, d)
        if means.size > 0:
            for lane in range(LANES):
                if t < runs[1, lane]:
                    read_lane(w, state + at[FM], n, lane, means, (runs[0, lane] + t) * n)
                    read_lane(w, record + at[FC], n * n, lane, covariances, (runs[0, lane] + t) * n * n)
        if t + 1 >= shortest:
            for lane in range(LANES):
                if t + 1 == runs[1, lane]:
                    log_root = math.log(w[at[MANTISSA] + lane]) + w[at[EXPONENT] + lane] * _LOG_2
                    square = w[at[SQUARES] + lane] + w[at[COUNT] + lane] * _LOG_2PI
                    log_prob[runs[3, lane]] = log_root - 0.5 * square
    predict_covariance(w, at, at[FIRST], at[RECORDS] + which[end - begin - 1] * at[RECORD], n)
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
    for group in range(len(slots) // LANES):
        own = place_runs(w, at, systems, group, slots, start, length, model, runs, before, n, d)
        known = known if own == before and own >= 0 else 0
        before = own
        longest = begin_runs(w, at, runs, n, log_prob)
        for begin in range(0, longest, block):
            end = min(begin + block, longest)
            known = forward(
                w, at, x, runs, begin, end, known if begin == 0 else 0, which, gaps, n, d, log_prob, means, covariances
            )  # fmt: skip
        if longest > block:
            known = 0
