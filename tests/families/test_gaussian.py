"""Gaussians and Gaussian against sums over a fine grid, which are exact to rounding for smooth densities."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import mercer as mc
from mercer._array import namespace
from mercer.testing.families import RHOS, EstimatorContract, FamilyContract, dual_gram, smallest_ratio

STEP = 0.25
AXIS = np.arange(-16.0, 16.0 + STEP / 2, STEP)
BASIS = np.array([[[1.0, 0], [0, 0]], [[0, np.sqrt(0.5)], [np.sqrt(0.5), 0]], [[0, 0], [0, 1.0]]])
"""Orthonormal basis of symmetric matrices: coordinates are the upper triangle with sqrt 2 off the diagonal (FK-0)."""


def random_covariances(rng, shape, d):
    rotation, _ = np.linalg.qr(rng.normal(size=(*shape, d, d)))
    values = rng.uniform(0.5, 1.6, size=(*shape, d))
    covariance = rotation * values[..., None, :] @ np.swapaxes(rotation, -1, -2)
    return (covariance + np.swapaxes(covariance, -1, -2)) / 2


class GaussianContract(FamilyContract):
    dimension = 2
    structure = "full"

    @property
    def sharp(self):
        return 1e7, self.dimension / 2 * np.log(2e7 / (2 * np.pi)), 1e-5

    @property
    def dual_always(self):
        return self.structure != "full" or self.dimension == 1

    def members(self, seed=0, shape=(3,)):
        rng, d = np.random.default_rng(seed), self.dimension
        mean = rng.normal(size=(*shape, d)).clip(-2, 2)
        if self.structure == "full":
            return mc.Gaussians(mean, random_covariances(rng, shape, d))
        return mc.Gaussians(mean, rng.uniform(0.5, 1.6, size=(*shape, d) if self.structure == "diagonal" else shape))

    def nodes(self):
        x = np.stack(np.meshgrid(*[AXIS] * self.dimension, indexing="ij"), axis=-1).reshape(-1, self.dimension)
        return x, np.full(len(x), STEP**self.dimension)

    def expected_base_kernel(self, p, q, gamma):
        """The base kernel is a product over the axes of the grid."""
        base = np.exp(-gamma * (AXIS[:, None] - AXIS) ** 2)
        a, b = (self.mass(r).reshape(-1, *[len(AXIS)] * self.dimension) for r in (p, q))
        for axis in range(self.dimension):
            b = np.moveaxis(np.tensordot(b, base, axes=(axis + 1, 0)), -1, axis + 1)
        return a.reshape(len(p), -1) @ b.reshape(len(q), -1).T * STEP ** (2 * self.dimension)

    def parameters(self, p):
        if self.structure == "full":
            free = np.einsum("...ij,bij->...b", p.covariance, self.basis())
        else:
            free = np.log(p.covariance if self.structure == "diagonal" else p.covariance[..., None]) / 2
        return np.concatenate([p.mean, free], axis=-1)

    def build(self, theta):
        xp, d = namespace(theta), self.dimension
        if self.structure == "full":
            basis = xp.asarray(self.basis().reshape(-1, d * d))
            covariance = xp.reshape(theta[..., d:] @ basis, (*theta.shape[:-1], d, d))
        else:
            covariance = xp.exp(2 * theta[..., d:])
            covariance = covariance if self.structure == "diagonal" else covariance[..., 0]
        return mc.Gaussians(theta[..., :d], covariance)

    def basis(self):
        return BASIS if self.dimension == 2 else np.ones((1, 1, 1))


class TestFull(GaussianContract):
    pass


class TestFullOnTheLine(GaussianContract):
    dimension = 1


class TestDiagonal(GaussianContract):
    structure = "diagonal"


class TestIsotropic(GaussianContract):
    structure = "isotropic"


class GaussianEstimatorContract(EstimatorContract):
    structure = "full"
    exact = {"floor": 0.0}  # noqa: RUF012

    def estimator(self, **parameters):
        return mc.Gaussian(self.structure, **parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.normal(i, 1.0, size=(n, 2)) for i, n in enumerate((5, 4, 9, 7))]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        template = mc.Gaussian(self.structure).fit(sample).model_
        return template.statistics(sample).sum(axis=0), len(sample)


class TestFullEstimator(GaussianEstimatorContract):
    pass


class TestDiagonalEstimator(GaussianEstimatorContract):
    structure = "diagonal"


class TestIsotropicEstimator(GaussianEstimatorContract):
    structure = "isotropic"


# -- closed forms -------------------------------------------------------------------------------------------


def test_against_scipy():
    rng = np.random.default_rng(0)
    p, x = mc.Gaussians(rng.normal(size=(2, 3)), random_covariances(rng, (2,), 3)), rng.normal(size=(4, 3))
    truth = [stats.multivariate_normal(m, c).logpdf(x) for m, c in zip(p.mean, p.covariance, strict=True)]
    assert_allclose(p.log_prob(x), truth, rtol=1e-12)
    p, q = mc.Gaussians([[0.3]], [[[0.8]]]), mc.Gaussians([[-1.0]], [[[2.0]]])
    value, _ = integrate.quad(lambda t: np.exp(0.3 * (p.log_prob([[t]]) + q.log_prob([[t]]))).item(), -30, 30)
    assert_allclose(p.log_product(q, 0.3), np.log([[value]]), rtol=1e-9)


@pytest.mark.parametrize("rho", RHOS)
def test_change_of_unit_and_product_measures(rho):
    """T-4."""
    rng = np.random.default_rng(1)
    p = mc.Gaussians(rng.normal(size=(3, 2)), random_covariances(rng, (3,), 2))
    c = 3.7
    scaled = mc.Gaussians(c * p.mean, c**2 * p.covariance)
    factor = 2 * (1 - 2 * rho) * np.log(c)
    assert_allclose(scaled.log_product(scaled, rho), p.log_product(p, rho) + factor, rtol=1e-11, atol=1e-12)
    diagonal = mc.Gaussians(p.mean, rng.uniform(0.5, 2.0, size=(3, 2)))
    parts = [mc.Gaussians(diagonal.mean[:, i : i + 1], diagonal.covariance[:, i : i + 1]) for i in range(2)]
    assert_allclose(diagonal.log_product(diagonal, rho), sum(a.log_product(a, rho) for a in parts), atol=1e-13)
    full = mc.Gaussians(diagonal.mean, diagonal.covariance[..., None] * np.eye(2))
    assert_allclose(full.log_product(full, rho), diagonal.log_product(diagonal, rho), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("d", [3, 8])
def test_higher_dimensions_against_dense_algebra(d):
    rng = np.random.default_rng(2)
    p, q = (mc.Gaussians(rng.normal(size=(n, d)), random_covariances(rng, (n,), d)) for n in (20, 18))
    for i, j in [(0, 0), (19, 17), (7, 16)]:
        m, S, T = p.mean[i] - q.mean[j], p.covariance[i], q.covariance[j]
        assert_allclose(
            p.log_product(q, 1.0)[i, j], stats.multivariate_normal(np.zeros(d), S + T).logpdf(m), rtol=1e-11
        )
        base = stats.multivariate_normal(np.zeros(d), S + T + np.eye(d) / 1.4).logpdf(m) + d / 2 * np.log(
            2 * np.pi / 1.4
        )
        assert_allclose(p.log_mean_map(q, 0.7)[i, j], base, rtol=1e-11)
        pooled = (S + T) / 2 + np.outer(m, m) / 4
        psi = [np.linalg.slogdet(c)[1] for c in (pooled, S, T)] @ np.array([0.5, -0.25, -0.25])
        assert_allclose(p.dual_divergence(q)[i, j], psi, rtol=1e-10)


def test_equal_covariances():
    """T-25: psi = log(1 + d' S^-1 d / 4) / 2, for every structure."""
    mean = np.random.default_rng(3).normal(size=(4, 2))
    for one in (np.array([[1.3, 0.4], [0.4, 0.8]]), np.array([1.3, 0.8]), np.array(0.9)):
        p = mc.Gaussians(mean, np.stack([one] * 4))
        S = p._as_full().covariance[0]
        v = mean[:, None] - mean
        quadratic = np.einsum("ijk,kl,ijl->ij", v, np.linalg.inv(S), v)
        if one.ndim == 2:
            assert_allclose(p.dual_divergence(p), np.log1p(quadratic / 4) / 2, atol=1e-14)
        elif one.ndim == 1:  # coordinates are independent families (T-24)
            assert_allclose(p.dual_divergence(p), np.sum(np.log1p(v**2 / one / 4), axis=-1) / 2, atol=1e-14)
        else:  # one variance for both coordinates, pooled over them
            assert_allclose(p.dual_divergence(p), np.log1p(quadratic / 8), atol=1e-14)


def test_dual_is_infinite_for_singular_covariances():
    """DJS-6."""
    full, diagonal, isotropic = (mc.Gaussians(np.zeros((1, 2)), c) for c in (np.eye(2)[None], np.ones((1, 2)), [1.0]))
    x = np.array([[1.0, 2.0]])  # one point: its moments have no covariance
    for p in (full, diagonal, isotropic):
        assert_array_equal(p.dual(p.statistics(x)), [np.inf])


def test_singular_covariances():
    """T-15 and PPK-3.1: mean maps always, products at rho = 1 where the sum is regular."""
    points = np.array([[0.0, 0.0], [1.0, -2.0]])
    squared = np.sum((points[:, None] - points) ** 2, axis=-1)
    for zero in (np.zeros((2, 2, 2)), np.zeros((2, 2)), np.zeros(2)):
        p = mc.Gaussians(points, zero)
        assert_allclose(p.log_mean_map(p, 0.7), -0.7 * squared, atol=1e-15)
        assert_array_equal(p.sample(3, random_state=0)[1], points[[1, 1, 1]])
        q = mc.Gaussians(points, zero + (np.eye(2) if zero.ndim == 3 else 1.0))
        assert_allclose(p.log_product(q, 1.0), -squared / 2 - np.log(2 * np.pi), rtol=1e-12)
        with pytest.raises(ValueError, match=r"rho = 1 is infinite for the pair \(0, 0\), whose covariances sum to a"):
            p.log_product(p, 1.0)
        for what in (lambda p=p, q=q: p.log_product(q), lambda p=p, q=q: q.log_product(p, 2.0)):
            with pytest.raises(
                ValueError, match=r"index \(0,\) has a singular covariance, for which the probability prod"
            ):
                what()
        for what in (p.dual_divergence, p.kl):
            with pytest.raises(
                ValueError, match=r"has a singular covariance, for which the .* does not exist. Add a floor"
            ):
                what(q)
        with pytest.raises(ValueError, match="singular covariance, for which a density does not exist"):
            p.log_prob(points)
    line = np.outer([0.3, 0.7], [0.3, 0.7])  # singular up to rounding
    p = mc.Gaussians(points, np.stack([line, 3 * line]))
    assert np.isfinite(p.log_mean_map(p, 0.7)).all()
    with pytest.raises(ValueError, match="rho = 1 is infinite for the pair"):
        p.log_product(p, 1.0)
    across = mc.Gaussians(points, np.stack([np.outer([0.7, 0.3], [0.7, 0.3])] * 2))
    assert np.isfinite(p.log_product(across, 1.0)).all()


def test_float32_singular_covariances_are_accepted():
    v = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    p = mc.Gaussians(np.zeros((50, 3), np.float32), v[:, :, None] * v[:, None, :])
    assert np.isfinite(p.log_mean_map(p, 1.0)).all()


# -- dual_psd: the table and the counterexamples of DJS-5 ------------------------------------------------------


def pencil(matrices):
    return mc.Gaussians(np.zeros((len(matrices), len(matrices[0]))), np.array(matrices))


def plane_counterexample(a, b):
    signs = [(s, t) for s in (1, -1) for t in (1, -1)]
    crossed = [[[1, b], [b, 1]], [[1, -b], [-b, 1]]]
    return pencil([np.eye(2), *(np.diag([1 + s * a, 1 + t * a]) for s, t in signs), *np.array(crossed)])


def space_counterexample(e=0.396, g=0.683, h=0.354, f=0.434):
    def unit(i, j):
        return np.array([[float({r, c} == {i, j} and (r != c or i == j)) for c in range(3)] for r in range(3)])

    found = [np.eye(3)]
    signs = (1, -1)
    found += [np.eye(3) + e * np.diag([s, t, u]) for s in signs for t in signs for u in signs]
    pairs = [((0, 1), 2), ((0, 2), 1), ((1, 2), 0)]
    found += [np.eye(3) + s * g * unit(*ij) + t * f * unit(k, k) for ij, k in pairs for s in signs for t in signs]
    corners = [(s, t, u) for s in signs for t in signs for u in signs]
    found += [np.eye(3) + h * (s * unit(0, 1) + t * unit(0, 2) + u * unit(1, 2)) for s, t, u in corners]
    return pencil(found)


def smallest(p, form, t):
    psi = p.dual_divergence(p)
    return np.linalg.eigvalsh(dual_gram(psi, form, t, p.dual_divergence(p[:1])[:, 0]))[0]


@pytest.mark.parametrize(
    ("form", "t", "printed"),
    [("exp", 0.2, -0.020), ("exp", 0.5, -0.018), ("centering", 1, -0.19), ("inverse", 10, -0.001)],
)
def test_counterexample_in_the_plane(form, t, printed):
    p = plane_counterexample(0.9, 0.95)
    assert len(p) == 7
    assert p.dual_psd(form, t) == "no"
    assert "DJS-5" in p.dual_psd(form, t).reason
    assert_allclose(smallest(p, form, t), printed, rtol=0.05, atol=6e-4 if form != "centering" else 6e-3)


def test_edge_of_the_gindikin_set_in_the_plane():
    p = plane_counterexample(0.78, 0.84)
    assert p.dual_psd("exp", 0.8) == "no"
    assert_allclose(smallest(p, "exp", 0.8), -0.003, atol=6e-4)
    for t in (1, 1.0, 1.3, 7.5):
        assert p.dual_psd("exp", t) == "always"
        assert smallest(p, "exp", t) > 0


def test_counterexample_in_space():
    p = space_counterexample()
    assert len(p) == 29
    for t, printed in [(1.2, -1.4e-5), (1.5, -2.1e-5)]:
        assert p.dual_psd("exp", t) == "no"
        assert_allclose(smallest(p, "exp", t), printed, rtol=0.05)
    for t in (1.0, 2.0, 2.2):
        assert p.dual_psd("exp", t) == "always"
        assert smallest(p, "exp", t) > 0
    assert "29 matrices" in p.dual_psd("exp", 1.2).reason
    assert "-2.1e-5" in p.dual_psd("exp", 1.2).reason
    assert "-0.020" not in p.dual_psd("exp", 1.2).reason
    for t in (0.1, 1.0, 5.0):
        assert p.dual_psd("inverse", t) == p.dual_psd("centering", t) == "no"


@pytest.mark.parametrize("d", [2, 3, 4])
def test_safe_t_of_full_covariances(d):
    rng = np.random.default_rng(d)
    root = rng.normal(size=(25, d, d + 1))
    p = mc.Gaussians(rng.normal(size=(25, d)), root @ np.swapaxes(root, -1, -2) + 1e-3 * np.eye(d))
    psi = p.dual_divergence(p)
    for t in (*range(1, d), d - 1, d - 0.5, d + 3.3):
        assert p.dual_psd("exp", t) == "always"
        assert smallest_ratio(np.exp(-t * psi)) > -1e-10
    assert p.dual_psd("exp", d - 1.5) == "no"
    if d == 4:
        assert "t = 2.5 is not in the Gindikin set {1, .., 3} u [3, inf)" in p.dual_psd("exp", 2.5).reason
        assert "matrices" not in p.dual_psd("centering", 1.0).reason


# -- estimator ---------------------------------------------------------------------------------------------------


def nearest_power_of_two(x):
    """By search, on the logarithmic scale."""
    powers = [math.ldexp(1.0, e) for e in range(-60, 61)]
    return min(powers, key=lambda p: max(p / x, x / p))


def test_maximum_likelihood_and_floor():
    sets = [np.random.default_rng(i).normal(size=(20, 3)) for i in range(3)]
    floor = 0.01 * nearest_power_of_two(np.concatenate(sets).var(axis=0).mean())
    p = mc.Gaussian(floor=0.01).fit_each(sets)
    assert_allclose(p.mean, [s.mean(axis=0) for s in sets], rtol=1e-10, atol=1e-13)
    assert_allclose(p.covariance, [np.cov(s.T, bias=True) + floor * np.eye(3) for s in sets], rtol=1e-10, atol=1e-13)
    p = mc.Gaussian("diagonal", floor=0.01).fit_each(sets)
    assert_allclose(p.covariance, [s.var(axis=0) + floor for s in sets], rtol=1e-10)
    p = mc.Gaussian("isotropic", floor=0.01).fit_each(sets)
    assert_allclose(p.covariance, [s.var(axis=0).mean() + floor for s in sets], rtol=1e-10)


def test_equal_points_have_a_floor():
    """Their variance is rounding (1e-34), of which no fraction is a floor: it counts as 1."""
    X = np.array([[0.1, 0.7]] * 3)
    assert 0 < X.var(axis=0).mean() < 1e-30
    for structure in ("full", "diagonal", "isotropic"):
        p = mc.Gaussian(structure).fit_each(X)
        assert_allclose(p._as_full().covariance, np.stack([1e-3 * np.eye(2)] * 3), rtol=1e-9, atol=1e-15)
        assert_allclose(p.log_product(p), 0, atol=1e-9)


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_far_from_the_origin(structure):
    rng = np.random.default_rng(0)
    sets = [np.round(rng.normal(size=(30, 2)), 6) for _ in range(3)]
    near = mc.Gaussian(structure, floor=0.0).fit_each(sets)
    far = mc.Gaussian(structure, floor=0.0).fit_each([s + 1e8 for s in sets])
    assert_allclose(far.covariance, near.covariance, rtol=1e-6, atol=1e-7)
    assert_allclose(far.log_product(far), near.log_product(near), atol=1e-6)
    assert_allclose(far.dual_divergence(far), near.dual_divergence(near), atol=1e-6)
    assert_allclose(far.kl(far), near.kl(near), atol=1e-6)


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_a_strong_prior_is_the_estimate_whatever_the_floor(structure):
    """The floor is in the pooled model already: it must not come in a second time."""
    sets = [np.random.default_rng(i).normal(i, 1.0, size=(12, 2)) for i in range(4)]
    estimator = mc.Gaussian(structure, floor=0.1, prior="pooled", prior_strength=1e12)
    context = estimator.context(estimator.accept(sets, reset=True))
    theta0, p = context.pooled, estimator.fit_each(sets, context)
    for i in range(4):
        assert_allclose(p.mean[i], theta0.mean[0], rtol=1e-9, atol=1e-9)
        assert_allclose(p.covariance[i], theta0.covariance[0], rtol=1e-9, atol=1e-9)
    pooled = np.concatenate(sets)
    floor = 0.1 * nearest_power_of_two(pooled.var(axis=0).mean())
    truth = np.cov(pooled.T, bias=True) + floor * np.eye(2)
    if structure != "full":
        truth = np.diag(truth) if structure == "diagonal" else np.diag(truth).mean()
    assert_allclose(theta0.covariance[0], truth, rtol=1e-10)


def test_a_centre_of_zero_has_no_sign():
    estimator = mc.Gaussian()
    for shift in (-1e-3, 1e-3):
        center = estimator.context(np.array([[-1.0, 2.0], [1.0, -2.0]]) + shift).center
        assert_array_equal(center, [0.0, 0.0])
        assert not np.signbit(center).any()


def test_conjugate_prior():
    """DJS-6 as printed: S = (n0 (S0 + m0 m0') + sum x x') / (n0 + n) - m m'."""
    sets, n0 = [np.random.default_rng(i).normal(i, 1, size=(4 + i, 2)) for i in range(2)], 3.0
    prior = mc.Gaussians([[1.0, -1.0]], [[[2.0, 0.3], [0.3, 1.0]]])
    p = mc.Gaussian(floor=0.0, prior=prior, prior_strength=n0).fit_each(sets)
    m0, S0 = prior.mean[0], prior.covariance[0]
    for i, x in enumerate(sets):
        m = (n0 * m0 + x.sum(axis=0)) / (n0 + len(x))
        S = (n0 * (S0 + np.outer(m0, m0)) + x.T @ x) / (n0 + len(x)) - np.outer(m, m)
        assert_allclose(p.mean[i], m, rtol=1e-12)
        assert_allclose(p.covariance[i], S, rtol=1e-10)


def test_missing_coordinates():
    x = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, np.nan], [0.5, 1.0, -1.0]])
    rng = np.random.default_rng(0)
    full = mc.Gaussians(rng.normal(size=(2, 3)), random_covariances(rng, (2,), 3))
    for p in (
        full,
        mc.Gaussians(full.mean, full.covariance[..., 0, :] ** 2 + 0.1),
        mc.Gaussians(full.mean, [1.0, 2.0]),
    ):
        value = p.log_prob(x)
        assert_allclose(value[:, 0], p.marginal([0, 2]).log_prob(x[:1, [0, 2]])[:, 0], rtol=1e-12)
        assert_array_equal(value[:, 1], 0)
        assert_allclose(value[:, 2], p.log_prob(x[2:])[:, 0], rtol=1e-12)
        if p is not full:  # leading axes align here too
            assert_allclose(p.reshape(2, 1).log_prob(np.stack([x, x[::-1]]))[1, 0], value[1, ::-1], rtol=1e-12)
    with pytest.raises(ValueError, match=r"only for points of shape \(T, d\)"):
        full.reshape(2, 1).log_prob(np.stack([x, x]))
    diagonal = mc.Gaussians(full.mean, np.ones((2, 3)))
    assert_allclose(diagonal.fisher_scores(x)[:, 0, [1, 4]], 0)
    assert_allclose(diagonal.fisher_scores(x)[:, 0, [0, 2]], x[0, [0, 2]] - full.mean[:, [0, 2]])
    scores = full.fisher_scores(x)
    assert_allclose(scores[:, 0, [0, 2, 3, 5, 8]], full.marginal([0, 2]).fisher_scores(x[:1, [0, 2]])[:, 0], rtol=1e-12)
    assert_array_equal(scores[:, 0, [1, 4, 6, 7]], 0)
    assert_array_equal(scores[:, 1], 0)
    assert_allclose(scores[:, 2], full.fisher_scores(x[2:])[:, 0], rtol=1e-12)
    for points in (np.stack([x, x]), [[np.inf, 0.0, 0.0]]):
        with pytest.raises(
            ValueError, match=r"only for points of shape \(T, d\)|need finite coordinates; a point has inf"
        ):
            full.reshape(2, 1).fisher_scores(points)


