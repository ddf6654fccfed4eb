"""Markov chains against enumeration of all strings, finite differences, loops that count, and each other's storage."""

import itertools

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from tests.batches import softmax

import mercer as mc
from mercer.datasets import make_dna
from mercer.families import PowerProduct
from mercer.models._markov import operand as _markov_operand
from mercer.models._markov.counts import n_heads
from mercer.models.discount import Discounted
from mercer.models.markov import MarkovChains
from mercer.models.markov_estimator import MarkovChain
from mercer.testing.kernels import Gradients, PluralContract
from mercer.testing.models import ModelContract

LETTERS = "abcdefgh"


def chains(n, k=2, order=1, end=False, seed=0, zeros=False, alphabet=None):
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.ones(n_heads(k, order, end)), n)
    transition = rng.dirichlet(np.ones(k + end), (n, k**order))
    if zeros:
        transition = np.where(rng.random(transition.shape) < 0.3, 0.0, transition) + 1e-3 * np.eye(k**order, k + end)
        transition = transition + (transition.sum(axis=-1, keepdims=True) == 0)
        transition /= transition.sum(axis=-1, keepdims=True)
    return MarkovChains(initial, transition, order, alphabet=alphabet or LETTERS[:k], end=end)


def strings(length, k=2):
    return ["".join(s) for s in itertools.product(LETTERS[:k], repeat=length)]


def probability(chain, string):
    """The definition, one symbol after the other."""
    initial, transition = np.asarray(chain.initial), np.asarray(chain.transition)
    k, m = len(chain.alphabet), chain.order
    codes = [LETTERS.index(c) for c in string]

    def number(digits):
        return sum(d * k ** (len(digits) - 1 - i) for i, d in enumerate(digits))

    if len(codes) < m:
        if chain.end:
            return initial[k**m + sum(k**j for j in range(len(codes))) + number(codes)]
        return sum(initial[number([*codes, *more])] for more in itertools.product(range(k), repeat=m - len(codes)))
    p = initial[number(codes[:m])]
    for t in range(m, len(codes)):
        p *= transition[number(codes[t - m : t]), codes[t]]
    return p * (transition[number(codes[len(codes) - m :]), k] if chain.end else 1.0)


# -- probabilities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_log_prob_is_the_definition(order, end):
    p = chains(3, 2, order, end)
    X = [s for length in range(6) for s in strings(length)]
    assert_allclose(np.exp(p.log_prob(mc.Sequences(X, alphabet="ab"))), [[probability(c, s) for s in X] for c in p])


class TestMarkovChains(ModelContract):
    lengths, alphabet, constants = (4,), "ab", ("order", "alphabet", "end")
    order, end = 1, False

    def members(self, seed=0, shape=(3,)):
        return chains(*shape, 2, self.order, self.end, seed)

    def outcomes(self):
        X = [s for n in range(0 if self.end else 4, 5) for s in strings(n)]
        return X, np.ones(len(X))

    def joint(self, p):
        return np.array([[probability(p[0], x) for x in self.outcomes()[0]]])

    def estimator(self):
        return MarkovChain(self.order, alphabet="ab", end=self.end, prior="pooled", prior_strength=1.0)


class TestSecondOrder(TestMarkovChains):
    order = 2


def test_an_end_makes_a_law_of_all_lengths():
    for order in (0, 1, 2):
        p = chains(2, 2, order, end=True)
        total = sum(np.exp(p.log_prob(mc.Sequences(strings(n), alphabet="ab"))).sum(axis=1) for n in range(13))
        # What is left are strings longer than 12: their mass is that of the contexts that are still alive.
        alive = p.sample(13, 40_000, random_state=0)[:, :, 12] >= 0
        error = 5 * np.sqrt(np.maximum(alive.mean(axis=1), 1e-4) / 40_000)
        assert np.all(np.abs(1 - total - alive.mean(axis=1)) < error)


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_uncertain_symbols_are_summed_over(order, end):
    p = chains(2, 4, order, end, zeros=True, alphabet="dna")
    dna = mc.data.Alphabet.of("dna")
    for s in ("N", "RY", "ANG", "NNA", "ACRTG", "RNNKA", "TTTTN"):
        readings = ["".join(r) for r in itertools.product(*(sorted(dna.sets[c]) for c in dna.encode(s)))]
        truth = np.exp(p.log_prob(readings)).sum(axis=1)
        assert_allclose(np.exp(p.log_prob([s]))[:, 0], truth, rtol=1e-12)
        if not end:
            assert_allclose(p.log_prob(["NNNN"]), 0, atol=1e-12)


