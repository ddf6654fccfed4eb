"""One step of the Kalman filter for many branches: a state, a system and an observation each, one branch per lane.

Filters of switching systems continue every state under several systems; which ones go on is decided outside.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.small_matrices import (
    LANES,
    ZERO,
    cholesky,
    copy,
    multiply_determinant,
    product,
    solve_lower,
    solve_upper,
    symmetrize,
)

__all__ = ["BranchPlaces", "branch_places", "run_branches"]

_LOG_2PI = math.log(2 * math.pi)
_LOG_2 = math.log(2.0)
_CANCELED = 1e-4  # of a variance less than this is left by an observation: then in Joseph's form


class BranchPlaces(NamedTuple):
    """Where the matrices of a group of branches begin in its buffer."""

    size: int
    one: int
    a: int
    b: int
    c: int
    q: int
    r: int
    x: int
    pm: int
    pc: int
    fm: int
    fc: int
    e: int
    k: int
    v: int
    lower: int
    inverse: int
    z: int
    ze: int
    gain: int
    rest: int
    t1: int
    t3: int
    mantissa: int
    exponent: int
    squares: int


def branch_places(n: int, d: int) -> BranchPlaces:
    """Lay out the buffer of a group of branches with n state and d observed coordinates."""
    square, wide = n * n, d * n
    sizes = {
        "one": 1, "a": square, "b": n, "c": wide, "q": square, "r": d * d, "x": d, "pm": n, "pc": square, "fm": n,
        "fc": square, "e": d, "k": wide, "v": d * d, "lower": d * d, "inverse": d, "z": wide, "ze": d, "gain": wide,
        "rest": square, "t1": square, "t3": wide, "mantissa": 1, "exponent": 1, "squares": 1,
    }  # fmt: skip
    begin, found = LANES, {}  # after the zero vector
    for name, size in sizes.items():
        found[name] = begin
        begin += size * LANES
    return BranchPlaces(size=begin, **found)


@compiled
def _load(w: Floats, at: int, values: Floats, begin: int, count: int, lane: int) -> None:  # pragma: no cover - compiled
    for k in range(count):
        w[at + k * LANES + lane] = values[begin + k]


@compiled
def _load_branch(
    w: Floats, at: Any, systems: Any, x: Floats, means: Floats, covariances: Floats, parent: int, system: int,
    point: int, lane: int, n: int, d: int,
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """Lay a branch out in a lane; return how many coordinates were observed.

    A coordinate that was not has a zero row in the emission and a noise of its own: it changes nothing.
    """
    a, b, c, offset, q, r, mu, s = systems
    if parent >= 0:
        _load(w, at.fm, means, parent * n, n, lane)
        _load(w, at.fc, covariances, parent * n * n, n * n, lane)
        _load(w, at.a, a, system * n * n, n * n, lane)
        _load(w, at.b, b, system * n, n, lane)
        _load(w, at.q, q, system * n * n, n * n, lane)
    else:  # a first state
        _load(w, at.pm, mu, system * n, n, lane)
        _load(w, at.pc, s, system * n * n, n * n, lane)
    count = 0
    for i in range(d):
        value = x[point * d + i]
        seen = value == value
        count += seen
        w[at.x + i * LANES + lane] = value - offset[system * d + i] if seen else 0.0
        for j in range(n):
            w[at.c + (i * n + j) * LANES + lane] = c[(system * d + i) * n + j] if seen else 0.0
        for j in range(d):
            both = seen and x[point * d + j] == x[point * d + j]
            own = 1.0 if i == j else 0.0
            w[at.r + (i * d + j) * LANES + lane] = r[(system * d + i) * d + j] if both else own
    return count


@compiled
def _step(w: Floats, at: Any, first: bool, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Predict, and condition on the observation."""
    copy(w, at.mantissa, at.one, 1)
    copy(w, at.exponent, ZERO, 1)
    copy(w, at.squares, ZERO, 1)
    if not first:
        product(w, at.pm, at.b, at.a, n, 1, at.fm, 1, 1, n, n, 1, 1.0)
        product(w, at.t1, ZERO, at.a, n, 1, at.fc, n, 1, n, n, n, 1.0)
        product(w, at.pc, at.q, at.t1, n, 1, at.a, 1, n, n, n, n, 1.0)
        symmetrize(w, at.pc, n)
    product(w, at.e, at.x, at.c, n, 1, at.pm, 1, 1, d, n, 1, -1.0)
    product(w, at.k, ZERO, at.c, n, 1, at.pc, n, 1, d, n, n, 1.0)
    product(w, at.v, at.r, at.k, n, 1, at.c, 1, n, d, n, d, 1.0)
    cholesky(w, at.lower, at.inverse, at.v, d)
    multiply_determinant(w, at.mantissa, at.exponent, at.inverse, d)
    solve_lower(w, at.z, at.lower, at.inverse, at.k, d, n)
    solve_lower(w, at.ze, at.lower, at.inverse, at.e, d, 1)
    product(w, at.squares, at.squares, at.ze, 1, 1, at.ze, 1, 1, 1, d, 1, 1.0)
    product(w, at.fm, at.pm, at.z, 1, n, at.ze, 1, 1, n, d, 1, 1.0)
    product(w, at.fc, at.pc, at.z, 1, n, at.z, n, 1, n, d, n, -1.0)
    canceled = False
    for i in range(n):
        for lane in range(LANES):
            k = (i * n + i) * LANES + lane
            canceled |= w[at.fc + k] < _CANCELED * w[at.pc + k]
    if canceled:
        solve_upper(w, at.gain, at.lower, at.inverse, at.z, d, n)
        product(w, at.rest, ZERO, at.gain, 1, n, at.c, n, 1, n, d, n, -1.0)
        for i in range(n):
            for lane in range(LANES):
                w[at.rest + (i * n + i) * LANES + lane] += 1.0
        product(w, at.t1, ZERO, at.rest, n, 1, at.pc, n, 1, n, n, n, 1.0)
        product(w, at.fc, ZERO, at.t1, n, 1, at.rest, 1, n, n, n, n, 1.0)
        product(w, at.t3, ZERO, at.r, d, 1, at.gain, n, 1, d, d, n, 1.0)
        product(w, at.fc, at.fc, at.gain, 1, n, at.t3, n, 1, n, d, n, 1.0)
    symmetrize(w, at.fc, n)


