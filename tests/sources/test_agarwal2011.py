"""Agarwal and Daume 2011, sections 2 to 4: exponential families, the dual divergence, and its kernels."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

import mercer as mc

LINE = np.linspace(-40, 40, 8001)
"""A grid of real numbers; the trapezoidal rule is exact to rounding for smooth densities that vanish at its ends."""
LOGARITHMS = np.linspace(-120, 8, 16001)
"""Logarithms of a grid of positive numbers."""
DOCUMENTS = np.array([c for c in itertools.product(range(5), repeat=3) if sum(c) == 4], dtype=float)
"""All documents of four words from a vocabulary of three."""


@dataclass
class Truth:
    """Members of a family from the definition of section 2.1, with sums or integrals over all points."""

    batch: mc.families.ExponentialFamily
    statistics: np.ndarray
    weight: np.ndarray
    theta: np.ndarray

    def at(self, theta):
        """Log partition function G, mean parameters, and covariance of the statistics."""
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.weight * np.exp(self.statistics @ theta)
            total = terms.sum()
            p = terms / total
            mean = p @ self.statistics
            return np.log(total), mean, (p * (self.statistics - mean).T) @ (self.statistics - mean)

    @cached_property
    def mean(self):
        return np.array([self.at(theta)[1] for theta in self.theta])

    @cached_property
    def log_partition(self):
        return np.array([self.at(theta)[0] for theta in self.theta])

    @cached_property
    def dual(self):
        return np.sum(self.theta * self.mean, axis=1) - self.log_partition

    def dual_at(self, mu, theta):
        """F, the largest value of <theta, mu> - G(theta), and where it is, by Newton's method."""
        for _ in range(40):
            value, mean, covariance = self.at(theta)
            step = np.linalg.pinv(covariance, rcond=1e-12) @ (mu - mean)
            while not self.at(theta + step)[0] - (theta + step) @ mu <= value - theta @ mu + 1e-12:
                step /= 2
            theta = theta + step
        return theta @ mu - self.at(theta)[0], theta

    @cached_property
    def kl(self):
        """Kullback-Leibler divergences of all pairs, as means of log p - log p'."""
        return np.array([[self.kl_of(one, other) for other in self.theta] for one in self.theta])

    def kl_of(self, one, other):
        logs = [self.statistics @ theta - self.at(theta)[0] for theta in (one, other)]
        return np.sum(self.weight * np.exp(logs[0]) * (logs[0] - logs[1]))

    @cached_property
    def psi(self):
        """The dual Jensen-Shannon divergence of all pairs: equation (5)."""
        mean, dual = self.mean, self.dual
        found = np.zeros((len(mean), len(mean)))
        for i, j in itertools.combinations(range(len(mean)), 2):
            middle, _ = self.dual_at((mean[i] + mean[j]) / 2, self.theta[i])
            found[i, j] = found[j, i] = (dual[i] + dual[j]) / 2 - middle
        return found


def truths():
    """Return three members of every family."""
    rate, scale, shape = np.array([1.0, 4.0, 9.0]), np.array([0.5, 2.0, 5.0]), np.array([0.7, 2.0, 5.0])
    mean, variance = np.array([0.0, 1.5, -2.0]), np.array([1.0, 0.5, 3.0])
    chance = np.array([0.2, 0.7, 0.95])
    frequencies = np.random.default_rng(4).dirichlet(np.ones(3), size=3)
    counts, x = np.arange(150.0), np.exp(LOGARITHMS)
    steps = np.full(len(x), LOGARITHMS[1] - LOGARITHMS[0])
    coefficients = np.exp(gammaln(5) - gammaln(DOCUMENTS + 1).sum(axis=1))
    return {
        "Poisson": Truth(
            mc.Poissons(rate[:, None]), counts[:, None], np.exp(-gammaln(counts + 1)), np.log(rate)[:, None]
        ),
        "Bernoulli": Truth(
            mc.families.Bernoullis(chance[:, None]),
            np.array([[0.0], [1.0]]),
            np.ones(2),
            np.log(chance / (1 - chance))[:, None],
        ),
        "exponential": Truth(mc.families.Exponentials(scale[:, None]), x[:, None], steps * x, -1 / scale[:, None]),
        "gamma": Truth(
            mc.families.Gammas(shape[:, None], scale[:, None]),
            np.stack([LOGARITHMS, x], axis=1),
            steps,
            np.stack([shape, -1 / scale], axis=1),
        ),
        "Gaussian": Truth(
            mc.Gaussians(mean[:, None], variance[:, None]),
            np.stack([LINE, LINE**2], axis=1),
            np.full(len(LINE), (LINE[1] - LINE[0]) / np.sqrt(2 * np.pi)),
            np.stack([mean / variance, -1 / (2 * variance)], axis=1),
        ),
        "categorical": Truth(mc.Categoricals(frequencies), np.eye(3), np.ones(3), np.log(frequencies)),
        "multinomial": Truth(mc.Multinomials(frequencies, trials=4), DOCUMENTS, coefficients, np.log(frequencies)),
    }


