"""Bernoullis and Bernoulli against sums over all 0/1 vectors."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer._array import namespace
from mercer.testing.families import EstimatorContract, FamilyContract


class TestBernoullis(FamilyContract):
    sharp = (60.0, 0.0, 1e-12)

    def members(self, seed=0, shape=(3,)):
        return mc.families.Bernoullis(np.random.default_rng(seed).uniform(0.05, 0.95, size=(*shape, 3)))

    def nodes(self):
        return np.array(list(itertools.product([0.0, 1.0], repeat=3))), np.ones(8)

    def parameters(self, p):
        return np.log(p.probability / (1 - p.probability))

    def build(self, theta):
        return mc.families.Bernoullis(1 / (1 + namespace(theta).exp(-theta)))

    def edge(self):
        return mc.families.Bernoullis([[0.0, 0.4, 1.0], [0.3, 0.6, 0.2], [1.0, 0.4, 1.0], [0.0, 0.0, 0.0]])


class TestBernoulli(EstimatorContract):
    def estimator(self, **parameters):
        return mc.Bernoulli(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.integers(0, 2, size=(n, 3)).astype(float) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 3))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_one_coordinate_is_a_categorical_of_two(rho):
    """T-6; the mean map too: symbols are one-hot, so their gamma is half."""
    g = np.array([0.1, 0.5, 1.0])
    p, c = mc.families.Bernoullis(g[:, None]), mc.Categoricals(np.stack([1 - g, g], axis=-1))
    assert_allclose(p.log_product(p, rho), c.log_product(c, rho), rtol=1e-12, atol=1e-15)
    assert_allclose(p.log_mean_map(p, rho), c.log_mean_map(c, rho / 2), rtol=1e-12, atol=1e-15)
    assert_allclose(p.dual_divergence(p), c.dual_divergence(c), atol=1e-14)
    assert_allclose(p.kl(p[:2]), c.kl(c[:2]), atol=1e-14)


def test_gradient_is_finite_where_an_answer_is_certain():
    torch = pytest.importorskip("torch")
    g = torch.tensor([[0.0, 1.0, 0.3]], dtype=torch.float64, requires_grad=True)
    mc.families.Bernoullis(g).log_product(
        mc.families.Bernoullis([[0.2, 0.5, 0.4]]).with_mean_parameters(g.detach()), 0.5
    ).sum().backward()
    assert torch.isfinite(g.grad).all()


def test_missing_answers_are_marginalised():
    p = mc.families.Bernoullis([[0.2, 0.7], [0.5, 1.0]])
    x = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 1.0]])
    assert_allclose(p.log_prob(x)[:, 0], np.log(p.probability[:, 0]))
    assert_allclose(p.log_prob(x)[:, 1], 0)
    assert_allclose(p.fisher_scores(x)[0], [[0.8, 0.0], [0.0, 0.0], [-0.2, 0.3]])
    assert_allclose(mc.Bernoulli().fit_each([x, x[2:]]).probability, [[0.5, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"has no observation of coordinate 1.*use prior='pooled'"):
        mc.Bernoulli().fit_each(x)


def test_threshold():
    x = np.array([[-1.0, 3.0], [0.5, np.nan], [2.0, -2.0]])
    sets = [x, x[:1]]
    assert_array_equal(mc.Bernoulli(threshold=0.5).fit_each(sets).probability, [[1 / 3, 0.5], [0, 1]])
    with pytest.raises(ValueError, match=r"got -1.0 at sequence 0 \(point 0\), column 0. Use threshold=0"):
        mc.Bernoulli().fit_each(sets)
    with pytest.raises(ValueError, match=r"must be 0 or 1.*; got 2.0 at row 1, column 0"):
        mc.Bernoulli().fit_each([[0, 1], [2, 0]])
    with pytest.raises(ValueError, match=r"threshold must be .*; got 'high'"):
        mc.Bernoulli(threshold="high").fit_each(x)


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ([[0.5, 1.2]], r"probability must be between 0 and 1.*; got 1.2 at index \(0, 1\)"),
        ([[-0.1]], r"must be between 0 and 1.*; got -0.1"),
        ([[np.nan]], r"must be between 0 and 1.*; got nan"),
        (0.5, r"probability must have .* last axis; got shape \(\)"),
    ],
)
def test_bad_probabilities(probability, message):
    with pytest.raises(ValueError, match=message):
        mc.families.Bernoullis(probability)


def test_bad_data():
    p = mc.families.Bernoullis([[0.5, 0.5]])
    with pytest.raises(ValueError, match="Bernoullis must be 0 or 1, or NaN where missing"):
        p.log_prob([[0.0, 2.0]])
    with pytest.raises(ValueError, match=r"Points must have shape \(T, 2\)"):
        p.log_prob([[0.0]])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(mc.families.Bernoullis([[0.5]]))


@pytest.mark.parametrize(
    ("model", "bad"),
    [
        (mc.families.Bernoullis([[0.2, 0.5], [0.3, 0.6]]), 5.0),
        (mc.Poissons([[0.2, 0.5], [0.3, 0.6]]), -1.0),
        (mc.Multinomials([[0.5, 0.5], [0.4, 0.6]]), np.nan),
        (mc.Multinomials([[0.5, 0.5], [0.4, 0.6]]), -1.0),
    ],
)
@pytest.mark.parametrize("method", ["log_prob", "fisher_scores"])
def test_points_are_checked_alike(model, bad, method):
    ask = getattr(model, method)
    for x in (np.zeros((2, 1)), np.zeros((2, 3)), np.zeros(2), 1.0):
        with pytest.raises(ValueError, match=r"Points must have shape \(T, 2\)"):
            ask(x)
        with pytest.raises(ValueError, match=r"Points must have shape \(T, 2\)"):
            getattr(model[0], method)(x)
    with pytest.raises(ValueError, match=r"must be 0 or 1|Negative values|contains NaN"):
        ask([[bad, 1.0]])


def test_log_product_of_small_probabilities():
    p = mc.families.Bernoullis([[1e-8], [1.0], [0.0]])
    expected = np.array([[50 * 2 * np.log1p(-1e-8), 50 * np.log(1e-8), 50 * np.log1p(-1e-8)]])
    assert_allclose(p[:1].log_product(p, rho=50.0), expected, rtol=1e-12)
    p = mc.families.Bernoullis([[1e-200], [1.0], [0.0]])
    assert_allclose(p[:2].log_product(p[1:], rho=2.0), [[2 * np.log(1e-200), 0.0], [0.0, -np.inf]], atol=1e-15)
    g, h = 0.3, 0.8  # away from the border: the formula itself
    value = mc.families.Bernoullis([[g]]).log_product(mc.families.Bernoullis([[h]]), rho=3.0)
    assert_allclose(value, [[np.log((g * h) ** 3 + ((1 - g) * (1 - h)) ** 3)]], rtol=1e-13)


def test_log_product_has_gradients_at_the_border():
    torch = pytest.importorskip("torch")
    p = torch.tensor([[0.3, 0.9], [0.6, 1e-9]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda p: mc.families.Bernoullis(p[:1]).log_product(mc.families.Bernoullis(p), rho=3.0), (p,), eps=1e-11
    )
    edge = torch.tensor([[0.0], [1.0], [0.4]], dtype=torch.float64, requires_grad=True)
    value = mc.families.Bernoullis(edge).log_product(mc.families.Bernoullis(edge), rho=3.0)
    value[torch.isfinite(value)].sum().backward()
    assert bool(torch.isfinite(edge.grad).all())


@pytest.mark.parametrize("gamma", [500.0, 602.0, 603.0, 900.0])
def test_mean_map_of_a_large_gamma(gamma):
    p = mc.families.Bernoullis([[0.0, 0.5], [1.0, 0.5]])
    assert_allclose(p.log_mean_map(p, gamma=gamma), np.log(0.5) - gamma * (1 - np.eye(2)), rtol=1e-14)
