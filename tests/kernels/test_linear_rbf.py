"""Linear and RBF: against scikit-learn, dense and compressed, and what matrices may not hold."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise

import mercer as mc
from mercer.kernels import _operands
from mercer.testing.kernels import KernelContract, by_pairs


class TestLinear(KernelContract):
    features = True

    def kernel(self):
        return mc.Linear()

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 5))

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(5)])

    def truth(self, X):
        return by_pairs(lambda x, y: sum(a * b for a, b in zip(x, y, strict=True)), X)


class TestRBF(TestLinear):
    features = False

    def kernel(self):
        return mc.RBF(gamma=0.3)

    def truth(self, X):
        return by_pairs(lambda x, y: np.exp(-0.3 * sum((a - b) ** 2 for a, b in zip(x, y, strict=True))), X)

    def adversarial(self):
        X = self.data(99, 24)
        return np.concatenate([X[:8], 50 * X[8:16], X[16] + 1e-9 * X[16:]])


class TestLaplace(TestRBF):
    def kernel(self):
        return mc.Laplace(gamma=0.3)

    def test_distance_of_nearly_equal_objects(self):
        near = [self.ready(self.data(5, 6)).distance(self.nearly(epsilon))[0, 1] for epsilon in (1e-2, 1e-4)]
        np.testing.assert_allclose(near[0] / near[1], 10, rtol=0.05)  # 1 - k is linear, the distance a square root

    def truth(self, X):
        return by_pairs(lambda x, y: np.exp(-0.3 * sum(abs(a - b) for a, b in zip(x, y, strict=True))), X)


class TestSparseLinear(KernelContract):
    features = True
    kernel = TestLinear.kernel

    def data(self, seed, n):
        X = np.random.default_rng(seed).poisson(0.5, (n, 12)).astype(float)
        X[:, 0] += 1
        return sparse.csr_array(X)

    def truth(self, X):
        return TestLinear().truth(X.toarray())


class TestSparseRBF(TestSparseLinear):
    features = False
    kernel = TestRBF.kernel

    def truth(self, X):
        return TestRBF().truth(X.toarray())


class TestSparseLaplace(TestSparseLinear):
    features = False
    kernel = TestLaplace.kernel

    def truth(self, X):
        return TestLaplace().truth(X.toarray())


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (mc.Laplace(gamma=0.2), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=0.2)),
        (mc.Laplace(), pairwise.laplacian_kernel),
        (mc.RBF(gamma=0.2), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.2)),
        (mc.RBF(), pairwise.rbf_kernel),
        (mc.Linear(normalize=False), pairwise.linear_kernel),
        (mc.Linear(), pairwise.cosine_similarity),
    ],
)
def test_scikit_learn_agrees(kernel, reference):
    X = np.random.default_rng(0).poisson(1.0, (9, 6)) + 0.5 * np.eye(9, 6)
    Y = X[:4] + 1
    for left in (X, sparse.csr_array(X)):
        for right in (Y, sparse.csr_array(Y)):
            np.testing.assert_allclose(kernel(left, right), reference(X, Y), rtol=1e-12)
            np.testing.assert_allclose(kernel.fit(right).transform(left), reference(X, Y), rtol=1e-12)


def test_an_empty_row_has_a_policy():
    X = sparse.csr_array(np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 0.0]]))
    for data in (X, X.toarray()):
        with pytest.raises(ValueError, match=r"object 1 has zero norm under Linear.*on_zero='zero'.*normalize=False"):
            mc.Linear()(data)
        k = mc.Linear(on_zero="zero")
        K = k(data)
        np.testing.assert_allclose(K, [[1, 0, 1 / np.sqrt(5)], [0, 0, 0], [1 / np.sqrt(5), 0, 1]], atol=1e-15)
        assert np.array_equal(k.diag(data), [1, 0, 1])
        np.testing.assert_allclose(k.distance(data)[1], [1, 0, 1])
        np.testing.assert_allclose(k.features(data) @ k.features(data).T, K, atol=1e-15)
        assert np.isfinite(mc.Linear(normalize=False)(data)).all()
    with pytest.raises(ValueError, match=r"on_zero must be .*got 'ignore'"):
        mc.Linear(on_zero="ignore")(X)


def test_far_from_zero_loses_no_digits():
    X = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(mc.RBF(1.0)(X + 1e7), mc.RBF(1.0)(X), atol=1e-8)
    near = np.array([[1e5], [1e5 + 1e-4]])
    np.testing.assert_allclose(mc.RBF(1.0).distance(near)[0, 1], np.sqrt(2) * 1e-4, rtol=1e-5)


def test_data_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(5, 2)), columns=["a", "b"])
    np.testing.assert_allclose(mc.RBF()(X[:2], X[2:]), mc.RBF()(X)[:2, 2:], rtol=1e-12)
    k = (mc.RBF() + mc.Linear()).fit(X)
    assert list(k.feature_names_in_) == ["a", "b"]
    assert k.fit(np.ones((2, 3))).n_features_in_ == 3
    assert not hasattr(k, "feature_names_in_")


@pytest.mark.parametrize("kernel", [mc.RBF(), mc.Linear()])
def test_bad_matrices(kernel):
    good = np.ones((2, 3))
    bad = [
        (np.array([[1.0, np.nan, 0.0]]), "contains NaN"),
        (np.array([[1.0, np.inf, 0.0]]), "infinity"),
        (np.array([["a", "b", "c"]], dtype=object), "could not convert string to float"),
        (np.ones(3), "Expected 2D array"),
        (np.ones((2, 4)), "has 4 features, but .* is expecting 3 features"),
    ]
    for X, match in bad:
        with pytest.raises(ValueError, match=match):
            kernel.fit(good).transform(X)
        with pytest.raises(ValueError, match=match):
            kernel(good, X)
    np.testing.assert_array_equal(mc.RBF()(1e200 * np.arange(6.0).reshape(2, 3)), np.eye(2))  # squares overflow
    for gamma in (-1.0, np.nan, "auto"):
        with pytest.raises(ValueError, match=r"gamma must be .*; got"):
            mc.RBF(gamma=gamma)(good)


@pytest.mark.slow
def test_two_clusters_far_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    X[:600] += 1e7
    exact = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    shuffled = rng.permutation(len(X))
    tolerance = 1e-13
    for data in (X, sparse.csr_array(X)):
        K = mc.RBF(gamma=0.5)(data)
        np.testing.assert_allclose(K, exact, atol=tolerance)
        np.testing.assert_allclose(mc.RBF(gamma=0.5)(data[shuffled]), K[np.ix_(shuffled, shuffled)], atol=tolerance)
    assert np.linalg.eigvalsh(K)[0] > -1e-10


def test_sparse_rows_far_from_zero():
    X = sparse.csr_array(np.array([[1e8, 1.0], [1e8 + 1, 1.0]]))
    np.testing.assert_allclose(mc.RBF(gamma=1.0)(X)[0, 1], np.exp(-1.0), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_float32_is_computed_in_float64(form):
    X = np.array([[100.0], [100.01], [0.0]], dtype=np.float32)
    K = mc.RBF(gamma=1e3)(form(X))
    assert K.dtype == np.float32
    expected = np.exp(-1e3 * cdist(X.astype(float), X.astype(float), "sqeuclidean"))
    np.testing.assert_allclose(K, expected, rtol=1e-6)


def test_no_pair_of_ordinary_data_is_computed_twice(monkeypatch):
    def never(i, j):
        raise AssertionError

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    total = np.sum(X**2, axis=1)[:, None] + np.sum(Y**2, axis=1)
    _operands._refined(total - 2 * X @ Y.T, total, never)
    monkeypatch.setattr(_operands, "CHUNK", 7)  # few pairs at a time
    far = np.concatenate([X, X + 1e8])
    exact = np.exp(-cdist(far, far, "sqeuclidean"))
    np.testing.assert_allclose(mc.RBF(gamma=1.0)(far), exact, atol=1e-12)


@pytest.mark.parametrize("kernel", [mc.RBF(), mc.RBF() + mc.Linear()], ids=lambda kernel: type(kernel).__name__)
def test_iterators_are_read_once(kernel):
    X = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(kernel(row for row in X), kernel(X))
    np.testing.assert_allclose(kernel(iter(X), iter(X[:2])), kernel(X, X[:2].copy()))
    np.testing.assert_allclose(kernel.diag(iter(X)), kernel.diag(X))
    np.testing.assert_allclose(kernel.distance(iter(X)), kernel.distance(X), atol=1e-7)
    same = iter(X)
    np.testing.assert_allclose(kernel(same, same), kernel(X))
    fitted = clone(kernel)
    np.testing.assert_allclose(fitted.fit_transform(iter(X)), kernel(X))
    np.testing.assert_allclose(fitted.transform(iter(X[:2])), fitted.transform(X[:2]))
    with pytest.raises(ValueError, match=r"got no data \(0 objects\)"):
        kernel(iter([]))


def test_infinite_values_are_refused():
    X = [[1e200], [2e200]]
    with np.errstate(over="ignore"):
        for kernel in (mc.Linear(normalize=False), mc.RBF() + mc.Linear(normalize=False)):
            for ask in (kernel, kernel.diag, kernel.fit_transform):
                with pytest.raises(OverflowError, match=r"Linear has values that overflow. Rescale the data"):
                    ask(X)


# -- distances --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("normalize", [False, True])
def test_distances_of_vectors_far_from_the_origin(make, normalize):
    """k(x,x) + k(y,y) - 2 k(x,y) cancels: differences of the vectors do not."""
    rng = np.random.default_rng(0)
    X, Y = 1e7 + rng.normal(size=(6, 4)), 1e7 + rng.normal(size=(5, 4))

    def unit(x):
        x = x.astype(np.longdouble)
        return x / np.sqrt((x * x).sum(axis=1, keepdims=True)) if normalize else x

    kernel = mc.Linear(normalize=normalize)
    for other in (X, Y):
        truth = np.sqrt(((unit(X)[:, None] - unit(other)) ** 2).sum(axis=-1)).astype(float)
        # A normalized vector has lost digits to its own rounding, of relative size 1e-16.
        np.testing.assert_allclose(kernel.distance(make(X), make(other)), truth, rtol=1e-8 if normalize else 1e-12)
    squared = ((unit(X)[:, None] - unit(Y)) ** 2).sum(axis=-1).astype(float)
    gaussian = mc.kernels.Gaussianized(kernel, gamma=0.5)
    np.testing.assert_allclose(gaussian(make(X), make(Y)), np.exp(-0.5 * squared), rtol=1e-8)


def test_distances_keep_single_precision_and_zeros():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    single = mc.Linear(normalize=False).distance(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, mc.Linear(normalize=False).distance(X), rtol=1e-6)
    zero = mc.Linear(on_zero="zero").distance(X)
    np.testing.assert_allclose(zero[1], [1.0, 0.0, 1.0])
    np.testing.assert_allclose(zero[0, 2], np.sqrt(2 - 2 * 0.8))


def test_a_parameter_that_is_set_after_fit_is_checked():
    X = np.random.default_rng(0).normal(size=(5, 2))
    kernel = mc.RBF(gamma=1.0).fit(X)
    with pytest.raises(ValueError, match=r"gamma.*-1"):
        kernel.set_params(gamma=-1.0).transform(X)
    np.testing.assert_allclose(kernel.set_params(gamma=2.0).transform(X), mc.RBF(gamma=2.0)(X))


# -- a width from the data --------------------------------------------------------------------------------------


class TestMedianRBF(TestLinear):
    features = False

    def kernel(self):
        return mc.RBF(gamma="median")

    def truth(self, X):
        pairs = [np.sum((x - y) ** 2) for i, x in enumerate(X) for y in X[:i]]
        return by_pairs(lambda x, y: np.exp(-np.sum((x - y) ** 2) / np.median(pairs)), X)

    def ready(self, X):
        return self.kernel().fit(X)  # of each call's own data, every width would be another


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_median_width_is_that_of_all_pairs_in_any_units(form):
    X = np.random.default_rng(0).normal(size=(12, 3))
    median = np.median([np.sum((X[i] - X[j]) ** 2) for i in range(12) for j in range(i)])
    kernel = mc.RBF(gamma="median").fit(form(X))
    assert kernel.gamma_ == pytest.approx(1 / median)
    for scale, shift in ((1e3, 0.0), (1e-3, 0.0), (1.0, 1e7)):
        K = mc.RBF(gamma="median").fit_transform(form(scale * X + shift))
        np.testing.assert_allclose(K, np.exp(-cdist(X, X, "sqeuclidean") / median), rtol=1e-6)


def test_the_median_width_is_learned_from_the_training_data_only(tmp_path):
    X, new = np.random.default_rng(0).normal(size=(9, 2)), 100 * np.ones((2, 2))
    kernel = mc.RBF(gamma="median").fit(X)
    expected = np.exp(-kernel.gamma_ * cdist(new, X, "sqeuclidean"))
    np.testing.assert_allclose(kernel.transform(new), expected)
    mc.save(kernel, tmp_path / "kernel.mercer")
    np.testing.assert_allclose(mc.load(tmp_path / "kernel.mercer").transform(new), expected)
    total = (mc.RBF(gamma="median") + mc.RBF(gamma=1.0)).fit(X)
    np.testing.assert_allclose(total.transform(X), kernel(X) + mc.RBF(gamma=1.0)(X))
    assert total.get_params()["k0__gamma"] == "median"
    kernel.set_params(gamma=2.0).fit(X)
    assert not hasattr(kernel, "gamma_")
    with pytest.raises(NotFittedError, match="fit"):
        mc.RBF(gamma="median").as_gp()


def test_the_median_width_of_repeated_rows():
    """Most distances are 0: the median is that of different rows."""
    X = np.array([[0.0]] * 20 + [[2.0]])
    assert mc.RBF(gamma="median").fit(X).gamma_ == 0.25
    np.testing.assert_array_equal(mc.RBF(gamma="median")(np.ones((3, 2))), np.ones((3, 3)))


def test_many_rows_have_about_the_same_median_width():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert mc.RBF(gamma="median").fit(X).gamma_ == pytest.approx(1 / np.median(cdist(X, X, "sqeuclidean")), rel=0.05)


def test_wrapped_rows():
    X = np.random.default_rng(0).normal(size=(5, 3))
    for data in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(mc.RBF()(mc.objects(data)), mc.RBF()(X), rtol=1e-12)
    np.testing.assert_allclose(mc.RBF().fit(mc.objects(X)).transform(mc.objects(X)[:2, None]), mc.RBF()(X)[:2])


def test_the_median_rule_of_the_laplace_kernel():
    X = np.random.default_rng(0).normal(size=(20, 3))
    kernel = mc.Laplace(gamma="median").fit(X)
    np.testing.assert_allclose(kernel.gamma_, 1 / np.median(pairwise.manhattan_distances(X)[np.triu_indices(20, 1)]))
    assert mc.Laplace("median").fit(X[:1].repeat(3, axis=0)).gamma_ == 1.0
    assert mc.Laplace(0.5).psd == "always"
    assert mc.Laplace(0.5).as_gp().is_stationary()
    assert mc.Laplace(0.5)(X.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="gamma must be"):
        mc.Laplace(-1.0)(X)


def test_a_saved_laplace_kernel_is_the_same(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 2))
    kernel = mc.Laplace("median").fit(X)
    mc.save(kernel, tmp_path / "kernel.mercer")
    np.testing.assert_array_equal(mc.load(tmp_path / "kernel.mercer").transform(X), kernel.transform(X))
