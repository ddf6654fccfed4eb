"""Gammas and Gamma against quadrature."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import mercer as mc
from mercer._array import namespace
from mercer.families._gamma_functions import binet, gap, gap_slope, solve_shape
from mercer.families.gamma import Gamma, Gammas
from mercer.testing.families import EstimatorContract, FamilyContract


class TestGammas(FamilyContract):
    mean_map = False
    dual_always = False

    @staticmethod
    def parameters_of(p):
        return p.natural_parameters  # the same bits in every library, unlike digamma

    def members(self, seed=0, shape=(3,)):
        rng = np.random.default_rng(seed)
        return Gammas(rng.uniform(1, 6, size=(*shape, 1)), rng.uniform(0.5, 2, size=(*shape, 1)))

    def nodes(self):
        """The half line, evenly in logarithms: what is smooth there is integrated exactly."""
        x = np.exp(np.arange(-45, 6, 0.05))
        return x[:, None], 0.05 * x

    def parameters(self, p):
        return namespace(p.scale).concat([p.concentration, -1 / p.scale], axis=-1)

    def build(self, theta):
        d = theta.shape[-1] // 2
        return Gammas(theta[..., :d], -1 / theta[..., d:])


class TestTwoGammas(TestGammas):
    """Two coordinates: what is derived from mean parameters knows which are logarithms."""

    def members(self, seed=0, shape=(3,)):
        rng = np.random.default_rng(seed)
        return Gammas(rng.uniform(1, 4, size=(*shape, 2)), rng.uniform(0.5, 2, size=(*shape, 2)))

    def nodes(self):
        u = np.arange(-28, 4.9, 0.15)
        x = np.stack(np.meshgrid(np.exp(u), np.exp(u), indexing="ij"), axis=-1).reshape(-1, 2)
        return x, 0.15**2 * x[:, 0] * x[:, 1]


class TestGamma(EstimatorContract):
    exact = {"floor": 0.0}  # noqa: RUF012

    def estimator(self, **parameters):
        return Gamma(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.gamma([3.0, 0.5], [1.0, 4.0], size=(n, 2)) for n in (3, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return np.concatenate([np.log(sample), sample], axis=1).sum(axis=0), len(sample)


def test_against_scipy():
    p, x = Gammas([[0.02], [0.7], [30.0], [1e7]], [[3.0], [1.0], [0.1], [1e-6]]), np.geomspace(1e-9, 50, 40)[:, None]
    assert_allclose(p.log_prob(x), stats.gamma.logpdf(x[:, 0], p.concentration, scale=p.scale), rtol=1e-9, atol=1e-7)


def test_functions_about_log_gamma():
    """Both sides of where Stirling's series takes over, against arbitrary precision; the solver inverts."""
    mpmath = pytest.importorskip("mpmath")
    for a in (1e-8, 1e-3, 0.3, 1.0, 3.0, 15.99, 16.0, 40.0, 1e4, 1e9):
        with mpmath.workdps(50):
            m = mpmath.mpf(a)
            truth = [
                mpmath.loggamma(m) - (m - 0.5) * mpmath.log(m) + m - mpmath.log(2 * mpmath.pi) / 2,
                mpmath.log(m) - mpmath.digamma(m),
                1 / m - mpmath.polygamma(1, m),
            ]
            truth = [float(v) for v in truth]
        found = [float(f(np.array([a]))[0]) for f in (binet, gap, gap_slope)]
        assert_allclose(found, truth, rtol=1e-12)
        assert_allclose(solve_shape(np.array([truth[1]])), [a], rtol=1e-13)


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
def test_large_shapes_keep_their_digits(rho):
    """PPK-3.4 and the divergence in arbitrary precision, where the terms are 10^9 and the answer is 1."""
    mpmath = pytest.importorskip("mpmath")
    a, b = [0.9, 30.0, 1e8, 1.0001e8], [2.0, 0.1, 1e-8, 1e-8]
    p = Gammas(np.array(a)[:, None], np.array(b)[:, None])
    product, kl = p.log_product(p, rho), p.kl(p)
    with mpmath.workdps(60):
        law = [(mpmath.mpf(x), mpmath.mpf(y)) for x, y in zip(a, b, strict=True)]
        for (i, (s, t)), (j, (u, v)) in itertools.product(enumerate(law), repeat=2):
            shape, scale = rho * (s + u - 2) + 1, 1 / (rho * (1 / t + 1 / v))
            ends = [mpmath.loggamma(x) + x * mpmath.log(y) for x, y in ((s, t), (u, v))]
            truth = mpmath.loggamma(shape) + shape * mpmath.log(scale) - rho * sum(ends)
            assert_allclose(product[i, j], float(truth), rtol=1e-11, atol=1e-7)
            truth = (s - u) * mpmath.digamma(s) - mpmath.loggamma(s) + mpmath.loggamma(u)
            truth += u * (mpmath.log(v) - mpmath.log(t)) + s * (t - v) / v
            assert_allclose(kl[i, j], float(truth), rtol=1e-9, atol=1e-7)
    assert_allclose(np.diagonal(p.dual_divergence(p)), 0, atol=1e-14)


