"""EmpiricalMeanMap: averages of the base kernel over points and windows, against double loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

import mercer as mc
from mercer.kernels._windows import counts as window_counts
from mercer.kernels._windows.counts import WindowCounts, way_of
from mercer.kernels.empiricalmeanmap import WindowSets
from mercer.testing.kernels import KernelContract, by_pairs, normalized


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
    features = True

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["ab" + "".join(rng.choice(list("abc"), rng.integers(1, 9))) for _ in range(n)]

    def nearly(self, epsilon):
        return None

    def adversarial(self):
        return [*self.data(99, 12), *(c * n for c in "abc" for n in (3, 4, 50)), "ab" * 20, "aba", "aba"]

    def base(self, x, y):
        return 1.0 if x == y else math.exp(-2 * self.gamma)


class TestWindowsOfStrings(TestStrings):
    order = 1


class TestWindowsWithGaps(TestStrings):
    """Another way to the same kernel: some columns dense, some sparse."""

    order = 2

    @pytest.fixture(autouse=True)
    def way(self, monkeypatch):
        monkeypatch.setattr(window_counts, "way_of", lambda n_symbols, width: "gaps")
        monkeypatch.setattr(window_counts, "DENSE_CELLS", 4)

    def test_features(self):
        X = self.data(9, 6)
        k = self.ready(X)
        found = k.features(X)
        assert sparse.issparse(found)
        np.testing.assert_allclose((found @ found.T).toarray(), k(X), rtol=1e-9, atol=1e-10)


class TestWindowsByPairs(TestStrings):
    """A third way, without features."""

    order = 2
    features = False

    @pytest.fixture(autouse=True)
    def way(self, monkeypatch):
        monkeypatch.setattr(window_counts, "way_of", lambda n_symbols, width: "pairs")


class TestRandomFeatures(TestPointSets):
    order = 1
    features = True

    def kernel(self):
        return mc.EmpiricalMeanMap(order=self.order, gamma=self.gamma, n_components=20, random_state=3)

    def truth(self, X):
        """The average cosine of the difference of two windows along every direction: the definition of MM-2."""
        w = np.random.default_rng(3).normal(size=(2 * (self.order + 1), 20)) * math.sqrt(2 * self.gamma)

        def pair(x, y):
            windows = [[np.concatenate(z[i : i + 2]) for i in range(len(z) - 1)] for z in (x, y)]
            return np.mean([np.cos((a - b) @ w) for a in windows[0] for b in windows[1]])

        return by_pairs(pair, X)


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
    np.testing.assert_allclose(mc.EmpiricalMeanMap(order=1, gamma=50.0)(X), normalized(counts @ counts.T), atol=1e-12)


# -- windows of symbols ------------------------------------------------------------------------------------


def log_truth(x, y, order, gamma):
    """The kernel by its definition, from the numbers of places that differ; exact as a logarithm."""
    windows = [[z[i : i + order + 1] for i in range(len(z) - order)] for z in (x, y)]
    apart = [sum(a != b for a, b in zip(u, v, strict=True)) for u in windows[0] for v in windows[1]]
    return logsumexp(-2 * gamma * np.array(apart)) - math.log(len(apart))


WAYS = ("table", "gaps", "pairs")


def by(way, strings, order, gamma):
    """An operand that goes one way, whatever is cheapest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_counts, "way_of", lambda n_symbols, width: way)
        patch.setattr(window_counts, "DENSE_CELLS", 5)
        return WindowCounts.of(mc.Sequences(strings, alphabet="abcd"), order + 1, gamma)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("abcd", min_size=5, max_size=12), min_size=1, max_size=4),
    st.integers(0, 4),
    st.one_of(st.just(0.0), st.floats(1e-3, 1e4)),
)
def test_three_ways_to_one_kernel(strings, order, gamma):
    truth = by_pairs(lambda x, y: log_truth(x, y, order, gamma), strings)
    for way in WAYS:
        operand = by(way, strings, order, gamma)
        np.testing.assert_allclose(operand.pair(operand), truth, rtol=1e-12, atol=1e-12, err_msg=way)
        np.testing.assert_allclose(operand.inner(operand), np.exp(truth), rtol=1e-11, atol=1e-250, err_msg=way)
        np.testing.assert_allclose(operand.alone(), np.diag(truth), rtol=1e-12, atol=1e-12, err_msg=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gamma", [100.0, 400.0, 1e4])
def test_logarithms_where_a_mismatch_underflows(way, gamma):
    strings = ["aaaaaa", "bbbbbb", "abbbba", "ccdcca"]
    operand = by(way, strings, 2, gamma)
    truth = by_pairs(lambda x, y: log_truth(x, y, 2, gamma), strings)
    np.testing.assert_allclose(operand.pair(operand), truth, rtol=1e-13, atol=1e-13)
    assert truth.min() == -6 * gamma


def test_the_cheapest_way_depends_on_the_alphabet_and_the_window():
    assert [way_of(4, w) for w in (1, 3, 6, 7, 8, 40)] == ["table"] * 4 + ["pairs"] * 2
    assert [way_of(20, w) for w in (1, 2, 3, 6, 9)] == ["table", "table", "gaps", "gaps", "pairs"]
    assert [way_of(50000, w) for w in (1, 2)] == ["gaps", "gaps"]  # words
    assert way_of(1, 5) == "table"


@pytest.mark.parametrize("alphabet", ["dna", "protein"])
@pytest.mark.parametrize("order", [0, 2, 4, 8])
def test_alphabets_and_orders(alphabet, order):
    rng = np.random.default_rng(order)
    words = ["".join(rng.choice(list("ACGT"), rng.integers(10, 25))) for _ in range(4)]
    k = mc.EmpiricalMeanMap(order=order, gamma=0.3, alphabet=alphabet, normalize=False)
    np.testing.assert_allclose(k.log(words), by_pairs(lambda x, y: log_truth(x, y, order, 0.3), words), rtol=1e-12)
    spectrum = mc.Spectrum(order + 1, alphabet=alphabet)(words)
    np.testing.assert_allclose(k.set_params(gamma=30.0, normalize=True)(words), spectrum, atol=1e-12)


def test_features_of_train_and_test_have_the_same_columns():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 30)) for _ in range(12)]
    k = mc.EmpiricalMeanMap(order=2, gamma=0.2, alphabet="protein").fit(words[:9])
    train, test = k.features(words[:9]), k.features(words[9:])
    assert sparse.issparse(train)
    assert train.shape == (9, 21**3)
    np.testing.assert_allclose((test @ train.T).toarray(), k.transform(words[9:]), rtol=1e-12)
    landmarks = mc.Landmarks(k).fit(words)
    assert landmarks.explicit_
    assert landmarks.transform(words).shape == (12, 21**3)


