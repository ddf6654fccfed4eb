"""Rayleighs and Rayleigh against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import mercer as mc
from mercer.families.rayleigh import Rayleigh, Rayleighs
from mercer.testing.families import EstimatorContract, FamilyContract


class TestRayleighs(FamilyContract):
    sharp = (1e10, 0.5 * np.log(1e10 / np.pi), 1e-4)

    def members(self, seed=0, shape=(3,)):
        return Rayleighs(np.random.default_rng(seed).uniform(0.5, 3, size=(*shape, 1)))

    def nodes(self):
        x, w = np.polynomial.legendre.leggauss(24)
        edges = np.concatenate([[0], 2.0 ** np.arange(-30, 0), np.arange(1, 41)])  # finer at 0, where x^0.3 bends
        widths = np.diff(edges)
        points = edges[:-1, None] + widths[:, None] * (x + 1) / 2
        return points.reshape(-1, 1), (widths[:, None] * w / 2).reshape(-1)

    def parameters(self, p):
        return -0.5 / p.scale**2

    def build(self, theta):
        return Rayleighs((-0.5 / theta) ** 0.5)


class TestRayleigh(EstimatorContract):
    def estimator(self, **parameters):
        return Rayleigh(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.rayleigh([3.0, 0.2], size=(n, 2)) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return (sample**2).sum(axis=0), len(sample)


def test_against_scipy():
    p, x = Rayleighs([[0.7], [30.0]]), np.linspace(0.1, 50, 20)[:, None]
    assert_allclose(p.log_prob(x), stats.rayleigh.logpdf(x[:, 0], scale=p.scale), rtol=1e-12)
    assert_allclose(Rayleigh().fit(x).model_.scale, stats.rayleigh.fit(x, floc=0)[1], rtol=1e-6)


def test_squares_are_exponential():
    """Kernels that do not see the coordinate, rho = 1/2 and divergences, are those of the squares."""
    p = Rayleighs([[1.0, 0.5], [2.0, 4.0], [0.1, 3.0]])
    q = mc.families.Exponentials(2 * p.scale**2)
    assert_allclose(p.log_product(p), q.log_product(q), atol=1e-13)
    assert_allclose(p.kl(p), q.kl(q), rtol=1e-12, atol=1e-13)
    assert_allclose(p.dual_divergence(p), q.dual_divergence(q), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma", [1e-12, 1e-4, 1.0, 1e6])
def test_mean_map_of_all_widths(gamma):
    """GMMK-2b: from nearly constant base kernels to nearly none, against 30 digits."""
    mpmath = pytest.importorskip("mpmath")
    scales = [0.4, 7.0]
    p = Rayleighs(np.array(scales)[:, None])
    with mpmath.workdps(30):
        for i, s in enumerate(map(mpmath.mpf, scales)):
            for j, t in enumerate(map(mpmath.mpf, scales)):
                a, b = 1 / (2 * s**2) + gamma, 1 / (2 * t**2) + gamma
                c = gamma / mpmath.sqrt(a * b)
                angle = mpmath.quad(lambda f, c=c: mpmath.sin(f) / (1 - c * mpmath.sin(f)) ** 2, [0, mpmath.pi / 2])
                truth = mpmath.log(angle / (4 * a * b * s**2 * t**2))
                if gamma <= 1:  # else the quadrature is not exact
                    assert_allclose(p.log_mean_map(p, gamma)[i, j], float(truth), rtol=1e-9, atol=1e-14)
    sharp = p.log_product(p, 1.0) + 0.5 * np.log(np.pi / gamma)
    if gamma == 1e6:
        assert_allclose(p.log_mean_map(p, gamma), sharp, atol=1e-4)


def test_extreme_scales():
    p = Rayleighs(np.array([[1e-140], [0.3], [0.3 * (1 + 1e-9)], [1e140]]))
    with np.errstate(all="raise", under="ignore"):
        for rho in (0.5, 1.0, 3.0):
            assert np.all(np.isfinite(p.log_product(p, rho)))
        assert np.all(np.isfinite(p.log_mean_map(p, 2.0)))
        assert_allclose(p.dual_divergence(p)[1, 2], 0.5e-18, rtol=1e-6)
    assert_array_equal(np.diagonal(p.log_product(p)), 0)


def test_missing_values_are_marginalized():
    p = Rayleighs([[1.0, 4.0], [2.0, 0.5]])
    x = np.array([[2.0, np.nan], [np.nan, np.nan], [1.0, 3.0]])
    assert_allclose(p.log_prob(x)[:, 0], Rayleighs(p.scale[:, :1]).log_prob([[2.0]])[:, 0])
    assert_array_equal(p.log_prob(x)[:, 1], 0)
    assert_allclose(p.fisher_scores(x)[0], [[2.0, 0.0], [0.0, 0.0], [-1.0, -23.0]])
    assert_allclose(Rayleigh().fit_each([x]).scale, [[np.sqrt(1.25), np.sqrt(4.5)]])


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ([[1.0, 0.0]], r"scale must be positive.*; got 0.0 at index \(0, 1\)"),
        ([[np.nan]], "got nan"),
        ([[1e160]], r"square in range; got 1e\+160"),
        (3.0, r"last axis; got shape \(\)"),
    ],
)
def test_bad_scales(scale, message):
    with pytest.raises(ValueError, match=message):
        Rayleighs(scale)


def test_bad_data():
    p = Rayleighs([[1.0, 2.0]])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(Rayleighs([[1.0]]))
    with pytest.raises(ValueError, match=r"Negative values in data passed to Rayleighs: row 1 has -1\.5 in column 1"):
        p.log_prob([[1, 1], [1, -1.5]])
    with pytest.raises(ValueError, match="Rayleigh must be positive; got 0 at row 0, column 1"):
        Rayleigh().fit([[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"got 1e-160 at row 1, column 0. Multiply the data"):
        Rayleigh().fit([[1.0], [1e-160]])
    with pytest.raises(ValueError, match=r"range of float64; got 1e\+160 at row 0"):
        Rayleigh().fit(np.array([[1e160]]))
    narrow = np.array([[1e19]], dtype=np.float32)  # fitted as float64, where its square is in range
    assert Rayleigh().fit(narrow).model_.digests() == Rayleigh().fit(narrow.astype(float)).model_.digests()
