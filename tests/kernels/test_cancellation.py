"""Kernels about a center: distributions that are nearly equal, and kernels that are nearly constant."""

import warnings

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import mercer as mc

RNG = np.random.default_rng(0)


def least(K):
    values = np.linalg.eigvalsh(K)
    return values[0] / values[-1]


def centered_by_mpmath(mean, dual):
    """Normalized F(c) + F((x + y)/2) - F((x + c)/2) - F((y + c)/2), c the mean, in 50 digits."""
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(float(v)) for v in row] for row in mean]
        center = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        between = lambda x, y: dual([(a + b) / 2 for a, b in zip(x, y, strict=True)])  # noqa: E731
        K = [[dual(center) + between(x, y) - between(x, center) - between(y, center) for y in rows] for x in rows]
        roots = [mpmath.sqrt(K[i][i]) for i in range(len(K))]
        return np.array([[float(K[i][j] / roots[i] / roots[j]) for j in range(len(K))] for i in range(len(K))])


def entropy(p):
    return sum(v * mpmath.log(v) for v in p)


def near(spread, k=6, n=6):
    center = RNG.dirichlet(np.ones(k))
    return (1 - spread) * center + spread * RNG.dirichlet(np.ones(k), size=n)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("spread", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_jensen_shannon_about_the_center_of_multinomials(spread, storage):
    q = near(spread)
    K = mc.JensenShannon(form="centering").fit_transform(mc.Multinomials(storage(q)))
    # The center is rounded: what is left of its last digit is 2e-16 / spread.
    assert_allclose(K, centered_by_mpmath(q, entropy), atol=1e-13 + 1e-16 / spread)
    assert least(K) > -1e-14


@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_jensen_shannon_about_the_center_of_gaussians(spread, normalize, shape):
    p = mc.Gaussians(1 + spread * RNG.normal(size=(20, 3)), 1 + spread * RNG.uniform(size=shape))
    K = mc.JensenShannon(form="centering", normalize=normalize).fit_transform(p)
    assert least(K) > -1e-14


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5, 1e-7])
def test_divergence_of_full_gaussians_that_are_nearly_equal(spread):
    root = RNG.normal(size=(5, 3, 3))
    p = mc.Gaussians(spread * RNG.normal(size=(5, 3)), np.eye(3) + spread * 0.2 * (root + np.swapaxes(root, 1, 2)))
    truth = np.zeros((5, 5))
    with mpmath.workdps(50):
        for i in range(5):
            for j in range(5):
                v = mpmath.matrix((p.mean[i] - p.mean[j]).tolist())
                a, b = (mpmath.matrix(p.covariance[k].tolist()) for k in (i, j))
                pooled = (a + b) / 2 + v * v.T / 4
                logs = [mpmath.log(mpmath.det(matrix)) for matrix in (pooled, a, b)]
                truth[i, j] = logs[0] / 2 - (logs[1] + logs[2]) / 4
    assert_allclose(p.dual_divergence(p), truth, rtol=1e-9, atol=1e-30)


def test_what_rounding_leaves_is_said():
    with pytest.warns(UserWarning, match=r"Centered leaves .* of the values of Linear.*center the data"):
        mc.Centered(mc.Linear(normalize=False)).fit(RNG.normal(size=(9, 2)) + 1e5)


@pytest.mark.parametrize("gamma", [1e-12, 1e-8, 1e-4])
def test_centered_kernels_that_are_nearly_constant(gamma):
    X = RNG.normal(size=(20, 2))
    kernel = mc.Centered(mc.RBF(gamma=gamma)).fit(X)
    K = kernel.transform(X)
    about = X - X.mean(axis=0)
    linear = 2 * gamma * about @ about.T
    assert_allclose(K, linear, atol=100 * gamma * np.abs(linear).max() + 1e-14 * np.abs(linear).max())
    assert least((K + K.T) / 2) > -1e-14
    assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-10)
    assert_allclose(mc.Centered(mc.RBF(gamma=gamma)).fit_transform(X), K, atol=1e-14 * np.abs(K).max())


def test_ordinary_kernels_are_centered_as_before():
    X = RNG.normal(size=(20, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        K = mc.Centered(mc.RBF(gamma=1.0)).fit_transform(X)
    plain = mc.RBF(gamma=1.0)(X)
    rows = plain.mean(axis=1)
    assert_allclose(K, plain - rows[:, None] - rows + plain.mean(), atol=1e-15)


@pytest.mark.parametrize(("rho", "size"), [(0.5, 0.0), (1.0, 6e3)])
def test_products_of_many_coordinates_that_are_nearly_equal(rho, size):
    """Logarithms of thousands of coordinates add up, and cancel when the kernel is normalized, except at rho = 1/2."""
    rng = np.random.default_rng(0)
    rate = 10 ** rng.uniform(-1, 4, size=2000) * np.exp(1e-8 * rng.normal(size=(6, 2000)))
    p = mc.Poissons(rate)
    assert np.abs(p.log_product(p, rho)).max() <= size + 1e-9
    assert least(mc.ProbabilityProduct(rho=rho)(p)) > -1e-14 - 1e-15 * size