@pytest.mark.parametrize("order", [0, 1, 3])
def test_large_alphabets(order, monkeypatch):
    """Words: more windows than a table can hold, and more columns than 32 bits can number."""
    rng = np.random.default_rng(0)
    texts = [rng.choice([0, 1, 2, 40_000, 59_999], size=12) for _ in range(5)]
    X = mc.Sequences(texts, alphabet=range(60_000))
    k = mc.EmpiricalMeanMap(order=order, gamma=0.3, normalize=False)
    truth = by_pairs(lambda x, y: log_truth(x, y, order, 0.3), [t.tolist() for t in texts])
    np.testing.assert_allclose(k.log(X), truth, rtol=1e-12)
    monkeypatch.setattr(window_counts, "GAPPED_CHUNK", 30)  # a few strings at a time
    np.testing.assert_allclose(k.log(X), truth, rtol=1e-12)
    if order == 0:
        features = k.features(X)
        assert features.shape == (5, 60_001)
        np.testing.assert_allclose((features[:2] @ features[2:].T).toarray(), np.exp(truth)[:2, 2:], rtol=1e-12)
    else:
        with pytest.raises(TypeError, match=r"too many .*Lower order"):
            k.features(X)


def test_one_hundred_thousand_steps():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, size=(2, 100_000))
    X = mc.Sequences.from_codes(codes, "dna")
    counts = np.stack([np.bincount(c[:-2] * 16 + c[1:-1] * 4 + c[2:], minlength=64) / 99_998 for c in codes])
    kappa = np.exp(-2.0) + (1 - np.exp(-2.0)) * np.eye(4)
    expected = counts @ np.kron(np.kron(kappa, kappa), kappa) @ counts.T
    np.testing.assert_allclose(mc.EmpiricalMeanMap(order=2, normalize=False)(X), expected, rtol=1e-12)
    series = mc.Sequences([np.cumsum(rng.normal(size=(100_000, 1)), axis=0) * 1e-2, rng.normal(size=(100_000, 1))])
    k = mc.EmpiricalMeanMap(order=2, n_components=8)
    assert k.features(series).shape == (2, 16)


