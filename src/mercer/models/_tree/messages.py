"""Message passing on one tree: upward in any array library, downward for the posteriors of hidden states.

A message is an array ``(S, T)`` of logarithms with the samples on the last axis, so a loop over nodes processes all
samples at once. The result of a sample does not depend on the other samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, Floats, Indices, beside, logsumexp, namespace, safe_log
from mercer._probability import ratio
from mercer.data import Alphabet
from mercer.models._scores.weighted import difference

CHUNK = 1 << 22
"""Maximum number of floats of one kind of message in memory: 32 MiB."""
LEAST = 1e-290
"""Sums of scaled terms above this lose nothing to terms that underflow."""


def chunks(n_data: int, n_nodes: int, n_states: int) -> list[slice]:
    """Split samples so that the messages of a chunk fit into memory; results do not depend on the split."""
    step = max(1, CHUNK // max(n_nodes * n_states, 1))
    return [slice(begin, min(begin + step, n_data)) for begin in range(0, n_data, step)]


def sets_of(alphabet: Alphabet | None, n_symbols: int) -> Floats:
    """Return the symbols that each code stands for, ``(C, A)``; none for the last code, a missing value."""
    if alphabet is None:
        return np.eye(n_symbols + 1, n_symbols)
    sets = np.array(alphabet.membership)
    sets[-1] = 0.0
    return sets


def with_codes(probability: Array, sets: Floats) -> Array:
    """Return the probability of each code, ``(..., A) -> (..., C)``; exactly 1 for the last code, a missing value."""
    xp = namespace(probability)
    seen = probability @ beside(probability, sets[:-1].T, probability.dtype)
    return xp.concat([seen, xp.ones_like(probability[..., :1])], axis=-1)


def through(message: Array, matrix: Array) -> Array:
    """Return log sum_b matrix[a, b] exp(message[b]), ``(S, T)``: a message passed along an edge.

    It is computed relative to the largest entry. If the edge forbids that entry, a much smaller one can determine the
    sum; such samples are summed in logarithms.
    """
    xp = namespace(message, matrix)
    top = xp.max(message, axis=0)
    shift = xp.where(top > -xp.inf, top, xp.zeros_like(top))
    small = xp.exp(message - shift)
    # One state at a time, not a matrix product: the bits of a sample must not depend on the number of samples.
    total = matrix[:, 0, None] * small[None, 0, :]
    for b in range(1, matrix.shape[1]):
        total = total + matrix[:, b, None] * small[None, b, :]
    found, poor = safe_log(total) + shift, xp.any(total < LEAST, axis=0)
    if not bool(xp.any(poor)):
        return found
    return xp.where(poor, logsumexp(safe_log(matrix)[:, :, None] + message[None, :, :], axis=1), found)


def evidence_at(parent: Floats, leaf_parent: Floats, log_leaf: Array, codes: Floats) -> list[Array]:
    """Compute log probabilities of the leaves directly below each internal node given its state, V arrays ``(S, T)``.

    Parameters
    ----------
    parent, leaf_parent : ndarray of int of shape (V,) and (L,)
        The tree.
    log_leaf : array of shape (L, S, C)
        Log probability of each code at each leaf.
    codes : ndarray of int of shape (T, L)
        The samples.
    """
    xp = namespace(log_leaf)
    start = beside(log_leaf, np.zeros((log_leaf.shape[1], codes.shape[0])), log_leaf.dtype)
    found = [start] * len(parent)
    columns = np.ascontiguousarray(codes.T)
    for leaf, v in enumerate(leaf_parent.tolist()):
        found[v] = found[v] + xp.take(log_leaf[leaf, ...], beside(log_leaf, columns[leaf]), axis=1)
    return found


def inside_of(parent: Floats, transition: Array, evidence: list[Array]) -> tuple[list[Array], list[Any]]:
    """Compute log probabilities of all leaves below each node given its state, and given that of its parent (MK-6)."""
    inside, up = list(evidence), [None] * len(parent)
    for v in range(len(parent) - 1, 0, -1):
        up[v] = through(inside[v], transition[v, ...])
        inside[parent[v]] = inside[parent[v]] + up[v]
    return inside, up


class Member(NamedTuple):
    """One tree, in float64."""

    parent: Indices
    leaf_parent: Indices
    root: Floats
    transition: Floats
    leaf: Floats
    """Probability of each symbol at each leaf, ``(L, S, A)``."""
    sets: Floats
    """The symbols that each code stands for, ``(C, A)``; none for the last code, a missing value."""

    def log_prob(self, codes: Floats) -> Floats:
        """Compute the log probability of each sample, ``(T,)``."""
        log_leaf = safe_log(with_codes(self.leaf, self.sets))
        evidence = evidence_at(self.parent, self.leaf_parent, log_leaf, codes)
        inside, _ = inside_of(self.parent, self.transition, evidence)
        return np.asarray(logsumexp(safe_log(self.root)[:, None] + inside[0], axis=0))

    def expected(self, codes: Floats) -> TreeExpectations:
        """Run the upward and downward pass; a sample of probability zero gets -inf everywhere."""
        parent, n = self.parent, len(self.parent)
        log_leaf = safe_log(with_codes(self.leaf, self.sets))
        inside, up = inside_of(parent, self.transition, evidence_at(parent, self.leaf_parent, log_leaf, codes))
        at_root = safe_log(self.root)[:, None] + inside[0]
        log_prob = logsumexp(at_root, axis=0)
        scale = np.where(np.isfinite(log_prob), log_prob, np.inf)
        factors: list[list[tuple[int, Any]]] = [[] for _ in parent]  # of each node, by edge
        for v in range(1, n):
            factors[parent[v]].append((v - 1, up[v]))
        for leaf, v in enumerate(self.leaf_parent.tolist()):
            factors[v].append((n - 1 + leaf, log_leaf[leaf][:, codes[:, leaf]]))
        above: list[Any] = [None] * (n - 1 + len(log_leaf))
        for v in range(n):
            rest: Any = through(above[v - 1], self.transition[v].T) if v else safe_log(self.root)[:, None] - scale
            for edge, factor in factors[v]:
                above[edge], rest = rest, rest + factor
            rest = 0.0
            for edge, factor in reversed(factors[v]):
                above[edge], rest = above[edge] + rest, rest + factor
        return TreeExpectations(log_prob, at_root - scale, above, inside)

    def posterior(self, codes: Floats) -> Floats:
        """Return posterior probabilities of the states of all internal nodes, ``(T, V, S)``."""
        found = self.expected(codes)
        logs = [found.root]
        for v in range(1, len(self.parent)):
            logs.append(through(found.above[v - 1], self.transition[v].T) + found.inside[v])
        out = np.exp(np.stack(logs)).transpose(2, 0, 1)
        return ratio(out, out.sum(axis=-1, keepdims=True))


class TreeExpectations(NamedTuple):
    """Results of the upward and downward pass for each sample, as logarithms.

    The posterior of states a and b at the ends of the edge above node v is
    ``exp(above[v - 1][a] + log transition[v, a, b] + inside[v][b])``.
    """

    log_prob: Floats
    """``(T,)``."""
    root: Floats
    """Posterior of the state of the root, ``(S, T)``."""
    above: list[Any]
    """For each edge, those above the internal nodes 1, 2, ... and then those above the leaves, the joint probability
    of the state at its upper end and all leaves that are not below it, divided by that of the sample, ``(S, T)``."""
    inside: list[Any]
    """Probability of all leaves below each internal node given its state, ``(S, T)``."""


def tree_scores(member: Member, codes: Floats, parametrization: str) -> tuple[Floats, Floats]:
    """Compute log probabilities ``(T,)`` and scores ``(T, P)`` of samples; a sample of probability zero has score 0.

    The blocks of P are root (S), transition of the edges above the internal nodes 1, 2, ... (S S each) and leaf
    (S A each).
    """
    log_prob, scores = [np.empty(0)], []
    for part in chunks(len(codes), len(member.parent) + len(member.leaf), len(member.root)):
        found = member.expected(codes[part])
        log_prob.append(found.log_prob)
        scores.append(_rows(member, codes[part], found, parametrization))
    s, a = member.leaf.shape[1:]
    size = s + (len(member.parent) - 1) * s * s + len(member.leaf) * s * a
    return np.concatenate(log_prob), np.concatenate([np.empty((0, size)), *scores])


def _rows(member: Member, codes: Floats, found: TreeExpectations, parametrization: str) -> Floats:
    n = len(member.parent)
    inside = found.inside[0] - np.where(np.isfinite(found.log_prob), found.log_prob, np.inf)
    blocks = [_block(inside, member.root, parametrization)]
    for v in range(1, n):
        logs = found.above[v - 1][:, None] + found.inside[v][None]
        blocks.append(_block(logs, member.transition[v], parametrization))
    for leaf, p in enumerate(member.leaf):
        shown = member.sets[codes[:, leaf]].T > 0  # (A, T); nothing for missing values
        blocks.append(_block(np.where(shown, found.above[n - 1 + leaf][:, None], -np.inf), p, parametrization))
    return np.concatenate([block.reshape(-1, len(codes)) for block in blocks]).T


def _block(logs: Floats, p: Floats, parametrization: str) -> Floats:
    """Return counts minus p times their total (FK-7), from logarithms of counts / p; in weights, counts / p - total."""
    counts = np.exp(logs + safe_log(p)[..., None])
    total = counts.sum(axis=p.ndim - 1, keepdims=True)
    if parametrization == "logit":
        return difference(counts, p[..., None] * total, total)
    with np.errstate(over="ignore"):
        found = np.exp(logs)
    if not np.isfinite(found).all():
        raise ArithmeticError(
            "A sample is too improbable under the tree for scores in weights. Use parametrization='logit'."
        )
    return difference(found, np.broadcast_to(total, found.shape), total)


def score_names(n_states: int, n_internal: int, leaves: tuple[str, ...], symbols: list[str]) -> list[str]:
    """Return the names of the columns of the scores."""
    states = range(n_states)
    names = [f"root[{a}]" for a in states]
    names += [f"transition[{v}, {a}, {b}]" for v in range(1, n_internal) for a in states for b in states]
    return names + [f"leaf[{leaf}, {a}, {symbol}]" for leaf in leaves for a in states for symbol in symbols]
