"""Heat: angles by arccos in many digits, dense and sparse, gradients, and where it is not positive semi-definite."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from tests.batches import WIDTH, categoricals

import mercer as mc
from mercer.kernels.heat import Heat
from mercer.testing.kernels import KernelContract, PluralContract, by_pairs


def slow(p, q, t):
    cosine = math.fsum(math.sqrt(a * b) for a, b in zip(p, q, strict=True))
    return math.exp(-(math.acos(min(cosine, 1.0)) ** 2) / t)


class TestCategoricals(PluralContract):
    width = WIDTH[categoricals]

    def kernel(self):
        return Heat(t=0.7)

    def build(self, z):
        return categoricals(z)

    def truth(self, X):
        return by_pairs(lambda p, q: slow(p.probability, q.probability, 0.7), X)

    def test_gradients(self):
        torch = pytest.importorskip("torch")
        z = torch.asarray(self.free(2, 4)).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: self.kernel()(self.build(z)), (z,), atol=1e-6)

    def test_gradients_of_nearly_equal_laws(self):
        """The angle has an infinite slope at 0, its square has not."""
        torch = pytest.importorskip("torch")
        z = torch.asarray(self.free(2, 1)).requires_grad_()
        self.kernel()(self.build(z), self.build(z.detach() + 0.01 * torch.arange(3)))[0, 0].backward()
        step = 1e-5 * np.eye(3)
        w = z.detach().numpy()
        ends = [self.kernel()(self.build(w + s), self.build(w + 0.01 * np.arange(3)))[0, 0] for s in (*step, *-step)]
        np.testing.assert_allclose(z.grad[0], (np.array(ends[:3]) - ends[3:]) / 2e-5, rtol=1e-5, atol=1e-10)
        same = torch.asarray(self.free(2, 1)).requires_grad_()
        self.kernel()(self.build(same), self.build(same.detach()))[0, 0].backward()
        np.testing.assert_allclose(same.grad, 0.0, atol=1e-7)


class TestDocuments(KernelContract):
    """Rows of counts become multinomials; sparse rows stay sparse."""

    def kernel(self):
        return Heat(mc.Multinomial(), t=1.5)

    def data(self, seed, n):
        counts = np.random.default_rng(seed).poisson(0.8, size=(n, 9)).astype(float)
        counts[:, 0] += 1
        return sparse.csr_array(counts)

    def truth(self, X):
        p = X.toarray() / X.toarray().sum(axis=1, keepdims=True)
        return by_pairs(lambda p, q: slow(p, q, 1.5), p)

    def test_sparse_is_dense(self):
        X = self.data(0, 30)
        k = self.kernel()
        np.testing.assert_allclose(k(X), k(X.toarray()), rtol=1e-12)
        p = mc.Multinomial().fit_each(X)
        assert p.sparse
        np.testing.assert_allclose(k(p[:10], p.dense()[10:]), k(X)[:10, 10:], rtol=1e-12)
        np.testing.assert_allclose(k(p.dense()[:10], p[10:]), k(X)[:10, 10:], rtol=1e-12)


def normalized(weights):
    empty = weights.sum(axis=1, keepdims=True) == 0
    return (weights + empty) / (weights + empty).sum(axis=1, keepdims=True)


probabilities = arrays(float, (6, 4), elements=st.floats(0.0, 1.0)).map(normalized)


@settings(max_examples=60, deadline=None)
@given(probabilities, st.floats(0.05, 20.0))
def test_any_laws(p, t):
    """Zeros, nearly equal and equal laws: the formula, symmetric, at most 1, at least exp(-(pi/2)^2 / t)."""
    K = Heat(t=t)(mc.Multinomials(p))
    np.testing.assert_allclose(K, by_pairs(lambda a, b: slow(a, b, t), p), rtol=1e-9, atol=1e-12 / t)
    assert np.array_equal(K, K.T)
    assert np.all(np.diag(K) == 1)
    assert K.max() <= 1
    assert np.log(K.min()) >= -((np.pi / 2) ** 2) / t * (1 + 1e-12)
    order = [2, 0, 3, 1]  # of outcomes, which does not matter
    np.testing.assert_allclose(Heat(t=t)(mc.Categoricals(p[:, order])), K, rtol=1e-9, atol=1e-12 / t)


def test_nearly_equal_laws_keep_their_digits():
    """arccos of a cosine would be noise at a distance of 1e-9; the chord is exact."""
    e = 1e-9
    p = np.array([[0.5, 0.5], [0.5 + e, 0.5 - e]])
    angle = e  # d arcsin(sqrt(p)) / dp = 1 at one half
    for batch in (mc.Multinomials(p), mc.Multinomials(sparse.csr_array(p))):
        np.testing.assert_allclose(Heat(t=1.0).log(batch)[0, 1], -(angle**2), rtol=1e-6)
        np.testing.assert_allclose(Heat(t=1.0).distance(batch)[0, 1], np.sqrt(2) * angle, rtol=1e-6)


def test_two_outcomes_are_points_of_an_arc():
    """Then it is the Gaussian kernel of their places on the arc, for every t."""
    p = np.random.default_rng(0).random(25)
    place = np.arcsin(np.sqrt(p))
    K = Heat(t=10.0)(mc.Multinomials(np.stack([p, 1 - p], axis=1)))
    np.testing.assert_allclose(K, np.exp(-((place[:, None] - place) ** 2) / 10), rtol=1e-12)
    assert mc.gram.psd.check(K, 1e-12)


def test_trials_are_a_longer_way():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    once, five = (Heat(t=1.0).log(mc.Multinomials(p, trials=s))[0, 1] for s in (1, 5))
    np.testing.assert_allclose(five, 5 * once)
    np.testing.assert_allclose(Heat(t=0.2).log(mc.Multinomials(p))[0, 1], five)


def test_laws_without_a_common_outcome():
    p = mc.Multinomials(sparse.eye_array(3).tocsr())
    np.testing.assert_allclose(Heat(t=2.0).log(p), -((np.pi / 2) ** 2) / 2 * (1 - np.eye(3)), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_short_times_tell_all_laws_apart(dtype):
    p = np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]], dtype=dtype)
    K = Heat(t=1e-30)(mc.Multinomials(p, trials=1000))
    np.testing.assert_array_equal(K, p[:, :1] == p[:, 0])


def test_single_precision():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=8)
    K = Heat()(mc.Multinomials(p.astype(np.float32)))
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, Heat()(mc.Multinomials(p)), rtol=1e-6)
    np.testing.assert_allclose(Heat()(mc.Multinomials(sparse.csr_array(p.astype(np.float32)))), K, rtol=1e-6)


def grid(m):
    """All laws of three outcomes whose probabilities are multiples of 1 / m."""
    return np.array([c for c in itertools.product(range(m + 1), repeat=3) if sum(c) == m]) / m


@pytest.mark.parametrize(
    ("m", "t", "smallest"), [(2, 10.0, -0.0076), (2, 100.0, -0.0018), (6, 5.0, -6.7e-5), (6, 3.0, -4e-6)]
)
def test_not_positive_semi_definite(m, t, smallest):
    k = Heat(t=t)
    assert k.psd == "no"
    assert "t = 10" in k.psd.reason
    values = np.linalg.eigvalsh(k(mc.Multinomials(grid(m))))
    np.testing.assert_allclose(values[0], smallest, rtol=0.1)
    assert not mc.gram.psd.check(k(mc.Multinomials(grid(m))), 1e-10)


def test_repaired():
    p = mc.Multinomials(grid(2))
    assert mc.gram.psd.check(mc.kernels.Repaired(Heat(t=10.0)).fit_transform(p), 1e-10)


def test_bad_input():
    p = mc.Multinomials([[0.5, 0.5]])
    for t in (0, -1.0, np.nan, "x", None, 1e-310):
        with pytest.raises(ValueError, match=r"t must be a positive number.*; got"):
            Heat(t=t)(p)
    with pytest.raises(TypeError, match=r"outcome probabilities, which Gaussians do not have. Use Multinomials"):
        Heat()(mc.Gaussians([[0.0]], [1.0]))
    with pytest.raises(TypeError, match="which Poissons do not have"):
        Heat(mc.Poisson())([[1.0, 2.0]])
    with pytest.raises(TypeError, match=r"Heat\(\) has no model"):
        Heat()([[1.0, 2.0]])
    with pytest.raises(ValueError, match="document 1"):
        Heat(mc.Multinomial())([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="differ in dimension"):
        Heat()(p, mc.Multinomials([[0.2, 0.3, 0.5]]))