def test_fit_with_missing_coordinates():
    x = np.array([[1.0, np.nan], [3.0, 2.0], [np.nan, 6.0]])
    sets = [x, np.array([[0.0, 1.0], [1.0, 0.0]])]
    p = mc.Gaussian("diagonal", floor=0.0).fit_each(sets)
    assert_allclose(p.mean, [[2.0, 4.0], [0.5, 0.5]])
    assert_allclose(p.covariance, [[1.0, 4.0], [0.25, 0.25]], rtol=1e-12)
    with pytest.raises(ValueError, match="row 0 has no observation of coordinate 1"):
        mc.Gaussian("diagonal").fit_each(x)


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        (
            [[0.0, 0.0]],
            [[[1.0, 2.0], [2.0, 1.0]]],
            r"index \(0,\) is not positive semi-definite \(smallest eigenvalue -1",
        ),
        ([[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]], r"covariance at index \(0,\) must be symmetric"),
        ([[0.0, 0.0]], [[1.0, -1.0]], "is not positive semi-definite"),
        ([[0.0, 0.0], [0.0, 0.0]], [1.0, -0.5], r"index \(1,\) is not positive semi-definite"),
        ([[0.0, np.nan]], [1.0], r"mean at index \(0,\) must be finite"),
        ([[0.0, 0.0]], [[1.0, np.inf]], r"covariance at index \(0,\) must be finite"),
        ([[0.0, 0.0]], [[[np.nan] * 2] * 2], r"covariance at index \(0,\) must be finite"),
        (
            [[0.0, 0.0]],
            [[1.0, 1.0, 1.0]],
            r"\(1, 2, 2\) \(full\), .* for means of shape \(1, 2\); got \(1, 3\)",
        ),
        (0.0, 1.0, r"in its last axis; got shape \(\)"),
        (np.zeros((2, 0)), np.zeros(2), r"in its last axis; got shape \(2, 0\)"),
    ],
)
def test_bad_members(mean, covariance, message):
    with pytest.raises(ValueError, match=message):
        mc.Gaussians(mean, covariance)


