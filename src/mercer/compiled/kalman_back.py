"""Kalman smoother over groups of runs, one run with its own linear dynamical system per lane.

The smoother needs no inverse of a covariance of the state. With the surprise e of a step, its covariance V, the
filtered covariance F, M = A F, the gain K = A P C' V^-1 of the prediction P, and L = A - K C, it carries a vector r and
a matrix N backwards,

    r <- C' V^-1 e + L' r,    N <- C' V^-1 C + L' N L,

the gradient and the negative curvature of the log probability in the predicted state. With the filtered mean m, the
smoothed mean is m + M' r and the smoothed covariance F - M' N M, and the scores of all parameters (FK-10) need no
inverse of a noise covariance, which may be singular. N does not depend on the observations; once it does not change
any more, only r goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman import (
    BACK,
    CM,
    CURVE,
    DA,
    DB,
    DC,
    DC_PART,
    DD,
    END_OF_START,
    FC,
    FM,
    GAIN,
    GOING,
    HQ,
    HR,
    HR_PART,
    INVERSE,
    JT,
    KT,
    LOOP,
    LOWER,
    MARK,
    MINUS,
    NC,
    NEXT_SC,
    NEXT_SM,
    NM,
    O1,
    O2,
    ONE,
    PM,
    RECORD,
    RECORDS,
    REST,
    ROOT,
    ROOT_INVERSE,
    S1,
    S2,
    SC,
    SEEN,
    SM,
    SOME,
    STATE,
    STATES,
    SUMS,
    T1,
    T2,
    T3,
    UE,
    ZE,
    A,
    B,
    C,
    M,
    Q,
    U,
    V,
    Z,
    begin_runs,
    forward,
    mask,
    place_runs,
    predict_covariance,
    read_lane,
    shortest_run,
)  # fmt: skip
from mercer.compiled.small_matrices import (
    LANES,
    ZERO,
    add,
    add_outer,
    canceled,
    cholesky,
    choose,
    converged,
    copy,
    product,
    scale_rows,
    solve_lower,
    solve_upper,
    symmetric_product,
    symmetrize,
)

__all__ = ["run_smoother", "sums_width"]


def sums_width(n: int, d: int) -> int:
    """Count the sums of a run: da, db, hq, dc, dd, hr, s2, s1, o2, o1."""
    return 4 * n * n + 3 * n + d * n + d + d * d


@compiled
def _end_runs(w: Floats, at: Any, runs: Floats, t: int, n: int, count: int) -> bool:  # pragma: no cover - compiled
    """Start the way back of runs whose last step is t; return whether there is one."""
    found = False
    for lane in range(LANES):
        last = t + 1 == runs[1, lane]
        found |= last
        w[at[GOING] + lane] = 0.0 if last else 1.0
        if last:
            for k in range(n + n * n):  # r and N lie next to each other
                w[at[BACK] + k * LANES + lane] = 0.0
            for k in range(count):
                w[at[SUMS] + k * LANES + lane] = 0.0
    return found


@compiled(inline=True)
def _back_gain(w: Floats, at: Any, record: int, cm: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Compute the transposed gains V^-1 C P and K', L, and the parts of N and the scores with V^-1."""
    lower, inverse = record + at[LOWER], record + at[INVERSE]
    solve_upper(w, at[GAIN], lower, inverse, record + at[Z], d, n)
    product(w, at[KT], ZERO, at[GAIN], n, 1, at[A], 1, n, d, n, n, 1.0)
    product(w, at[LOOP], at[A], at[KT], 1, n, cm, n, 1, n, d, n, -1.0)


