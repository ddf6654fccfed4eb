"""Expected statistics of switching systems: along given paths, the regressions of every regime, and moves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices
from mercer._native import kalman
from mercer.models._dynamics.em import Counts, Memory, Regression, memory_of
from mercer.models._dynamics.runs import StateExpectations, Systems, records, split_sums, sums_size
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains

__all__ = [
    "Layer",
    "SwitchingMoments",
    "collect",
    "expected_along",
    "path_gradients",
    "path_moments",
    "step_noise",
    "weights_along",
]


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


_ROWS = 2**16
"""Observations of all layers whose expectations are computed at a time."""
_BLOCK = 2**20
"""Numbers of the sums of all paths that are smoothed at a time."""


class Layer(NamedTuple):
    """Weighted regimes and states at every observation."""

    regime: Indices
    """``(T,)``."""
    weight: Floats
    """``(T,)``."""
    means: Floats
    """``(T, n)``."""
    covariances: Floats
    """``(T, n, n)``."""
    lags: Floats
    """Covariances of a state and the one before it, ``(T, n, n)``."""


class SwitchingMoments(NamedTuple):
    """Sums over all layers; regime k of model i has row ``i * K + k``."""

    memory: Memory
    first: Floats
    """Expected numbers of series that begin in each regime, ``(N, K)``."""
    moves: Floats
    """Expected numbers of moves between regimes, ``(N, K, K)``."""


def _outer(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[..., :, None] * b[..., None, :])


def _t(a: Floats) -> Floats:
    return a.swapaxes(-1, -2)


def step_noise(systems: Systems, code: Indices, layer: Layer, at: Indices) -> tuple[Floats, Floats]:
    """Return E[w] and E[w w'] of the noise w of the steps into observations ``at`` in systems ``code``."""
    a, m, v, lag = systems.transition[code], layer.means[at - 1], layer.covariances[at - 1], layer.lags[at]
    mean = layer.means[at] - (a @ m[..., None])[..., 0] - systems.state_offset[code]
    mixed = a @ _t(lag)
    return mean, _outer(mean, mean) + layer.covariances[at] - mixed - _t(mixed) + a @ v @ _t(a)


def _state(systems: Systems, code: Indices, layer: Layer, at: Indices) -> list[Floats]:
    """Return E[w w'], E[w (s, 1)'] and E[(s, 1)(s, 1)'] of steps, s the state before."""
    mean, noise = step_noise(systems, code, layer, at)
    m, v = layer.means[at - 1], layer.covariances[at - 1]
    cross = _outer(mean, m) + layer.lags[at] - systems.transition[code] @ v
    return [noise, np.concatenate([cross, mean[..., None]], axis=-1), _augmented(m, v)]


def _observation(systems: Systems, code: Indices, layer: Layer, at: Indices, x: Floats) -> list[Floats]:
    """Return the same of observations x; missing coordinates of w have their expectation given the others."""
    c, r, m, v = systems.emission[code], systems.observation_covariance[code], layer.means[at], layer.covariances[at]
    seen = np.isfinite(x)
    mean = np.where(seen, x - (c @ m[..., None])[..., 0] - systems.observation_offset[code], 0.0)
    c = np.where(seen[..., None], c, 0.0)
    noise, cross = _outer(mean, mean) + c @ v @ _t(c), _outer(mean, m) - c @ v
    gaps = np.flatnonzero(~seen.all(axis=1))
    if len(gaps):
        known = seen[gaps]
        unit = np.eye(x.shape[1])
        inside = np.where(known[..., None] & known[..., None, :], r[gaps], unit)
        fill = np.linalg.solve(inside, np.where(known[..., None], r[gaps], 0.0)).swapaxes(-1, -2)
        noise[gaps] = fill @ noise[gaps] @ _t(fill) + r[gaps] - fill @ (r[gaps] * known[..., None])
        cross[gaps], mean[gaps] = fill @ cross[gaps], (fill @ mean[gaps][..., None])[..., 0]
    return [noise, np.concatenate([cross, mean[..., None]], axis=-1), _augmented(m, v)]


def _augmented(m: Floats, v: Floats) -> Floats:
    """Return second moments of (s, 1)."""
    n = m.shape[-1]
    out = np.empty((len(m), n + 1, n + 1))
    out[:, :n, :n], out[:, :n, n], out[:, n, :n], out[:, n, n] = v + _outer(m, m), m, m, 1.0
    return out


def collect(systems: Systems, k: int, data: Data, layers: list[Layer], moves: Floats) -> SwitchingMoments:
    """Sum the expectations of all layers for every regime of every model; moves of the chain are given."""
    size, (n, d), length = data.size * k, systems.size, len(data.x)
    begins = np.zeros(length, bool)
    begins[data.offsets[:-1][np.diff(data.offsets) > 0]] = True
    some = np.isfinite(data.x).any(axis=1)
    shapes: list[list[tuple[int, ...]]] = [
        [(n, n), (n, n + 1), (n + 1, n + 1)],
        [(d, d), (d, n + 1), (n + 1, n + 1)],
        [(n,), (n, n)],
    ]
    totals = [[np.zeros((size, *shape)) for shape in group] for group in shapes]
    counts = np.zeros((3, size))

    def add(which: int, code: Indices, weight: Floats, values: list[Floats]) -> None:
        if not len(code):
            return
        weights = sparse.csr_array((weight, (code, np.arange(len(code)))), shape=(size, len(code)))
        for total, value in zip(totals[which], values, strict=True):
            total += (weights @ value.reshape(len(code), -1)).reshape(total.shape)
        counts[which] += np.bincount(code, weight, size)

    step = max(1, _ROWS // max(length, 1))
    for first in range(0, len(layers), step):  # several layers, one after the other
        part = layers[first : first + step]
        layer = Layer._make([np.concatenate(columns) for columns in zip(*part, strict=True)])
        there = layer.weight > 0
        code = np.tile(data.owner, len(part)) * k + layer.regime
        start, seen = np.tile(begins, len(part)), np.tile(some, len(part))
        at = np.flatnonzero(there & ~start)
        add(0, code[at], layer.weight[at], _state(systems, code[at], layer, at))
        at = np.flatnonzero(there & seen)
        add(1, code[at], layer.weight[at], _observation(systems, code[at], layer, at, data.x[at % length]))
        at = np.flatnonzero(there & start)
        away = layer.means[at] - systems.initial_mean[code[at]]
        add(2, code[at], layer.weight[at], [away, layer.covariances[at] + _outer(away, away)])
    state, observation = (Regression._make([*totals[i], counts[i]]) for i in (0, 1))
    memory = Memory._make([systems, state, observation, *totals[2], counts[2]])
    return SwitchingMoments(memory, counts[2].reshape(-1, k), moves)


def path_moments(chains: Chains, data: Data, paths: Indices, share: Floats) -> SwitchingMoments:
    """Return the expectations given regime paths, ``(M, T)``, with the probabilities ``(S, M)``."""
    found, counts, moves = path_gradients(chains, data, paths, share)
    return SwitchingMoments(memory_of(chains.systems, found, counts), counts.series.reshape(-1, chains.regimes), moves)


def path_gradients(
    chains: Chains, data: Data, paths: Indices, share: Floats
) -> tuple[StateExpectations, Counts, Floats]:
    """Return gradients and moments of every system given regime paths as in `path_moments`, and moves of the chain."""
    series, layer = np.nonzero(share)
    weight, width = share[series, layer], chains.regimes * sums_size(*chains.systems.size)
    block = np.arange(len(series)) * width // _BLOCK
    sums: Any = None
    for which in np.split(np.arange(len(series)), np.flatnonzero(np.diff(block)) + 1):
        runs = Runs(*(np.asarray(part)[series[which]] for part in data.runs))
        part = expected_along(chains, data.x, runs, paths, layer[which], weight[which])
        sums = part if sums is None else tuple(type(a)(*map(np.add, a, b)) for a, b in zip(sums, part, strict=True))
    return *sums, _moves(paths, data, share, chains.regimes)


def _moves(paths: Indices, data: Data, share: Floats, k: int) -> Floats:
    """Return expected numbers of moves between regimes, ``(N, K, K)``."""
    lengths = np.diff(data.offsets)
    later = np.ones(len(data.x), bool)
    later[data.offsets[:-1][lengths > 0]] = False
    at = np.flatnonzero(later)
    total = np.zeros(data.size * k * k)
    for path, weight in zip(paths.astype(int), share.T, strict=True):
        if weight.any():
            code = (data.owner[at] * k + path[at - 1]) * k + path[at]
            total += np.bincount(code, np.repeat(weight, lengths)[at], len(total))
    return total.reshape(data.size, k, k)
