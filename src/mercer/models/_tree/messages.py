"""Message passing on one tree: upward in any array library, downward for the posteriors of hidden states.

A message is an array ``(S, T)`` of logarithms with the samples on the last axis, so a loop over nodes processes all
samples at once. The result of a sample does not depend on the other samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Array, Floats, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._probability import ratio
from mercer.data import Alphabet
from mercer.models._scores.weighted import difference

CHUNK = 1 << 22
"""Maximum number of floats of one kind of message in memory: 32 MiB."""


def chunks(n_data: int, n_nodes: int, n_states: int) -> list[slice]:
    """Split samples so that the messages of a chunk fit into memory; results do not depend on the split."""
    step = max(1, CHUNK // max(n_nodes * n_states, 1))
    return [slice(begin, min(begin + step, n_data)) for begin in range(0, n_data, step)]


def tree_scores(member: Member, codes: Floats, parametrization: str) -> tuple[Floats, Floats]:
    """Compute log probabilities ``(T,)`` and scores ``(T, P)`` of samples; a sample of probability zero has score 0.

    The blocks of P are root (S), transition of the edges above the internal nodes 1, 2, ... (S S each) and leaf
    (S A each).
    """
    (n_leaves, s, a), v = member.leaf.shape, len(member.parent)
    size = s + (v - 1) * s * s + n_leaves * s * a
    log_prob, scores = np.empty(len(codes)), np.zeros((len(codes), size))
    for part in chunks(len(codes), v + n_leaves, s):
        found = member.expected(codes[part])
        log_prob[part] = found.log_prob
        scores[part] = _rows(member, codes[part], found, parametrization)
    return log_prob, scores


def _rows(member: Member, codes: Floats, found: TreeExpectations, parametrization: str) -> Floats:
    (n_leaves, s, a), v = member.leaf.shape, len(member.parent)
    out = np.zeros((s + (v - 1) * s * s + n_leaves * s * a, len(codes)))
    inside = found.inside[0] - np.where(np.isfinite(found.log_prob), found.log_prob, np.inf)
    out[:s] = _block(np.exp(found.root), _ratio(inside, parametrization), member.root, parametrization)
    for node in range(1, v):
        if found.above[node] is not None:
            ratio = found.above[node][:, None] + found.inside[node][None]
            counts = np.exp(ratio + safe_log(member.transition[node])[..., None])
            place = s + (node - 1) * s * s
            block = _block(counts, _ratio(ratio, parametrization), member.transition[node], parametrization)
            out[place : place + s * s] = block.reshape(s * s, -1)
    place = s + (v - 1) * s * s
    for leaf in range(n_leaves):
        seen = codes[:, leaf]
        which = member.sets[seen].T  # (A, T)
        with np.errstate(invalid="ignore"):  # -inf for missing values
            ratio = np.where(which > 0, found.leaf_above[leaf][:, None], -np.inf)
        counts = np.exp(ratio + safe_log(member.leaf[leaf])[..., None])
        block = _block(counts, _ratio(ratio, parametrization), member.leaf[leaf], parametrization)
        out[place : place + s * a] = block.reshape(s * a, -1)
        place += s * a
    return out.T


def _ratio(logs: Floats, parametrization: str) -> Floats | None:
    """Return counts divided by their parameters, computed without a division; only needed for weights."""
    if parametrization == "logit":
        return None
    with np.errstate(over="ignore"):
        found = np.exp(logs)
    if not np.isfinite(found).all():
        raise ArithmeticError(
            "A sample is too improbable under the tree for scores in weights. Use parametrization='logit'."
        )
    return found


def _block(counts: Floats, ratio: Floats | None, p: Floats, parametrization: str) -> Floats:
    """Return counts minus p times their total; in weights, counts / p minus their total (FK-7)."""
    axis = p.ndim - 1
    total = counts.sum(axis=axis, keepdims=True)
    if parametrization == "logit" or ratio is None:
        return difference(counts, p[..., None] * total, total)
    return difference(ratio, np.broadcast_to(total, ratio.shape), total)


def score_names(n_states: int, n_internal: int, leaves: tuple[str, ...], symbols: list[str]) -> list[str]:
    """Return the names of the columns of the scores."""
    states = range(n_states)
    names = [f"root[{a}]" for a in states]
    names += [f"transition[{v}, {a}, {b}]" for v in range(1, n_internal) for a in states for b in states]
    return names + [f"leaf[{leaf}, {a}, {symbol}]" for leaf in leaves for a in states for symbol in symbols]


SAFE = -600.0
"""Log, relative to the largest entry of a message, above which products of entries do not underflow."""


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


class Edges(NamedTuple):
    """Probabilities of change along edges, ``(V, S, S)``, and their logarithms."""

    values: Array
    logs: Array
    least: Floats
    """Smallest finite logarithm of each matrix, ``(V,)``."""

    @classmethod
    def of(cls, values: Array) -> Self:
        """Prepare matrices."""
        logs = safe_log(values)
        finite = np.where(np.isfinite(to_numpy(logs)), to_numpy(logs), 0.0)
        return cls(values, logs, finite.min(axis=(1, 2)))

    @property
    def reversed(self) -> Self:
        """The downward direction: from the state of a parent to that of its child."""
        xp = namespace(self.values)
        return type(self)(xp.matrix_transpose(self.values), xp.matrix_transpose(self.logs), self.least)


def through(message: Array, edges: Edges, v: int) -> Array:
    """Return log sum_b edge[a, b] exp(message[b]), ``(S, T)``: a message passed along the edge above node v.

    It is computed relative to the largest entry. If the edge forbids that entry, a much smaller one can determine the
    sum; such samples are summed in logarithms.
    """
    xp = namespace(message, edges.values)
    matrix = edges.values[v, ...]
    top = xp.max(message, axis=0)
    shift = xp.where(top > -xp.inf, top, xp.zeros_like(top))
    relative = message - shift
    small = xp.exp(relative)
    # One state at a time, not a matrix product: the bits of a sample must not depend on the number of samples.
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
        seen = xp.take(log_leaf[leaf, ...], beside(log_leaf, columns[leaf]), axis=1)
        found[v] = seen if found[v] is start else found[v] + seen
    return found


def inside_of(parent: Floats, edges: Edges, evidence: list[Array]) -> tuple[list[Array], list[Array | None]]:
    """Compute log probabilities of all leaves below each node given its state, and given that of its parent (MK-6)."""
    inside, up = list(evidence), [None] * len(parent)
    for v in range(len(parent) - 1, 0, -1):
        if parent[v] >= 0:
            up[v] = through(inside[v], edges, v)
            inside[parent[v]] = inside[parent[v]] + up[v]
    return inside, up


class TreeExpectations(NamedTuple):
    """Results of the upward and downward pass for each sample, as logarithms."""

    log_prob: Floats
    """``(T,)``."""
    root: Floats
    """Posterior of the state of the root, ``(S, T)``."""
    above: list[Any]
    """For each internal node except the root, the joint probability of its parent's state and all leaves that are not
    below the node, divided by that of the sample, ``(S, T)``; None for the root and padding."""
    inside: list[Any]
    """Probability of all leaves below each internal node given its state, ``(S, T)``."""
    leaf_above: list[Any]
    """The same as ``above``, for each leaf."""


def expectations(
    parent: Floats, leaf_parent: Floats, root: Floats, transition: Floats, log_leaf: Floats, codes: Floats
) -> TreeExpectations:
    """Run the upward and downward pass on one tree, with NumPy; a sample of probability zero gets -inf everywhere.

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
    return TreeExpectations(log_prob, at_root - scale, above, inside, leaf_above)


