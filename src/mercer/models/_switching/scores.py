"""Fisher scores of switching systems by Fisher's identity: expected scores of regime paths and states (FK-10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer.data import Sequences
from mercer.models._dynamics import scores as systems
from mercer.models._dynamics.checks import possible
from mercer.models._fitting.data import Data
from mercer.models._scores.scores import probability_scores
from mercer.models._switching.hypotheses import FEW, chains_of
from mercer.models._switching.moments import path_gradients
from mercer.models._switching.smoothing import posterior_paths

__all__ = ["score_names", "sequence_scores"]

_BLOCK = 2**22
"""Numbers of the covariances of the states of all paths of a block of series."""


def sequence_scores(models: Any, X: Sequences, parametrization: str, n_paths: int, random_state: Any) -> Floats:
    """Scores of each series under each model, ``(N, M, P)``."""
    width = max(n_paths, FEW) * models.state_dim**2
    block = np.cumsum(np.asarray(X.lengths)) * width // _BLOCK
    edges = np.searchsorted(block, np.unique(block))
    parts = np.split(np.arange(len(X)), edges[1:]) if len(X) else []
    found = np.zeros((len(models), len(X), len(models.score_names())))
    for which in parts:
        for c in range(len(models)):
            found[c, which] = _block(models, c, X, which, parametrization, n_paths, random_state)
    return found


def _block(
    models: Any, c: int, X: Sequences, which: Indices, parametrization: str, n_paths: int, random_state: Any
) -> Floats:
    """Scores of some series under one model, ``(M, P)``; every series has a copy of it, with sums of its own."""
    part, copies = X[which], models[np.full(len(which), c)]
    chains, size = chains_of(copies), len(which)
    values = np.asarray(part.values, dtype=np.float64)
    data = Data(values, part.offsets, np.arange(size), size)
    probability = np.zeros((len(values), chains.regimes))
    total: Any = 0.0
    for group, paths, share, log_prob in posterior_paths(
        chains, copies.n_regimes, values, data.runs, n_paths, random_state, probability
    ):
        possible(log_prob, X[which[group]], chains.systems)
        every = np.zeros((size, len(paths)))
        every[group] = 1 / len(paths) if share is None else share
        found, counts, moves = path_gradients(chains, data, paths, every)
        first = counts.series.reshape(size, -1)
        chain = [
            probability_scores(counted, np.asarray(p), None, parametrization).reshape(size, -1)
            for counted, p in ((first, copies.initial), (moves, copies.transition))
        ]
        total = total + np.concatenate([*chain, systems.columns(found).reshape(size, -1)], axis=1)
    return np.asarray(total)


def score_names(k: int, n: int, d: int) -> list[str]:
    """Return the names of the columns of `sequence_scores`."""
    pairs = [f"transition[{j}, {i}]" for j in range(k) for i in range(k)]
    inner = [f"systems[{j}].{name}" for j in range(k) for name in systems.score_names(n, d)]
    return [*(f"initial[{j}]" for j in range(k)), *pairs, *inner]
