"""Filter and smoother of given regime paths: linear dynamical systems whose parameters change from step to step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices
from mercer._native import kalman
from mercer.models._dynamics.em import Counts
from mercer.models._dynamics.runs import StateExpectations, records, split_sums, sums_size
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains

__all__ = ["expected_along", "weights_along"]


class _Steps:
    """All steps of all runs along their paths, one run after the other, ``(W,)``."""

    def __init__(self, chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices) -> None:
        self.starts, self.lengths, self.models = (np.asarray(part) for part in runs)
        self.begin = np.cumsum(self.lengths) - self.lengths
        self.run = np.repeat(np.arange(len(self.lengths)), self.lengths)
        place = np.arange(len(self.run)) - self.begin[self.run]
        point = self.starts[self.run] + place
        self.regime = paths[layer[self.run], point].astype(np.int64)
        self.system = self.models[self.run] * chains.regimes + self.regime
        self.first, self.seen = place == 0, np.isfinite(x[point]).any(axis=1)
        self.log_prob = np.empty(len(self.lengths))

    def infer(self, chains: Chains, x: Floats, **outputs: Any) -> None:
        """Filter all runs, or smooth them, as `kalman.infer` does."""
        model = np.append(self.system, 0)[self.begin]
        kalman.infer(
            chains.systems, x, (self.starts, self.lengths, model), np.argsort(-self.lengths, kind="stable"),
            by_model=False, block=max(min(int(self.lengths.max(initial=0)), records(chains.systems)), 1),
            log_prob=self.log_prob, path=(self.system, self.begin), regimes=chains.regimes, **outputs,
        )  # fmt: skip


def weights_along(chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices) -> Floats:
    """Return the log weights of the given paths of runs, ``(S,)``, as `explore` does.

    Parameters
    ----------
    chains, x, runs
        As of `explore`.
    paths : array of int of shape (M, T)
        Regimes at every observation, in M layers.
    layer : array of int of shape (S,)
        The layer of the path of every run.
    """
    steps = _Steps(chains, x, runs, paths, layer)
    steps.infer(chains, x)
    model, regime, first = steps.models[steps.run], steps.regime, steps.first
    moved = chains.log_transition[model, np.roll(regime, 1), regime]
    terms = np.where(first, chains.log_initial[model, regime], moved)
    if chains.bonus is not None:
        start, later, seen = (part[model, regime] for part in chains.bonus)
        terms = terms + np.where(first, start, later) + steps.seen * seen
    return np.asarray(steps.log_prob + np.bincount(steps.run, terms, len(layer)))


def expected_along(
    chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices, weight: Floats
) -> tuple[StateExpectations, Counts]:
    """Sum the gradients and moments of runs along paths for every system, weighted, as `expected` does (FK-10).

    Parameters
    ----------
    chains, x, runs, paths, layer
        As of `weights_along`.
    weight : array of shape (S,)
        Weight of every run.

    Returns
    -------
    StateExpectations, Counts
        For all systems; the log probability is left out.
    """
    steps, k, (n, d) = _Steps(chains, x, runs, paths, layer), chains.regimes, chains.systems.size
    size, count = len(weight), len(chains.systems.transition)
    sums, gradients = np.zeros((size * k, sums_size(n, d))), np.empty((size, n + n * n))
    steps.infer(chains, x, sums=sums, gradients=gradients)
    some = np.flatnonzero(steps.lengths)
    slope, curve = gradients[some, :n], gradients[some, n:].reshape(-1, n, n)
    inner = slope[:, :, None] * slope[:, None, :] - curve
    start = steps.system[steps.first]

    def total(system: Indices, weights: Floats, values: Floats) -> Floats:
        matrix = sparse.csr_array((weights, (system, np.arange(len(system)))), shape=(count, len(system)))
        return np.asarray(matrix @ values.reshape(len(system), math.prod(values.shape[1:]))).reshape(
            count, *values.shape[1:]
        )

    regime = (steps.models[:, None] * k + np.arange(k)).reshape(-1)
    parts = split_sums(n, d, total(regime, np.repeat(weight, k), sums))
    first = (total(start, weight[some], part) for part in (slope, inner))

    def number(which: Any) -> Floats:
        return np.bincount(steps.system[which], weight[steps.run[which]], count).astype(float)  # integers, if none

    return StateExpectations(np.empty(0), *parts, *first), Counts(
        number(~steps.first), number(steps.seen), number(steps.first)
    )
