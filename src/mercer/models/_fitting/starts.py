"""Starts of Baum-Welch: k-means++ seeds (vectors), perturbed frequencies (symbols), time segments (left-right)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import normalized
from mercer._random import generator
from mercer.data.ragged import evenly
from mercer.data.segments import segment_sum
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.estimator import Context
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import leaf_of
from mercer.models._fitting.mixture_steps import numbers, seed_shares
from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixtures

POINTS = 20_000
"""Number of observations per model that a start uses, at most, up to one more per sequence."""


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
    ends = data.sequence_offsets
    rngs = [generator(seed, attempt) for _ in range(data.size)]
    models = [_Model.of(data.offsets[ends[i] : ends[i + 1] + 1], rng) for i, rng in enumerate(rngs)]
    offsets = np.concatenate([[0], np.cumsum([len(model.points) for model in models])])
    x = data.x[np.concatenate([model.points for model in models])]
    if n == 1:
        table = np.ones((len(x), 1))
    elif ordered:
        table = np.concatenate([_successive(model, n) for model in models])
    elif context.alphabet is not None:
        table = _perturbed(x, models, n, context.alphabet.n_codes)
    else:
        table = np.concatenate([_seeded(data.x[model.points], n, context, model.rng) for model in models])
    shares = np.split(table, offsets[1:-1])
    counts = np.stack([_steps(share, model) for share, model in zip(shares, models, strict=True)])
    noise = np.stack([model.rng.gamma(4.0, 0.25, (n, n)) for model in models])  # mean 1
    transition = normalized(np.where(step, (counts + 1.0) * noise, 0.0), 1.0 / n)
    made: Any
    if isinstance(emission, Categorical):
        made = _frequencies(x, table, offsets, context)
    elif not mixed:
        made = leaf_of(emission).fit_weighted(x, table, offsets, context)
    else:
        wide = table
        if columns > 1:
            parts = zip(shares, models, strict=True)
            split = [_component_shares(data.x[m.points], share, columns, context, m.rng) for share, m in parts]
            wide = np.concatenate(split)
        fitted = leaf_of(emission).fit_weighted(x, wide, offsets, context)
        mass = normalized(segment_sum(wide, offsets).reshape(data.size, n, columns), 1.0 / columns)
        made = Mixtures._make(weights=mass, components=fitted.reshape(data.size, n, columns))
    return HMMs._make(
        initial=np.tile(first / first.sum(), (data.size, 1)),
        transition=transition,
        n_states=np.full(data.size, n),
        emission=made,
    )


class _Model(NamedTuple):
    """Data for the start of one model."""

    offsets: Indices
    """The sequences of the model."""
    points: Indices
    """Ascending indices of its observations, about ``POINTS`` of them at most."""
    rng: np.random.Generator

    @classmethod
    def of(cls, offsets: Indices, rng: np.random.Generator) -> _Model:
        """Return the model of some sequences."""
        points = np.arange(offsets[0], offsets[-1])
        if len(points) > POINTS:  # the same of each sequence, whatever the others
            points = evenly(offsets, -(-np.diff(offsets) * POINTS // len(points)))
        return cls(offsets, points, rng)


def _successive(model: _Model, n: int) -> Floats:
    """Assign each observation to a state by its place in its sequence, softly: ``(T, n)``."""
    if len(model.points) == 0:
        return np.ones((0, n))
    sequence = np.searchsorted(model.offsets, model.points, side="right") - 1
    begin, end = model.offsets[sequence], model.offsets[sequence + 1]
    place = (model.points - begin + 0.5) / (end - begin)
    cuts = np.sort((np.arange(1, n) + 0.5 * (model.rng.random(n - 1) - 0.5)) / n)
    return np.asarray(0.9 * np.eye(n)[np.searchsorted(cuts, place)] + 0.1 / n)


def _perturbed(x: Any, models: list[_Model], n: int, n_codes: int) -> Floats:
    """Assign symbols to states by random factors per model, state and symbol: ``(T, n)``."""
    counts = [len(model.points) for model in models]
    factors = np.ones((len(models), n_codes, n))
    for i, model in enumerate(models):
        if counts[i]:
            factors[i] = np.exp(model.rng.normal(0.0, 0.5, (n_codes, n)))
    return normalized(factors, 1.0 / n)[np.repeat(np.arange(len(models)), counts), np.asarray(x)]


def _seeded(x: Any, n: int, context: Context, rng: np.random.Generator) -> Floats:
    """Assign vectors to the states of k-means++ seeds, softly: ``(T, n)``."""
    return seed_shares(numbers(x, context), np.ones(len(x)), n, rng) if len(x) else np.ones((0, n))


def _component_shares(x: Any, share: Floats, m: int, context: Context, rng: np.random.Generator) -> Floats:
    """Assign the observations of each state to its components, softly: ``(T, n * m)``."""
    if len(x) == 0:
        return np.zeros((0, share.shape[1] * m))
    points = numbers(x, context)
    parts = [share[:, j, None] * seed_shares(points, share[:, j], m, rng) for j in range(share.shape[1])]
    return np.concatenate(parts, axis=1)


def _steps(share: Floats, model: _Model) -> Floats:
    """Count the transitions of one model between the states of successive observations, ``(n, n)``."""
    before, after = share[:-1], share[1:]
    offsets, points = model.offsets, model.points
    if len(offsets) > 2 or len(points) < offsets[-1] - offsets[0]:
        inside = (np.diff(points) == 1) & ~np.isin(points[1:], offsets)
        before, after = before[inside], after[inside]
    return np.asarray(before.T @ after)


def _frequencies(x: Floats, table: Floats, offsets: Floats, context: Context) -> Categoricals:
    """Estimate frequencies of symbols per state; an ambiguity code counts equally for each of its symbols."""
    assert context.alphabet is not None
    k = len(context.alphabet)
    indicators = context.alphabet.indicators(np.asarray(x))
    indicators[np.asarray(x) == context.alphabet.missing] = 0.0
    indicators /= np.maximum(indicators.sum(axis=1, keepdims=True), 1.0)
    counts = np.stack([segment_sum(table[:, j, None] * indicators, offsets) for j in range(table.shape[1])], axis=1)
    return Categoricals._make(probability=normalized(counts, 1.0 / k), alphabet=context.alphabet)
