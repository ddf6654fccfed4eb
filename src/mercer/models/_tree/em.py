"""Expectation maximization for hidden trees, by expected counts of changes along the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from mercer._array import Floats, Indices, logsumexp, safe_log
from mercer._probability import normalized, ratio, shared_out
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._tree.messages import Edges, Member, TreeExpectations, chunks, evidence_at, inside_of, with_codes
from mercer.models._tree.parameters import Parameters
from mercer.models._tree.rates import changes, jumps_and_times

RATE_STEPS = 5
"""Number of inner EM steps for the rates; they use the expected changes, not the data, and one would be enough."""


class _Counts(NamedTuple):
    """Expected counts, summed over samples."""

    log_prob: float
    weights: Floats
    root: Floats
    edges: tuple[Floats, ...]
    emission: Floats


def distinct(x: Floats, missing: int) -> tuple[Indices, Floats, Indices]:
    """Return the distinct rows of a matrix of codes, their counts, and the index of their first occurrence.

    The rows are sorted, so a fit does not depend on the order of the samples, to the last bit.
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
) -> EMResult:
    """Run EM from ``start`` until the objective grows by at most ``tol`` per sample.

    ``codes (T, L)`` are the distinct samples, with their counts; ``sets (C, A)`` are the symbols of each code, none for
    the last one, a missing value. The mode ``prior`` weighs ``strength`` observations in each row that is learned.
    """

    def expect(current: Parameters) -> tuple[float, _Counts]:
        found = _expect(current, codes, count, sets)
        return found.log_prob + _log_prior(current, prior, learn, strength), found

    def maximize(current: Parameters, found: _Counts) -> Parameters:
        return _maximize(current, prior, found, learn, strength)

    return em_single(expect, maximize, start, n_iter, tol * float(count.sum()), "the tree")


def members_of(p: Parameters, sets: Floats) -> list[Member]:
    """Return each topology with its matrices."""
    found = []
    for k, layout in enumerate(p.layouts):
        matrices = p.matrices(k)
        inner = layout.n_internal - 1
        transition = np.concatenate([np.eye(len(p.root))[None], matrices[:inner]])
        leaf = matrices[inner:] @ p.emission
        found.append(Member.of(layout.parent, layout.leaf_parent, p.root, transition, leaf, sets))
    return found


def log_probabilities(p: Parameters, codes: Floats, sets: Floats) -> Floats:
    """Compute the log probability of each sample, ``(T,)``."""
    table = [np.concatenate([_log_prob(m, codes[part]) for part in _cuts(m, codes)]) for m in members_of(p, sets)]
    return logsumexp(np.stack(table) + safe_log(p.weights)[:, None], axis=0)


def _log_prob(member: Member, codes: Floats) -> Floats:
    evidence = evidence_at(member.parent, member.leaf_parent, safe_log(member.coded), codes)
    inside, _ = inside_of(member.parent, Edges.of(member.transition), evidence)
    return logsumexp(safe_log(member.root)[:, None] + inside[0], axis=0)


def _cuts(member: Member, codes: Floats) -> list[slice]:
    return chunks(len(codes), len(member.parent) + member.leaf.shape[0], len(member.root))


def _expect(p: Parameters, codes: Floats, count: Floats, sets: Floats) -> _Counts:
    """Sum expected counts of hidden states over all samples and topologies (the E-step)."""
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


def _edge_counts(matrix: Floats, found: TreeExpectations, v: int, share: Floats) -> Floats:
    """Sum expected changes along the edge above node v, ``(S, S)``."""
    inside = found.inside[v]
    top = inside.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        left = np.exp(found.above[v] + shift) * share
        counts = matrix * np.einsum("at,bt->ab", left, np.exp(inside - shift))
    if np.isfinite(counts).all():
        return counts
    logs = found.above[v][:, None] + safe_log(matrix)[..., None] + inside[None]  # a change is nearly impossible
    return np.asarray(np.exp(logs) @ share)


def _leaf_counts(member: Member, found: TreeExpectations, codes: Floats, share: Floats) -> Floats:
    """Compute expected counts of each state above a leaf with each code at it, ``(L, S, C)``; 0 if missing."""
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
    """Split the counts at leaves into changes along the edge and emissions of the state; adds to the last two."""
    relative = ratio(shown, member.coded)
    edges += matrices * np.einsum("lac,bc->lab", relative, coded)
    emission += coded * np.einsum("lab,lac->bc", matrices, relative)


def _maximize(p: Parameters, prior: Parameters, found: _Counts, learn: tuple[str, ...], strength: float) -> Parameters:
    """Return the parameters that maximize the expected log probability plus the log prior (the M-step)."""
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
    """Divide expected jumps by expected times, including those of the prior."""
    jumps, times = jumps_and_times(rate, lengths, changes(rate, lengths), counts)
    before, hold = prior.edges[0], _holding(prior)
    jumps += strength * hold[:, None] * np.where(np.eye(len(rate)) > 0, 0.0, before)
    times += strength * hold
    new = np.where(times[:, None] > 0, ratio(jumps, times[:, None]), rate)
    np.fill_diagonal(new, 0.0)
    np.fill_diagonal(new, -new.sum(axis=1))
    return new


def _holding(prior: Parameters) -> Floats:
    """Return the observation time of each state in the prior: its mean holding time, at most the root-to-leaf length.

    The prior therefore has the weight of at most one observation, however its rates compare with those of the data.
    """
    way = float(np.mean([layout.way for layout in prior.layouts]))
    return np.minimum(ratio(np.ones(len(prior.root)), -np.diagonal(prior.edges[0])), way)


def _log_prior(p: Parameters, prior: Parameters, learn: tuple[str, ...], strength: float) -> float:
    """Compute the log prior up to a constant: Dirichlet for probabilities, gamma for rates, with the prior as mode."""
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
        # Relative to the mode, so that the result does not depend on the unit of lengths.
        total += float((xlogy(scale * before, ratio(now, before)) - scale * now).sum())
    return strength * total
