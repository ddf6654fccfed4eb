"""Coupled chains (PPK-4.2) in numbers of unlimited range, pair by pair: slow, but correct for all weights.

Used for the pairs that `mercer.compiled.chains` cannot compute: those whose sums leave the range of float64, and those
for which leaf kernels that round to zero relative to the largest may matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.layout import owned
from mercer.compiled.ranged import LOG_RADIX, NEVER, from_logs, plus, split, times


def ranged_pairs(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    rows: Any,
    columns: Any,
    log_psi: Floats,
    lengths: tuple[int, ...],
) -> Floats:
    """Compute the log kernels of given pairs of chains.

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

    Returns
    -------
    ndarray of shape (H, N)
        Logarithms; -inf where no path has positive weight.
    """
    weights = [part for side in (left, right) for x in side for part in split(owned(x))]
    return _logs(weights, rows, columns, log_psi, lengths)


def ranged_log_chains(
    left: tuple[Floats, Floats], right: tuple[Floats, Floats], log_psi: Floats, lengths: tuple[int, ...]
) -> Floats:
    """Compute the log kernels of all pairs of chains whose weights are given as logarithms.

    Parameters
    ----------
    left, right : pair of ndarrays
        Logarithms of initial and transition weights, (I, n) and (I, n, n), (J, m) and (J, m, m).
    log_psi : ndarray of shape (I * n, J * m)
        Logarithms of the leaf kernels.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms; -inf where no path has positive weight.
    """
    (i, n), (j, m) = left[0].shape, right[0].shape
    rows, columns = np.divmod(np.arange(i * j), max(j, 1))
    pairs = log_psi.reshape(i, n, j, m).transpose(0, 2, 1, 3).reshape(i * j, n, m)
    weights = [part for side in (left, right) for x in side for part in from_logs(owned(x))]
    return _logs(weights, rows, columns, pairs, lengths).reshape(len(lengths), i, j)


def _logs(weights: list[Any], rows: Any, columns: Any, log_psi: Floats, lengths: tuple[int, ...]) -> Floats:
    """Sweep over pairs, and take logarithms."""
    value, exponent = np.zeros((len(lengths), len(rows))), np.full((len(lengths), len(rows)), NEVER, np.int64)
    _sweep(*weights, rows, columns, *from_logs(owned(log_psi)), np.asarray(lengths), value, exponent)
    with np.errstate(divide="ignore"):
        return np.log(value) + exponent * LOG_RADIX


@compiled
def _sweep(
    initial_a: Floats, initial_ka: Any, transition_a: Floats, transition_ka: Any,
    initial_b: Floats, initial_kb: Any, transition_b: Floats, transition_kb: Any,
    rows: Any, columns: Any, psi: Floats, psi_k: Any, lengths: Any, value: Floats, exponent: Any,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    # Skip zeros everywhere: the exponent that marks zero is small, but that of exp(-1e12) is smaller.
    n, m = psi.shape[1], psi.shape[2]
    phi, phi_k = np.empty((n, m)), np.empty((n, m), np.int64)
    half, half_k = np.empty((n, m)), np.empty((n, m), np.int64)
    for p in range(rows.size):
        i, j = rows[p], columns[p]
        time = 1
        for a in range(n):
            for b in range(m):
                v, k = times(initial_a[i, a], initial_ka[i, a], initial_b[j, b], initial_kb[j, b])
                phi[a, b], phi_k[a, b] = times(v, k, psi[p, a, b], psi_k[p, a, b])
        for h in range(lengths.size):
            while time < lengths[h]:
                for a in range(n):
                    for d in range(m):
                        v, k = 0.0, NEVER
                        for c in range(m):
                            if phi[a, c] > 0.0 and transition_b[j, c, d] > 0.0:
                                w, e = times(phi[a, c], phi_k[a, c], transition_b[j, c, d], transition_kb[j, c, d])
                                v, k = (w, e) if v == 0.0 else plus(v, k, w, e)
                        half[a, d], half_k[a, d] = v, k
                for a in range(n):
                    for d in range(m):
                        v, k = 0.0, NEVER
                        for c in range(n):
                            if half[c, d] > 0.0 and transition_a[i, c, a] > 0.0:
                                w, e = times(half[c, d], half_k[c, d], transition_a[i, c, a], transition_ka[i, c, a])
                                v, k = (w, e) if v == 0.0 else plus(v, k, w, e)
                        phi[a, d], phi_k[a, d] = times(v, k, psi[p, a, d], psi_k[p, a, d])
                time += 1
            v, k = 0.0, NEVER
            for a in range(n):
                for b in range(m):
                    if phi[a, b] > 0.0:
                        v, k = (phi[a, b], phi_k[a, b]) if v == 0.0 else plus(v, k, phi[a, b], phi_k[a, b])
            if v == 0.0:  # no longer path exists either
                break
            value[h, p], exponent[h, p] = v, k
