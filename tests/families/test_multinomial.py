"""Multinomials and Multinomial against sums over all count vectors and all strings of tokens."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special, stats
from tests.batches import softmax

import mercer as mc
from mercer.families.counting import log_trials_product
from mercer.testing.families import RHOS, EstimatorContract, FamilyContract


class TestMultinomials(FamilyContract):
    constants = ("trials",)
    trials = 3

    def members(self, seed=0, shape=(3,)):
        p = np.random.default_rng(seed).dirichlet(np.ones(3), size=shape) * 0.97 + 0.01
        return mc.Multinomials(p, trials=self.trials)

    def nodes(self):
        rows = itertools.product(range(self.trials + 1), repeat=3)
        x = np.array([row for row in rows if sum(row) == self.trials], dtype=float)
        return x, np.ones(len(x))

    def expected_base_kernel(self, p, q, gamma):
        """GMMK-10c: all pairs of strings of tokens, aligned."""
        strings = np.array(list(itertools.product(range(3), repeat=self.trials)))
        a, b = (np.prod(r.probability[:, strings], axis=-1) for r in (p, q))
        distance = 2 * np.sum(strings[:, None] != strings[None], axis=-1)
        return a @ np.exp(-gamma * distance) @ b.T

    def parameters(self, p):
        return np.log(p.probability)

    def build(self, theta):
        return mc.Multinomials(softmax(theta), trials=self.trials)

    def edge(self):
        rows = [[0.5, 0.5, 0], [0, 0.3, 0.7], [0.1, 0.2, 0.7], [1, 0, 0]]
        return mc.Multinomials(rows, trials=self.trials)


class TestOneTrial(TestMultinomials):
    trials = 1
    sharp = (40.0, 0.0, 1e-12)


class TestFourTrials(TestMultinomials):
    trials = 4


class TestMultinomial(EstimatorContract):
    def estimator(self, **parameters):
        return mc.Multinomial(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.integers(0, 4, size=(n, 3)) + np.array([1.0, 0, 0]) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 3))

    def totals(self, sample):
        return sample.sum(axis=0), sample.sum()

    def frequencies(self, p):
        return p.probability


def random_csr(seed=0, n=6, k=9):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=(n, k)) * (rng.random((n, k)) < 0.4)
    counts[:, 0] += 1
    return sparse.csr_array(counts.astype(float))


def test_against_scipy():
    p, x = mc.Multinomials([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]]), np.array([[1.0, 2.0, 2.0], [0.0, 1.0, 0.0]])
    truth = [[stats.multinomial.logpmf(row, row.sum(), a) for row in x] for a in p.probability]
    assert_allclose(p.log_prob(x), truth, rtol=1e-12)


@pytest.mark.parametrize("rho", RHOS)
def test_one_trial_is_a_categorical(rho):
    """T-6."""
    a = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    p, c = mc.Multinomials(a), mc.Categoricals(a)
    assert_allclose(p.log_product(p, rho), c.log_product(c, rho), rtol=1e-13)
    assert_allclose(p.log_mean_map(p, rho), c.log_mean_map(c, rho), rtol=1e-13)
    assert_allclose(p.dual_divergence(p), c.dual_divergence(c), rtol=1e-13)


def test_disjoint_documents():
    """DJS-6: psi = s log 2; PPK: log 0 = -inf (C-7)."""
    p = mc.Multinomials(np.eye(2), trials=5)
    assert_allclose(p.dual_divergence(p), 5 * np.log(2) * (1 - np.eye(2)), atol=1e-14)
    assert_array_equal(np.isneginf(p.log_product(p)), ~np.eye(2, dtype=bool))
    for rho in RHOS:
        one = mc.Multinomials(np.eye(2))
        assert_array_equal(np.isneginf(one.log_product(one, rho)), ~np.eye(2, dtype=bool))


@pytest.mark.parametrize("trials", [1, 3])
def test_sparse_equals_dense(trials, tmp_path):
    X = random_csr()
    counts = X.toarray()
    p, d = (mc.Multinomial(trials=trials).fit_each(rows) for rows in (X, counts))
    assert p.sparse
    assert not d.sparse
    assert_allclose(p.dense().probability, counts / counts.sum(axis=1, keepdims=True), rtol=1e-14)
    pairings = [lambda a, b, rho=rho: a.log_product(b, rho) for rho in RHOS]
    pairings += [lambda a, b: a.log_mean_map(b, 0.7), lambda a, b: a.dual_divergence(b), lambda a, b: a.kl(b)]
    for pairing in pairings:
        truth = pairing(d, d[:4])
        for a, b in [(p, p[:4]), (p, d[:4]), (d, p[:4])]:
            assert_allclose(pairing(a, b), truth, rtol=1e-12, atol=1e-13)
    for method in ("natural_parameters", "mean_parameters"):
        assert_allclose(getattr(p, method), getattr(d, method), rtol=1e-14)
    for method in ("log_prob", "fisher_scores"):
        assert_allclose(getattr(p, method)(X), getattr(d, method)(counts), rtol=1e-12)
    assert_allclose(p.fisher_information(), d.fisher_information(), rtol=1e-13, atol=1e-16)
    assert_allclose(p.pooled().dense().probability, d.pooled().probability, rtol=1e-14)
    assert_array_equal(p.sample(3, random_state=0), d.sample(3, random_state=0))
    p.save(tmp_path / "p.npz")
    assert mc.load(tmp_path / "p.npz").digests() == p.digests()
    picks = [2, -1, slice(1, 3), [4, 0], counts[:, 1] > 0]
    for pick in picks:
        assert_allclose(mc.Multinomials.dense(p[pick]).probability, d[pick].probability, rtol=1e-14)
    assert p[2].shape == ()
    assert len(list(p)) == 6
    assert type(p).concat([p[:2], p[2:]]).digests() == p.digests()
    with pytest.raises(IndexError):
        p[6]
    with pytest.raises(ValueError, match=r"one batch axis.*dense to reshape"):
        p.reshape(2, 3)


@pytest.mark.parametrize("prior", [None, "pooled"])
def test_sparse_counts_equal_dense_counts(prior):
    X = random_csr()
    a, b = (mc.Multinomial(prior=prior).fit(rows) for rows in (X, X.toarray()))
    assert_allclose(a.model_.dense().probability, b.model_.probability, rtol=1e-13)
    assert_allclose(a.fit_each(X).dense().probability, b.fit_each(X.toarray()).probability, rtol=1e-13)
    assert_allclose(a.score_samples(X), b.score_samples(X.toarray()), rtol=1e-12)


def test_row_of_zeros():
    counts = np.array([[1.0, 3.0], [0.0, 0.0]])
    for rows in (counts, sparse.csr_array(counts)):
        with pytest.raises(ValueError, match=r"document 1 is empty .* prior='pooled'"):
            mc.Multinomial().fit_each(rows)
        fitted = mc.Multinomial(prior="pooled", prior_strength=2.0).fit_each(rows)
        assert_allclose(fitted.dense().probability, [[0.25, 0.75]] * 2)


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_bad_counts_name_the_document(rows):
    with pytest.raises(
        ValueError, match=r"Negative values in data passed to Multinomial: document 2 has the count -4.0"
    ):
        mc.Multinomial().fit_each(rows(np.array([[1.0, 0], [2, 2], [1, -4]])))
    with pytest.raises(ValueError, match=r"(document|row) 1 has .*(nan|NaN)"):
        mc.Multinomial().fit_each(rows(np.array([[1.0, 0], [2, np.nan]])))
    with pytest.raises(ValueError, match="inf"):
        mc.Multinomial().fit_each(rows(np.array([[1.0, 0], [2, np.inf]])))
    with pytest.raises(ValueError, match="Negative values in data passed to Multinomials: document 0 has the count -1"):
        mc.Multinomials([[0.5, 0.5]]).log_prob(rows(np.array([[3.0, -1.0]])))


def test_bad_input():
    p = mc.Multinomials([[0.5, 0.5]], trials=2)
    with pytest.raises(ValueError, match=r"sequence 0 \(point 0\) has a missing coordinate .NaN."):
        mc.Multinomial().fit_each([np.array([[1.0, np.nan]]), np.ones((2, 2))])
    for trials in (0, 1.5, "two", None):
        with pytest.raises(ValueError, match=r"trials .* number of draws"):
            mc.Multinomials([[0.5, 0.5]], trials=trials)
        with pytest.raises(ValueError, match=r"trials .* number of draws"):
            mc.Multinomial(trials=trials).fit_each([[1, 2]])
    with pytest.raises(ValueError, match="differ in trials: 2 and 3; make both with the same trials"):
        p.log_product(mc.Multinomials([[0.5, 0.5]], trials=3))
    with pytest.raises(ValueError, match="differ in dimension"):
        p.log_product(mc.Multinomials([[0.5, 0.5, 0.0]], trials=2))
    with pytest.raises(ValueError, match=r"Points must have shape \(T, 2\)"):
        p.log_prob([[1, 1, 1]])
    with pytest.raises(ValueError, match=r"probability at index \(1,\) sums to 0.9, not to one"):
        mc.Multinomials(sparse.csr_array([[0.5, 0.5], [0.5, 0.4]]))
    with pytest.raises(ValueError, match=r"document 0 has the count -0.5"):
        mc.Multinomials(sparse.csr_array([[1.5, -0.5]]))
    with pytest.raises(ValueError, match="Every document is empty"):
        mc.Multinomial(prior="pooled").fit([[0, 0]])


def test_negative_counts_of_sets_name_the_datum():
    sets = mc.Sequences([np.ones((2, 2)), np.array([[1.0, 0.0], [0.0, -2.0]])], ids=["a", "b"])
    for estimator in (mc.Multinomial(), mc.Poisson()):
        with pytest.raises(ValueError, match=r"Negative values .*: sequence 'b' \(point 1\) has the count -2.0"):
            estimator.fit_each(sets)


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_sums_have_one_tolerance_and_enough_digits(rows):
    mc.Multinomials(rows(np.array([[0.5, 0.5 + 9e-7]])))
    with pytest.raises(ValueError, match=r"probability at index \(0,\) sums to 1\.0000011, not to one"):
        mc.Multinomials(rows(np.array([[0.5, 0.5 + 1.1e-6]])))
    mc.Multinomials(rows(np.array([[0.5, 0.5 + 9e-5]], dtype=np.float32)))
    with pytest.raises(ValueError, match=r"sums to 1\.0001\d*, not to one"):
        mc.Multinomials(rows(np.array([[0.5, 0.5 + 1.2e-4]], dtype=np.float32)))


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_vocabulary(rows, tmp_path):
    words = ["cat", "dog", "mat"]
    p = mc.Multinomials(rows(np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])), trials=2, alphabet=words)
    assert p.alphabet.symbols == ("cat", "dog", "mat")
    p.save(tmp_path / "p.npz")
    loaded = mc.load(tmp_path / "p.npz")
    assert loaded.digests() == p.digests()
    kept = [p[:1], p[0], type(p).concat([p[1:], p[:1]]), loaded, p.pooled(), p.dense(), p.matched(p.dense())]
    kept += [p.with_mean_parameters(p.mean_parameters), p.dense().matched(p)]
    for q in kept:
        assert q.alphabet == p.alphabet
    assert_allclose(p.log_product(loaded), p.log_product(p))
    other = mc.Multinomials(p.dense().probability, trials=2, alphabet=["cat", "mat", "dog"])
    bare = mc.Multinomials(p.dense().probability, trials=2)
    assert bare.alphabet is None
    assert bare.digests() != p.dense().digests()
    for q in (other, bare):
        with pytest.raises(ValueError, match=r"differ in alphabet: .*; make both with the same alphabet"):
            p.log_product(q)
    with pytest.raises(ValueError, match="got 2 words for 3 probabilities"):
        mc.Multinomials(rows(np.array([[0.5, 0.5, 0.0]])), alphabet=["cat", "dog"])


def test_words_of_a_prior_become_those_of_the_model():
    prior = mc.Multinomials([[0.5, 0.5]], alphabet=["cat", "dog"])
    fitted = mc.Multinomial(prior=prior).fit_each([[1, 3], [0, 1]])
    assert fitted.alphabet == prior.alphabet
    assert_allclose(fitted.probability, [[0.3, 0.7], [0.25, 0.75]])


def test_a_file_without_a_vocabulary_has_none(tmp_path):
    p = mc.Multinomials([[0.5, 0.5]])
    assert "alphabet" not in p._pack()[0]["shared"]
    p.save(tmp_path / "p.npz")
    assert mc.load(tmp_path / "p.npz").alphabet is None


def test_sparse_categoricals_are_multinomials():
    with pytest.raises(TypeError, match=r"must be dense; .* Use mc.Multinomials"):
        mc.Categoricals(sparse.csr_array([[0.5, 0.5]]))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("gamma", [300.0, 302.0, 370.0, 800.0])
def test_mean_map_of_a_large_gamma(make, trials, gamma):
    p = mc.Multinomials(make(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])), trials=trials)
    expected = trials * np.array([[np.log(0.5), -2 * gamma], [-2 * gamma, 0.0]])
    assert_allclose(p.log_mean_map(p, gamma=gamma), expected, rtol=1e-14, atol=1e-15)
    assert_allclose(p.couple(mc.families.Smoothed(gamma)).alone(), np.diag(expected), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_products_of_small_probabilities(make):
    p = mc.Multinomials(make(np.array([[1e-200, 1.0, 0.0, 0.0], [1e-200, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])))
    expected = np.where(np.eye(3) > 0, 0.0, -np.inf)
    expected[0, 1] = expected[1, 0] = 2 * np.log(1e-200)
    assert_allclose(p.log_product(p, rho=1.0), expected, rtol=1e-14)
    assert_allclose(p[:2].log_product(p[2:], rho=1.0), [[-np.inf], [-np.inf]])
    uniform = mc.Multinomials(make(np.full((2, 1000), 1e-3)))
    leaf = uniform.couple(mc.families.PowerProduct(60.0))
    value = np.log(1000) + 120 * np.log(1e-3)
    assert_allclose(leaf.pair(leaf), np.full((2, 2), value), rtol=1e-13)
    assert_allclose(leaf[1:].alone(), [value], rtol=1e-13)


def test_sparse_logarithms_agree_with_dense_ones():
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-200, 0, size=(12, 9))) * (rng.random((12, 9)) < 0.4)
    x[:, 0] += 1e-3
    p = mc.Multinomials(sparse.csr_array(x / x.sum(axis=1, keepdims=True)))
    q = mc.Multinomials(np.full((1, 9), 1 / 9)).matched(p)  # one side alone underflows
    for rho in (1.0, 3.0, 9.0):
        assert_allclose(p.log_product(p, rho), p.dense().log_product(p.dense(), rho), rtol=1e-12, atol=1e-15)
        assert_allclose(p.log_product(q, rho), p.dense().log_product(q.dense(), rho), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_counts_whose_sum_may_overflow_are_refused(make):
    with pytest.raises(ValueError, match=r"(got|count) 1e\+308.* Divide the (data|counts) by a constant"):
        mc.Multinomial().fit(make(np.array([[1.0, 1e308], [1.0, 3.0]])))


def test_an_empty_document_gets_the_prior_even_of_strength_zero():
    p = mc.Multinomial(prior="pooled", prior_strength=0).fit_each([[3.0, 1.0], [0.0, 0.0]])
    assert_allclose(p.probability, [[0.75, 0.25], [0.75, 0.25]])


def test_a_prior_is_its_frequencies_alone():
    X, prior = [[2, 2, 0], [0, 1, 3]], mc.Multinomials([[0.2, 0.3, 0.5]])
    p = mc.Multinomial(trials=5, prior=prior).fit_each(X)
    assert p.trials == 5
    np.testing.assert_array_equal(p.probability, mc.Multinomial(prior=prior).fit_each(X).probability)
    with pytest.raises(ValueError, match=r"trials must be .*; got 2\.0. .*draws as an int"):
        mc.Multinomial(trials=2.0).fit_each(X)


FAR = np.array([[0.3, 0.7, 0.0], [0.9, 0.05, 0.05], [1e-200, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])


def by_convolution(a, b, trials, rho):
    """Log of the coefficient of z^s in the product of the series of all outcomes (PPK-3.3), in 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        terms = [1 / mpmath.factorial(n) ** (2 * mpmath.mpf(rho)) for n in range(trials + 1)]
        now = [mpmath.mpf(1), *[mpmath.mpf(0)] * trials]
        for x, y in zip(a, b, strict=True):
            power = (mpmath.mpf(float(x)) * mpmath.mpf(float(y))) ** mpmath.mpf(rho)
            own = [power**n * term for n, term in enumerate(terms)]
            now = [mpmath.fsum(now[j] * own[n - j] for j in range(n + 1)) for n in range(trials + 1)]
        value = now[trials] / terms[trials]
        return float(mpmath.log(value)) if value > 0 else -np.inf


