"""StateExpectations statistics of switching systems: the regressions of every regime, and the moves of the chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices
from mercer.models._dynamics.em import Counts, Memory, Regression, memory_of
from mercer.models._dynamics.runs import StateExpectations, Systems, sums_size
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Runs
from mercer.models._switching.along import expected_along
from mercer.models._switching.hypotheses import Chains

__all__ = ["Layer", "SwitchingMoments", "collect", "path_gradients", "path_moments", "step_noise"]


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
    """StateExpectations numbers of series that begin in each regime, ``(N, K)``."""
    moves: Floats
    """StateExpectations numbers of moves between regimes, ``(N, K, K)``."""


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
