"""The kernel between filtered sequences, and the classifier."""

from __future__ import annotations

import numpy as np
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
        weights = model.transform(X) @ model._learned.reading().T
        train = model._learned.train.values[model._learned.times]
        return weights @ mc.RBF(gamma=1.0)(train) @ weights.T
