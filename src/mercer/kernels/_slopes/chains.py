"""Derivatives of the contraction of coupled chains (PPK-4.2): the table of pairs of states and its derivative, swept.

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L,

where weights are powers w^rho, so that d w^rho = w^rho log w, and leaves psi come with d log psi.
"""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats, logsumexp
from mercer.kernels._operands import finite
from mercer.kernels._slopes.counts import mean_of
from mercer.models._chains.layout import Tile
from mercer.models._chains.operand import _scaled

Logs = tuple[Floats, Floats]
"""Logarithms of initial and transition weights."""
AGREE = 1e-9
"""Log kernels of the sweep and of the operand, which has rescued what underflows, must agree as well as this."""
BLOCK = 8
"""The most steps between two rescalings."""
LANE_STATES = 20
"""States up to which vector lanes beat matrix products."""
LANE_WORK = 1e6
"""Products below which compiled code is not worth loading."""
LOG_ENTRIES = 2**20
"""Numbers of the tables that are swept in logarithms at once."""


def chain_slopes(
    left: Logs, right: Logs, share: float, log_psi: Floats, slopes: Floats, length: int, logs: Floats
) -> Floats:
    """Derive the log kernels of all pairs of two sets of chains.

    Parameters
    ----------
    left, right : pair of arrays
        Logarithms of weights, ``(I, n)`` and ``(I, n, n)``, ``(J, m)`` and ``(J, m, m)``.
    share : float
        The derivative of a log weight is this times the log weight.
    log_psi, slopes : array of shape (I, n, J, m)
        Logarithms of leaf kernels, and their derivatives.
    length : int
        Number of steps.
    logs : array of shape (I, J)
        The log kernels.
    """
    slopes = np.where(log_psi > -np.inf, slopes, 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        found, swept = _sweep(left, right, share, log_psi, slopes, length)
        wrong = ~(np.abs(swept - logs) <= AGREE * np.maximum(1.0, np.abs(logs)))
    wrong &= logs > -np.inf
    found = np.where(logs > -np.inf, found, 0.0)
    rows, columns = np.nonzero(wrong)
    size = max(1, LOG_ENTRIES // (log_psi.shape[1] * log_psi.shape[3] * max(log_psi.shape[1], log_psi.shape[3])))
    for begin in range(0, len(rows), size):
        i, j = rows[begin : begin + size], columns[begin : begin + size]
        sides = (left[0][i], left[1][i]), (right[0][j], right[1][j])
        found[i, j] = _log_sweep(*sides, share, log_psi[i, :, j], slopes[i, :, j], length)
    return found


def _sweep(
    left: Logs, right: Logs, share: float, log_psi: Floats, slopes: Floats, length: int
) -> tuple[Floats, Floats]:
    """Sweep all pairs at once, scaled; return derivatives and log kernels, NaN or wrong where numbers are lost."""
    i, n, j, m = log_psi.shape
    psi, top = _scaled(log_psi.reshape(i * n, j * m), log_psi.shape, (1, 3))
    psi = psi.reshape(log_psi.shape)
    (start, a), (other_start, b) = (tuple(np.exp(x) for x in side) for side in (left, right))
    first, other_first = (share * finite(side[0]) for side in (left, right))
    turned_a, turned_b = (share * x * finite(side[1]) for x, side in ((a, left), (b, right)))
    growth = float(psi.max()) * float(a.sum(axis=2).max()) * float(b.sum(axis=2).max())
    block = BLOCK if growth <= 1 else max(1, min(BLOCK, int(100 / math.log10(growth)))) if growth < math.inf else 1
    if n <= LANE_STATES and n * m <= LANE_STATES**2 and i * j * n * m * (n + m) * length >= LANE_WORK:
        from mercer.kernels._slopes.chain_lanes import swept

        sides = (start, first, a, turned_a), (other_start, other_first, b, turned_b)
        slope, values = swept(*sides, psi, slopes, length, block)
        return slope, values + length * top
    transposed, turned_a = np.swapaxes(a, 1, 2), np.swapaxes(turned_a, 1, 2)
    phi = Tile.outer(start, other_start) * psi
    turned = phi * (slopes + first[:, :, None, None] + other_first)
    log_factor = np.zeros(top.shape)
    for time in range(1, length):
        if time % block == 0:
            total = Tile.sums(phi)
            factor = Tile.wide(1 / total)
            phi, turned = phi * factor, turned * factor
            log_factor += np.log(total)
        half, turned = Tile.left(transposed, phi), Tile.left(transposed, turned)
        if share:
            turned = Tile.right(turned + Tile.left(turned_a, phi), b) + Tile.right(half, turned_b)
        else:
            turned = Tile.right(turned, b)
        phi = Tile.right(half, b) * psi
        turned = turned * psi + phi * slopes
    total = Tile.sums(phi)
    return Tile.sums(turned) / total, np.log(total) + log_factor + length * top


def _log_sweep(left: Logs, right: Logs, share: float, log_psi: Floats, slopes: Floats, length: int) -> Floats:
    """Sweep aligned pairs ``(P, n, m)`` in logarithms, beside the derivative of every logarithm: slow, and right."""
    turned = [share * finite(x) for x in (*left, *right)]
    phi = left[0][:, :, None] + right[0][:, None, :] + log_psi
    slope = turned[0][:, :, None] + turned[2][:, None, :] + slopes
    for _ in range(1, length):
        terms = phi[:, :, :, None] + right[1][:, None, :, :]
        half = logsumexp(terms, axis=2)
        slope = mean_of(terms, slope[:, :, :, None] + turned[3][:, None, :, :], half, 2)
        terms = left[1][:, :, :, None] + half[:, :, None, :]
        phi = logsumexp(terms, axis=1)
        slope = mean_of(terms, turned[1][:, :, :, None] + slope[:, :, None, :], phi, 1) + slopes
        phi = phi + log_psi
    total = logsumexp(phi, axis=(1, 2))
    return mean_of(phi, slope, total, (1, 2))