def test_products_that_diverge_are_refused():
    p = Gammas([[2.0], [0.3]], [[1.0], [1.0]])
    with pytest.raises(ValueError, match=r"at rho = 1 .* up to 0.5; got 0.3 for the distribution at index 1. Use rho"):
        p.log_product(p, rho=1.0)
    assert np.all(np.isfinite(p.log_product(p, rho=0.5)))
    assert np.all(np.isfinite(p.log_product(p, rho=0.7)))


def test_dual_divergence_is_negative_definite_as_far_as_one_sees():
    """DJS-5: no proof, but no negative eigenvalue either."""
    rng = np.random.default_rng(0)
    p = Gammas(10 ** rng.uniform(-2, 3, size=(60, 1)), 10 ** rng.uniform(-1, 1, size=(60, 1)))
    assert p.dual_psd("exp", 1.0) == "conditional"
    psi = p.dual_divergence(p)
    for t in (0.01, 0.1, 1.0, 10.0):
        assert np.linalg.eigvalsh(np.exp(-t * psi))[0] > -1e-12


def test_one_point_and_equal_points_have_a_law():
    """The floor: shape 1/(2 floor), the mean stays."""
    sets = [np.array([[3.0]]), np.full((5, 1), 7.0), np.array([[1.0], [2.0]])]
    for floor in (1e-3, 1e-2, 1e-6):
        p = Gamma(floor=floor).fit_each(sets)
        assert_allclose(p.concentration[:2, 0], 1 / (2 * floor), rtol=floor)
        assert_allclose((p.concentration * p.scale)[:, 0], [3.0, 7.0, 1.5], rtol=1e-10)
    p = Gamma(floor=0).fit_each(sets)
    assert np.all(np.isfinite(p.concentration))
    assert np.all(p.scale > 0)
    assert_allclose(p.concentration[2], Gamma(floor=1e-9).fit_each(sets).concentration[2], rtol=1e-6)


def test_zeros_need_a_smallest_number():
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match=r"got 0 at row 0, column 0. .* smallest=1e-3"):
        Gamma().fit_each(x)
    found = Gamma(smallest=0.01).fit(x).model_
    assert_allclose(found.concentration, Gamma().fit(np.maximum(x, 0.01)).model_.concentration)
    sets = [x, x + 1]
    assert_allclose(Gamma(smallest=0.01).fit_each(sets).scale[0], found.scale[0])
    assert np.isfinite(Gamma(smallest=0.01).fit(sets).score(sets))


def test_missing_numbers_are_marginalised():
    p = Gammas([[1.0, 4.0], [2.0, 0.5]], [[1.0, 2.0], [2.0, 1.0]])
    x = np.array([[2.0, np.nan], [np.nan, np.nan], [1.0, 3.0]])
    alone = Gammas(p.concentration[:, :1], p.scale[:, :1]).log_prob([[2.0]])[:, 0]
    assert_allclose(p.log_prob(x)[:, 0], alone)
    assert_array_equal(p.log_prob(x)[:, 1], 0)
    scores = p.fisher_scores(x)[0]
    assert_allclose(scores[0], [np.log(2) - special.digamma(1), 0, 1, 0], atol=1e-15)
    assert_array_equal(scores[1], 0)
    both = Gamma().fit_each([x]).scale[0]
    assert_allclose(both, [Gamma().fit_each([x[[0, 2], :1]]).scale[0, 0], Gamma().fit_each([x[2:, 1:]]).scale[0, 0]])


def test_gradients_where_a_coordinate_is_missing():
    torch = pytest.importorskip("torch")
    a, b = (torch.ones((2, 2), dtype=torch.float64, requires_grad=True) for _ in range(2))
    Gammas(2 * a, b).log_prob(torch.asarray([[1.5, float("nan")]], dtype=torch.float64)).sum().backward()
    assert torch.isfinite(a.grad).all()
    assert torch.all(a.grad[:, 1] == 0)


