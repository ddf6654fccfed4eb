"""Kernels of pairs of linear dynamical systems: the density at zero of the difference of two series (PPK-4.5).

The difference of independent series of two systems is a series of a third one, whose state is that of both. Its
covariances do not depend on data and converge; once they do not change any more, only its mean goes on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.small_matrices import (
    LANES,
    ZERO,
    add,
    block_product,
    canceled,
    cholesky,
    converged,
    copy,
    multiply_determinant,
    product,
    solve_lower,
    solve_upper,
    symmetric_product,
    symmetrize,
)

__all__ = [
    "PairPlaces",
    "covariance_step",
    "covariance_update",
    "load_start",
    "load_step",
    "pair_places",
    "run_pairs",
]

_LOG_2PI = math.log(2 * math.pi)
_LOG_2 = math.log(2.0)


class PairPlaces(NamedTuple):
    """Where the matrices of a group of pairs begin in its buffer; N is the size of both states."""

    size: int
    one: int
    a: int
    b: int
    c: int
    offset: int
    q: int
    r: int
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


def pair_places(n: int, m: int, d: int) -> PairPlaces:
    """Lay out the buffer of a group of pairs of systems with n and m state and d observed coordinates."""
    both = n + m
    square, wide = both * both, d * both
    sizes = {
        "one": 1, "a": n * n + m * m, "b": both, "c": wide, "offset": d, "q": square, "r": d * d, "pm": both,
        "pc": square, "fm": both, "fc": square, "e": d, "k": wide, "v": d * d, "lower": d * d, "inverse": d, "z": wide,
        "ze": d, "gain": wide, "rest": square, "t1": square, "t3": wide, "mantissa": 1, "exponent": 1, "squares": 1,
    }  # fmt: skip
    begin, found = LANES, {}
    for name, size in sizes.items():
        found[name] = begin
        begin += size * LANES
    return PairPlaces(size=begin, **found)


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
        w[at.a + k * LANES + lane] = a[i * n * n + k]
    for k in range(m * m):
        w[at.a + (n * n + k) * LANES + lane] = a2[j * m * m + k]
    for row in range(both):
        w[at.b + row * LANES + lane] = b[i * n + row] if row < n else b2[j * m + row - n]
    _load_blocks(w, at.q, q, q2, i, j, n, m, lane, noise)
    for row in range(d):
        w[at.offset + row * LANES + lane] = offset2[j * d + row] - offset[i * d + row]
        for column in range(n):
            w[at.c + (row * both + column) * LANES + lane] = c[(i * d + row) * n + column]
        for column in range(m):
            w[at.c + (row * both + n + column) * LANES + lane] = -c2[(j * d + row) * m + column]
        for column in range(d):
            value = (r[(i * d + row) * d + column] + r2[(j * d + row) * d + column]) * noise
            w[at.r + (row * d + column) * LANES + lane] = value + (extra if row == column else 0.0)


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
        w[at.pm + row * LANES + lane] = mu[i * n + row] if row < n else mu2[j * m + row - n]
    for k in range((n + m) * (n + m)):
        w[at.pc + k * LANES + lane] = 0.0
    _load_blocks(w, at.pc, s, s2, i, j, n, m, lane, noise)


@compiled
def covariance_update(w: Floats, at: Any, size: int, d: int) -> None:  # pragma: no cover - compiled
    """Factor the covariance of a predicted difference, and condition the covariance of the state on it."""
    product(w, at.k, ZERO, at.c, size, 1, at.pc, size, 1, d, size, size, 1.0)
    symmetric_product(w, at.v, at.r, at.k, size, 1, at.c, 1, size, d, size, 1.0)
    cholesky(w, at.lower, at.inverse, at.v, d)
    solve_lower(w, at.z, at.lower, at.inverse, at.k, d, size)
    symmetric_product(w, at.fc, at.pc, at.z, 1, size, at.z, size, 1, size, d, -1.0)
    if canceled(w, at.fc, at.pc, size):  # Joseph's form
        solve_upper(w, at.gain, at.lower, at.inverse, at.z, d, size)
        product(w, at.rest, ZERO, at.gain, 1, size, at.c, size, 1, size, d, size, -1.0)
        for i in range(size):
            k = at.rest + i * (size + 1) * LANES
            add(w, k, k, at.one, at.one, 1)
        product(w, at.t1, ZERO, at.rest, size, 1, at.pc, size, 1, size, size, size, 1.0)
        symmetric_product(w, at.fc, ZERO, at.t1, size, 1, at.rest, 1, size, size, size, 1.0)
        product(w, at.t3, ZERO, at.r, d, 1, at.gain, size, 1, d, d, size, 1.0)
        symmetric_product(w, at.fc, at.fc, at.gain, 1, size, at.t3, size, 1, size, d, 1.0)


@compiled
def covariance_step(w: Floats, at: Any, out: int, n: int, m: int) -> None:  # pragma: no cover - compiled
    """Move the covariance one step on, block by block."""
    size = n + m
    corner = at.a + n * n * LANES
    low = n * size * LANES
    product(w, at.t1, ZERO, at.a, n, 1, at.fc, size, 1, n, n, size, 1.0)
    product(w, at.t1 + low, ZERO, corner, m, 1, at.fc + low, size, 1, m, m, size, 1.0)
    for row, column, rows, columns, other in ((0, 0, n, n, at.a), (n, 0, m, n, at.a), (n, n, m, m, corner)):
        cell = (row * size + column) * LANES
        block_product(
            w, out + cell, at.q + cell, size, at.t1 + cell, size, 1, other, 1, columns, rows, columns, columns, 1.0
        )  # fmt: skip
    symmetrize(w, out, size)


@compiled
def run_pairs(
    w: Floats, at: Any, left: Any, right: Any, pairs: Floats, lengths: Floats, n: int, m: int, d: int, noise: float,
    extra: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute the log density at zero of the difference of two series, for every pair and length.

    Parameters
    ----------
    w, at : ndarray and PairPlaces
        Buffer, and where its matrices are.
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
    size = n + m
    w[: at.size] = 0.0
    w[at.one : at.one + LANES] = 1.0
    corner = at.a + n * n * LANES
    for begin in range(0, len(pairs), LANES):
        for lane in range(LANES):
            p = min(begin + lane, len(pairs) - 1)
            load_step(w, at, left, right, pairs[p, 0], pairs[p, 1], n, m, d, lane, noise, extra)
            load_start(w, at, left, right, pairs[p, 0], pairs[p, 1], n, m, lane, noise)
        copy(w, at.mantissa, at.one, 1)
        copy(w, at.exponent, ZERO, 1)
        copy(w, at.squares, ZERO, 1)
        steady, reached = False, 0
        for t in range(lengths[-1]):
            if not steady:
                covariance_update(w, at, size, d)
            multiply_determinant(w, at.mantissa, at.exponent, at.inverse, d)
            product(w, at.e, at.offset, at.c, size, 1, at.pm, 1, 1, d, size, 1, -1.0)
            solve_lower(w, at.ze, at.lower, at.inverse, at.e, d, 1)
            product(w, at.squares, at.squares, at.ze, 1, 1, at.ze, 1, 1, 1, d, 1, 1.0)
            product(w, at.fm, at.pm, at.z, 1, size, at.ze, 1, 1, size, d, 1, 1.0)
            product(w, at.pm, at.b, at.a, n, 1, at.fm, 1, 1, n, n, 1, 1.0)
            product(w, at.pm + n * LANES, at.b + n * LANES, corner, m, 1, at.fm + n * LANES, 1, 1, m, m, 1, 1.0)
            if not steady and t + 1 < lengths[-1]:
                covariance_step(w, at, at.rest, n, m)
                steady = converged(w, at.rest, at.pc, size)
                copy(w, at.pc, at.rest, size * size)
                if steady:
                    covariance_update(w, at, size, d)
            if t + 1 == lengths[reached]:
                for lane in range(min(LANES, len(pairs) - begin)):
                    log_root = math.log(w[at.mantissa + lane]) + w[at.exponent + lane] * _LOG_2
                    value = log_root - 0.5 * (w[at.squares + lane] + (t + 1) * d * _LOG_2PI)
                    out[reached, begin + lane] = value
                reached += 1
