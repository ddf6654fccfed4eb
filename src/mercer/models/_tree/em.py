"""Expectation maximization for hidden trees, by expected counts of changes along the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from mercer._array import Floats, Indices, safe_log
from mercer._probability import normalized, ratio, shared_out
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._tree.messages import chunks, with_codes
from mercer.models._tree.parameters import Parameters
from mercer.models._tree.rates import changes, jumps_and_times

RATE_STEPS = 5
"""Number of inner EM steps for the rates; they use the expected changes, not the data, and one would be enough."""


class _Counts(NamedTuple):
    """Expected counts, summed over samples."""

    log_prob: float
    root: Floats
    edges: Floats
    """``(E, S, S)``."""
    emission: Floats


def distinct(x: Floats, missing: int) -> tuple[Indices, Floats, Indices]:
    """Return the distinct rows of a matrix of codes, their counts, and the index of their first occurrence.

    The rows are sorted, so a fit does not depend on the order of the samples, to the last bit.
    """
    codes = np.where(np.isnan(x), missing, x).astype(np.int64)
    rows, first, count = np.unique(codes, axis=0, return_index=True, return_counts=True)
    return rows, count.astype(np.float64), first


def fit_tree(
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


def _expect(p: Parameters, codes: Floats, count: Floats, sets: Floats) -> _Counts:
    """Sum expected counts of hidden states over all samples (the E-step)."""
    member, matrices = p.member(sets), p.matrices()
    inner, (n_leaves, s) = len(member.parent) - 1, member.leaf.shape[:2]
    coded, coded_emission = with_codes(member.leaf, sets), with_codes(p.emission, sets)
    log_edges, log_coded = safe_log(matrices[:inner]), safe_log(coded)
    root, edges, shown, total = np.zeros(s), np.zeros(matrices.shape), np.zeros(coded.shape), 0.0
    for part in chunks(len(codes), inner + 1 + n_leaves, s):
        found, share = member.expected(codes[part]), count[part]
        total += float(share @ found.log_prob)
        root += np.exp(found.root) @ share
        for e in range(inner):
            edges[e] += np.exp(found.above[e][:, None] + log_edges[e][..., None] + found.inside[e + 1][None]) @ share
        for leaf, seen in enumerate(codes[part].T):
            posterior = np.exp(found.above[inner + leaf] + log_coded[leaf][:, seen]) * share
            for a in range(s):
                shown[leaf, a] += np.bincount(seen, posterior[a], minlength=coded.shape[-1])
    shown[..., -1] = 0.0  # missing values
    # Counts at leaves are changes along the edge, then emissions of the state.
    relative = ratio(shown, coded)
    edges[inner:] = matrices[inner:] * np.einsum("lac,bc->lab", relative, coded_emission)
    emission = coded_emission * np.einsum("lab,lac->bc", matrices[inner:], relative)
    return _Counts(total, root, edges, shared_out(emission, coded_emission, p.emission, sets))


def _maximize(p: Parameters, prior: Parameters, found: _Counts, learn: tuple[str, ...], strength: float) -> Parameters:
    """Return the parameters that maximize the expected log probability plus the log prior (the M-step)."""
    root, emission, edges = p.root, p.emission, p.edges
    if "root" in learn:
        root = normalized(found.root + strength * prior.root, root)
    if "emission" in learn:
        emission = normalized(found.emission + strength * prior.emission, emission)
    if "edges" in learn and p.continuous:
        for _ in range(RATE_STEPS):
            edges = _new_rate(edges, prior, p.layout.lengths, found.edges, strength)
    elif "edges" in learn:
        edges = normalized(found.edges.sum(axis=0) + strength * prior.edges, edges)
    return replace(p, root=root, emission=emission, edges=edges)


def _new_rate(rate: Floats, prior: Parameters, lengths: Floats, counts: Floats, strength: float) -> Floats:
    """Divide expected jumps by expected times, including those of the prior."""
    jumps, times = jumps_and_times(rate, lengths, changes(rate, lengths), counts)
    hold = _holding(prior)
    jumps += strength * hold[:, None] * np.where(np.eye(len(rate)) > 0, 0.0, prior.edges)
    times += strength * hold
    new = np.where(times[:, None] > 0, ratio(jumps, times[:, None]), rate)
    np.fill_diagonal(new, 0.0)
    np.fill_diagonal(new, -new.sum(axis=1))
    return new


def _holding(prior: Parameters) -> Floats:
    """Return the observation time of each state in the prior: its mean holding time, at most the root-to-leaf length.

    The prior therefore has the weight of at most one observation, however its rates compare with those of the data.
    """
    return np.minimum(ratio(np.ones(len(prior.root)), -np.diagonal(prior.edges)), prior.layout.way)


def _log_prior(p: Parameters, prior: Parameters, learn: tuple[str, ...], strength: float) -> float:
    """Compute the log prior up to a constant: Dirichlet for probabilities, gamma for rates, with the prior as mode."""
    if strength == 0:
        return 0.0
    tables = {name for name in learn if name != "edges" or not p.continuous}
    total = sum(float(xlogy(getattr(prior, name), getattr(p, name)).sum()) for name in sorted(tables))
    if "edges" in learn and p.continuous:
        off = ~np.eye(len(p.root), dtype=bool)
        before, now = prior.edges[off], p.edges[off]
        scale = np.broadcast_to(_holding(prior)[:, None], off.shape)[off]
        # Relative to the mode, so that the result does not depend on the unit of lengths.
        total += float((xlogy(scale * before, ratio(now, before)) - scale * now).sum())
    return strength * total
