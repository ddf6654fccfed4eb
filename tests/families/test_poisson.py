"""Poissons and Poisson against sums over all counts."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import mercer as mc
from mercer._array import namespace
from mercer.families.poisson import _series
from mercer.testing.families import EstimatorContract, FamilyContract


class TestPoissons(FamilyContract):
    def members(self, seed=0, shape=(3,)):
        return mc.Poissons(np.random.default_rng(seed).uniform(0.3, 6, size=(*shape, 2)))

    def nodes(self):
        count = np.arange(55.0)
        x = np.stack(np.meshgrid(count, count, indexing="ij"), axis=-1).reshape(-1, 2)
        return x, np.ones(len(x))

    def parameters(self, p):
        return np.log(p.rate)

    def build(self, theta):
        return mc.Poissons(namespace(theta).exp(theta))

    def edge(self):
        return mc.Poissons([[0.0, 2.0], [1.5, 0.0], [0.0, 0.0], [3.0, 4.0]])


class TestPoisson(EstimatorContract):
    def estimator(self, **parameters):
        return mc.Poisson(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.poisson(3.0, size=(n, 2)).astype(float) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


def test_against_scipy():
    p, x = mc.Poissons([[0.7], [30.0]]), np.arange(50.0)[:, None]
    assert_allclose(p.log_prob(x), stats.poisson.logpmf(x[:, 0], p.rate), rtol=1e-12)


@pytest.mark.parametrize(
    "gamma",
    [
        1e-4,
        pytest.param(0.05, marks=pytest.mark.slow),
        pytest.param(1.0, marks=pytest.mark.slow),
        pytest.param(30.0, marks=pytest.mark.slow),
    ],
)
def test_mean_map_of_all_rates(gamma):
    """GMMK-10d: Skellam's law of the difference, where SciPy has digits, and logarithms where it has none."""
    rates = np.array([[0.0], [1e-3], [0.7], [9.0], [150.0]])
    p, k = mc.Poissons(rates), np.arange(-400, 401)
    found = p.log_mean_map(p, gamma=gamma)
    for (i, a), (j, b) in itertools.product(enumerate(rates[1:, 0], 1), repeat=2):
        truth = np.sum(stats.skellam.pmf(k, a, b) * np.exp(-gamma * k**2))
        if truth > 1e-30:
            assert_allclose(np.exp(found[i, j]), truth, rtol=1e-9)
    n = np.arange(1000.0)
    logs = stats.poisson.logpmf(n, np.where(rates > 0, rates, 1.0))
    logs[0] = np.where(n == 0, 0.0, -np.inf)
    for i, j in itertools.product(range(5), repeat=2):
        terms = logs[i][:, None] + logs[j] - gamma * (n[:, None] - n) ** 2
        assert_allclose(found[i, j], special.logsumexp(terms), rtol=1e-11, atol=1e-11)
    assert_array_equal(p[1:3].log_mean_map(p[1:3], gamma=gamma), found[1:3, 1:3])  # whatever stands beside


@pytest.mark.slow
def test_mean_map_of_bad_input():
    with pytest.raises(ValueError, match=r"a rate of 100000 sums over .* Divide the counts by a constant"):
        mc.Poissons([[1e5]]).log_mean_map(mc.Poissons([[1.0]]), gamma=1.0)
    assert_allclose(mc.MeanMap(gamma=0.1)(mc.Poissons([[3.0], [3000.0]])), np.eye(2), atol=1e-15)


def test_product_at_large_and_small_rates():
    """PPK-3.6: rho = 2 is 0F3; large rates stay exact by the Gaussian limit of their terms."""
    p, q = mc.Poissons([[0.4]]), mc.Poissons([[1.1]])
    series = np.exp(2 * (2 * np.arange(60) * np.log(np.sqrt(0.44)) - 2 * special.gammaln(np.arange(60) + 1))).sum()
    assert_allclose(p.log_product(q, rho=2.0), [[np.log(series) - 2 * 1.5]], rtol=1e-12)
    big = mc.Poissons([[1e4], [1.02e4]])
    n = np.arange(5000.0, 16000.0)[:, None]
    truth = special.logsumexp(0.3 * (big.log_prob(n)[0] + big.log_prob(n)[1]))
    assert_allclose(big.log_product(big, rho=0.3)[0, 1], truth, rtol=1e-8)


