"""DirichletMultinomials: enumeration of all counts, limits, extremes, messages."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse, stats
from scipy.special import logsumexp

import mercer as mc
from mercer.families._counts.convolution import log_sum_over_counts
from mercer.families.dirichlet_multinomial import DirichletMultinomials
from mercer.testing.plain_families import PlainFamilyContract


def all_counts(k, s):
    return np.array([v for v in itertools.product(range(s + 1), repeat=k) if sum(v) == s], dtype=float)


class TestDirichletMultinomials(PlainFamilyContract):
    constants = ("trials",)

    def members(self, seed=0, shape=(3,)):
        return DirichletMultinomials(np.random.default_rng(seed).gamma(1.0, 2.0, size=(*shape, 3)), trials=4)

    def nodes(self):
        x = all_counts(3, 4)
        return x, np.ones(len(x))

    def parameters(self, p):
        return np.array(p.concentration)

    def build(self, theta):
        return DirichletMultinomials(theta, trials=4)


def enumerated(p, q, rho, s):
    x = all_counts(p.dimension, s)
    with np.errstate(invalid="ignore"):
        return logsumexp(rho * (p.log_prob(x)[:, None] + q.log_prob(x)), axis=-1)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 4),
    s=st.integers(1, 6),
    rho=st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    scale=st.sampled_from([1e-200, 1e-8, 1e-2, 1.0, 1e3, 1e12]),
)
def test_products_are_sums_over_all_counts(seed, k, s, rho, scale):
    rng = np.random.default_rng(seed)
    a = rng.gamma(0.5, 2.0, size=(5, k)) + 1e-3
    a[0] *= scale
    a[1, 0] = 0.0 if k > 1 else 1.0
    p = DirichletMultinomials(a, trials=s)
    assert_allclose(logsumexp(p.log_prob(all_counts(k, s)), axis=1), 0, atol=1e-9)
    found = p.log_product(p, rho=rho)
    assert_allclose(found, enumerated(p, p, rho, s), rtol=1e-9, atol=1e-9)
    assert_allclose(found, found.T, rtol=1e-12, atol=1e-12)


def test_against_scipy():
    a = np.array([0.3, 2.0, 5.0])
    x = all_counts(3, 5)
    truth = stats.dirichlet_multinomial.logpmf(x.astype(int), a, 5)
    assert_allclose(DirichletMultinomials(a[None], trials=5).log_prob(x)[0], truth, rtol=1e-12)


def test_counts_of_other_totals():
    """A row's own total counts: of no words the probability is one, of one word the mean."""
    p = DirichletMultinomials([[1.0, 3.0]], trials=7)
    assert_allclose(p.log_prob([[0, 0], [1, 0], [0, 1]])[0], np.log([1.0, 0.25, 0.75]), atol=1e-14)


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_large_concentrations_are_multinomials(rho):
    a = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
    for total, error in ((1e6, 1e-4), (1e12, 1e-9)):
        near = DirichletMultinomials(total * a, trials=5).log_product(DirichletMultinomials(total * a, trials=5), rho)
        p = mc.Multinomials(a, trials=5)
        assert_allclose(near, p.log_product(p, rho=rho), atol=error)


def test_one_draw_is_the_categorical_law_of_the_mean():
    p = DirichletMultinomials([[1.0, 3.0, 0.0], [2.0, 2.0, 4.0]])
    q = mc.Categoricals(p.mean)
    assert_allclose(p.log_product(p, rho=0.7), q.log_product(q, rho=0.7), rtol=1e-14)
    assert_allclose(p.log_mean_map(p, gamma=0.4), q.log_mean_map(q, gamma=0.4), rtol=1e-14)
    assert_allclose(mc.MeanMap(gamma=0.4)(p), mc.MeanMap(gamma=0.4)(q), rtol=1e-14)
    with pytest.raises(ValueError, match=r"closed form for one draw only; got trials = 2. Use trials=1"):
        DirichletMultinomials([[1.0, 3.0]], trials=2).log_mean_map(DirichletMultinomials([[1.0, 3.0]], trials=2), 1.0)


