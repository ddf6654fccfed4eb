"""Kernels on linear dynamical systems must be useful on real series: floors on accuracy.

The whole study, with searches and more methods, is ``benchmarks/accuracy_dynamics.py``; docs/real_data.md has its
table. Here C is chosen inside the training part, and the systems have two states.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets

pytestmark = [pytest.mark.usefixtures("real"), pytest.mark.filterwarnings("ignore::UserWarning")]


def system(**given):
    return mc.LDS(2, n_init=1, tol=1e-3, **given)


def estimator(kernel):
    """Put a support vector machine behind a kernel, and choose C inside whatever it is fitted to."""
    pipeline = make_pipeline(mc.PerStep(StandardScaler()), kernel, SVC(kernel="precomputed"))
    return GridSearchCV(pipeline, {"svc__C": [1.0, 10.0, 100.0]}, cv=3)


def fisher():
    return mc.Fisher(system(), information="diagonal", per="step")


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_vowels(gaps):
    found = datasets.fetch_japanese_vowels()
    train, y, X = np.asarray(found.split) == "train", np.asarray(found.target), found.data
    if gaps:  # in training and test series
        lost = np.random.default_rng(0).random(X.values.shape) < gaps
        X = X.mapped(lambda values: np.where(lost, np.nan, values))
    for kernel, floor in ((fisher(), 0.95), (mc.kernels.BinetCauchy(system(), length=10), 0.95)):
        assert estimator(kernel).fit(X[train], y[train]).score(X[~train], y[~train]) >= floor


@pytest.mark.slow
def test_motions():
    found = datasets.fetch_basic_motions()
    train, y, X = np.asarray(found.split) == "train", np.asarray(found.target), found.data
    for kernel, floor in (
        (fisher(), 0.95),
        (mc.ProbabilityProduct(system(), length=10), 0.95),
        (mc.MeanMap(system(), gamma=0.1, length=10), 0.95),
        (mc.SubspaceAngles(system(), length=10), 0.85),
    ):
        assert estimator(kernel).fit(X[train], y[train]).score(X[~train], y[~train]) >= floor


@pytest.mark.slow
def test_exercises_of_other_subjects():
    found = datasets.fetch_watch_imu()
    y, groups = np.asarray(found.target), np.asarray(found.groups)
    X = mc.Sequences([x[: len(x) // 10 * 10].reshape(-1, 10, 6).mean(axis=1) for x in found.data])  # 5 Hz
    kernel = mc.ProbabilityProduct(system(prior_strength=100.0), length=10)
    classifier = make_pipeline(mc.PerStep(StandardScaler()), kernel, SVC(kernel="precomputed", C=100.0))
    assert cross_val_score(classifier, X, y, groups=groups, cv=GroupKFold(5)).mean() >= 0.8