@pytest.mark.parametrize("mean", [0.0, 1e-6, 0.1, 16.0, 1e3, 1e6, 1e8])
def test_series_at_one_is_a_bessel_function(mean):
    truth = np.log(special.ive(0, 2 * mean))
    assert_allclose(_series(np.array([mean]), 1.0), [truth], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("mean", [0.001, 1.0, 20.0, 500.0])
@pytest.mark.parametrize("rho", [0.01, 0.05, 0.3, 50.0])
def test_series_against_a_sum_over_all_counts(mean, rho):
    """Terms are made one from the other outwards from the largest, in plain floats, and added without rounding."""
    top = int(mean)
    largest = top * math.log(mean) - mean - math.lgamma(top + 1)
    terms, log = [1.0], 0.0
    for n in range(top + 1, top + 200_000):
        log += math.log(mean / n)
        terms.append(math.exp(2 * rho * log))
        if terms[-1] < 1e-25:
            break
    log = 0.0
    for n in range(top, 0, -1):
        log += math.log(n / mean)
        terms.append(math.exp(2 * rho * log))
    truth = math.log(math.fsum(terms)) + 2 * rho * largest
    assert_allclose(_series(np.array([mean]), rho), [truth], rtol=1e-11, atol=1e-11)


def test_product_is_continuous_where_a_closed_form_takes_over():
    p, q = mc.Poissons([[0.0], [0.4], [30.0], [900.0]]), mc.Poissons([[1.1], [28.0], [1e4]])
    at_one = p.log_product(q, rho=1.0)
    for rho in (1 - 1e-9, 1 + 1e-9):
        assert_allclose(p.log_product(q, rho=rho), at_one, rtol=1e-8, atol=1e-8)


def test_missing_counts_are_marginalised():
    p = mc.Poissons([[1.0, 4.0], [2.0, 0.5]])
    x = np.array([[2.0, np.nan], [np.nan, np.nan], [1.0, 3.0]])
    assert_allclose(p.log_prob(x)[:, 0], mc.Poissons(p.rate[:, :1]).log_prob([[2.0]])[:, 0])
    assert_allclose(p.log_prob(x)[:, 1], 0)
    assert_allclose(p.fisher_scores(x)[0], [[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    sets = [x, np.array([[0.0, 1.0]])]
    assert_allclose(mc.Poisson().fit_each(sets).rate, [[1.5, 3.0], [0.0, 1.0]])
    assert_allclose(mc.Poisson(prior="pooled").fit_each([*sets[:1], x[:1]]).rate[1], [(2 + 5 / 3) / 2, 3.0])
    with pytest.raises(ValueError, match=r"has no observation of coordinate 1.*use prior='pooled'"):
        mc.Poisson().fit_each(x)


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ([[1.0, -2.0]], r"rate must be 0 or more.*; got -2.0 at index \(0, 1\)"),
        ([[np.nan]], r"must be 0 or more, and finite.*; got nan"),
        ([[np.inf]], r"must be 0 or more, and finite.*; got inf"),
        (3.0, r"rate must have .* last axis; got shape \(\)"),
        (np.zeros((2, 0)), r"rate must have .* last axis; got shape \(2, 0\)"),
    ],
)
def test_bad_rates(rate, message):
    with pytest.raises(ValueError, match=message):
        mc.Poissons(rate)


def test_bad_data():
    p = mc.Poissons([[1.0, 2.0]])
    with pytest.raises(TypeError, match="got an array of dtype object"):
        mc.Poissons(np.array([["a", None]], dtype=object))
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(mc.Poissons([[1.0]]))
    with pytest.raises(ValueError, match=r"shape \(T, 2\), one row per point; got \(1, 3\)"):
        p.log_prob(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"Negative values in data passed to Poissons: document 1 has the count -1.5"):
        p.log_prob([[0, 0], [1, -1.5]])
    with pytest.raises(ValueError, match="Negative values in data passed to Poisson: document 1 has the count -3"):
        mc.Poisson().fit_each([[1, 2], [0, -3]])
    with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 3|3 features"):
        mc.Poisson().fit([[1, 2]]).fit_each([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"prior does not suit Poisson: .*differ in dimension"):
        mc.Poisson(prior=mc.Poissons([[1.0]])).fit_each([[1, 2]])
    with pytest.raises(TypeError, match="Poisson requires vectors; got symbols"):
        mc.Poisson().fit_each(["ab", "c"])


def test_dual_divergence_of_large_and_of_vanishing_rates():
    mpmath = pytest.importorskip("mpmath")
    rates = [0.0, 1e-300, 0.3, 0.3000001, 0.9, 4.0, 1e14, 1e14 + 1e7, 3e14, 1e300]

    def exact(a, b):
        with mpmath.workdps(400):
            a, b = mpmath.mpf(a), mpmath.mpf(b)
            f = [x * mpmath.log(x) if x > 0 else mpmath.mpf(0) for x in (a, b, (a + b) / 2)]
            return float((f[0] + f[1]) / 2 - f[2])

    p = mc.Poissons(np.array(rates)[:, None])
    assert_allclose(p.dual_divergence(p), [[exact(a, b) for b in rates] for a in rates], rtol=1e-12)
    assert_allclose(np.exp(-p[6:7].dual_divergence(p[7:8])), np.exp(-0.125), rtol=1e-7)


def test_an_empty_datum_gets_the_prior_even_of_strength_zero():
    sets = [np.array([[1.0, 2.0], [3.0, 2.0]]), np.zeros((0, 2))]
    assert_allclose(mc.Poisson(prior="pooled", prior_strength=0).fit_each(sets).rate, [[2, 2], [2, 2]])


@pytest.mark.parametrize("rho", [0.2, 0.7, 2.0])
def test_products_of_any_power_against_mpmath(rho):
    """Small and large rates together: every one has its own range of terms, and large ones a stride."""
    mpmath = pytest.importorskip("mpmath")
    rates = np.array([0.0, 1e-9, 0.3, 15.7, 16.2, 63.0, 255.5, 258.0, 719.0, 1e4])
    found = _series(rates, rho)
    with mpmath.workdps(30):
        for rate, value in zip(rates[1:], found[1:], strict=True):
            m = mpmath.mpf(float(rate))
            width = int(15 * math.sqrt(rate / rho)) + 40
            log = mpmath.log(m)
            first = max(0, int(rate) - width)
            term = first * log - m - mpmath.loggamma(first + 1)
            total = mpmath.mpf(0)
            for n in range(first, int(rate) + width):
                total += mpmath.exp(2 * rho * term)
                term += log - mpmath.log(n + 1)
            assert abs(value - float(mpmath.log(total))) <= 2e-14 * max(1, abs(value)), rate
    assert found[0] == 0
    each = np.concatenate([_series(rates[i : i + 1], rho) for i in range(len(rates))])
    assert_allclose(found, each, rtol=1e-15)
