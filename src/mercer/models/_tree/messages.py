"""Messages along the edges of one tree: upward in any array library, downward for what is expected of hidden states.

Data stand in the last axis: a message is an array ``(S, T)`` of logarithms, so that a loop over nodes does all data at
once, and what a datum gets never depends on its neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Array, Floats, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._probability import ratio
from mercer.data import Alphabet

__all__ = [
    "Edges",
    "Expected",
    "Member",
    "evidence_at",
    "expectations",
    "inside_of",
    "sets_of",
    "through",
    "with_codes",
]

SAFE = -600.0
"""Logarithm, relative to the largest, above which no entry of a message is lost as a product of floats."""


def sets_of(alphabet: Alphabet | None, n_symbols: int) -> Floats:
    """Which symbols every code stands for, ``(C, A)``; none for the last one, a leaf that was not observed."""
    if alphabet is None:
        return np.eye(n_symbols + 1, n_symbols)
    sets = np.array(alphabet.membership)
    sets[-1] = 0.0
    return sets


def with_codes(probability: Array, sets: Floats) -> Array:
    """Probability of every code, ``(..., A) -> (..., C)``; that of the last one, not observed, is exactly 1."""
    xp = namespace(probability)
    seen = probability @ beside(probability, sets[:-1].T, probability.dtype)
    return xp.concat([seen, xp.ones_like(probability[..., :1])], axis=-1)


class Edges(NamedTuple):
    """Probabilities of change along edges, ``(V, S, S)``, with what is needed of their logarithms."""

    values: Array
    logs: Array
    least: Floats
    """Smallest logarithm of every matrix, zeros apart, ``(V,)``."""

    @classmethod
    def of(cls, values: Array) -> Self:
        """Prepare matrices."""
        logs = safe_log(values)
        finite = np.where(np.isfinite(to_numpy(logs)), to_numpy(logs), 0.0)
        return cls(values, logs, finite.min(axis=(1, 2)))

    @property
    def reversed(self) -> Self:
        """The way down: from the state of a parent to that of its child."""
        xp = namespace(self.values)
        return type(self)(xp.matrix_transpose(self.values), xp.matrix_transpose(self.logs), self.least)


def through(message: Array, edges: Edges, v: int) -> Array:
    """Return log sum_b edge[a, b] exp(message[b]), ``(S, T)``: a message on the other side of the edge above node v.

    It is computed relative to the largest entry. Where the edge forbids that entry, a small one can be all there is:
    then such data are summed in logarithms.
    """
    xp = namespace(message, edges.values)
    matrix = edges.values[v, ...]
    top = xp.max(message, axis=0)
    shift = xp.where(top > -xp.inf, top, xp.zeros_like(top))
    relative = message - shift
    small = xp.exp(relative)
    # One state after the other, not a matrix product: the bits of a datum must not depend on how many there are.
    total = matrix[:, 0, None] * small[None, 0, :]
    for b in range(1, matrix.shape[1]):
        total = total + matrix[:, b, None] * small[None, b, :]
    found = safe_log(total) + shift
    floor = SAFE - float(edges.least[v])
    if relative.shape[1] == 0 or float(xp.min(relative)) >= floor:
        return found
    wide = xp.any((relative > -xp.inf) & (relative < floor), axis=0)
    if not bool(xp.any(wide)):
        return found
    return xp.where(wide, logsumexp(edges.logs[v, ...][:, :, None] + message[None, :, :], axis=1), found)


def evidence_at(parent: Floats, leaf_parent: Floats, log_leaf: Array, codes: Floats) -> list[Array]:
    """Log probability of the leaves right below every internal node given its state, V arrays ``(S, T)``.

    Parameters
    ----------
    parent, leaf_parent : ndarray of int of shape (V,) and (L,)
        The tree.
    log_leaf : array of shape (L, S, C)
        Log probability of every code at every leaf.
    codes : ndarray of int of shape (T, L)
        The data.
    """
    xp = namespace(log_leaf)
    start = beside(log_leaf, np.zeros((log_leaf.shape[1], codes.shape[0])), log_leaf.dtype)
    found = [start] * len(parent)
    columns = np.ascontiguousarray(codes.T)
    for leaf, v in enumerate(leaf_parent.tolist()):
        seen = xp.take(log_leaf[leaf, ...], beside(log_leaf, columns[leaf]), axis=1)
        found[v] = seen if found[v] is start else found[v] + seen
    return found


def inside_of(parent: Floats, edges: Edges, evidence: list[Array]) -> tuple[list[Array], list[Array | None]]:
    """Log probability of all leaves below every node given its state, and given that of its parent (MK-6)."""
    inside, up = list(evidence), [None] * len(parent)
    for v in range(len(parent) - 1, 0, -1):
        if parent[v] >= 0:
            up[v] = through(inside[v], edges, v)
            inside[parent[v]] = inside[parent[v]] + up[v]
    return inside, up


class Expected(NamedTuple):
    """What is expected of the hidden states of every datum, as logarithms."""

    log_prob: Floats
    """``(T,)``."""
    root: Floats
    """Posterior of the root's state, ``(S, T)``."""
    above: list[Any]
    """For every internal node but the root, probability of its parent's state and of all that is not below the node,
    divided by that of the datum, ``(S, T)``; None for the root and padding."""
    inside: list[Any]
    """Probability of all leaves below every internal node given its state, ``(S, T)``."""
    leaf_above: list[Any]
    """As ``above``, for every leaf."""


