"""CountVectors and CountVector against sums over all vectors of counts, sums over lengths, products of Poissons."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from tests.batches import softmax

import mercer as mc
from mercer.families.count_vector import CountVectors
from mercer.families.count_vector_estimator import CountVector
from mercer.testing.families import EstimatorContract
from mercer.testing.kernels import Gradients, PluralContract

DISTRIBUTIONS = ("poisson", "geometric", "fixed")
COUNTS = np.array(list(itertools.product(range(61), repeat=2)), dtype=float)


def length_mass(distribution, tau, n):
    """Probabilities of the lengths n."""
    if distribution == "fixed":
        return (n == tau).astype(float)
    return stats.poisson.pmf(n, tau) if distribution == "poisson" else stats.geom.pmf(n + 1, 1 / (1 + tau))


def mass(p):
    """Probability of every vector of two counts up to 60: its length, then a binomial."""
    total = COUNTS.sum(axis=1)
    rows = [
        length_mass(p.length_distribution, tau, total) * stats.binom.pmf(COUNTS[:, 0], total, a[0])
        for a, tau in zip(p.probability, p.length, strict=True)
    ]
    return np.array(rows)


class ProductOfPlural(Gradients, PluralContract):
    """Two words and a length from three free numbers."""

    width, distribution = 3, "poisson"

    def kernel(self):
        return mc.ProbabilityProduct()

    def build(self, z):
        from array_api_compat import array_namespace

        return CountVectors(softmax(z[:, :2]), array_namespace(z).exp(z[:, 2]), length_distribution=self.distribution)

    def truth(self, X):
        roots = mass(X) ** 0.5
        return roots @ roots.T


class TestPoissonLengths(ProductOfPlural):
    pass


class TestGeometricLengths(ProductOfPlural):
    distribution = "geometric"

    def free(self, seed, n):
        return super().free(seed, n) * 0.7  # short enough that 60 of a word hardly ever happen


class TestFixedLengths(PluralContract):
    width, distribution = 2, "fixed"

    def kernel(self):
        return mc.ProbabilityProduct()

    def build(self, z):
        return CountVectors(softmax(z), 3.0, length_distribution="fixed")

    def truth(self, X):
        roots = mass(X) ** 0.5
        return roots @ roots.T


class TestCountVector(EstimatorContract):
    def estimator(self, **parameters):
        return CountVector(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.integers(0, 4, size=(n, 3)) + np.array([1.0, 0, 0]) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 3))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


class TestGeometricCountVector(TestCountVector):
    def estimator(self, **parameters):
        return CountVector(length_distribution="geometric", **parameters)


def members(distribution="poisson", seed=0, n=5, k=4):
    rng = np.random.default_rng(seed)
    a = rng.dirichlet(np.ones(k), size=n)
    a[0, 0] = 0
    return CountVectors(
        a / a.sum(axis=1, keepdims=True),
        rng.integers(1, 9, size=n).astype(float),
        length_distribution=distribution,
    )


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_poisson_lengths_are_products_of_poissons(rho):
    p = members()
    q = mc.Poissons(p.length[:, None] * p.probability)
    assert_allclose(p.log_product(p, rho), q.log_product(q, rho), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_sums_over_lengths(distribution, seed):
    """PPK-3.3: sum_s sqrt(w_s w'_s) r^s."""
    p = members(distribution, seed)
    r = np.sqrt(p.probability) @ np.sqrt(p.probability).T
    s = np.arange(600.0)
    w = np.array([np.sqrt(length_mass(distribution, tau, s)) for tau in p.length])
    truth = np.einsum("is,js,ijs->ij", w, w, r[..., None] ** s)
    assert_allclose(np.exp(p.log_product(p)), truth, rtol=1e-10, atol=1e-14)
    assert_allclose(np.diagonal(p.log_product(p)), 0, atol=1e-13)
    assert np.all(p.log_product(p) <= 1e-13)


def test_fixed_lengths_are_multinomials():
    a = np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    p, q = CountVectors(a, 7.0, length_distribution="fixed"), mc.Multinomials(a, trials=7)
    assert_allclose(p.log_product(p), q.log_product(q), rtol=1e-12, atol=1e-13)
    lengths = CountVectors(a, [1.0, 2.0, 2.0, 0.0, 0.0], length_distribution="fixed").log_product(p)
    assert np.isneginf(lengths).all()
    empty = CountVectors([[1.0, 0.0], [0.0, 1.0]], 0.0, length_distribution="fixed")
    assert_array_equal(empty.log_product(empty), np.zeros((2, 2)))  # two empty documents are equal


@pytest.mark.parametrize("distribution", ["poisson", "geometric"])
def test_empty_documents(distribution):
    p = CountVectors([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0.0, 0.0, 4.0], length_distribution=distribution)
    value = p.log_product(p)
    assert_array_equal(value[:2, :2], np.zeros((2, 2)))
    assert_allclose(value[0, 2], -2 if distribution == "poisson" else -math.log(5) / 2, rtol=1e-14)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-7])
