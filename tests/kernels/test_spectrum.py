"""Spectrum: numbers of windows, with and without mismatches, against loops over all strings."""

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import mercer as mc
from mercer.kernels import spectrum
from mercer.kernels import spectrum as near_windows
from mercer.kernels.spectrum import Spectrum
from mercer.testing.kernels import KernelContract, by_pairs, normalized


def brute(x, y, k, m, letters):
    """The definition: a sum over all strings u of the windows of x and of y within m mismatches of u."""

    def number(u, string):
        windows = (string[i : i + k] for i in range(len(string) - k + 1))
        return sum(sum(a != b for a, b in zip(u, v, strict=True)) <= m for v in windows)

    return float(sum(number(u, x) * number(u, y) for u in map("".join, itertools.product(letters, repeat=k))))


class TestSpectrum(KernelContract):
    features = True
    k, mismatches = 2, 0

    def kernel(self):
        return Spectrum(k=self.k, mismatches=self.mismatches)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["abc" + "".join(rng.choice(list("abc"), rng.integers(1, 9))) for _ in range(n)]

    def adversarial(self):
        return [*self.data(99, 12), *(c * n for c in "abc" for n in (3, 5, 50)), "ab" * 20, "abc", "abc"]

    def truth(self, X):
        return by_pairs(lambda x, y: brute(x, y, self.k, self.mismatches, "abc"), X)


class TestOneMismatch(TestSpectrum):
    k, mismatches = 3, 1


class TestTwoMismatches(TestSpectrum):
    k, mismatches = 3, 2


class TestSparse(TestSpectrum):
    """The storage for thousands of features."""

    @pytest.fixture(autouse=True)
    def storage(self, monkeypatch):
        monkeypatch.setattr(spectrum, "DENSE_COLUMNS", 0)
        monkeypatch.setattr(spectrum, "DENSE_CELLS", 0)

    def test_features(self):
        k = self.kernel()
        X = self.data(9, 6)
        rows = k.features(X)
        assert sparse.issparse(rows)
        assert rows.shape == (6, 3**self.k)
        np.testing.assert_allclose((rows @ rows.T).toarray(), k(X), rtol=1e-12)


class TestSparseMismatch(TestSparse):
    k, mismatches = 3, 1


class TestFarColumns(TestSparse):
    """The storage for billions of features."""

    k, mismatches = 3, 1

    @pytest.fixture(autouse=True)
    def storage(self, monkeypatch):
        monkeypatch.setattr(spectrum, "DENSE_COLUMNS", 0)
        monkeypatch.setattr(spectrum, "DENSE_CELLS", 0)
        monkeypatch.setattr(spectrum, "INDEXED_COLUMNS", 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("xyz", min_size=0, max_size=9), min_size=2, max_size=3), st.integers(1, 4), st.integers(0, 3))
def test_equals_the_definition(strings, k, m):
    m = min(m, k - 1)
    X = mc.Sequences(strings, alphabet="xyz")
    found = Spectrum(k, m, normalize=False)(X)
    np.testing.assert_array_equal(found, by_pairs(lambda x, y: brute(x, y, k, m, "xyz"), strings))


def test_is_the_limit_of_the_empirical_mean_map():
    """T-17."""
    X = ["abab", "aabb", "babab"]
    np.testing.assert_allclose(Spectrum(k=2)(X), mc.EmpiricalMeanMap(order=1, gamma=50.0)(X), atol=1e-12)


def test_columns_are_strings_in_alphabetical_order():
    found = Spectrum(k=2, normalize=False).features(mc.Sequences(["abba"], alphabet="ab"))
    np.testing.assert_array_equal(found, [[0, 1, 1, 1]])  # aa, ab, ba, bb


def test_windows_with_an_uncertain_symbol_are_left_out():
    k = Spectrum(k=2, alphabet="dna", normalize=False)
    np.testing.assert_array_equal(k.features(["ACNGT"]), k.features(["AC"]) + k.features(["GT"]))
    missing = Spectrum(k=2, alphabet="dna", unknown="missing", normalize=False)
    np.testing.assert_array_equal(missing.features(["AC-GT"]), k.features(["ACNGT"]))


