"""Mean maps of vectors of counts, against sums over all pairs of vectors."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import gammaln, logsumexp

import mercer as mc
from mercer.kernels._counts import CountSmoothed
from mercer.testing.kernels import KernelContract, by_pairs

A = np.array([[0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0], [0, 0.5, 0.5, 0], [0.97, 0.01, 0.01, 0.01]])
B = np.array([[0.7, 0.1, 0.1, 0.1], [0, 0, 0, 1], [0.5, 0, 0, 0.5], [0.1, 0.2, 0.3, 0.4], [1e-9, 1e-9, 0, 1 - 2e-9]])


def outcomes(a, trials):
    x = np.array([c for c in itertools.product(range(trials + 1), repeat=a.shape[-1]) if sum(c) == trials], float)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(x > 0, x * np.log(a)[..., None, :], 0).sum(axis=-1)
    return x, logs + gammaln(trials + 1) - gammaln(x + 1).sum(axis=-1)


def truth(a, b, s, t, gamma):
    (x, p), (y, q) = outcomes(a, s), outcomes(b, t)
    base = -gamma * np.sum((x[:, None] - y) ** 2, axis=-1)
    return np.array([[logsumexp(one[:, None] + other + base) for other in q] for one in p])


@pytest.mark.parametrize(("s", "t"), [(1, 1), (3, 3), (3, 5), (1, 6), (6, 2)])
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4])
def test_the_kernel_is_a_sum_over_vectors_of_counts(s, t, gamma):
    found = CountSmoothed(gamma).leaf(mc.Multinomials(A, trials=s), mc.Multinomials(B, trials=t))
    assert_allclose(found, truth(A, B, s, t, gamma), rtol=1e-12, atol=1e-12)


def test_many_trials_by_random_frequencies():
    p, q = (mc.Multinomials(a, trials=t) for a, t in ((A[[0, 3]], 60), (B[[0, 3]], 45)))
    exact, random = (mc.MeanMap(gamma=1e-3, base="counts", n_components=n) for n in (None, 4000))
    found = exact(p, q)
    assert (np.abs(random(p, q) - found) < 4.5 * random.standard_errors(p, q) + 1e-12).all()
    assert_allclose(random.fit(p).features(q) @ random.fit(p).features(p).T, random(q, p), rtol=1e-12)


def test_one_draw_is_the_kernel_of_aligned_tokens():
    p = mc.Multinomials(A)
    assert_allclose(mc.MeanMap(gamma=0.4, base="counts")(p), mc.MeanMap(gamma=0.4)(p), rtol=1e-12)


def test_sparse_rows_and_totals_that_differ():
    kernel = mc.MeanMap(gamma=0.2, base="counts")
    p, q = mc.Multinomials(A, trials=3), mc.Multinomials(B, trials=5)
    thin = mc.Multinomials(sparse.csr_array(A), trials=3)
    assert_allclose(kernel(thin), kernel(p), rtol=1e-13)
    assert_allclose(kernel(thin, q), kernel(p, q), rtol=1e-13)
    assert_allclose(kernel(q, thin), kernel(p, q).T, rtol=1e-12)
    assert_allclose(kernel.fit(p).transform(q), kernel(q, p), rtol=1e-13)
    joined = kernel([p, q])  # a list of batches stands for their members
    assert_allclose(joined[:4, 4:], kernel(p, q), rtol=1e-12)
    assert np.linalg.eigvalsh(joined)[0] > -1e-12
    with pytest.raises(ValueError, match="differ in trials"):
        mc.MeanMap(gamma=0.2)(p, q)
    with pytest.raises(ValueError, match="differ in dimension"):
        kernel(p, mc.Multinomials(B[:, :1] * 0 + 0.5 * np.ones(2), trials=3))


def test_single_precision_loses_no_more_than_its_own_digits():
    single = [mc.Multinomials(x.astype(np.float32), trials=40) for x in (A, B)]
    double = [mc.Multinomials(p.probability.astype(float), trials=40) for p in single]
    found = CountSmoothed(0.05).leaf(*single)
    assert found.dtype == np.float32
    assert_allclose(found, CountSmoothed(0.05).leaf(*double), rtol=1e-6)


def test_models_made_of_them():
    parts, weights = mc.Multinomials(A.reshape(2, 2, 4), trials=3), np.array([[0.3, 0.7], [0.5, 0.5]])
    kernel = mc.MeanMap(gamma=0.2, base="counts", normalize=False)
    table = kernel(parts.reshape(-1)).reshape(2, 2, 2, 2)
    expected = np.einsum("ia,jb,iajb->ij", weights, weights, table)
    assert_allclose(kernel(mc.Mixtures(weights, parts)), expected, rtol=1e-12)


def test_tensors_and_their_gradients():
    torch = pytest.importorskip("torch")
    a = torch.tensor(A[:1], dtype=torch.float64, requires_grad=True)
    b = mc.Multinomials(torch.tensor(B[:1], dtype=torch.float64), trials=4)

    def value(p):
        return CountSmoothed(0.3).leaf(mc.Multinomials._make(probability=p, trials=3, alphabet=None), b)

    value(a).sum().backward()
    for d in range(4):
        step = np.zeros((1, 4))
        step[0, d] = 1e-6
        ends = [float(value(torch.tensor(A[:1] + sign * step))[0, 0]) for sign in (1, -1)]
        assert_allclose(float(a.grad[0, d]), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("n_components", [None, 50])
def test_others_are_refused_by_name(n_components):
    kernel = mc.MeanMap(base="counts", n_components=n_components)
    for batch in (mc.Poissons([[1.0]]), mc.Categoricals([[0.5, 0.5]]), mc.Gaussians([[0.0]], [1.0])):
        with pytest.raises(TypeError, match=f"counts of Multinomials; got {type(batch).__name__}. Use base='rbf'"):
            kernel(batch)
    with pytest.raises(ValueError, match="base='counts', which compares vectors of counts"):
        mc.MeanMap(n_components=50)(mc.Multinomials(A, trials=3))


class TestCounts(KernelContract):
    def kernel(self):
        return mc.MeanMap(mc.Multinomial(trials=3), gamma=0.2, base="counts")

    def data(self, seed, n):
        return np.random.default_rng(seed).integers(0, 6, size=(n, 3)) + np.eye(3)[np.arange(n) % 3]

    def nearly(self, epsilon):
        return np.array([[1.0, 2.0, 3.0], [1.0, 2.0 + epsilon, 3.0]])

    def truth(self, X):
        def pair(x, y):
            return np.exp(truth(x[None] / x.sum(), y[None] / y.sum(), 3, 3, 0.2)[0, 0])

        return by_pairs(pair, X)
