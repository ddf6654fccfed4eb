"""Landmarks of kernels that learn from kernel values: values against a kernel of the landmarks only, linear cost."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.kernels.base.compound import Compound


class Counted(mc.RBF):
    """A Gaussian that counts the pairs that are evaluated."""

    pairs = 0

    def _tile(self, a, b):
        Counted.pairs += len(a) * len(b)
        return super()._tile(a, b)


INDEFINITE = Counted(0.3) + (-0.9) * Counted(2.0)

WRAPPERS = {
    "Centered": mc.Centered(Counted(0.3)),
    "EmpiricalKernelMap": mc.EmpiricalKernelMap(Counted(0.3)),
    "EmpiricalKernelMap, Gaussian": mc.EmpiricalKernelMap(Counted(0.3), gamma=1.0),
    "Gaussianized": mc.kernels.Gaussianized(Counted(0.3)),
    "LogOdds": mc.kernels.LogOdds(Counted(0.3)),
    "LogOdds, shifted": mc.kernels.LogOdds(Counted(0.3) * Counted(0.1) + Counted(2.0)),
    "LogOdds, normalize=False": mc.kernels.LogOdds(Counted(0.3), normalize=False),
    "Normalized": mc.kernels.Normalized(Counted(0.3)),
    "Product": mc.kernels.Product([mc.Centered(Counted(0.3)), Counted(0.1)]),
    "Repaired": mc.kernels.Repaired(INDEFINITE),
    "Residualized": mc.Residualized(Counted(0.3)),
    "Scaled": mc.kernels.Scaled(mc.Centered(Counted(0.3)), 2.0),
    "Sum": mc.kernels.Sum([Counted(0.1), mc.kernels.LogOdds(Counted(0.3))]),
    "TargetAligned": mc.kernels.TargetAligned([Counted(0.3), mc.Linear(), mc.Centered(Counted(2.0))]),
    "TargetAligned, one weight of zero": mc.kernels.TargetAligned([Counted(9.0), mc.Linear(normalize=False)]),
    "Tempered": mc.Tempered(Counted(20.0)),
    "nested": mc.kernels.Normalized(mc.Centered(mc.kernels.TargetAligned([Counted(9.0), mc.Linear(normalize=False)]))),
}


def data(n, kernel, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)
    return (mc.Confounded(X, X[:, 1:2] ** 2) if isinstance(kernel, mc.Residualized) else X), y


def test_every_wrapper_is_here():
    public = [getattr(room, n) for room in (mc.data, mc.kernels, mc.embedding) for n in room.__all__]
    wrappers = {found for found in public if isinstance(found, type) and issubclass(found, Compound)}
    assert wrappers <= {type(kernel) for kernel in WRAPPERS.values()}


@pytest.mark.parametrize("name", list(WRAPPERS))
@pytest.mark.parametrize("method", ["uniform", "kmeans++"])
def test_the_cost_is_linear(name, method):
    n, m = 800, 10
    X, y = data(n, WRAPPERS[name])
    Counted.pairs = 0
    with mc.config(memo_bytes=0):
        mc.Landmarks(WRAPPERS[name], m, method).fit_transform(X, y)
    assert Counted.pairs <= 15 * n * m  # a third of the pairs of the whole matrix


@pytest.mark.parametrize("name", list(WRAPPERS))
def test_values_are_those_of_a_wrapper_of_the_landmarks(name):
    kernel = WRAPPERS[name]
    (X, y), (new, _) = data(60, kernel), data(15, kernel, seed=1)
    found = mc.Landmarks(kernel, 12)
    features = found.fit_transform(X, y)
    landmarks = X[found.indices_]
    truth = clone(kernel).fit(landmarks, y[found.indices_])
    if found.explicit_:
        expected = [truth(X), truth(new, X)]
    else:
        inverse = np.linalg.pinv(truth(landmarks), rcond=1e-10, hermitian=True)
        expected = [truth(side, landmarks) @ inverse @ truth(landmarks, X) for side in (X, new)]
    for rows, matrix in zip((features, found.transform(new)), expected, strict=True):
        np.testing.assert_allclose(rows @ features.T, matrix, rtol=1e-6, atol=1e-6 * np.abs(matrix).max())
    own, rest = truth.diag(X), np.setdiff1d(np.arange(60), found.indices_)
    missing = own - np.sum(features**2, axis=1)
    np.testing.assert_allclose(found.error_, missing[rest].sum() / own[rest].sum(), atol=1e-6)


def test_features_of_all_training_objects_on_demand():
    X, y = data(30, None)
    exact = mc.EmpiricalKernelMap(mc.RBF(0.3)).fit(X)
    for found in (mc.Features(exact), mc.Landmarks(exact, 10, explicit=True)):
        np.testing.assert_allclose(found.fit_transform(X, y), exact.features(X), rtol=1e-12)
        assert len(found.indices_) == 0
    assert mc.Landmarks(exact, 10).fit_transform(X).shape == (30, 10)


def test_models_are_fitted_to_all_training_data():
    X, _ = data(40, None)
    found = mc.Landmarks(mc.Centered(mc.Fisher(mc.Gaussian("diagonal"))), 10).fit(X)
    np.testing.assert_allclose(found.kernel_._inner.model_.mean[0], X.mean(axis=0), rtol=1e-9)


def test_a_choice_by_values_keeps_the_uniform_reference():
    """The mean of objects that are chosen for their distances would be a mean of outliers."""
    X, _ = data(400, None)
    uniform, far = (mc.Landmarks(mc.Centered(mc.RBF(0.3)), 10, method).fit(X) for method in ("uniform", "kmeans++"))
    assert set(uniform.indices_) != set(far.indices_)
    np.testing.assert_array_equal(uniform.kernel_(X), far.kernel_(X))
    truth = mc.Centered(mc.RBF(0.3)).fit(X[uniform.indices_])
    landmarks, features = X[far.indices_], far.transform(X)
    expected = truth(X, landmarks) @ np.linalg.solve(truth(landmarks), truth(landmarks, X))
    np.testing.assert_allclose(features @ features.T, expected, atol=1e-9)


def test_landmarks_of_one_class_raise():
    X, _ = data(40, None)
    with pytest.raises(ValueError, match=r"same for all 2 landmarks.*Increase n_components"):
        mc.Landmarks(mc.kernels.TargetAligned([mc.RBF(), mc.Linear()]), 2).fit(X, np.arange(40) == 7)


def test_a_failed_fit_is_no_fit(monkeypatch):
    X, _ = data(10, None)
    kernel = mc.Centered(mc.RBF(0.3))
    monkeypatch.setattr(mc.Centered, "_learn_gram", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        kernel.fit(X)
    with pytest.raises(NotFittedError):
        kernel.transform(X)
