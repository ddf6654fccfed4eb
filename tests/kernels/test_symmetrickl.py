"""SymmetricKL: divergences from sums and integrals, infinite ones, and where it is not positive semi-definite."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from tests.batches import STEP, WIDTH, bernoullis, categoricals, density_on_plane, gaussians, hmms, mixtures, poissons

import mercer as mc
from mercer.kernels.symmetrickl import SymmetricKL
from mercer.testing.kernels import KernelContract, PluralContract, by_pairs


def divergence(p, q):
    """Sum (p - q) (log p - log q) of masses; infinite where one alone is zero."""
    p, q = np.ravel(p), np.ravel(q)
    if np.any((p > 0) != (q > 0)):
        return math.inf
    p, q = p[p > 0], q[q > 0]
    return math.fsum((p - q) * (np.log(p) - np.log(q)))


class Family(PluralContract):
    """A family says what it is on a grid (``mass``)."""

    cell = 1.0

    def kernel(self):
        return SymmetricKL(alpha=0.4, beta=0.3)

    def mass(self, p):
        raise NotImplementedError

    def truth(self, X):
        return by_pairs(lambda p, q: np.exp(-0.4 * self.cell * divergence(self.mass(p), self.mass(q)) + 0.3), X)

    def test_gradients(self):
        torch = pytest.importorskip("torch")
        z = torch.asarray(self.free(2, 3)).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: self.kernel()(self.build(z)), (z,), atol=1e-6)


class TestCategoricals(Family):
    width = WIDTH[categoricals]

    def build(self, z):
        return categoricals(z)

    def mass(self, p):
        return p.probability


class TestBernoullis(Family):
    width = WIDTH[bernoullis]

    def build(self, z):
        return bernoullis(z)

    def mass(self, p):
        a, b = np.asarray(p.probability)
        return np.outer([1 - a, a], [1 - b, b])


class TestPoissons(Family):
    width = WIDTH[poissons]

    def build(self, z):
        return poissons(z)

    def mass(self, p):
        n = np.arange(60)
        factorial = np.array([math.lgamma(k + 1) for k in n])
        a, b = (np.exp(n * np.log(rate) - rate - factorial) for rate in np.asarray(p.rate))
        return np.outer(a, b)


class TestFullGaussians(Family):
    width = WIDTH[gaussians]
    structure = "full"
    cell = STEP**2
    truth_tolerance = 1e-7

    def build(self, z):
        return gaussians(z, self.structure)

    def free(self, seed, n):
        return 0.5 * super().free(seed, n)

    def mass(self, p):
        return density_on_plane(p) + 1e-300


class TestDiagonalGaussians(TestFullGaussians):
    structure = "diagonal"


class TestIsotropicGaussians(TestFullGaussians):
    structure = "isotropic"


class TestDocuments(KernelContract):
    """Sparse rows: most pairs have no finite divergence."""

    def kernel(self):
        return SymmetricKL(mc.Multinomial(), alpha=0.8)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, 6, size=(n, 5)) * np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0]])[rng.integers(2, size=n)]
        return sparse.csr_array(counts.astype(float))

    def truth(self, X):
        p = X.toarray() / X.toarray().sum(axis=1, keepdims=True)
        return by_pairs(lambda p, q: np.exp(-0.8 * divergence(p, q)), p)

    def test_sparse_is_dense(self):
        X = self.data(0, 30)
        k = self.kernel()
        K = k(X)
        assert (K == 0).any()
        assert ((K > 0) & (K < 1)).any()
        np.testing.assert_allclose(K, k(X.toarray()), rtol=1e-12)
        p = mc.Multinomial(trials=3).fit_each(X)
        assert p.sparse
        np.testing.assert_allclose(k(p[:10], p.dense()[10:]), K[:10, 10:] ** 3, rtol=1e-10)
        np.testing.assert_allclose(k(p.dense()[:10], p[10:]), K[:10, 10:] ** 3, rtol=1e-10)


laws = arrays(float, (6, 3), elements=st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0])).map(
    lambda w: w + [1e-3, 0, 0] * (w.sum(axis=1, keepdims=True) == 0)
)


@settings(max_examples=60, deadline=None)
@given(laws, st.floats(0.01, 10.0), st.floats(-2.0, 2.0))
def test_any_laws(w, alpha, beta):
    """Zeros, certain outcomes, equal laws: the formula, never NaN; the same for sparse rows."""
    p = w / w.sum(axis=1, keepdims=True)
    k = SymmetricKL(alpha=alpha, beta=beta)
    K = k(mc.Multinomials(p))
    expected = by_pairs(lambda a, b: np.exp(-alpha * divergence(a, b) + beta), p)
    np.testing.assert_allclose(K, expected, rtol=1e-9, atol=1e-13)
    assert np.array_equal(K, K.T)
    assert np.all(np.diag(K) == np.exp(beta))
    np.testing.assert_allclose(k(mc.Multinomials(sparse.csr_array(p))), expected, rtol=1e-9, atol=1e-13)


def test_an_infinite_divergence_is_zero():
    batches = [
        mc.Categoricals([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]),
        mc.Multinomials(sparse.csr_array(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))),
        mc.families.Bernoullis([[1.0, 0.5], [0.5, 0.5], [0.0, 0.5]]),
        mc.Poissons([[0.0], [1.0], [0.0]]),
    ]
    for p in batches[:3]:
        assert np.array_equal(SymmetricKL()(p), np.eye(3))
        assert SymmetricKL().log(p)[0, 1] == -np.inf
        np.testing.assert_allclose(SymmetricKL().distance(p), np.sqrt(2) * (1 - np.eye(3)))
    assert np.array_equal(SymmetricKL()(batches[3]), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def test_gradients_beside_an_infinite_divergence():
    torch = pytest.importorskip("torch")
    p = torch.tensor([[0.4, 0.6, 0.0], [0.3, 0.7, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
    SymmetricKL()(mc.Categoricals(p)).sum().backward()
    assert bool(torch.isfinite(p.grad).all())
    assert float(p.grad[2].abs().max()) == 0


def test_a_shared_covariance_is_the_gaussian_kernel():
    rng = np.random.default_rng(0)
    mean, covariance = rng.normal(size=(12, 2)), np.array([[2.0, 0.5], [0.5, 1.0]])
    K = SymmetricKL(alpha=0.3)(mc.Gaussians(mean, np.broadcast_to(covariance, (12, 2, 2))))
    white = mean @ np.linalg.cholesky(np.linalg.inv(covariance))
    np.testing.assert_allclose(K, mc.RBF(gamma=0.3)(white), rtol=1e-9)


@pytest.mark.parametrize(("alpha", "smallest"), [(0.01, -0.50), (0.1, -0.31), (1.0, None), (3.0, None)])
def test_not_positive_semi_definite(alpha, smallest):
    """Zero-mean Gaussians of 13 log variances (CMP-2); for larger alpha more of them, further apart."""
    k = SymmetricKL(alpha=alpha)
    assert k.psd == "no"
    assert "alpha = 0.1" in k.psd.reason
    logs = np.linspace(-3, 3, 13) if smallest else np.linspace(-4, 4, 33)
    K = k(mc.Gaussians(np.zeros((len(logs), 1)), np.exp(logs)))
    np.testing.assert_allclose(K, np.exp(-alpha * (np.cosh(logs[:, None] - logs) - 1)), rtol=1e-9)
    values = np.linalg.eigvalsh(K)
    assert values[0] < -1e-6
    if smallest:
        np.testing.assert_allclose(values[0], smallest, atol=0.005)


def test_fitted_models():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(20, 2)) for _ in range(5)]
    k = SymmetricKL(mc.Gaussian())
    np.testing.assert_allclose(k.fit_transform(sets), SymmetricKL()(mc.Gaussian().fit_each(sets)), rtol=1e-12)
    assert k.transform(sets[:2]).shape == (2, 5)


def test_bad_input():
    p = mc.Gaussians([[0.0], [1.0]], [1.0, 2.0])
    for alpha in (0, -1.0, np.inf, "x", None):
        with pytest.raises(ValueError, match=r"alpha must be a positive number; got"):
            SymmetricKL(alpha=alpha)(p)
    for beta in (np.nan, "x", None):
        with pytest.raises(ValueError, match=r"beta must be a finite number; got"):
            SymmetricKL(beta=beta)(p)
    for build in (mixtures, hmms):
        batch = build(np.zeros((2, WIDTH[build])))
        with pytest.raises(TypeError, match=f"SymmetricKL needs `kl`, which {type(batch).__name__} do not have"):
            SymmetricKL()(batch)
    with pytest.raises(ValueError, match="singular"):
        SymmetricKL()(mc.Gaussians([[0.0], [1.0]], [1.0, 0.0]))
    with pytest.raises(TypeError, match=r"SymmetricKL\(\) has no model"):
        SymmetricKL()([[1.0, 2.0]])


def test_sparse_counts_of_random_length_equal_dense_ones():
    from scipy import sparse

    counts = np.random.default_rng(4).poisson(2, size=(9, 6)) + 1.0
    kernel = mc.SymmetricKL(mc.Multinomial())
    np.testing.assert_allclose(kernel.fit_transform(sparse.csr_array(counts)), kernel.fit_transform(counts), rtol=1e-12)
