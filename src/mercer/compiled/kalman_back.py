"""Kalman smoother over groups of runs, one run with its own linear dynamical system per lane.

The smoother needs no inverse of a covariance of the state. With the surprise e of a step, its covariance V, the
filtered covariance F, M = A F, the gain K = A P C' V^-1 of the prediction P, and L = A - K C, it carries a vector r and
a matrix N backwards,

    r <- C' V^-1 e + L' r,    N <- C' V^-1 C + L' N L,

the gradient and the negative curvature of the log probability in the predicted state. With the filtered mean m, the
smoothed mean is m + M' r and the smoothed covariance F - M' N M, and the scores of all parameters (FK-10) need no
inverse of a noise covariance, which may be singular. N does not depend on the observations; once it does not change
any more, only r goes on, and steps with one record are a stretch, as in the filter. Sums over time go on from step to
step, so that their digits do not depend on where stretches end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman import (
    begin_groups,
    begin_runs,
    forward,
    place_runs,
    predict_covariance,
    previous_end,
)
from mercer.compiled.kalman_step import (
    BACK,
    CM,
    CROSS,
    CURVE,
    DC_PART,
    END_OF_START,
    END_OF_SUMS,
    EYE,
    FC,
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
    MEAN,
    MINUS,
    MORE_O,
    MORE_S,
    MORE_SC_O,
    MORE_SC_S,
    NC,
    NEXT_CURVE,
    NEXT_MEAN,
    NM,
    ONE,
    OTHER_SC,
    PM,
    RB,
    RECORD,
    RECORDS,
    ROOT,
    ROOT_INVERSE,
    ROWS,
    SC,
    SEEN,
    SOME,
    STATE,
    STATES,
    SUM_CURVE,
    SUM_DC,
    SUM_HR,
    SUM_NM,
    SUM_SC,
    SUMS,
    T1,
    T2,
    T3,
    WORK,
    ZE,
    A,
    B,
    C,
    M,
    Q,
    U,
    V,
    add_unit,
    read_lane,
)  # fmt: skip
from mercer.compiled.small_entries import add, add_times, choose, copy, keep_converged, mark_canceled, scale_rows
from mercer.compiled.small_layout import LANES, ZERO
from mercer.compiled.small_matrices import (
    block_product,
    chain,
    cholesky,
    product,
    solve,
    solve_lower,
    solve_upper,
    symmetric_product,
)

__all__ = ["run_smoother", "sums_width"]


def sums_width(n: int, d: int) -> int:
    """Count the sums of a run: (dc, dd), (da, db), hq, hr, (s2, s1), (o2, o1)."""
    return (d + 3 * n) * (n + 1) + n * n + d * d


# -- covariances -----------------------------------------------------------------------------------------


@compiled
def _back_covariance(
    w: Floats, at: Any, record: int, state: int, gap: bool, n: int, d: int, sc: int
) -> bool:  # pragma: no cover - compiled
    """Smooth the covariance of a step, and compute its parts of the scores; return whether digits were lost."""
    fc, m, kt = record + at[FC], record + at[M], record + at[KT]
    product(w, at[NM], ZERO, at[CURVE], n, 1, m, n, 1, n, n, n, 1.0)
    symmetric_product(w, sc, fc, m, 1, n, at[NM], n, 1, n, n, -1.0)
    # Of the emission: G' (I - A' N A F), and of its noise: V^-1 + K' N K.
    product(w, at[DC_PART], record + at[GAIN], kt, n, 1, at[NM], n, 1, d, n, n, -1.0)
    solve_lower(w, at[V], record + at[LOWER], record + at[INVERSE], at[EYE], d, d)
    symmetric_product(w, at[HR_PART], ZERO, at[V], 1, d, at[V], d, 1, d, d, 1.0)
    if gap:
        scale_rows(w, at[HR_PART], at[HR_PART], state + at[SEEN], d, d)
    product(w, at[T2], ZERO, kt, n, 1, at[CURVE], n, 1, d, n, n, 1.0)
    symmetric_product(w, at[HR_PART], at[HR_PART], at[T2], n, 1, kt, 1, n, d, n, 1.0)
    return mark_canceled(w, at[MARK], sc, fc, n)


@compiled
def _back_curve(w: Floats, at: Any, out: int, record: int, cm: int, n: int, d: int) -> bool:  # pragma: no cover
    """Take N back to the predicted state of this step, C' V^-1 C + L' N L; return whether no lane changes."""
    loop = record + at[LOOP]
    solve_lower(w, at[T2], record + at[LOWER], record + at[INVERSE], cm, d, n)
    symmetric_product(w, out, ZERO, at[T2], 1, n, at[T2], n, 1, n, d, 1.0)
    product(w, at[T1], ZERO, at[CURVE], n, 1, loop, n, 1, n, n, n, 1.0)
    symmetric_product(w, out, out, loop, 1, n, at[T1], n, 1, n, n, 1.0)
    return keep_converged(w, at[T1], out, at[CURVE], n)


@compiled
def _smooth_carefully(w: Floats, at: Any, record: int, n: int, sc: int, next_sc: int) -> bool:  # pragma: no cover
    """Smooth a covariance in Joseph's form, a sum of squares, in the marked lanes.

    With J = F A' P^-1 and the smoothed covariance W of the next state it is (I - J A) F (I - J A)' + J (W + Q) J'.
    Lanes at their end, or with a singular prediction, stay as they are. Returns whether no marked lane changes.
    """
    fc = record + at[FC]
    predict_covariance(w, at, at[NC], record, n)
    cholesky(w, at[ROOT], at[ROOT_INVERSE], at[NC], n)
    solve_lower(w, at[JT], at[ROOT], at[ROOT_INVERSE], record + at[M], n, n)
    solve_upper(w, at[JT], at[ROOT], at[ROOT_INVERSE], at[JT], n, n)  # J', since P is symmetric
    product(w, at[T3], ZERO, at[JT], 1, n, at[A], n, 1, n, n, n, -1.0)
    add_unit(w, at, at[T3], n)
    product(w, at[T1], ZERO, at[T3], n, 1, fc, n, 1, n, n, n, 1.0)
    symmetric_product(w, at[ROOT], ZERO, at[T1], n, 1, at[T3], 1, n, n, n, 1.0)
    add(w, at[T3], next_sc, at[Q], at[ONE], n * n)
    product(w, at[T1], ZERO, at[T3], n, 1, at[JT], n, 1, n, n, n, 1.0)
    symmetric_product(w, at[ROOT], at[ROOT], at[JT], 1, n, at[T1], n, 1, n, n, 1.0)
    for lane in range(LANES):
        sound = w[at[MARK] + lane] > 0.0 and w[at[GOING] + lane] > 0.0
        for k in range(n * n):
            sound &= w[at[ROOT] + k * LANES + lane] == w[at[ROOT] + k * LANES + lane]
        w[at[MARK] + lane] = 1.0 if sound else 0.0
    keep_converged(w, at[T1], at[ROOT], next_sc, n)
    choose(w, sc, at[ROOT], sc, at[MARK], n * n)
    kept = True
    for lane in range(LANES):
        kept &= w[at[MARK] + lane] <= 0.0 or w[at[T1] + lane] > 0.0
    return kept


# -- means -----------------------------------------------------------------------------------------------


@compiled
def _smooth_means(
    w: Floats, at: Any, record: int, state: int, steps: int, cm: int, careful: bool, n: int, d: int
) -> None:  # pragma: no cover - compiled
    """Smooth the means of a stretch, from its last step, and compute u and r of its steps."""
    step = at[STATE] // LANES
    u, r, mean = state + at[U], state + at[RB], state + at[MEAN]
    solve(w, u, state + at[ZE], 1, -step, record + at[LOWER], record + at[INVERSE], True, d, steps)
    block_product(w, r - at[STATE], -step, ZERO, 0, u, -step, 1, cm, n, 1, steps, d, n, 1.0)
    chain(w, r, -step, record + at[LOOP], n, 1, n, steps)
    block_product(w, u, -step, u, -step, r, -step, 1, record + at[KT], 1, n, steps, n, d, -1.0)
    if not careful:
        block_product(w, mean, -step, mean, -step, r, -step, 1, record + at[M], n, 1, steps, n, n, 1.0)
        return
    for k in range(steps):  # m + J (next smoothed - next predicted)
        here, back = mean - k * at[STATE], r - k * at[STATE]
        product(w, at[T1], at[B], here, n, 1, at[A], 1, n, 1, n, n, 1.0)
        add(w, at[T1], here + at[STATE], at[T1], at[MINUS], n)
        product(w, at[T3], here, at[T1], n, 1, at[JT], n, 1, 1, n, n, 1.0)
        product(w, here, here, back, n, 1, record + at[M], n, 1, 1, n, n, 1.0)
        choose(w, here, at[T3], here, at[MARK], n)


@compiled
def _add_up_means(w: Floats, at: Any, state: int, steps: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Add steps to the sums of means, from their last one; all have a successor and an observation in all lanes."""
    step, out = at[STATE] // LANES, at[CROSS]
    u, r, mean = state + at[U], state + at[RB], state + at[MEAN]
    block_product(w, out, n + 1, out, n + 1, u, 1, -step, mean, -step, 1, d + 2 * n, steps, n + 1, 1.0)
    product(w, at[HQ], at[HQ], r, 1, -step, r, -step, 1, n, steps, n, 1.0)
    product(w, at[HR], at[HR], u, 1, -step, u, -step, 1, d, steps, d, 1.0)


