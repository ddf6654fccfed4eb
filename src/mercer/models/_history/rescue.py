"""Repetition of unsound pairs in the log domain."""

from __future__ import annotations

import math
from typing import Any

from mercer._array import Array, logsumexp, namespace, safe_log
from mercer.models._chains.sweep import without_gradient
from mercer.models._history.planes import Evidence, History

__all__ = ["below", "log_sums", "redone"]

_ENTRIES = 2**21
"""Number of entries of the largest array: 16 MB."""


def redone(values: Array, sound: Array, history: History, left: Evidence, right: Evidence, rows: Any) -> Array:
    """Replace unsound values, some pairs at a time.

    Parameters
    ----------
    values, sound : arrays of shape (K,)
        Logarithms of K pairs, and whether they are accurate.
    history : History
        The hidden tree.
    left, right : Evidence
        Evidence of both sides.
    rows : callable
        Maps indices of pairs to indices of their samples in ``left`` and ``right``.
    """
    xp = namespace(values)
    if bool(xp.all(sound)):
        return values
    which = xp.nonzero(~sound)[0]
    size = max(1, _ENTRIES // int(history.root.shape[0]) ** 2)
    parts = []
    for first in range(0, int(which.shape[0]), size):
        a, b = rows(which[first : first + size])
        parts.append(
            log_sums(
                history,
                left.take(lambda x, a=a: xp.take(x, a, axis=-1)),
                right.take(lambda x, b=b: xp.take(x, b, axis=-1)),
            )
        )
    position = xp.cumulative_sum(xp.astype(~sound, xp.int64)) - 1
    position = xp.where(sound, xp.zeros_like(position), position)
    return xp.where(sound, values, xp.take(xp.concat(parts), position, axis=0))


def log_sums(history: History, left: Evidence, right: Evidence) -> Array:
    """Sum over all hidden states of aligned pairs, ``(K,)``, in the log domain and float64."""
    xp, forest = namespace(left.logs, history.root), history.forest
    total: Any = 0.0
    waiting: list[Array] = []
    for j, v in enumerate(forest.order.tolist()):
        message = xp.astype(left.logs[v, ...], xp.float64) + xp.astype(right.logs[v, ...], xp.float64)
        for _ in range(int(forest.children[j])):
            message = message + waiting.pop()
        if history.pruning > 0 and forest.children[j] > 0:
            apart = math.log(history.pruning) + _likelihood(left, v) + _likelihood(right, v)
            together = math.log1p(-history.pruning) if history.pruning < 1 else -math.inf
            message = logsumexp(xp.stack([apart, message + together]), axis=0)
        if forest.roots[j]:
            total = total + logsumexp(message + safe_log(xp.astype(history.root, xp.float64))[:, None], axis=0)
        else:
            waiting.append(_passed(history.edge(v), message))
    return total


def below(forest: Any, edge: Any, logs: Array) -> tuple[Array, Array]:
    """Relative likelihoods of all observations below each node, ``(V, S, N)``, and their log scales, ``(V, N)``.

    The scales are constants with respect to gradients.
    """
    xp = namespace(logs)
    found: list[Array] = [None] * len(forest)
    waiting: list[Array] = []
    for j, v in enumerate(forest.order.tolist()):
        message = xp.astype(logs[v, ...], xp.float64)
        for _ in range(int(forest.children[j])):
            message = message + waiting.pop()
        found[v] = message
        if not forest.roots[j]:
            waiting.append(_passed(edge(v), message))
    every = xp.stack(found)
    top = without_gradient(xp.max(every, axis=1))
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return every - top[:, None, :], top


def _passed(edge: Array, message: Array) -> Array:
    """Sum over the states of a child, ``(S, K)``, for every state of its parent."""
    xp = namespace(message)
    return logsumexp(safe_log(xp.astype(edge, xp.float64))[:, :, None] + message[None, :, :], axis=1)


def _likelihood(side: Evidence, v: int) -> Array:
    assert side.below_logs is not None
    assert side.below_tops is not None
    return side.below_logs[v, ...] + side.below_tops[v, None, :]
