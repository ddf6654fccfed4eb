"""Geometrics and Geometric against sums over all counts."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mercer._array import namespace
from mercer.families.geometric import Geometric, Geometrics
from mercer.testing.families import EstimatorContract, FamilyContract


class TestGeometrics(FamilyContract):
    sharp = (60.0, 0.0, 1e-12)

    def members(self, seed=0, shape=(3,)):
        return Geometrics(np.random.default_rng(seed).uniform(0.4, 0.95, size=(*shape, 2)))

    def nodes(self):
        count = np.arange(120.0)  # of 0.6^(0.3 x) the rest is below 1e-15 of what enters a product twice
        x = np.stack(np.meshgrid(count, count, indexing="ij"), axis=-1).reshape(-1, 2)
        return x, np.ones(len(x))

    def expected_base_kernel(self, p, q, gamma):
        count = np.arange(120.0)
        k = np.exp(-gamma * (count[:, None] - count) ** 2)
        value = 1.0
        for i in range(2):
            a, b = (r.probability[:, i : i + 1] * (1 - r.probability[:, i : i + 1]) ** count for r in (p, q))
            value = value * (a @ k @ b.T)
        return value

    def parameters(self, p):
        return np.log1p(-p.probability)

    def build(self, theta):
        return Geometrics(-namespace(theta).expm1(theta))

    def edge(self):
        return Geometrics([[1.0, 0.5], [0.6, 1.0], [1.0, 1.0], [0.7, 0.4]])


class TestGeometric(EstimatorContract):
    def estimator(self, **parameters):
        return Geometric(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.geometric(0.3, size=(n, 2)) - 1.0 for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


def test_against_scipy_which_counts_from_one():
    p, x = Geometrics([[0.7], [0.01]]), np.arange(50.0)[:, None]
    assert_allclose(p.log_prob(x), stats.geom.logpmf(x[:, 0] + 1, p.probability), rtol=1e-12)
    assert p.sample(1000, random_state=0).min() == 0


@pytest.mark.parametrize("gamma", [pytest.param(1e-4, marks=pytest.mark.slow), 0.05, 1.0, 30.0])
def test_mean_map_of_all_probabilities(gamma):
    chance = np.array([[1.0], [1 - 1e-12], [0.7], [0.2], [0.01]])
    p, n = Geometrics(chance), np.arange(4000.0)
    found = np.exp(p.log_mean_map(p, gamma=gamma))
    mass = chance * (1 - chance) ** n
    k = np.exp(-gamma * (n[:, None] - n) ** 2)
    assert_allclose(found, mass @ k @ mass.T, rtol=1e-10)
    assert_array_equal(np.exp(p[1:3].log_mean_map(p[1:3], gamma=gamma)), found[1:3, 1:3])  # whatever stands beside


def test_mean_map_that_is_too_wide():
    with pytest.raises(ValueError, match=r"gamma = 1e-08 and a probability of 0.0001 sums over 66\d+ .* more than"):
        Geometrics([[1e-4]]).log_mean_map(Geometrics([[0.5]]), gamma=1e-8)
    assert np.isfinite(Geometrics([[0.5]]).log_mean_map(Geometrics([[0.5]]), gamma=1e-8)).all()


def test_extreme_probabilities():
    """Large means, and means near zero, keep their digits."""
    mpmath = pytest.importorskip("mpmath")
    means = [0.0, 1e-12, 0.3, 5.0, 1e8, 1.3e8]
    p = Geometrics(1 / (1 + np.array(means)[:, None]))
    with mpmath.workdps(60):
        exact = [1 / mpmath.mpf(float(v)) - 1 for v in p.probability[:, 0]]

        def dual(m):
            return m * mpmath.log(m) - (1 + m) * mpmath.log(1 + m) if m > 0 else mpmath.mpf(0)

        for (i, a), (j, b) in itertools.product(enumerate(exact), repeat=2):
            psi = (dual(a) + dual(b)) / 2 - dual((a + b) / 2)
            assert_allclose(p.dual_divergence(p)[i, j], float(psi), rtol=1e-9, atol=1e-15)
            for rho in (0.5, 2.0):
                p1, p2 = 1 / (1 + a), 1 / (1 + b)
                k = rho * mpmath.log(p1 * p2) - mpmath.log(1 - ((1 - p1) * (1 - p2)) ** rho)
                assert_allclose(p.log_product(p, rho)[i, j], float(k), rtol=1e-11, atol=1e-12)
    assert np.all(np.diagonal(p.dual_divergence(p)) == 0)


def test_missing_counts_are_marginalised():
    p = Geometrics([[0.5, 0.2], [0.25, 1.0]])
    x = np.array([[2.0, np.nan], [np.nan, np.nan], [1.0, 3.0]])
    assert_allclose(p.log_prob(x)[:, 0], Geometrics(p.probability[:, :1]).log_prob([[2.0]])[:, 0])
    assert_array_equal(p.log_prob(x)[:, 1], 0)
    assert_array_equal(p.log_prob(x)[1, 2], -np.inf)
    assert_allclose(p.fisher_scores(x)[0], [[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    assert_allclose(Geometric().fit_each([x]).probability, [[1 / 2.5, 1 / 4]])


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ([[1.0, 0.0]], r"probability must be above 0 and at most 1.*; got 0.0 at index \(0, 1\)"),
        ([[1.5]], r"must be above 0.*; got 1.5"),
        ([[1e-320]], r"must be above 0 .*where the mean count \(1 - p\) / p is infinite.*; got 1e-320"),
        ([[np.nan]], r"must be above 0.*; got nan"),
        (0.5, r"probability must have .* last axis; got shape \(\)"),
        (np.zeros((2, 0)), r"probability must have .* last axis; got shape \(2, 0\)"),
    ],
)
def test_bad_probabilities(probability, message):
    with pytest.raises(ValueError, match=message):
        Geometrics(probability)


def test_bad_data():
    p = Geometrics([[0.5, 0.2]])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(Geometrics([[1.0]]))
    with pytest.raises(ValueError, match=r"shape \(T, 2\), one row per point; got \(1, 3\)"):
        p.log_prob(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"Negative values in data passed to Geometrics: document 1 has the count -1"):
        p.log_prob([[0, 0], [1, -1]])
    with pytest.raises(ValueError, match="Negative values in data passed to Geometric: document 1 has the count -3"):
        Geometric().fit_each([[1, 2], [0, -3]])


def test_rare_successes():
    p = Geometrics([[1e-305, 1.0], [3e-305, 0.5]])
    for values in (p.mean_parameters, p.dual_divergence(p), p.kl(p[1:]), p.log_product(p), p.log_prob([[1e300, 0.0]])):
        assert np.all(np.isfinite(values))
    assert_allclose(Geometrics([[1e-305]]).dual_divergence(Geometrics([[3e-305]])), np.log(2 / np.sqrt(3)), rtol=1e-10)
    draws = Geometrics([[1e-25, 0.5]]).sample(4000, random_state=0)[0]
    assert_allclose(draws.mean(axis=0), [1e25, 1.0], rtol=5 / np.sqrt(4000) * np.sqrt(2))
    assert_array_equal(draws[:, 1], Geometrics([[1e-12, 0.5]]).sample(4000, random_state=0)[0, :, 1])
    with pytest.raises(ValueError, match=r"got 1.7e\+308 at row 1, column 0. Divide the data"):
        Geometric().fit([[1.0], [1.7e308]])


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
def test_gradients_at_a_certain_success(rho):
    torch = pytest.importorskip("torch")
    p = torch.tensor([[1.0], [0.4]], dtype=torch.float64, requires_grad=True)
    batch = Geometrics._make(probability=p)
    for value in (batch.log_product(batch, rho=rho)[0, 1], batch.kl(batch)[0, 1], batch.dual_divergence(batch)[0, 1]):
        (slope,) = torch.autograd.grad(value, p)
        assert torch.all(torch.isfinite(slope))
    (slope,) = torch.autograd.grad(batch.log_product(batch, rho=rho)[0, 1], p)
    if rho >= 1:  # below, the slope at 1 is infinite
        step, q = 1e-7, np.array([[0.4]])
        near = [Geometrics([[1 - k * step]]).log_product(Geometrics(q), rho=rho)[0, 0] for k in range(3)]
        assert_allclose(slope[0, 0], (3 * near[0] - 4 * near[1] + near[2]) / (2 * step), rtol=1e-6)