@compiled(inline=True)
def _back_covariance(
    w: Floats, at: Any, record: int, state: int, cm: int, gap: bool, n: int, d: int
) -> bool:  # pragma: no cover - compiled
    """Smooth the covariance of a step, and compute its parts of the scores; return whether digits were lost."""
    fc, m, curve = record + at[FC], record + at[M], at[CURVE]
    lower, inverse = record + at[LOWER], record + at[INVERSE]
    copy(w, at[NEXT_SC], at[SC], n * n)
    product(w, at[NM], ZERO, curve, n, 1, m, n, 1, n, n, n, 1.0)
    symmetric_product(w, at[SC], fc, m, 1, n, at[NM], n, 1, n, n, -1.0)
    # Of the emission: G' (I - A' N A F), and of its noise: V^-1 + K' N K.
    product(w, at[DC_PART], at[GAIN], at[KT], n, 1, at[NM], n, 1, d, n, n, -1.0)
    for k in range(d * d * LANES):
        w[at[V] + k] = 0.0
    for i in range(d):
        copy(w, at[V] + i * (d + 1) * LANES, at[ONE], 1)
    solve_lower(w, at[V], lower, inverse, at[V], d, d)
    symmetric_product(w, at[HR_PART], ZERO, at[V], 1, d, at[V], d, 1, d, d, 1.0)
    if gap:
        scale_rows(w, at[HR_PART], at[HR_PART], state + at[SEEN], d, d)
    product(w, at[T2], ZERO, at[KT], n, 1, curve, n, 1, d, n, n, 1.0)
    symmetric_product(w, at[HR_PART], at[HR_PART], at[T2], n, 1, at[KT], 1, n, d, n, 1.0)
    return canceled(w, at[SC], fc, n)


@compiled(inline=True)
def _back_curve(w: Floats, at: Any, out: int, record: int, cm: int, n: int, d: int) -> None:  # pragma: no cover
    """Take N back to the predicted state of this step: C' V^-1 C + L' N L."""
    solve_lower(w, at[T2], record + at[LOWER], record + at[INVERSE], cm, d, n)
    symmetric_product(w, out, ZERO, at[T2], 1, n, at[T2], n, 1, n, d, 1.0)
    product(w, at[T1], ZERO, at[CURVE], n, 1, at[LOOP], n, 1, n, n, n, 1.0)
    symmetric_product(w, out, out, at[LOOP], 1, n, at[T1], n, 1, n, n, 1.0)


@compiled(inline=True)
def _smooth_carefully(w: Floats, at: Any, record: int, n: int) -> None:  # pragma: no cover - compiled
    """Smooth a covariance in Joseph's form, a sum of squares.

    With J = F A' P^-1 and the smoothed covariance W of the next state it is (I - J A) F (I - J A)' + J (W + Q) J'.
    Lanes at their end, or with a singular prediction, stay as they are.
    """
    fc = record + at[FC]
    predict_covariance(w, at, at[NC], record, n)
    cholesky(w, at[ROOT], at[ROOT_INVERSE], at[NC], n)
    solve_lower(w, at[JT], at[ROOT], at[ROOT_INVERSE], record + at[M], n, n)
    solve_upper(w, at[JT], at[ROOT], at[ROOT_INVERSE], at[JT], n, n)  # J', since P is symmetric
    product(w, at[T3], ZERO, at[JT], 1, n, at[A], n, 1, n, n, n, -1.0)
    for i in range(n):
        add(w, at[T3] + i * (n + 1) * LANES, at[T3] + i * (n + 1) * LANES, at[ONE], at[ONE], 1)
    product(w, at[T1], ZERO, at[T3], n, 1, fc, n, 1, n, n, n, 1.0)
    symmetric_product(w, at[ROOT], ZERO, at[T1], n, 1, at[T3], 1, n, n, n, 1.0)
    add(w, at[T3], at[NEXT_SC], at[Q], at[ONE], n * n)
    product(w, at[T1], ZERO, at[T3], n, 1, at[JT], n, 1, n, n, n, 1.0)
    symmetric_product(w, at[ROOT], at[ROOT], at[JT], 1, n, at[T1], n, 1, n, n, 1.0)
    for lane in range(LANES):
        sound = w[at[GOING] + lane] > 0.0
        for k in range(n * n):
            sound &= w[at[ROOT] + k * LANES + lane] == w[at[ROOT] + k * LANES + lane]
        w[at[MARK] + lane] = 1.0 if sound else 0.0
    choose(w, at[SC], at[ROOT], at[SC], at[MARK], n * n)


