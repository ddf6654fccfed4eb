"""Inference for batches of HMMs: log probabilities, posteriors, best paths; which sequence goes with which model."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._wording import read_before
from mercer.data import Sequences
from mercer.data.segments import columns_as_symbols, in_numbers
from mercer.families.categorical import Categoricals
from mercer.models._forward.evidence import code_probabilities, evidence_of, row_log_prob
from mercer.models._forward.interface import (
    Densities,
    Evidence,
    Expectations,
    Runs,
    Symbols,
    expectations,
    log_likelihoods,
    paths,
)

__all__ = ["best_paths", "crossed_log_prob", "own_expectations", "read"]


def read(emission: Any, X: Any) -> Sequences:
    """Convert ``X`` to sequences of the kind that the emission emits."""
    alphabet: Any = getattr(getattr(emission, "components", emission), "alphabet", None)
    try:
        with read_before():
            X = Sequences(X) if alphabet is None else Sequences(columns_as_symbols(X), alphabet=alphabet)
    except TypeError:
        Sequences(X).require("symbols", f"The model, which emits {alphabet.describe()},")
        raise
    if alphabet is None:
        X = in_numbers(X).require("vectors", "The model", "Use a model of symbols, such as HMM fits to text.")
        X.require_dimension(emission.dimension, "the model has")
    return X


def crossed_log_prob(models: Any, X: Sequences) -> Floats:
    """Log probability of every sequence under every model, ``(N, M)``."""
    size, initial, transition = len(models), double(models.initial), double(models.transition)
    if isinstance(models.emission, Categoricals):
        evidence = Symbols(X.values, code_probabilities(models.emission))
        runs = Runs.crossed(X.offsets, size)
        return log_likelihoods(initial, transition, evidence, runs).reshape(size, len(X))
    out, runs = np.empty((size, len(X))), Runs.shared(X.offsets)
    owner = np.zeros(len(X.values), dtype=int)
    for i in range(size):  # an observation has a row of densities for every model: one model at a time
        table = Densities(row_log_prob(models.emission[i : i + 1], X.values, owner))
        out[i] = log_likelihoods(initial[i : i + 1], transition[i : i + 1], table, runs)
    return out


def own_runs(models: Any, X: Sequences) -> Runs:
    """Every sequence under the one model, or sequence i under model i."""
    if len(models) == 1:
        return Runs.shared(X.offsets)
    if len(models) != len(X):
        raise ValueError(
            f"The number of models must be 1 or the number of sequences; got {len(models)} models and {len(X)} "
            "sequences. Pass one model, such as models[3:4]."
        )
    return Runs.own(X.offsets)


def _evidence(models: Any, X: Sequences, runs: Runs) -> Evidence:
    return evidence_of(models.emission, X.values, np.repeat(runs.model, runs.length))


def own_expectations(models: Any, X: Sequences) -> Expectations:
    """Posteriors of every sequence under its own model; raises if it is impossible."""
    runs = own_runs(models, X)
    evidence = _evidence(models, X, runs)
    found = expectations(double(models.initial), double(models.transition), evidence, runs, states=True)
    _check_possible(X, found.log_prob)
    return found


def best_paths(models: Any, X: Sequences) -> tuple[list[Floats], Floats]:
    """Most probable states of every sequence under its own model, and their log probabilities."""
    runs = own_runs(models, X)
    states, value = paths(double(models.initial), double(models.transition), _evidence(models, X, runs), runs)
    _check_possible(X, value)
    return [states[begin:end] for begin, end in pairwise(X.offsets)], value


def _check_possible(X: Sequences, log_prob: Floats) -> None:
    impossible = np.flatnonzero(~np.isfinite(log_prob))
    if len(impossible):
        raise ValueError(
            f"{X.name(impossible[0])} has probability zero under its model, so its states have no posterior. Leave it "
            "out, or use a model without zeros, such as one fitted with a prior."
        )


def double(x: Any) -> Floats:
    return to_numpy(x).astype(np.float64, copy=False)