class Member(NamedTuple):
    """One tree, in float64."""

    parent: Floats
    leaf_parent: Floats
    root: Floats
    transition: Floats
    leaf: Floats
    """Probability of each symbol at each leaf, ``(L, S, A)``."""
    coded: Floats
    """Probability of each code at each leaf, ``(L, S, C)``; the last code is a missing value."""
    sets: Floats
    """The symbols that each code stands for, ``(C, A)``; none for the last code."""

    @classmethod
    def of(
        cls, parent: Floats, leaf_parent: Floats, root: Floats, transition: Floats, leaf: Floats, sets: Floats
    ) -> Self:
        """Create a member, with the probabilities of codes."""
        return cls(parent, leaf_parent, root, transition, leaf, with_codes(leaf, sets), sets)

    def expected(self, codes: Floats) -> TreeExpectations:
        """Run the upward and downward pass."""
        log_leaf = safe_log(self.coded)
        return expectations(self.parent, self.leaf_parent, self.root, self.transition, log_leaf, codes)

    def posterior(self, codes: Floats) -> Floats:
        """Return posterior probabilities of the states of all internal nodes, ``(T, V, S)``; zeros for padding."""
        found, down = self.expected(codes), Edges.of(self.transition).reversed
        out = np.zeros((len(codes), len(self.parent), len(self.root)))
        out[:, 0] = np.exp(found.root).T
        for v, above in enumerate(found.above):
            if above is not None:
                out[:, v] = np.exp(through(above, down, v) + found.inside[v]).T
        return ratio(out, out.sum(axis=-1, keepdims=True))


def _without(outside: Floats, factors: list[Any]) -> list[Floats]:
    """Sum all logarithms but one, for each of ``factors``; -inf is counted separately, as it cannot be subtracted."""
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
