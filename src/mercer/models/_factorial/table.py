"""EM of factorial hidden Markov models with a table of symbols over the joint states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, safe_log
from mercer._probability import normalized, shared_out
from mercer.families.categorical import Categoricals
from mercer.models._factorial.em import log_of
from mercer.models._factorial.joint import expected_joint
from mercer.models._forward.evidence import code_probabilities


class TableParameters(NamedTuple):
    """One model: ``(C, n)``, ``(C, n, n)``, and the probabilities of symbols in all joint states, ``(J, k)``."""

    initial: Floats
    transition: Floats
    probability: Floats


class TableSums(NamedTuple):
    """Expected statistics: of states and transitions, and of symbols in all joint states."""

    first: Floats
    transitions: Floats
    counts: Floats
    size: float

    def plus(self, other: TableSums, weight: float) -> TableSums:
        """Add other statistics, with a weight."""
        parts: list[Any] = [a + weight * b for a, b in zip(list[Any](self), list[Any](other), strict=True)]
        return TableSums(*parts)


class SymbolEvidence:
    """Probabilities of codes of symbols in all joint states of one model."""

    def __init__(self, probability: Floats, alphabet: Any, codes: Indices) -> None:
        self.kind = np.asarray(codes)
        self.logs = safe_log(np.ascontiguousarray(code_probabilities(Categoricals(probability, alphabet)).T))

    @property
    def n_kinds(self) -> int:
        """Number of codes."""
        return len(self.logs)

    def log_density(self, rows: Indices) -> Floats:
        """Return log probabilities of some observations in all joint states, ``(len(rows), J)``."""
        return np.asarray(self.logs[self.kind[rows]])


def exact(model: TableParameters, codes: Indices, offsets: Indices, alphabet: Any) -> tuple[float, TableSums]:
    """Return the log probability and the expected statistics."""
    evidence = SymbolEvidence(model.probability, alphabet, codes)
    found = expected_joint(model.initial, model.transition, evidence, offsets)
    counts = symbol_counts(model.probability, alphabet, found.kinds[0])
    sums = TableSums(found.first.sum(axis=0), found.transitions.sum(axis=0), counts, float(len(codes)))
    return float(found.log_prob.sum()), sums


def symbol_counts(probability: Floats, alphabet: Any, kinds: Floats) -> Floats:
    """Return expected numbers of symbols ``(J, k)`` from those of codes ``(K, J)``.

    Ambiguity codes count as their symbols, by their probabilities; missing symbols do not count.
    """
    k, sets = probability.shape[1], alphabet.ambiguity
    counts = kinds[:k].T
    if len(sets):
        counts = counts + shared_out(kinds[k : k + len(sets)].T, probability @ sets.T, probability, sets)
    return np.asarray(counts)


def maximized(sums: TableSums, old: TableParameters) -> TableParameters:
    """Refit a model to expected statistics."""
    return TableParameters(
        normalized(sums.first, old.initial),
        normalized(sums.transitions, old.transition),
        normalized(sums.counts, old.probability),
    )


def log_prior(model: TableParameters, expected: TableSums, strength: float) -> float:
    """Return the log density of the Dirichlet prior, up to a constant."""
    value = log_of(expected.first, model.initial) + log_of(expected.transitions, model.transition)
    return strength * (value + log_of(expected.counts, model.probability))


def prior_sums(model: TableParameters) -> TableSums:
    """Return the prior of a model: one observation in each row of each table (EST-2b)."""
    return TableSums(model.initial, model.transition, model.probability, 1.0)


def even_sums(model: TableParameters) -> TableSums:
    """Return one observation in each joint state, spread evenly over the symbols."""
    counts = np.full_like(model.probability, 1 / model.probability.shape[1])
    return TableSums(np.zeros_like(model.initial), np.zeros_like(model.transition), counts, 0.0)
