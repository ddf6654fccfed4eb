"""Pairs whose scaled sums may have lost something: again, in the log domain."""

from __future__ import annotations

import math
from typing import Any

from mercer._array import Array, logsumexp, namespace, safe_log
from mercer.models._chains.rescue import patch
from mercer.models._chains.sweep import without_gradient
from mercer.models._history.planes import Evidence, History

_ENTRIES = 2**21
"""Numbers of the largest array: 16 MB."""


def redone(values: Array, sound: Array, history: History, left: Evidence, right: Evidence, rows: Any) -> Array:
    """Replace what is not sound, some pairs at a time.

    Parameters
    ----------
    values, sound : arrays of shape (K,)
        Logarithms of K pairs, and whether they can be trusted.
    history : History
        The hidden tree.
    left, right : Evidence
        Of both sides.
    rows : callable
        Turns positions of pairs into positions of their data in ``left`` and ``right``.
    """

    def compute(which: Array) -> Array:
        sides = [
            side.take(lambda x, at=at: namespace(x).take(x, at, axis=-1))
            for side, at in zip((left, right), rows(which), strict=True)
        ]
        return log_sums(history, *sides)

    return patch(values, ~sound, compute, max(1, _ENTRIES // int(history.root.shape[0]) ** 2))


def log_sums(history: History, left: Evidence, right: Evidence) -> Array:
    """Sum over all histories of aligned pairs, ``(K,)``, in the log domain and float64."""
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
    """Likelihoods of all that a datum shows in the tree below every node, ``(V, S, N)``, relative, and ``(V, N)`` tops.

    The tops are logarithms and constants to a gradient, as all scales are.
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
