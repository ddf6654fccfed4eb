"""Mean maps with the Laplace base kernel, against quadrature, loops and random frequencies."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import norm

import mercer as mc
from mercer.kernels._laplace import log_expected
from mercer.testing.kernels import KernelContract, by_pairs

RNG = np.random.default_rng(0)
SETS = [RNG.normal(size=(n, 2)) for n in (4, 3, 6)]


def by_quadrature(mean, sd, gamma):
    """Integrate exp(-gamma |x|) N(x; mean, sd^2) piece by piece."""
    center = mean - np.sign(mean) * gamma * sd**2  # of the integrand on the side of the mean
    centers = [mean, center, 0.0]
    steps = np.array([-12, -6, -3, -1, 0, 1, 3, 6, 12])
    cuts = np.unique(np.concatenate([c + w * steps for c in centers for w in (sd, min(sd, 1 / gamma))]))
    return sum(
        quad(lambda x: np.exp(-gamma * abs(x)) * norm.pdf(x, mean, sd), a, b, epsabs=0, epsrel=1e-11)[0]
        for a, b in pairwise(cuts)
    )


@pytest.mark.parametrize("mean", [0.0, 0.001, 0.7, -4.0, 20.0])
@pytest.mark.parametrize(("sd", "gamma"), [(0.05, 0.1), (1.0, 0.7), (1.0, 8.0), (6.0, 0.5), (0.3, 30.0)])
def test_the_closed_form_is_an_integral(mean, sd, gamma):
    found = float(log_expected(np.array(mean), np.array(sd**2), gamma))
    np.testing.assert_allclose(np.exp(found), by_quadrature(mean, sd, gamma), rtol=1e-9)


def test_extreme_parameters_are_finite():
    gap, variance = np.meshgrid([0.0, 1e-200, 1.0, 1e8, 1e150], [0.0, 1e-300, 1e-8, 1.0, 1e12])
    for gamma in (0.0, 1e-12, 1.0, 1e6):
        found = log_expected(gap, variance, gamma)
        assert np.isfinite(found).all()
        assert (found <= 1e-12).all()
        least = -gamma * (gap + np.sqrt(variance))  # Jensen's inequality, with E|x| <= |m| + sd
        assert (found >= least * (1 + 1e-12) - 1e-12).all()
    np.testing.assert_allclose(log_expected(np.array([2.0]), np.array([0.0]), 0.5), -1.0)
    np.testing.assert_allclose(log_expected(np.array([2.0]), np.array([1e-14]), 0.5), -1.0, rtol=1e-12)


@pytest.mark.parametrize("structure", ["diagonal", "isotropic"])
def test_gaussians_by_random_frequencies_and_by_coordinates(structure):
    variance = RNG.uniform(0.2, 2, (3, 2) if structure == "diagonal" else 3)
    p = mc.Gaussians(RNG.normal(size=(3, 2)), variance)
    wide = np.broadcast_to(np.reshape(variance, (3, -1)), (3, 2))

    def pair(i, j):
        gaps, total = p.mean[i] - p.mean[j], wide[i] + wide[j]
        return np.prod([by_quadrature(g, np.sqrt(v), 0.6) for g, v in zip(gaps, total, strict=True)])

    exact = mc.MeanMap(gamma=0.6, base="laplace", normalize=False)(p)
    np.testing.assert_allclose(exact[:2, :2], [[pair(i, j) for j in range(2)] for i in range(2)], rtol=1e-9)
    random = mc.MeanMap(gamma=0.6, base="laplace", normalize=False, n_components=1000)
    assert (np.abs(random(p) - exact) < 4.5 * random.standard_errors(p)).all()


def test_points_are_limits_of_distributions():
    exact = mc.EmpiricalMeanMap(gamma=0.4, base="laplace")(SETS)
    np.testing.assert_allclose(mc.MeanMap(mc.KDE(1e-16), gamma=0.4, base="laplace")(SETS), exact, rtol=1e-6)
    points = mc.Gaussians(SETS[0], np.zeros(4))
    np.testing.assert_allclose(mc.MeanMap(gamma=0.4, base="laplace")(points), mc.Laplace(0.4)(SETS[0]), rtol=1e-12)
    random = mc.EmpiricalMeanMap(gamma=0.4, base="laplace", n_components=4000)
    assert (np.abs(random(SETS) - exact) < 4.5 * random.standard_errors(SETS) + 1e-12).all()


def test_distant_points_and_pieces_of_long_series(monkeypatch):
    X = [np.array([[0.0], [1.0]]), np.array([[5000.0], [1e308]]), np.array([[-1e308], [-1.7e308]])]
    kernel = mc.EmpiricalMeanMap(gamma=1.0, base="laplace", normalize=False)
    np.testing.assert_allclose(kernel.log(X)[0, 1], -4999 + np.log((1 + np.exp(-1)) / 4))
    assert kernel(X)[1, 2] == 0
    whole = mc.EmpiricalMeanMap(order=1, base="laplace")(SETS)
    monkeypatch.setattr("mercer.kernels._laplace.CHUNK", 3)
    np.testing.assert_allclose(mc.EmpiricalMeanMap(order=1, base="laplace")(SETS), whole, rtol=1e-13)
    p = mc.KDE(0.3).fit_each(SETS)
    pieces = mc.MeanMap(base="laplace")(p)
    monkeypatch.undo()
    np.testing.assert_allclose(pieces, mc.MeanMap(base="laplace")(p), rtol=1e-13)


def test_kernel_density_estimates_are_mixtures():
    p = mc.KDE(0.3).fit_each(SETS)
    parts = [mc.Gaussians(x, np.full(len(x), 0.3)) for x in SETS]
    kernel = mc.MeanMap(gamma=0.8, base="laplace", normalize=False)
    expected = [[kernel(x, y).mean() for y in parts] for x in parts]
    np.testing.assert_allclose(kernel(p), expected, rtol=1e-12)


def test_models_made_of_gaussians_and_symbols():
    p = mc.Gaussians(RNG.normal(size=(2, 3, 2)), RNG.uniform(0.5, 2, (2, 3, 2)))
    weights = RNG.dirichlet(np.ones(3), 2)
    kernel = mc.MeanMap(gamma=0.5, base="laplace", normalize=False, length=2)
    flat = p.reshape(-1)
    table = kernel(flat).reshape(2, 3, 2, 3)
    expected = np.einsum("ia,jb,iajb->ij", weights, weights, table)
    np.testing.assert_allclose(kernel(mc.Mixtures(weights, p)), expected, rtol=1e-12)
    chain = RNG.dirichlet(np.ones(3), (2, 3))
    paths = weights[:, :, None] * chain  # of two states
    both = np.einsum("iac,jbd,iajb,icjd->ij", paths, paths, table, table)
    np.testing.assert_allclose(kernel(mc.HMMs(weights, chain, p)), both, rtol=1e-12)
    for model in (mc.MarkovChain(), mc.Categorical(), mc.Multinomial()):
        X = ["abab", "aabb", "bbba"] if not isinstance(model, mc.Multinomial) else np.array([[1.0, 2], [3, 1], [2, 2]])
        same = mc.MeanMap(model, gamma=0.3)(X)
        np.testing.assert_allclose(mc.MeanMap(model, gamma=0.3, base="laplace")(X), same, rtol=1e-12)
    bits = mc.families.Bernoullis([[0.2, 0.7], [0.5, 0.1]])
    np.testing.assert_allclose(mc.MeanMap(base="laplace")(bits), mc.MeanMap()(bits), rtol=1e-12)


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        (mc.Poissons([[1.0]]), "no closed form for Poissons.*base='rbf', or n_components"),
        (mc.Gaussians([[0.0, 1.0]], [np.eye(2)]), "no closed form for Gaussians with full covariances"),
        (mc.LDSs([[[0.5]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], [[0.0]], [[[1.0]]]), "linear dynamical systems"),
    ],
)
def test_other_distributions_are_refused_by_name(batch, match):
    with pytest.raises(TypeError, match=match):
        mc.MeanMap(base="laplace")(batch)


def test_messages():
    with pytest.raises(ValueError, match="base must be"):
        mc.MeanMap(base="l1")(mc.Gaussians([[0.0]], [1.0]))
    with pytest.raises(ValueError, match="base must be"):
        mc.EmpiricalMeanMap(base="l1")(SETS)
    with pytest.raises(TypeError, match="n_components=1000"):
        mc.EmpiricalMeanMap(base="laplace").fit(SETS).features(SETS)


def test_strings_have_one_kernel():
    strings = ["abab", "bba"]
    expected = mc.EmpiricalMeanMap(order=1, alphabet="ab")(strings)
    np.testing.assert_array_equal(mc.EmpiricalMeanMap(order=1, alphabet="ab", base="laplace")(strings), expected)


class TestWindows(KernelContract):
    def kernel(self):
        return mc.EmpiricalMeanMap(order=1, gamma=0.4, base="laplace")

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(2, 7), 2)) for _ in range(n)]

    def nearly(self, epsilon):
        x = self.data(0, 2)
        return [x[0], x[0] + epsilon * np.arange(2 * len(x[0])).reshape(-1, 2)]

    def adversarial(self):
        X = self.data(99, 24)
        return X[:8] + [20 * x for x in X[8:16]] + [X[16] + 1e-9 * i for i in range(8)]

    def test_distance_of_nearly_equal_objects(self):
        near = [self.ready(self.data(5, 6)).distance(self.nearly(epsilon))[0, 1] for epsilon in (1e-2, 1e-4)]
        np.testing.assert_allclose(near[0] / near[1], 10, rtol=0.05)  # 1 - k is linear, the distance a square root

    def truth(self, X):
        def pair(x, y):
            base = np.exp(-0.4 * cdist(x, y, "cityblock"))
            return np.mean(base[:-1, :-1] * base[1:, 1:])

        return by_pairs(pair, X)