def test_many_words_and_far_laws():
    """More words than a block holds; pairs whose product no number holds; nothing in common."""
    rng = np.random.default_rng(1)
    a = rng.gamma(0.2, 1.0, size=(70, 150))
    p = DirichletMultinomials(a, trials=6)
    whole = p.log_product(p, rho=0.5)
    assert_allclose(whole[3:5, 60:], p[3:5].log_product(p[60:], rho=0.5), rtol=1e-12)
    assert_allclose(np.diagonal(whole), 0, atol=1e-12)
    assert np.linalg.eigvalsh(np.exp(whole))[0] > -1e-10
    far = DirichletMultinomials([[1e9, 1e-50], [1e-50, 1e9]], trials=8)
    assert_allclose(far.log_product(far, rho=2.0), enumerated(far, far, 2.0, 8), rtol=1e-12, atol=1e-12)
    apart = DirichletMultinomials([[1.0, 0.0], [0.0, 1.0]], trials=3)
    assert apart.log_product(apart, rho=1.0).tolist() == [[0.0, -np.inf], [-np.inf, 0.0]]


def test_lanes_and_planes_agree():
    a = np.random.default_rng(2).gamma(0.5, 1.0, size=(2, 3, 7))
    flat, stacked = DirichletMultinomials(a[0], trials=9), DirichletMultinomials(a, trials=9)
    for rho in (0.5, 1.7):
        assert_allclose(flat.log_product(flat, rho=rho), stacked.log_product(stacked, rho=rho)[0], 1e-11, 1e-13)
    terms = mc.Multinomials(np.full((1, 3), 1 / 3), trials=4)
    assert_allclose(terms.log_product(terms, rho=1.0), np.log(np.sum(np.exp(2 * terms.log_prob(all_counts(3, 4))))))
    assert log_sum_over_counts(lambda some: np.zeros((0, 1, 3)), lambda some: np.zeros((2, 1, 3)), 1, 2, 0.5).size == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, -1.0]],), r"concentration must be 0 or more.*; got -1.0 at index \(0, 1\)"),
        (([[1.0, np.nan]],), r"got nan at index \(0, 1\)"),
        (([[0.0, 0.0]],), r"index \(0,\) must have a positive, finite sum; got 0.0"),
        (([[1e308, 1e308]],), "positive, finite sum; got inf"),
        (([[1.0, 1.0]], 0), "1 or more, the number of draws; got 0"),
        (([[1.0, 1.0]], 2.0), "an int of 1 or more, the number of draws; got 2.0"),
        (([[1.0, 1.0]], 2, "abc"), "got 3 words for 2 concentrations"),
    ],
)
def test_messages(arguments, message):
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        DirichletMultinomials(*arguments)


def test_messages_of_points():
    p = DirichletMultinomials([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"shape \(T, 2\), one row per point; got \(1, 3\)"):
        p.log_prob([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"has the count -1.0 in column 1"):
        p.log_prob([[1, -1]])
    with pytest.raises(ValueError, match="contains NaN"):
        p.log_prob([[1, np.nan]])


def test_vocabulary_survives_a_file(tmp_path):
    p = DirichletMultinomials([[1.0, 2.0]], trials=3, alphabet=["cat", "dog"])
    p.save(tmp_path / "p.npz")
    assert mc.load(tmp_path / "p.npz").alphabet == p.alphabet
    with pytest.raises(ValueError, match="differ in alphabet"):
        p.log_product(DirichletMultinomials([[1.0, 2.0]], trials=3))


def test_tiny_concentrations_can_be_drawn():
    p = DirichletMultinomials([[1e-200, 1e-200, 0.0]], trials=5)
    x = p.sample(200, random_state=0)[0]
    assert set(map(tuple, x)) == {(5, 0, 0), (0, 5, 0)}


def test_many_trials():
    a = np.random.default_rng(3).gamma(2.0, 3.0, size=(2, 2))
    p = DirichletMultinomials(a, trials=1500)  # numbers of size exp(1500) on the way
    first = np.arange(1501)
    terms = p.log_prob(np.stack([first, 1500 - first], axis=1))
    for rho in (0.5, 1.0):
        assert_allclose(p.log_product(p, rho=rho)[0, 1], logsumexp(rho * (terms[0] + terms[1])), rtol=1e-9, atol=1e-9)
    big = DirichletMultinomials(np.ones((1, 1000)), trials=3000)
    with pytest.raises(ValueError, match=r"trials = 3000 draws from 1000 outcomes .* Use fewer trials"):
        big.log_product(big)


def test_few_and_many_laws_have_the_same_bits():
    p = DirichletMultinomials(np.random.default_rng(4).gamma(1.0, size=(20, 6)), trials=15)
    whole = p.log_product(p)
    np.testing.assert_array_equal(p[:3].log_product(p[:2]), whole[:3, :2])
    np.testing.assert_array_equal(p.log_product(p[:2]), whole[:, :2])


def test_sparse_concentrations():
    with pytest.raises(TypeError, match=r"got a sparse matrix. Use concentration.toarray\(\)"):
        DirichletMultinomials(sparse.csr_array(np.eye(2)))
