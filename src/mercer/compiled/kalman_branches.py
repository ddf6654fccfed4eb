"""One step of the Kalman filter for many branches: a state, a system and an observation each, one branch per lane.

Filters of switching systems continue every state under several systems; which ones go on is decided outside.
"""

from __future__ import annotations

from typing import Any

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman_step import (
    CM,
    FC,
    MEAN,
    MISSING,
    NC,
    PC,
    PM,
    RECORDS,
    RM,
    STATES,
    T1,
    ZE,
    A,
    B,
    Q,
    begin_buffer,
    begin_probability,
    load_lane,
    log_density,
    places,
    read_lane,
    update_covariance,
    update_mean,
)  # fmt: skip
from mercer.compiled.small_layout import LANES, ZERO
from mercer.compiled.small_matrices import product, symmetric_product

__all__ = ["places", "run_branches"]


@compiled
def _load_branch(
    w: Floats, at: Any, systems: Any, x: Floats, means: Floats, covariances: Floats, parent: int, system: int,
    point: int, lane: int, n: int, d: int,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Lay a branch out in a lane.

    A coordinate that was not observed has a zero row in the emission and a noise of its own: it changes nothing.
    """
    a, b, c, offset, q, r, mu, s = systems
    if parent >= 0:
        load_lane(w, at[STATES] + at[MEAN], means, parent * n, n, lane)
        load_lane(w, at[NC], covariances, parent * n * n, n * n, lane)
        load_lane(w, at[A], a, system * n * n, n * n, lane)
        load_lane(w, at[B], b, system * n, n, lane)
        load_lane(w, at[Q], q, system * n * n, n * n, lane)
    else:  # a first state
        load_lane(w, at[PM], mu, system * n, n, lane)
        load_lane(w, at[RECORDS] + at[PC], s, system * n * n, n * n, lane)
    for i in range(d):
        value = x[point * d + i]
        seen = value == value
        w[at[MISSING] + lane] += not seen
        w[at[STATES] + at[ZE] + i * LANES + lane] = value - offset[system * d + i] if seen else 0.0
        for j in range(n):
            w[at[CM] + (i * n + j) * LANES + lane] = c[(system * d + i) * n + j] if seen else 0.0
        for j in range(d):
            both = seen and x[point * d + j] == x[point * d + j]
            own = 1.0 if i == j else 0.0
            w[at[RM] + (i * d + j) * LANES + lane] = r[(system * d + i) * d + j] if both else own


@compiled
def _step(w: Floats, at: Any, first: bool, n: int, d: int) -> None:  # pragma: no cover - compiled
    """Predict, and condition on the observation."""
    record, state = at[RECORDS], at[STATES]
    if not first:
        product(w, at[PM], at[B], state + at[MEAN], n, 1, at[A], 1, n, 1, n, n, 1.0)
        product(w, at[T1], ZERO, at[A], n, 1, at[NC], n, 1, n, n, n, 1.0)
        symmetric_product(w, record + at[PC], at[Q], at[T1], n, 1, at[A], 1, n, n, n, 1.0)
    update_covariance(w, at, record, at[CM], at[RM], n, d)
    update_mean(w, at, record, state, at[CM], n, d)


@compiled
def run_branches(
    w: Floats, at: Any, systems: Any, x: Floats, means: Floats, covariances: Floats, parent: Floats, system: Floats,
    point: Floats, n: int, d: int, density: Floats, new_means: Floats, new_covariances: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Move every branch one step on.

    Parameters
    ----------
    w, at : ndarray
        Buffer, and where its parts are.
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
    begin_buffer(w, at)
    for begin in range(0, len(parent), LANES):
        begin_probability(w, at)
        for lane in range(LANES):
            p = min(begin + lane, len(parent) - 1)
            _load_branch(w, at, systems, x, means, covariances, parent[p], system[p], point[p], lane, n, d)
        _step(w, at, parent[begin] < 0, n, d)
        for lane in range(min(LANES, len(parent) - begin)):
            p = begin + lane
            density[p] = log_density(w, at, lane, d)
            read_lane(w, at[STATES] + at[MEAN], n, lane, new_means, p * n)
            read_lane(w, at[RECORDS] + at[FC], n * n, lane, new_covariances, p * n * n)
