"""Forward, backward and the best path of one sequence in the log domain: slow, and true wherever they are finite.

The scaled recursions of `mercer.models._forward_backward` hand over what leaves the range of floats. These loops are
compiled by Numba; that file imports this one when it needs it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mercer._array import Floats

__all__ = ["log_expectations", "log_likelihood", "log_path"]

_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _log_sum(x: Floats) -> float:  # pragma: no cover - compiled
    top = -np.inf
    for value in x:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in x:
        total += np.exp(value - top)
    return top + np.log(total)


@_compiled
def _forward(log_initial: Floats, log_transition: Floats, table: Floats, alpha: Floats) -> float:  # pragma: no cover
    length, n = table.shape
    terms = np.empty(n)
    alpha[0] = log_initial + table[0]
    for t in range(1, length):
        for j in range(n):
            for i in range(n):
                terms[i] = alpha[t - 1, i] + log_transition[i, j]
            alpha[t, j] = _log_sum(terms) + table[t, j]
    return _log_sum(alpha[length - 1])


@_compiled
def log_likelihood(log_initial: Floats, log_transition: Floats, table: Floats) -> float:  # pragma: no cover - compiled
    """Log probability of one sequence with the log densities ``table (L, n)``, L >= 1."""
    length, n = table.shape
    alpha, after, terms = log_initial + table[0], np.empty(n), np.empty(n)
    for t in range(1, length):
        for j in range(n):
            for i in range(n):
                terms[i] = alpha[i] + log_transition[i, j]
            after[j] = _log_sum(terms) + table[t, j]
        alpha, after = after, alpha
    return _log_sum(alpha)


@_compiled
def log_expectations(
    log_initial: Floats, log_transition: Floats, table: Floats, states: Floats, transitions: Floats
) -> float:  # pragma: no cover - compiled
    """Write posteriors of the states ``(L, n)`` and expected transitions ``(n, n)``; return the log probability.

    Both stay zero where the sequence is impossible.
    """
    length, n = table.shape
    alpha, beta, after, terms = np.empty((length, n)), np.zeros(n), np.empty(n), np.empty(n)
    total = _forward(log_initial, log_transition, table, alpha)
    states[:] = 0.0
    transitions[:] = 0.0
    if total == -np.inf:
        return total
    for t in range(length - 1, -1, -1):
        for i in range(n):
            states[t, i] = np.exp(alpha[t, i] + beta[i] - total)
        if t == 0:
            break
        for i in range(n):
            for j in range(n):
                terms[j] = log_transition[i, j] + table[t, j] + beta[j]
                transitions[i, j] += np.exp(alpha[t - 1, i] + terms[j] - total)
            after[i] = _log_sum(terms)
        beta[:] = after
    return total


@_compiled
def log_path(log_initial: Floats, log_transition: Floats, table: Floats, path: Floats) -> float:  # pragma: no cover
    """Write the most probable states ``(L,)``; return the log probability of sequence and path together."""
    length, n = table.shape
    best, after, came = log_initial + table[0], np.empty(n), np.empty((length, n), dtype=np.int32)
    for t in range(1, length):
        for j in range(n):
            arg = 0
            for i in range(1, n):
                if best[i] + log_transition[i, j] > best[arg] + log_transition[arg, j]:
                    arg = i
            came[t, j] = arg
            after[j] = best[arg] + log_transition[arg, j] + table[t, j]
        best, after = after, best
    state = int(np.argmax(best))
    value = best[state]
    for t in range(length - 1, -1, -1):
        path[t] = state
        if t > 0:
            state = came[t, state]
    return float(value)
