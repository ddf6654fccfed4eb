"""Sums over shared hidden states by array operations in logarithms: one plane of pairs per state, leaves to roots.

Used for torch (on any device, with gradients), for other array libraries, and for trees with prunings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from mercer._array import Array, logsumexp, namespace, safe_log
from mercer.models._chains.sweep import without_gradient
from mercer.models._history.forest import Forest, Range

_CLOSE, _LARGE = -230.0, 1e-200
"""Messages within this of the largest, in logarithms, times transitions as large as that do not underflow."""


@dataclass(frozen=True)
class History:
    """A hidden chain or tree with its transition probabilities."""

    forest: Forest
    transition: Array
    """``(V, S, S)``, or ``(S, S)`` for all edges: [a, b] is the probability of b in the child of a parent in a."""
    root: Array
    """``(S,)``."""
    pruning: float
    """Probability that two samples separate below a node, with independent hidden states from there on."""
    range: Range

    def edge(self, v: int) -> Array:
        """Return the transitions from the parent of node ``v``."""
        return self.transition if len(self.transition.shape) == 2 else self.transition[v, ...]


@dataclass(frozen=True)
class Evidence:
    """Log likelihood of every sample under the states of every node, relative to the best state of the node."""

    logs: Array
    """``(V, S, N)``."""
    below: Array | None = None
    """The same of all observations of a sample below a node, for prunings."""

    def take(self, index: Array) -> Self:
        """Select samples."""
        xp = namespace(self.logs)
        return type(self)(*(None if x is None else xp.take(x, index, axis=-1) for x in (self.logs, self.below)))


def check_alike(left: Any, right: Any) -> None:
    """Raise if two operands have different numbers of hidden nodes, such as sequences of different lengths."""
    if left.nodes != right.nodes:
        what = " and ".join(x.example for x in (left, right) if x.example is not None)
        raise ValueError(
            f"Both sides must have the same number of hidden nodes; got {left.nodes} and {right.nodes}"
            + (
                f" ({what}). Use mc.PairHMM or mc.AffinePairHMM to compare sequences of different lengths."
                if what
                else "."
            )
        )


def crossed(a: Array, b: Array) -> Array:
    """Add the numbers of every sample to those of every other."""
    return a[..., :, None] + b[..., None, :]


def aligned(a: Array, b: Array) -> Array:
    """Add the numbers of every sample to those of its partner."""
    return a + b


def log_sums(history: History, left: Evidence, right: Evidence, join: Any) -> Array:
    """Sum over all hidden states, in logarithms and float64.

    Parameters
    ----------
    history : History
        The hidden tree.
    left, right : Evidence
        Evidence of I and J samples.
    join : callable
        `crossed` for all pairs, `aligned` for I = J pairs.

    Returns
    -------
    array of shape (I, J) or (I,)
        Relative to the scales of the evidence.
    """
    xp, forest = namespace(left.logs, history.root), history.forest
    total: Any = 0.0
    waiting: list[Array] = []
    for j, v in enumerate(forest.order.tolist()):
        message = join(*(xp.astype(side.logs[v, ...], xp.float64) for side in (left, right)))
        for _ in range(int(forest.children[j])):
            message = message + waiting.pop()
        if left.below is not None and right.below is not None and forest.children[j] > 0:
            apart = math.log(history.pruning) + join(left.below[v, ...], right.below[v, ...])
            together = math.log1p(-history.pruning) if history.pruning < 1 else -math.inf
            message = logsumexp(xp.stack([apart, message + together]), axis=0)
        if forest.roots[j]:
            weights = xp.reshape(safe_log(xp.astype(history.root, xp.float64)), (-1, *(1 for _ in message.shape[1:])))
            total = total + logsumexp(message + weights, axis=0)
        else:
            waiting.append(_passed(history, v, message))
    return total


def below(history: History, logs: Array) -> Array:
    """Log likelihood of all that a sample shows in the tree below every node, ``(V, S, N)``."""
    xp, forest = namespace(logs), history.forest
    found: list[Array] = [None] * len(forest)
    waiting: list[Array] = []
    for j, v in enumerate(forest.order.tolist()):
        message = xp.astype(logs[v, ...], xp.float64)
        for _ in range(int(forest.children[j])):
            message = message + waiting.pop()
        found[v] = message
        if not forest.roots[j]:
            waiting.append(_passed(history, v, message))
    return xp.stack(found)


def _passed(history: History, v: int, message: Array) -> Array:
    """Sum over the states of a node, ``(S, ...)``, for every state of its parent.

    One matrix product, relative to the largest message of every pair. A message that underflows next to it is lost;
    that does not matter if no transition is tiny or impossible, and otherwise logarithms are summed one by one.
    """
    xp, shape = namespace(message), message.shape
    edge, flat = xp.astype(history.edge(v), xp.float64), xp.reshape(message, (shape[0], -1))
    top = without_gradient(xp.max(flat, axis=0))
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    share = flat - top
    near = history.range.plain
    if not near and history.range.smallest >= _LARGE:
        near = bool(xp.all((share >= _CLOSE) | (share == -xp.inf)))
    if near:
        return xp.reshape(safe_log(edge @ xp.exp(share)) + top, shape)
    return xp.reshape(logsumexp(safe_log(edge)[:, :, None] + flat[None, :, :], axis=1), shape)
