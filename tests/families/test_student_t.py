"""Student t distributions, the predictive distributions of Gaussians with unknown covariance (PPK-2a)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

import mercer as mc


def batch(seed, n, d):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, d, d))
    return mc.families.StudentTs(
        rng.normal(size=(n, d)), root @ root.swapaxes(1, 2) + np.eye(d), rng.uniform(1, 20, size=n)
    )


def test_density_is_scipys():
    p, x = batch(0, 4, 3), np.random.default_rng(1).normal(size=(5, 3))
    expected = [stats.multivariate_t(m, s, v).logpdf(x) for m, s, v in zip(p.location, p.scale, p.freedom, strict=True)]
    np.testing.assert_allclose(p.log_prob(x), expected, rtol=1e-12)
    np.testing.assert_allclose(p[2].log_prob(x), expected[2], rtol=1e-12)
    assert p.reshape(2, 2).log_prob(np.broadcast_to(x, (2, 5, 3))).shape == (2, 2, 5)


def test_samples_have_the_right_moments():
    p = mc.families.StudentTs([[1.0, -1.0]], [[[1.0, 0.5], [0.5, 2.0]]], [8.0])
    x = p.sample(200_000, random_state=0)[0]
    np.testing.assert_allclose(x.mean(axis=0), [1.0, -1.0], atol=0.02)
    np.testing.assert_allclose(np.cov(x.T), p.scale[0] * 8 / 6, atol=0.05)
    assert stats.kstest((x[:5000, 0] - 1), stats.t(8).cdf).pvalue > 1e-3


@pytest.mark.parametrize("rho", [pytest.param(0.3, marks=pytest.mark.slow), 0.5, 1.0, 2.0])
def test_product_by_an_independent_quadrature(rho):
    p = mc.families.StudentTs([[0.0], [1.0], [5.0]], [[[1.0]], [[0.04]], [[9.0]]], [2.5, 30.0, 1000.0])
    found = p.log_product(p, rho)
    assert np.array_equal(p.reshape(3, 1).log_product(p.reshape(3, 1), rho)[:, 0, 0], np.diag(found))
    for i in range(3):
        for j in range(3):

            def f(x, i=i, j=j):
                return np.exp(rho * (p[i].log_prob([[x]]) + p[j].log_prob([[x]])))[0]

            ends = [-np.inf, -3.0, 0.0, 0.5, 0.9, 1.0, 1.1, 1.5, 5.0, 9.0, np.inf]
            exact = sum(
                integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(ends)
            )
            np.testing.assert_allclose(np.exp(found[i, j]), exact, rtol=1e-8)


def test_cauchy_has_a_closed_form():
    # The product of densities at rho = 1 is a convolution: Cauchy distributions of scales that add up.
    m, s = np.array([0.0, 3.0, 1e4]), np.array([1.0, 1e-3, 20.0])
    p = mc.families.StudentTs(m[:, None], (s**2)[:, None, None], np.ones(3))
    expected = stats.cauchy.logpdf(m[:, None], m, s[:, None] + s)
    np.testing.assert_allclose(p.log_product(p, 1.0), expected, rtol=1e-11)


def test_many_degrees_of_freedom_are_gaussian():
    m, s = np.array([0.0, 2.0, 40.0]), np.array([1.0, 0.5, 2.0])
    p = mc.families.StudentTs(m[:, None], s[:, None, None], np.full(3, 1e9))
    g = mc.Gaussians(m[:, None], s)
    for rho in (0.5, 1.0):
        np.testing.assert_allclose(p.log_product(p, rho), g.log_product(g, rho), rtol=1e-5, atol=1e-12)


def test_the_predictive_distribution_of_a_normal_inverse_wishart():
    rng = np.random.default_rng(2)
    sets = [rng.normal(i, 1.0, size=(n, 2)) for i, n in enumerate((3, 1, 8))]
    prior, s = mc.Gaussians([[0.5, 1.0]], [[[2.0, 0.3], [0.3, 1.0]]]), 4.0
    found = mc.Gaussian(floor=0.0, prior=prior, prior_strength=s, estimate="student").fit_each(sets)
    assert isinstance(found, mc.families.StudentTs)
    for i, x in enumerate(sets):
        n, d = x.shape
        mean, k = x.mean(axis=0), s + n
        gap = mean - prior.mean[0]
        psi = s * prior.covariance[0] + (x - mean).T @ (x - mean) + s * n / k * np.outer(gap, gap)
        v = (s + d + 1) + n - d + 1
        np.testing.assert_allclose(found.location[i], (s * prior.mean[0] + n * mean) / k, rtol=1e-12)
        np.testing.assert_allclose(found.scale[i], psi * (k + 1) / (k * v), rtol=1e-10)
        assert found.freedom[i] == v


def test_kernels_of_small_sets():
    rng = np.random.default_rng(3)
    line = [rng.normal(i, 1.0, size=(3 + i, 1)) for i in range(5)]
    estimator = mc.Gaussian(prior="pooled", estimate="student")
    exact = mc.ProbabilityProduct(estimator)(line)
    assert mc.gram.psd.check(exact, 1e-10)
    k = mc.Sampled(estimator, n_samples=3000)
    K = k.fit_transform(line)
    assert np.all(np.abs(K - exact) <= 5 * k.standard_errors(line) + 1e-9)
    plane = [rng.normal(i, 1.0, size=(4, 2)) for i in range(5)]
    assert mc.gram.psd.check(mc.Sampled(estimator, n_samples=200).fit_transform(plane), 1e-10)
    with pytest.raises(ValueError, match=r"2 dimensions .* mc.Sampled"):
        mc.ProbabilityProduct(estimator)(plane)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0.0], [1.0], 3.0), r"scale \(\.\.\., d, d\)"),
        (([[0.0]], [[[0.0]]], [3.0]), "positive definite"),
        (([[0.0]], [[[-1.0]]], [3.0]), "positive definite"),
        (([[0.0]], [[[1.0]]], [0.0]), "freedom must be positive"),
        (([[np.nan]], [[[1.0]]], [1.0]), "location must be finite"),
        (([[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]], [1.0]), "symmetric"),
    ],
)
def test_messages(arguments, match):
    with pytest.raises(ValueError, match=match):
        mc.families.StudentTs(*arguments)


def test_other_messages():
    p = mc.families.StudentTs([[0.0]], [[[1.0]]], [1.0])
    with pytest.raises(ValueError, match=r"infinite.*Increase rho"):
        p.log_product(p, 0.25)
    sets = [np.zeros((3, 2)), np.ones((2, 2))]
    with pytest.raises(ValueError, match="needs covariance='full'"):
        mc.Gaussian("diagonal", prior="pooled", estimate="student").fit(sets)
    with pytest.raises(ValueError, match=r"estimate='student' needs a prior"):
        mc.Gaussian(estimate="student").fit(sets)
    with pytest.raises(ValueError, match="estimate='point'"):
        mc.HMM(2, mc.Gaussian(prior="pooled", estimate="student")).fit_each([np.zeros((5, 1)), np.ones((6, 1))])


def test_files_and_indices(tmp_path):
    p = batch(4, 3, 2)
    p.save(tmp_path / "p.npz")
    again = mc.families.StudentTs.load(tmp_path / "p.npz")
    assert again.digests() == p.digests()
    assert mc.families.StudentTs.concat([p[:1], p[1:]]).digests() == p.digests()
    assert p.n_parameters == 6
    assert p.estimator().estimate == "student"
