"""One step of the Kalman filter in lanes, and the layout of the buffer that all filters of this package share.

A coordinate that was not observed has a zero row in the emission, a noise of variance one that is correlated with
nothing, and no surprise: it changes neither the state nor the probability.

What does not depend on the observations is in one *record* per step, what depends on them in one *state* per step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer.compiled.code import compiled
from mercer.compiled.small_entries import add, choose, copy, mark_canceled, multiply_determinant
from mercer.compiled.small_layout import LANES, ZERO
from mercer.compiled.small_matrices import cholesky, product, solve_lower, solve_upper, symmetric_product

LOG_2PI = math.log(2 * math.pi)
LOG_2 = math.log(2.0)

# Where the parts of a buffer begin: positions in the array that `places` returns.
(
    ONE, MINUS, MARK, ACTIVE, GOING, WORK,
    # The models: s' = A s + b + noise Q, x = C s + d + noise R, first state N(mu, S).
    A, B, C, D, Q, R, MU, S,
    # What a block of steps starts from: predicted mean and covariance, and what makes up the probability so far.
    PM, FIRST, MANTISSA, EXPONENT, SQUARES, MISSING, END_OF_START,
    # One step: the emission and the noise of what was seen, and the update.
    CM, RM, CP, V, REST, T1, T2, T3,
    # The way back: r, N and its shares of the scores, the next smoothed mean, and what smoothing takes (`kalman_back`).
    BACK, CURVE, NM, DC_PART, HR_PART, NEXT_MEAN, NEXT_CURVE, EYE, SC, OTHER_SC, ROOT, ROOT_INVERSE, JT, NC, ROWS,
    # Sums over time, of means and of covariances.
    SUMS, CROSS, HQ, HR, MORE_S, MORE_O, SUM_CURVE, SUM_NM, SUM_DC, SUM_HR, SUM_SC, MORE_SC_S, MORE_SC_O, END_OF_SUMS,
    # Records and states: where the first ones begin, their sizes, and their parts from there.
    RECORDS, RECORD, PC, FC, M, LOWER, INVERSE, Z, GAIN, KT, LOOP, DET, POWER,
    STATES, STATE, U, RB, MEAN, UNIT, ZE, SEEN, SOME,
    SIZE,
) = range(81)  # fmt: skip


def places(n: int, d: int, block: int) -> Indices:
    """Lay out the buffer of a group of systems with n state and d observed coordinates, for blocks of steps."""
    square, wide, moment = n * n, d * n, n * (n + 1)
    sizes = dict.fromkeys((ONE, MINUS, MARK, ACTIVE, GOING, WORK, MANTISSA, EXPONENT, SQUARES, MISSING), 1)
    sizes |= dict.fromkeys((B, MU, PM, BACK, NEXT_MEAN, ROOT_INVERSE), n)
    sizes |= dict.fromkeys((A, Q, S, FIRST, REST, T1, CURVE, NEXT_CURVE, NM, SC, OTHER_SC, ROOT, JT, NC), square)
    sizes |= dict.fromkeys((HQ, SUM_NM, SUM_SC, SUM_CURVE, MORE_SC_S, MORE_SC_O), square)
    sizes |= dict.fromkeys((C, CM, CP, DC_PART, SUM_DC), wide)
    sizes |= dict.fromkeys((R, RM, V, EYE, HR_PART, HR, SUM_HR), d * d)
    sizes |= {D: d, END_OF_START: 0, SUMS: 0, END_OF_SUMS: 0, T2: max(square, wide, d * d), T3: square, ROWS: d + 2 * n}
    sizes |= {CROSS: (d + 2 * n) * (n + 1), MORE_S: moment, MORE_O: moment}
    record = {PC: square, FC: square, M: square, LOWER: d * d, INVERSE: d, Z: wide, GAIN: wide, KT: wide}
    record |= {LOOP: square, DET: 1, POWER: 1}
    state = {U: d, RB: n, MEAN: n, UNIT: 1, ZE: d, SEEN: d, SOME: 1}
    at = np.zeros(SIZE + 1, np.int64)
    begin = LANES  # after the zero vector
    for part in range(RECORDS):
        at[part] = begin
        begin += sizes[part] * LANES
    # One state before a block takes the r of its first step, and one behind it the next predicted mean.
    for first, width, parts, count in ((RECORDS, RECORD, record, block), (STATES, STATE, state, block + 2)):
        at[first], inside = begin, 0
        for part, size in parts.items():
            at[part] = inside
            inside += size * LANES
        at[width] = inside
        begin += count * inside
    at[STATES] += at[STATE]
    at[SIZE] = begin
    return at


@compiled
def load_lane(
    w: Floats, at: int, values: Floats, begin: int, count: int, lane: int
) -> None:  # pragma: no cover - compiled
    """Copy ``count`` numbers into a lane of as many entries."""
    for k in range(count):
        w[at + k * LANES + lane] = values[begin + k]


@compiled
def read_lane(
    w: Floats, at: int, count: int, lane: int, out: Floats, begin: int
) -> None:  # pragma: no cover - compiled
    """Copy ``count`` entries of a lane."""
    for k in range(count):
        out[begin + k] = w[at + k * LANES + lane]


@compiled
def begin_buffer(w: Floats, at: Any) -> None:  # pragma: no cover - compiled
    """Set the vectors that every step needs."""
    w[ZERO : ZERO + LANES] = 0.0
    w[at[ONE] : at[ONE] + LANES] = 1.0
    w[at[MINUS] : at[MINUS] + LANES] = -1.0


@compiled
def begin_probability(w: Floats, at: Any) -> None:  # pragma: no cover - compiled
    """Start from a probability of one."""
    copy(w, at[MANTISSA], at[ONE], 1)
    for part in (at[EXPONENT], at[SQUARES], at[MISSING]):
        copy(w, part, ZERO, 1)


@compiled
def log_density(w: Floats, at: Any, lane: int, count: float) -> float:  # pragma: no cover - compiled
    """Return the log density of ``count`` coordinates, those that were not observed included."""
    log_root = math.log(w[at[MANTISSA] + lane]) + w[at[EXPONENT] + lane] * LOG_2
    return log_root - 0.5 * (w[at[SQUARES] + lane] + (count - w[at[MISSING] + lane]) * LOG_2PI)


@compiled
def add_unit(w: Floats, at: Any, out: int, n: int) -> None:  # pragma: no cover - compiled
    """Add the unit matrix."""
    for i in range(n):
        k = out + i * (n + 1) * LANES
        add(w, k, k, at[ONE], at[ONE], 1)


@compiled
def update_covariance(
    w: Floats, at: Any, record: int, cm: int, rm: int, n: int, d: int
) -> None:  # pragma: no cover - compiled
    """Condition the predicted covariance of a record on an observation with emission ``cm`` and noise ``rm``."""
    pc, fc, z = record + at[PC], record + at[FC], record + at[Z]
    lower, inverse, gain = record + at[LOWER], record + at[INVERSE], record + at[GAIN]
    product(w, at[CP], ZERO, cm, n, 1, pc, n, 1, d, n, n, 1.0)
    symmetric_product(w, at[V], rm, at[CP], n, 1, cm, 1, n, d, n, 1.0)
    cholesky(w, lower, inverse, at[V], d)
    copy(w, record + at[DET], at[ONE], 1)
    copy(w, record + at[POWER], ZERO, 1)
    multiply_determinant(w, record + at[DET], record + at[POWER], inverse, 1, ZERO, d)
    solve_lower(w, z, lower, inverse, at[CP], d, n)
    symmetric_product(w, fc, pc, z, 1, n, z, n, 1, n, d, -1.0)
    if mark_canceled(w, at[MARK], fc, pc, n):  # Joseph's form, a sum of squares
        solve_upper(w, gain, lower, inverse, z, d, n)
        product(w, at[REST], ZERO, gain, 1, n, cm, n, 1, n, d, n, -1.0)
        add_unit(w, at, at[REST], n)
        product(w, at[T1], ZERO, at[REST], n, 1, pc, n, 1, n, n, n, 1.0)
        symmetric_product(w, at[T3], ZERO, at[T1], n, 1, at[REST], 1, n, n, n, 1.0)
        product(w, at[T2], ZERO, rm, d, 1, gain, n, 1, d, d, n, 1.0)
        symmetric_product(w, at[T3], at[T3], gain, 1, n, at[T2], n, 1, n, d, 1.0)
        choose(w, fc, at[T3], fc, at[MARK], n * n)


@compiled
def take_probability(w: Floats, at: Any, record: int, times: int) -> None:  # pragma: no cover - compiled
    """Multiply the probability by the determinant of a record, once for every step."""
    multiply_determinant(w, at[MANTISSA], at[EXPONENT], record + at[DET], 0, record + at[POWER], times)


@compiled
def update_mean(
    w: Floats, at: Any, record: int, state: int, cm: int, n: int, d: int
) -> None:  # pragma: no cover - compiled
    """Condition the predicted mean on the observation of a state, x - d, and take its probability down."""
    ze, z = state + at[ZE], record + at[Z]
    product(w, ze, ze, at[PM], n, 1, cm, 1, n, 1, n, d, -1.0)
    solve_lower(w, ze, record + at[LOWER], record + at[INVERSE], ze, d, 1)
    product(w, at[SQUARES], at[SQUARES], ze, 1, 1, ze, 1, 1, 1, d, 1, 1.0)
    take_probability(w, at, record, 1)
    product(w, state + at[MEAN], at[PM], ze, d, 1, z, n, 1, 1, d, n, 1.0)
