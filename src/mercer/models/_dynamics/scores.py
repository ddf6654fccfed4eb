"""Fisher scores of linear dynamical systems by Fisher's identity (FK-10)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.models._dynamics import runs
from mercer.models._dynamics.checks import possible
from mercer.models._forward.interface import Runs


def _triangle(twice: Floats) -> Floats:
    """Gradients in covariances: upper triangles, entries off the diagonal times sqrt 2 (FK-0), from twice them."""
    rows, columns = np.triu_indices(twice.shape[-1])
    factor = np.where(rows == columns, 0.5, np.sqrt(0.5))
    return np.asarray(twice[..., rows, columns] * factor)


def sequence_scores(models: Any, X: Sequences) -> Floats:
    """Scores of each series under each system, ``(N, M, P)``."""
    values, shape = np.asarray(X.values, dtype=np.float64), (len(models), len(X))
    pairs = Runs.crossed(X.offsets, len(models))
    systems = runs.systems_of(models)
    found = runs.expected(systems, values, pairs)
    possible(found.log_prob.reshape(shape), X, systems)
    parts = [
        found.transition[..., :-1], found.transition[..., -1], _triangle(found.process),
        found.emission[..., :-1], found.emission[..., -1], _triangle(found.observation),
        found.initial_mean, _triangle(found.initial),
    ]  # fmt: skip
    columns = [part.reshape(*shape, math.prod(part.shape[1:])) for part in parts]
    return np.concatenate(columns, axis=-1)


def score_names(n: int, d: int) -> list[str]:
    """Return the names of the columns of `sequence_scores`."""

    def matrix(name: str, rows: int, columns: int) -> list[str]:
        return [f"{name}[{i}, {j}]" for i in range(rows) for j in range(columns)]

    def vector(name: str, size: int) -> list[str]:
        return [f"{name}[{i}]" for i in range(size)]

    def triangle(name: str, size: int) -> list[str]:
        return [f"{name}[{i}, {j}]" for i, j in zip(*np.triu_indices(size), strict=True)]

    return [
        *matrix("transition", n, n), *vector("state_offset", n), *triangle("process_covariance", n),
        *matrix("emission", d, n), *vector("observation_offset", d), *triangle("observation_covariance", d),
        *vector("initial_mean", n), *triangle("initial_covariance", n),
    ]  # fmt: skip