def test_nearly_equal_long_documents(distribution, store, size):
    """100,000 words: 1 - r = |sqrt a - sqrt b|^2 / 2, whose digits a product of rows would have lost."""
    rng = np.random.default_rng(0)
    a = rng.dirichlet(np.ones(300))
    b = a * (1 + size * rng.standard_normal(300))
    b /= b.sum()
    p, n = CountVectors(store(np.array([a, b])), 1e5, length_distribution=distribution), 1e5
    gap = np.sum(((a - b) / (np.sqrt(a) + np.sqrt(b))) ** 2) / 2
    truth = {"poisson": -n * gap, "geometric": -math.log1p(n * gap), "fixed": n * math.log1p(-gap)}[distribution]
    value = p.log_product(p)
    assert_allclose(value[0, 1], truth, rtol=1e-6)
    assert_array_equal(np.diagonal(value), [0, 0])


def test_very_long_documents_stay_finite():
    p = CountVectors(np.eye(3) * 0.7 + 0.1, [1e5, 1e8, 1e12], length_distribution="geometric")
    assert np.isfinite(p.log_product(p)).all()
    q = CountVectors(np.eye(3) * 0.7 + 0.1, [1e5, 1e8, 1e12])
    off = ~np.eye(3, dtype=bool)
    assert np.all(q.log_product(q)[off] < -1e4)


def test_single_precision_is_worked_in_double():
    rng = np.random.default_rng(0)
    a = rng.dirichlet(np.ones(50), size=4).astype(np.float32)
    a[1] = a[0]
    for store in (np.asarray, sparse.csr_array):
        p = CountVectors(store(a), np.float32(1e5))
        value = p.log_product(p)
        assert value.dtype == np.float32
        truth = -0.5e5 * np.sum((np.sqrt(a.astype(float))[:, None] - np.sqrt(a.astype(float))) ** 2, axis=-1)
        assert_allclose(value, truth, rtol=1e-4, atol=1e-4)


