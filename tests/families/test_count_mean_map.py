"""MeanMap(base="counts"): the RBF between vectors of counts, against enumeration of all of them and Monte Carlo."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from tests.batches import categoricals, poissons, softmax

import mercer as mc
from mercer.families import characteristic
from mercer.families.count_vector import CountVectors
from mercer.testing.kernels import KernelContract, PluralContract


def outcomes(total, words=3):
    rows = itertools.product(range(total + 1), repeat=words)
    return np.array([row for row in rows if sum(row) == total], dtype=float)


def enumerated(a, s, b, t, gamma):
    """E exp(-gamma |x - y|^2) over all pairs of count vectors of s and of t words."""
    x, y = outcomes(s, len(a)), outcomes(t, len(b))
    base = np.exp(-gamma * np.sum((x[:, None] - y) ** 2, axis=-1))
    return stats.multinomial.pmf(x, s, a) @ base @ stats.multinomial.pmf(y, t, b)


class TestMultinomials(PluralContract):
    width, gamma, trials = 3, 0.3, 3

    def kernel(self):
        return mc.MeanMap(gamma=self.gamma, base="counts")

    def build(self, z):
        return categoricals(z, mc.Multinomials, trials=self.trials)

    def truth(self, X):
        rows = X.probability
        return np.array([[enumerated(a, self.trials, b, self.trials, self.gamma) for b in rows] for a in rows])


class TestPoissons(PluralContract):
    """GMMK-10d: the base kernel of Poissons was that of counts before."""

    width = 2

    def kernel(self):
        return mc.MeanMap(gamma=0.4, base="counts")

    def build(self, z):
        return poissons(z)

    def truth(self, X):
        n = np.arange(40.0)
        base = np.exp(-0.4 * (n[:, None] - n) ** 2)
        mass = stats.poisson.pmf(n, X.rate[..., None])
        return np.prod(np.einsum("idm,mn,jdn->ijd", mass, base, mass), axis=-1)


class TestMixturesOfMultinomials(PluralContract):
    """Every component with every other: the weights of one pick a multinomial, enumerated."""

    width = 8

    def kernel(self):
        return mc.MeanMap(gamma=0.2, base="counts")

    def build(self, z):
        from array_api_compat import array_namespace

        xp = array_namespace(z)
        return mc.Mixtures(softmax(z[:, :2]), mc.Multinomials(softmax(xp.reshape(z[:, 2:], (-1, 2, 3))), trials=2))

    def truth(self, X):
        x = outcomes(2)
        base = np.exp(-0.2 * np.sum((x[:, None] - x) ** 2, axis=-1))
        mass = [
            sum(w * stats.multinomial.pmf(x, 2, a) for w, a in zip(p.weights, p.components.probability, strict=True))
            for p in X
        ]
        return np.array(mass) @ base @ np.array(mass).T


class RandomFeatures(KernelContract):
    """The features are those of the formula, with the same frequencies, one document and frequency at a time."""

    features = True
    distribution = "poisson"

    def kernel(self):
        return mc.MeanMap(gamma=0.1, base="counts", n_components=40, random_state=3)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 9, size=n).astype(float)
        return CountVectors(rng.dirichlet(np.ones(4), size=n), lengths, length_distribution=self.distribution)

    def characteristic(self, c, tau):
        values = {"poisson": np.exp(tau * (c - 1)), "fixed": c**tau, "geometric": 1 / (1 + tau - tau * c)}
        return values[self.distribution]

    def truth(self, X):
        w = np.random.default_rng(3).standard_normal((40, 4)) * math.sqrt(0.2)
        phi = np.array([[self.characteristic(np.sum(p.probability * np.exp(1j * f)), p.length) for f in w] for p in X])
        return (phi @ phi.conj().T).real / 40

    def test_torch_gradients(self):
        torch = pytest.importorskip("torch")
        z = torch.asarray(np.random.default_rng(0).normal(size=(3, 4))).requires_grad_()
        lengths = torch.asarray([2.0, 3.0, 5.0])
        k = self.kernel()
        assert torch.autograd.gradcheck(
            lambda z: k(CountVectors(torch.softmax(z, -1), lengths, length_distribution=self.distribution)), (z,)
        )


class TestPoissonFeatures(RandomFeatures):
    pass


class TestFixedFeatures(RandomFeatures):
    distribution = "fixed"


class TestGeometricFeatures(RandomFeatures):
    distribution = "geometric"


@pytest.mark.parametrize("gamma", [0.01, 0.5, 30.0])
def test_totals_may_differ(gamma):
    a = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    a[0], a[1] = [1, 0, 0], [0, 0.4, 0.6]
    s = [0, 2, 5, 6]
    p = CountVectors(a, s, length_distribution="fixed")
    truth = [[enumerated(a[i], s[i], a[j], s[j], gamma) for j in range(4)] for i in range(4)]
    found = p.log_count_mean_map(p, gamma)
    sure = np.array(truth) > 1e-280
    assert_allclose(found[sure], np.log(np.array(truth)[sure]), rtol=1e-12, atol=1e-12)
    assert np.isfinite(found).all()


def test_values_below_the_smallest_number():
    """Disjoint documents: |x - y|^2 = 2 s^2 for sure; nearly disjoint ones, by the two largest terms."""
    s, gamma = 30, 10.0
    p = mc.Multinomials([[1.0, 0.0], [0.0, 1.0]], trials=s)
    assert_allclose(p.log_count_mean_map(p, gamma)[0, 1], -2 * gamma * s**2, rtol=1e-13)
    q = mc.Multinomials([[1e-3, 1 - 1e-3]], trials=s)
    n = np.arange(s + 1)
    terms = stats.binom.logpmf(n, s, 1e-3) - 2 * gamma * (s - n) ** 2
    assert_allclose(p[:1].log_count_mean_map(q, gamma)[0, 0], np.logaddexp.reduce(terms), rtol=1e-12)


def test_long_documents_are_nearly_normal():
    """Of two words, x - y is nearly Gaussian: GMMK-2 of its mean and variance (exact sums, by binomials)."""
    s, gamma, a, b = 150, 1e-3, 0.4, 0.5
    p = mc.Multinomials([[a, 1 - a], [b, 1 - b]], trials=s)
    m = np.arange(s + 1)
    terms = stats.binom.pmf(m, s, a)[:, None] * stats.binom.pmf(m, s, b) * np.exp(-2 * gamma * (m[:, None] - m) ** 2)
    assert_allclose(np.exp(p.log_count_mean_map(p, gamma)[0, 1]), terms.sum(), rtol=1e-11)


def test_limits():
    a = np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    one, three = mc.Multinomials(a), mc.Multinomials(a, trials=3)
    assert_allclose(one.log_count_mean_map(one, 0.7), one.log_mean_map(one, 0.7), rtol=1e-12)  # one word: one-hot
    assert_allclose(three.log_count_mean_map(three, 50.0), three.log_product(three, rho=1.0), rtol=1e-12)  # GMMK-11
    assert_array_equal(three.log_count_mean_map(three, 0.0), np.zeros((5, 5)))
    assert np.all(three.log_count_mean_map(three, 1e-9) < 0)


def test_poissons_are_fixed_totals_drawn_first():
    """sum_st P(s) P(t) k_st of fixed totals is the kernel of Poisson lengths."""
    a, tau, gamma = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), [1.5, 2.5], 0.3
    n = np.arange(17)
    sides = [CountVectors(np.tile(row, (17, 1)), n.astype(float), length_distribution="fixed") for row in a]
    weights = [stats.poisson.pmf(n, t) for t in tau]
    truth = weights[0] @ np.exp(sides[0].log_count_mean_map(sides[1], gamma)) @ weights[1]
    p = CountVectors(a, tau)
    assert_allclose(np.exp(p.log_count_mean_map(p, gamma))[0, 1], truth, rtol=1e-7)


def test_sparse_equals_dense():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, size=(6, 9)) * (rng.random((6, 9)) < 0.4)
    counts[:, 0] += 1
    p, d = (mc.Multinomial(trials=4).fit_each(X) for X in (sparse.csr_array(counts.astype(float)), counts))
    assert p.sparse
    for kernel in (mc.MeanMap(gamma=0.1, base="counts"), mc.MeanMap(gamma=0.1, base="counts", n_components=30)):
        assert_allclose(kernel(p), kernel(d), rtol=1e-12)
        assert_allclose(kernel(p, d[:2]), kernel(d, d[:2]), rtol=1e-12)
        assert_allclose(kernel(d, p[:2]), kernel(d, d[:2]), rtol=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
def test_errors_of_random_features_are_those_reported(normalize):
    rng = np.random.default_rng(0)
    p = mc.Multinomials(rng.dirichlet(np.ones(4), size=4), trials=5)
    k = mc.MeanMap(gamma=0.1, base="counts", normalize=normalize)
    exact = k(p)
    assert_array_equal(k.standard_errors(p), np.zeros((4, 4)))
    random = [
        mc.MeanMap(gamma=0.1, base="counts", n_components=200, random_state=i, normalize=normalize) for i in range(80)
    ]
    found = np.array([kernel(p) for kernel in random])
    said = np.mean([kernel.standard_errors(p) for kernel in random], axis=0)
    off = ~np.eye(4, dtype=bool)
    assert_allclose(said[off], found.std(axis=0)[off], rtol=0.35)
    assert np.all(np.abs(found.mean(axis=0) - exact)[off] < 5 * said[off] / math.sqrt(80) + 5 * said[off] ** 2)
    assert_allclose(random[0].standard_errors(p, p[:2]), random[0].standard_errors(p)[:, :2], rtol=1e-9, atol=1e-9)


def test_pieces_of_frequencies_change_nothing(monkeypatch):
    p = CountVectors(np.random.default_rng(0).dirichlet(np.ones(5), size=3), 4.0)
    kernel = mc.MeanMap(gamma=0.1, base="counts", n_components=7)
    whole = kernel.features(p)
    monkeypatch.setattr(characteristic, "CHUNK", 10)
    assert_allclose(kernel.features(p), whole, rtol=1e-12, atol=1e-14)
    assert whole.shape == (3, 14)


def test_what_cannot():
    p = mc.Multinomials(np.full((2, 50), 0.02), trials=400)
    with pytest.raises(ValueError, match=r"convolves 50 tables of 401 x 401 counts .* n_components=1000"):
        mc.MeanMap(base="counts")(p)
    with pytest.raises(TypeError, match=r"base='counts'\) needs .* Gaussians does not have; use a family of counts"):
        mc.MeanMap(base="counts")(mc.Gaussians([[0.0]], [1.0]))
    with pytest.raises(TypeError, match=r"compares counts, which Gaussians does not have. Use base='rbf'"):
        mc.MeanMap(base="counts", n_components=3)(mc.Gaussians([[0.0]], [1.0]))
    with pytest.raises(ValueError, match=r"aligns the 400 tokens of Multinomials, .* Use n_components=None"):
        mc.MeanMap(n_components=3)(p)
    with pytest.raises(TypeError, match=r"single tokens, which CountVectors does not have. Use base='counts'"):
        mc.MeanMap(n_components=3)(CountVectors([[0.5, 0.5]], 2.0))
    with pytest.raises(ValueError, match=r"n_components must be .*; got 0. It is the number of random frequencies"):
        mc.MeanMap(base="counts", n_components=0)(p)
    with pytest.raises(ValueError, match=r"must be 2 or more .* got 1, and one frequency has no spread"):
        mc.MeanMap(base="counts", n_components=1).standard_errors(p)
    with pytest.raises(ValueError, match=r"random_state must be .*; got 'x'"):
        mc.MeanMap(base="counts", n_components=2, random_state="x")(p)
    with pytest.raises(ValueError, match=r"geometric length has no closed form. Use n_components=1000"):
        mc.MeanMap(base="counts")(CountVectors([[0.5, 0.5]], 2.0, length_distribution="geometric"))
    with pytest.raises(TypeError, match="has no finite explicit features"):
        mc.MeanMap(base="counts").features(mc.Multinomials([[0.5, 0.5]]))
    torch = pytest.importorskip("torch")
    a = torch.tensor([[0.5, 0.5]], requires_grad=True)
    with pytest.raises(TypeError, match=r"no gradient. Use probability.detach\(\), or .* n_components"):
        mc.MeanMap(base="counts")(mc.Multinomials(a))


def test_the_limit_counts_common_words_alone():
    left, right = np.zeros(2000), np.zeros(2000)
    left[:1001], right[1000:] = 1 / 1001, 1 / 1000  # one word in common
    p = mc.Multinomials(np.stack([left, right]), trials=100)
    assert np.isfinite(p[:1].log_count_mean_map(p[1:], 0.01)).all()
    with pytest.raises(ValueError, match=r"convolves 1001 tables of 101 x 101 .* for Multinomials, base='rbf'"):
        p[:1].log_count_mean_map(p[:1], 0.01)


def test_lengths_beyond_whole_numbers_of_64_bits():
    p = mc.families.CountVectors([[1.0, 0.0], [0.0, 1.0]], length=[3.0, 1e19], length_distribution="fixed")
    for some in (p, p[1:]):
        with pytest.raises(ValueError, match=r"x 1e\+19 counts for one pair"):
            p[:1].log_count_mean_map(some[-1:], 0.1)


def test_a_gamma_beyond_all_counts():
    p = mc.Multinomials([[0.5, 0.5], [0.2, 0.8]], trials=4)
    with pytest.raises(ValueError, match=r"gamma = 1e\+308 times the square of the count 4 .* smaller gamma"):
        mc.MeanMap(base="counts", gamma=1e308)(p)
    assert_allclose(mc.MeanMap(base="counts", gamma=1e300)(p), mc.MeanMap(base="counts", gamma=1e4)(p), rtol=1e-12)
    rates = mc.Poissons([[0.5], [2.0]])
    assert_allclose(mc.MeanMap(base="counts", gamma=1e308)(rates), mc.MeanMap(base="counts", gamma=1e4)(rates))
    with pytest.raises(ValueError, match=r"base must be .*; got \['counts'\]"):
        mc.MeanMap(base=["counts"])(p)