@compiled
def _add_up_covariances(w: Floats, at: Any, steps: int, n: int, d: int, sc: int) -> None:  # pragma: no cover - compiled
    """Add a stretch to the sums of covariances, and of their parts of the scores."""
    add_times(w, at[SUM_CURVE], at[CURVE], 2 * n * n + d * n + d * d, steps)  # and all parts behind
    add_times(w, at[SUM_SC], sc, n * n, steps)


@compiled
def _add_up_weighted(
    w: Floats, at: Any, state: int, some: int, n: int, d: int, sc: int
) -> None:  # pragma: no cover - compiled
    """Add a step to the sums in which a lane ends, or has seen nothing."""
    mean, rows, column = state + at[MEAN], at[ROWS], at[ROWS] + (d + n) * LANES
    scale_rows(w, at[T2], some, at[GOING], 1, 1)  # both a successor and an observation
    copy(w, rows, state + at[U], d + n)
    scale_rows(w, column, mean, at[T2], 1, n)
    product(w, at[CROSS], at[CROSS], rows, 1, 1, mean, n + 1, 1, d + 2 * n, 1, n + 1, 1.0)
    product(w, at[HQ], at[HQ], state + at[RB], 1, 1, state + at[RB], n, 1, n, 1, n, 1.0)
    product(w, at[HR], at[HR], state + at[U], 1, 1, state + at[U], d, 1, d, 1, d, 1.0)
    add(w, at[SUM_SC], at[SUM_SC], sc, at[T2], n * n)
    for part, weight, more in ((at[GOING], at[MORE_S], at[MORE_SC_S]), (some, at[MORE_O], at[MORE_SC_O])):
        add(w, at[T1], part, at[T2], at[MINUS], 1)
        scale_rows(w, column, mean, at[T1], 1, n)
        product(w, weight, weight, column, 1, 1, mean, n + 1, 1, n, 1, n + 1, 1.0)
        add(w, more, more, sc, at[T1], n * n)
    add_times(w, at[SUM_CURVE], at[CURVE], 2 * n * n + d * n + d * d, 1)