def test_windows_do_not_cross_sequences():
    k = Spectrum(k=3, normalize=False)
    X = mc.Sequences(["ab", "", "aab", "b"], alphabet="ab")
    np.testing.assert_array_equal(np.diag(k(X)), [0, 0, 1, 0])


def test_sequences_without_a_window():
    X = mc.Sequences(["ACGT", "AC", "ANGT"], alphabet="dna", ids=["one", "two", "three"])
    with pytest.raises(
        ValueError, match=r"sequence 'two' of length 2 has no window of 3 plain symbols.*on_zero='zero'"
    ):
        Spectrum(3)(X[:2])
    with pytest.raises(ValueError, match=r"sequence 'three' of length 4 has no window"):
        Spectrum(3).fit(X[::2]).transform(X[::2])
    K = Spectrum(3, on_zero="zero")(X)
    np.testing.assert_array_equal(K, np.diag([1.0, 0.0, 0.0]))


def test_bad_input():
    for k in (0, -1, 1.5, "three", None, True):
        with pytest.raises(ValueError, match=r"k must be .*; got .* length of the counted substrings"):
            Spectrum(k=k)(["abc"])
    for m in (-1, 3, 0.5, "one", None):
        with pytest.raises(ValueError, match=r"mismatches must be (a whole number, 0 or more|less than k = 3); got"):
            Spectrum(k=3, mismatches=m)(["abc"])
    with pytest.raises(ValueError, match=r"There are 20\^15 strings of 15 symbols .*\. Lower k"):
        Spectrum(k=15, alphabet="protein")(["ACDE" * 5])
    with pytest.raises(ValueError, match=r"strings each within 4 mismatches, too many to list\. Lower k or mismatches"):
        Spectrum(k=8, mismatches=4, alphabet="protein").features(["ACDEFGHIKL"])
    with pytest.raises(TypeError, match=r"Spectrum requires symbols; got .* vectors"):
        Spectrum()([np.zeros((4, 2))])
    with pytest.raises(ValueError, match="alphabet"):
        Spectrum(2).fit(mc.Sequences(["ab"])).transform(mc.Sequences(["xy"]))


def test_full_rows_are_dense(monkeypatch):
    monkeypatch.setattr(spectrum, "DENSE_COLUMNS", 0)
    X = ["abcabcacb", "cabcab", "bbbcabacab"]
    full = Spectrum(k=3, mismatches=1)
    assert isinstance(full.features(X), np.ndarray)
    expected = full(X)
    monkeypatch.setattr(spectrum, "DENSE_CELLS", 0)
    assert sparse.issparse(full.features(X))
    np.testing.assert_allclose(full(X), expected, rtol=1e-14)


