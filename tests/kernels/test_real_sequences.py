"""Kernels on real sequences must be useful: floors on accuracy, with parameters chosen inside training folds only.

The whole study, with wider searches and more methods, is ``benchmarks/accuracy_sequences.py``; docs/real_data.md has
its table. Here every search is small, so that each test takes seconds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real"), pytest.mark.filterwarnings("ignore::UserWarning")]


def estimator(*steps, **grid):
    """Put a support vector machine behind the steps, and search the grid inside whatever it is fitted to."""
    pipeline = make_pipeline(*steps, SVC(kernel="precomputed", C=10.0))
    return GridSearchCV(pipeline, {"svc__C": [1.0, 10.0, 100.0], **grid}, cv=3)


@pytest.fixture(scope="module")
def vowels(real_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERCER_DATA", str(real_folder))
        found = datasets.fetch_japanese_vowels()
    train = np.asarray(found.split) == "train"
    y = np.asarray(found.target)
    return found.data[train], y[train], found.data[~train], y[~train]


def test_vowels_by_probability_products_of_hmms(vowels):
    X, y, X_test, y_test = vowels
    kernel = mc.ProbabilityProduct(mc.HMM(n_states=3, random_state=0), rho=0.5, length=10)
    strengths = {"probabilityproduct__model__prior_strength": [5.0, 20.0, 50.0]}
    search = estimator(mc.PerStep(StandardScaler()), kernel, **strengths).fit(X, y)
    assert search.score(X_test, y_test) >= 0.96
    length_only = make_pipeline(mc.Lengths(), StandardScaler(), SVC()).fit(X, y)
    assert length_only.score(X_test, y_test) < 0.5


def test_models_of_single_vowels_are_over_confident(vowels):
    X = mc.PerStep(StandardScaler()).fit_transform(vowels[0])
    alone = mc.ProbabilityProduct(mc.HMM(n_states=3, prior=None, random_state=0), rho=1.0, length=10)
    with pytest.warns(mc.gram.DiagonalDominanceWarning):
        mc.gram.diagnose(alone(X), vowels[1])
    pooled = mc.ProbabilityProduct(mc.HMM(n_states=3, random_state=0), rho=0.5, length=10)
    assert "diagonally dominant" not in mc.gram.diagnose(pooled(X), vowels[1]).advice


def error_of(search, X, y, n_splits=5):
    """Error over folds, each with a search of its own inside its training part."""
    folds = StratifiedKFold(n_splits, shuffle=True, random_state=0)
    return 1 - cross_val_score(search, X, y, cv=folds).mean()


def test_gun_point_by_hmms_with_derivatives():
    found = datasets.fetch_ucr("GunPoint")
    kernel = mc.ProbabilityProduct(mc.HMM(n_states=4, random_state=0), rho=0.5, length=10)
    search = estimator(
        mc.Derivatives(1),
        mc.PerStep(StandardScaler()),
        kernel,
        probabilityproduct__model__prior_strength=[2.0, 10.0],
    )
    assert error_of(search, found.data, np.asarray(found.target)) <= 0.05


# Coffee has 56 series: it needs the larger training parts of ten folds, and no derivatives, which mainly add noise.
@pytest.mark.parametrize(
    ("name", "before", "bar", "n_splits"), [("ECG200", [mc.Derivatives(1)], 0.240, 5), ("Coffee", [], 0.214, 10)]
)
def test_series_by_mean_maps_of_hmms(name, before, bar, n_splits):
    found = datasets.fetch_ucr(name)
    kernel = mc.MeanMap(mc.HMM(n_states=4, n_init=n_splits, random_state=0), gamma=0.1, length=10)
    search = estimator(
        *before,
        mc.PerStep(StandardScaler()),
        kernel,
        meanmap__gamma=[0.1, 1.0],
        meanmap__model__prior_strength=[2.0, 10.0],
    )
    assert error_of(search, found.data, np.asarray(found.target), n_splits) <= bar


def test_wafers_by_hmms_with_derivatives():
    found = datasets.fetch_ucr("Wafer")
    y = np.asarray(found.target)
    rng = np.random.default_rng(0)
    keep = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:762] for label in np.unique(y)]))
    kernel = mc.ProbabilityProduct(mc.HMM(n_states=4, n_init=1, random_state=0), rho=0.5, length=10)
    pipeline = make_pipeline(
        mc.Derivatives(1), mc.PerStep(StandardScaler()), kernel, SVC(kernel="precomputed", C=100.0)
    )
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    assert 1 - cross_val_score(pipeline, found.data[keep], y[keep], cv=folds).mean() <= 0.077


def test_exons_by_blended_spectra():
    found = datasets.fetch_hs3d()
    y, groups = np.asarray(found.target), np.asarray(found.groups)
    rng = np.random.default_rng(0)
    keep = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:500] for label in np.unique(y)]))
    X, y, groups = found.data[keep], y[keep], groups[keep]
    search = estimator(mc.Spectrum(1) + mc.Spectrum(2) + mc.Spectrum(3))
    search.set_params(param_grid={"svc__C": [10.0, 100.0, 1000.0]})
    errors = []
    for train, test in GroupKFold(5).split(X, y, groups):
        inner = list(GroupKFold(3).split(train, y[train], groups[train]))
        chosen = search.set_params(cv=inner).fit(X[train], y[train])
        errors.append(1 - chosen.score(X[test], y[test]))
    assert np.mean(errors) <= 0.13


def test_spoken_digits_by_fisher_kernels():
    found = datasets.fetch_fsdd()
    y = np.asarray(found.target)
    kernel = mc.Fisher(mc.HMM(n_states=10, n_init=1, random_state=0), information="diagonal", per="step")
    pipeline = make_pipeline(mc.PerStep(StandardScaler()), kernel, SVC(kernel="precomputed", C=10.0))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(pipeline, found.data, y, cv=folds).mean() >= 0.97
    length_only = make_pipeline(mc.Lengths(), StandardScaler(), SVC())
    assert cross_val_score(length_only, found.data, y, cv=folds).mean() < 0.5
