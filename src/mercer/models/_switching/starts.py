"""Starts of EM for switching systems: regimes of the smoothed states of one linear dynamical system.

In the window around each step, the step of the state is regressed on the state before it. The coefficients, the levels,
the noises, or all of them are clustered, and the systems of the regimes are learned with the clusters held fixed.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from mercer._array import Floats, Indices
from mercer.models._dynamics.runs import smoothed, systems_of
from mercer.models._fitting.data import Data
from mercer.models._switching.em import SwitchingGoal, path_moments
from mercer.models.lds import LDSs
from mercer.models.switching import SwitchingLDSs

_STAYS = 0.95
"""Probability that a regime of a start stays."""
_ATTEMPTS = ((8, "steps"), (4, "levels"), (8, "noises"), (16, "all"))
"""Steps of the windows of each attempt, at least, and what is clustered."""
_TURNS = 10
"""Iterations of EM with the regimes held fixed."""


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
    window, kind = _ATTEMPTS[attempt % len(_ATTEMPTS)]
    means = smoothed(systems_of(plain), data.x, data.runs).means
    features = _features(means, data, max(window, plain.state_dim + 2), kind)
    labels = np.zeros(len(data.x), int)
    for i in range(data.size):
        rows = slice(int(data.point_offsets[i]), int(data.point_offsets[i + 1]))
        labels[rows] = _clustered(features[rows], k, [seed, attempt])
    models = SwitchingLDSs._make(
        initial=np.full((data.size, k), 1 / k),
        transition=np.tile(_STAYS * np.eye(k) + (1 - _STAYS) / k, (data.size, 1, 1)),
        systems=plain[np.repeat(np.arange(data.size)[:, None], k, axis=1)],
    )
    certain = np.ones((len(data.offsets) - 1, 1))
    for _ in range(_TURNS):
        models = goal.maximize(models, data, None, path_moments(goal.chains(models), data, labels[None], certain))
    return models


def _features(means: Floats, data: Data, window: int, kind: str) -> Floats:
    """Return coefficients, levels and log noises in windows around every observation, ``(T, features)``."""
    n, size = means.shape[1], len(means)
    before = np.concatenate([np.zeros((1, n)), means[:-1]])
    rows = np.concatenate([before, np.ones((size, 1)), means], axis=1)
    series = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
    first, last = data.offsets[series], data.offsets[series + 1]
    middle = np.arange(size)
    rows[first == middle] = 0.0  # no step
    moments = rows[:, :, None] * rows[:, None, :]
    total = np.concatenate([np.zeros((1, *moments.shape[1:])), np.cumsum(moments, axis=0)])
    low = np.maximum(first, np.minimum(middle - window // 2, last - window))
    high = np.minimum(last, np.maximum(middle - window // 2, first) + window)
    local = total[high] - total[low]
    inner = local[:, : n + 1, : n + 1] + 0.1 * np.eye(n + 1)
    crossed = local[:, : n + 1, n + 1 :]
    coefficients = np.linalg.solve(inner, crossed)
    rest = np.diagonal(local[:, n + 1 :, n + 1 :], axis1=1, axis2=2) - (coefficients * crossed).sum(axis=1)
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
