"""Kalman filter and smoother over groups of runs, one run with its own linear dynamical system per lane.

The filter is ALG-KF. A coordinate that was not observed has a zero row in the emission, a noise of variance one that is
correlated with nothing, and no surprise: it changes neither the state nor the probability. The smoother needs no
inverse of a covariance of the state. With the surprise e of a step, its covariance V and the gain G, it carries a
vector r and a matrix N backwards,

    r <- C' V^-1 e + (I - G C)' A' r,    N <- C' V^-1 C + (I - G C)' A' N A (I - G C),

the gradient and the negative curvature of the log probability in the predicted state. With the filtered mean m and
covariance F, the smoothed mean is m + F A' r and the smoothed covariance F - F A' N A F, and the scores of all
parameters (FK-10) need no inverse of a noise covariance, which may be singular.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.small_matrices import (
    LANES,
    ZERO,
    add,
    cholesky,
    choose,
    copy,
    multiply_determinant,
    product,
    scale_rows,
    solve_lower,
    solve_upper,
    symmetrize,
)

__all__ = ["Places", "places", "run_filter", "run_smoother", "sums_width"]

_LOG_2PI = math.log(2 * math.pi)
_LOG_2 = math.log(2.0)
_MOST = 2**25
"""Numbers of a history that keeps everything; a longer one keeps predictions, and the way back filters again."""
_CANCELED = 1e-4  # of a variance less than this is left by an observation: then in Joseph's form


class Places(NamedTuple):
    """Where the matrices of a group begin in its buffer."""

    size: int
    one: int
    minus: int
    # The models: s' = A s + b + noise Q, x = C s + d + noise R, first state N(mu, S).
    a: int
    b: int
    c: int
    d: int
    q: int
    r: int
    mu: int
    s: int
    # One observation: x - d, which coordinates were seen, whether one was, whether the run goes on.
    x: int
    seen: int
    some: int
    active: int
    going: int
    # Predicted and filtered states.
    pm: int
    pc: int
    fm: int
    fc: int
    # The update; what the way back needs of it, from ``fm`` to ``ze``, lies together.
    lower: int
    inverse: int
    z: int
    ze: int
    nm: int
    nc: int
    e: int
    cm: int
    rm: int
    k: int
    v: int
    gain: int
    rest: int
    t1: int
    t2: int
    t3: int
    t4: int
    mantissa: int
    exponent: int
    squares: int
    # The way back.
    back: int
    curve: int
    back_a: int
    curve_a: int
    sm: int
    sc: int
    next_sm: int
    next_sc: int
    next_pm: int
    root: int
    root_inverse: int
    jt: int
    mark: int
    ue: int
    u: int
    vi: int
    zc: int
    # Sums over time, in the order of `Sums`.
    sums: int
    da: int
    db: int
    hq: int
    dc: int
    dd: int
    hr: int
    s2: int
    s1: int
    o2: int
    o1: int


def sums_width(n: int, d: int) -> int:
    """Count the sums of a run: da, db, hq, dc, dd, hr, s2, s1, o2, o1."""
    return 4 * n * n + 3 * n + d * n + d + d * d


def places(n: int, d: int) -> Places:
    """Lay out the buffer of a group of systems with n state and d observed coordinates."""
    square, wide = n * n, d * n
    sizes = {
        "one": 1, "minus": 1, "a": square, "b": n, "c": wide, "d": d, "q": square, "r": d * d, "mu": n, "s": square,
        "x": d, "seen": d, "some": 1, "active": 1, "going": 1, "pm": n, "pc": square, "fm": n, "fc": square,
        "lower": d * d, "inverse": d, "z": wide, "ze": d, "nm": n, "nc": square, "e": d, "cm": wide, "rm": d * d,
        "k": wide, "v": d * d, "gain": wide, "rest": square, "t1": square, "t2": square, "t3": max(wide, d * d),
        "t4": square, "mantissa": 1, "exponent": 1, "squares": 1, "back": n, "curve": square, "back_a": n,
        "curve_a": square, "sm": n, "sc": square,
        "next_sm": n, "next_sc": square, "next_pm": n, "root": square, "root_inverse": n, "jt": square, "mark": 1,
        "ue": d, "u": d, "vi": d * d, "zc": wide, "sums": 0, "da": square, "db": n, "hq": square, "dc": wide, "dd": d,
        "hr": d * d, "s2": square, "s1": n, "o2": square, "o1": n,
    }  # fmt: skip
    begin, found = LANES, {}  # after the zero vector
    for name, size in sizes.items():
        found[name] = begin
        begin += size * LANES
    return Places(size=begin, **found)


@compiled
def _load(w: Floats, at: int, values: Floats, model: int, count: int, lane: int) -> None:  # pragma: no cover - compiled
    for k in range(count):
        w[at + k * LANES + lane] = values[model * count + k]


@compiled
def _load_models(w: Floats, at: Any, systems: Any, runs: Floats, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Lay the systems of a group out for its lanes; a lane without a run gets the first one's."""
    a, b, c, offset, q, r, mu, s = systems
    w[ZERO : ZERO + LANES] = 0.0
    w[at.one : at.one + LANES] = 1.0
    w[at.minus : at.minus + LANES] = -1.0
    for lane in range(LANES):
        model = runs[2, lane]
        _load(w, at.a, a, model, n * n, lane)
        _load(w, at.b, b, model, n, lane)
        _load(w, at.c, c, model, d * n, lane)
        _load(w, at.d, offset, model, d, lane)
        _load(w, at.q, q, model, n * n, lane)
        _load(w, at.r, r, model, d * d, lane)
        _load(w, at.mu, mu, model, n, lane)
        _load(w, at.s, s, model, n * n, lane)


