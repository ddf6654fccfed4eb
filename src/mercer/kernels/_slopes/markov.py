"""Derivatives of probability products of Markov chains by rho: a vector of contexts per pair, and its derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp
from mercer.kernels._operands import finite
from mercer.kernels._slopes.counts import mean_of
from mercer.kernels._slopes.inner import inner_slope

AGREE = 1e-9
"""Log kernels of the sweep and of the operand, which knows what underflows, must agree as well as this."""
NUMBERS = 1 << 16
"""Numbers of the tables of pairs that are swept at once: they stay in the cache."""


def markov_slopes(a: Any, b: Any, logs: Floats) -> Floats:
    """Derive the log kernels ``logs (I, J)`` of all pairs of two operands by rho (PPK-4.2a)."""
    (length,), order = a.lengths, a.chains.order
    if length < order:
        p, q = a.probabilities.short[length], b.probabilities.short[length]
        return inner_slope(p, q, a.rho, logs)
    slopes = np.zeros(logs.shape)
    rows, columns = np.nonzero(logs > -np.inf)
    contexts, k = a.logs.step.shape[1:]
    size = max(8, NUMBERS // (contexts * k))
    for begin in range(0, len(rows), size):
        i, j = rows[begin : begin + size], columns[begin : begin + size]
        # Pairs last: every operation runs along them.
        first, step, stop = (np.moveaxis(x[i] + y[j], 0, -1) for x, y in zip(a.logs[:3], b.logs[:3], strict=True))
        slopes[i, j] = _swept(first, step, stop, length - order, logs[i, j]) / a.rho
    return slopes


def _swept(first: Floats, step: Floats, stop: Floats, steps: int, logs: Floats) -> Floats:
    """Derive from logarithms ``(C, P)``, ``(C, k, P)`` and ``(C, P)``; the derivative of each is itself."""
    contexts, k, _ = step.shape
    # contexts are (oldest, rest) and become (rest, newest); where nothing is remembered, symbols are summed over
    shape = (k, contexts // k, k, -1) if contexts > 1 else (k, 1, 1, -1)
    log_step = step.reshape(shape)
    weights = np.exp(log_step)
    turned = weights * finite(log_step)
    now = np.exp(first)
    slope = now * finite(first)
    scale = np.zeros(logs.shape)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        for _ in range(steps):
            if contexts > 1:
                now, slope = (x.reshape(*shape[:2], -1) for x in (now, slope))
                slope = np.einsum("orp,orsp->rsp", slope, weights) + np.einsum("orp,orsp->rsp", now, turned)
                now = np.einsum("orp,orsp->rsp", now, weights)
                now, slope = now.reshape(contexts, -1), slope.reshape(contexts, -1)
            else:
                slope = slope * weights.sum(axis=(0, 1)) + now * turned.sum(axis=(0, 1))
                now = now * weights.sum(axis=(0, 1))
            total = now.sum(axis=0)
            scale += np.log(total)
            now, slope = now / total, slope / total
        ends = now * np.exp(stop)
        total = ends.sum(axis=0)
        found = np.sum(slope * np.exp(stop) + ends * finite(stop), axis=0) / total
        wrong = ~(np.abs(np.log(total) + scale - logs) <= AGREE * np.maximum(1.0, np.abs(logs)))
    if wrong.any():
        found[wrong] = _swept_in_logs(first[:, wrong], log_step[..., wrong], stop[:, wrong], steps, contexts)
    return np.asarray(found)


def _swept_in_logs(now: Floats, step: Floats, stop: Floats, steps: int, contexts: int) -> Floats:
    """Do the same in logarithms, beside the derivative of every logarithm."""
    slope, turned, pairs = finite(now), finite(step), now.shape[-1]
    shape = (step.shape[0], step.shape[1], 1, pairs) if contexts > 1 else (1, 1, 1, pairs)
    for _ in range(steps):
        terms, slopes = now.reshape(shape) + step, slope.reshape(shape) + turned
        total = logsumexp(terms, axis=0)
        slope = mean_of(terms, slopes, total).reshape(contexts, pairs)
        now = total.reshape(contexts, pairs)
    total = logsumexp(now + stop, axis=0)
    return mean_of(now + stop, slope + finite(stop), total)
