"""The oligo kernel against sums over all pairs of equal words, and its two limits."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.data.baseline_features import Positions
from mercer.kernels import Oligo, oligo, spectrum
from mercer.testing.kernels import KernelContract, by_pairs


def brute(x, y, k, sigma):
    """The definition."""
    words = [[(p, s[p : p + k]) for p in range(len(s) - k + 1)] for s in (x, y)]
    return sum(np.exp(-((p - q) ** 2) / (4 * sigma**2)) for p, v in words[0] for q, w in words[1] if v == w)


def strings(seed, n, length=9):
    return ["abc" + "".join(x) for x in np.random.default_rng(seed).choice(list("abc"), (n, length))]


class TestOligo(KernelContract):
    features = True
    k, sigma = 2, 1.3

    def kernel(self):
        return Oligo(k=self.k, sigma=self.sigma)

    def data(self, seed, n):
        return strings(seed, n)

    def adversarial(self):
        return [*self.data(99, 12), *("abc" + c * n for c in "abc" for n in (0, 1, 3, 9)), "abcabcabcabc"]

    def truth(self, X):
        return by_pairs(lambda x, y: brute(x, y, self.k, self.sigma), X)


class TestSparse(TestOligo):
    sigma = 0.4

    @pytest.fixture(autouse=True)
    def storage(self, monkeypatch):
        monkeypatch.setattr(spectrum, "DENSE_CELLS", 0)

    def test_features(self):
        X = self.data(9, 6)
        rows = self.kernel().features(X)
        np.testing.assert_allclose((rows @ rows.T).toarray(), self.kernel()(X), rtol=1e-9, atol=1e-10)


class TestFarColumns(TestSparse):
    k, sigma = 3, 20.0

    @pytest.fixture(autouse=True)
    def storage(self, monkeypatch):
        monkeypatch.setattr(spectrum, "DENSE_CELLS", 0)
        monkeypatch.setattr(spectrum, "INDEXED_COLUMNS", 0)


@pytest.mark.parametrize("sigma", [1e-300, 1e-3, 0.3, 1.0, 2.5, 10.0, 100.0, 1e300])
def test_blur_of_every_width(sigma):
    """The factors of positions give the blur of all distances, with fewer columns if it is wide."""
    kernel = Oligo(1, sigma).fit(strings(0, 3, length=77))
    blur, d = kernel.blur(), np.subtract.outer(np.arange(80), np.arange(80)) / (2 * sigma)
    d = np.clip(d, -1e3, 1e3)
    np.testing.assert_allclose(blur @ blur.T, np.exp(-(d**2)), atol=1e-13)
    assert blur.shape[1] <= (80 if sigma < 1 else 8 + 200 / sigma)


def test_limits():
    X = strings(0, 8, length=20)
    positions = Positions().fit(X).transform(X)
    np.testing.assert_allclose(Oligo(1, 1e-3, normalize=False)(X), positions @ positions.T, atol=1e-12)
    np.testing.assert_allclose(Oligo(2, 1e6)(X), mc.Spectrum(2)(X), atol=1e-10)


def test_missing_symbols_and_short_strings():
    X = ["ACGTN", "ACGTA", "AC"]
    kernel = Oligo(2, alphabet="dna", normalize=False)
    assert kernel(X)[0, 0] == pytest.approx(3 + 2 * 0)
    np.testing.assert_allclose(kernel(X)[1:, 1:], [[4, 1], [1, 1]])
    with pytest.raises(ValueError, match="no window of 3 plain symbols"):
        Oligo(3, alphabet="dna")(X)
    assert Oligo(3, alphabet="dna", on_zero="zero")(X)[2].tolist() == [0, 0, 0]
    assert Oligo(3, alphabet="dna", on_zero="zero")([""]).tolist() == [[0]]


def test_strings_that_are_too_long(monkeypatch):
    kernel = Oligo(2).fit(["ACGT", "ACG"])
    with pytest.raises(ValueError, match=r"sequence 1 has 5 symbols, but the longest training string has 4.*Spectrum"):
        kernel.transform(["ACGT", "ACGTA"])
    with monkeypatch.context() as patch:
        patch.setattr(oligo, "LONGEST", 3)
        with pytest.raises(ValueError, match="sequence 0 has 4 symbols, but the limit is 3"):
            Oligo(2)(["ACGT"])
    with pytest.raises(ValueError, match="too many to index"):
        Oligo(31, alphabet="dna")(["ACGT" * 9, "TTGA" * 9])
    with pytest.raises(ValueError, match="sigma must be"):
        Oligo(sigma=0.0)(["ACGT"])


@pytest.mark.parametrize("k", [1, 2, 6])
def test_shares_of_positions_are_what_their_words_add(k):
    """Shares sum to the decision; of single letters, each is what the decision changes without the letter."""
    X, y = strings(1, 12), np.arange(12) % 2
    kernel = Oligo(k, 1.5, normalize=False, alphabet="abc", unknown="missing")
    pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, y)
    found = mc.explain(pipeline, X[:2], method="additive")
    decisions = pipeline.decision_function(X[:2])
    for i in range(2):
        assert found.contributions[i].sum() + found.bias[i] == pytest.approx(decisions[i])
    if k == 1:
        without = pipeline.decision_function(["N" + X[0][1:]])[0]
        assert found.contributions[0].ravel()[0] == pytest.approx(decisions[0] - without)


def test_names_of_features():
    kernel = Oligo(1, 1e9).fit(["ACGT", "AACC"])
    assert mc.Features(kernel).fit(["ACGT", "AACC"]).get_feature_names_out().tolist() == [
        "A[0]",
        "C[0]",
        "G[0]",
        "T[0]",
    ]