def counts(seed=0, n=6, k=9):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 5, size=(n, k)) * (rng.random((n, k)) < 0.4)
    rows[:, 0] += 1
    return rows.astype(float)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_sparse_equals_dense(distribution, tmp_path):
    X = counts()
    p, d = (CountVector(length_distribution=distribution).fit_each(rows) for rows in (sparse.csr_array(X), X))
    assert p.sparse
    assert not d.sparse
    assert_array_equal(p.length, X.sum(axis=1))
    truth = d.log_product(d[:4])
    for a, b in [(p, p[:4]), (p, d[:4]), (d, p[:4])]:
        assert_allclose(a.log_product(b), truth, rtol=1e-12, atol=1e-13)
    kernel = mc.ProbabilityProduct(CountVector(length_distribution=distribution))
    assert_allclose(kernel(sparse.csr_array(X)), kernel(X), rtol=1e-12)
    assert_allclose(p.log_prob(sparse.csr_array(X)), d.log_prob(X), rtol=1e-12)
    assert_allclose(p.mean_parameters, X, rtol=1e-14)
    assert_array_equal(p.sample(3, random_state=0), d.sample(3, random_state=0))
    for batch in (p, d):
        batch.save(tmp_path / "p.npz")
        again = mc.load(tmp_path / "p.npz")
        assert again.digests() == batch.digests()
        assert again.length_distribution == distribution
    for pick in (2, -1, slice(1, 3), [4, 0], X[:, 1] > 0):
        assert_allclose(p[pick].dense().probability, d[pick].probability, rtol=1e-14)
        assert_array_equal(p[pick].length, d[pick].length)
    assert type(p).concat([p[:2], p[2:]]).digests() == p.digests()
    with pytest.raises(ValueError, match=r"one batch axis.*dense to reshape"):
        p.reshape(2, 3)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_log_prob_and_samples(distribution):
    p = CountVectors([[0.3, 0.7], [0.0, 1.0]], [3.0, 2.0], length_distribution=distribution)
    assert_allclose(np.exp(p.log_prob(COUNTS)), mass(p), rtol=1e-9, atol=1e-300)
    assert_allclose(np.exp(p.log_prob(COUNTS)).sum(axis=1), 1, rtol=1e-9)
    assert_allclose(p[0].log_prob(COUNTS[:5]), p.log_prob(COUNTS[:5])[0])
    x = p.sample(4000, random_state=0)
    assert x.shape == (2, 4000, 2)
    error = x.std(axis=1) / math.sqrt(4000)
    assert np.all(np.abs(x.mean(axis=1) - p.mean_parameters) <= 5 * error + 1e-12)
    total = x.sum(axis=-1)
    variance = {"poisson": p.length, "geometric": p.length * (1 + p.length), "fixed": 0 * p.length}[distribution]
    assert_allclose(total.var(axis=1), variance, rtol=0.15)
    empty = CountVectors([[0.5, 0.5]], 0.0, length_distribution=distribution)
    assert_array_equal(empty.log_prob(np.array([[0.0, 0.0], [1.0, 0.0]])), [[0.0, -np.inf]])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_kl(distribution):
    p = CountVectors(
        [[0.3, 0.7], [0.6, 0.4], [0.0, 1.0], [0.5, 0.5]], [3.0, 2.0, 3.0, 0.0], length_distribution=distribution
    )
    own = mass(p)
    both = (own[:, None] > 0) & (own[None] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(both, own[:, None] * (np.log(own[:, None]) - np.log(own[None])), 0.0)
    truth = np.where(((own[:, None] > 0) & ~both).any(axis=-1), np.inf, logs.sum(axis=-1))
    assert_allclose(p.kl(p), truth, rtol=1e-5, atol=1e-12)  # 60 of a word leave out 3e-8 of geometric lengths


def test_prior_shrinks_frequencies_and_lengths():
    X = counts()
    pooled = X.mean(axis=0)
    p = CountVector(prior="pooled", prior_strength=3.0).fit_each(X)
    assert_allclose(p.mean_parameters, (X + 3 * pooled) / 4, rtol=1e-13)
    assert_allclose(p.length, (X.sum(axis=1) + 3 * pooled.sum()) / 4, rtol=1e-13)
    given = CountVectors(pooled[None] / pooled.sum(), [pooled.sum()], alphabet=[f"w{i}" for i in range(9)])
    q = CountVector(prior=given, prior_strength=3.0).fit_each(sparse.csr_array(X))
    assert_allclose(q.mean_parameters, p.mean_parameters, rtol=1e-13)
    assert q.alphabet == given.alphabet
    fixed = CountVector(length_distribution="fixed", prior="pooled", prior_strength=3.0).fit_each(X)
    assert_array_equal(fixed.length, X.sum(axis=1))
    assert_allclose(fixed.probability, p.probability, rtol=1e-13)
    zeros = CountVector(prior="pooled").fit_each(np.vstack([X, 0 * X[:1]]))
    assert_allclose(zeros.probability[-1], pooled / pooled.sum(), rtol=1e-13)


def test_in_a_mixture():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.poisson([4.0, 1.0, 0.2], size=(40, 3)), rng.poisson([0.2, 3.0, 9.0], size=(40, 3))])
    model = mc.Mixture(CountVector(prior="pooled", prior_strength=0.1), n_components=2, random_state=0).fit(X).model_
    assert_allclose(np.sort(model.components.length[0]), [5.2, 12.2], rtol=0.15)
    K = mc.ProbabilityProduct()(mc.Mixtures(np.full((2, 2), 0.5), members(n=4).reshape(2, 2)))
    assert mc.gram.psd.check(K)


def test_messages():
    good = [[0.5, 0.5]]
    for arguments, message in (
        ((good, 2.0, "zipf"), r"length_distribution must be .*; got 'zipf'"),
        (
            (good, [2.5], "fixed"),
            r"length at index \(0,\) must be a whole number .*length_distribution='fixed'; got 2.5",
        ),
        ((good, [-1.0]), r"length at index \(0,\) must be 0 or more, and finite; got -1.0"),
        ((good, [np.nan]), "must be 0 or more.*; got nan"),
        ((good, [1.0, 2.0]), r"length .*shape \(1,\); got \(2,\)"),
        (([[0.5, 0.6]], 1.0), "sums to 1.1, not to one"),
    ):
        with pytest.raises(ValueError, match=message):
            CountVectors(*arguments)
    p = members("geometric")
    with pytest.raises(
        ValueError, match=r"rho must be 0.5 for counts of geometric length; got 1.0. Only length_distribution='poisson'"
    ):
        p.log_product(p, rho=1.0)
    with pytest.raises(TypeError, match=r"CountVectors do not have. Use base='counts', or Multinomials"):
        mc.MeanMap()(p)
    with pytest.raises(ValueError, match="differ in length_distribution: geometric and poisson"):
        p.log_product(members())
    with pytest.raises(ValueError, match="differ in alphabet"):
        CountVectors(good, 1.0, alphabet=["a", "b"]).log_product(CountVectors(good, 1.0, alphabet=["b", "a"]))
    with pytest.raises(TypeError, match="JensenShannon needs an exponential family"):
        mc.JensenShannon()(p)


