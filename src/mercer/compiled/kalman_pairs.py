"""Kernels of pairs of linear dynamical systems: the density at zero of the difference of two series (PPK-4.5).

The difference of independent series of two systems is a series of a third one, whose state is that of both. Its
covariances do not depend on data and converge; once they do not change any more, only its mean goes on.
"""

from __future__ import annotations

from typing import Any

from mercer._array import Floats, Indices
from mercer.compiled.code import compiled
from mercer.compiled.kalman_step import (
    FC,
    MARK,
    MEAN,
    NC,
    PC,
    PM,
    RECORDS,
    SIZE,
    STATES,
    T1,
    ZE,
    A,
    B,
    C,
    D,
    Q,
    R,
    begin_buffer,
    begin_probability,
    log_density,
    places,
    update_covariance,
    update_mean,
)  # fmt: skip
from mercer.compiled.small_entries import copy, keep_converged, symmetrize
from mercer.compiled.small_layout import LANES, ZERO
from mercer.compiled.small_matrices import block_product, product

__all__ = ["load_start", "load_step", "move_covariance", "move_mean", "pair_places", "run_pairs", "write_densities"]


def pair_places(n: int, m: int, d: int) -> Indices:
    """Lay out the buffer of a group of pairs of systems with n and m state and d observed coordinates.

    The transition has its two blocks one after the other.
    """
    return places(n + m, d, 1)