# -- windows of vectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 7, 8, 70])
def test_blocks_of_windows(order):
    """Lengths around the edges of the loop's blocks, in which sequences lie side by side."""
    rng = np.random.default_rng(order)
    lengths = order + np.array([1, 4, 5, 63, 64, 65, 255, 256, 257, 300])
    X = mc.Sequences([rng.normal(size=(n, 2)) for n in lengths])
    gamma = 0.3 / (order + 1)
    windows = X.windows(order)
    expected = by_pairs(lambda x, y: np.exp(-gamma * cdist(x, y, "sqeuclidean")).mean(), windows)
    operand = WindowSets(X, order, gamma)
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(operand.alone()), np.diag(expected), rtol=1e-12)
    some = [7, 2, 9]
    np.testing.assert_array_equal(operand[some].pair(operand[1:4]), operand.pair(operand)[some][:, 1:4])


def test_far_windows_have_an_exact_logarithm():
    x, y = np.zeros((300, 1)), 100 + np.arange(300.0)[:, None] / 300
    k = mc.EmpiricalMeanMap(order=1, gamma=1.0, normalize=False)
    apart = y[:-1, 0] ** 2 + y[1:, 0] ** 2
    np.testing.assert_allclose(k.log([x, y])[0, 1], logsumexp(-apart) - math.log(299), rtol=1e-14)


def test_gamma_of_zero_and_points_beyond_all_numbers():
    far = [np.zeros((3, 1)), np.full((4, 1), 1e200)]
    assert np.array_equal(mc.EmpiricalMeanMap(order=1, gamma=0.0)(far), np.ones((2, 2)))
    assert np.array_equal(mc.EmpiricalMeanMap(order=1)(far), np.eye(2))


# -- random features ---------------------------------------------------------------------------------------


def series(n=5):
    rng = np.random.default_rng(1)
    return [rng.normal(i % 2, 1.0, size=(6 + i, 2)) for i in range(n)]


@pytest.mark.parametrize("normalize", [True, False])
def test_standard_errors_are_the_spread_over_seeds(normalize):
    X = series()
    exact = mc.EmpiricalMeanMap(order=1, gamma=0.3, normalize=normalize)(X)
    kernels = [
        mc.EmpiricalMeanMap(order=1, gamma=0.3, n_components=200, random_state=i, normalize=normalize)
        for i in range(200)
    ]
    grams = np.stack([k(X) for k in kernels])
    estimated = np.mean([k.standard_errors(X) for k in kernels[:40]], axis=0)
    off = ~np.eye(5, dtype=bool) if normalize else np.ones((5, 5), dtype=bool)
    np.testing.assert_allclose(estimated[off], grams.std(axis=0)[off], rtol=0.2)  # of 200: 5 %
    bias = 1 / 200 if normalize else 0.0  # of a quotient, and of 200 seeds:
    assert np.all(np.abs(grams.mean(axis=0) - exact)[off] < bias + 5 * grams.std(axis=0)[off] / 14)


