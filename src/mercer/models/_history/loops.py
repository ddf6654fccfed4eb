"""Pairs whose scaled sums may have lost something: again in the log domain, compiled by Numba, one after the other."""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

__all__ = ["log_pairs"]


@compiled
def log_pairs(
    children: Floats, roots: Floats, depth: int, step: Floats, root: Floats, left: Floats, right: Floats,
    rows: Floats, columns: Floats, out: Floats,
) -> None:  # pragma: no cover - compiled  # fmt: skip
    """Write the logarithms of some pairs, -inf where they are impossible.

    Parameters
    ----------
    children, roots, depth
        The forest: numbers of children, and whether a node is a root, in the order of the stack; messages that wait.
    step : ndarray of shape (V, S, S) or (1, S, S)
        Logarithms of the transitions, in the order of the stack.
    root : ndarray of shape (S,)
        Logarithms.
    left, right : ndarray of shape (I, V, S) and (J, V, S)
        Logarithms of the evidence.
    rows, columns : ndarray of int of shape (K,)
        The pairs.
    out : ndarray of shape (K,)
        Where the logarithms go.
    """
    states = root.size
    stack, message = np.empty((depth + 2, states)), np.empty(states)
    for k in range(rows.size):
        x, y = left[rows[k]], right[columns[k]]
        if _possible(children, roots, step, root, x, y, stack):
            out[k] = _log_sum(children, roots, step, root, x, y, stack, message)
        else:
            out[k] = -np.inf


@compiled
def _possible(
    children: Floats, roots: Floats, step: Floats, root: Floats, x: Floats, y: Floats, stack: Floats
) -> bool:  # pragma: no cover - compiled
    """Tell whether some history makes both data: ones and zeros instead of probabilities."""
    states, waiting = root.size, 0
    for j in range(children.size):
        waiting -= children[j]
        some = False
        for a in range(states):
            mark = 1.0 if x[j, a] > -np.inf and y[j, a] > -np.inf else 0.0
            for child in range(children[j]):
                mark *= stack[waiting + child, a]
            if roots[j] and root[a] == -np.inf:
                mark = 0.0
            stack[-1, a] = mark
            some |= mark > 0.0
        if not some:
            return False
        if not roots[j]:
            edge = step[j if step.shape[0] > 1 else 0]
            for a in range(states):
                mark = 0.0
                for b in range(states):
                    if edge[a, b] > -np.inf and stack[-1, b] > 0.0:
                        mark = 1.0
                        break
                stack[waiting, a] = mark
            waiting += 1
    return True


@compiled
def _log_sum(
    children: Floats, roots: Floats, step: Floats, root: Floats, x: Floats, y: Floats, stack: Floats, message: Floats,
) -> float:  # pragma: no cover - compiled  # fmt: skip
    """Sum over the histories of a pair; every message is relative to its largest entry."""
    states, waiting, total = root.size, 0, 0.0
    for j in range(children.size):
        waiting -= children[j]
        for a in range(states):
            message[a] = x[j, a] + y[j, a]
            for child in range(children[j]):
                message[a] += stack[waiting + child, a]
        if roots[j]:
            total += _log_sum_exp(root, message)
            continue
        top = message.max()
        total += top
        message -= top
        edge = step[j if step.shape[0] > 1 else 0]
        for a in range(states):
            stack[waiting, a] = _log_sum_exp(edge[a], message)
        waiting += 1
    return float(total)


@compiled
def _log_sum_exp(weights: Floats, message: Floats) -> float:  # pragma: no cover - compiled
    top = -np.inf
    for b in range(weights.size):
        top = max(top, weights[b] + message[b])
    if top == -np.inf:
        return -np.inf
    total = 0.0
    for b in range(weights.size):
        total += math.exp(weights[b] + message[b] - top)
    return top + math.log(total)