def test_bad_data():
    p = mc.Gaussians([[0.0, 0.0]], [1.0])
    with pytest.raises(TypeError, match="got an array of dtype object"):
        mc.Gaussians(np.array([[None, 1.0]], dtype=object), [1.0])
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(mc.Gaussians([[0.0]], [1.0]))
    with pytest.raises(ValueError, match="differ in structure: isotropic and diagonal"):
        p.log_product(mc.Gaussians([[0.0, 0.0]], [[1.0, 1.0]]))
    for x in ([[0.0]], [0.0, 1.0]):
        with pytest.raises(ValueError, match=r"Points must have shape \(T, 2\)"):
            p.log_prob(x)
    with pytest.raises(ValueError, match=r"covariance must be .*; got 'round'"):
        mc.Gaussian("round").fit_each(np.eye(2))
    for floor in (-1, np.nan, "low"):
        with pytest.raises(ValueError, match=r"floor must be .*; got .*. fraction of the pooled variance"):
            mc.Gaussian(floor=floor).fit_each(np.eye(2))
    with pytest.raises(ValueError, match=r"prior does not suit Gaussian: .*differ in structure"):
        mc.Gaussian("diagonal", prior=p).fit_each(np.eye(2))
    with pytest.raises(ValueError, match="nothing to fit: all samples are empty"):
        mc.Gaussian().fit_each([np.zeros((0, 2)), np.zeros((0, 2))])
    with pytest.raises(TypeError, match=r"Gaussian requires vectors; got symbols from .*Use Categorical"):
        mc.Gaussian().fit_each(["ab"])
    named = mc.Sequences([np.zeros((2, 2)), np.array([[0.0, np.nan], [1.0, np.nan]])], ids=["a", "b"])
    with pytest.raises(ValueError, match="sequence 'b' has no observation of coordinate 1"):
        mc.Gaussian().fit_each(named)


