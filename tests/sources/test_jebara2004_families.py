"""Jebara, Kondor and Howard 2004, sections 2.2 and 3: posterior predictions, table 1, other powers, counts."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import simpson
from scipy.special import gammaln, logsumexp

import mercer as mc
from mercer.families import ExponentialFamily, Parameter
from mercer.families.sets import reals, unit
from mercer.families.special import log, total

X = np.array([3.0, 5.0, 9.0])
STRENGTH = 2.5
LINE = np.linspace(-80, 80, 32001)


def predicted(log_members, sample, log_prior):
    """Equation (4): the average of p(x|theta), ``(x, thetas)``, over p(theta|X) at equally spaced theta."""
    posterior = log_prior + sample
    return np.exp(logsumexp(log_members + posterior, axis=1) - logsumexp(posterior))


def raw(rho, batch):
    return mc.ProbabilityProduct(rho=rho, normalize=False)(batch)


class TestPosteriorPredictions:
    """The conjugate prior is exp(strength (theta mu - K(theta))), as for the estimate of largest posterior density."""

    def test_j9_posterior_predictive(self):
        x, theta = np.arange(80.0), np.linspace(-8, 5, 501)  # log rates
        members = stats.poisson.logpmf(x[:, None], np.exp(theta))
        sample = stats.poisson.logpmf(X[:, None], np.exp(theta)).sum(axis=0)
        expected = predicted(members, sample, STRENGTH * (1.5 * theta - np.exp(theta)))
        model = mc.Poisson(prior=mc.Poissons([[1.5]]), prior_strength=STRENGTH, estimate="predictive")
        p = model.fit_each([X[:, None], X[:1, None]])
        assert_allclose(np.exp(p[:1].log_prob(x[:, None]))[0], expected, rtol=1e-9)
        other = predicted(members, stats.poisson.logpmf(X[0], np.exp(theta)), STRENGTH * (1.5 * theta - np.exp(theta)))
        for rho in (0.5, 0.7, 1.0):  # the kernel of two predictions
            assert_allclose(raw(rho, p)[0, 1], np.sum((expected * other) ** rho), rtol=1e-9)

    def test_predicted_multinomials(self):
        s, logit = 3, np.linspace(-60, 60, 12001)
        share = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))
        x = np.arange(s + 1.0)
        logs = [np.log(side) for side in share]
        choose = gammaln(s + 1) - gammaln(x + 1) - gammaln(s - x + 1)
        members = choose[:, None] + x[:, None] * logs[0] + (s - x)[:, None] * logs[1]
        documents = np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 0.0]])  # three observations of s draws
        sample = documents.sum(axis=0) @ np.array(logs)
        prior = STRENGTH * s * (0.4 * logs[0] + 0.6 * logs[1])
        model = mc.Multinomial(
            trials=s, prior=mc.Multinomials([[0.4, 0.6]]), prior_strength=STRENGTH * s, estimate="predictive"
        )
        p = model.fit_each([documents])
        expected = predicted(members, sample, prior)
        assert_allclose(np.exp(p.log_prob(np.stack([x, s - x], axis=1)))[0], expected, rtol=1e-9)

    def test_predicted_exponentials(self):
        u = np.linspace(-25, 12, 20001)
        theta = -np.exp(u)  # d theta = exp(u) du
        x = np.array([0.1, 1.0, 4.0, 30.0])
        members, sample = x[:, None] * theta + u, (X[:, None] * theta + u).sum(axis=0)
        prior = STRENGTH * (theta * 2.0 + u) + u
        model = mc.families.Exponential(
            floor=1e-12, prior=mc.families.Exponentials([[2.0]]), prior_strength=STRENGTH, estimate="predictive"
        )
        p = model.fit_each([X[:, None]])
        assert_allclose(np.exp(p.log_prob(x[:, None]))[0], predicted(members, sample, prior), rtol=1e-9)

    def test_predicted_gaussians(self):
        mean, v = np.meshgrid(np.linspace(-60, 70, 521), np.exp(np.linspace(-3, 9, 121)), indexing="ij")
        first, second = (mean / v).ravel(), (-0.5 / v).ravel()
        log_partition = ((mean**2 / v + np.log(v)) / 2).ravel()

        def log_member(x):
            return first * x + second * x**2 - log_partition

        x = np.array([-3.0, 1.0, 4.0, 12.0])
        prior = STRENGTH * (first * 0.5 + second * (0.5**2 + 2.0) - log_partition) - 2 * np.log(v.ravel())  # d theta
        model = mc.Gaussian(
            floor=0.0, prior=mc.Gaussians([[0.5]], [[[2.0]]]), prior_strength=STRENGTH, estimate="predictive"
        )
        found = np.exp(model.fit_each([X[:, None]]).log_prob(x[:, None]))[0]
        members = np.array([log_member(each) for each in x]) - math.log(2 * math.pi) / 2
        assert_allclose(found, predicted(members, sum(log_member(each) for each in X), prior), rtol=1e-6)


def test_j12_gaussians_with_a_known_part():
    mean, variance, x = np.array([[0.0], [1.5]]), np.array([0.4, 2.0]), np.array([-1.0, 0.2, 3.0])
    one = mc.families.GaussianMeans(mean, covariance=1.0)
    theta = mean  # table 1: T = x, A = -x^2 / 2 - log(2 pi) / 2, K = theta^2 / 2
    assert_allclose(one.natural_parameters, theta)
    assert_allclose(one.log_partition(theta), theta[:, 0] ** 2 / 2)
    by_table = theta * x - theta**2 / 2 - x**2 / 2 - math.log(2 * math.pi) / 2
    assert_allclose(one.log_prob(x[:, None]), by_table, rtol=1e-13)
    zero = mc.families.GaussianCovariances(variance[:, None, None], mean=0.0)
    theta = -0.5 / variance[:, None]  # T = x^2, A = -log(2 pi) / 2, K = log(variance) / 2
    assert_allclose(zero.natural_parameters, theta)
    constant = zero.log_partition(theta) - np.log(variance) / 2  # the base measure is counted there
    assert_allclose(constant, math.log(2 * math.pi) / 2)
    by_table = theta * x**2 - math.log(2 * math.pi) / 2 - np.log(variance)[:, None] / 2
    assert_allclose(zero.log_prob(x[:, None]), by_table, rtol=1e-13)
    for rho in (0.5, 0.8, 2.0):
        for batch, m, v in ((one, mean, np.ones((2, 1))), (zero, np.zeros((2, 1)), variance[:, None])):
            powers = stats.norm.pdf(LINE, m, np.sqrt(v)) ** rho
            expected = np.trapezoid(powers[:, None] * powers, LINE, axis=-1)
            assert_allclose(raw(rho, batch), expected, rtol=1e-11)


class Normals(ExponentialFamily):
    """Normal distributions of variance 1: A = -x^2 / 2, so that c A(x) = A(h x) with h = c^(1/2)."""

    mean = Parameter(reals)

    def partition(self, theta):
        return total(theta * theta + math.log(2 * math.pi)) / 2

    def base(self, x):
        return -total(x * x) / 2

    def power_partition(self, c, eta):
        h = math.sqrt(c)
        return self.partition(eta / h) - eta.shape[-1] * math.log(h)


class Tilted(ExponentialFamily):
    """Laplace distributions times exp(theta x): A = -|x|, so that c A(x) = A(h x) with h = c."""

    tilt = Parameter(unit)  # theta is between -1 and 1

    def natural(self):
        return 2 * self.tilt - 1

    def from_natural(self, theta):
        return (theta + 1) / 2

    def statistic(self, x):
        return x

    def partition(self, theta):
        return total(log(2 / (1 - theta * theta)))

    def base(self, x):
        return -total(abs(x))

    def power_partition(self, c, eta):
        return self.partition(eta / c) - eta.shape[-1] * math.log(c)

    def finite(self, rho):
        return self.tilt[..., 0] > 0  # always


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0, 2.0])
@pytest.mark.parametrize("batch", [Normals([[0.0], [1.2]]), Tilted([[0.5], [0.7]])], ids=["normal", "Laplace"])
def test_j15_other_powers_of_homogeneous_measures(batch, rho):
    density = np.exp(batch.log_prob(LINE[:, None]))
    assert_allclose(simpson(density, x=LINE), 1, rtol=1e-9)
    expected = simpson((density[:, None] * density) ** rho, x=LINE)
    assert_allclose(raw(rho, batch), expected, rtol=1e-8)


@pytest.mark.parametrize(("trials", "words"), [(5, 4), (30, 3)])  # by partial sums, and by one convolution
def test_j20_multinomials_at_other_powers(trials, words):
    a = np.random.default_rng(4).dirichlet(np.ones(words), size=3)
    a[2] = [0.0, 1.0, *np.zeros(words - 2)] if trials == 5 else [0.0, 0.3, 0.7]
    counts = np.array([c for c in itertools.product(range(trials + 1), repeat=words) if sum(c) == trials])
    ways = np.exp(gammaln(trials + 1) - gammaln(counts + 1).sum(axis=1))
    probability = ways * np.prod(a[:, None] ** counts, axis=-1)
    for rho in (0.3, 0.7, 1.0, 2.0):
        powers = probability**rho
        assert_allclose(raw(rho, mc.Multinomials(a, trials=trials)), powers @ powers.T, rtol=1e-11)
