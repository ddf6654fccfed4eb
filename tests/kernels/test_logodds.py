"""LogOdds: logarithms of kernels against chance, their shift, new rows, and what is kept of them."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.batches import WIDTH, Matrices, gaussians

import mercer as mc
from mercer.kernels.logodds import least_shift
from mercer.testing.kernels import KernelContract, PluralContract

PAIRS = mc.models.AffinePairHMMs(
    joint=[[[0.47, 0.03], [0.03, 0.47]]],
    insertion=[[0.5, 0.5]],
    open=[0.05],
    extend=[0.4],
    continuation=[0.8],
    alphabet="ab",
)


def strings(seed, n):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ab"), rng.integers(2, 12))) for _ in range(n)]


class TestLogOddsOfAnInfinitelyDivisibleKernel(Matrices):
    """Inner products of centered vectors: nothing has to be shifted."""

    needs_fit = True
    normalize = False

    def kernel(self):
        return mc.kernels.LogOdds(3.0 * mc.RBF(gamma=0.5), normalize=self.normalize)

    def truth(self, X):
        X = X - X.mean(axis=0)
        return X @ X.T

    def test_no_shift(self):
        X, new = self.data(0, 9), self.data(1, 5)
        kernel = mc.kernels.LogOdds(mc.RBF(gamma=0.5), normalize=False).fit(X)
        assert kernel.shift_ == 0
        assert kernel.psd == "always"
        center = X.mean(axis=0)
        np.testing.assert_allclose(kernel.transform(new), (new - center) @ (X - center).T, atol=1e-12)
        np.testing.assert_allclose(kernel(new), (new - center) @ (new - center).T, atol=1e-12)


class TestNormalized(TestLogOddsOfAnInfinitelyDivisibleKernel):
    normalize = True


class TestPlurals(PluralContract):
    """Gradients and other array libraries."""

    needs_fit = True
    width = WIDTH[gaussians]

    def kernel(self):
        return mc.kernels.LogOdds(mc.ProbabilityProduct(), shift=0.0, normalize=False)

    def build(self, z):
        return gaussians(z)

    def truth(self, X):
        H = np.eye(len(X)) - 1 / len(X)
        return H @ mc.ProbabilityProduct().log(X) @ H


class TestLogOddsOfAModel(KernelContract):
    """A pair HMM against two independent strings: what both emit, divided by what each emits."""

    needs_fit = True

    def kernel(self):
        return mc.kernels.LogOdds(mc.Marginalization(PAIRS), chance="model", shift=40.0, normalize=False)

    def data(self, seed, n):
        return strings(seed, n)

    def other_data(self, seed, n):
        return None

    def adversarial(self):
        return [*self.data(99, 12), *(c * n for c in "ab" for n in (1, 5, 20)), "ab" * 9, "ab", "ab"]

    def truth(self, X):
        logs = PAIRS.shared_history(X).pair(PAIRS.shared_history(X))
        chance = PAIRS.log_prob(X)[0]
        same = np.array([[x == y for y in X] for x in X])
        return logs - chance[:, None] - chance + 40.0 * same


class TestLogOddsAgainstTraining(TestLogOddsOfAModel):
    def kernel(self):
        return mc.kernels.LogOdds(mc.Marginalization(PAIRS), shift=40.0, normalize=False)

    def truth(self, X):
        logs = PAIRS.shared_history(X).pair(PAIRS.shared_history(X))
        H = np.eye(len(X)) - 1 / len(X)
        return H @ logs @ H + 40.0 * np.array([[x == y for y in X] for x in X])


def test_the_chance_of_a_model_is_its_sum_over_the_other_string():
    """T-19: strings of one length under a hidden Markov model."""
    emission = mc.Categoricals([[[0.9, 0.1], [0.3, 0.7]]], alphabet="ab")
    kernel = mc.Marginalization(mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], emission), normalize=False)
    every = ["".join(letters) for letters in itertools.product("ab", repeat=3)]
    K = kernel(every)
    odds = mc.kernels.LogOdds(kernel, chance="model", shift=0.0, normalize=False).fit_transform(every)
    np.testing.assert_allclose(odds, np.log(K / np.outer(K.sum(axis=1), K.sum(axis=1))), atol=1e-12)
    several = mc.Marginalization(mc.Categoricals([[0.5, 0.5], [0.9, 0.1]], alphabet="ab"), weights=[0.3, 0.7])
    odds = mc.kernels.LogOdds(several, chance="model", shift=0.0, normalize=False).fit_transform(["a", "b"])
    joint = 0.3 * np.full((2, 2), 0.25) + 0.7 * np.outer([0.9, 0.1], [0.9, 0.1])
    np.testing.assert_allclose(odds, np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=1))), atol=1e-12)


@pytest.mark.parametrize("chance", ["training", "model"])
def test_the_shift_is_the_smallest_that_repairs_the_training_matrix(chance):
    X = [*strings(3, 30), *strings(3, 5)]  # some twice
    plain = mc.kernels.LogOdds(mc.Marginalization(PAIRS), chance, shift=0.0, normalize=False).fit_transform(X)
    assert np.linalg.eigvalsh(plain)[0] < -1e-3
    kernel = mc.kernels.LogOdds(mc.Marginalization(PAIRS, normalize=False), chance, normalize=False)
    K = kernel.fit_transform(X)
    same = np.array([[x == y for y in X] for x in X])
    np.testing.assert_allclose(K, plain + kernel.shift_ * same, atol=1e-9)
    different = np.unique(X, return_index=True)[1]
    assert abs(np.linalg.eigvalsh(K[np.ix_(different, different)])[0]) < 1e-9
    assert mc.gram.psd.check(K, 1e-10)
    np.testing.assert_allclose(kernel.transform(X), K, atol=1e-12)  # a new object that is a known one has its row
    np.testing.assert_allclose(kernel(X[:4], X), K[:4], atol=1e-12)
    new = ["abababab" + "a" * 9]
    odds = mc.kernels.LogOdds(mc.Marginalization(PAIRS), chance, shift=0.0, normalize=False).fit(X)
    np.testing.assert_allclose(kernel.transform(new), odds.transform(new), atol=1e-12)
    assert kernel.psd == "conditional"
    assert mc.kernels.Repaired(mc.kernels.LogOdds(mc.Marginalization(PAIRS), chance)).psd == "always"


def test_least_shift():
    assert least_shift(np.diag([2.0, 0.0])) == 0
    np.testing.assert_allclose(least_shift(np.array([[0.0, 2.0], [2.0, 0.0]])), 2.0)
    assert least_shift(np.zeros((3, 3))) == least_shift(np.zeros((0, 0))) == 0


def test_zeros_have_a_floor():
    p = mc.Categoricals([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    logs = np.array([[0, np.log(0.5) / 2, -9.0], [np.log(0.5) / 2, 0, np.log(0.5)], [-9.0, np.log(0.5), 0]])
    H = np.eye(3) - 1 / 3
    for kernel in (mc.ProbabilityProduct(), mc.ProbabilityProduct(normalize=False)):
        found = mc.kernels.LogOdds(kernel, shift=0.0, floor=-9.0, normalize=False).fit_transform(p)
        np.testing.assert_allclose(found, H @ logs @ H, atol=1e-12)
    texts = ["aab", "abb", "ccc"]  # a kernel of values, not logarithms
    K = mc.Spectrum(1)(texts)
    logs = np.log(K, out=np.full((3, 3), -3.0), where=K > 0)
    found = mc.kernels.LogOdds(mc.Spectrum(1), shift=0.0, floor=-3.0, normalize=False).fit_transform(texts)
    np.testing.assert_allclose(found, H @ logs @ H, atol=1e-12)


@pytest.mark.parametrize("chance", ["training", "model"])
@pytest.mark.parametrize("normalize", [True, False])
def test_compact_keeps_the_reference_where_it_is_needed(chance, normalize):
    X, y = strings(5, 40), np.arange(40) % 2
    X = [x + ("abab" if label else "bb") for x, label in zip(X, y, strict=True)]
    kernel = mc.kernels.LogOdds(mc.Marginalization(PAIRS), chance, normalize=normalize)
    pipeline = make_pipeline(kernel, SVC(kernel="precomputed", C=10)).fit(X, y)
    small = mc.compact(pipeline)
    new = strings(6, 20)
    np.testing.assert_allclose(small.decision_function(new), pipeline.decision_function(new), atol=1e-9)
    assert small.kept_[0].kept < 40
    assert (len(small.kept_) > 1) == (chance == "training")


def test_pairs_are_computed_once(monkeypatch):
    calls = []
    whole = mc.Marginalization._tile
    monkeypatch.setattr(mc.Marginalization, "_tile", lambda self, a, b: calls.append(len(a)) or whole(self, a, b))
    X = strings(7, 12)
    mc.kernels.LogOdds(mc.Marginalization(PAIRS)).fit_transform(X)
    count = len(calls)
    assert count > 0
    mc.kernels.LogOdds(mc.Marginalization(PAIRS), "model", normalize=False).fit_transform(X)
    assert len(calls) == count


def test_bad_input():
    X = np.ones((2, 2)) * np.arange(2)[:, None]
    with pytest.raises(ValueError, match=r"got Linear, whose logarithm is undefined.*with positive values"):
        mc.kernels.LogOdds(mc.Linear()).fit(X)
    with pytest.raises(ValueError, match=r"chance='model' needs .*; RBF has none\. Use chance='training'"):
        mc.kernels.LogOdds(mc.RBF(), chance="model").fit(X)
    with pytest.raises(ValueError, match=r"chance must be .*; got 'random'"):
        mc.kernels.LogOdds(mc.RBF(), chance="random").fit(X)
    for shift in (-1.0, "half"):
        with pytest.raises(ValueError, match=r"shift must be .*; got .*added to the diagonal"):
            mc.kernels.LogOdds(mc.RBF(), shift=shift).fit(X)
    with pytest.raises(NotFittedError, match="depends on the training data"):
        mc.kernels.LogOdds(mc.RBF())(X)


def test_rounding_errors_are_not_normalized():
    x = ["MKTAYIAKQ"] * 3
    for n in (1, 2, 3):  # their log odds are zero, up to the rounding errors of `Spectrum`
        with pytest.raises(ValueError, match=r"sequence 0 has zero norm.*on_zero='zero'"):
            mc.kernels.LogOdds(mc.Spectrum(2)).fit(x[:n])(x[:n])
    assert mc.kernels.LogOdds(mc.Spectrum(2), on_zero="zero").fit(x)(x).tolist() == [[0.0] * 3] * 3
