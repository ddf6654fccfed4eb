"""Gaussians fitted to points with missing coordinates: expectation maximization of the density of what was observed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import mercer as mc


def correlated(seed, n, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def gapped(seed, n, d=3, share=0.3):
    x = correlated(seed, n, d)
    return np.where(np.random.default_rng(seed + 1).random(x.shape) < share, np.nan, x)


def log_density(x, mean, covariance, floor=0.0):
    """Sum of the log densities of what was observed, point by point, each coordinate with a variance of its own."""
    total = 0.0
    for point in x:
        seen = ~np.isnan(point)
        if seen.any():
            own = covariance[np.ix_(seen, seen)]
            total += multivariate_normal(mean[seen], own).logpdf(point[seen])
            total -= floor / 2 * np.trace(np.linalg.inv(own))
    return total


def slopes(theta, f, step=1e-5):
    """Gradient by central differences."""
    return np.array([f(theta + move) - f(theta - move) for move in step * np.eye(len(theta))]) / (2 * step)


def unpacked(theta, d):
    lower = np.zeros((d, d))
    lower[np.tril_indices(d)] = theta[d:]
    return theta[:d], lower @ lower.T


def packed(mean, covariance):
    d = len(mean)
    return np.concatenate([mean, np.linalg.cholesky(covariance)[np.tril_indices(d)]])


def test_one_coordinate_that_is_sometimes_missing_has_a_closed_form():
    """Anderson 1957: the first coordinate from all points, the regression of the second from the complete ones."""
    x = correlated(0, 40, 2)
    x[25:, 1] = np.nan
    found = mc.Gaussian("full", floor=0.0).fit(x).model_
    a, b = x[:25].T
    slope = np.cov(a, b, bias=True)[0, 1] / a.var()
    first, second = x[:, 0].mean(), b.mean() + slope * (x[:, 0].mean() - a.mean())
    spread, rest = x[:, 0].var(), np.var(b - slope * a)
    assert_allclose(found.mean[0], [first, second], rtol=1e-9)
    expected = [[spread, slope * spread], [slope * spread, rest + slope**2 * spread]]
    assert_allclose(found.covariance[0], expected, rtol=1e-8)


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_the_fit_is_the_maximum_of_the_density_of_what_was_observed(floor):
    x = gapped(3, 16)
    estimator = mc.Gaussian("full", floor=floor).fit(x)
    found, own = estimator.model_, estimator.context_.floor

    def loss(theta):
        return -log_density(x, *unpacked(theta, 3), own)

    theta = packed(found.mean[0], found.covariance[0])
    assert_allclose(slopes(theta, loss), 0, atol=1e-4)
    start = packed(np.nanmean(x, axis=0), np.diag(np.nanvar(x, axis=0)))
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    assert loss(theta) <= best.fun + 1e-6
    assert_allclose(found.mean[0], unpacked(best.x, 3)[0], atol=1e-3)


def test_a_prior_is_part_of_what_is_maximized():
    x, strength = gapped(5, 12), 4.0
    prior = mc.Gaussians(np.ones((1, 3)), 2 * np.eye(3)[None])
    estimator = mc.Gaussian("full", floor=0.1, prior=prior, prior_strength=strength).fit(x)

    def loss(theta):
        mean, covariance = unpacked(theta, 3)
        divergence = prior.kl(mc.Gaussians(mean[None], covariance[None]))[0, 0]
        return strength * divergence - log_density(x, mean, covariance, estimator.context_.floor)

    found = estimator.model_
    assert_allclose(slopes(packed(found.mean[0], found.covariance[0]), loss), 0, atol=1e-4)


def test_isotropic_variances_average_over_what_was_observed():
    x = gapped(2, 20)
    found = mc.Gaussian("isotropic", floor=0.0).fit(x).model_
    mean = np.nanmean(x, axis=0)
    assert_allclose(found.mean[0], mean, rtol=1e-12)
    assert_allclose(found.covariance[0], np.nanmean((x - mean) ** 2), rtol=1e-12)


@pytest.mark.parametrize("structure", ["full", "isotropic"])
def test_points_without_any_coordinate_count_for_nothing(structure):
    x = correlated(1, 15)
    some = x.copy()
    some[3, 1] = np.nan
    padded = np.insert(some, [0, 7, 15], np.nan, axis=0)
    estimator = mc.Gaussian(structure).fit(x)
    found, expected = (estimator.fit_each([points])[0] for points in (padded, some))
    assert_allclose(found.mean, expected.mean, rtol=1e-9)
    assert_allclose(found.covariance, expected.covariance, rtol=1e-8)
    lost, whole = (estimator.fit_each([points])[0] for points in (np.insert(x, [0, 7, 15], np.nan, axis=0), x))
    assert_allclose(lost.covariance, whole.covariance, rtol=1e-9)


def test_each_fit_depends_on_its_own_sample_only():
    sets = [gapped(seed, 8 + seed, share=0.1 + 0.06 * seed) for seed in range(6)]
    estimator = mc.Gaussian("full", prior="pooled").fit(sets)
    together, alone = estimator.fit_each(sets), [estimator.fit_each([x]) for x in sets]
    for i, one in enumerate(alone):
        assert_array_equal(together.mean[i], one.mean[0])
        assert_array_equal(together.covariance[i], one.covariance[0])


def test_the_scale_of_a_coordinate_does_not_matter():
    x, scale = gapped(7, 40), np.array([1e-6, 1.0, 1e6])
    plain, scaled = (mc.Gaussian("full", floor=0.0).fit(points).model_ for points in (x, x * scale))
    assert_allclose(scaled.covariance[0], plain.covariance[0] * np.outer(scale, scale), rtol=1e-6)


def test_equal_coordinates_tell_each_other():
    """With floor=0 the covariance is singular: what is missing is known, and nothing is divided by zero."""
    x = np.repeat(correlated(0, 20, 1), 2, axis=1)
    x[3, 0] = x[8, 1] = np.nan
    found = mc.Gaussian("full", floor=0.0).fit(x).model_
    every = np.nanmean(x, axis=1)
    assert_allclose(found.mean[0], every.mean(), rtol=1e-6)
    assert_allclose(found.covariance[0], every.var(), rtol=1e-5)
    constant = np.where(np.isnan(x), np.nan, 2.0)
    assert_allclose(mc.Gaussian("full", floor=0.0).fit(constant).model_.covariance, 0, atol=1e-12)


def test_scores_are_the_gradient_of_the_density_of_what_was_observed():
    x = gapped(6, 9)
    x[4] = np.nan
    mean, covariance = np.array([0.3, -0.2, 0.5]), np.cov(correlated(1, 30).T)
    found = mc.Gaussians(mean[None], covariance[None]).fisher_scores(x)[0]
    rows, columns = np.triu_indices(3)
    for t, point in enumerate(x):
        for i in range(3):
            step = 1e-6 * np.eye(3)[i]
            slope = log_density([point], mean + step, covariance) - log_density([point], mean - step, covariance)
            assert_allclose(found[t, i], slope / 2e-6, atol=1e-7)
        for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
            step = np.zeros((3, 3))
            step[i, j] = step[j, i] = 1e-6 * (1.0 if i == j else np.sqrt(0.5))
            slope = log_density([point], mean, covariance + step) - log_density([point], mean, covariance - step)
            assert_allclose(found[t, 3 + k], slope / 2e-6, atol=1e-7)


@pytest.mark.parametrize("structure", ["full", "isotropic", "diagonal"])
def test_a_coordinate_that_was_never_observed_is_named(structure):
    x = gapped(0, 10)
    x[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"^There is nothing to learn about coordinate 1: .* Leave it out\.$"):
        mc.Gaussian(structure).fit(x)
    with pytest.raises(ValueError, match=r"^sequence 1 has no observation of coordinate 1.* use prior='pooled'\.$"):
        mc.Gaussian(structure).fit_each([correlated(0, 5), x])
    shrunk = mc.Gaussian(structure, prior="pooled").fit_each([correlated(0, 5), x])
    assert np.isfinite(shrunk.covariance).all()