@pytest.mark.parametrize("reader", [mc.Gaussian(), mc.RBF()], ids=["model", "kernel"])
def test_a_bad_matrix_names_its_first_bad_entry(reader):
    X = np.arange(8.0).reshape(4, 2)
    X[2, 0] = np.inf
    with pytest.raises(ValueError, match=r"^Input X contains infinity .*; first at row 2, column 0. Leave the row out"):
        reader.fit(X)
    with pytest.raises(ValueError, match=r"could not convert string .*; first at row 1, column 1. Use mc.Categorical"):
        reader.fit([[1.0, 2.0], [1.0, "b"]])


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_tight_clusters_far_apart_keep_their_covariances(structure):
    rng = np.random.default_rng(0)
    sets = [rng.normal(c, 1e-6, size=(30, 2)) for c in (0.0, 1e3)]
    found = mc.Gaussian(structure, floor=0.0).fit_each(sets).covariance
    expected = np.array([np.cov(s.T, bias=True) for s in sets])
    if structure != "full":
        expected = np.diagonal(expected, axis1=1, axis2=2)
    if structure == "isotropic":
        expected = expected.mean(axis=1)
    assert_allclose(found, expected, rtol=1e-9)
    both = mc.Mixture(mc.Gaussian("diagonal", floor=0.0), prior=None).fit_each([np.concatenate(sets)])
    order = np.argsort(both.components.mean[0, :, 0])
    assert_allclose(both.components.covariance[0, order], [s.var(axis=0) for s in sets], rtol=1e-6)


