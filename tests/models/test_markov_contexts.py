"""Markov chains with contexts of different lengths: tied rows, counts and scores against plain loops."""

import itertools

import numpy as np
import pytest

import mercer as mc

X = ["aababbaababab", "bbbabbbaba", "abababababa", "aaaaabbbb", "b"]
KEPT = ["", "a", "ba"]


def longest(past, kept=KEPT):
    return max((u for u in kept if past.endswith(u)), key=len)


def counts(strings, order=2, kept=KEPT, letters="ab", end=False):
    found = {u: np.zeros(len(letters) + end) for u in kept}
    for s in strings:
        for t in range(order, len(s)):
            found[longest(s[:t], kept)][letters.index(s[t])] += 1
        if end and len(s) >= order:
            found[longest(s, kept)][-1] += 1
    return found


def test_rows_share_the_counts_of_their_longest_suffix():
    chain = mc.MarkovChain(order=2, alphabet="ab", contexts=KEPT, prior=None, initial="anywhere")
    model = chain.fit(X[:4]).model_
    for row, past in zip(model.transition[0], ("aa", "ab", "ba", "bb"), strict=True):
        n = counts(X[:4])[longest(past)]
        np.testing.assert_allclose(row, n / n.sum(), rtol=1e-14)
    assert model.contexts == ("", "a", "ba")
    assert model.n_parameters == 3 + 3
    assert model.score_names()[::2] == ["transition[a]", "transition[a, a]", "transition[ba, a]"]


def test_priors_and_smoothing_count_once_per_context():
    """EST-2b with kept contexts: strength 10 of the pooled row, which has one observation more."""
    pooled, single = counts(X), counts(X[:1])
    model = mc.MarkovChain(order=2, alphabet="ab", contexts=KEPT, smoothing=0.5).fit_each(X)
    for row, past in zip(model.transition[0], ("aa", "ab", "ba", "bb"), strict=True):
        u = longest(past)
        prior = (pooled[u] + 0.5 + 0.5) / (pooled[u] + 0.5 + 0.5).sum()
        n = single[u] + 0.5 + 10 * prior
        np.testing.assert_allclose(row, n / n.sum(), rtol=1e-13)


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("parametrization", ["logit", "weight"])
def test_scores_of_kept_contexts(parametrization, end):
    model = mc.MarkovChain(order=2, alphabet="ab", contexts=KEPT, end=end).fit(X).model_
    rows = dict(zip(("aa", "ab", "ba", "bb"), model.transition[0], strict=True))
    p = {longest(past): row for past, row in rows.items()}
    slow = []
    for s in X:
        n = counts([s], end=end)
        if parametrization == "logit":
            slow.append(np.concatenate([n[u] - p[u] * n[u].sum() for u in KEPT]))
        else:
            slow.append(np.concatenate([n[u] / p[u] - n[u].sum() for u in KEPT]))
    found = model.sequence_scores(X, parametrization)
    np.testing.assert_allclose(found[0], slow, atol=1e-12)
    compact = model.sequence_scores(X, parametrization, sparse=True)
    np.testing.assert_array_equal(compact.toarray(), found[0])


def test_scores_are_derivatives_with_ambiguous_symbols():
    """By differences of the logits of one kept context, which moves all of its rows."""
    alphabet = mc.data.Alphabet("ab", {"N": "ab"})
    model = mc.MarkovChain(order=2, alphabet=alphabet, contexts=KEPT).fit(["aababba", "bbabab"]).model_
    data, h = ["abNNab", "aaNbba"], 1e-5
    tie = {u: [i for i, past in enumerate(("aa", "ab", "ba", "bb")) if longest(past) == u] for u in KEPT}
    slow = []
    for u, symbol in itertools.product(KEPT, (0, 1)):
        sides = []
        for step in (h, -h):
            logits = np.log(model.transition[0])
            logits[tie[u], symbol] += step
            rows = np.exp(logits)
            moved = mc.MarkovChains(
                model.initial, rows[None] / rows.sum(axis=-1, keepdims=True), 2, alphabet, contexts=KEPT
            )
            sides.append(moved.log_prob(data)[0])
        slow.append((sides[0] - sides[1]) / (2 * h))
    initial = model.sequence_scores(data)[0]
    np.testing.assert_allclose(initial, np.transpose(slow), atol=1e-6)


def test_all_contexts_are_the_chain_without():
    kept = ["", *("".join(u) for n in (1, 2) for u in itertools.product("ab", repeat=n))]
    plain = mc.MarkovChain(order=2, alphabet="ab").fit_each(X)
    tied = mc.MarkovChain(order=2, alphabet="ab", contexts=kept).fit_each(X)
    np.testing.assert_allclose(tied.transition, plain.transition, rtol=1e-14)
    np.testing.assert_allclose(tied.sequence_scores(X), plain.sequence_scores(X), atol=1e-13)
    np.testing.assert_array_equal(tied.n_parameters, plain.n_parameters)
    assert tied.score_names() == plain.score_names()


