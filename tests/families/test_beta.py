"""Betas and their estimator against quadrature; what they share with Dirichlets is in test_dirichlet.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import mercer as mc
from mercer.families.beta import Beta, Betas
from mercer.testing.families import EstimatorContract, FamilyContract


def logistic(reach, step):
    """Fractions, evenly in log odds, with 1 - x and the weights of integrals over x."""
    u = np.arange(-reach, reach + step / 2, step)
    x, rest = special.expit(u), special.expit(-u)
    return x, rest, step * x * rest


class TestBetas(FamilyContract):
    mean_map = False
    dual_always = False

    @staticmethod
    def parameters_of(p):
        return p.natural_parameters  # the same bits in every library, unlike digamma

    def members(self, seed=0, shape=(3,)):
        rng = np.random.default_rng(seed)
        return Betas(rng.uniform(1, 5, size=(*shape, 2)), rng.uniform(1, 5, size=(*shape, 2)))

    def nodes(self):
        x, _, w = logistic(24, 0.22)
        points = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
        return points, (w[:, None] * w).reshape(-1)

    def parameters(self, p):
        return p.natural_parameters

    def build(self, theta):
        d = theta.shape[-1] // 2
        return Betas(theta[..., :d], theta[..., d:])


class TestBeta(EstimatorContract):
    exact = {"floor": 0.0}  # noqa: RUF012

    def estimator(self, **parameters):
        return Beta(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.beta([3.0, 0.5], [1.0, 2.0], size=(n, 2)) for n in (3, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return np.concatenate([np.log(sample), np.log1p(-sample)], axis=1).sum(axis=0), len(sample)


def test_betas_found_no_counterexample():
    rng = np.random.default_rng(0)
    p = Betas(10 ** rng.uniform(-3, 2, size=(60, 1)), 10 ** rng.uniform(-3, 2, size=(60, 1)))
    for t in (0.01, 0.1, 1.0, 10.0):
        assert np.linalg.eigvalsh(np.exp(-t * p.dual_divergence(p)))[0] > -1e-10


@pytest.mark.parametrize("prior", [None, "pooled"])
def test_ones_in_single_precision(prior):
    p = mc.families.Beta(smallest=1e-9, prior=prior).fit_each(np.array([[1.0], [0.0], [0.5]], dtype=np.float32))
    assert np.isfinite(p.a).all()
    assert np.isfinite(p.b).all()
    assert np.isfinite(mc.families.Beta(smallest=1e-17).fit_each([[1.0]]).a).all()


def test_against_scipy():
    q, y = Betas([[0.3], [10.0]], [[2.0], [0.5]]), np.linspace(0.01, 0.99, 20)[:, None]
    assert_allclose(q.log_prob(y), stats.beta.logpdf(y[:, 0], q.a, q.b), rtol=1e-10, atol=1e-12)


def test_fit_maximizes_the_likelihood():
    y = np.random.default_rng(1).beta(2.0, 0.7, size=(300, 1))
    a, b, *_ = stats.beta.fit(y[:, 0], floc=0, fscale=1)
    found = Beta(floor=0).fit(y).model_
    assert_allclose([found.a[0, 0], found.b[0, 0]], [a, b], rtol=1e-4)


def test_products_that_diverge_are_refused():
    q = Betas([[1.0]], [[0.2]])
    with pytest.raises(ValueError, match=r"Betas at rho = 2 is infinite for concentrations up to 0.75; got 0.2"):
        q.log_product(q, rho=2.0)


def test_one_point_has_a_distribution():
    b = Beta().fit_each([[0.2], [0.9]])
    assert_allclose(b.a + b.b, 500, rtol=0.01)
    assert_allclose(b.a / (b.a + b.b), [[0.2], [0.9]], atol=2e-3)
    degenerate = Beta(floor=0).fit_each([[0.2]]).a
    assert np.all(np.isfinite(degenerate))
    assert np.all(degenerate > 0)


def test_zeros_and_ones():
    y = np.array([[0.0, 1.0], [0.5, 0.25]])
    with pytest.raises(ValueError, match=r"got 0.0 at row 0, column 0. .* smallest=1e-3"):
        Beta().fit(y)
    assert_allclose(
        Beta(whole=100, smallest=0.01).fit([100 * y, y]).model_.a, Beta(smallest=0.01).fit([y, y / 100]).model_.a
    )
    assert_allclose(Beta(smallest=0.01).fit(y).model_.a, Beta().fit(np.clip(y, 0.01, 0.99)).model_.a)


def test_missing_fractions_are_marginalized():
    p = Betas([[1.0, 4.0], [2.0, 0.5]], [[1.0, 2.0], [2.0, 1.0]])
    x = np.array([[0.3, np.nan], [np.nan, np.nan], [0.1, 0.6]])
    assert_allclose(p.log_prob(x)[:, 0], Betas(p.a[:, :1], p.b[:, :1]).log_prob([[0.3]])[:, 0])
    assert_array_equal(p.log_prob(x)[:, 1], 0)
    assert_array_equal(p.fisher_scores(x)[:, 1], 0)
    assert_allclose(Beta().fit_each([x]).a[0, 1], Beta().fit_each([[0.6]]).a[0, 0])


def test_small_concentrations_draw_points_inside():
    y = Betas([[1e-3]], [[1e-3]]).sample(1000, random_state=0)
    assert np.all((y > 0) & (y < 1))
    assert abs(y.mean() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Betas([[1.0]], [[-1.0]]), r"b must be positive.*; got -1.0 at index \(0, 0\)"),
        (lambda: Betas([[1.0, 2.0]], [[1.0]]), r"a and b .* same shape; got \(1, 2\) and \(1, 1\)"),
        (lambda: Betas(1.0, 1.0), r"a must have .* last axis; got shape \(\)"),
        (lambda: Beta(smallest=0.5).fit([[0.5]]), r"smallest must be .*; got 0.5"),
        (lambda: Beta().fit([[-0.5]]), "Negative values in data passed to Beta: row 0 has -0.5 in column 0"),
        (
            lambda: Beta().fit([[1.5]]),
            "got 1.5 at row 0, column 0. Use whole=100 for percentages",
        ),
        (lambda: Beta(whole=0).fit([[0.5]]), r"whole must be .*; got 0"),
        (
            lambda: Betas([[1.0]], [[1.0]]).log_prob([[1.0]]),
            "data of Betas must be fractions .* got 1.0 at row 0, column 0",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
