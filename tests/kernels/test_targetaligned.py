"""TargetAligned: weights against a search over all of them, invariances, folds, parameters of parts, bad input."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.batches import WIDTH, Matrices, categoricals

import mercer as mc
from mercer.gram import engine
from mercer.kernels import linear_rbf
from mercer.kernels.targetaligned import TargetAligned, align_matrices, centered_target
from mercer.testing.kernels import PluralContract


class Labelled(TargetAligned):
    """With a target that the data imply, since the battery fits without y."""

    def _learn(self, X, y=None):
        super()._learn(X, implied(X))

    def _learn_from_values(self, y=None):
        super()._learn_from_values(implied(self.train_))


def implied(X):
    first = X.parts[0]
    rows = isinstance(first, np.ndarray)
    return np.argsort(np.argsort(first[:, 0])) * 1.0 if rows else np.arange(len(first)) % 2


def weighed(matrices, y, kind="auto"):
    return align_matrices(matrices, centered_target(y, kind, len(y)))[0]


class TestAlignedLogs(Matrices):
    needs_fit = True
    degenerate = "y is the same for all|No kernel is aligned"

    def kernel(self):
        return Labelled([mc.RBF(gamma=0.05), mc.RBF(gamma=3.0)])

    def truth(self, X):
        parts = [self.rbf(X, 0.05), self.rbf(X, 3.0)]
        weights = weighed(parts, np.argsort(np.argsort(X[:, 0])) * 1.0)
        return weights[0] * parts[0] + weights[1] * parts[1]

    def test_three_ways_to_the_training_matrix(self):
        X = self.data(12, 8)
        k = self.kernel()
        K = k.fit_transform(X)
        np.testing.assert_allclose(self.kernel().fit(X).transform(X), K, rtol=1e-9)
        np.testing.assert_allclose(k(X), K, rtol=1e-9)
        assert list(k.get_feature_names_out())[-1] == "labelled7"


class TestAlignedSigned(TestAlignedLogs):
    def kernel(self):
        return Labelled([mc.Linear(normalize=False), mc.RBF(gamma=1.0), 3.0 * mc.Linear()])

    def truth(self, X):
        norm = np.linalg.norm(X, axis=1)
        parts = [X @ X.T, self.rbf(X, 1.0), 3 * X @ X.T / np.outer(norm, norm)]
        weights = weighed(parts, np.argsort(np.argsort(X[:, 0])) * 1.0)
        return sum(w * K for w, K in zip(weights, parts, strict=True))


class TestAlignedPlurals(PluralContract):
    needs_fit = True
    width = WIDTH[categoricals]
    degenerate = "y is the same for all|No kernel is aligned"

    def kernel(self):
        return Labelled([mc.ProbabilityProduct(), mc.ProbabilityProduct(rho=1.0)])

    def build(self, z):
        return categoricals(z)

    def truth(self, X):
        p = np.asarray(X.probability)
        parts = [mc.ProbabilityProduct(rho=rho)(X) for rho in (0.5, 1.0)]
        assert np.allclose(parts[0], np.sqrt(p) @ np.sqrt(p).T)
        return sum(w * K for w, K in zip(weighed(parts, np.arange(len(p)) % 2), parts, strict=True))

    def test_order_of_data_does_not_matter(self):
        pytest.skip("its labels are those of the places")

    def test_cross_gram(self):
        pytest.skip("its labels are those of the places")


# -- the optimum ---------------------------------------------------------------------------------------------


def example(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int), np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)


def grams(X):
    return [mc.RBF(gamma=0.3)(X), mc.Linear(normalize=False)(X), mc.RBF(gamma=5.0)(X), 0.01 * (X @ X.T + 1) ** 2]


def alignment(K, T):
    H = np.eye(len(K)) - 1 / len(K)
    K, T = H @ K @ H, H @ T @ H
    return np.sum(K * T) / np.linalg.norm(K) / np.linalg.norm(T)


def targets(seed):
    _, c, y = example(seed)
    many = np.random.default_rng(seed).integers(3, size=len(c))
    same = (c[:, None] == c) * 1.0, (many[:, None] == many) * 1.0
    return [(c, same[0]), (np.array(list("abc"))[many], same[1]), (y, np.outer(y, y))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("which", range(3))
def test_no_other_weights_align_better(seed, which):
    K = grams(example(seed)[0])
    y, T = targets(seed)[which]
    weights, own, best = align_matrices(K, centered_target(y, "auto", len(y)))
    assert np.all(weights >= 0)
    np.testing.assert_allclose(weights.sum(), 1)
    np.testing.assert_allclose(alignment(sum(w * k for w, k in zip(weights, K, strict=True)), T), best, rtol=1e-10)
    np.testing.assert_allclose([alignment(k, T) for k in K], own, rtol=1e-10, atol=1e-14)
    rng = np.random.default_rng(seed)
    for other in [*np.eye(4), *rng.dirichlet(np.full(4, 0.3), size=200)]:
        assert alignment(sum(w * k for w, k in zip(other, K, strict=True)), T) <= best + 1e-12
    # An optimiser that knows nothing of least squares.
    found = minimize(
        lambda z: -alignment(sum(np.exp(a) * k for a, k in zip(z, K, strict=True)), T),
        np.zeros(4),
        method="L-BFGS-B",
        bounds=[(-25, 10)] * 4,
    )
    np.testing.assert_allclose(-found.fun, best, atol=2e-4)
    assert -found.fun <= best + 1e-12


def test_it_is_the_closed_form_where_that_is_positive():
    X, _, _ = example()
    K = [np.outer(X[:, j], X[:, j]) for j in range(3)]
    y = X @ [1.0, 2.0, 0.5]
    H = np.eye(len(X)) - 1 / len(X)
    centred = [H @ k @ H for k in K]
    M = np.array([[np.sum(a * b) for b in centred] for a in centred])
    expected = np.linalg.solve(M, [np.sum(a * np.outer(y, y)) for a in centred])
    assert np.all(expected > 0)
    np.testing.assert_allclose(weighed(K, y), expected / expected.sum(), rtol=1e-9)


def test_two_classes_are_plus_and_minus_one():
    X, c, _ = example()
    np.testing.assert_allclose(weighed(grams(X), c), weighed(grams(X), 2.0 * c - 1), rtol=1e-9)
    np.testing.assert_allclose(weighed(grams(X), c), weighed(grams(X), 1.0 * c), rtol=1e-9)
    np.testing.assert_allclose(weighed(grams(X), 1.0 * c, "classes"), weighed(grams(X), c, "numbers"), rtol=1e-9)


def test_several_numbers():
    X, _, y = example()
    two = np.column_stack([y, X[:, 2]])
    K = grams(X)
    T = two / np.abs(two).max(axis=0)
    best = align_matrices(K, centered_target(two, "auto", len(y)))[2]
    total = sum(w * k for w, k in zip(weighed(K, two), K, strict=True))
    np.testing.assert_allclose(alignment(total, T @ T.T), best, rtol=1e-10)


@given(st.integers(0, 5), st.lists(st.floats(-200, 200), min_size=4, max_size=4), st.permutations(range(4)))
def test_units_and_order_of_the_kernels_do_not_matter(seed, powers, order):
    X, c, _ = example(seed, 15)
    K = grams(X)
    plain = weighed(K, c)
    factors = 2.0 ** np.array(powers)
    found = weighed([factors[i] * K[i] for i in order], c)
    back = np.zeros(4)
    back[list(order)] = found
    # Compared as shares of what they add, since a tiny share of a sum may vanish in it.
    shares = back * factors
    np.testing.assert_allclose(shares / shares.sum(), plain / plain.sum(), rtol=1e-6, atol=1e-9)


def test_huge_and_tiny_kernels():
    X, c, _ = example()
    K = grams(X)
    assert np.isfinite(weighed([1e-300 * K[0], 1e300 * K[1]], c)).all()


def test_kernels_that_say_the_same_share_their_weight():
    X, c, _ = example()
    K = grams(X)[:2]
    one, twice = weighed(K, c), weighed([K[0], K[1], K[1]], c)
    np.testing.assert_allclose(twice[0] / twice[1:].sum(), one[0] / one[1], rtol=1e-6)


def test_a_constant_kernel_gets_nothing():
    X, c, _ = example()
    assert weighed([np.ones((40, 40)), grams(X)[0]], c).tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"No kernel is aligned with y: .* alignments are 0. Use"):
        weighed([np.ones((40, 40))], c)


# -- the kernel ----------------------------------------------------------------------------------------------


def test_align_gives_an_ordinary_sum():
    X, c, _ = example()
    kernels = [mc.RBF(gamma=0.3), mc.Linear(normalize=False), mc.RBF(gamma=5.0)]
    fitted = TargetAligned(kernels).fit(X, c)
    total = fitted.as_sum()
    np.testing.assert_allclose(total(X), fitted(X), rtol=1e-12)
    assert not hasattr(total, "train_")
    assert all(clone(kernel).get_params() == kernel.get_params() for kernel in kernels)
    single = TargetAligned([mc.Linear(normalize=False)]).fit(X, c).as_sum()
    assert isinstance(single, mc.kernels.Scaled)
    assert single.weight == 1


def test_parts_of_weight_zero_are_dropped():
    X, _, _ = example()
    fitted = TargetAligned([mc.RBF(gamma=1.0), mc.Linear(normalize=False)]).fit(X, np.linalg.norm(X, axis=1) > 1.5)
    assert fitted.weights_.tolist() == [1, 0]
    assert fitted.domain == "log"
    assert len(fitted.kernels_) == 1
    assert fitted.as_sum().get_params()["kernel__gamma"] == 1.0
    with mc.config(memo_bytes=0):
        engine._runs.clear()
        fitted.transform(X)
        assert [run.label for run in mc.gram.runs()] == ["RBF"]


def test_the_memo_serves_the_weights_and_the_matrix(monkeypatch):
    monkeypatch.setattr(linear_rbf, "CHEAP_COLUMNS", 0)  # so that pairs of rows are remembered, too
    X, c, _ = example(7)
    kernel = TargetAligned([mc.RBF(gamma=0.31), mc.RBF(gamma=2.9)])
    engine._runs.clear()
    kernel.fit_transform(X, c)
    kernel.fit(X, 1 - c).transform(X)
    assert len(mc.gram.runs()) == 2  # every part's matrix once


def test_weights_are_learned_inside_the_fold():
    X, c, _ = example(n=80)
    parts = [mc.RBF(gamma=0.3), mc.Linear(normalize=False)]
    pipeline = make_pipeline(TargetAligned(parts), SVC(kernel="precomputed"))
    scores = cross_val_score(pipeline, X, c, cv=4, error_score="raise")
    expected = []
    for train, test in StratifiedKFold(4).split(X, c):
        kernel = TargetAligned(parts).fit(X[train], c[train]).as_sum()
        svm = SVC(kernel="precomputed").fit(kernel(X[train]), c[train])
        expected.append(svm.score(kernel(X[test], X[train]), c[test]))
    np.testing.assert_allclose(scores, expected)
    assert scores.mean() > 0.8


def test_parameters():
    a, b = mc.RBF(gamma=0.3), mc.Linear()
    kernel = TargetAligned([a, b])
    assert kernel.k0 is a
    assert kernel.get_params()["k1"] is b
    assert kernel.get_params()["k0__gamma"] == 0.3
    kernel.set_params(k0__gamma=2.0, k1=mc.RBF(), k1__gamma=4.0, target="classes")
    assert (kernel.k0.gamma, kernel.k1.gamma, kernel.target) == (2.0, 4.0, "classes")
    assert "k0" not in vars(kernel)
    kernel.set_params(kernels=(a,))
    assert kernel.get_params()["kernels"] == (a,)
    for other in (clone(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert other.k0.gamma == 2.0
    with pytest.raises(AttributeError, match="no attribute 'k1'"):
        getattr(kernel, "k1")  # noqa: B009
    with pytest.raises(ValueError, match="Invalid parameter 'k7'"):
        kernel.set_params(k7=a)


def test_verdict():
    X, c, _ = example()
    kernel = TargetAligned([mc.RBF(gamma=0.3), -1.0 * mc.RBF(gamma=0.3)])
    assert kernel.psd == "no"
    assert kernel.fit(X, c).psd == "always"  # the other has weight 0
    assert kernel.weights_.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("kernel", "y", "message"),
    [
        (TargetAligned([mc.RBF()]), None, r"requires y to be passed, but the target y is None. Call fit\(X, y\)"),
        (TargetAligned([mc.RBF()]), np.zeros(40), r"y is the same for all objects \(n_samples = 40\)"),
        (TargetAligned([mc.RBF()]), ["a"] * 40, r"y is the same for all objects \(n_samples = 40\)"),
        (TargetAligned([mc.RBF()]), np.arange(39), r"40 samples, and y of shape \(39,\)"),
        (TargetAligned([mc.RBF()]), np.full(40, np.nan), "y contains NaN"),
        (TargetAligned([mc.RBF()], target="classes"), np.zeros((40, 2)), r"must have shape \(N,\); got \(40, 2\)"),
        (TargetAligned([mc.RBF()]), np.arange(40) * 1j, "y has dtype complex128. Pass classes"),
        (TargetAligned([mc.RBF()]), np.arange(40).astype("m8[s]"), r"y has dtype timedelta64\[s\]. Pass classes"),
        (TargetAligned([mc.RBF()]), [None, *"a" * 39], r"y\[0\] is None. Pass a class or a number"),
        (TargetAligned([mc.RBF()]), np.array([1, *"a" * 39], dtype=object), "classes that cannot be sorted .* strings"),
        (TargetAligned([mc.RBF()], target="both"), np.arange(40), "target must be .*'classes'.*; got 'both'"),
        (TargetAligned([]), np.arange(40), r"kernels must be a list .*; got \[\]"),
        (TargetAligned(mc.RBF()), np.arange(40), r"kernels must be a list .*; got RBF\(\)"),
    ],
)
def test_messages(kernel, y, message):
    with pytest.raises(ValueError, match=message):
        kernel.fit(np.random.default_rng(0).normal(size=(40, 2)), y)


def test_a_column_is_a_target():
    X, c, y = example()
    for target in (c, y, c.astype(str)):
        flat, column = (TargetAligned([mc.RBF(gamma=0.3), mc.Linear()]).fit(X, t) for t in (target, target[:, None]))
        np.testing.assert_array_equal(flat.weights_, column.weights_)


def test_a_failed_fit_leaves_nothing_of_an_earlier_one():
    X, c, _ = example()
    for other, y in ((X[:9], np.zeros(9)), (np.ones((9, 3)), c[:9]), ([["a"]], [0])):
        kernel = TargetAligned([mc.RBF(gamma=0.3), mc.Linear()]).fit(X, c)
        with pytest.raises(ValueError, match=r"y is the same|No kernel is aligned|could not convert"):
            kernel.fit(other, y)
        for ask, data in ((kernel.transform, (X,)), (kernel, (X,)), (kernel.as_sum, ())):
            with pytest.raises(NotFittedError):
                ask(*data)


@pytest.mark.parametrize("kernels", [[], mc.RBF(), ["rbf"]])
def test_questions_before_the_message(kernels):
    assert TargetAligned(kernels).__sklearn_tags__().target_tags.required
    with pytest.raises((TypeError, ValueError), match=r"list of one or more kernels; got|must be a kernel; got"):
        TargetAligned(kernels).psd  # noqa: B018


def test_a_part_that_is_no_kernel():
    with pytest.raises(TypeError, match=r"k1 must be a kernel; got 'rbf'"):
        TargetAligned([mc.RBF(), "rbf"]).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(NotFittedError, match="because it learns the weights of its parts from y"):
        TargetAligned([mc.RBF()]).as_sum()


@parametrize_with_checks([TargetAligned([mc.RBF(), mc.Linear(normalize=False)])])
def test_scikit_learn_check(estimator, check):
    check(estimator)
