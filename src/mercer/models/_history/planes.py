"""Sums over shared hidden states by array operations: one plane of pairs per state, from the leaves to the roots.

Used for torch (on any device, with gradients), for other array libraries, and for models of many states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from mercer._array import Array, logsumexp, namespace, safe_log
from mercer.models._chains.coupled import patch
from mercer.models._chains.sweep import without_gradient
from mercer.models._history.forest import Forest, Range

_NEVER = -1e300
"""Logarithm of the scale of a zero message: finite, but below all others."""


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
    """Likelihood of every sample under the states of every node, as planes, relative to the best state of the node.

    ``below`` is the likelihood of all observations of a sample below a node; it is only used for pruning.
    """

    values: Array
    """``(V, S, N)``."""
    logs: Array
    below: Array | None = None
    below_logs: Array | None = None
    below_tops: Array | None = None
    """``(V, N)``, logarithms of the scales of ``below``."""

    def take(self, take: Any) -> Self:
        """Select samples."""
        return type(self)(*(None if x is None else take(x) for x in self._fields()))

    def _fields(self) -> tuple[Array | None, ...]:
        return self.values, self.logs, self.below, self.below_logs, self.below_tops


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


def crossed(a: Array, b: Array) -> tuple[Array, Array]:
    """Broadcast every sample against every other."""
    return a[..., :, None], b[..., None, :]


def aligned(a: Array, b: Array) -> tuple[Array, Array]:
    """Align every sample with its partner."""
    return a, b


def plane_sums(history: History, left: Evidence, right: Evidence, beside: Any) -> tuple[Array, Array]:
    """Sum over all hidden states; return float64 logarithms and whether they are accurate.

    Parameters
    ----------
    history : History
        The hidden tree.
    left, right : Evidence
        Evidence of I and J samples.
    beside : callable
        `crossed` for all pairs, `aligned` for I = J pairs.

    Returns
    -------
    values, sound : arrays of shape (I, J) or (I,)
        Relative to the scales of the evidence; ignore values that are not sound.
    """
    xp = namespace(left.values, history.root)
    forest, limits = history.forest, history.range
    total, sound = None, None
    waiting: list[Message] = []
    for j, v in enumerate(forest.order.tolist()):
        a, b = beside(left.values[v, ...], right.values[v, ...])
        found = Message(a * b, 0.0, None)
        if not limits.plain:
            a, b = beside(left.logs[v, ...] > -xp.inf, right.logs[v, ...] > -xp.inf)
            found = Message(found.values, 0.0, a & b)
        for _ in range(int(forest.children[j])):
            found = found.times(waiting.pop())
        found, fine = found.scaled(limits)
        if history.pruning > 0 and forest.children[j] > 0:
            found, also = _pruned(history.pruning, left, right, beside, v, found).scaled(limits)
            fine = fine & also
        flat = xp.reshape(found.values, (found.values.shape[0], -1))
        if forest.roots[j]:
            sums = xp.reshape(history.root[None, :] @ flat, fine.shape)
            more = xp.astype(safe_log(sums), xp.float64) + found.log_scale
            total = more if total is None else total + more
            fine = fine & (without_gradient(sums) >= limits.least) if limits.plain else fine
        else:
            waiting.append(found.passed(history.edge(v), flat))
        sound = fine if sound is None else sound & fine
    return total, sound


class Message(NamedTuple):
    """Message of a node: one number per state, the logarithm of their scale, and which entries are possible."""

    values: Array
    """``(S, ...)``, one entry per pair."""
    log_scale: Array
    possible: Array | None
    """Which entries are possible, even if they underflow; None if this is not needed."""

    def times(self, other: Message) -> Message:
        """Multiply by the message of a child."""
        both = self.possible & other.possible if self.possible is not None else None
        return Message(self.values * other.values, self.log_scale + other.log_scale, both)

    def scaled(self, limits: Range) -> tuple[Message, Array]:
        """Divide by the largest entry of every pair; return whether the result is accurate."""
        xp = namespace(self.values)
        top = without_gradient(xp.max(self.values, axis=0))
        fine = top >= limits.least
        scale = xp.where(top > 0, top, xp.ones_like(top))
        values = self.values / scale
        log_scale = self.log_scale + xp.astype(xp.log(scale), xp.float64)
        if self.possible is not None:
            lost = xp.any(self.possible & (without_gradient(values) < limits.floor), axis=0)
            # If no entry is possible, the sum is exactly zero, not by underflow.
            fine = ~lost & (fine | ~xp.any(self.possible, axis=0))
        return Message(values, log_scale, self.possible), fine

    def passed(self, edge: Array, flat: Array) -> Message:
        """Return the message to the parent: a sum over states by one matrix product."""
        xp, shape, possible = namespace(flat), self.values.shape, None
        if self.possible is not None:
            marks = xp.reshape(xp.astype(self.possible, flat.dtype), flat.shape)
            possible = xp.reshape(xp.astype(edge > 0, flat.dtype) @ marks > 0, shape)
        return Message(xp.reshape(edge @ flat, shape), self.log_scale, possible)


def _pruned(pruning: float, left: Evidence, right: Evidence, beside: Any, v: int, shared: Message) -> Message:
    """Mix in the product of the samples' own likelihoods below node ``v``, with the probability of pruning."""
    xp = namespace(shared.values)
    a, b = beside(_node(left.below, v), _node(right.below, v))
    c, d = beside(_node(left.below_tops, v), _node(right.below_tops, v))
    never = xp.full_like(shared.log_scale, _NEVER)  # a zero message has no scale
    log_scale = xp.where(xp.max(shared.values, axis=0) > 0, shared.log_scale, never)
    top = xp.maximum(log_scale, c + d)
    apart, together = (xp.astype(xp.exp(x - top), a.dtype) for x in (c + d, log_scale))
    possible = shared.possible
    if possible is not None:
        e, f = beside(_node(left.below_logs, v) > -xp.inf, _node(right.below_logs, v) > -xp.inf)
        possible = possible | (e & f)
    return Message(pruning * apart * (a * b) + (1 - pruning) * together * shared.values, top, possible)


def _node(x: Array | None, v: int) -> Array:
    assert x is not None, "likelihoods below nodes are prepared for prunings"
    return x[v, ...]


# -- pairs whose scaled sums may have lost something: again, in the log domain -------------------------------

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