@compiled
def run_branches(
    w: Floats, at: Any, systems: Any, x: Floats, means: Floats, covariances: Floats, parent: Floats, system: Floats,
    point: Floats, n: int, d: int, density: Floats, new_means: Floats, new_covariances: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Move every branch one step on.

    Parameters
    ----------
    w, at : ndarray and BranchPlaces
        Buffer, and where its matrices are.
    systems : tuple of ndarray
        Flat arrays of the parameters of all systems: A, b, C, d, Q, R, mu, S.
    x : ndarray
        Observations, flat; NaN is missing.
    means, covariances : ndarray
        Filtered states that branches come from, flat.
    parent, system, point : ndarray of int of shape (B,)
        State, system and observation of every branch; the parent is -1 of all branches where series begin.
    n, d : int
        Numbers of state and observed coordinates.
    density : ndarray of shape (B,)
        Where the log densities of the observations are written.
    new_means, new_covariances : ndarray
        Where the filtered states of the branches are written, flat.
    """
    w[ZERO : ZERO + LANES] = 0.0
    w[at.one : at.one + LANES] = 1.0
    for begin in range(0, len(parent), LANES):
        for lane in range(LANES):
            p = min(begin + lane, len(parent) - 1)
            count = _load_branch(
                w, at, systems, x, means, covariances, parent[p], system[p], point[p], lane, n, d
            )  # fmt: skip
            density[p] = -0.5 * count * _LOG_2PI
        _step(w, at, parent[begin] < 0, n, d)
        for lane in range(min(LANES, len(parent) - begin)):
            p = begin + lane
            log_root = math.log(w[at.mantissa + lane]) + w[at.exponent + lane] * _LOG_2
            density[p] += log_root - 0.5 * w[at.squares + lane]
            for k in range(n):
                new_means[p * n + k] = w[at.fm + k * LANES + lane]
            for k in range(n * n):
                new_covariances[p * n * n + k] = w[at.fc + k * LANES + lane]
