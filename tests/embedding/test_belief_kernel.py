"""The kernel between filtered sequences, and the classifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from mercer.testing import KernelContract


def turning(n, seed, speed=0.3):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 6) + np.cumsum(speed + 0.05 * rng.normal(size=n))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(n, 2))


class TestBeliefKernel(KernelContract):
    needs_fit = True
    features = True

    def kernel(self):
        return mc.embedding.BeliefKernel(mc.EmbeddedHMM(mc.RBF(gamma=1.0), n_components=2, alpha=1e-2))

    def data(self, seed, n):
        return mc.Sequences([turning(8 + (seed + i) % 3, seed + i) for i in range(n)])

    def truth(self, X):
        """v' L v' with the weights of the training windows (HSE-9)."""
        model = clone(self.kernel().model).fit(X)
        weights = model.transform(X) @ model._learned.operators.reads.T
        train = model._learned.train.values[model._learned.times]
        return weights @ mc.RBF(gamma=1.0)(train) @ weights.T


@pytest.mark.parametrize("solver", ["svd", "reduced_rank"])
def test_features_and_matrices_have_one_metric(solver):
    X = [turning(20, s) for s in range(4)]
    setting = {"kernel": mc.RBF(1.0), "n_components": 3, "alpha": 1e-2, "solver": solver}
    exact, low = (
        mc.embedding.BeliefKernel(mc.EmbeddedHMM(**setting, landmarks=landmarks), when="mean").fit_transform(X)
        for landmarks in (None, 100)
    )
    np.testing.assert_allclose(exact, low, atol=1e-6)


def test_classifier():
    X = [turning(30, s, speed) for s in range(8) for speed in (0.3, -0.3)]
    y = np.array(["left", "right"] * 8)
    model = mc.EmbeddedHMM(mc.RBF(2.0), n_components=4, landmarks=30)
    clf = mc.embedding.EmbeddedHMMClassifier(model).fit(X[:10], y[:10])
    assert clf.score(X[10:], y[10:]) == 1.0
    assert clf.predict_proba(X[10:]).shape == (6, 2)
    with pytest.warns(UserWarning, match="reduced to"):
        default = mc.embedding.EmbeddedHMMClassifier().fit(["abab", "baba", "aabb", "bbaa"], [0, 0, 1, 1])
    assert default.log_likelihood(["abab"]).shape == (1, 2)
    with pytest.raises(TypeError, match="model must be an EmbeddedHMM"):
        mc.embedding.EmbeddedHMMClassifier(mc.HMM(2)).fit(X, y)