@compiled(inline=True)
def _back_mean(
    w: Floats, at: Any, record: int, state: int, cm: int, careful: bool, n: int, d: int
) -> None:  # pragma: no cover - compiled
    """Smooth the mean of a step, add up its share of the scores, and go back to the predicted state."""
    r, sm, u, one, fm = at[BACK], at[SM], at[U], at[ONE], state + at[FM]
    copy(w, at[NEXT_SM], sm, n)
    product(w, sm, fm, record + at[M], 1, n, r, 1, 1, n, n, 1, 1.0)
    if careful:  # m + J (next smoothed - next predicted)
        product(w, at[T1], at[B], at[A], n, 1, fm, 1, 1, n, n, 1, 1.0)
        add(w, at[T1], at[NEXT_SM], at[T1], at[MINUS], n)
        product(w, at[T3], fm, at[JT], 1, n, at[T1], 1, 1, n, n, 1, 1.0)
        choose(w, sm, at[T3], sm, at[MARK], n)
    # Scores of the transition: r m' - N A F, and r r' - N for the noise.
    add_outer(w, at[DA], at[NM], -1.0, r, sm, one, n, n, False)
    add(w, at[DB], at[DB], r, one, n)
    add_outer(w, at[HQ], at[CURVE], -1.0, r, r, one, n, n, True)
    # Scores of the emission, with u = V^-1 e - K' r.
    solve_upper(w, at[UE], record + at[LOWER], record + at[INVERSE], state + at[ZE], d, 1)
    product(w, u, at[UE], at[KT], n, 1, r, 1, 1, d, n, 1, -1.0)
    add_outer(w, at[DC], at[DC_PART], -1.0, u, sm, one, d, n, False)
    add(w, at[DD], at[DD], u, one, d)
    add_outer(w, at[HR], at[HR_PART], -1.0, u, u, one, d, d, True)
    # Second moments of the states that have a successor, and of those that were observed.
    add_outer(w, at[S2], at[SC], 1.0, sm, sm, at[GOING], n, n, True)
    add(w, at[S1], at[S1], sm, at[GOING], n)
    add_outer(w, at[O2], at[SC], 1.0, sm, sm, state + at[SOME], n, n, True)
    add(w, at[O1], at[O1], sm, state + at[SOME], n)
    product(w, at[T1], ZERO, cm, 1, n, at[UE], 1, 1, n, d, 1, 1.0)
    product(w, at[T1], at[T1], at[LOOP], 1, n, r, 1, 1, n, n, 1, 1.0)
    copy(w, r, at[T1], n)


@compiled(inline=True)
def _lag(w: Floats, at: Any, record: int, n: int) -> None:  # pragma: no cover - compiled
    """Compute the covariance of the next state and this one, (I - P N) A F, in T3."""
    predict_covariance(w, at, at[NC], record, n)
    product(w, at[T3], record + at[M], at[NC], n, 1, at[NM], n, 1, n, n, n, -1.0)


