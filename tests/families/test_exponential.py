"""Exponentials and Exponential against quadrature."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import mercer as mc
from mercer.families._gaps import log_mean_gap
from mercer.families.exponential import Exponential, Exponentials
from mercer.testing.families import EstimatorContract, FamilyContract


def half_line(low, high, step):
    """Points of the half line, evenly spaced in logarithms, and their weights: exact for what is smooth in log x."""
    x = np.exp(np.arange(low, high, step))
    return x, step * x


class TestExponentials(FamilyContract):
    sharp = (1e10, 0.5 * np.log(1e10 / np.pi), 1e-4)

    def members(self, seed=0, shape=(3,)):
        return Exponentials(np.random.default_rng(seed).uniform(0.5, 3, size=(*shape, 1)))

    def nodes(self):
        x, w = np.polynomial.legendre.leggauss(60)
        edges = np.concatenate([np.arange(0, 10, 0.5), np.arange(10, 250, 5.0)])
        widths = np.diff(edges)
        points = edges[:-1, None] + widths[:, None] * (x + 1) / 2
        return points.reshape(-1, 1), (widths[:, None] * w / 2).reshape(-1)

    def parameters(self, p):
        return -1 / p.scale

    def build(self, theta):
        return Exponentials(-1 / theta)


class TestExponential(EstimatorContract):
    def estimator(self, **parameters):
        return Exponential(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.exponential([3.0, 0.2], size=(n, 2)) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


def test_against_scipy():
    p, x = Exponentials([[0.7], [30.0]]), np.linspace(0, 50, 20)[:, None]
    assert_allclose(p.log_prob(x), stats.expon.logpdf(x[:, 0], scale=p.scale), rtol=1e-12)


@pytest.mark.parametrize("gamma", [1e-12, 1e-4, 1.0, 1e6])
def test_mean_map_of_all_scales(gamma):
    """GMMK-0: the difference of two exponentials is two-sided, whatever the scale beside the width of the kernel."""
    scales = np.array([[1e-3], [0.4], [7.0], [1e3]])
    p = Exponentials(scales)
    x, w = half_line(-60, 12, 0.02)
    one_side = np.array([np.sum(w * np.exp(-x / b - gamma * x**2)) for b in scales[:, 0]])
    truth = (one_side[:, None] + one_side) / (scales + scales.T)
    assert_allclose(np.exp(p.log_mean_map(p, gamma=gamma)), truth, rtol=1e-10)


def test_extreme_scales():
    """Ratios of 1e300 and neighbours of 1e-9 keep their digits."""
    mpmath = pytest.importorskip("mpmath")
    scales = [1e-150, 0.3, 0.3 * (1 + 1e-9), 4.0, 1e150]
    p = Exponentials(np.array(scales)[:, None])
    with mpmath.workdps(60):
        for (i, a), (j, b) in itertools.product(enumerate(map(mpmath.mpf, scales)), repeat=2):
            gap = mpmath.log((a + b) / 2) - (mpmath.log(a) + mpmath.log(b)) / 2
            assert_allclose(p.dual_divergence(p)[i, j], float(gap), rtol=1e-7, atol=0)
            kl = a / b - 1 - mpmath.log(a / b)
            if abs(i - j) != 1 or 0 in (i, j) or 4 in (i, j):
                assert_allclose(p.kl(p)[i, j], float(kl), rtol=1e-12, atol=1e-15)
            for rho in (0.5, 2.0):
                k = -mpmath.log(rho * (1 / a + 1 / b)) - rho * mpmath.log(a * b)
                assert_allclose(p.log_product(p, rho)[i, j], float(k), rtol=1e-13, atol=1e-13)
    assert log_mean_gap(np.array([2.0]), np.array([2.0]))[0] == 0


def test_missing_waits_are_marginalised():
    p = Exponentials([[1.0, 4.0], [2.0, 0.5]])
    x = np.array([[2.0, np.nan], [np.nan, np.nan], [1.0, 3.0]])
    assert_allclose(p.log_prob(x)[:, 0], Exponentials(p.scale[:, :1]).log_prob([[2.0]])[:, 0])
    assert_array_equal(p.log_prob(x)[:, 1], 0)
    assert_allclose(p.fisher_scores(x)[0], [[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    assert_allclose(Exponential().fit_each([x]).scale, [[1.5, 3.0]])
    with pytest.raises(ValueError, match="has no observation of coordinate"):
        Exponential().fit_each(x)


def test_zeros_have_the_least_scale():
    """The floor is a fraction of the pooled mean, rounded, of each coordinate by itself."""
    x = np.array([[0.0, 0.0], [8.0, 0.0], [4.0, 0.0]])
    assert_allclose(Exponential().fit_each(x).scale, [[0.004, 1e-3], [8.0, 1e-3], [4.0, 1e-3]])
    assert_allclose(Exponential(floor=0.5).fit_each(x[:, :1]).scale, [[2.0], [8.0], [4.0]])
    K = mc.ProbabilityProduct(Exponential())(x)
    assert np.all(np.isfinite(K))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ([[1.0, 0.0]], r"scale must be positive and finite.*; got 0.0 at index \(0, 1\)"),
        ([[np.nan]], r"must be positive.*; got nan"),
        ([[np.inf]], r"must be positive and finite.*; got inf"),
        (3.0, r"scale must have .* last axis; got shape \(\)"),
        (np.zeros((2, 0)), r"scale must have .* last axis; got shape \(2, 0\)"),
    ],
)
def test_bad_scales(scale, message):
    with pytest.raises(ValueError, match=message):
        Exponentials(scale)


def test_bad_data():
    p = Exponentials([[1.0, 2.0]])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(Exponentials([[1.0]]))
    with pytest.raises(ValueError, match=r"shape \(T, 2\), one row per point; got \(1, 3\)"):
        p.log_prob(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"Negative values in data passed to Exponentials: row 1 has -1.5 in column 1"):
        p.log_prob([[0, 0], [1, -1.5]])
    with pytest.raises(ValueError, match=r"Negative values in data passed to Exponential: .*1.* \(point 0\) has -3.0"):
        Exponential().fit_each([np.ones((2, 1)), -3 * np.ones((1, 1))])
    with pytest.raises(ValueError, match="Infinite values in data passed to Exponentials"):
        p.log_prob([[0, np.inf]])
    with pytest.raises(ValueError, match=r"floor must be .*; got 0"):
        Exponential(floor=0).fit([[1.0]])
    with pytest.raises(ValueError, match=r"3 features|3 coordinates"):
        Exponential().fit([[1, 2]]).fit_each([[1, 2, 3]])


def test_data_at_the_ends_of_the_range():
    X = [np.ones((2, 2)), np.array([[1.0, 2.0], [1.0, 1.5e308]])]
    with pytest.raises(ValueError, match=r"got 1.5e\+308 at sequence 1 \(point 1\), column 1. Divide the data"):
        Exponential().fit_each(X)
    with pytest.raises(ValueError, match=r"at most 1e\+300, .* got 1.7e\+308 at row 1, column 0"):
        Exponential().fit([[1.0], [1.7e308]])
    assert_allclose(Exponential().fit([[1e300], [2e299]]).model_.scale, 6e299)
    p = Exponential().fit_each([np.array([[0.0]]), np.array([[5e-324]])])
    assert np.all(np.isfinite(p.natural_parameters))
    assert np.all(np.isfinite(p.log_product(p)))


def test_scales_at_the_ends_of_the_range():
    p = Exponentials([[1e308], [1.7e308]])
    with np.errstate(all="raise", under="ignore"):
        assert_allclose(np.exp(p.log_product(p, 0.5))[0, 1], 2 * np.sqrt(1.7) / 2.7, rtol=1e-12)
        # E exp(-(x - y)^2) is sqrt(pi) / (a + b), where nearly all differences are large
        truth = np.log(np.pi) / 2 - np.log(1e308) - np.log([[2.0, 2.7], [2.7, 3.4]])
        assert_allclose(p.log_mean_map(p, 1.0), truth, rtol=1e-13)
        tiny = Exponentials([[1e-300], [3e-300]])
        assert np.array_equal(tiny.log_mean_map(tiny, 1e-20), np.zeros((2, 2)))  # no difference counts
        one_sided = np.log(np.pi) / 2 - np.log(2e-10) - np.log([1e308, 1.7e308])  # y is beyond any x
        assert_allclose(tiny.log_mean_map(p, 1e-20), [one_sided] * 2, rtol=1e-13)