@pytest.mark.parametrize(
    ("concentration", "scale", "message"),
    [
        ([[1.0, 0.0]], [[1.0, 1.0]], r"concentration must be positive and finite.*; got 0.0 at index \(0, 1\)"),
        ([[1.0]], [[-1.0]], r"scale must be positive.*; got -1.0 at index \(0, 0\)"),
        ([[np.nan]], [[1.0]], r"must be positive.*; got nan"),
        ([[1.0, 1.0]], [[1.0]], r"concentration and scale .* same shape; got \(1, 2\) and \(1, 1\)"),
        (3.0, 1.0, r"concentration must have .* last axis; got shape \(\)"),
    ],
)
def test_bad_parameters(concentration, scale, message):
    with pytest.raises(ValueError, match=message):
        Gammas(concentration, scale)


def test_bad_data():
    p = Gammas([[1.0, 2.0]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(Gammas([[1.0]], [[1.0]]))
    with pytest.raises(ValueError, match=r"shape \(T, 2\), one row per point; got \(1, 3\)"):
        p.log_prob(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"Negative values in data passed to Gammas: row 1 has -1.5 in column 1"):
        p.log_prob([[1, 1], [1, -1.5]])
    with pytest.raises(ValueError, match="Gammas must be positive; got 0 at row 1, column 0"):
        p.log_prob([[1, 1], [0, 1]])
    with pytest.raises(ValueError, match=r"smallest must be .*; got 0"):
        Gamma(smallest=0).fit([[1.0]])
    with pytest.raises(ValueError, match=r"floor must be .*; got -1"):
        Gamma(floor=-1).fit([[1.0]])


def test_data_at_the_ends_of_the_range():
    with pytest.raises(ValueError, match=r"got 1.7e\+308 at row 1, column 0. Divide the data"):
        Gamma().fit([[1.0], [1.7e308]])
    with pytest.raises(ValueError, match=r"got 1e-310 at row 0, column 1. Multiply the data .* smallest=1e-300"):
        Gamma().fit([[1.0, 1e-310]])
    for x in ([[1e300], [2e299]], [[1e-300], [3e-300]]):
        p = Gamma().fit(x).model_
        assert_allclose(p.concentration * p.scale, np.mean(x, keepdims=True), rtol=1e-12)
        assert np.all(np.isfinite(p.natural_parameters))
        assert np.all(np.isfinite(p.log_prob(x)))


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_parameters_at_the_ends_of_the_range(rho):
    """PPK-3.4 and the density against arbitrary precision, without a warning."""
    mpmath = pytest.importorskip("mpmath")
    laws = [(2.0, 1e308), (2.0, 1.7e308), (3.0, 1e-308), (1e200, 1.0), (0.7, 1.0)]
    p = Gammas([[a] for a, _ in laws], [[b] for _, b in laws])
    with np.errstate(all="raise", under="ignore"):
        product, density = p.log_product(p, rho), p.log_prob(np.array([[1.0], [1e-3]]))
    with mpmath.workdps(700):
        laws = [(mpmath.mpf(a), mpmath.mpf(b)) for a, b in laws]
        for i, (a, b) in enumerate(laws):
            for j, (c, d) in enumerate(laws):
                shape, scale = rho * (a + c - 2) + 1, 1 / (rho * (1 / b + 1 / d))
                truth = mpmath.loggamma(shape) + shape * mpmath.log(scale)
                truth -= rho * sum(mpmath.loggamma(s) + s * mpmath.log(t) for s, t in ((a, b), (c, d)))
                assert_allclose(product[i, j], float(truth), rtol=1e-11, atol=1e-12)
            truth = -1 / b - a * mpmath.log(b) - mpmath.loggamma(a)
            assert_allclose(density[i, 0], float(truth), rtol=1e-12)


def test_a_kernel_names_the_datum_that_has_no_power():
    data = [np.array([[1.0], [1.1], [0.9]]), np.array([[1e-9], [1.0], [7.0]])]
    with pytest.raises(ValueError, match=r"at rho = 2 .* got 0.* for the distribution at index 1"):
        mc.ProbabilityProduct(Gamma(), rho=2.0)(data)


def test_a_parameter_that_is_no_number_is_named():
    with pytest.raises(TypeError, match=r"concentration .*got an array of dtype"):
        mc.families.Gammas([["a"]], [[1.0]])
    with pytest.raises(TypeError, match=r"MeanMap needs `log_mean_map`.* such as Gaussians"):
        mc.MeanMap()(mc.families.Gammas([[1.0]], [[1.0]]))