def test_messages_of_the_estimator():
    for X in (np.array([[1.0, 2.0], [0.0, 0.0]]), sparse.csr_array([[1.0, 2.0], [0.0, 0.0]])):
        with pytest.raises(ValueError, match=r"document 1 is empty .* Leave it out, or use prior='pooled'"):
            CountVector().fit_each(X)
    for X in (np.array([[1.0, 2.0], [0.0, -1.0]]), sparse.csr_array([[1.0, 2.0], [0.0, -1.0]])):
        with pytest.raises(ValueError, match=r"Negative values .* document 1 has the count -1.0"):
            CountVector().fit_each(X)
    with pytest.raises(ValueError, match=r"whole with length_distribution='fixed'; got 2.5 for document 1"):
        CountVector(length_distribution="fixed").fit_each([[1.0, 2.0], [2.0, 0.5]])
    with pytest.raises(ValueError, match=r"several lengths, as in a mixture .* all data have 2.5 words on average"):
        CountVector(length_distribution="fixed").fit([[1.0, 2.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match=r"The sum of the counts of .* overflows"):
        CountVector().fit_each([[1e308, 1e308]])
    with pytest.raises(ValueError, match=r"length_distribution must be .*; got 'none'"):
        CountVector(length_distribution="none").fit([[1.0]])
    with pytest.raises(ValueError, match="Every document is empty"):
        CountVector(prior="pooled").fit(np.zeros((2, 2)))
    with pytest.raises(
        ValueError, match=r"weighted documents of several lengths, as in a mixture. Use length_distribution='poisson'"
    ):
        mc.Mixture(CountVector(length_distribution="fixed"), n_components=2).fit([[1.0, 3.0], [2.0, 0.0], [1.0, 2.0]])


def test_huge_lengths():
    p = mc.families.CountVectors([[0.5, 0.5]] * 2, length=[1e200, 1e250], length_distribution="geometric")
    np.testing.assert_allclose(p.log_product(p)[0, 1], np.log(2.0) - 25 * np.log(10.0), rtol=1e-12)
    for distribution in ("poisson", "geometric", "fixed"):
        p = mc.families.CountVectors([[0.5, 0.5]] * 2, length=[3.0, 1e25], length_distribution=distribution)
        with pytest.raises(ValueError, match=r"at index \(1,\) has 1e\+25 words.* lengths up to 1e\+17"):
            p.sample(2, 0)
    total = (
        mc.families.CountVectors([0.5, 0.5], length=1e17, length_distribution="geometric").sample(1000, 0).sum(axis=-1)
    )
    assert total.min() >= 0
    assert abs(total.mean() / 1e17 - 1) < 0.2


def test_counts_at_the_ends_of_the_range():
    with pytest.raises(ValueError, match=r"counts of all documents overflows. Divide the counts"):
        CountVector(prior="pooled").fit_each([[5e307, 5e307]] * 2)
    heavy = CountVector(prior=mc.families.CountVectors([[0.5, 0.5]], length=[1e308]), prior_strength=10.0)
    with pytest.raises(ValueError, match="a document and its prior overflows"):
        heavy.fit_each([[1.0, 2.0]])
    tiny = [[5e-324, 1e-323], [1.0, 2.0]]
    for estimator in (CountVector(), mc.Multinomial()):
        rows = estimator.fit_each(sparse.csr_array(tiny)).probability.dense()
        np.testing.assert_array_equal(rows, estimator.fit_each(tiny).probability)


def test_lengths_that_are_none():
    for length in (None, "3"):
        with pytest.raises(TypeError, match=f"must be the expected number of words.*; got {length!r}"):
            mc.families.CountVectors([[0.5, 0.5]], length=length)
    torch = pytest.importorskip("torch")
    p = mc.families.CountVectors(sparse.csr_array([[0.5, 0.5]]), length=torch.tensor([3.0]))
    assert isinstance(p.length, np.ndarray)


def test_fixed_lengths_in_mixtures():
    for model in (mc.Mixture(CountVector("fixed"), 2), mc.HMM(2, CountVector("fixed"))):
        with pytest.raises(
            ValueError, match=r"^length_distribution='fixed' cannot be fitted to documents of several lengths"
        ):
            model.fit([[[1, 2], [3, 4]], [[1, 0], [5, 5]]])
