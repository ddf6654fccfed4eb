"""Categoricals and Categorical against sums over all symbols."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import jensenshannon

import mercer as mc
from mercer._array import namespace
from mercer.testing.families import EstimatorContract, FamilyContract


def softmax(theta):
    xp = namespace(theta)
    weights = xp.exp(theta)
    return weights / xp.sum(weights, axis=-1, keepdims=True)


class TestCategoricals(FamilyContract):
    constants = ("alphabet",)
    sharp = (40.0, 0.0, 1e-12)

    def members(self, seed=0, shape=(3,)):
        return mc.Categoricals(np.random.default_rng(seed).dirichlet(np.ones(4), size=shape) * 0.96 + 0.01, "dna")

    def nodes(self):
        return np.arange(4), np.ones(4)

    def base_kernel(self, gamma):
        return np.where(np.eye(4, dtype=bool), 1.0, np.exp(-2 * gamma))

    def parameters(self, p):
        return np.log(p.probability)

    def build(self, theta):
        return mc.Categoricals(softmax(theta), "dna")

    def answers(self, p, q, convert=None):
        yield from super().answers(p, q)  # symbols are NumPy codes in every library

    def edge(self):
        return mc.Categoricals([[0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7], [0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]], "dna")


class TestCategorical(EstimatorContract):
    def estimator(self, **parameters):
        return mc.Categorical(alphabet="dna", **parameters)

    def sets(self):
        return ["A", "ACCA", "GT", "TTTACGA"]

    def empty(self):
        return ""

    def totals(self, sample):
        return np.array([sample.count(s) for s in "ACGT"], dtype=float), len(sample)


def test_classical_jensen_shannon():
    """T-24; one-hot laws differ by log 2 (DJS-6)."""
    p = mc.Categoricals(np.random.default_rng(0).dirichlet(np.ones(5), size=4))
    truth = [[jensenshannon(a, b) ** 2 for b in p.probability] for a in p.probability]
    assert_allclose(p.dual_divergence(p), truth, atol=1e-14)
    assert_allclose(mc.Categoricals(np.eye(2)).dual_divergence(mc.Categoricals(np.eye(2))), np.log(2) * (1 - np.eye(2)))


def test_ambiguity_is_a_sum_and_missing_is_certain():
    p = mc.Categoricals([[0.1, 0.2, 0.3, 0.4], [0.7, 0.3, 0.0, 0.0]], "dna")
    x = mc.Sequences(["ARKN"], alphabet="dna")
    truth = np.log([[0.1, 0.4, 0.7, 1.0], [0.7, 0.7, 1.0, 1.0]])
    truth[1, 2] = -np.inf
    assert_allclose(p.log_prob(x), truth, rtol=1e-14)
    assert_array_equal(p.log_prob(x)[:, 3], 0)
    scores = p.fisher_scores(x)[0]
    assert_allclose(scores[1], np.array([0.25, 0, 0.75, 0]) - p.probability[0])
    assert_allclose(scores[3], 0, atol=1e-15)


def test_one_plain_symbol_decides_for_all_ambiguous_ones():
    p = mc.Categorical(alphabet="dna").fit_each(["A" + "R" * 100, "A" + "R" * 10_000]).probability
    assert_allclose(p, [[1, 0, 0, 0]] * 2, atol=1e-8)


def test_ambiguous_neighbours_do_not_matter():
    texts = ["AAR", "A" + "R" * 100, "ACGTRYW" * 3, "RRY"]
    estimator = mc.Categorical(alphabet="dna").fit(texts)
    with mc.config(cache_bytes=0):
        assert estimator.fit_each(texts).digests() == [estimator.fit_each([t]).digests()[0] for t in texts]


def test_missing_symbols_are_ignored():
    fit = mc.Categorical(alphabet="dna").fit_each
    assert_array_equal(fit(["ANNC", "NNG"]).probability, fit(["AC", "G"]).probability)
    with pytest.raises(
        ValueError, match=r"sequence 1 contains only missing symbols. Leave it out, or use prior='pooled'"
    ):
        fit(["AC", "NN"])
    with pytest.raises(ValueError, match="sequence 'b' contains only missing symbols"):
        fit(mc.Sequences(["AC", "NN"], alphabet="dna", ids=["a", "b"]))
    pooled = mc.Categorical(alphabet="dna", prior="pooled").fit_each(["AC", "NN"]).probability
    assert_allclose(pooled, [[0.5, 0.5, 0, 0]] * 2)
    assert_allclose(mc.Categorical("dna", unknown="missing").fit_each(["A-C"]).probability, [[0.5, 0.5, 0, 0]])


def test_alphabet_travels():
    fitted = mc.Categorical().fit(["abba", "c"])
    assert fitted.model_.alphabet == mc.data.Alphabet("abc")
    assert_allclose(fitted.fit_each(["aa"]).probability, [[1, 0, 0]])
    assert_allclose(mc.Categorical().fit_each([np.array([0, 1, 1])]).probability, [[1 / 3, 2 / 3]])
    with pytest.raises(ValueError, match="'z'"):
        fitted.fit_each(["az"])
    with pytest.raises(ValueError, match="alphabet"):
        fitted.fit_each(mc.Sequences(["AC"], alphabet="dna"))


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ([[0.5, 0.4]], r"probability at index \(0,\) sums to 0.9, not to one\. Divide counts by their sum"),
        ([[0.5, 0.5], [1.5, -0.5]], r"probability at index \(1,\) contains -0.5; probabilities must be nonnegative"),
        ([[np.nan, 1.0]], "contains nan; probabilities must be nonnegative"),
        (1.0, r"probability must have k >= 1 .* shape \(\)"),
        (np.zeros((3, 0)), r"probability must have k >= 1 .* shape \(3, 0\)"),
    ],
)
def test_bad_probabilities(probability, message):
    for plural in (mc.Categoricals, mc.Multinomials):
        with pytest.raises(ValueError, match=message):
            plural(probability)


def test_bad_alphabets_and_symbols():
    p = mc.Categoricals([[0.25] * 4], "dna")
    with pytest.raises(TypeError, match="got an array of dtype object"):
        mc.Categoricals(np.array([[None, 1.0]], dtype=object))
    with pytest.raises(ValueError, match="got 2 columns for an alphabet of 4 symbols"):
        mc.Categoricals([[0.5, 0.5]], "dna")
    with pytest.raises(ValueError, match=r"differ in alphabet: .*make both with the same alphabet"):
        p.log_product(mc.Categoricals([[0.25] * 4], "rna"))
    with pytest.raises(ValueError, match=r"codes from 0 to 14. Encode strings with mc.Sequences first"):
        p.log_prob(["A"])
    with pytest.raises(ValueError, match="must be integer codes"):
        p.log_prob(np.array([15]))
    with pytest.raises(ValueError, match=r"sequences have the alphabet .*, the model has"):
        p.log_prob(mc.Sequences(["ab"]))
    with pytest.raises(ValueError, match=r"prior does not suit Categorical: .*differ in alphabet"):
        mc.Categorical("dna", prior=mc.Categoricals([[0.25] * 4], "rna")).fit_each(["AC"])
    with pytest.raises(TypeError, match=r"Categorical requires symbols; got .* Use Gaussian"):
        mc.Categorical().fit_each(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="unknown must be 'raise' or 'missing'; got 'ignore'"):
        mc.Categorical("dna", unknown="ignore").fit_each(["AC"])


@pytest.mark.parametrize("gamma", [300.0, 302.0, 370.0, 800.0])
def test_mean_map_of_a_large_gamma(gamma):
    p = mc.Categoricals([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert_allclose(
        p.log_mean_map(p, gamma=gamma), [[np.log(0.5), -2 * gamma], [-2 * gamma, 0.0]], rtol=1e-14, atol=1e-15
    )


def test_an_empty_string_gets_the_prior_even_of_strength_zero():
    p = mc.Categorical(alphabet="ab", prior="pooled", prior_strength=0).fit_each(["aaab", ""])
    assert_allclose(p.probability, [[0.75, 0.25], [0.75, 0.25]])


def test_ambiguity_codes_by_the_whole_membership():
    p = mc.Categoricals(np.random.default_rng(0).dirichlet(np.ones(4), size=3), "dna")
    codes, table = np.arange(15), p.alphabet.membership
    assert_allclose(np.exp(p.log_prob(codes)), p.probability @ table.T, rtol=1e-13)
    assert_array_equal(p.statistics(codes[None]), table[None])
    inside = p.probability[:, None] * table
    expected = inside / inside.sum(axis=-1, keepdims=True) - p.probability[:, None]
    assert_allclose(p.fisher_scores(codes), expected, atol=1e-15)
    assert_allclose(p.fisher_scores(codes[::-2]), expected[:, ::-2], atol=1e-15)
