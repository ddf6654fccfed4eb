"""Coupled chains (PPK-4.2): tiles of kernels between hidden Markov models, computed by native/chains.hpp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call


def _block(growth: float) -> int:
    """Return the number of steps between two checks of the sums: up to 8, fewer if a sum could overflow."""
    if growth <= 1:
        return 8
    return max(1, min(8, int(100 / math.log10(growth)))) if math.isfinite(growth) else 1


def small_chains(
    left: tuple[Floats, ...],
    right: tuple[Floats, ...],
    lengths: tuple[int, ...],
    psi: Floats | None = None,
) -> Floats:
    """Compute the log values of coupled chains (PPK-4.2).

    Parameters
    ----------
    left, right : tuples of ndarrays
        Initial weights ``(I, n)`` and ``(J, m)``, transition weights ``(I, n, n)`` and ``(J, m, m)`` and, without
        ``psi``, emission weights ``(I, n, k)`` and ``(J, m, k)``, whose products, summed over symbols, are the leaf
        kernels. All are nonnegative.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    psi : ndarray of shape (I * n, J * m), default=None
        Leaf kernel values, nonnegative.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms. NaN marks a pair whose sums left the range of float64 or are zero: `mercer.models._chains.coupled`
        decides which.
    """
    weights = (None, None) if psi is not None else (left[2], right[2])
    top = float(psi.max()) if psi is not None else left[2].shape[2] * float(left[2].max()) * float(right[2].max())
    growth = float(left[1].sum(axis=2).max()) * float(right[1].sum(axis=2).max()) * top
    value = np.empty((len(lengths), len(left[0]), len(right[0])))
    call(
        "chains", left=left[:2], right=right[:2], weights_a=weights[0], weights_b=weights[1], psi=psi,
        lengths=np.asarray(lengths), block=_block(growth), log_value=value,
    )  # fmt: skip
    return value


def ranged_pairs(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    rows: Any,
    columns: Any,
    log_psi: Floats,
    lengths: tuple[int, ...],
    logarithms: bool = False,
) -> Floats:
    """Compute the log kernels of given pairs of chains in numbers of unlimited range: slow, right for all weights.

    Parameters
    ----------
    left, right : pair of ndarrays
        Initial and transition weights, (I, n) and (I, n, n), (J, m) and (J, m, m).
    rows, columns : ndarray of int of shape (N,)
        Indices of the chains of each pair.
    log_psi : ndarray of shape (N, n, m)
        Logarithms of the leaf kernels of every pair.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    logarithms : bool, default=False
        Whether weights are given as logarithms.

    Returns
    -------
    ndarray of shape (H, N)
        Logarithms; -inf where no path has positive weight.
    """
    value = np.empty((len(lengths), len(rows)))
    call(
        "ranged_chains", left=left, right=right, logarithms=logarithms, rows=rows, columns=columns, log_psi=log_psi,
        lengths=np.asarray(lengths), log_value=value,
    )  # fmt: skip
    return value


STEPS = 1e9
"""Multiplications of one call: longer sweeps are computed in parts, so that they can be interrupted."""


def context_products(left: tuple[Floats, ...], right: tuple[Floats, ...], steps: Indices) -> Floats:
    """Compute the log kernels of every pair of powered chains (PPK-4.2a).

    Parameters
    ----------
    left, right : tuples of ndarrays
        Weights of the first contexts ``(N, C)``, of symbols after contexts ``(N, C, k)``, and of contexts at the end
        ``(N, C)``.
    steps : ndarray of int of shape (H,)
        Numbers of steps after the first context, ascending.

    Returns
    -------
    ndarray of shape (H, I, J)
        NaN where a sum may have lost a significant term by underflow.
    """
    value = np.empty((len(steps), len(left[0]), len(right[0])))
    if not value.size:
        return value
    at_once = max(1, int(STEPS / ((steps[-1] + 1) * max(8, len(right[0])) * left[1][0].size)))
    for begin in range(0, len(left[0]), at_once):
        rows = slice(begin, begin + at_once)
        part = np.empty((len(steps), len(left[0][rows]), len(right[0])))
        call("context_products", left=tuple(x[rows] for x in left), right=right, steps=steps, log_value=part)
        value[:, rows] = part
    return value
