"""Forward and backward over many sequences and many models at once (ALG-FB): one interface for fits and inference.

A *run* is a stretch of observations read under one model. What a state thinks of an observation is the *evidence*:
`Symbols` (codes and one table of probabilities per model) or `Densities` (a row of log densities per observation).
Every number of a run depends on that run and its model alone, whatever stands beside it and on how many threads.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from mercer._array import Floats, safe_log

__all__ = ["Densities", "Evidence", "Expectations", "Runs", "Symbols", "expectations", "log_likelihoods", "paths"]


class Runs(NamedTuple):
    """Stretches of observations, each under one model."""

    start: Floats
    """First observation of every run, ``(S,)`` int."""
    length: Floats
    """Number of its observations, ``(S,)`` int; 0 is allowed."""
    model: Floats
    """Position of its model, ``(S,)`` int."""

    @classmethod
    def own(cls, offsets: Floats) -> Runs:
        """Sequence i under model i."""
        return cls(offsets[:-1], np.diff(offsets), np.arange(len(offsets) - 1))

    @classmethod
    def shared(cls, offsets: Floats) -> Runs:
        """Read every sequence under model 0."""
        return cls(offsets[:-1], np.diff(offsets), np.zeros(len(offsets) - 1, dtype=int))

    @classmethod
    def crossed(cls, offsets: Floats, n_models: int) -> Runs:
        """Read every sequence under every model, model by model."""
        m = len(offsets) - 1
        return cls(
            np.tile(offsets[:-1], n_models), np.tile(np.diff(offsets), n_models), np.repeat(np.arange(n_models), m)
        )


class Symbols(NamedTuple):
    """Evidence of symbols: the probability of every code in every state."""

    codes: Floats
    """``(T,)`` int."""
    probability: Floats
    """``(N, n, n_codes)``: an ambiguity code has the sum of its symbols, the missing code 1."""


class Densities(NamedTuple):
    """Evidence of any kind: log densities of the observations in the states of the run that they belong to."""

    log_density: Floats
    """``(T, n)``; every observation belongs to one run at most."""


Evidence: TypeAlias = Symbols | Densities


class Expectations(NamedTuple):
    """What is expected of the hidden states given the observations; all zero where a run is impossible or empty."""

    log_prob: Floats
    """``(S,)``: -inf where impossible, 0 where empty."""
    first: Floats
    """Posterior of the first state, ``(S, n)``."""
    transitions: Floats
    """Expected numbers of transitions, ``(S, n, n)``."""
    visits: Floats
    """Expected numbers of visits, ``(S, n)``."""
    states: Floats | None
    """Posteriors of the states at every observation, ``(T, n)``, zero outside of all runs; where asked for."""
    symbols: Floats | None
    """Expected numbers of every code in every state, ``(S, n, n_codes)``; of `Symbols` alone."""


def log_likelihoods(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> Floats:
    """Log probability of every run, ``(S,)``.

    Parameters
    ----------
    initial, transition : ndarray of shape (N, n) and (N, n, n)
        Probabilities of N models.
    evidence : Symbols or Densities
        What the states think of the observations.
    runs : Runs
        Stretches of observations and their models.
    """
    from mercer.models._log_domain import log_likelihood

    first, step = safe_log(initial), safe_log(transition)
    out = np.zeros(len(runs.start))
    for s, (start, length, model) in enumerate(zip(*runs, strict=True)):
        if length:
            out[s] = log_likelihood(first[model], step[model], _table(evidence, start, length, model))
    return out


def expectations(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs, *, states: bool = False
) -> Expectations:
    """Log probabilities, expected transitions and visits of every run; with ``states`` every posterior.

    Parameters are those of `log_likelihoods`.
    """
    from mercer.models._log_domain import log_expectations

    first, step = safe_log(initial), safe_log(transition)
    size, n = len(runs.start), initial.shape[1]
    total = len(evidence.codes if isinstance(evidence, Symbols) else evidence.log_density)
    found = Expectations(
        np.zeros(size),
        np.zeros((size, n)),
        np.zeros((size, n, n)),
        np.zeros((size, n)),
        np.zeros((total, n)) if states else None,
        np.zeros((size, n, evidence.probability.shape[-1])) if isinstance(evidence, Symbols) else None,
    )
    for s, (start, length, model) in enumerate(zip(*runs, strict=True)):
        if not length:
            continue
        posterior = np.empty((length, n))
        table = _table(evidence, start, length, model)
        found.log_prob[s] = log_expectations(first[model], step[model], table, posterior, found.transitions[s])
        found.first[s], found.visits[s] = posterior[0], posterior.sum(axis=0)
        if found.states is not None:
            found.states[start : start + length] = posterior
        if found.symbols is not None and isinstance(evidence, Symbols):
            np.add.at(found.symbols[s].T, evidence.codes[start : start + length], posterior)
    return found


def paths(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> tuple[Floats, Floats]:
    """Find the most probable states (Viterbi), ``(T,)`` with -1 outside of all runs, and their log probabilities."""
    from mercer.models._log_domain import log_path

    first, step = safe_log(initial), safe_log(transition)
    total = len(evidence.codes if isinstance(evidence, Symbols) else evidence.log_density)
    states, value = np.full(total, -1, dtype=np.int32), np.zeros(len(runs.start))
    for s, (start, length, model) in enumerate(zip(*runs, strict=True)):
        if length:
            table = _table(evidence, start, length, model)
            value[s] = log_path(first[model], step[model], table, states[start : start + length])
    return states, value


def _table(evidence: Evidence, start: int, length: int, model: int) -> Floats:
    """Log densities of one run, ``(length, n)``."""
    rows = slice(start, start + length)
    if isinstance(evidence, Densities):
        return np.ascontiguousarray(evidence.log_density[rows], dtype=np.float64)
    return np.ascontiguousarray(safe_log(evidence.probability[model][:, evidence.codes[rows]]).T)
