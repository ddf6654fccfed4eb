"""EmpiricalMeanMap: averages of the base kernel over points and windows, against double loops."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import mercer as mc
from contract import KernelContract, by_pairs, normalised
from mercer.kernels import empirical


class TestPointSets(KernelContract):
    order = 0
    gamma = 0.4

    def kernel(self):
        return mc.EmpiricalMeanMap(order=self.order, gamma=self.gamma)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(2, 7), 2)) for _ in range(n)]

    def nearly(self, epsilon):
        x = self.data(0, 2)
        return [x[0], x[0] + epsilon * np.arange(2 * len(x[0])).reshape(-1, 2)]

    def adversarial(self):
        X = self.data(99, 24)
        return X[:8] + [20 * x for x in X[8:16]] + [X[16] + 1e-9 * i for i in range(8)]

    def base(self, x, y):
        return math.exp(-self.gamma * np.sum((x - y) ** 2))

    def truth(self, X):
        k = self.order

        def pair(x, y):
            starts = [(s, t) for s in range(len(x) - k) for t in range(len(y) - k)]
            return np.mean([math.prod(self.base(x[s + r], y[t + r]) for r in range(k + 1)) for s, t in starts])

        return by_pairs(pair, X)


class TestWindowsOfVectors(TestPointSets):
    order = 1


class TestStrings(TestPointSets):
    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["ab" + "".join(rng.choice(list("abc"), rng.integers(1, 9))) for _ in range(n)]

    def nearly(self, epsilon):
        return None

    def adversarial(self):
        return [*self.data(99, 12), *(c * n for c in "abc" for n in (2, 3, 50)), "ab" * 20, "ab", "ab"]

    def base(self, x, y):
        return 1.0 if x == y else math.exp(-2 * self.gamma)


class TestWindowsOfStrings(TestStrings):
    order = 1


class TestUnivariateSeries(TestPointSets):
    """A matrix of numbers is one series a row."""

    order = 2

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 6))

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(6)])

    def adversarial(self):
        X = self.data(99, 24)
        return np.concatenate([X[:8], 9 * X[8:16], X[16] + 1e-9 * np.arange(8)[:, None]])


def test_spectrum_limit():
    """T-17: large gamma gives the normalised spectrum kernel."""
    X = ["abab", "aabb", "babab"]
    grams = ["aa", "ab", "ba", "bb"]
    counts = np.array([[sum(x[i : i + 2] == g for i in range(len(x) - 1)) for g in grams] for x in X])
    np.testing.assert_allclose(mc.EmpiricalMeanMap(order=1, gamma=50.0)(X), normalised(counts @ counts.T), atol=1e-12)


def test_far_points_have_an_exact_logarithm(monkeypatch):
    sets = [np.zeros((2, 1)), np.array([[100.0], [101.0]]), np.array([[0.5]])]
    expected = np.log((1 + np.exp(-201.0)) / 2) - 100.0**2
    k = mc.EmpiricalMeanMap(gamma=1.0, normalize=False)
    np.testing.assert_allclose(k.log(sets)[0, 1], expected, rtol=1e-14)
    assert k(sets)[0, 1] == 0
    monkeypatch.setattr(empirical, "BLOCK_POINTS", 2)  # sets that several blocks share
    np.testing.assert_allclose(k.log(sets)[0, 1], expected, rtol=1e-14)


def test_far_from_zero_loses_no_digits():
    sets = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(5)]
    k = mc.EmpiricalMeanMap()
    np.testing.assert_allclose(k([x + 1e6 for x in sets]), k(sets), rtol=1e-7)


def test_blocks_do_not_matter(monkeypatch):
    sets = [np.random.default_rng(i).normal(size=(3 + i, 2)) for i in range(6)]
    whole = mc.EmpiricalMeanMap()(sets)
    monkeypatch.setattr(empirical, "BLOCK_POINTS", 5)
    np.testing.assert_allclose(mc.EmpiricalMeanMap()(sets), whole, rtol=1e-13)


def test_bad_input():
    k = mc.EmpiricalMeanMap
    with pytest.raises(
        ValueError, match="sequence 1 has length 2, but windows of order 2 need 3; leave it out, or lower"
    ):
        k(order=2)(["abc", "ab"])
    for order in (-1, 0.5, "one", None, True, np.nan):
        with pytest.raises(ValueError, match=r"order = .*: give 0 for single points"):
            k(order=order)(["ab"])
    with pytest.raises(
        ValueError, match=r"sequence 1 has a coordinate that was not observed \(NaN\).*leave such points out"
    ):
        k()([np.zeros((2, 1)), np.array([[np.nan]])])
    with pytest.raises(ValueError, match="sequence 1 is empty; leave it out"):
        k()(["ab", ""])
    with pytest.raises(ValueError, match="unlike the training data"):
        k().fit([np.zeros((2, 2))]).transform([np.zeros((2, 3))])
    with pytest.raises(ValueError, match=r"not in the alphabet|alphabet"):
        k().fit(["ab", "ba"]).transform(["xy"])
    with pytest.raises((TypeError, ValueError), match=r"symbols|alphabet|vectors"):
        k().fit(["ab"]).transform([np.zeros((2, 2))])
    with pytest.raises(TypeError, match=r"pass (strings|a list)|not one sequence"):
        k()(np.array([object(), object()], dtype=object))


def test_alphabets_of_two_sides_are_joined():
    k = mc.EmpiricalMeanMap()
    np.testing.assert_allclose(k(["ab"], ["bc", "cc"]), k(["ab", "bc", "cc"])[:1, 1:], rtol=1e-14)
    np.testing.assert_allclose(k(mc.Sequences(["ab"], alphabet="abc"), ["bc"]), k(["ab"], ["bc"]), rtol=1e-14)
    np.testing.assert_allclose(k(["bc"], mc.Sequences(["ab"], alphabet="abc")), k(["ab"], ["bc"]), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sets_far_apart(dtype):
    rng = np.random.default_rng(0)
    shift = 1e7 if dtype == np.float64 else 1e4
    sets = [(rng.normal(size=(20, 2)) + shift * (i % 2)).astype(dtype) for i in range(8)]
    exact = by_pairs(lambda x, y: np.exp(-0.5 * cdist(x.astype(float), y.astype(float), "sqeuclidean")).mean(), sets)
    k = mc.EmpiricalMeanMap(gamma=0.5, normalize=False)
    np.testing.assert_allclose(k(sets), exact, rtol=1e-10, atol=1e-14)
    doubled = k(np.concatenate([s, s + 100]) for s in sets)
    np.testing.assert_allclose(doubled, exact / 2, rtol=1e-3)


def test_symbols_that_differ_keep_their_logarithm_at_large_gamma():
    logs = mc.EmpiricalMeanMap(gamma=1e3).log(["aaa", "bbb"])
    np.testing.assert_allclose(logs, [[0.0, -2000.0], [-2000.0, 0.0]])