@compiled
def _backward(
    w: Floats, at: Any, runs: Floats, begin: int, end: int, which: Floats, gaps: Floats, n: int, d: int, count: int,
    means: Floats, covariances: Floats, lags: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Smooth a block of steps that was filtered before."""
    steady, careful, gained, curve = False, False, -1, at[REST]
    shortest = shortest_run(runs)
    for t in range(end - 1, begin - 1, -1):
        s = t - begin
        record, state = at[RECORDS] + which[s] * at[RECORD], at[STATES] + s * at[STATE]
        gap, ended = gaps[s] > 0, False
        if t + 2 >= shortest or s + 1 == end - begin:
            ended = _end_runs(w, at, runs, t, n, count)
        cm = at[C]
        if gap:
            mask(w, at, state, n, d)
            cm = at[CM]
        if gained != which[s]:  # records with gaps are of one step
            _back_gain(w, at, record, cm, n, d)
            gained, steady = which[s], False
        if ended or not steady:
            careful = _back_covariance(w, at, record, state, cm, gap, n, d)
            if careful:
                _smooth_carefully(w, at, record, n)
        if lags.size > 0:
            _lag(w, at, record, n)
            for lane in range(LANES):
                if t + 1 < runs[1, lane]:
                    read_lane(w, at[T3], n * n, lane, lags, (runs[0, lane] + t) * n * n)
        _back_mean(w, at, record, state, cm, careful, n, d)
        if ended or not steady:
            _back_curve(w, at, curve, record, cm, n, d)
            steady = not ended and not gap and converged(w, curve, at[CURVE], n)
            copy(w, at[CURVE], curve, n * n)
        if means.size > 0:
            for lane in range(LANES):
                if t < runs[1, lane]:
                    read_lane(w, at[SM], n, lane, means, (runs[0, lane] + t) * n)
                    read_lane(w, at[SC], n * n, lane, covariances, (runs[0, lane] + t) * n * n)


@compiled
def run_smoother(
    w: Floats, at: Any, systems: Any, x: Floats, start: Floats, length: Floats, model: Floats, slots: Floats,
    block: int, n: int, d: int, log_prob: Floats, sums: Floats, first: Floats, means: Floats, covariances: Floats,
    lags: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Smooth every run, and add up what scores and EM need; other parameters are those of `run_filter`.

    Parameters
    ----------
    sums : ndarray of shape (S, sums_width(n, d))
        Where the sums of every run are written.
    first : ndarray of shape (S, n + n * n)
        Where r and N of the first predicted state are written.
    means, covariances, lags : ndarray
        Where smoothed means and covariances and the covariances with the next state are written, flat, one per
        observation; empty ones are not wanted.
    """
    runs, which, gaps = np.empty((4, LANES), np.int64), np.empty(block, np.int64), np.empty(block, np.int64)
    nothing, before, known, count = np.empty(0), -1, 0, sums.shape[1]
    blocks = 0
    for run in range(len(length)):
        blocks = max(blocks, -(-length[run] // block))
    from_, width = at[PM], at[END_OF_START] - at[PM]
    starts = np.empty((blocks, width))  # what the way back filters blocks again from
    for group in range(len(slots) // LANES):
        own = place_runs(w, at, systems, group, slots, start, length, model, runs, before, n, d)
        known = known if own == before and own >= 0 else 0
        before = own
        longest = begin_runs(w, at, runs, n, log_prob)
        blocks = -(-longest // block)
        for k in range(blocks):
            for i in range(width):
                starts[k, i] = w[from_ + i]
            end = min((k + 1) * block, longest)
            known = forward(
                w, at, x, runs, k * block, end, known if k == 0 else 0, which, gaps, n, d, log_prob, nothing, nothing
            )  # fmt: skip
        for i in range((n + n * n) * LANES):  # no lane may hold what an earlier use of the memory left
            w[at[BACK] + i] = 0.0
        for k in range(blocks - 1, -1, -1):
            end = min((k + 1) * block, longest)
            if k < blocks - 1:
                for i in range(width):
                    w[from_ + i] = starts[k, i]
                forward(w, at, x, runs, k * block, end, 0, which, gaps, n, d, log_prob, nothing, nothing)
            _backward(w, at, runs, k * block, end, which, gaps, n, d, count, means, covariances, lags)
        if blocks > 1:
            known = 0
        for part in (at[HQ], at[S2], at[O2]):
            symmetrize(w, part, n)
        symmetrize(w, at[HR], d)
        for lane in range(LANES):
            run = runs[3, lane]
            if run >= 0:
                empty = runs[1, lane] == 0
                for k in range(count):
                    sums[run, k] = 0.0 if empty else w[at[SUMS] + k * LANES + lane]
                for k in range(n + n * n):
                    first[run, k] = 0.0 if empty else w[at[BACK] + k * LANES + lane]