def test_only_the_empty_context_is_order_zero():
    tied = mc.MarkovChain(order=1, alphabet="ab", contexts=[""], prior=None).fit(["aab", "bbba"]).model_
    np.testing.assert_allclose(tied.transition[0], [[2 / 5, 3 / 5]] * 2)


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize("end", [False, True])
def test_contexts_that_occur_often_enough(prior, end):
    """Before at least four symbols, or ends; a suffix occurs at least as often, so it is kept too."""
    chain = mc.MarkovChain(order=3, alphabet="ab", contexts=9, prior=prior, end=end)
    data = X[:4]
    followed = [u for n in (1, 2, 3) for u in map("".join, itertools.product("ab", repeat=n))]
    number = {u: sum(s[t : t + len(u)] == u for s in data for t in range(len(s) - len(u) + end)) for u in followed}
    expected = ("", *(u for u in followed if number[u] >= 9))
    assert 2 < len(expected) < 10
    assert chain.fit_each(data).contexts == expected
    assert chain.fit(data).model_.contexts == expected


def test_new_data_have_the_contexts_of_the_training_data():
    kernel = mc.ProbabilityProduct(mc.MarkovChain(order=2, alphabet="ab", contexts=12, prior=None), length=4).fit(X[:4])
    kept = kernel.train_.contexts
    assert 1 < len(kept) < 7
    assert kernel.transform(["aaab"]).shape == (1, 4)
    table = [longest(past, kept) for past in ("aa", "ab", "ba", "bb")]
    new = mc.MarkovChain(order=2, alphabet="ab", contexts=kept, prior=None).fit_each(["aaab"])
    np.testing.assert_allclose(kernel.transform(["aaab"]), mc.ProbabilityProduct(length=4)(new, kernel.train_))
    assert len(set(table)) < 4


def test_classes_share_the_contexts_of_all_data():
    y = [0, 1, 0, 1]
    kernel = mc.Fisher(mc.MarkovChain(order=2, alphabet="ab", contexts=12), by_class=True).fit(X[:4], y)
    kept = mc.MarkovChain(order=2, alphabet="ab", contexts=12).fit(X[:4]).model_.contexts
    assert kernel.model_.contexts == kept
    own = mc.MarkovChain(order=2, alphabet="ab", contexts=kept).fit(X[0:4:2]).model_
    np.testing.assert_array_equal(kernel.model_.transition[0], own.transition[0])


def test_words_as_symbols():
    data = mc.Sequences([["to", "be", "or", "not", "to", "be"], ["be", "to", "be", "or"]])
    model = mc.MarkovChain(order=2, contexts=[[], ["be"], ("to", "be")]).fit(data).model_
    assert model.contexts == ((), ("be",), ("to", "be"))
    assert model.score_names()[-1].startswith("transition[to be, ")
    chosen = mc.MarkovChain(order=1, contexts=3).fit(data).model_
    assert chosen.contexts == ((), ("be",), ("to",))


def test_files_and_pickles(tmp_path):
    model = mc.MarkovChain(order=2, alphabet="ab", contexts=KEPT).fit_each(X)
    model.save(tmp_path / "chains.npz")
    found = mc.MarkovChains.load(tmp_path / "chains.npz")
    assert found.contexts == model.contexts
    assert found.digests() == model.digests()
    np.testing.assert_array_equal(found.transition, model.transition)
    kernel = mc.Fisher(mc.MarkovChain(order=2, alphabet="ab", contexts=4)).fit(X[:4])
    mc.save(kernel, tmp_path / "kernel.npz")
    again = mc.load(tmp_path / "kernel.npz")
    np.testing.assert_array_equal(again.transform(["abab"]), kernel.transform(["abab"]))
    assert list(again.get_score_names()) == list(kernel.get_score_names())
    assert repr(found).endswith("3 contexts)")
    assert found.estimator().contexts == found.contexts


def test_wrong_contexts():
    def fit(contexts, order=2):
        return mc.MarkovChain(order=order, alphabet="ab", contexts=contexts).fit(X)

    with pytest.raises(ValueError, match=r"must include the empty context, .* got \['a'\]\. Add ''"):
        fit(["a"])
    for bad in ("ab", 0, True, 1.5):
        with pytest.raises(TypeError, match=r"None, the smallest count of a context .* or a list of contexts"):
            fit(bad)
    with pytest.raises(ValueError, match=r"contexts\[1\] = 'aba' has 3 symbols, more than order = 2\. Use order=3"):
        fit(["", "aba"])
    with pytest.raises(ValueError, match=r"has 6 symbols, more than order = 2\. Leave it out"):
        fit(["", "ababab"])
    with pytest.raises(ValueError, match=r"contexts\[1\] = 'ax' contains a symbol that is not in the alphabet"):
        fit(["", "ax"])
    with pytest.raises(ValueError, match=r"same row for all pasts whose longest kept suffix is ''; the rows 1 and 3"):
        mc.MarkovChains([0.25] * 4, [[0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.3, 0.7]], 2, "ab", contexts=KEPT)
    prior = mc.MarkovChain(order=2, alphabet="ab").fit(X).model_
    with pytest.raises(ValueError, match=r"its contexts must be \('', 'a', 'ba'\); got None"):
        mc.MarkovChain(order=2, alphabet="ab", contexts=KEPT, prior=prior).fit_each(X)
