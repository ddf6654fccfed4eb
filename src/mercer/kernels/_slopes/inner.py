"""Derivatives of log <p^rho, q^rho> by rho, for rows of probabilities, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, safe_log
from mercer.data.csr import CSRRows
from mercer.kernels._operands import finite

SURE = 1e-250
"""Inner products of rows of maximum 1 above this have lost nothing that counts to underflow."""
CHUNK = 1 << 20
"""Numbers of pairs of rows that are summed once more."""


def inner_slope(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    r"""Derive log sum (p q)^rho by rho: the average of log p + log q with the weights (p q)^rho.

    Parameters
    ----------
    p, q : array of shape (*B, n, k) and (*B, m, k), or CSRRows
        Probabilities.
    rho : float
        The power.
    logs : array of shape (*B, n, m)
        The log kernels: where they are -inf, the derivative is 0.

    Notes
    -----
    Three matrix products. Pairs whose products underflow are summed once more by themselves.
    """
    (a, turned_a), (b, turned_b) = _powers(p, rho), _powers(q, rho)
    inner, weighted = _times(a, b), _times(turned_a, b) + _times(a, turned_b)
    sure = inner > SURE
    slope = np.divide(weighted, inner, where=sure, out=np.zeros(inner.shape))
    _sum_again(slope, ~sure & (logs > -np.inf), p, q, rho)
    return slope


def _powers(p: Any, rho: float) -> tuple[Any, Any]:
    """Return p^rho with rows of maximum 1, and the same times log p."""
    if isinstance(p, CSRRows):
        rows = p.to_scipy().astype(np.float64)
        logs = np.log(rows.data)
        top = np.repeat(rows.max(axis=1).toarray().ravel(), np.diff(rows.indptr))
        powers = rows.copy()
        powers.data = np.exp(rho * (logs - np.log(top)))
        turned = rows.copy()
        turned.data = powers.data * logs
        return powers, turned
    logs = safe_log(p)
    top = logs.max(axis=-1, keepdims=True)
    powers = np.exp(rho * (logs - finite(top)))
    return powers, powers * finite(logs)


def _times(a: Any, b: Any) -> Floats:
    if isinstance(a, np.ndarray):
        return np.asarray(a @ np.swapaxes(b, -1, -2))
    return np.asarray((a @ b.T).toarray())


def _sum_again(slope: Floats, which: Floats, p: Any, q: Any, rho: float) -> None:
    """Sum some pairs from logarithms, a few at a time."""
    *lead, rows, columns = np.nonzero(which)
    width = int(p.shape[-1])
    step = max(1, CHUNK // max(width, 1))
    for begin in range(0, len(rows), step):
        some = slice(begin, begin + step)
        at = tuple(axis[some] for axis in lead)
        logs = safe_log(_taken(p, at, rows[some])) + safe_log(_taken(q, at, columns[some]))
        weights = np.exp(rho * (logs - logs.max(axis=-1, keepdims=True)))
        total = np.sum(weights * finite(logs), axis=-1)
        slope[(*at, rows[some], columns[some])] = total / weights.sum(axis=-1)


def _taken(p: Any, lead: tuple[Floats, ...], rows: Floats) -> Floats:
    if isinstance(p, CSRRows):
        return np.asarray(p.to_scipy()[rows].toarray(), dtype=np.float64)
    return np.asarray(p[(*lead, rows)])
