"""Coupled chains (PPK-4.2): tiles of kernels between hidden Markov models, computed by native/chains.hpp."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    (i, n), (j, m) = left[0].shape, right[0].shape
    top = float(psi.max()) if psi is not None else left[2].shape[2] * float(left[2].max()) * float(right[2].max())
    growth = float(left[1].sum(axis=2).max()) * float(right[1].sum(axis=2).max()) * top

    def compute(rows: slice, columns: slice) -> Floats:
        a, b = tuple(x[rows] for x in left), tuple(x[columns] for x in right)
        value = np.empty((len(lengths), len(a[0]), len(b[0])))
        given = None if psi is None else psi.reshape(i, n, j, m)[rows, :, columns].reshape(len(a[0]) * n, -1)
        weights = (a[2], b[2]) if psi is None else (None, None)
        call(
            "chains", left=a[:2], right=b[:2], weights_a=weights[0], weights_b=weights[1], psi=given,
            lengths=np.asarray(lengths), block=_block(growth), log_value=value,
        )  # fmt: skip
        return value

    return _in_parts(compute, i, j, lengths[-1] * n * m * (n + m))


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
    n, m = log_psi.shape[1:]

    def compute(_: slice, part: slice) -> Floats:
        value = np.empty((len(lengths), len(rows[part])))
        call(
            "ranged_chains", left=left, right=right, logarithms=logarithms, rows=rows[part], columns=columns[part],
            log_psi=log_psi[part], lengths=np.asarray(lengths), log_value=value,
        )  # fmt: skip
        return value[:, None]

    return _in_parts(compute, 1, len(rows), _SLOWER * lengths[-1] * n * m * (n + m))[:, 0]


STEPS = 1e9
"""Multiplications of one call: longer sweeps are computed in parts, so that they can be interrupted."""
_SLOWER = 10
"""About how much slower numbers of unlimited range are."""


def _in_parts(compute: Callable[[slice, slice], Floats], rows: int, columns: int, work: float) -> Floats:
    """Compute a tile in calls of bounded work, of whole vectors of columns; ``work`` is that of a pair."""
    wide = max(8, int(STEPS / work) // 8 * 8)
    tall = max(1, int(STEPS / (work * max(8, min(wide, columns)))))
    if rows <= tall and columns <= wide:
        return compute(slice(None), slice(None))
    starts = range(0, columns, wide)
    lines = ([compute(slice(row, row + tall), slice(at, at + wide)) for at in starts] for row in range(0, rows, tall))
    return np.concatenate([np.concatenate(line, axis=2) for line in lines], axis=1)


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
    if 0 in (shape := (len(steps), len(left[0]), len(right[0]))):  # no steps: sequences within the first context
        return np.empty(shape)

    def compute(rows: slice, columns: slice) -> Floats:
        a, b = tuple(x[rows] for x in left), tuple(x[columns] for x in right)
        value = np.empty((len(steps), len(a[0]), len(b[0])))
        call("context_products", left=a, right=b, steps=steps, log_value=value)
        return value

    return _in_parts(compute, len(left[0]), len(right[0]), (steps[-1] + 1) * left[1][0].size)