def test_standard_errors_of_two_sides_and_of_exact_kernels():
    X, k = series(), mc.EmpiricalMeanMap(n_components=50).fit(series())
    np.testing.assert_allclose(k.standard_errors(X[:2], X[2:]), k.standard_errors(X)[:2, 2:], rtol=1e-9)
    np.testing.assert_allclose(np.diag(k.standard_errors(X)), 0, atol=1e-7)
    assert np.isinf(mc.EmpiricalMeanMap(n_components=10).standard_errors(X)).all()  # too few frequencies to tell
    exact = mc.EmpiricalMeanMap()
    assert not exact.standard_errors(X[:2], X).any()
    strings = mc.EmpiricalMeanMap(n_components=50, order=1)  # which need none
    np.testing.assert_allclose(strings(["abab", "aabb"]), mc.EmpiricalMeanMap(order=1)(["abab", "aabb"]), rtol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2, 300])
def test_random_features_are_positive_semi_definite(n_components):
    K = mc.EmpiricalMeanMap(n_components=n_components, normalize=False)(series(40))
    assert mc.gram.psd.check(K, 1e-10)


def test_a_generator_seeds_once():
    X = series()
    k = mc.EmpiricalMeanMap(n_components=10, random_state=np.random.default_rng(5)).fit(X)
    np.testing.assert_array_equal(k(X), k(X))
    np.testing.assert_allclose(k.transform(X), k(X), rtol=1e-12)
    before = k.transform(X)
    np.testing.assert_array_equal(k.set_params(random_state=7).transform(X), before)  # until the next fit


def test_far_points_have_an_exact_logarithm():
    sets = [np.zeros((2, 1)), np.array([[100.0], [101.0]]), np.array([[0.5]])]
    expected = np.log((1 + np.exp(-201.0)) / 2) - 100.0**2
    k = mc.EmpiricalMeanMap(gamma=1.0, normalize=False)
    np.testing.assert_allclose(k.log(sets)[0, 1], expected, rtol=1e-14)
    assert k(sets)[0, 1] == 0


def test_far_from_zero_loses_no_digits():
    sets = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(5)]
    k = mc.EmpiricalMeanMap()
    np.testing.assert_allclose(k([x + 1e6 for x in sets]), k(sets), rtol=1e-7)


def test_bad_input():
    k = mc.EmpiricalMeanMap
    with pytest.raises(
        ValueError, match="sequence 1 has length 2, but windows of order 2 need 3; drop it, or decrease"
    ):
        k(order=2)(["abc", "ab"])
    named = mc.Sequences([np.zeros((3, 1)), np.zeros((2, 1))], ids=["long", "short"])
    for n_components in (None, 5):
        with pytest.raises(ValueError, match=r"short.* has length 2, but windows of order 2 need 3"):
            k(order=2, n_components=n_components)(named)
    for order in (0, 2):
        with pytest.raises(ValueError, match=r"sequence 1 .*'N'.*stands for several symbols"):
            k(order=order, alphabet="dna")(["ACGT", "ACNT"])
    for n_components in (0, -1, 1.5, "many", True):
        with pytest.raises(ValueError, match=r"n_components must be .*; got .* Pass the number of random frequencies"):
            k(n_components=n_components)(named)
    with pytest.raises(ValueError, match=r"random_state must be .*; got 'x'"):
        k(n_components=3, random_state="x")(named)
    with pytest.raises(ValueError, match=r"2 or more .* got 1, and one frequency has no spread"):
        k(n_components=1).standard_errors(named)
    with pytest.raises(TypeError, match=r"too many explicit features .* 9 symbols out of 4"):
        k(order=8, alphabet="dna").features(["ACGTACGTA"])
    with pytest.raises(TypeError, match=r"vectors .*explicit features.* n_components=1000"):
        k().features(named)
    for order in (-1, 0.5, "one", None, True, np.nan):
        with pytest.raises(ValueError, match=r"order must be .*; got .* Pass 0 for single points"):
            k(order=order)(["ab"])
    with pytest.raises(ValueError, match=r"sequence 1 .*missing coordinate \(NaN\).*leave the point out"):
        k()([np.zeros((2, 1)), np.array([[np.nan]])])
    with pytest.raises(ValueError, match="sequence 1 is empty; drop it"):
        k()(["ab", ""])
    with pytest.raises(ValueError, match="must have 2 coordinates, as the training data had; got 3"):
        k().fit([np.zeros((2, 2))]).transform([np.zeros((2, 3))])
    with pytest.raises(ValueError, match=r"not in the alphabet|alphabet"):
        k().fit(["ab", "ba"]).transform(["xy"])
    with pytest.raises((TypeError, ValueError), match=r"symbols|alphabet|vectors"):
        k().fit(["ab"]).transform([np.zeros((2, 2))])
    with pytest.raises(TypeError, match=r"pass (strings|a list)|not a sequence"):
        k()(np.array([object(), object()], dtype=object))