def test_impossible_and_long_sequences():
    p = MarkovChains([[1.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], alphabet="ab")
    with np.errstate(all="raise"):
        assert_array_equal(p.log_prob(["abab", "aab", "b"]), [[0.0, -np.inf, -np.inf]])
        assert_array_equal(p.log_prob(mc.Sequences(["", "a"], alphabet="ab")), [[0.0, 0.0]])
    q = chains(1, 4, 2, alphabet="dna")
    codes = np.random.default_rng(0).integers(0, 4, 100_000)
    text = mc.data.Alphabet.of("dna").decode(codes)
    known = (
        np.log(q.initial[0, codes[0] * 4 + codes[1]])
        + np.log(q.transition[0, codes[:-2] * 4 + codes[1:-1], codes[2:]]).sum()
    )
    assert_allclose(q.log_prob([text, text + "N"])[0], known, rtol=1e-11)


def test_first_order_is_an_hmm_that_shows_its_states():
    p = chains(3, 3)
    hmms = mc.HMMs(p.initial, p.transition, mc.Categoricals(np.tile(np.eye(3), (3, 1, 1)), alphabet="abc"))
    X = ["abc", "a", "ccab"]
    assert_allclose(p.log_prob(X), hmms.log_prob(X), rtol=1e-12)
    for kernel in (mc.ProbabilityProduct(rho=0.7, length=5), mc.MeanMap(gamma=0.4, length=5)):
        assert_allclose(kernel(p), kernel(hmms), rtol=1e-11)


# -- kernels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("end", [False, True])
def test_probability_product_is_a_sum_over_all_strings(order, end):
    """PPK-4.2a, exact for every rho; all lengths from one sweep."""
    p, q = chains(3, 2, order, end, zeros=True), chains(2, 2, order, end, seed=5)
    for rho in (0.3, 0.5, 1.0, 2.0):
        lengths = (4, 1, 2, 3, 5, 1)
        found = p.couple(PowerProduct(rho), lengths).pair(q.couple(PowerProduct(rho), lengths))
        own = p.couple(PowerProduct(rho), lengths).alone()
        for h, length in enumerate(lengths):
            a, b = (np.exp(side.log_prob(strings(length))) ** rho for side in (p, q))
            assert_allclose(np.exp(found[h]), a @ b.T, rtol=1e-11, atol=1e-300)
            assert_allclose(np.exp(own[h]), np.sum(a * a, axis=1), rtol=1e-11)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_mean_map_is_a_sum_over_all_pairs_of_strings(order):
    """GMMK-5."""
    p, q = chains(3, 2, order, zeros=True), chains(2, 2, order, seed=5)
    for length, gamma in itertools.product((1, 2, 4), (0.1, 1.5)):
        X = strings(length)
        base = [[np.exp(-2 * gamma * sum(a != b for a, b in zip(x, y, strict=True))) for y in X] for x in X]
        a, b = np.exp(p.log_prob(X)), np.exp(q.log_prob(X))
        kernel = mc.MeanMap(gamma=gamma, length=length, normalize=False)
        assert_allclose(kernel(p, q), a @ np.array(base) @ b.T, rtol=1e-11)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_paths_and_discounted_lengths(order):
    """PPK-4.2b: a sum over all lengths."""
    p = chains(3, 2, order, zeros=True)
    for kernel in (mc.ProbabilityProduct(rho=1.0, normalize=False), mc.MeanMap(gamma=0.3, normalize=False)):
        each = kernel.path(p, lengths=range(1, 81))
        for length in (1, 2, 3, 7):
            assert_allclose(each[length - 1], clone(kernel).set_params(length=length)(p), rtol=1e-12)
        d = 0.6
        series = np.einsum("l,lij->ij", (1 - d) * d ** np.arange(80), each)
        assert_allclose(clone(kernel).set_params(length=Discounted(d))(p), series, rtol=1e-9)
    ends = chains(3, 2, order, end=True)
    kernel = mc.ProbabilityProduct(rho=0.5, normalize=False)
    series = np.einsum("l,lij->ij", 0.4 * 0.6 ** np.arange(80), kernel.path(ends, lengths=range(1, 81)))
    assert_allclose(clone(kernel).set_params(length=Discounted(0.6))(ends), series, rtol=1e-9)


class Chains(PluralContract, Gradients):
    order = 1
    symbols = 2

    @property
    def width(self):
        contexts = self.symbols**self.order
        return contexts * (1 + self.symbols)

    def build(self, z):
        xp, k = array_namespace(z), self.symbols
        contexts = k**self.order
        transition = softmax(xp.reshape(z[:, contexts:], (-1, contexts, k)))
        return MarkovChains(softmax(z[:, :contexts]), transition, self.order)

    def truth(self, X):
        p = np.exp(X.log_prob([list(s) for s in itertools.product(range(self.symbols), repeat=4)]))
        return self.pairs(p)


class TestProductOfChains(Chains):
    def kernel(self):
        return mc.ProbabilityProduct(rho=0.7, length=4)

    def pairs(self, p):
        return p**0.7 @ (p**0.7).T


class TestProductOfSecondOrder(TestProductOfChains):
    order = 2


class TestProductOfOrderZero(TestProductOfChains):
    order, symbols = 0, 3


class TestMeanMapOfChains(Chains):
    def kernel(self):
        return mc.MeanMap(gamma=0.3, length=4)

    def pairs(self, p):
        words = np.array(list(itertools.product(range(self.symbols), repeat=4)))
        return p @ np.exp(-0.6 * np.sum(words[:, None] != words, axis=-1)) @ p.T


class TestMeanMapOfSecondOrder(TestMeanMapOfChains):
    order = 2
    test_gradients = None  # those of the contraction, as above


def test_tiny_probabilities_and_long_sequences(monkeypatch):
    e = 1e-300
    p = MarkovChains([[1.0, 0.0]] * 2, [[[1 - e, e], [0.0, 1.0]], [[0.0, 1.0], [0.5, 0.5]]], alphabet="ab")
    # The only common string of three symbols is abb: e * 1/2.
    logs = mc.ProbabilityProduct(rho=2.0, length=3, normalize=False).log(p)
    assert_allclose(logs[0, 1], 2 * (np.log(e) + np.log(0.5)), rtol=1e-12)
    q = chains(3, 3, 2)
    kernel = mc.ProbabilityProduct(rho=1.0, length=10_000, normalize=False)
    logs = kernel.log(q)
    assert np.isfinite(logs).all()
    monkeypatch.setattr(_markov_operand, "TINY", 1.0)  # all in logarithms
    short = mc.ProbabilityProduct(rho=1.0, length=50, normalize=False)
    expected = short.log(q)
    monkeypatch.undo()
    assert_allclose(short.log(q), expected, rtol=1e-12)


def test_mass_that_underflows_on_the_way_is_found_again():
    """The likely context dies at the end; what survives had been scaled to nothing."""
    e = 1e-80
    step = np.zeros((1, 3, 3))
    step[0, 0], step[0, 1], step[0, 2] = [1 - e, e, 0], [0, 1 - e, e], [0, 0, 1]
    p = MarkovChains([[1.0, 0.0, 0.0]], step, alphabet="abc")
    other = np.zeros((1, 3, 3))
    other[0, 0], other[0, 1], other[0, 2] = [0, 1, 0], [0, 0, 1], [0, 0, 1]
    q = MarkovChains([[1.0, 0.0, 0.0]], other, alphabet="abc")
    both = MarkovChains.concat([p, q])
    logs = mc.ProbabilityProduct(rho=1.5, length=4, normalize=False).log(both)
    assert_allclose(logs[0, 1], 2 * 1.5 * np.log(e), rtol=1e-10)  # abcc alone


# -- scores ----------------------------------------------------------------------------------------------------


def numerical_scores(chain, X, parametrization):
    """Central differences of log P(x | first symbols) in logits, or in unnormalised weights at the normalised point."""
    free = np.asarray(chain.transition, dtype=float)
    free = np.log(free) if parametrization == "logit" else free

    def value(theta):
        weights = np.exp(theta) if parametrization == "logit" else theta
        rows = weights / weights.sum(axis=-1, keepdims=True)
        return MarkovChains(
            np.asarray(chain.initial)[None], rows[None], chain.order, alphabet=chain.alphabet, end=chain.end
        ).log_prob(X)[0]

    h, columns = 1e-6, []
    for index in np.ndindex(free.shape):
        up, down = free.copy(), free.copy()
        up[index] += h
        down[index] -= h
        columns.append((value(up) - value(down)) / (2 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_scores_are_derivatives(order, end, parametrization):
    """FK-6, FK-7; ambiguity codes too."""
    p = chains(2, 4, order, end, alphabet="dna")
    inside = 0.8 * p.transition + 0.2 / (4 + end)  # away from zero, where differences are exact enough
    p = MarkovChains(p.initial, inside, order, alphabet="dna", end=end)
    X = mc.Sequences(["ACGTTGCA", "AAAA", "ANNCRT", "NAC", "A", "TNNNN"], alphabet="dna")
    found = p.sequence_scores(X, parametrization)
    assert found.shape == (2, 6, 4**order * (4 + end))
    for i in range(2):
        assert_allclose(found[i], numerical_scores(p[i], X, parametrization), rtol=1e-6, atol=1e-6)
    flat = p.sequence_scores(X, parametrization, sparse=True)
    assert_allclose(flat.toarray().reshape(found.shape), found, atol=1e-14)


def test_scores_at_the_uniform_point_are_projected_windows():
    """FK-6: |alphabet| n(u s) - n(u)."""
    p = MarkovChains([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], alphabet="ab")
    assert_allclose(p.sequence_scores(["aabab"], "weight")[0, 0], [2 * 1 - 3, 2 * 2 - 3, 2 * 1 - 1, 2 * 0 - 1])


def test_scores_of_bad_input():
    p = MarkovChains([[1.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], alphabet="ab")
    for parametrization in ("logit", "weight"):
        with pytest.raises(ValueError, match=r"sequence 1 has probability zero under the shared model.* smoothing=1"):
            p.sequence_scores(["ab", "aa"], parametrization)
        assert np.isfinite(p.sequence_scores(["ba"], parametrization)).all()  # the first symbol is given
    with pytest.raises(ValueError, match=r"parametrization must be 'logit', or 'weight' .* got 'raw'"):
        p.sequence_scores(["ab"], "raw")
    dna = MarkovChains([[0.0, 0.5, 0.5, 0.0]], [np.roll(np.eye(4), 1, axis=1)], alphabet="dna")  # A -> C -> G -> T
    X = mc.Sequences(["ACGT", "AN", "ANGA"], alphabet="dna", ids=["p", "q", "r"])
    for parametrization in ("logit", "weight"):
        with pytest.raises(ValueError, match="sequence 'r' has probability zero under the shared model"):
            dna.sequence_scores(X, parametrization)
    assert_allclose(dna.sequence_scores(X[:2]), 0)  # all is certain


def test_what_was_not_observed_has_no_score():
    """FK-8: differences of equal numbers are 0, not what rounding leaves of them."""
    rng = np.random.default_rng(0)
    for order, end in ((0, False), (1, False), (2, False), (1, True)):
        rows = rng.dirichlet(np.ones(4 + end), (1, 4**order))
        p = MarkovChains(rng.dirichlet(np.ones(n_heads(4, order, end)), 1), rows, order, alphabet="dna", end=end)
        X = mc.Sequences(["N" * n for n in (3, 17, 300)], alphabet="dna", ids=["p", "q", "r"])
        if not end:  # that it ended is an observation
            for parametrization in ("logit", "weight"):
                assert_array_equal(p.sequence_scores(X, parametrization), 0)
            with pytest.raises(ValueError, match="sequence 'p' has zero norm under Fisher"):
                mc.Fisher(p)(X)
            assert_array_equal(mc.Fisher(p, on_zero="zero")(X), 0)


def test_scores_are_sparse_where_contexts_are_many():
    X = ["ACGTACG", "AACCGGTT"]
    for order in (2, 3):
        p = MarkovChain(order, alphabet="dna").fit_each(X)
        found = p.sequence_scores(X)
        assert sparse.issparse(found) == (order == 3)
        dense = p.sequence_scores(X, sparse=False)
        assert dense.shape == (2, 2, 4 ** (order + 1))
        assert_array_equal(dense.reshape(4, -1), p.sequence_scores(X, sparse=True).toarray())
    with pytest.raises(ValueError, match="sparse must be True, False or 'auto'; got 'yes'"):
        p.sequence_scores(X, sparse="yes")


def test_the_length_is_asked_for_before_all_models_are_fitted(monkeypatch):
    monkeypatch.setattr(MarkovChain, "_fit_data", lambda *_: pytest.fail("fitted"))
    for kernel in (mc.ProbabilityProduct, mc.MeanMap):
        with pytest.raises(ValueError, match=r"Pass length=10 to the kernel, .* or length=mc.Discounted\(0.9\)"):
            kernel(MarkovChain(), length=None).fit_transform(["ab", "ba"])
    monkeypatch.undo()
    path = mc.ProbabilityProduct(MarkovChain(), length=None).path(["ab", "ba"], lengths=[2, 3])
    assert_allclose(path[1], mc.ProbabilityProduct(MarkovChain(), length=3)(["ab", "ba"]))
    assert_allclose(
        mc.ProbabilityProduct(MarkovChain())(["ab", "ba"]),
        mc.ProbabilityProduct(MarkovChain(), length=10)(["ab", "ba"]),
    )


def test_score_names():
    p = MarkovChain(1, alphabet="ab").fit(["abab"]).model_
    assert p.score_names() == ["transition[a, a]", "transition[a, b]", "transition[b, a]", "transition[b, b]"]
    ends = MarkovChain(2, alphabet="ab", end=True).fit(["abab"]).model_
    assert ends.score_names()[2:4] == ["transition[aa, end]", "transition[ab, a]"]
    assert MarkovChain(0, alphabet="ab").fit(["abab"]).model_.score_names() == ["transition[a]", "transition[b]"]
    words = MarkovChain(2, alphabet=["x1", "x2"]).fit([["x1", "x2", "x1"]]).model_
    assert words.score_names()[1] == "transition[x1 x1, x2]"
    for order, end in ((0, True), (1, False), (3, False), (2, True)):
        fisher = mc.Fisher(MarkovChain(order, alphabet="dna", end=end)).fit(["ACGTACGA", "TTTACC"])
        assert len(fisher.get_score_names()) == fisher.features(["ACGT"]).shape[1]


# -- samples and the long run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2])
def test_samples_end_as_often_as_they_should(order):
    p, size = chains(2, 2, order, end=True), 20_000
    for i, codes in enumerate(p.sample(3, size, random_state=0)):
        texts = ["".join(LETTERS[c] for c in row if c >= 0) for row in codes]
        for s in (s for n in range(3) for s in strings(n)):
            truth = probability(p[i], s)
            assert abs(texts.count(s) / size - truth) < 5 * np.sqrt(truth / size) + 1e-3
    with pytest.raises(ValueError, match=r"length must be .* 1 or more; got 0"):
        p.sample(0)


def test_stationary():
    p = chains(2, 3, 2)
    law = p.stationary()
    after = np.einsum("nabc->nbc", (law[..., None] * p.transition).reshape(2, 3, 3, 3)).reshape(2, 9)
    assert_allclose(after, law, atol=1e-13)
    assert_allclose(chains(2, 3, 0).stationary(), 1)
    two = MarkovChains([[0.3, 0.7, 0.0]], [[[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]])  # two places to end in
    assert_allclose(two.stationary(), [[0.3, 0.7, 0.0]], atol=1e-8)
    turning = MarkovChains([[1.0, 0.0]], [[[0, 1], [1, 0]]])  # periodic
    assert_allclose(turning.stationary(), [[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"end=True have no stationary distribution. Fit them with end=False"):
        chains(1, end=True).stationary()
    many = MarkovChain(order=4, alphabet=LETTERS, prior=None).fit_each(["abcdefgh"])
    with pytest.raises(ValueError, match="4096 contexts"):
        many.stationary()


# -- the batch -------------------------------------------------------------------------------------------------


def fitted(order, end=False, **options):
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("ACGT"), n, p=[0.4, 0.3, 0.2, 0.1])) for n in (40, 25, 60, 33, 7)]
    return X, MarkovChain(order=order, alphabet="dna", end=end, **options).fit_each(X)


def test_constructor_messages():
    ok = [[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]]
    with pytest.raises(ValueError, match=r"order must be a whole number from 0 to 5; got 6"):
        MarkovChains(*ok, order=6)
    with pytest.raises(
        ValueError, match=r"initial must have shape \(1, 4\) for chains of order 2 over 2 symbols; got \(1, 2\)"
    ):
        MarkovChains(*ok, order=2)
    with pytest.raises(ValueError, match=r"transition at index \(0, 0\) sums to 0.9"):
        MarkovChains([[0.5, 0.5]], [[[0.5, 0.4], [0.5, 0.5]]])
    with pytest.raises(ValueError, match="each of the 4 symbols; got 2"):
        MarkovChains(*ok, alphabet="dna")
    with pytest.raises(ValueError, match="differ in order: 1 and 2"):
        mc.ProbabilityProduct(length=3)(chains(1), chains(1, order=2))
    with pytest.raises(ValueError, match="Pass length=10 to the kernel"):
        mc.ProbabilityProduct(length=None)(chains(2))
    with pytest.raises(ValueError, match=r"of Markov chains of order 2 over 20 symbols.*Lower the order"):
        mc.MeanMap(length=3)(MarkovChain(order=2, alphabet="protein").fit_each(["ACDEF"]))
    with pytest.raises(ValueError, match="without an end"):
        mc.MeanMap(length=3)(chains(2, end=True))
    with pytest.raises(ValueError, match=r"got \(\)\. Use p\[3:4\]"):
        chains(2)[0].log_prob(["ab"])
    with pytest.raises(ValueError, match=r"1.92e\+08 transitions, of at most 1.34e\+08. Lower the order"):
        MarkovChain(order=5, alphabet="protein", prior=None).fit_each(["ACDEFGH"] * 3)
    with pytest.raises(ValueError, match="alphabet"):
        chains(1).log_prob(mc.Sequences(["xy"]))


def test_parameters_and_bic():
    assert chains(1, 3, 2).n_parameters == 8 + 9 * 2
    assert chains(1, 3, 0).n_parameters == 2
    assert chains(1, 2, 1, end=True).n_parameters == 2 + 2 * 2
    X = make_dna(20, random_state=0)[0]
    found = [MarkovChain(order=m, alphabet="dna", prior=None).fit(X).model_.bic(X)[0] for m in range(4)]
    assert np.argmin(found) == 1  # what they were made of
    p = chains(1)
    for X in (["ab", "a"], mc.Sequences(["ab?", "a"], alphabet="ab", unknown="missing")):
        twice = 2 * p.log_prob(X).sum(axis=1)
        assert_allclose(p.bic(X), 3 * np.log(3) - twice)  # missing symbols do not count
        assert_allclose(p.aic(X), 2 * 3 - twice)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_log_prob_in_other_libraries(order):
    p = chains(2, 3, order, zeros=True)
    X = ["abcab", "cc", "abc"]
    xp = array_api_strict
    q = MarkovChains(xp.asarray(p.initial), xp.asarray(p.transition), order, alphabet="abc")
    assert_allclose(np.asarray(q.log_prob(X)), p.log_prob(X), rtol=1e-12)
    torch = pytest.importorskip("torch")
    z = torch.asarray(p.transition.copy()).requires_grad_()
    value = MarkovChains(torch.asarray(p.initial.copy()), z, order, alphabet="abc").log_prob(X)
    assert_allclose(value.detach().numpy(), p.log_prob(X), rtol=1e-12)
    value[torch.isfinite(value)].sum().backward()
    assert torch.isfinite(z.grad).all()


# -- the estimator ---------------------------------------------------------------------------------------------


def slow_rows(strings_, order, k, end):
    """Counts by a loop."""
    initial, rows = np.zeros(n_heads(k, order, end)), np.zeros((k**order, k + end))
    for s in strings_:
        codes = ["ACGT".index(c) for c in s]
        if len(codes) < order:
            if end:
                base = k**order + sum(k**j for j in range(len(codes)))
                initial[base + sum(c * k ** (len(codes) - 1 - i) for i, c in enumerate(codes))] += 1
            continue
        context = 0
        for c in codes[:order]:
            context = context * k + c
        initial[context] += 1
        for c in codes[order:]:
            rows[context, c] += 1
            context = (context * k + c) % k**order
        if end:
            rows[context, k] += 1
    return initial, rows


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_fit_is_relative_frequencies(order, end):
    X = ["ACGTACCA", "AAAC", "GATTACA", "ACG", "TT", "C"]
    s, a = 2.5, 0.25
    model = MarkovChain(order=order, alphabet="dna", end=end, smoothing=a, prior_strength=s)
    p = model.fit_each(X)
    alone = MarkovChain(order=order, alphabet="dna", end=end, smoothing=a, prior=None).fit(X).model_
    heads, rows = slow_rows(X, order, 4, end)
    if order:
        assert_allclose(alone.initial[0], (heads + a) / (heads + a).sum(), rtol=1e-12)
    assert_allclose(alone.transition[0], (rows + a) / (rows + a).sum(axis=1, keepdims=True), rtol=1e-12)
    pooled = model.fit(X).model_  # of all data, and an observation that is spread evenly
    heads, rows = heads + a + 1 / heads.size, rows + a + 1 / (4 + end)
    if order:
        assert_allclose(pooled.initial[0], heads / heads.sum(), rtol=1e-12)
    assert_allclose(pooled.transition[0], rows / rows.sum(axis=1, keepdims=True), rtol=1e-12)
    assert_array_equal(pooled.transition, model.context_.pooled.transition)
    for i, x in enumerate(X):
        heads, rows = slow_rows([x], order, 4, end)
        heads, rows = heads + a + s * pooled.initial[0], rows + a + s * pooled.transition[0]
        if order:
            assert_allclose(p.initial[i], heads / heads.sum(), rtol=1e-12)
        assert_allclose(p.transition[i], rows / rows.sum(axis=1, keepdims=True), rtol=1e-12)


def test_contexts_that_never_occurred():
    for order in (1, 3):
        p = MarkovChain(order=order, alphabet="dna", prior=None).fit_each(["AAAAAA"])
        assert_allclose(p.log_prob(["AAA" + "T" + "AAA"])[0, 0], -np.inf)
        assert_allclose(p.transition[0, -1], 0.25)
    pooled = MarkovChain(order=3, alphabet="dna").fit_each(["AAAAAA", "TTTTC"])
    # Of the other sequence (2 symbols, and one that is spread evenly)
    assert_allclose(pooled.transition[0, 63], [1 / 12, 5 / 12, 1 / 12, 5 / 12])


@pytest.mark.parametrize("order", [0, 1, 3])
def test_nothing_new_is_impossible_under_a_pooled_chain(order):
    model = MarkovChain(order=order, alphabet="dna").fit(["AAAAAA", "CCCCC"])
    new = ["ACGTACGT", "GGGGG", "T"]
    assert np.isfinite(model.score_samples(new)).all()
    assert np.isfinite(np.diag(model.fit_each(new).log_prob(["AAAA", "CCCC", "TGCA"]))).all()
    kernel = mc.Fisher(MarkovChain(order=order, alphabet="dna")).fit(["AAAAAA", "CCCCC"])
    assert np.isfinite(kernel.transform(["ACGTACGT", "GGGGGT"])).all()


def test_what_nothing_can_be_counted_in():
    X = mc.Sequences(["ACGT", "NNNN", "ACN"], alphabet="dna", ids=["p", "q", "r"])
    for order, end in ((0, False), (1, False), (3, False), (1, True), (2, True)):
        alone = MarkovChain(order=order, alphabet="dna", prior=None, end=end)
        with pytest.raises(ValueError, match=r"sequence 'q' has no .*plain symbols.* use prior='pooled'"):
            alone.fit_each(X[:2])
        for model in (alone, clone(alone).set_params(prior="pooled")):
            with pytest.raises(ValueError, match="nothing to fit: no sequence has"):
                model.fit(X[1:2])
        alone.fit(X)  # the others count
        pooled = clone(alone).set_params(prior="pooled").fit(X)
        assert_allclose(pooled.fit_each(X)[1:2].log_prob(["ACGT"])[0], pooled.score_samples(["ACGT"]))
    with pytest.raises(ValueError, match=r"sequence 'r' has no 3 consecutive plain symbols"):
        MarkovChain(order=3, alphabet="dna", prior=None).fit_each(X[[0, 2]])
    with pytest.raises(ValueError, match="nothing to fit: no sequence has 3 consecutive plain symbols"):
        MarkovChain(order=3, alphabet="ab", prior=None).fit(["ab"])
    ends = MarkovChain(order=2, alphabet="dna", prior=None, end=True).fit_each(["", "A"])  # that they ended
    assert_allclose(np.exp(ends.log_prob(["", "A"])), np.eye(2))


def test_windows_with_uncertain_symbols_are_not_counted():
    model = MarkovChain(order=1, alphabet="dna", prior=None)
    p = model.fit_each(["ACNAC", "AC"])
    assert_allclose(p.transition[0], p.transition[1])
    for order in (2, 3):
        q = clone(model).set_params(order=order).fit_each(["ACGTNAACG"])
        _, rows = slow_rows(["ACGT", "AACG"], order, 4, False)
        seen = rows.sum(axis=1) > 0
        assert_allclose(q.transition[0][seen], (rows / np.maximum(rows.sum(axis=1, keepdims=True), 1))[seen])
    unknown = MarkovChain(order=1, alphabet="dna", unknown="missing", prior=None).fit_each(["AC-AC"])
    assert_allclose(unknown.transition[0], p.transition[0])


def test_initial_law_anywhere():
    p = MarkovChain(order=2, alphabet="ab", initial="anywhere", prior=None).fit_each(["aabab"])
    assert_allclose(p.initial, [[0.25, 0.5, 0.25, 0.0]])


def test_short_and_empty_sequences():
    X = mc.Sequences(["AC", "ACGTA", "", "ACG"], alphabet="dna", ids=["p", "q", "r", "s"])
    alone = MarkovChain(order=3, alphabet="dna", prior=None)
    with pytest.raises(ValueError, match=r"sequence 'p' has 2 symbols, fewer than the order 3\. .*prior='pooled'"):
        alone.fit_each(X[:2])
    with pytest.raises(ValueError, match="sequence 'r' is empty"):
        alone.fit_each(X[1:3])
    p = alone.fit_each(X[3:])  # as long as the order: it says how sequences begin
    assert p.initial[0, 6] == 1
    assert_allclose(p.transition, 0.25)
    q = MarkovChain(order=3, alphabet="dna").fit(X)
    each = q.fit_each(X)
    for i in (0, 2):  # they get the prior
        assert_allclose(each[i].transition, q.context_.pooled[0].transition)
        assert_allclose(each[i].initial, q.context_.pooled[0].initial)
    with pytest.raises(ValueError, match="nothing to fit: all samples are empty"):
        MarkovChain(alphabet="dna").fit(X[2:3])
    ends = MarkovChain(order=2, alphabet="dna", end=True, prior=None).fit(X).model_
    assert_allclose(np.exp(ends.log_prob(X[2:3])), 0.25)


def test_a_given_prior():
    p = chains(1, 4, 1, alphabet="dna")
    found = MarkovChain(order=1, alphabet="dna", prior=p, prior_strength=1e9).fit_each(["ACGT"])
    assert_allclose(found.transition, p.transition, rtol=1e-8)
    given = chains(1, 4, 3, alphabet="dna")
    found = MarkovChain(order=3, alphabet="dna", prior=given, prior_strength=4.0).fit_each(["ACGTA"])
    rows = 4 * given.transition[0] + slow_rows(["ACGTA"], 3, 4, False)[1]
    assert_allclose(found.transition[0], rows / rows.sum(axis=1, keepdims=True), rtol=1e-12)
    with pytest.raises(ValueError, match="prior does not suit MarkovChain: its order must be 2; got 1"):
        MarkovChain(order=2, alphabet="dna", prior=p).fit_each(["ACGT"])
    with pytest.raises(TypeError, match=r"prior must be MarkovChains .* got Categoricals"):
        MarkovChain(prior=mc.Categoricals([[0.5, 0.5]])).fit_each(["0101"])


def test_parameters_are_checked():
    for bad, message in (
        ({"order": 7}, "order must be .* got 7"),
        ({"order": 1.5}, "order must be .* got 1.5"),
        ({"order": True}, "order must be .* got True"),
        ({"smoothing": -1}, r"smoothing must be .*; got -1"),
        ({"initial": "last"}, r"initial must be .*; got 'last'"),
        ({"end": "x"}, r"end must be .*; got 'x'"),
        ({"prior": "none"}, r"prior must be .*; got 'none'"),
        ({"prior_strength": -2}, r"prior_strength must be .*; got -2"),
        ({"initial": "anywhere", "end": True}, "got 'anywhere'. Use initial='first'"),
    ):
        with pytest.raises(ValueError, match=message):
            MarkovChain(**bad).fit(["ab"])
    with pytest.raises(ValueError, match=r"has the symbol 'x' at position 1, which is not in the alphabet"):
        MarkovChain(alphabet="dna").fit(["AxC"])
    with pytest.raises(TypeError, match="requires symbols; got 2-dimensional vectors"):
        MarkovChain().fit([np.zeros((3, 2))])
    model = MarkovChain(order=2, alphabet="dna", end=True)
    assert clone(model).get_params() == model.get_params()
    assert model.fit(["ACGT"]).model_.estimator().get_params()["end"] is True


def test_weighted_sequences():
    model = MarkovChain(order=1, alphabet="ab", prior=None)
    X = mc.Sequences(["aab", "bba"], alphabet="ab")
    weights = np.stack([np.ones(6), [1, 2, 3, 1, 1, 1]], axis=1)
    p = model.fit_weighted(X.values, weights, X.offsets, model.context(X))
    assert p.shape == (2, 2)
    assert_allclose(p.transition[0, 0, 0], [0.5, 0.5])
    assert_allclose(p.transition[0, 1, 0], [0.4, 0.6])


# -- real sizes ------------------------------------------------------------------------------------------------


def test_numbers_of_sequences_to_draw():
    chain = MarkovChain(1, alphabet="dna").fit(["ACGTACGT"]).model_
    with pytest.raises(ValueError, match=r"length must be a whole number .* got 2.5"):
        chain.sample(2.5)
    with pytest.raises(ValueError, match=r"size must be a whole number .* got -1"):
        chain.sample(3, size=-1)


@pytest.mark.parametrize("length", [6, mc.Discounted(0.5)])
def test_products_over_too_many_contexts_are_refused(length):
    """A product sums over all contexts, observed or not: two strings of ten letters took minutes and gigabytes."""
    kernel = mc.ProbabilityProduct(mc.MarkovChain(4, alphabet="protein"), length=length)
    with pytest.raises(ValueError, match=r"160,000 contexts.*3,200,000 numbers or 24.4 MiB.*Spectrum\(k=5\)"):
        kernel(["ARNDCARNDC", "ARNDCARND"])