TRUTHS = truths()
FAMILIES = pytest.mark.parametrize("family", TRUTHS)


def without_constant(values):
    """Differences to the first value: constants of G and F cancel in every divergence."""
    return np.asarray(values)[1:] - np.asarray(values)[0]


# -- section 2.1: exponential families -----------------------------------------------------------------------------


@FAMILIES
def test_a1_exponential_families(family):
    truth, batch = TRUTHS[family], TRUTHS[family].batch
    assert_allclose(batch.natural_parameters, truth.theta, rtol=1e-12)
    assert_allclose(batch.mean_parameters, truth.mean, rtol=1e-9, atol=1e-12)
    found = batch.log_partition(batch.natural_parameters)
    assert_allclose(without_constant(found), without_constant(truth.log_partition), rtol=1e-9, atol=1e-11)
    found = batch.dual(batch.mean_parameters)
    assert_allclose(without_constant(found), without_constant(truth.dual), rtol=1e-9, atol=1e-11)
    back = batch.with_mean_parameters(batch.mean_parameters)  # theta and mu determine each other
    assert_allclose(back.natural_parameters, truth.theta, rtol=1e-9)


@FAMILIES
def test_a3_bregman_divergences(family):
    truth, batch = TRUTHS[family], TRUTHS[family].batch
    theta, mu, pairs = batch.natural_parameters, batch.mean_parameters, range(3)
    F, G = batch.dual(mu), batch.log_partition(theta)
    of_means = [[F[i] - F[j] - theta[j] @ (mu[i] - mu[j]) for j in pairs] for i in pairs]
    of_thetas = [[G[j] - G[i] - mu[i] @ (theta[j] - theta[i]) for j in pairs] for i in pairs]  # swapped (E34)
    for found in (batch.kl(batch), of_means, of_thetas):
        assert_allclose(found, truth.kl, rtol=1e-9, atol=1e-10)


# -- section 3.1: from maximum likelihood to a divergence ----------------------------------------------------------


def test_a4_maximum_likelihood():
    x = np.array([2.0, 5.0, 1.0, 7.0])
    fitted = mc.Poisson().fit_each([x[:, None]]).rate[0, 0]

    def bregman_f(one, other):
        return one * np.log(one) - one - (other * np.log(other) - other) - np.log(other) * (one - other)

    def bregman_g(one, other):
        return np.exp(one) - np.exp(other) - np.exp(other) * (one - other)

    def best(loss):
        return minimize_scalar(loss, bounds=(0.5, 10), method="bounded", options={"xatol": 1e-9}).x

    single = mc.Poisson().fit_each(x[:, None]).rate[:, 0]
    assert_allclose(single, x, rtol=1e-15)  # corollary 1: the mean parameter of one point is its statistic
    divergence = [
        lambda mu: sum(bregman_f(x, mu)),  # lemma 1
        lambda mu: sum(bregman_g(np.log(mu), np.log(single))),  # theorem 1
        lambda mu: sum(mc.Poissons(single[:, None]).kl(mc.Poissons([[mu]]))[:, 0]),  # theorem 2
    ]
    assert_allclose([best(loss) for loss in divergence], fitted, rtol=1e-6)
    documents = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0]])
    found = mc.Multinomial(trials=4).fit_each(documents).mean_parameters
    assert_allclose(found, documents, rtol=1e-13)