def test_the_alphabet_is_that_of_the_second_argument():
    k = mc.EmpiricalMeanMap()
    with pytest.raises(ValueError, match="symbol 'a' at position 0, which is not in the alphabet bc"):
        k(["ab"], ["bc", "cc"])
    expected = k(["ab", "bc", "cc"])[:1, 1:]
    np.testing.assert_allclose(k(["ab"], mc.Sequences(["bc", "cc"], alphabet="abc")), expected, rtol=1e-14)


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


def test_the_ends_of_the_range():
    with pytest.raises(ValueError, match=r"sequence 1 .*1.7e\+308.* gamma = 1 .*overflow.* Rescale"):
        mc.EmpiricalMeanMap(n_components=10).features([np.zeros((2, 1)), np.full((2, 1), 1.7e308)])
    strings = ["abcdefghijklmnop", "abcdefghijklmnop", "bbcdefghijklmnop"]  # windows are walked pair by pair
    found = mc.EmpiricalMeanMap(order=12, gamma=1e308, normalize=False)(strings)
    np.testing.assert_allclose(found, [[1 / 4, 1 / 4, 3 / 16], [1 / 4, 1 / 4, 3 / 16], [3 / 16, 3 / 16, 1 / 4]])


def test_the_median_width_is_that_of_the_points_of_the_training_sets():
    rng = np.random.default_rng(0)
    sets = [1000 * rng.normal(size=(n, 2)) for n in (3, 5, 4)]
    points = np.concatenate(sets)
    squared = ((points[:, None] - points) ** 2).sum(axis=-1)[np.triu_indices(12, 1)]
    kernel = mc.EmpiricalMeanMap(gamma="median").fit(sets)
    assert kernel.gamma_ == pytest.approx(1 / np.median(squared))
    np.testing.assert_allclose(kernel(sets), mc.EmpiricalMeanMap(gamma=kernel.gamma_)(sets))
    np.testing.assert_allclose(mc.EmpiricalMeanMap(gamma="median")(sets), kernel(sets))
    np.testing.assert_allclose(kernel(sets[:1], sets[1:]), kernel(sets)[:1, 1:])
    words = ["abba", "bab", "aaa"]
    np.testing.assert_allclose(mc.EmpiricalMeanMap(gamma="median")(words), mc.EmpiricalMeanMap(gamma=0.5)(words))
    equal = mc.EmpiricalMeanMap(gamma="median").fit([np.ones((2, 1)), np.ones((3, 1))])
    assert equal.gamma_ == 1.0
    with pytest.raises(ValueError, match="gamma must be a number or 'median'; got 'scale'"):
        mc.EmpiricalMeanMap(gamma="scale")(sets)


def test_a_test_of_sets_in_other_units_finds_a_difference():
    rng = np.random.default_rng(1)
    A, B = ([1000 * (rng.normal(size=(8, 2)) + shift) for _ in range(15)] for shift in (0, 1))
    assert mc.stats.two_sample_test(A, B, mc.EmpiricalMeanMap(gamma="median"), n_permutations=199).p_value < 0.01
    with pytest.warns(UserWarning, match=r"mc.EmpiricalMeanMap\(gamma='median'\) for sets"):
        mc.stats.two_sample_test(A, B, mc.EmpiricalMeanMap(), n_permutations=19)
