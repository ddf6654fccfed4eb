"""MeanMap(base="laplace") against quadrature in the difference of two draws, and enumeration of hidden paths."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, stats
from tests.batches import AXIS, STEP, WIDTH, gaussian_hmms, gaussians
from tests.batches import mixtures as line_mixtures

import mercer as mc
from mercer.families._gaussian_pairs import log_laplace
from mercer.testing.kernels import Gradients, PluralContract, by_pairs

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
DIFFERENCES = np.concatenate([(NODES + 1) / 2 + i for i in range(40)])  # panels of [0, 40]
PANELS = np.tile(WEIGHTS / 2, 40)


def expected(p, q, gamma):
    """E exp(-gamma |x - y|) of two mixtures on the line: the density of x - y is smooth, the kernel is so from 0 on."""

    def density(law, x):
        return sum(w * stats.norm.pdf(x, m, math.sqrt(v)) for w, (m, v) in law)

    fixed = density(q, AXIS)
    values = STEP * sum(density(p, AXIS + sign * DIFFERENCES[:, None]) @ fixed for sign in (1, -1))
    return float(np.sum(PANELS * np.exp(-gamma * DIFFERENCES) * values))


def leaf(mean, variance, gamma):
    """E exp(-gamma |d|), d ~ N(mean, variance)."""
    values = sum(stats.norm.pdf(sign * DIFFERENCES, mean, math.sqrt(variance)) for sign in (1, -1))
    return float(np.sum(PANELS * np.exp(-gamma * DIFFERENCES) * values))


class LaplaceOfPlural(Gradients, PluralContract):
    gamma, length = 0.7, None

    def kernel(self):
        return mc.MeanMap(gamma=self.gamma, base="laplace", length=self.length)


class TestDiagonalGaussians(LaplaceOfPlural):
    width, structure = WIDTH[gaussians], "diagonal"

    def build(self, z):
        return gaussians(z, self.structure)

    def truth(self, X):
        def pair(p, q):
            v = np.broadcast_to(p.covariance, 2) + np.broadcast_to(q.covariance, 2)
            return math.prod(leaf(m, s, self.gamma) for m, s in zip(p.mean - q.mean, v, strict=True))

        return by_pairs(pair, X)


class TestIsotropicGaussians(TestDiagonalGaussians):
    structure, gamma = "isotropic", 3.0


class TestMixtures(LaplaceOfPlural):
    width = WIDTH[line_mixtures]

    def build(self, z):
        return line_mixtures(z)

    def truth(self, X):
        def law(p):
            c = p.components
            return [(w, (m[0], v)) for w, m, v in zip(p.weights, c.mean, c.covariance, strict=True)]

        return by_pairs(lambda p, q: expected(law(p), law(q), self.gamma), X)


class TestHMMs(LaplaceOfPlural):
    """All pairs of hidden paths of three steps."""

    width, length = WIDTH[gaussian_hmms], 3

    def build(self, z):
        return gaussian_hmms(z)

    def truth(self, X):
        def probability(p, path):
            steps = math.prod(p.transition[i, j] for i, j in itertools.pairwise(path))
            return p.initial[path[0]] * steps

        def pair(p, q):
            f, g = p.emission, q.emission
            table = [
                [leaf(f.mean[i, 0] - g.mean[j, 0], f.covariance[i] + g.covariance[j], self.gamma) for j in range(2)]
                for i in range(2)
            ]
            paths = list(itertools.product(range(2), repeat=3))
            return sum(
                probability(p, a) * probability(q, b) * math.prod(table[i][j] for i, j in zip(a, b, strict=True))
                for a in paths
                for b in paths
            )

        return by_pairs(pair, X)


def test_mixture_truth_agrees_with_the_leaf():
    """The two quadratures of this file."""
    assert_allclose(expected([(1.0, (0.3, 0.8))], [(1.0, (-1.0, 0.5))], 0.7), leaf(1.3, 1.3, 0.7), rtol=1e-12)


@given(
    mean=st.floats(-20, 20),
    variance=st.floats(1e-2, 50),
    gamma=st.floats(1e-3, 20),
)
@settings(max_examples=15, deadline=None)
def test_against_quadrature(mean, variance, gamma):
    found = float(np.exp(log_laplace(np.array(mean), np.array(variance), gamma)))
    spread = math.sqrt(variance)
    points = sorted({0.0, abs(mean), *(abs(mean) + spread * k for k in (-6, -2, 2, 6)), 1 / gamma, 10 / gamma})
    law = stats.norm(mean, spread)

    def integrand(d):
        return math.exp(-gamma * d) * (law.pdf(d) + law.pdf(-d))

    inside = [x for x in points if x > 0]
    ends = [0.0, *inside, max(inside) + 40 * spread]
    truth = sum(integrate.quad(integrand, a, b, epsabs=1e-15, epsrel=1e-12)[0] for a, b in itertools.pairwise(ends))
    assert_allclose(found, truth, rtol=1e-8, atol=1e-13)


def test_points_without_spread():
    """Zero covariances give the base kernel."""
    x = np.random.default_rng(0).normal(size=(4, 3))
    p = mc.Gaussians(x, np.zeros(4))
    truth = -0.4 * np.abs(x[:, None] - x).sum(axis=-1)
    assert_allclose(p.log_laplace_mean_map(p, 0.4), truth, rtol=1e-14)
    tiny = mc.Gaussians(x, np.full(4, 1e-300))
    assert_allclose(tiny.log_laplace_mean_map(tiny, 0.4), truth, rtol=1e-14, atol=1e-14)


def test_far_means_and_any_width():
    v = np.array([1e-12, 1.0, 1e6])
    assert_allclose(log_laplace(np.array(1e9), v, 2.0), 2 * v - 2e9, rtol=1e-15)  # E exp(-b d), d > 0 for sure
    b = 1e12  # a sharp kernel is 2 / b times the density at 0
    truth = math.log(2 / b) + stats.norm.logpdf(3.0, 0, np.sqrt(v[1:]))
    assert_allclose(log_laplace(np.array(3.0), v[1:], b), truth, rtol=1e-12)
    assert_allclose(log_laplace(np.array(0.0), np.array(1e-300), 1.0), 0, atol=1e-15)
    assert np.isfinite(log_laplace(np.array([0.0, 1e150]), np.array([1e300, 1e-300]), 1e3)).all()


@pytest.mark.parametrize("mean", [1e-3, 1.0, 80.0, 1e4])
def test_branches_meet(mean):
    """The two formulas agree where gamma v = m, up to the slope of the function there."""
    v, h = 2.0, 1e-9
    below, at, above = (log_laplace(np.array(mean), np.array(v), mean / v * (1 + s * h)) for s in (-1, 0, 1))
    assert_allclose(above - at, at - below, atol=1e-12 * abs(at) + 1e-15)
    assert above <= at <= below


def test_gamma_of_zero_is_one():
    p = gaussians(np.random.default_rng(0).normal(size=(3, 5)), "diagonal")
    assert np.array_equal(p.log_laplace_mean_map(p, 0.0), np.zeros((3, 3)))


def test_samples():
    """Monte Carlo, within five standard errors."""
    p = mc.Gaussians([[0.0, 1.0], [1.0, -1.0]], [[1.0, 0.2], [0.5, 2.0]])
    x, y = p.sample(20000, random_state=0)
    draws = np.exp(-0.5 * np.abs(x - y).sum(axis=1))
    value = np.exp(p.log_laplace_mean_map(p, 0.5))[0, 1]
    assert abs(draws.mean() - value) < 5 * draws.std() / math.sqrt(len(draws))


def test_slopes_of_wide_narrow_and_absent_spread():
    """Of huge arguments the slope of erfcx cancels; of none the variance has the slope gamma^2 / 2."""
    torch = pytest.importorskip("torch")
    mean = torch.tensor([0.3, 2.0, 40.0, 1.0, 1.0], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([1e8, 1.0, 1e-9, 0.0, 2e9], dtype=torch.float64, requires_grad=True)
    log_laplace(mean, variance, 3.0).sum().backward()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(variance.grad).all()
    assert_allclose(variance.grad[3], 4.5)
    assert_allclose(variance.grad[[0, 4]], [-0.5e-8, -0.25e-9], rtol=1e-6)  # log k = -log(v)/2 + const
    assert_allclose(mean.grad[0], -0.3e-8, rtol=1e-6)  # -m / v
    assert_allclose(mean.grad[[2, 3]], [-3, -3], rtol=1e-12)


def test_single_precision():
    z = np.random.default_rng(0).normal(size=(4, 5))
    p, q = gaussians(z, "diagonal"), gaussians(z.astype(np.float32), "diagonal")
    found = q.log_laplace_mean_map(q, 0.7)
    assert found.dtype == np.float32
    assert_allclose(found, p.log_laplace_mean_map(p, 0.7), rtol=1e-4, atol=1e-5)


def test_what_cannot():
    full = gaussians(np.zeros((2, 5)), "full")
    with pytest.raises(ValueError, match=r"full covariances. Use mc.Gaussian\('diagonal'\), base='rbf'"):
        mc.MeanMap(base="laplace")(full)
    points = mc.KDEs([np.zeros((2, 1)), np.ones((3, 1))], bandwidth=0.3)
    with pytest.raises(TypeError, match=r"base='laplace'\) needs .* KDEs does not have; use Gaussians .* Mixtures"):
        mc.MeanMap(base="laplace")(points)
    with pytest.raises(ValueError, match="base must be 'rbf', 'laplace' or 'counts'; got 'l1'"):
        mc.MeanMap(base="l1")(full)
    with pytest.raises(ValueError, match=r"gamma must be .*; got"):
        gaussians(np.zeros((2, 5)), "diagonal").log_laplace_mean_map(gaussians(np.zeros((2, 5)), "diagonal"), -1.0)


def test_sets_of_points():
    """Through an estimator, as data."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(i % 2, 1, size=(12, 2)) for i in range(6)]
    K = mc.MeanMap(mc.Gaussian("diagonal"), gamma=0.5, base="laplace").fit_transform(sets)
    assert mc.gram.psd.check(K)


def test_a_gamma_whose_square_overflows():
    p = mc.Gaussians([[0.0], [1.0], [2.0]], [0.0, 0.0, 1.0])
    K = mc.MeanMap(base="laplace", gamma=1e200)(p)
    assert_allclose(K[:2, :2], np.eye(2))
    # the Laplace kernel has the mass 2 / gamma: E exp(-gamma |0 - y|) = 2 p(0) / gamma, and 1 / (gamma sqrt(pi)) alone
    assert_allclose(K[0, 2], 2 / np.sqrt(2 * np.pi) * np.exp(-2) / 1e200 / np.sqrt(1e-200 / np.sqrt(np.pi)), rtol=1e-12)
