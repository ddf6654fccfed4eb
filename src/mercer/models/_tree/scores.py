"""Fisher scores of hidden trees: expected counts minus probabilities times their totals (FK-7)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats, safe_log
from mercer.models._scores.weighted import difference
from mercer.models._tree.messages import Member, TreeExpectations

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
