"""Parameters of trees, given and learned: root, edges (one matrix, or rates) and emissions; their EM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from mercer._array import Floats, Indices, safe_log
from mercer._checks import is_number
from mercer._probability import checked_probability, normalized, ratio, shared_out
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._tree.messages import Member, chunks, with_codes
from mercer.models._tree.newick import Layout
from mercer.models._tree.rates import as_numbers, changes, checked_rate, jumps_and_times, stationary_of

SCALES = 4.0 ** np.arange(-4, 5)
"""Expected numbers of changes from the root to a leaf that a fit of rates tries as starts."""
DEFAULT_NOISE = 0.1
"""Default probability that the state changes along an edge."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of one tree."""

    layout: Layout
    root: Floats
    """Probabilities of the state of the root, ``(S,)``."""
    emission: Floats
    """Probabilities of the symbols of a leaf given its state, ``(S, A)``."""
    continuous: bool
    """Whether edges have rates of change, rather than probabilities."""
    edges: Floats
    """The rates, or the probabilities of all edges, ``(S, S)``."""

    def matrices(self) -> Floats:
        """Return probabilities of change along the edges, ``(E, S, S)``."""
        lengths = self.layout.lengths
        if self.continuous:
            return changes(self.edges, lengths)
        return np.broadcast_to(self.edges, (len(lengths), *self.edges.shape))

    def member(self, sets: Floats) -> Member:
        """Return the tree with its matrices."""
        matrices, layout = self.matrices(), self.layout
        inner = layout.n_internal - 1
        transition = np.concatenate([np.eye(len(self.root))[None], matrices[:inner]])
        return Member(layout.parent, layout.leaf_parent, self.root, transition, matrices[inner:] @ self.emission, sets)

    def n_free(self, learn: tuple[str, ...]) -> int:
        """Return the number of free parameters that are learned; zeros stay zero and are not counted."""
        found = 0
        for name in learn:
            positive = getattr(self, name) > 0
            # The positive rates are free; the diagonal, which is not positive, follows from them.
            rows = 0 if name == "edges" and self.continuous else positive[..., 0].size
            found += int(positive.sum()) - rows
        return found


def starts_of(estimator: Any, layout: Layout, learn: tuple[str, ...]) -> tuple[Parameters, list[Parameters]]:
    """Return the prior of a fit, and its possible starts.

    The starts are multiples of the rates, and the prior of default rates has one expected change from the root to a
    leaf, so the result does not depend on the unit of branch lengths.
    """
    given = start_of(estimator, layout)
    if estimator.transition is not None or "edges" not in learn or not 0 < layout.way < np.inf:
        return given, [given]
    leaving = float(np.mean(-np.diagonal(given.edges)))
    if leaving == 0:
        return given, [given]
    starts = [start_of(estimator, layout, scale / (layout.way * leaving)) for scale in SCALES]
    default = estimator.rate is None or isinstance(estimator.rate, str)
    return (starts[len(SCALES) // 2], starts) if default else (given, [given, *starts])


def start_of(estimator: Any, layout: Layout, scale: float = 1.0) -> Parameters:
    """Return the checked parameters of an estimator; rates are multiplied by ``scale``."""
    n, rate, root = int(estimator.n_states), estimator.rate, estimator.root
    if rate is not None and estimator.transition is not None:
        raise ValueError("Only one of rate and transition can be given; got both. Pass a rate matrix or probabilities.")
    if rate is None and estimator.transition is None and np.isfinite(layout.lengths).any():
        rate = "equal"
    if rate is not None:
        edges = checked_rate(rate, n)
        bare = np.flatnonzero(np.isnan(layout.lengths))
        if len(bare):
            name = layout.names[bare[0]]
            where = f"{name!r}" if name else "a node without a name"
            raise ValueError(
                f"The branch above {where} has no length, which rates need. Add lengths to all branches, or use "
                "transition=."
            )
    elif estimator.transition is None:
        edges = emission_of(None if n == 1 else DEFAULT_NOISE, n)
    else:
        edges = _probabilities(estimator.transition, (n, n), "transition", "")
    if root is None:
        root = np.full(n, 1.0 / n) if rate is None else stationary_of(edges)
    else:
        root = _probabilities(root, (n,), "root", "None, or ")
    return Parameters(layout, root, emission_of(estimator.emission, n), rate is not None, scale * edges)


def emission_of(emission: Any, n: int) -> Floats:
    """Return probabilities of symbols given the state of a leaf, ``(S, A)``: identity, noise, or a given matrix."""
    if emission is None:
        return np.eye(n)
    if is_number(emission) and np.ndim(emission) == 0:
        noise = float(emission)
        if not 0 <= noise < 1 or (n == 1 and noise > 0):
            raise ValueError(
                f"emission must be a probability of showing another state, 0 or more and below 1; got {emission!r}."
            )
        return (1 - noise) * np.eye(n) + noise * (1 - np.eye(n)) / max(n - 1, 1)
    cure = f"None, the probability of showing another state, or probabilities of shape {(n, 'A')}, for A symbols"
    table = np.asarray(checked_probability(as_numbers(emission, "emission", cure), "emission"))
    if table.ndim != 2 or len(table) != n:
        raise ValueError(
            f"emission must have shape {(n, 'A')} for n_states = {n} and A symbols; got shape {table.shape}."
        )
    return table


def _probabilities(values: Any, shape: tuple[int, ...], what: str, other: str) -> Floats:
    """Check given probabilities; ``other`` is what else the parameter may be, for messages."""
    table = as_numbers(values, what, f"{other}probabilities of shape {shape}")
    found = np.asarray(checked_probability(table, what))
    if found.shape != shape:
        raise ValueError(f"{what} must have shape {shape} for n_states = {shape[0]}; got shape {found.shape}.")
    return found


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

    about = f"HiddenTree of {count.sum():.0f} samples"
    return em_single(expect, maximize, start, n_iter, tol * float(count.sum()), about, "the tree")


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