@pytest.mark.parametrize("rho", [0.05, pytest.param(0.3, marks=pytest.mark.slow), 1.0, 2.5])
@pytest.mark.parametrize("trials", [6, 30, pytest.param(90, marks=pytest.mark.slow)])
def test_products_of_several_trials(trials, rho):
    """PPK-3.3 at any rho: both ways to sum, distributions far apart, zeros, and pairs without a common outcome."""
    truth = [[by_convolution(a, b, trials, rho) for b in FAR] for a in FAR]
    p = mc.Multinomials(FAR, trials=trials)
    assert_allclose(p.log_product(p, rho), truth, rtol=1e-13, atol=1e-13)
    assert_allclose(log_trials_product(FAR, FAR.copy(), trials, rho), truth, rtol=1e-13, atol=1e-13)


def test_many_trials_are_nearly_gaussian():
    """At rho = 1/2 and 1 the sums over counts have other closed forms, whatever the number of trials."""
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(50)), rng.dirichlet(np.ones(50))
    root = 1000 * np.log(np.sum(np.sqrt(a * b)))
    assert_allclose(log_trials_product(a[None], b[None], 1000, 0.5), [[root]], rtol=1e-13)
    few, other = np.array([0.4, 0.6]), np.array([0.35, 0.65])
    n = np.arange(1001.0)
    logs = stats.binom.logpmf(n, 1000, few[0]) + stats.binom.logpmf(n, 1000, other[0])
    assert_allclose(log_trials_product(few[None], other[None], 1000, 1.0), special.logsumexp(logs), rtol=1e-11)


def test_sparse_rows_of_several_trials():
    counts = random_csr().toarray()
    p = counts / counts.sum(axis=1, keepdims=True)
    for trials in (3, 40):
        dense, sparse_ = mc.Multinomials(p, trials=trials), mc.Multinomials(sparse.csr_array(p), trials=trials)
        assert_allclose(sparse_.log_product(sparse_, 0.8), dense.log_product(dense, 0.8), rtol=1e-12)
        K = mc.ProbabilityProduct(rho=0.8)(sparse_)
        assert_allclose(np.diagonal(K), 1)
        assert_allclose(mc.ProbabilityProduct(rho=0.8)(dense), K, rtol=1e-10)