def test_long_strings_of_many_symbols():
    """k as large as numbers go: windows over int64."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(30)]
    X += [x[:40] for x in X]
    found = Spectrum(k=31, alphabet="dna", normalize=False)(X)
    windows = [{x[i : i + 31] for i in range(len(x) - 30)} for x in X]
    np.testing.assert_array_equal(found, [[len(a & b) for b in windows] for a in windows])


@pytest.mark.parametrize(("k", "m"), [(14, 1), (31, 1), (31, 2)])
def test_mismatches_and_features_of_long_strings(k, m):
    """Far more features than any memory holds, against lists of all strings near a window."""
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("ACGT"), k + 2)) for _ in range(3)]
    X += [x[: k // 2] + "ACGT"["ACGT".index(x[k // 2]) - 1] + x[k // 2 + 1 :] for x in X]

    def within(x):
        """The strings within m mismatches of the windows of x, as often as they are."""
        found = []
        for window in (x[i : i + k] for i in range(len(x) - k + 1)):
            near = {window}
            for places in itertools.combinations(range(k), m):
                for letters in itertools.product("ACGT", repeat=m):
                    changed = list(window)
                    for place, letter in zip(places, letters, strict=True):
                        changed[place] = letter
                    near.add("".join(changed))
            found += near
        return Counter(found)

    counts = [within(x) for x in X]
    expected = np.array([[sum(n * b[u] for u, n in a.items()) for b in counts] for a in counts], dtype=float)
    assert (expected[:3, 3:].diagonal() > 0).all()
    kernel = Spectrum(k, m, alphabet="dna", normalize=False)
    np.testing.assert_array_equal(kernel(X), expected)
    features = kernel.set_params(normalize=True).features(X)
    assert features.shape == (6, 4**k)
    first = {"".join("ACGT"[int(j) // 4**p % 4] for p in range(k - 1, -1, -1)) for j in features[[0]].indices}
    assert first == set(counts[0])
    np.testing.assert_allclose(features.multiply(features).sum(axis=1), 1, rtol=1e-12)


def test_a_string_of_no_window_in_features():
    X = mc.Sequences(["AC", "ACGTACGTACGTACG"], alphabet="dna")
    features = Spectrum(14, 1, normalize=False).features(X)
    np.testing.assert_array_equal(features.sum(axis=1), [0, 2 * (1 + 14 * 3)])
    assert Spectrum(14, 1, normalize=False).features(X[:1]).nnz == 0


@pytest.mark.parametrize("k", [600, 10**9])
def test_more_strings_than_can_be_numbered(k):
    with pytest.raises(ValueError, match=rf"There are 4\^{k} strings of {k} symbols .*\. Lower k"):
        Spectrum(k, alphabet="dna")(["ACGT"])
    np.testing.assert_array_equal(Spectrum(k, alphabet="A", on_zero="zero")(["AAA"]), [[0.0]])


def test_alphabet_is_learned_on_the_training_data():
    k = Spectrum(2).fit(["abcab", "cab"])
    np.testing.assert_allclose(k.transform(["ab"]), Spectrum(2, alphabet="abc")(["ab"], ["abcab", "cab"]), rtol=1e-14)
    np.testing.assert_allclose(normalized(Spectrum(2, normalize=False)(["aab", "abb"])), Spectrum(2)(["aab", "abb"]))


@pytest.mark.parametrize(("k", "symbols", "m"), [(3, 3, 1), (4, 2, 1), (3, 4, 2), (2, 5, 1)])
def test_strings_near_two_windows_depend_on_their_distance(k, symbols, m):
    """The number of strings near two windows, against all strings; the weights of gapped windows sum to it."""

    def distance(a, b):
        return sum(x != y for x, y in zip(a, b, strict=True))

    every = list(itertools.product(range(symbols), repeat=k))
    weights = near_windows.weights(k, symbols, m)
    for d in range(k + 1):
        first, second = (0,) * k, (1,) * d + (0,) * (k - d)
        near = sum(distance(u, first) <= m and distance(u, second) <= m for u in every)
        assert near_windows.common_strings(k, symbols, m, d) == near
        assert sum(w * comb(k - d, j - d) for j, w in enumerate(weights) if j >= d) == near


@pytest.mark.parametrize(("k", "m"), [(3, 1), (5, 1), (4, 2)])
def test_proteins_with_mismatches(k, m):
    """Windows with gaps give the same whole numbers as all strings within the mismatches, in any storage."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), n)) for n in rng.integers(k, 30, size=12)] + ["ACDEF" * 9]
    kernel = Spectrum(k, m, alphabet="protein", normalize=False)
    features = sparse.csr_array(kernel.features(X))
    expected = (features @ features.T).toarray()
    np.testing.assert_array_equal(kernel(X), expected)
    np.testing.assert_array_equal(kernel(X[:5], X), expected[:5])
    np.testing.assert_array_equal(kernel.diag(X), np.diag(expected))
    for name in ("INDEXED_COLUMNS", "DENSE_CELLS"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spectrum, name, 0)
            np.testing.assert_array_equal(kernel(X), expected)


def test_more_near_strings_than_can_be_listed():
    """Eight amino acids with four mismatches: millions of near strings, 256 windows with gaps."""
    kernel = Spectrum(8, 4, alphabet="protein", normalize=False)
    K = kernel(["ACDEFGHI", "ACDEFGHK", "ACDEFPQR"])
    near = [near_windows.common_strings(8, 20, 4, d) for d in (0, 1, 3, 3)]
    np.testing.assert_array_equal(
        K, np.array([[near[0], near[1], near[2]], [near[1], near[0], near[3]], [near[2], near[3], near[0]]])
    )