def expectations(
    parent: Floats, leaf_parent: Floats, root: Floats, transition: Floats, log_leaf: Floats, codes: Floats
) -> Expected:
    """Go up and down one tree, with NumPy; a datum of probability zero has -inf throughout.

    The posterior of an edge from state a to b is ``exp(above[a] + log transition[a, b] + inside[b])``.
    """
    edges = Edges.of(transition)
    inside, up = inside_of(parent, edges, evidence_at(parent, leaf_parent, log_leaf, codes))
    down = edges.reversed
    at_root = safe_log(root)[:, None] + inside[0]
    log_prob = logsumexp(at_root, axis=0)
    scale = np.where(np.isfinite(log_prob), log_prob, np.inf)
    outside: list[Any] = [None] * len(parent)
    outside[0] = np.broadcast_to(safe_log(root)[:, None], at_root.shape) - scale
    children: list[list[int]] = [[] for _ in parent]
    leaves: list[list[int]] = [[] for _ in parent]
    for v in range(1, len(parent)):
        if parent[v] >= 0:
            children[parent[v]].append(v)
    for leaf, v in enumerate(leaf_parent.tolist()):
        leaves[v].append(leaf)
    above: list[Any] = [None] * len(parent)
    leaf_above: list[Any] = [None] * len(leaf_parent)
    for v in range(len(parent)):
        if outside[v] is None:
            continue
        own = [log_leaf[leaf][:, codes[:, leaf]] for leaf in leaves[v]]
        factors = [up[c] for c in children[v]] + own
        rest = _without(outside[v], factors)
        for c, excluded in zip(children[v], rest, strict=False):
            above[c] = excluded
            outside[c] = through(excluded, down, c)
        for leaf, excluded in zip(leaves[v], rest[len(children[v]) :], strict=True):
            leaf_above[leaf] = excluded
    return Expected(log_prob, at_root - scale, above, inside, leaf_above)


class Member(NamedTuple):
    """One tree, in float64."""

    parent: Floats
    leaf_parent: Floats
    root: Floats
    transition: Floats
    leaf: Floats
    """Probability of every symbol at every leaf, ``(L, S, A)``."""
    coded: Floats
    """Probability of every code, ``(L, S, C)``; the last code is a leaf that was not observed."""
    sets: Floats
    """Which symbols a code stands for, ``(C, A)``; none for the last one, which says nothing of the leaf."""

    @classmethod
    def of(
        cls, parent: Floats, leaf_parent: Floats, root: Floats, transition: Floats, leaf: Floats, sets: Floats
    ) -> Self:
        """Add the probabilities of codes."""
        return cls(parent, leaf_parent, root, transition, leaf, with_codes(leaf, sets), sets)

    def expected(self, codes: Floats) -> Expected:
        """Return what is expected of hidden states."""
        log_leaf = safe_log(self.coded)
        return expectations(self.parent, self.leaf_parent, self.root, self.transition, log_leaf, codes)

    def posterior(self, codes: Floats) -> Floats:
        """Probabilities of the states of all internal nodes, ``(T, V, S)``; zeros for padding."""
        found, down = self.expected(codes), Edges.of(self.transition).reversed
        out = np.zeros((len(codes), len(self.parent), len(self.root)))
        out[:, 0] = np.exp(found.root).T
        for v, above in enumerate(found.above):
            if above is not None:
                out[:, v] = np.exp(through(above, down, v) + found.inside[v]).T
        return ratio(out, out.sum(axis=-1, keepdims=True))


def _without(outside: Floats, factors: list[Any]) -> list[Floats]:
    """Add up all logarithms but one, for each one of ``factors``; -inf is counted apart, as it cannot be subtracted."""
    total = outside
    for factor in factors:
        total = total + factor
    if np.isfinite(total).all():
        return [total - factor for factor in factors]
    finite, zeros = outside.copy(), np.zeros(outside.shape, dtype=np.int64)
    for factor in factors:
        possible = np.isfinite(factor)
        finite += np.where(possible, factor, 0.0)
        zeros += ~possible
    found = []
    for factor in factors:
        possible = np.isfinite(factor)
        found.append(np.where(zeros - ~possible > 0, -np.inf, finite - np.where(possible, factor, 0.0)))
    return found
