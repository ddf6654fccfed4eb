"""NegativeBinomials: sums over counts, the hypergeometric function, extremes, messages."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

import mercer as mc
from mercer.families.negative_binomial import NegativeBinomials, count_nodes, log_pmf
from mercer.testing.plain_families import PlainFamilyContract


class TestNegativeBinomials(PlainFamilyContract):
    def members(self, seed=0, shape=(3,)):
        rng = np.random.default_rng(seed)
        return NegativeBinomials(rng.uniform(0.5, 4, size=(*shape, 1)), rng.uniform(0.3, 0.8, size=(*shape, 1)))

    def nodes(self):
        x = np.arange(400.0)[:, None]
        return x, np.ones(len(x))

    def parameters(self, p):
        logits = np.log(p.probability / (1 - p.probability))
        return np.concatenate([np.log(p.count), logits], axis=-1)

    def build(self, theta):
        xp = mc._array.namespace(theta)
        return NegativeBinomials(xp.exp(theta[..., :1]), 1 / (1 + xp.exp(-theta[..., 1:])))


def alone(r, p):
    return NegativeBinomials([[r]], [[p]])


EXTREMES = [
    (1.0, 0.5), (1e-8, 0.3), (1e-8, 1e-6), (50.0, 0.01), (1e6, 0.999), (1e6, 1 - 1e-12), (2.5, 1e-7), (1e3, 0.5),
    (0.7, 0.9), (1e-8, 1 - 1e-12), (1e6, 0.5),
]  # fmt: skip


def test_against_the_hypergeometric_function():
    """PPK-2a at rho = 1, all pairs of extremes in one batch."""
    mpmath = pytest.importorskip("mpmath")
    p = NegativeBinomials(*(np.array(side)[:, None] for side in zip(*EXTREMES, strict=True)))
    found = p.log_product(p, rho=1.0)
    with mpmath.workdps(30):
        for i, (r, a) in enumerate(EXTREMES[:-1]):  # of the last one mpmath's series does not converge
            for j, (s, b) in enumerate(EXTREMES[: i + 1]):
                x, y = mpmath.mpf(a), mpmath.mpf(b)
                value = r * mpmath.log(x) + s * mpmath.log(y) + mpmath.log(mpmath.hyp2f1(r, s, 1, (1 - x) * (1 - y)))
                assert_allclose(found[i, j], float(value), rtol=1e-12, atol=1e-12)
    assert_allclose(found, found.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("rho", [0.1, 0.5, 2.0])
def test_extremes_with_themselves_and_each_other(rho):
    p = NegativeBinomials(*(np.array(side)[:, None] for side in zip(*EXTREMES, strict=True)))
    gram = p.log_product(p, rho=rho)
    assert np.isfinite(gram).all()
    own = np.diagonal(gram)
    if rho == 0.5:
        assert_allclose(own, 0, atol=1e-12)
    correlation = np.exp(gram - (own[:, None] + own) / 2)
    assert np.linalg.eigvalsh(correlation)[0] > -1e-12
    for i, j in ((0, 0), (0, 8), (1, 3), (2, 6), (3, 0), (8, 8)):  # whatever nodes the neighbours ask for
        found = alone(*EXTREMES[i]).log_product(alone(*EXTREMES[j]), rho=rho)[0, 0]
        assert_allclose(found, gram[i, j], rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    r=st.tuples(*[st.floats(-8, 3)] * 2),
    mean=st.tuples(*[st.floats(-3, 2.5)] * 2),
    rho=st.sampled_from([0.2, 0.5, 1.0, 3.0, 15.0]),
)
def test_products_are_sums_over_counts(r, mean, rho):
    r, mean = 10.0 ** np.array(r), 10.0 ** np.array(mean)
    p = r / (r + mean)
    counts = np.arange(20000.0)
    terms = rho * (log_pmf(counts, r[0], p[0]) + log_pmf(counts, r[1], p[1]))
    if terms[-1] > terms.max() - 40:
        return  # the truth is not complete
    found = alone(r[0], p[0]).log_product(alone(r[1], p[1]), rho=rho)[0, 0]
    assert_allclose(found, logsumexp(terms), rtol=1e-11, atol=1e-11)


def test_against_scipy():
    k = np.arange(80)
    for r, p in ((3.3, 0.2), (1e-3, 0.01), (40.0, 0.7)):
        assert_allclose(alone(r, p).log_prob(k[:, None])[0], stats.nbinom.logpmf(k, r, p), rtol=1e-11, atol=1e-12)
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        r, p, k = mpmath.mpf(10**15), 1 - mpmath.mpf(2) ** -50, 3
        truth = mpmath.loggamma(k + r) - mpmath.loggamma(k + 1) - mpmath.loggamma(r)
        truth = float(truth + r * mpmath.log(p) + k * mpmath.log(1 - p))
    assert_allclose(alone(1e15, 1 - 2.0**-50).log_prob([[3]])[0, 0], truth, rtol=1e-14)


def test_one_success_is_geometric():
    p = np.array([[0.5, 0.2], [0.9, 0.01]])
    mine, geometric = NegativeBinomials(np.ones_like(p), p), mc.families.Geometrics(p)
    for rho in (0.5, 1.0, 2.0):
        assert_allclose(mine.log_product(mine, rho=rho), geometric.log_product(geometric, rho=rho), atol=1e-12)


def test_many_successes_are_poisson():
    rate = np.array([[0.5], [3.0], [40.0], [2e4]])
    q = mc.Poissons(rate)
    for rho in (0.5, 1.0, 1.5):
        near = NegativeBinomials(1e14 * np.ones_like(rate), 1e14 / (1e14 + rate))
        near = NegativeBinomials(rate * near.probability / (1 - near.probability), near.probability)  # the same means
        assert_allclose(near.log_product(near, rho=rho), q.log_product(q, rho=rho), rtol=1e-8, atol=1e-8)


def test_counts_of_zero():
    """r = 0 and p = 1 are always zero; no NaN."""
    p = NegativeBinomials([[0.0], [5.0], [2.0]], [[0.4], [1.0], [0.5]])
    assert_allclose(np.exp(p.log_prob([[0], [1]])), [[1.0, 0.0], [1.0, 0.0], [0.25, 0.25]], rtol=1e-14)
    assert_allclose(np.exp(p.log_product(p, rho=0.5)), [[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]], rtol=1e-12)
    assert_allclose(p.mean[:, 0], [0, 0, 2])
    assert_allclose(p.variance[:, 0], [0, 0, 4])
    assert p.sample(3, random_state=0)[:2].max() == 0


def test_missing_coordinates_are_left_out():
    p = NegativeBinomials([[2.0, 3.0]], [[0.5, 0.4]])
    assert_allclose(p.log_prob([[1, np.nan]])[0, 0], stats.nbinom.logpmf(1, 2, 0.5))
    assert p.n_parameters == 4


def test_far_laws_by_logarithms():
    """A product that no number holds, beside one that does."""
    p = NegativeBinomials([[1e5], [1e3]], [[0.5], [1 - 1e-9]])
    counts = np.arange(2e5)
    terms = 3.0 * (log_pmf(counts, 1e5, 0.5) + log_pmf(counts, 1e3, 1 - 1e-9))
    found = p.log_product(p, rho=3.0)
    assert found[0, 1] < -1e4
    assert_allclose(found[0, 1], logsumexp(terms), rtol=1e-10)
    assert_allclose(found[1, 1], 6 * 1e3 * np.log(1 - 1e-9), atol=1e-12)


def test_huge_draws():
    x = alone(1e17, 1e-3).sample(5, random_state=0)
    assert_allclose(x, 1e20, rtol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[-1.0]], [[0.5]]), r"count must be 0 or more.*; got -1.0 at index \(0, 0\)"),
        (([[np.inf]], [[0.5]]), r"got inf at index \(0, 0\)"),
        (([[1.0]], [[0.0]]), r"probability must be above 0.*; got 0.0 at index \(0, 0\)"),
        (([[1.0]], [[1.5]]), r"must be above 0 and at most 1.*; got 1.5"),
        (([[1.0, 2.0]], [[0.5]]), r"count and probability .* same shape; got \(1, 2\) and \(1, 1\)"),
    ],
)
def test_messages(arguments, message):
    with pytest.raises(ValueError, match=message):
        NegativeBinomials(*arguments)


def test_messages_of_points_and_sizes():
    p = alone(1.0, 0.5)
    with pytest.raises(ValueError, match=r"shape \(T, 1\), one row per point; got \(1, 2\)"):
        p.log_prob([[1, 2]])
    with pytest.raises(ValueError, match=r"has the count -1\.0"):
        p.log_prob([[-1]])
    with pytest.raises(ValueError, match=r"1.11e\+07 terms, more than 262144. .*\(estimate='point'\)"):
        count_nodes(1e13, 1e13, 0.5)


@pytest.mark.slow
def test_tiny_probabilities():
    r, p, q = 1.5, 1e-160, 3e-160  # so small that counts are gamma laws, of rates p and q
    found = alone(r, p).log_product(alone(r, q))[0, 0]
    assert_allclose(found, r * math.log(math.sqrt(p) * math.sqrt(q) / ((p + q) / 2)), rtol=1e-9)
    with pytest.raises(ValueError, match=r"probability = 1e-300 sums over counts beyond 1e\+300. .* estimate='point'"):
        alone(1.0, 1e-300).log_product(alone(1.0, 1e-300))
    kernel = mc.ProbabilityProduct(mc.Poisson(prior="pooled", estimate="predictive"))
    with pytest.raises(ValueError, match=r"beyond 1e\+300. .* estimate='point'"):
        kernel([[1e300], [2e300]])
    with pytest.raises(ValueError, match=r"3.23e\+125 terms, .* \(estimate='point'\)"):
        kernel([[1e250], [2.0]])


def test_draws_beyond_the_largest_number():
    p = NegativeBinomials([[1.0, 1.0], [1.0, 1e300]], [[0.5, 0.5], [0.5, 1e-30]])
    with pytest.raises(ValueError, match=r"at index \(1,\) overflow, with count = 1e\+300.* in coordinate 1"):
        p.sample(2, 0)