@pytest.mark.parametrize("strength", [0.0, 2.0, 1e6])
def test_prior_about_its_own_mean(strength):
    prior = mc.Gaussians([[1e3, 0.0]], [[[1e-4, 5e-5], [5e-5, 1e-4]]])
    x = np.array([[1e3 + 1e-3, 0.0], [1e3, 2e-3], [1e3 - 1e-3, 0.0]])
    estimator = mc.Gaussian(floor=0.0, prior=prior, prior_strength=strength)
    found = estimator.fit_each([x, np.zeros((0, 2))])
    shifted = x - [1e3, 0.0]
    mean = shifted.sum(axis=0) / (3 + strength)
    second = (shifted.T @ shifted + strength * prior.covariance[0]) / (3 + strength)
    assert_allclose(found.mean[0] - [1e3, 0.0], mean, atol=1e-12)
    assert_allclose(found.covariance[0], second - np.outer(mean, mean), rtol=1e-8, atol=1e-15)
    assert_allclose(found.mean[1], prior.mean[0])
    assert_allclose(found.covariance[1], prior.covariance[0], rtol=1e-9)


def ancestral(offset, coefficients, order, noise):
    """Values of all coordinates from given noises ``(T, d)``, computed from parents to children."""
    found = np.zeros_like(noise)
    for i in order:
        found[:, i] = offset[i] + found @ coefficients[i] + noise[:, i]
    return found


