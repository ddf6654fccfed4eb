"""Accuracy of kernels on linear dynamical systems, next to hidden Markov models and baselines: docs/real_data.md.

    MERCER_DATA=... python benchmarks/accuracy_dynamics.py                  # all sets, about ten minutes on one core
    MERCER_DATA=... python benchmarks/accuracy_dynamics.py motions vowels-gaps

Every parameter is chosen inside the training part of every outer fold, by a grid search there. The grids are the same
for all sets, except for `gamma`, which is relative to the number of channels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _accuracy import C, Method, Task, main, moments_svm, on_vectors, stacked
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets


def no_features(X: Any) -> np.ndarray:
    """Nothing but the number of series."""
    return np.zeros((len(X), 1))


def methods(dimension: int, *, gaps: bool = False) -> dict[str, Method]:
    """Return the kernels and baselines for series of so many channels, with or without missing values."""
    scaled = mc.PerStep(StandardScaler())
    gammas = [0.1 / dimension, 1.0 / dimension]
    hmm = mc.HMM(4, n_init=1, random_state=0)
    system = mc.LDS(n_init=1, tol=1e-3)
    sizes = {"model__state_dim": [2, 4]}
    shrunk = sizes | {"model__prior_strength": [20.0, 100.0]}
    fisher = {"information": "diagonal", "per": "step"}
    found: dict[str, Method] = {
        "largest class": (make_pipeline(FunctionTransformer(no_features), DummyClassifier()), {}),
        "mean + sd, RBF": moments_svm(),
        "resampled to 30 steps, RBF": (
            make_pipeline(scaled, mc.data.Resample(30), FunctionTransformer(stacked), StandardScaler(), SVC()),
            {"svc__C": C},
        ),
        "Fisher(HMM)": on_vectors(mc.Fisher(hmm, **fisher), model__n_states=[4, 8]),
        "ProbabilityProduct(HMM)": on_vectors(
            mc.ProbabilityProduct(hmm, length=10), model__prior_strength=[5.0, 20.0, 100.0]
        ),
        "SeriesClassifier": (mc.SeriesClassifier(), {}),
        "Fisher(LDS)": on_vectors(mc.Fisher(system, **fisher), **sizes),
        "ProbabilityProduct(LDS)": on_vectors(mc.ProbabilityProduct(system, length=10), **shrunk, length=[10, 30]),
        'ProbabilityProduct(LDS, time="independent")': on_vectors(
            mc.ProbabilityProduct(system, length=10, time="independent"), **shrunk, length=[10, 30]
        ),
        "MeanMap(LDS)": on_vectors(mc.MeanMap(system, length=10), **shrunk, gamma=gammas),
        "LatentMeanMap(LDS)": on_vectors(mc.LatentMeanMap(system, n_components=200), **sizes, gamma=gammas),
        "SubspaceAngles(LDS)": on_vectors(mc.SubspaceAngles(system, length=10), **shrunk),
        "BinetCauchy(LDS)": on_vectors(mc.kernels.BinetCauchy(system, length=10), **shrunk),
    }
    if gaps:  # it needs complete observations
        del found["LatentMeanMap(LDS)"]
    return found


def vowels() -> Task:
    """Nine speakers by a vowel of 7 to 29 frames of 12 channels: the official split."""
    found = datasets.fetch_japanese_vowels()
    train = np.asarray(found.split) == "train"
    folds = [(np.flatnonzero(train), np.flatnonzero(~train))]
    return Task(found.data, np.asarray(found.target), folds, methods(12), inner=3)


def motions() -> Task:
    """Four activities by a watch, 80 series of 100 steps and 6 channels: five folds of both parts together."""
    found = datasets.fetch_basic_motions()
    y = np.asarray(found.target)
    return Task(found.data, y, five_folds(y), methods(6), inner=3)


def watch() -> Task:
    """Seven exercises by a watch, 10 subjects, 6 channels, means of 5 steps (10 Hz): five folds by subject."""
    found = datasets.fetch_watch_imu()
    y, groups = np.asarray(found.target), np.asarray(found.groups)
    X = mc.Sequences([x[: len(x) // 5 * 5].reshape(-1, 5, 6).mean(axis=1) for x in found.data])
    folds = list(GroupKFold(5).split(np.zeros(len(y)), y, groups))
    return Task(X, y, folds, methods(6), groups=groups, inner=3)


def characters() -> Task:
    """Twenty characters, 5 trajectories each, of 109 to 205 steps and 3 channels: five folds."""
    found = datasets.fetch_char_trajectories()
    y = np.asarray(found.target)
    return Task(found.data, y, five_folds(y), methods(3), inner=3)


def vowels_with_gaps() -> Task:
    """Remove 30 % of the values of the vowels, at random, from training and test series."""
    task = vowels()
    X, rng = task.X, np.random.default_rng(0)
    values = np.where(rng.random(X.values.shape) < 0.3, np.nan, X.values)
    X = mc.Sequences([values[a:b] for a, b in zip(X.offsets[:-1], X.offsets[1:], strict=True)])
    return Task(X, task.y, task.folds, methods(12, gaps=True), inner=3)


def five_folds(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split into five stratified folds."""
    return list(StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y))


TASKS: dict[str, Callable[[], Task]] = {
    "vowels": vowels,
    "motions": motions,
    "watch": watch,
    "characters": characters,
    "vowels-gaps": vowels_with_gaps,
}
TITLES = {"vowels-gaps": "vowels with gaps", "watch": "exercises"}
"""Names of the sets on pages, where they differ."""


if __name__ == "__main__":
    begin = time.process_time()
    main(TASKS, TITLES)
    print(f"\n{time.process_time() - begin:.0f} seconds of CPU time")