# -- many steps ------------------------------------------------------------------------------------------


@compiled
def _end_runs(w: Floats, at: Any, runs: Floats, state: int, t: int, n: int) -> None:  # pragma: no cover - compiled
    """Start the way back of runs whose last step is t."""
    for lane in range(LANES):
        if t + 1 == runs[1, lane]:
            w[at[GOING] + lane] = 0.0
            for k in range(n):
                w[state + at[RB] + k * LANES + lane] = 0.0
            for k in range(n * n):
                w[at[CURVE] + k * LANES + lane] = 0.0
            for k in range(at[SUMS] + lane, at[END_OF_SUMS], LANES):
                w[k] = 0.0


@compiled
def _write_states(
    w: Floats, at: Any, runs: Floats, record: int, state: int, t: int, n: int, sc: int, means: Floats,
    covariances: Floats, lags: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write the smoothed states of a step; the covariance of the next state and this one is (I - P N) A F."""
    predict_covariance(w, at, at[NC], record, n)
    product(w, at[T3], record + at[M], at[NC], n, 1, at[NM], n, 1, n, n, n, -1.0)
    for lane in range(LANES):
        place = runs[0, lane] + t
        if t < runs[1, lane]:
            read_lane(w, state + at[MEAN], n, lane, means, place * n)
            read_lane(w, sc, n * n, lane, covariances, place * n * n)
        if t + 1 < runs[1, lane]:
            read_lane(w, at[T3], n * n, lane, lags, place * n * n)


@compiled
def _backward(
    w: Floats, at: Any, runs: Floats, begin: int, end: int, which: Floats, gaps: Floats, n: int, d: int, means: Floats,
    covariances: Floats, lags: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Smooth a block of steps that was filtered before."""
    steady, careful, last, sc, other = False, False, -1, at[SC], at[OTHER_SC]
    s = end - begin - 1
    ending = previous_end(runs, end)
    waiting = s  # means of steps from here down are not in the sums yet: sums of many steps stay in registers
    copy(w, at[STATES] + s * at[STATE] + at[RB], at[BACK], n)
    copy(w, at[STATES] + (s + 1) * at[STATE] + at[MEAN], at[NEXT_MEAN], n)
    while s >= 0:
        record, state = at[RECORDS] + which[s] * at[RECORD], at[STATES] + s * at[STATE]
        gap, cm, some, first = gaps[s] != 0, at[C], at[ONE], s
        ended = begin + s + 1 == ending
        if ended:
            _add_up_means(w, at, at[STATES] + waiting * at[STATE], waiting - s, n, d)
            _end_runs(w, at, runs, state, begin + s, n)
            waiting, ending = s, previous_end(runs, begin + s)
        weighted = ended
        if gap:
            scale_rows(w, at[CM], at[C], state + at[SEEN], d, n)
            cm, some = at[CM], state + at[SOME]
            for lane in range(LANES):
                weighted |= w[some + lane] == 0.0
        fresh = ended or gap or not steady or which[s] != last
        if fresh:
            sc, other = other, sc
            careful = _back_covariance(w, at, record, state, gap, n, d, sc)
            steady = not careful or _smooth_carefully(w, at, record, n, sc, other)
        else:
            while first > 0 and first > ending - begin and which[first - 1] == last and gaps[first - 1] == 0:
                first -= 1
        steps = s - first + 1
        _smooth_means(w, at, record, state, steps, cm, careful, n, d)
        if weighted:
            _add_up_means(w, at, at[STATES] + waiting * at[STATE], waiting - s, n, d)
            _add_up_weighted(w, at, state, some, n, d, sc)
            waiting = s - 1
        else:
            _add_up_covariances(w, at, steps, n, d, sc)
        if means.size > 0:
            for k in range(first, s + 1):
                _write_states(
                    w, at, runs, record, at[STATES] + k * at[STATE], begin + k, n, sc, means, covariances, lags
                )  # fmt: skip
        if fresh:
            steady = _back_curve(w, at, at[NEXT_CURVE], record, cm, n, d) and steady and not ended and not gap
            copy(w, at[CURVE], at[NEXT_CURVE], n * n)
        if ended:
            copy(w, at[GOING], at[ONE], 1)
        last, s = which[s], first - 1
    _add_up_means(w, at, at[STATES] + waiting * at[STATE], waiting + 1, n, d)
    copy(w, at[BACK], at[STATES] - at[STATE] + at[RB], n)
    copy(w, at[NEXT_MEAN], at[STATES] + at[MEAN], n)
    if sc != at[SC]:
        copy(w, at[SC], sc, n * n)


@compiled
def _write_sums(
    w: Floats, at: Any, lane: int, empty: bool, n: int, d: int, sums: Floats
) -> None:  # pragma: no cover - compiled
    """Join the sums of means and covariances of a run."""
    sums[:] = 0.0
    if empty:
        return
    width, k = n + 1, 0
    for i in range(d + n):
        for j in range(width):
            part = at[SUM_DC] + i * n * LANES if i < d else at[SUM_NM] + (i - d) * n * LANES
            less = w[part + j * LANES + lane] if j < n else 0.0
            sums[k] = w[at[CROSS] + (i * width + j) * LANES + lane] - less
            k += 1
    for whole, part, count in ((at[HQ], at[SUM_CURVE], n * n), (at[HR], at[SUM_HR], d * d)):
        for i in range(count):
            sums[k] = w[whole + i * LANES + lane] - w[part + i * LANES + lane]
            k += 1
    both = at[CROSS] + (d + n) * width * LANES
    for more, part in ((at[MORE_S], at[MORE_SC_S]), (at[MORE_O], at[MORE_SC_O])):
        for i in range(n):
            for j in range(width):
                at_mean, at_spread = (i * width + j) * LANES + lane, (i * n + j) * LANES + lane
                spread = w[at[SUM_SC] + at_spread] + w[part + at_spread] if j < n else 0.0
                sums[k] = w[both + at_mean] + w[more + at_mean] + spread
                k += 1


@compiled
def run_smoother(
    w: Floats, at: Any, systems: Any, x: Floats, start: Floats, length: Floats, model: Floats, slots: Floats,
    block: int, n: int, d: int, log_prob: Floats, sums: Floats, first: Floats, work: Floats, means: Floats,
    covariances: Floats, lags: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Smooth every run, and add up what scores and EM need; other parameters are those of `run_filter`.

    Parameters
    ----------
    sums : ndarray of shape (S, sums_width(n, d))
        Where the sums of every run are written.
    first : ndarray of shape (S, n + n * n)
        Where r and N of the first predicted state are written.
    work : ndarray of shape (S,)
        Where the number of steps before the covariance of every run converged is written.
    means, covariances, lags : ndarray
        Where smoothed means and covariances and the covariances with the next state are written, flat, one per
        observation; empty ones are not wanted.
    """
    runs, which, gaps = np.empty((4, LANES), np.int64), np.empty(block, np.int64), np.empty(block, np.int64)
    nothing, before, known = np.empty(0), -1, 0
    blocks = 0
    for run in range(len(length)):
        blocks = max(blocks, -(-length[run] // block))
    from_, width = at[PM], at[END_OF_START] - at[PM]
    starts = np.empty((blocks, width))  # what the way back filters blocks again from
    begin_groups(w, at, block, d)
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
                w, at, x, runs, k * block, end, known if k == 0 else 0, which, gaps, n, d, log_prob, nothing, nothing,
                True,
            )  # fmt: skip
        for lane in range(LANES):
            if runs[3, lane] >= 0:
                work[runs[3, lane]] = w[at[WORK] + lane]
        for i in range((n + n * n) * LANES):  # no lane may hold what an earlier use of the memory left
            w[at[BACK] + i] = 0.0
        for k in range(blocks - 1, -1, -1):
            end = min((k + 1) * block, longest)
            if k < blocks - 1:
                for i in range(width):
                    w[from_ + i] = starts[k, i]
                forward(w, at, x, runs, k * block, end, 0, which, gaps, n, d, log_prob, nothing, nothing, True)
            _backward(w, at, runs, k * block, end, which, gaps, n, d, means, covariances, lags)
        if blocks > 1:
            known = 0
        for lane in range(LANES):
            run = runs[3, lane]
            if run >= 0:
                empty = runs[1, lane] == 0
                _write_sums(w, at, lane, empty, n, d, sums[run])
                for k in range(n + n * n):
                    first[run, k] = 0.0 if empty else w[at[BACK] + k * LANES + lane]