@compiled
def load_step(
    w: Floats, at: Any, left: Any, right: Any, i: int, j: int, n: int, m: int, d: int, lane: int, noise: float,
    extra: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Lay the system of a difference out in a lane: noises times ``noise``, observations plus ``extra``."""
    a, b, c, offset, q, r, _, _ = left
    a2, b2, c2, offset2, q2, r2, _, _ = right
    both = n + m
    for k in range(n * n):
        w[at[A] + k * LANES + lane] = a[i * n * n + k]
    for k in range(m * m):
        w[at[A] + (n * n + k) * LANES + lane] = a2[j * m * m + k]
    for row in range(both):
        w[at[B] + row * LANES + lane] = b[i * n + row] if row < n else b2[j * m + row - n]
    _load_blocks(w, at[Q], q, q2, i, j, n, m, lane, noise)
    for row in range(d):
        w[at[D] + row * LANES + lane] = offset2[j * d + row] - offset[i * d + row]
        for column in range(n):
            w[at[C] + (row * both + column) * LANES + lane] = c[(i * d + row) * n + column]
        for column in range(m):
            w[at[C] + (row * both + n + column) * LANES + lane] = -c2[(j * d + row) * m + column]
        for column in range(d):
            value = (r[(i * d + row) * d + column] + r2[(j * d + row) * d + column]) * noise
            w[at[R] + (row * d + column) * LANES + lane] = value + (extra if row == column else 0.0)


@compiled
def _load_blocks(
    w: Floats, at: int, first: Floats, second: Floats, i: int, j: int, n: int, m: int, lane: int, noise: float
) -> None:  # pragma: no cover - compiled
    """Lay two covariances out as the blocks of one, whose other entries are zero already."""
    width = (n + m) * LANES
    for row in range(n):
        for column in range(n):
            w[at + row * width + column * LANES + lane] = first[(i * n + row) * n + column] * noise
    corner = at + n * width + n * LANES
    for row in range(m):
        for column in range(m):
            w[corner + row * width + column * LANES + lane] = second[(j * m + row) * m + column] * noise


@compiled
def load_start(
    w: Floats, at: Any, left: Any, right: Any, i: int, j: int, n: int, m: int, lane: int, noise: float
) -> None:  # pragma: no cover - compiled
    """Lay the first state of a difference out in a lane."""
    _, _, _, _, _, _, mu, s = left
    _, _, _, _, _, _, mu2, s2 = right
    for row in range(n + m):
        w[at[PM] + row * LANES + lane] = mu[i * n + row] if row < n else mu2[j * m + row - n]
    for k in range((n + m) * (n + m)):
        w[at[RECORDS] + at[PC] + k * LANES + lane] = 0.0
    _load_blocks(w, at[RECORDS] + at[PC], s, s2, i, j, n, m, lane, noise)


@compiled
def move_covariance(w: Floats, at: Any, out: int, n: int, m: int) -> None:  # pragma: no cover - compiled
    """Move the covariance one step on, block by block."""
    size, fc = n + m, at[RECORDS] + at[FC]
    corner = at[A] + n * n * LANES
    low = n * size * LANES
    product(w, at[T1], ZERO, at[A], n, 1, fc, size, 1, n, n, size, 1.0)
    product(w, at[T1] + low, ZERO, corner, m, 1, fc + low, size, 1, m, m, size, 1.0)
    for row, column, rows, columns, other in ((0, 0, n, n, at[A]), (n, 0, m, n, at[A]), (n, n, m, m, corner)):
        cell = (row * size + column) * LANES
        block_product(
            w, out + cell, size, at[Q] + cell, size, at[T1] + cell, size, 1, other, 1, columns, rows, columns, columns,
            1.0,
        )  # fmt: skip
    symmetrize(w, out, size)


@compiled
def move_mean(w: Floats, at: Any, n: int, m: int) -> None:  # pragma: no cover - compiled
    """Move the mean one step on."""
    mean, below = at[STATES] + at[MEAN], n * LANES
    product(w, at[PM], at[B], mean, n, 1, at[A], 1, n, 1, n, n, 1.0)
    product(w, at[PM] + below, at[B] + below, mean + below, m, 1, at[A] + n * below, 1, m, 1, m, m, 1.0)


@compiled
def write_densities(
    w: Floats, at: Any, begin: int, count: int, coordinates: int, out: Floats
) -> None:  # pragma: no cover - compiled
    """Write the log densities of a group of pairs."""
    for lane in range(min(LANES, count - begin)):
        out[begin + lane] = log_density(w, at, lane, coordinates)


@compiled
def run_pairs(
    w: Floats, at: Any, left: Any, right: Any, pairs: Floats, lengths: Floats, n: int, m: int, d: int, noise: float,
    extra: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute the log density at zero of the difference of two series, for every pair and length.

    Parameters
    ----------
    w, at : ndarray
        Buffer, and where its parts are.
    left, right : tuple of ndarray
        Flat arrays of the parameters: A, b, C, d, Q, R, mu, S.
    pairs : ndarray of int of shape (P, 2)
        Positions of the two systems of every pair.
    lengths : ndarray of int
        Lengths, increasing.
    n, m, d : int
        Numbers of coordinates of the states and of an observation.
    noise, extra : float
        All covariances are multiplied by ``noise``; ``extra`` is added to the variances of observations.
    out : ndarray of shape (len(lengths), P)
        Where the logarithms are written.
    """
    size, record, state = n + m, at[RECORDS], at[STATES]
    w[: at[SIZE]] = 0.0
    begin_buffer(w, at)
    for begin in range(0, len(pairs), LANES):
        for lane in range(LANES):
            p = min(begin + lane, len(pairs) - 1)
            load_step(w, at, left, right, pairs[p, 0], pairs[p, 1], n, m, d, lane, noise, extra)
            load_start(w, at, left, right, pairs[p, 0], pairs[p, 1], n, m, lane, noise)
        begin_probability(w, at)
        steady, reached = False, 0
        for t in range(lengths[-1]):
            if not steady:
                update_covariance(w, at, record, at[C], at[R], size, d)
            copy(w, state + at[ZE], at[D], d)
            update_mean(w, at, record, state, at[C], size, d)
            move_mean(w, at, n, m)
            if not steady and t + 1 < lengths[-1]:
                move_covariance(w, at, at[NC], n, m)
                steady = keep_converged(w, at[MARK], at[NC], record + at[PC], size)
                copy(w, record + at[PC], at[NC], size * size)
            if t + 1 == lengths[reached]:
                write_densities(w, at, begin, len(pairs), (t + 1) * d, out[reached])
                reached += 1
