"""MeanMap: the expected base kernel of two draws, against quadrature and enumeration of all pairs."""

import itertools
import math

import numpy as np
import pytest
from tests.batches import (
    AXIS,
    STEP,
    WIDTH,
    categoricals,
    density_on_line,
    density_on_plane,
    gaussian_hmms,
    gaussians,
    hmms,
    mixtures,
    string_weights,
    strings,
)

import mercer as mc
from mercer.testing.kernels import Gradients, PluralContract, by_pairs


def base(gamma):
    return np.exp(-gamma * (AXIS[:, None] - AXIS) ** 2)


def mismatch(x, y, gamma):
    """Base kernel of two strings: symbols are one-hot."""
    return math.exp(-2 * gamma * sum(a != b for a, b in zip(x, y, strict=True)))


class MeanMapOfPlural(Gradients, PluralContract):
    gamma = 0.3
    length = None

    def kernel(self):
        return mc.MeanMap(gamma=self.gamma, length=self.length)


class TestFullGaussians(MeanMapOfPlural):
    width = WIDTH[gaussians]
    structure = "full"

    def build(self, z):
        return gaussians(z, self.structure)

    def truth(self, X):
        smooth = base(self.gamma)
        on_plane = [density_on_plane(p) for p in X]
        return np.array([[STEP**4 * np.sum(p * (smooth @ q @ smooth)) for q in on_plane] for p in on_plane])


class TestDiagonalGaussians(TestFullGaussians):
    structure = "diagonal"


class TestIsotropicGaussians(TestFullGaussians):
    structure, gamma = "isotropic", 4.0


class TestCategoricals(MeanMapOfPlural):
    features = True
    width = WIDTH[categoricals]

    def build(self, z):
        return categoricals(z)

    def truth(self, X):
        def pair(p, q):
            cells = itertools.product(range(3), repeat=2)
            return sum(p.probability[i] * q.probability[j] * mismatch([i], [j], self.gamma) for i, j in cells)

        return by_pairs(pair, X)


class TestMultinomials(MeanMapOfPlural):
    """TargetAligned tokens (GMMK-10c): the mean over all pairs of token sequences."""

    width = WIDTH[categoricals]

    def build(self, z):
        return categoricals(z, mc.Multinomials, trials=2)

    def truth(self, X):
        def pair(p, q):
            tokens = strings(3, 2)
            return sum(
                math.prod(p.probability[list(x)]) * math.prod(q.probability[list(y)]) * mismatch(x, y, self.gamma)
                for x, y in itertools.product(tokens, repeat=2)
            )

        return by_pairs(pair, X)


class TestMixtures(MeanMapOfPlural):
    width = WIDTH[mixtures]

    def build(self, z):
        return mixtures(z)

    def truth(self, X):
        def density(p):
            c = p.components
            parts = zip(p.weights, c.mean, c.covariance, strict=True)
            return sum(w * density_on_line(m[0], v) for w, m, v in parts)

        return by_pairs(lambda p, q: STEP**2 * density(p) @ base(self.gamma) @ density(q), X)


class TestHMMs(MeanMapOfPlural):
    width = WIDTH[hmms]
    length = 3

    def build(self, z):
        return hmms(z)

    def truth(self, X):
        kappa = np.array([[mismatch(x, y, self.gamma) for y in strings(3, 3)] for x in strings(3, 3)])
        weights = [string_weights(p, self.length) for p in X]
        return np.array([[a @ kappa @ b for b in weights] for a in weights])


class TestGaussianHMMs(MeanMapOfPlural):
    width = WIDTH[gaussian_hmms]
    length = 2

    def build(self, z):
        return gaussian_hmms(z)

    def truth(self, X):
        def joint(p):
            e = p.emission
            f = [density_on_line(m[0], v) for m, v in zip(e.mean, e.covariance, strict=True)]
            paths = itertools.product(range(2), repeat=2)
            return sum(p.initial[i] * p.transition[i, j] * np.outer(f[i], f[j]) for i, j in paths)

        smooth = base(self.gamma)
        return by_pairs(lambda p, q: STEP**4 * np.sum(joint(p) * (smooth @ joint(q) @ smooth)), X)


def test_limits():
    """T-14, T-15: gamma = 0 gives 1, points give the base kernel, large gamma the probability product."""
    points = mc.Gaussians([[0.0], [2.0]], [0.0, 0.0])
    np.testing.assert_allclose(mc.MeanMap(gamma=0.5, normalize=False)(points)[0, 1], np.exp(-2.0), rtol=1e-14)
    np.testing.assert_allclose(mc.MeanMap(gamma=0.0)(points), 1.0)
    p = categoricals(np.random.default_rng(0).standard_normal((4, 3)))
    raw = {"normalize": False}
    np.testing.assert_allclose(mc.MeanMap(gamma=50.0, **raw)(p), mc.ProbabilityProduct(rho=1.0, **raw)(p), rtol=1e-12)


@pytest.mark.parametrize("gamma", [-1.0, np.nan, np.inf, "wide", None])
@pytest.mark.parametrize("kernel", [mc.MeanMap, mc.EmpiricalMeanMap])
def test_bad_gamma(kernel, gamma):
    with pytest.raises(ValueError, match=r"gamma must be .*; got"):
        kernel(gamma=gamma)(mc.Gaussians([[0.0]], [1.0]))


def test_model_without_a_mean_map():
    class Lacking(mc.Poissons):
        log_mean_map = property()  # which cannot be read

    with pytest.raises(TypeError, match="MeanMap needs `log_mean_map`, which Lacking does not have"):
        mc.MeanMap()(Lacking([[1.0]]))