def test_networks_have_the_moments_of_ancestral_sampling():
    """PPK-4.4."""
    rng, order = np.random.default_rng(0), [2, 0, 3, 1]
    offset, root = rng.normal(size=(3, 4)), rng.normal(size=(3, 4, 4))
    noise, coefficients = root @ root.swapaxes(1, 2), np.zeros((3, 4, 4))
    for k, i in enumerate(order):
        coefficients[:, i, order[:k]] = rng.normal(size=(3, k))
    whole = mc.Gaussians.from_network(offset, coefficients, noise)
    seen = [3, 0]
    part = mc.Gaussians.from_network(offset, coefficients, noise, observed=seen)
    for n in range(3):
        mean = ancestral(offset[n], coefficients[n], order, np.zeros((1, 4)))[0]
        linear = ancestral(offset[n], coefficients[n], order, np.eye(4)).T - mean[:, None]
        np.testing.assert_allclose(whole.mean[n], mean, rtol=1e-10)
        np.testing.assert_allclose(whole.covariance[n], linear @ noise[n] @ linear.T, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(part.covariance[n], whole.covariance[n][np.ix_(seen, seen)])
    with pytest.raises(ValueError, match="have a cycle"):
        mc.Gaussians.from_network([[0.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], [np.eye(2)])
