"""Kernels of pairs of regime paths: linear dynamical systems whose parameters change from step to step (PPK-5.1)."""

from __future__ import annotations

import math
from typing import Any

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman_pairs import covariance_step, covariance_update, load_start, load_step
from mercer.compiled.small_matrices import LANES, ZERO, copy, multiply_determinant, product, solve_lower

__all__ = ["run_path_pairs"]

_LOG_2PI = math.log(2 * math.pi)
_LOG_2 = math.log(2.0)


@compiled
def run_path_pairs(
    w: Floats, at: Any, left: Any, right: Any, left_paths: Floats, right_paths: Floats, pairs: Floats, lengths: Floats,
    n: int, m: int, d: int, noise: float, extra: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute the log density at zero of the difference of two series, for every pair of paths and length.

    Parameters
    ----------
    left_paths, right_paths : ndarray of int of shape (A, L) and (B, L)
        The system of every step of every path.
    pairs : ndarray of int of shape (P, 2)
        Positions of the two paths of every pair.
    w, at, left, right, lengths, n, m, d, noise, extra, out
        As of `mercer.compiled.kalman_pairs.run_pairs`.
    """
    size = n + m
    w[: at.size] = 0.0
    w[at.one : at.one + LANES] = 1.0
    corner = at.a + n * n * LANES
    for begin in range(0, len(pairs), LANES):
        copy(w, at.mantissa, at.one, 1)
        copy(w, at.exponent, ZERO, 1)
        copy(w, at.squares, ZERO, 1)
        reached = 0
        for t in range(lengths[-1]):
            for lane in range(LANES):
                p = min(begin + lane, len(pairs) - 1)
                i, j = left_paths[pairs[p, 0], t], right_paths[pairs[p, 1], t]
                load_step(w, at, left, right, i, j, n, m, d, lane, noise, extra)
                if t == 0:
                    load_start(w, at, left, right, i, j, n, m, lane, noise)
            if t > 0:
                product(w, at.pm, at.b, at.a, n, 1, at.fm, 1, 1, n, n, 1, 1.0)
                product(w, at.pm + n * LANES, at.b + n * LANES, corner, m, 1, at.fm + n * LANES, 1, 1, m, m, 1, 1.0)
                covariance_step(w, at, at.pc, n, m)
            covariance_update(w, at, size, d)
            multiply_determinant(w, at.mantissa, at.exponent, at.inverse, d)
            product(w, at.e, at.offset, at.c, size, 1, at.pm, 1, 1, d, size, 1, -1.0)
            solve_lower(w, at.ze, at.lower, at.inverse, at.e, d, 1)
            product(w, at.squares, at.squares, at.ze, 1, 1, at.ze, 1, 1, 1, d, 1, 1.0)
            product(w, at.fm, at.pm, at.z, 1, size, at.ze, 1, 1, size, d, 1, 1.0)
            if t + 1 == lengths[reached]:
                for lane in range(min(LANES, len(pairs) - begin)):
                    log_root = math.log(w[at.mantissa + lane]) + w[at.exponent + lane] * _LOG_2
                    value = log_root - 0.5 * (w[at.squares + lane] + (t + 1) * d * _LOG_2PI)
                    out[reached, begin + lane] = value
                reached += 1
