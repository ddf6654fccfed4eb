"""Starts of Baum-Welch: k-means++ seeds (vectors), perturbed frequencies (symbols), time segments (left-right)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._probability import normalized
from mercer.data.segments import segment_sum
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.estimator import Context
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import leaf_of
from mercer.models._fitting.mixture_steps import generator, numbers, seed_shares
from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixtures

POINTS = 20_000
"""Maximum number of observations per model that a start uses."""


def starts(emission: Any, data: Data, context: Context, mask: tuple[Floats, Floats], seed: int, attempt: int) -> HMMs:
    """Return one start per model; it depends only on the seed, the attempt and the observations of the model.

    Parameters
    ----------
    emission : Estimator
        The estimator of the emissions.
    data : Data
        Observations.
    context : Context
        Properties that all samples share.
    mask : pair of bool arrays (n,) and (n, n)
        Allowed initial states and transitions.
    seed, attempt : int
        Seeds of the random numbers.
    """
    first, step = mask
    mixed = leaf_of(emission) is not emission
    n, columns = len(first), int(emission.n_components) if mixed else 1
    ordered = bool(n > 1 and not np.tril(step, -1).any())  # left-right: the states are successive segments
    rows, shares, weights, transition = [], [], [], np.empty((data.size, n, n))
    ends = data.sequence_offsets
    for i in range(data.size):
        offsets = data.offsets[ends[i] : ends[i + 1] + 1]
        points = np.arange(offsets[0], offsets[-1])
        rng = generator(data.x[points], seed, attempt)
        where = _positions(offsets) if ordered else points
        if len(points) > POINTS:
            chosen = np.sort(rng.choice(len(points), POINTS, replace=False))
            points, where = points[chosen], where[chosen]
        share = _state_shares(data.x[points], where, n, context, rng, ordered=ordered)
        transition[i] = _transitions(share, points, offsets, step, rng)
        rows.append(points)
        shares.append(share)
        if columns > 1:
            weights.append(_component_shares(data.x[points], share, columns, context, rng))
    offsets = np.concatenate([[0], np.cumsum([len(points) for points in rows])])
    x, table = data.x[np.concatenate(rows)], np.concatenate(shares)
    made: Any
    if isinstance(emission, Categorical):
        made = _frequencies(x, table, offsets, context)
    elif not mixed:
        made = leaf_of(emission).fit_weighted(x, table, offsets, context)
    else:
        wide = np.concatenate(weights) if weights else table
        fitted = leaf_of(emission).fit_weighted(x, wide, offsets, context)
        mass = normalized(segment_sum(wide, offsets).reshape(data.size, n, columns), 1.0 / columns)
        made = Mixtures._make(weights=mass, components=fitted.reshape(data.size, n, columns))
    return HMMs._make(
        initial=np.tile(first / first.sum(), (data.size, 1)),
        transition=transition,
        n_states=np.full(data.size, n),
        emission=made,
    )


def _positions(offsets: Floats) -> Floats:
    """Return the relative position of each observation in its sequence, from 0 to 1."""
    lengths = np.diff(offsets)
    at = np.arange(offsets[-1] - offsets[0]) - np.repeat(offsets[:-1] - offsets[0], lengths)
    return np.asarray((at + 0.5) / np.repeat(np.maximum(lengths, 1), lengths))


def _state_shares(
    x: Any, where: Floats, n: int, context: Context, rng: np.random.Generator, *, ordered: bool
) -> Floats:
    """Assign observations to states, softly: ``(T, n)``."""
    if len(where) == 0 or n == 1:
        return np.ones((len(where), n))
    if ordered:
        cuts = np.sort((np.arange(1, n) + 0.5 * (rng.random(n - 1) - 0.5)) / n)
        return np.asarray(0.9 * np.eye(n)[np.searchsorted(cuts, where)] + 0.1 / n)
    if context.alphabet is not None:
        # Random factors per state and symbol perturb the frequencies of the symbols.
        factors = np.exp(rng.normal(0.0, 0.5, (context.alphabet.n_codes, n)))
        return normalized(factors[np.asarray(x)], 1.0 / n)
    return seed_shares(numbers(x, context), np.ones(len(where)), n, rng)


def _component_shares(x: Any, share: Floats, m: int, context: Context, rng: np.random.Generator) -> Floats:
    """Assign the observations of each state to its components, softly: ``(T, n * m)``."""
    if len(x) == 0:
        return np.zeros((0, share.shape[1] * m))
    points = numbers(x, context)
    parts = [share[:, j, None] * seed_shares(points, share[:, j], m, rng) for j in range(share.shape[1])]
    return np.concatenate(parts, axis=1)


def _transitions(share: Floats, points: Floats, offsets: Floats, step: Floats, rng: np.random.Generator) -> Floats:
    """Estimate transition probabilities from the assignment, with a pseudo-count of 1 for each allowed transition."""
    n = len(step)
    before, after = share[:-1], share[1:]
    if len(offsets) > 2 or len(points) < offsets[-1] - offsets[0]:
        inside = (np.diff(points) == 1) & ~np.isin(points[1:], offsets)
        before, after = before[inside], after[inside]
    counts = before.T @ after if n > 1 else np.zeros((1, 1))
    noise = rng.gamma(4.0, 0.25, (n, n))  # mean 1
    counts = np.where(step, (counts + 1.0) * noise, 0.0)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _frequencies(x: Floats, table: Floats, offsets: Floats, context: Context) -> Categoricals:
    """Estimate frequencies of symbols per state; an ambiguity code counts equally for each of its symbols."""
    assert context.alphabet is not None
    k = len(context.alphabet)
    indicators = context.alphabet.indicators(np.asarray(x))
    indicators[np.asarray(x) == context.alphabet.missing] = 0.0
    indicators /= np.maximum(indicators.sum(axis=1, keepdims=True), 1.0)
    counts = np.stack([segment_sum(table[:, j, None] * indicators, offsets) for j in range(table.shape[1])], axis=1)
    return Categoricals._make(probability=normalized(counts, 1.0 / k), alphabet=context.alphabet)
