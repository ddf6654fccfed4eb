"""Kernels of pairs of regime paths: linear dynamical systems whose parameters change from step to step (PPK-5.1)."""

from __future__ import annotations

from typing import Any

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.kalman_pairs import load_start, load_step, move_covariance, move_mean, write_densities
from mercer.compiled.kalman_step import (
    PC,
    RECORDS,
    SIZE,
    STATES,
    ZE,
    C,
    D,
    R,
    begin_buffer,
    begin_probability,
    update_covariance,
    update_mean,
)  # fmt: skip
from mercer.compiled.small_entries import copy
from mercer.compiled.small_layout import LANES

__all__ = ["run_path_pairs"]


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
    size, record, state = n + m, at[RECORDS], at[STATES]
    w[: at[SIZE]] = 0.0
    begin_buffer(w, at)
    for begin in range(0, len(pairs), LANES):
        begin_probability(w, at)
        reached = 0
        for t in range(lengths[-1]):
            for lane in range(LANES):
                p = min(begin + lane, len(pairs) - 1)
                i, j = left_paths[pairs[p, 0], t], right_paths[pairs[p, 1], t]
                load_step(w, at, left, right, i, j, n, m, d, lane, noise, extra)
                if t == 0:
                    load_start(w, at, left, right, i, j, n, m, lane, noise)
            if t > 0:
                move_mean(w, at, n, m)
                move_covariance(w, at, record + at[PC], n, m)
            update_covariance(w, at, record, at[C], at[R], size, d)
            copy(w, state + at[ZE], at[D], d)
            update_mean(w, at, record, state, at[C], size, d)
            if t + 1 == lengths[reached]:
                write_densities(w, at, begin, len(pairs), (t + 1) * d, out[reached])
                reached += 1
