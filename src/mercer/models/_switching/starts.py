"""Starts of EM for switching systems: regimes of the smoothed states of one linear dynamical system.

Regimes are first guessed from local windows: in each window the step of the state is regressed on the state, and the
coefficients, the noises, or all of them are clustered. Then regimes and their systems are learned in turns, with
the states held fixed; or systems and states, with the regimes held fixed; or regimes that differ only in the size of
their noise. Where levels are clustered, a regime pulls the state to its level: how fast is learned later, as is when it
begins, before its level is reached.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from mercer._array import Floats, Indices
from mercer._probability import normalized
from mercer.models._dynamics.runs import Systems, smoothed, systems_of
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Densities, expectations
from mercer.models._switching.em import SwitchingGoal
from mercer.models._switching.moments import Layer, collect, path_moments, step_noise
from mercer.models.lds import LDSs
from mercer.models.switching import SwitchingLDSs

__all__ = ["start"]

_STAYS = 0.95
"""Probability that a regime of a start stays."""
_ATTEMPTS = (
    (8, "steps", "states"),
    (4, "levels", "levels"),
    (8, "noises", "regimes"),
    (8, "noises", "all but the sizes"),
    (16, "all", "states"),
)
"""Steps of the windows of each attempt, at least, what is clustered, and what is held fixed."""
_TURNS = {"states": 20, "regimes": 10, "all but the sizes": 20}
_LITTLE = 1e-4
"""Variance that starts give to what has none."""
_PULL = 0.5
"""Share of the way to its level that a regime moves the state in a step."""


def start(goal: SwitchingGoal, plain: LDSs, data: Data, k: int, seed: int, attempt: int) -> SwitchingLDSs:
    """Return switching systems with k regimes, from one linear dynamical system per model, ``(N,)``.

    Parameters
    ----------
    goal : SwitchingGoal
        Its M-step.
    plain : LDSs of shape (N,)
        Systems fitted to the series.
    data : Data
        The series.
    k : int
        Number of regimes.
    seed, attempt : int
        Attempts differ in windows and in random numbers.
    """
    systems = systems_of(plain)
    found = smoothed(systems, data.x, data.runs)
    begins = _begins(data)
    lags = np.zeros_like(found.lags)
    lags[1:] = found.lags[:-1]  # with the state before, not the next one
    lags[begins] = 0.0
    n = plain.state_dim
    window, kind, held = _ATTEMPTS[attempt % len(_ATTEMPTS)]
    features = _features(found.means, data, max(window, n + 2), kind)
    labels = np.zeros(len(data.x), int)
    for i in range(data.size):
        rows = slice(int(data.point_offsets[i]), int(data.point_offsets[i + 1]))
        labels[rows] = _clustered(features[rows], k, [seed, attempt])
    models = SwitchingLDSs._make(
        initial=np.full((data.size, k), 1 / k),
        transition=np.tile(_STAYS * np.eye(k) + (1 - _STAYS) / k, (data.size, 1, 1)),
        n_regimes=np.full(data.size, k),
        systems=plain[np.repeat(np.arange(data.size)[:, None], k, axis=1)],
    )
    if held == "levels":
        return models._replaced(systems=_pulled(models.systems, found.means, labels, data))
    if held == "all but the sizes":
        return _sized(models, systems, found.means, labels, data)
    if held == "regimes":
        certain = np.ones((len(data.offsets) - 1, 1))
        for _ in range(_TURNS[held]):
            models = goal.maximize(models, data, None, path_moments(goal.chains(models), data, labels[None], certain))
        return models
    states = found.means, found.covariances, lags
    share = 0.9 * (labels[:, None] == np.arange(k)) + 0.1 / k
    moves = np.asarray(models.transition) * 20.0  # a few steps of the first chain, which labels say little about
    for _ in range(_TURNS[held]):
        own = systems_of(models.systems.reshape(-1))
        layers = [Layer(np.full(len(labels), j), share[:, j], *states) for j in range(k)]
        models = goal.maximize(models, data, None, collect(own, k, data, layers, moves))
        own = systems_of(models.systems.reshape(-1))
        table = np.stack([_log_steps(own, data, k, j, states, begins) for j in range(k)], axis=1)
        chain = np.asarray(models.initial), np.asarray(models.transition)
        posterior = expectations(*chain, Densities(table), data.runs, states=True)
        assert posterior.states is not None
        share = posterior.states
        moves = np.zeros_like(chain[1])
        np.add.at(moves, data.model, posterior.transitions)
    return models


def _pulled(systems: LDSs, means: Floats, labels: Indices, data: Data) -> LDSs:
    """Return systems ``(N, K)`` that move to the mean states of the labels."""
    size, k = systems.shape
    n, code = means.shape[1], data.owner * k + labels
    count = np.maximum(np.bincount(code, minlength=size * k), 1)[:, None]
    level = np.stack([np.bincount(code, column, size * k) for column in means.T], axis=1) / count
    away = means - level[code]
    squares = (away[:, :, None] * away[:, None, :]).reshape(len(means), -1)
    spread = np.stack([np.bincount(code, column, size * k) for column in squares.T], axis=1) / count
    around = spread.reshape(size, k, n, n) + 0.01 * np.eye(n)
    center = level.reshape(size, k, n)
    return systems._replaced(
        transition=np.broadcast_to((1 - _PULL) * np.eye(n), (size, k, n, n)).copy(),
        state_offset=_PULL * center,
        process_covariance=(1 - (1 - _PULL) ** 2) * around,
        initial_mean=center,
        initial_covariance=around,
    )


def _sized(models: SwitchingLDSs, plain: Systems, means: Floats, labels: Indices, data: Data) -> SwitchingLDSs:
    """Return models whose regimes multiply the noise of the state, learned by an HMM of the sizes of its steps."""
    (size, k), n, own = models.initial.shape, means.shape[1], data.owner
    before = np.concatenate([np.zeros((1, n)), means[:-1]])
    step = means - (plain.transition[own] @ before[..., None])[..., 0] - plain.state_offset[own]
    squares = (step * np.linalg.solve(_regular(plain.process_covariance)[own], step[..., None])[..., 0]).sum(axis=1) / n
    seen = np.ones((len(means), 1))
    seen[_begins(data)] = 0.0  # no step
    chain, share = np.asarray(models.transition), (labels[:, None] == np.arange(k)).astype(float)
    for _ in range(_TURNS["all but the sizes"]):
        sums = [
            np.stack([np.bincount(own, column, size) for column in (share * seen * value).T], axis=1) + 0.01
            for value in (squares[:, None], np.ones((1, 1)))
        ]
        scale = np.maximum(sums[0] / sums[1], 1e-4)
        table = -0.5 * n * (np.log(scale)[own] + squares[:, None] / scale[own]) * seen
        posterior = expectations(np.asarray(models.initial), chain, Densities(table), data.runs, states=True)
        assert posterior.states is not None
        share, moves = posterior.states, np.asarray(models.transition).copy()
        np.add.at(moves, data.model, posterior.transitions)
        chain = normalized(moves, chain)
    noise = scale[..., None, None] * np.asarray(models.systems.process_covariance)
    return models._replaced(transition=chain, systems=models.systems._replaced(process_covariance=noise))


def _regular(covariances: Floats) -> Floats:
    """Add a little to singular covariances, which can be fixed; the state has about unit variance."""
    low, high = np.linalg.eigvalsh(covariances)[:, [0, -1]].T
    return np.where(
        (low <= 1e-12 * high)[:, None, None], covariances + _LITTLE * np.eye(covariances.shape[-1]), covariances
    )


def _begins(data: Data) -> Indices:
    return np.asarray(data.offsets[:-1][np.diff(data.offsets) > 0])


def _features(means: Floats, data: Data, window: int, kind: str) -> Floats:
    """Return coefficients, levels and log noises in windows around every observation, ``(T, features)``."""
    n, size = means.shape[1], len(means)
    before = np.concatenate([np.zeros((1, n)), means[:-1]])
    rows = np.concatenate([before, np.ones((size, 1)), means], axis=1)
    rows[_begins(data)] = 0.0  # no step
    moments = rows[:, :, None] * rows[:, None, :]
    total = np.concatenate([np.zeros((1, *moments.shape[1:])), np.cumsum(moments, axis=0)])
    series = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
    first, last = data.offsets[series], data.offsets[series + 1]
    middle = np.arange(size)
    low = np.maximum(first, np.minimum(middle - window // 2, last - window))
    high = np.minimum(last, np.maximum(middle - window // 2, first) + window)
    local = total[high] - total[low]
    inner = local[:, : n + 1, : n + 1] + 0.1 * np.eye(n + 1)
    coefficients = np.linalg.solve(inner, local[:, : n + 1, n + 1 :])
    rest = np.diagonal(local[:, n + 1 :, n + 1 :], axis1=1, axis2=2) - (coefficients * local[:, : n + 1, n + 1 :]).sum(
        axis=1
    )
    noise = np.log(np.maximum(rest, 0.0) / np.maximum(high - low, 1)[:, None] + 1e-3)
    level = local[:, n, :n] / np.maximum(local[:, n, n], 1.0)[:, None]
    used = {"steps": coefficients.reshape(size, -1), "levels": level, "noises": noise}
    return used[kind] if kind in used else np.concatenate(list(used.values()), axis=1)


def _clustered(features: Floats, k: int, seed: list[int]) -> Indices:
    """Cluster the windows of one model; fewer windows than regimes are dealt out."""
    distinct, alike = np.unique(features, axis=0, return_inverse=True)
    if len(distinct) <= k:
        return np.asarray(alike).reshape(-1)
    spread = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    number = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
    return np.asarray(KMeans(k, n_init=3, random_state=number).fit_predict(np.clip(scaled, -4, 4)))


def _log_steps(
    systems: Systems, data: Data, k: int, regime: int, states: tuple[Floats, Floats, Floats], begins: Indices
) -> Floats:
    """Return the expected log density of every step in one regime, ``(T,)``."""
    layer = Layer(np.empty(0, int), np.empty(0), *states)
    code = data.owner * k + regime
    later = np.setdiff1d(np.arange(len(code)), begins)
    noise, covariance = np.empty_like(states[1]), _regular(systems.process_covariance)[code]
    noise[later] = step_noise(systems, code[later], layer, later)[1]
    away = states[0][begins] - systems.initial_mean[code[begins]]
    noise[begins] = states[1][begins] + away[..., None] * away[:, None, :]
    covariance[begins] = _regular(systems.initial_covariance)[code[begins]]
    _, log_det = np.linalg.slogdet(covariance)
    return np.asarray(-0.5 * (log_det + np.trace(np.linalg.solve(covariance, noise), axis1=1, axis2=2)))