@compiled
def _observe(w: Floats, at: Any, x: Floats, runs: Floats, t: int, d: int) -> int:  # pragma: no cover - compiled
    """Bring one observation of every run into the lanes; return how many coordinates of all lanes are missing."""
    gaps = 0
    for lane in range(LANES):
        active = t < runs[1, lane]
        some = 0.0
        for i in range(d):
            value = x[(runs[0, lane] + t) * d + i] if active else np.nan
            seen = value == value
            gaps += not seen
            k = i * LANES + lane
            w[at.seen + k] = 1.0 if seen else 0.0
            w[at.x + k] = value - w[at.d + k] if seen else 0.0
            some = 1.0 if seen else some
        w[at.some + lane] = some
        w[at.active + lane] = 1.0 if active else 0.0
        w[at.going + lane] = 1.0 if t + 1 < runs[1, lane] else 0.0
    return gaps


@compiled
def _mask(w: Floats, at: Any, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Take the coordinates that were not seen out of emission and noise."""
    scale_rows(w, at.cm, at.c, at.seen, d, n)
    for i in range(d):
        for j in range(d):
            for lane in range(LANES):
                both = w[at.seen + i * LANES + lane] * w[at.seen + j * LANES + lane]
                own = 1.0 if i == j else 0.0
                k = (i * d + j) * LANES + lane
                w[at.rm + k] = w[at.r + k] if both > 0.0 else own


@compiled
def _canceled(w: Floats, after: int, before: int, n: int) -> bool:  # pragma: no cover - compiled
    """Whether digits were lost in the difference of covariances."""
    for i in range(n):
        for lane in range(LANES):
            k = (i * n + i) * LANES + lane
            if w[after + k] < _CANCELED * w[before + k]:
                return True
    return False


@compiled
def _gain(w: Floats, at: Any, cm: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Compute the transposed gain V^-1 C P, and I - G C."""
    solve_upper(w, at.gain, at.lower, at.inverse, at.z, d, n)
    product(w, at.rest, ZERO, at.gain, 1, n, cm, n, 1, n, d, n, -1.0)
    for i in range(n):
        for lane in range(LANES):
            w[at.rest + (i * n + i) * LANES + lane] += 1.0


@compiled
def _update(w: Floats, at: Any, cm: int, rm: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Condition the predicted state on an observation, and take its probability down."""
    product(w, at.e, at.x, cm, n, 1, at.pm, 1, 1, d, n, 1, -1.0)
    product(w, at.k, ZERO, cm, n, 1, at.pc, n, 1, d, n, n, 1.0)
    product(w, at.v, rm, at.k, n, 1, cm, 1, n, d, n, d, 1.0)
    cholesky(w, at.lower, at.inverse, at.v, d)
    multiply_determinant(w, at.mantissa, at.exponent, at.inverse, d)
    solve_lower(w, at.z, at.lower, at.inverse, at.k, d, n)
    solve_lower(w, at.ze, at.lower, at.inverse, at.e, d, 1)
    product(w, at.squares, at.squares, at.ze, 1, 1, at.ze, 1, 1, 1, d, 1, 1.0)
    product(w, at.fm, at.pm, at.z, 1, n, at.ze, 1, 1, n, d, 1, 1.0)
    product(w, at.fc, at.pc, at.z, 1, n, at.z, n, 1, n, d, n, -1.0)
    if _canceled(w, at.fc, at.pc, n):
        _gain(w, at, cm, n, d)
        product(w, at.t1, ZERO, at.rest, n, 1, at.pc, n, 1, n, n, n, 1.0)
        product(w, at.fc, ZERO, at.t1, n, 1, at.rest, 1, n, n, n, n, 1.0)
        product(w, at.t3, ZERO, rm, d, 1, at.gain, n, 1, d, d, n, 1.0)
        product(w, at.fc, at.fc, at.gain, 1, n, at.t3, n, 1, n, d, n, 1.0)
    symmetrize(w, at.fc, n)


@compiled
def _predict(w: Floats, at: Any, ended: bool, n: int) -> None:  # pragma: no cover - compiled
    """Move the filtered state one step on; lanes whose run has ended stay, so that nothing overflows in them."""
    product(w, at.nm, at.b, at.a, n, 1, at.fm, 1, 1, n, n, 1, 1.0)
    product(w, at.t1, ZERO, at.a, n, 1, at.fc, n, 1, n, n, n, 1.0)
    product(w, at.nc, at.q, at.t1, n, 1, at.a, 1, n, n, n, n, 1.0)
    symmetrize(w, at.nc, n)
    if ended:
        choose(w, at.pm, at.nm, at.pm, at.going, n)
        choose(w, at.pc, at.nc, at.pc, at.going, n * n)
    else:
        copy(w, at.pm, at.nm, n)
        copy(w, at.pc, at.nc, n * n)


@compiled
def _begin(w: Floats, at: Any, n: int) -> None:  # pragma: no cover - compiled
    """Start before the first observation."""
    copy(w, at.pm, at.mu, n)
    copy(w, at.pc, at.s, n * n)
    copy(w, at.mantissa, at.one, 1)
    copy(w, at.exponent, ZERO, 1)
    copy(w, at.squares, ZERO, 1)


@compiled
def _place(
    group: int, slots: Floats, start: Floats, length: Floats, model: Floats, runs: Floats
) -> int:  # pragma: no cover - compiled
    """Take down where the runs of a group begin, their lengths and models, and the runs; return the largest length."""
    longest = 0
    for lane in range(LANES):
        run = slots[group * LANES + lane]
        known = run if run >= 0 else slots[group * LANES]
        runs[0, lane] = start[known]
        runs[1, lane] = length[known] if run >= 0 else 0
        runs[2, lane] = model[known]
        runs[3, lane] = run
        longest = max(longest, runs[1, lane])
    return longest


@compiled
def _read(w: Floats, at: int, count: int, lane: int, out: Floats, begin: int) -> None:  # pragma: no cover - compiled
    for k in range(count):
        out[begin + k] = w[at + k * LANES + lane]


@compiled
def _forward(
    w: Floats, at: Any, history: Floats, width: int, x: Floats, runs: Floats, longest: int, n: int, d: int,
    means: Floats, covariances: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Filter the runs of a group; keep ``width`` numbers of every step, and write filtered states where wanted."""
    _begin(w, at, n)
    for t in range(longest):
        gaps = _observe(w, at, x, runs, t, d)
        cm, rm = at.c, at.r
        if gaps > 0:
            _mask(w, at, n, d)
            cm, rm = at.cm, at.rm
        _update(w, at, cm, rm, n, d)
        if width > 0:
            history[t * width : (t + 1) * width] = w[at.pm : at.pm + width]
        if means.size > 0:
            for lane in range(LANES):
                if t < runs[1, lane]:
                    _read(w, at.fm, n, lane, means, (runs[0, lane] + t) * n)
                    _read(w, at.fc, n * n, lane, covariances, (runs[0, lane] + t) * n * n)
        if t + 1 < longest:
            ended = False
            for lane in range(LANES):
                ended |= t + 1 >= runs[1, lane]
            _predict(w, at, ended, n)


@compiled
def _log_prob(w: Floats, at: Any, x: Floats, runs: Floats, d: int, out: Floats) -> None:  # pragma: no cover - compiled
    for lane in range(LANES):
        if runs[3, lane] < 0:
            continue
        count = 0
        for k in range(runs[0, lane] * d, (runs[0, lane] + runs[1, lane]) * d):
            count += x[k] == x[k]
        log_root = math.log(w[at.mantissa + lane]) + w[at.exponent + lane] * _LOG_2
        out[runs[3, lane]] = log_root - 0.5 * (w[at.squares + lane] + count * _LOG_2PI)


@compiled
def run_filter(
    w: Floats, at: Any, systems: Any, x: Floats, start: Floats, length: Floats, model: Floats, slots: Floats, n: int,
    d: int, log_prob: Floats, means: Floats, covariances: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Filter every run.

    Parameters
    ----------
    w, at : ndarray and Places
        Buffer, and where its matrices are.
    systems : tuple of ndarray
        Flat arrays of the parameters of all models: A, b, C, d, Q, R, mu, S.
    x : ndarray
        Observations, flat; NaN is missing.
    start, length, model : ndarray of int of shape (S,)
        First observation, number of observations and model of every run.
    slots : ndarray of int
        The runs of every group of lanes, longest first; -1 is none.
    n, d : int
        Numbers of state and observed coordinates.
    log_prob : ndarray of shape (S,)
        Where log probabilities are written.
    means, covariances : ndarray
        Where filtered states are written, flat, one per observation; empty ones are not wanted.
    """
    runs, nothing = np.empty((4, LANES), np.int64), np.empty(0)
    for group in range(len(slots) // LANES):
        longest = _place(group, slots, start, length, model, runs)
        _load_models(w, at, systems, runs, n, d)
        _forward(w, at, nothing, 0, x, runs, longest, n, d, means, covariances)
        _log_prob(w, at, x, runs, d, log_prob)


@compiled
def _smooth_carefully(w: Floats, at: Any, n: int) -> None:  # pragma: no cover - compiled
    """Smooth a step in Joseph's form, a sum of squares.

    With J = F A' P^-1 and the smoothed covariance V of the next state it is (I - J A) F (I - J A)' + J (V + Q) J'.
    Lanes at their end, or with a singular prediction, stay as they are.
    """
    cholesky(w, at.root, at.root_inverse, at.nc, n)
    product(w, at.jt, ZERO, at.a, n, 1, at.fc, n, 1, n, n, n, 1.0)
    solve_lower(w, at.jt, at.root, at.root_inverse, at.jt, n, n)
    solve_upper(w, at.jt, at.root, at.root_inverse, at.jt, n, n)  # J', since P is symmetric
    product(w, at.t4, ZERO, at.jt, 1, n, at.a, n, 1, n, n, n, -1.0)
    for i in range(n):
        for lane in range(LANES):
            w[at.t4 + (i * n + i) * LANES + lane] += 1.0
    product(w, at.t2, ZERO, at.t4, n, 1, at.fc, n, 1, n, n, n, 1.0)
    product(w, at.root, ZERO, at.t2, n, 1, at.t4, 1, n, n, n, n, 1.0)
    add(w, at.t4, at.next_sc, at.q, at.one, n * n)
    product(w, at.t2, ZERO, at.t4, n, 1, at.jt, n, 1, n, n, n, 1.0)
    product(w, at.root, at.root, at.jt, 1, n, at.t2, n, 1, n, n, n, 1.0)
    symmetrize(w, at.root, n)
    for lane in range(LANES):
        sound = w[at.going + lane] > 0.0
        for k in range(n * n):
            sound &= w[at.root + k * LANES + lane] == w[at.root + k * LANES + lane]
        w[at.mark + lane] = 1.0 if sound else 0.0
    choose(w, at.sc, at.root, at.sc, at.mark, n * n)
    add(w, at.root_inverse, at.next_sm, at.next_pm, at.minus, n)
    product(w, at.t2, at.fm, at.jt, 1, n, at.root_inverse, 1, 1, n, n, 1, 1.0)
    choose(w, at.sm, at.t2, at.sm, at.mark, n)
    product(w, at.t2, ZERO, at.curve_a, n, 1, at.fc, n, 1, n, n, n, 1.0)


@compiled
def _backward_step(w: Floats, at: Any, cm: int, gaps: int, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Smooth one step, add up its share of the scores, and go back to the predicted state."""
    _gain(w, at, cm, n, d)
    product(w, at.back_a, ZERO, at.a, 1, n, at.back, 1, 1, n, n, 1, 1.0)
    product(w, at.t1, ZERO, at.curve, n, 1, at.a, n, 1, n, n, n, 1.0)
    product(w, at.curve_a, ZERO, at.a, 1, n, at.t1, n, 1, n, n, n, 1.0)
    symmetrize(w, at.curve_a, n)
    # The smoothed state.
    product(w, at.sm, at.fm, at.fc, n, 1, at.back_a, 1, 1, n, n, 1, 1.0)
    product(w, at.t2, ZERO, at.curve_a, n, 1, at.fc, n, 1, n, n, n, 1.0)
    product(w, at.sc, at.fc, at.fc, n, 1, at.t2, n, 1, n, n, n, -1.0)
    symmetrize(w, at.sc, n)
    if _canceled(w, at.sc, at.fc, n):
        _smooth_carefully(w, at, n)
    # Scores of the transition: r m' - N A F, and r r' - N for the noise.
    product(w, at.da, at.da, at.back, 1, 1, at.sm, n, 1, n, 1, n, 1.0)
    product(w, at.da, at.da, at.t1, n, 1, at.fc, n, 1, n, n, n, -1.0)
    add(w, at.db, at.db, at.back, at.one, n)
    product(w, at.hq, at.hq, at.back, 1, 1, at.back, n, 1, n, 1, n, 1.0)
    add(w, at.hq, at.hq, at.curve, at.minus, n * n)
    # Scores of the emission, with u = V^-1 e - G' A' r: u m' - G' (I - A' N A F), and u u' - V^-1 - G' A' N A G.
    solve_upper(w, at.ue, at.lower, at.inverse, at.ze, d, 1)
    product(w, at.u, at.ue, at.gain, n, 1, at.back_a, 1, 1, d, n, 1, -1.0)
    product(w, at.dc, at.dc, at.u, 1, 1, at.sm, n, 1, d, 1, n, 1.0)
    add(w, at.dc, at.dc, at.gain, at.minus, d * n)
    product(w, at.dc, at.dc, at.gain, n, 1, at.t2, n, 1, d, n, n, 1.0)
    add(w, at.dd, at.dd, at.u, at.one, d)
    product(w, at.hr, at.hr, at.u, 1, 1, at.u, d, 1, d, 1, d, 1.0)
    product(w, at.t3, ZERO, at.gain, n, 1, at.curve_a, n, 1, d, n, n, 1.0)
    product(w, at.hr, at.hr, at.t3, n, 1, at.gain, 1, n, d, n, d, -1.0)
    for k in range(d * d * LANES):
        w[at.vi + k] = 0.0
    for i in range(d):
        copy(w, at.vi + (i * d + i) * LANES, at.one, 1)
    solve_lower(w, at.vi, at.lower, at.inverse, at.vi, d, d)
    solve_upper(w, at.vi, at.lower, at.inverse, at.vi, d, d)
    if gaps > 0:
        scale_rows(w, at.vi, at.vi, at.seen, d, d)
    add(w, at.hr, at.hr, at.vi, at.minus, d * d)
    # Second moments of the states that have a successor, and of those that were observed.
    product(w, at.t1, at.sc, at.sm, 1, 1, at.sm, n, 1, n, 1, n, 1.0)
    add(w, at.s2, at.s2, at.t1, at.going, n * n)
    add(w, at.s1, at.s1, at.sm, at.going, n)
    add(w, at.o2, at.o2, at.t1, at.some, n * n)
    add(w, at.o1, at.o1, at.sm, at.some, n)
    # Back to the predicted state.
    product(w, at.back, ZERO, cm, 1, n, at.ue, 1, 1, n, d, 1, 1.0)
    product(w, at.back, at.back, at.rest, 1, n, at.back_a, 1, 1, n, n, 1, 1.0)
    solve_lower(w, at.zc, at.lower, at.inverse, cm, d, n)
    product(w, at.curve, ZERO, at.zc, 1, n, at.zc, n, 1, n, d, n, 1.0)
    product(w, at.t1, ZERO, at.curve_a, n, 1, at.rest, n, 1, n, n, n, 1.0)
    product(w, at.curve, at.curve, at.rest, 1, n, at.t1, n, 1, n, n, n, 1.0)
    symmetrize(w, at.curve, n)


@compiled
def _lag(w: Floats, at: Any, n: int) -> None:  # pragma: no cover - compiled
    """Compute the covariance of the next state and this one, (I - P N) A F, in t2; P is the next prediction in nc."""
    product(w, at.t1, ZERO, at.a, n, 1, at.fc, n, 1, n, n, n, 1.0)
    product(w, at.sc, ZERO, at.curve, n, 1, at.t1, n, 1, n, n, n, 1.0)
    product(w, at.t2, at.t1, at.nc, n, 1, at.sc, n, 1, n, n, n, -1.0)


@compiled
def run_smoother(
    w: Floats, at: Any, systems: Any, x: Floats, start: Floats, length: Floats, model: Floats, slots: Floats, n: int,
    d: int, log_prob: Floats, sums: Floats, first: Floats, means: Floats, covariances: Floats, lags: Floats,
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
    runs, nothing, longest = np.empty((4, LANES), np.int64), np.empty(0), 0
    for run in range(len(length)):
        longest = max(longest, length[run])
    width = at.nm - at.pm  # all of the update, or the prediction alone
    if longest * width > _MOST:
        width = at.fm - at.pm
    history = np.empty(longest * width)
    count = sums.shape[1]
    for group in range(len(slots) // LANES):
        longest = _place(group, slots, start, length, model, runs)
        _load_models(w, at, systems, runs, n, d)
        _forward(w, at, history, width, x, runs, longest, n, d, nothing, nothing)
        _log_prob(w, at, x, runs, d, log_prob)
        for k in range((n + n * n) * LANES):
            w[at.back + k] = 0.0  # r and N lie next to each other
        for k in range(count * LANES):
            w[at.sums + k] = 0.0
        for t in range(longest - 1, -1, -1):
            copy(w, at.nc, at.pc, n * n)
            copy(w, at.next_pm, at.pm, n)
            copy(w, at.next_sm, at.sm, n + n * n)  # mean and covariance lie next to each other
            w[at.pm : at.pm + width] = history[t * width : (t + 1) * width]
            gaps = _observe(w, at, x, runs, t, d)
            cm, rm = at.c, at.r
            if gaps > 0:
                _mask(w, at, n, d)
                cm, rm = at.cm, at.rm
            if width == at.fm - at.pm:
                _update(w, at, cm, rm, n, d)
            if lags.size > 0:
                _lag(w, at, n)
                for lane in range(LANES):
                    if t + 1 < runs[1, lane]:
                        _read(w, at.t2, n * n, lane, lags, (runs[0, lane] + t) * n * n)
            _backward_step(w, at, cm, gaps, n, d)
            if means.size > 0:
                for lane in range(LANES):
                    if t < runs[1, lane]:
                        _read(w, at.sm, n, lane, means, (runs[0, lane] + t) * n)
                        _read(w, at.sc, n * n, lane, covariances, (runs[0, lane] + t) * n * n)
        for lane in range(LANES):
            if runs[3, lane] >= 0:
                for k in range(count):
                    sums[runs[3, lane], k] = w[at.sums + k * LANES + lane]
                for k in range(n + n * n):
                    first[runs[3, lane], k] = w[at.back + k * LANES + lane]
