"""Expectation maximisation for hidden trees: expected numbers of changes along the edges, and new laws from them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from mercer._array import Floats, logsumexp, safe_log
from mercer._probability import normalized, ratio, shared_out
from mercer.models._fitting.climb import ascend
from mercer.models._tree.messages import Edges, Expected, Member, evidence_at, inside_of, with_codes
from mercer.models._tree.parameters import Parameters
from mercer.models._tree.rates import changes, jumps_and_times
from mercer.models._tree.scores import chunks

__all__ = ["Fitted", "distinct", "fit_trees", "log_probabilities", "members_of"]

RATE_STEPS = 5
"""Steps towards the rates that suit the expected changes along edges best; each needs no data, and one is enough."""


class Fitted(NamedTuple):
    """Where a fit ended."""

    parameters: Parameters
    objective: Floats
    """Log probability of the data plus the log prior before every iteration."""
    converged: bool


class _Counts(NamedTuple):
    """Expected numbers, summed over data."""

    log_prob: float
    weights: Floats
    root: Floats
    edges: tuple[Floats, ...]
    emission: Floats


def distinct(x: Floats, missing: int) -> tuple[Floats, Floats, Floats]:
    """Return the different rows of a matrix of codes, how often they occur, and where first.

    Sorted rows make a fit independent of the order of the data, to the last bit.
    """
    codes = np.where(np.isnan(x), missing, x).astype(np.int64)
    rows, first, count = np.unique(codes, axis=0, return_index=True, return_counts=True)
    return rows, count.astype(np.float64), first


def fit_trees(
    start: Parameters,
    prior: Parameters,
    codes: Floats,
    count: Floats,
    sets: Floats,
    learn: tuple[str, ...],
    n_iter: int,
    tol: float,
    strength: float,
) -> Fitted:
    """Climb from ``start`` until the objective grows by ``tol`` per datum at most.

    Parameters
    ----------
    start : Parameters
        Where to begin.
    prior : Parameters
        What counts as ``strength`` observations of every row of probabilities that is learned; its mode.
    codes, count : ndarray of shape (T, L) and (T,)
        Different data, and how often each occurs.
    sets : ndarray of shape (C, A)
        Which symbols every code stands for; none for the last one, which was not observed.
    learn : tuple of str
        What is learned: "root", "edges", "emission", "weights".
    n_iter, tol : int and float
        When to stop.
    strength : float
        Of the prior.
    """

    def step(current: Parameters) -> tuple[float, Parameters]:
        found = _expect(current, codes, count, sets)
        value = found.log_prob + _log_prior(current, prior, learn, strength)
        return value, _maximize(current, prior, found, learn, strength)

    return Fitted(*ascend(step, start, n_iter, tol * float(count.sum()), "the tree"))


def members_of(p: Parameters, sets: Floats) -> list[Member]:
    """Return every topology with its matrices."""
    found = []
    for k, layout in enumerate(p.layouts):
        matrices = p.matrices(k)
        inner = layout.n_internal - 1
        transition = np.concatenate([np.eye(len(p.root))[None], matrices[:inner]])
        leaf = matrices[inner:] @ p.emission
        found.append(Member.of(layout.parent, layout.leaf_parent, p.root, transition, leaf, sets))
    return found


def log_probabilities(p: Parameters, codes: Floats, sets: Floats) -> Floats:
    """Log probability of every datum, ``(T,)``."""
    table = [np.concatenate([_log_prob(m, codes[part]) for part in _cuts(m, codes)]) for m in members_of(p, sets)]
    return logsumexp(np.stack(table) + safe_log(p.weights)[:, None], axis=0)


def _log_prob(member: Member, codes: Floats) -> Floats:
    evidence = evidence_at(member.parent, member.leaf_parent, safe_log(member.coded), codes)
    inside, _ = inside_of(member.parent, Edges.of(member.transition), evidence)
    return logsumexp(safe_log(member.root)[:, None] + inside[0], axis=0)


def _cuts(member: Member, codes: Floats) -> list[slice]:
    return chunks(len(codes), len(member.parent) + member.leaf.shape[0], len(member.root))


def _expect(p: Parameters, codes: Floats, count: Floats, sets: Floats) -> _Counts:
    """Sum what is expected of hidden states over all data and topologies."""
    members = members_of(p, sets)
    coded_emission = with_codes(p.emission, sets)
    matrices = [p.matrices(k) for k in range(len(members))]
    edges = [np.zeros(matrix.shape) for matrix in matrices]
    weights, root, emission = np.zeros(len(members)), np.zeros(p.root.shape), np.zeros(coded_emission.shape)
    total = 0.0
    for part in _cuts(max(members, key=lambda m: len(m.parent)), codes):
        found = [member.expected(codes[part]) for member in members]
        joint = np.stack([one.log_prob for one in found]) + safe_log(p.weights)[:, None]
        log_prob = logsumexp(joint, axis=0)
        total += float(count[part] @ log_prob)
        for k, (member, one) in enumerate(zip(members, found, strict=True)):
            share = count[part] * np.exp(joint[k] - log_prob)
            weights[k] += share.sum()
            root += np.exp(one.root) @ share
            inner = len(member.parent) - 1
            for v in range(1, inner + 1):
                edges[k][v - 1] += _edge_counts(member.transition[v], one, v, share)
            shown = _leaf_counts(member, one, codes[part], share)
            _spread(shown, member, matrices[k][inner:], coded_emission, edges[k][inner:], emission)
    return _Counts(total, weights, root, tuple(edges), shared_out(emission, coded_emission, p.emission, sets))


def _edge_counts(matrix: Floats, found: Expected, v: int, share: Floats) -> Floats:
    """Sum expected changes along the edge above node v, ``(S, S)``."""
    inside = found.inside[v]
    top = inside.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        left = np.exp(found.above[v] + shift) * share
        counts = matrix * np.einsum("at,bt->ab", left, np.exp(inside - shift))
    if np.isfinite(counts).all():
        return counts
    logs = found.above[v][:, None] + safe_log(matrix)[..., None] + inside[None]  # where a change is nearly impossible
    return np.asarray(np.exp(logs) @ share)


def _leaf_counts(member: Member, found: Expected, codes: Floats, share: Floats) -> Floats:
    """Count every state above a leaf with every code at it, as expected, ``(L, S, C)``; what is missing counts 0."""
    n_leaves, s, n_codes = member.coded.shape
    out = np.zeros((n_leaves, s, n_codes))
    with np.errstate(divide="ignore"):
        logs = np.log(member.coded)
    for leaf in range(n_leaves):
        seen = codes[:, leaf]
        posterior = np.exp(found.leaf_above[leaf] + logs[leaf][:, seen]) * share
        for a in range(s):
            out[leaf, a] = np.bincount(seen, posterior[a], minlength=n_codes)
    out[..., -1] = 0.0
    return out


def _spread(shown: Floats, member: Member, matrices: Floats, coded: Floats, edges: Floats, emission: Floats) -> None:
    """Divide what leaves show into a change along the edge and what the state shows; adds to the last two."""
    per_chance = ratio(shown, member.coded)
    edges += matrices * np.einsum("lac,bc->lab", per_chance, coded)
    emission += coded * np.einsum("lab,lac->bc", matrices, per_chance)


def _maximize(p: Parameters, prior: Parameters, found: _Counts, learn: tuple[str, ...], strength: float) -> Parameters:
    """Return the laws that make what was expected most probable, with the prior."""
    changed: dict[str, object] = {}
    if "root" in learn:
        changed["root"] = normalized(found.root + strength * prior.root, p.root)
    if "emission" in learn:
        changed["emission"] = normalized(found.emission + strength * prior.emission, p.emission)
    if "weights" in learn:
        changed["weights"] = normalized(found.weights + strength * prior.weights, p.weights)
    if "edges" in learn:
        changed["edges"] = _new_edges(p, prior, found, strength)
    return replace(p, **changed)  # type: ignore[arg-type]


def _new_edges(p: Parameters, prior: Parameters, found: _Counts, strength: float) -> tuple[Floats, ...]:
    if p.kind == "free":
        return tuple(
            normalized(counts + strength * before, now)
            for counts, before, now in zip(found.edges, prior.edges, p.edges, strict=True)
        )
    if p.kind == "tied":
        counts = sum(counts.sum(axis=0) for counts in found.edges)
        return (normalized(counts + strength * prior.edges[0], p.edges[0]),)
    lengths, counts = np.concatenate([layout.lengths for layout in p.layouts]), np.concatenate(found.edges)
    rate = p.edges[0]
    for _ in range(RATE_STEPS):
        rate = _new_rate(rate, prior, lengths, counts, strength)
    return (rate,)


def _new_rate(rate: Floats, prior: Parameters, lengths: Floats, counts: Floats, strength: float) -> Floats:
    """Divide expected jumps by expected times, with the prior."""
    jumps, times = jumps_and_times(rate, lengths, changes(rate, lengths), counts)
    before, hold = prior.edges[0], _holding(prior)
    jumps += strength * hold[:, None] * np.where(np.eye(len(rate)) > 0, 0.0, before)
    times += strength * hold
    new = np.where(times[:, None] > 0, ratio(jumps, times[:, None]), rate)
    np.fill_diagonal(new, 0.0)
    np.fill_diagonal(new, -new.sum(axis=1))
    return new


def _holding(prior: Parameters) -> Floats:
    """Time for which the prior has watched every state: until it is left, or once from the root to a leaf at most.

    So it is worth one observation or less, however fast or slow its rates are beside those of the data.
    """
    way = float(np.mean([layout.way for layout in prior.layouts]))
    return np.minimum(ratio(np.ones(len(prior.root)), -np.diagonal(prior.edges[0])), way)


def _log_prior(p: Parameters, prior: Parameters, learn: tuple[str, ...], strength: float) -> float:
    """Log prior, up to a constant: Dirichlet for probabilities, Gamma for rates, both with the prior as their mode."""
    if strength == 0:
        return 0.0
    total = 0.0
    for name in ("root", "emission", "weights"):
        if name in learn:
            total += float(xlogy(getattr(prior, name), getattr(p, name)).sum())
    if "edges" in learn and p.kind != "rate":
        total += sum(float(xlogy(before, now).sum()) for before, now in zip(prior.edges, p.edges, strict=True))
    elif "edges" in learn:
        hold, off = _holding(prior)[:, None], ~np.eye(len(p.root), dtype=bool)
        before, now = prior.edges[0][off], p.edges[0][off]
        scale = np.broadcast_to(hold, off.shape)[off]
        # Relative to the mode, so that the unit of lengths does not matter.
        total += float((xlogy(scale * before, ratio(now, before)) - scale * now).sum())
    return strength * total