@FAMILIES
def test_a6_dual_divergence(family):
    truth, batch = TRUTHS[family], TRUTHS[family].batch
    found = batch.dual_divergence(batch)
    assert_allclose(found, truth.psi, rtol=1e-9, atol=1e-10)
    _, middle = truth.dual_at((truth.mean[0] + truth.mean[1]) / 2, truth.theta[0])
    halves = [truth.kl_of(theta, middle) for theta in truth.theta[:2]]  # definition 3
    assert_allclose(found[0, 1], np.mean(halves), rtol=1e-8)


def stretched_gaussians():
    """Seven covariances in two dimensions, and equation (5) of normal distributions with these and mean 0."""
    shapes = [np.eye(2)] + [np.diag([a, b]) for a in (0.1, 1.9) for b in (0.1, 1.9)]
    shapes = np.array(shapes + [np.array([[1.0, c], [c, 1.0]]) for c in (0.95, -0.95)])
    half = np.linalg.slogdet(shapes)[1] / 4
    psi = np.linalg.slogdet((shapes[:, None] + shapes) / 2)[1] / 2 - half[:, None] - half
    return mc.Gaussians(np.zeros((7, 2)), shapes), psi


def test_a7_negative_definite(rng):
    batches = [
        mc.Poissons(rng.gamma(0.5, 5, size=(12, 1))),
        mc.Multinomials(rng.dirichlet(np.full(4, 0.3), size=12)),
        mc.families.Gammas(rng.gamma(1, 3, size=(12, 1)), rng.gamma(1, 3, size=(12, 1))),
        mc.Gaussians(rng.normal(size=(12, 2)), rng.gamma(1, 1, size=(12, 2))),
    ]
    middle = np.eye(12) - 1 / 12
    for batch in batches:
        psi = batch.dual_divergence(batch)
        assert np.linalg.eigvalsh(middle @ psi @ middle)[-1] < 1e-10
    seven, psi = stretched_gaussians()  # E32: not for every exponential family
    middle = np.eye(7) - 1 / 7
    assert np.linalg.eigvalsh(middle @ psi @ middle)[-1] > 0.05
    with pytest.raises(ValueError, match="not positive semi-definite"):
        mc.JensenShannon(form="exp", t=0.2)(seven)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        found = mc.JensenShannon(form="exp", t=0.2, check_psd=False)(seven)
    assert_allclose(found, np.exp(-0.2 * psi), rtol=1e-12)


# -- section 3.2: from a divergence to kernels ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["Poisson", "multinomial", "exponential"])
def test_a8_centering(family):
    truth, batch = TRUTHS[family], TRUTHS[family].batch
    center = truth.mean.mean(axis=0)
    at_center, _ = truth.dual_at(center, truth.theta[0])
    to_center = [
        (value + at_center) / 2 - truth.dual_at((mu + center) / 2, theta)[0]
        for value, mu, theta in zip(truth.dual, truth.mean, truth.theta, strict=True)
    ]
    expected = np.add.outer(to_center, to_center) - truth.psi
    found = mc.JensenShannon(form="centering", normalize=False).fit(batch)(batch)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    assert np.linalg.eigvalsh(found)[0] > -1e-10  # psi is negative definite (E33), not positive definite


@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
@FAMILIES
def test_a9_exponentiated_and_inverse(family, t):
    psi, batch = TRUTHS[family].psi, TRUTHS[family].batch
    found = mc.JensenShannon(form="exp", t=t)(batch)
    assert_allclose(found, np.exp(-t * psi), rtol=1e-9)
    inverse = mc.JensenShannon(form="inverse", t=t, normalize=False)(batch)
    assert_allclose(inverse, 1 / (t + psi), rtol=1e-9)
    assert min(np.linalg.eigvalsh(found)[0], np.linalg.eigvalsh(inverse)[0]) > -1e-12


# -- section 4: related work ---------------------------------------------------------------------------------------


@FAMILIES
def test_a10_bhattacharyya(family):
    truth = TRUTHS[family]
    theta, ends = truth.theta, truth.log_partition
    middle = [[truth.at((one + other) / 2)[0] for other in theta] for one in theta]
    expected = np.exp(middle - np.add.outer(ends, ends) / 2)
    found = mc.ProbabilityProduct(rho=0.5, normalize=False)(truth.batch)
    assert_allclose(found, expected, rtol=1e-9)
