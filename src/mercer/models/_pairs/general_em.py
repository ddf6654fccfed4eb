"""Expectation maximization of a pair HMM, for pairs of strings or single strings, and its start (MK-5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, safe_log
from mercer._probability import normalized, shared_out
from mercer.data import Alphabet, Sequences
from mercer.families.categorical import Categoricals
from mercer.models._fitting.mixture_steps import generator
from mercer.models._pairs.general_expectations import pair_counts
from mercer.models._pairs.general_single import PairExpectations, Parameters, sequence_counts
from mercer.models.pairhmm import PairHMMs

SILENT = 0.1
"""Initial probability of emitting nothing."""


class Strings(NamedTuple):
    """The training data of one model, with the interface of `mercer.models._fitting.em`."""

    X: Sequences
    pairs: tuple[Floats, Floats] | None
    """Indices of the two strings of each pair; None for single strings."""

    @property
    def size(self) -> int:
        """Number of models: one."""
        return 1

    @property
    def number(self) -> int:
        """Number of pairs, or of strings."""
        return len(self.X) if self.pairs is None else len(self.pairs[0])

    @property
    def model(self) -> Floats:
        """Index of the model of each sample."""
        return np.zeros(self.number, dtype=int)

    @property
    def sequence_offsets(self) -> Floats:
        """All samples belong to the single model."""
        return np.array([0, self.number])

    @property
    def mass(self) -> Floats:
        """Number of symbols and ends."""
        lengths = self.X.lengths + 1
        total = lengths.sum() if self.pairs is None else sum(lengths[side].sum() for side in self.pairs)
        return np.array([float(total)])

    def some(self, which: Floats) -> Strings:
        """Return itself, as there is a single model."""
        return self


class GeneralGoal:
    """Log probability of the data, plus a Dirichlet prior that adds ``smoothing`` to every expected count.

    Probabilities that are zero at the start stay zero, and have no prior. ``course`` records the objective of each
    E-step.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing
        self.course: list[float] = []

    def log_prior(self, models: PairHMMs) -> Floats:
        """Log prior, ``(1,)``, up to a constant."""
        if not self.smoothing:
            return np.zeros(1)
        model = Parameters.of(models, 0)
        k = models.dimension
        total = 0.0
        for p in (model.initial, model.transition, model.letters[:, :k], model.silent, 1 - model.silent):
            inside = p[(p > 0) & (p < 1)]
            total += float(np.sum(safe_log(inside)))
        return np.array([self.smoothing * total])

    def expect(self, models: PairHMMs, data: Strings) -> tuple[PairExpectations, Parameters]:
        """Return expected counts of the trajectories."""
        model = Parameters.of(models, 0)
        found = sequence_counts(model, data.X) if data.pairs is None else pair_counts(model, data.X, *data.pairs)
        self.course.append(float(found.log_prob.sum() + self.log_prior(models)[0]))
        return found, model

    def maximize(self, models: PairHMMs, data: Strings, found: PairExpectations, memory: Parameters) -> PairHMMs:
        """Fit the model to expected counts."""
        n, k, model = models.n_states, models.dimension, memory
        initial = self._distribution(found.initial.sum(axis=0), model.initial)
        transition = self._distribution(found.transition.sum(axis=0), model.transition)
        codes = found.symbols.sum(axis=0)
        letters = self._distribution(_letters(codes, model.letters, models.alphabet), model.letters[:, :k])
        both = np.stack([found.silent.sum(axis=0), codes.sum(axis=1)], axis=1)
        silent = self._distribution(both, np.stack([model.silent, 1 - model.silent], axis=1))[:, 0]
        return PairHMMs._make(
            initial=initial[None, :n],
            transition=transition[None, :, :n],
            stop=transition[None, :, n],
            silent=silent[None],
            empty=initial[None, n],
            emission=Categoricals._make(probability=letters[None], alphabet=models.alphabet),
        )

    def _distribution(self, counts: Floats, p: Floats) -> Floats:
        """Return rows of probabilities from expected counts; unvisited rows stay unchanged."""
        return normalized(np.where(p > 0, counts + self.smoothing, 0.0), p)


def _letters(codes: Floats, probability: Floats, alphabet: Alphabet) -> Floats:
    """Distribute the counts of ambiguity codes ``(n, C)`` over the symbols that they stand for, ``(n, k)``."""
    k = len(alphabet)
    sets = alphabet.indicators(np.arange(k, alphabet.n_codes))
    return codes[:, :k] + shared_out(codes[:, k:], probability[:, k:], probability[:, :k], sets)


def random_start(X: Sequences, n: int, seed: int, attempt: int) -> PairHMMs:
    """Return a model whose strings have the average length of the data, with frequencies perturbed per state."""
    assert X.alphabet is not None
    k = len(X.alphabet)
    codes = np.bincount(X.values, minlength=X.alphabet.n_codes)
    rng = generator(codes, seed, attempt)  # independent of the order of the samples
    indicators = X.alphabet.indicators(np.arange(X.alphabet.n_codes))
    indicators[X.alphabet.missing] = 0.0
    weights = indicators / np.maximum(indicators.sum(axis=1, keepdims=True), 1.0)
    counts = codes @ weights + 1.0
    letters = normalized(counts * np.exp(rng.normal(0.0, 0.5 if n > 1 else 0.0, (n, k))), 1.0 / k)
    visits = max(float(np.mean(X.lengths)), 1.0) / (1 - SILENT)
    stop = 1.0 / visits  # the number of visits is geometric, at least 1
    inner = (1 - stop) * normalized(rng.gamma(4.0, 0.25, (n, n)) + np.eye(n), 1.0 / n)
    return PairHMMs(
        initial=normalized(rng.gamma(4.0, 0.25, n), 1.0 / n)[None],
        transition=inner[None],
        stop=np.full((1, n), stop),
        emission=Categoricals(letters[None], X.alphabet),
        silent=np.full((1, n), SILENT) * (np.exp(rng.normal(0.0, 0.2, (1, n)))),
    )
