"""Joint states of factorial hidden Markov models: of symbols, with missing values, and their scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.test_factorial_hmm import models

import mercer as mc
from mercer.models._factorial import em


def tables(seed=0, size=2, n_chains=2, n=2, k=3, alphabet="abc"):
    rng = np.random.default_rng(seed)
    return mc.models.FactorialHMMs(
        rng.dirichlet(np.ones(n), size=(size, n_chains)),
        rng.dirichlet(np.ones(n), size=(size, n_chains, n)),
        probability=rng.dirichlet(np.ones(k), size=(size, n**n_chains)),
        alphabet=alphabet,
    )


def holes(X, seed=0, share=0.3):
    """Series with missing entries, and one missing step."""
    rng, out = np.random.default_rng(seed), []
    for x in X:
        x = np.where(rng.random(x.shape) < share, np.nan, x)
        x[len(x) // 2] = np.nan
        out.append(x)
    return out


SERIES = [np.random.default_rng(s).normal(size=(length, 2)) for s, length in enumerate((7, 1, 12, 4))]
STRINGS = mc.Sequences(["abcab", "c", "abbcabcacbba", "aa"], alphabet="abc")


def test_symbols_are_sums_over_all_paths():
    model, text = tables(4, 1), "acb"
    codes = ["abc".index(c) for c in text]
    total, posterior = 0.0, np.zeros((3, 2, 2))
    for path in itertools.product(itertools.product(range(2), repeat=2), repeat=3):
        p = 1.0
        for t, now in enumerate(path):
            for c in range(2):
                p *= model.transition[0, c, path[t - 1][c], now[c]] if t else model.initial[0, c, now[c]]
            p *= model.probability[0, 2 * now[0] + now[1], codes[t]]
        total += p
        for t, now in enumerate(path):
            posterior[t, [0, 1], list(now)] += p
    np.testing.assert_allclose(model.log_prob([text]), [[np.log(total)]], rtol=1e-12)
    np.testing.assert_allclose(model.posterior([text])[0], posterior / total, rtol=1e-10)
    every = ["".join(s) for s in itertools.product("abc", repeat=3)]
    np.testing.assert_allclose(np.exp(model.log_prob(every)).sum(), 1.0, rtol=1e-12)


def test_one_chain_of_symbols_is_a_hidden_markov_model(tmp_path):
    one = tables(2, 3, n_chains=1, n=3)
    plain = mc.HMMs(one.initial[:, 0], one.transition[:, 0], mc.Categoricals(one.probability, "abc"))
    np.testing.assert_allclose(one.log_prob(STRINGS), plain.log_prob(STRINGS), rtol=1e-12)
    np.testing.assert_allclose(one.sequence_scores(STRINGS), plain.sequence_scores(STRINGS), atol=1e-12)
    for kernel in (mc.ProbabilityProduct(length=5), mc.MeanMap(gamma=0.2, length=5)):
        np.testing.assert_allclose(kernel(one), kernel(plain), rtol=1e-12)
    one.save(tmp_path / "models.npz")
    again = mc.load(tmp_path / "models.npz")
    assert again.digests() == one.digests()
    draws = one.sample(400, 2, random_state=0)
    assert draws.shape == (3, 2, 400)
    assert np.isfinite(one[:1].log_prob(mc.Sequences.from_codes(list(draws[0]), "abc"))).all()
    assert one.n_parameters == 8 + 3 * 2


@given(st.integers(0, 200), st.booleans())
def test_scores_are_derivatives(seed, symbols):
    model = tables(seed, 1) if symbols else models(seed, 1, d=2)
    X = ["abca", "cb"] if symbols else holes(SERIES[:2], seed)
    scores, names = model.sequence_scores(X)[0], model.score_names()
    start = {name: np.array(getattr(model, name)) for name in model._arrays}

    def moved(part, at, step):
        new = {name: value.copy() for name, value in start.items()}
        if part in ("initial", "transition", "probability"):
            row = new[part][(0, *at[:-1])]
            row = np.log(row) + step * (np.arange(len(row)) == at[-1])
            new[part][(0, *at[:-1])] = np.exp(row) / np.exp(row).sum()
        else:
            new[part][(0, *at)] += step
            if part == "covariance" and at[0] != at[1]:
                new[part][(0, *at[::-1])] += step
        if symbols:
            return mc.models.FactorialHMMs(
                new["initial"], new["transition"], probability=new["probability"], alphabet="abc"
            )
        return mc.models.FactorialHMMs(*(new[name] for name in ("initial", "transition", "mean", "covariance")))

    rng = np.random.default_rng(seed)
    for column in rng.choice(len(names), size=6, replace=False):
        part, inside = names[column].split("[", 1)
        if part == "emission":
            joint, symbol = inside.split("].probability[")
            part, at = "probability", (int(joint), "abc".index(symbol[0]))
        else:
            at = tuple(int(v) for v in inside[:-1].split(", "))
        slope = (moved(part, at, 1e-5).log_prob(X) - moved(part, at, -1e-5).log_prob(X))[0] / 2e-5
        scale = np.sqrt(0.5) if part == "covariance" and at[0] != at[1] else 1.0
        np.testing.assert_allclose(scores[:, column], scale * slope, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_with_missing_values_reaches_a_stationary_point():
    X = holes(list(models(5, 1, d=2).sample(30, 3, random_state=0)[0]), share=0.2)
    reached = []
    for n_iter in (1, 2, 4, 40):
        model = mc.FactorialHMM(prior=None, n_iter=n_iter, tol=0, n_init=1, floor=0.0)
        model.fit(X)
        one = em.Parameters(*(np.asarray(getattr(model.model_, name))[0] for name in em.Parameters._fields))
        x, offsets = np.concatenate(X), np.array([0, 30, 60, 90])
        reached.append(one.expect(x, offsets)[0])
    assert (np.diff(reached) >= -1e-6).all()
    many = mc.FactorialHMM(prior=None, n_iter=300, tol=0, n_init=1, floor=0.0).fit(X).model_
    first = mc.FactorialHMM(prior=None, n_iter=1, tol=0, n_init=1, floor=0.0).fit(X).model_
    slopes = [np.abs(m.sequence_scores(X)[0].sum(axis=0)).max() for m in (first, many)]
    assert slopes[1] < 0.02 * slopes[0]


def test_missing_values_are_marginalized():
    model = models(1, 1, d=2)
    x = SERIES[0].copy()
    x[:, 1] = np.nan
    part = mc.models.FactorialHMMs(model.initial, model.transition, model.mean[..., :1], model.covariance[..., :1, :1])
    np.testing.assert_allclose(model.log_prob([x]), part.log_prob([x[:, :1]]), rtol=1e-12)
    for found, expected in zip(model.posterior([x]), part.posterior([x[:, :1]]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_of_symbols_increases_the_objective():
    truth = tables(0, 1)
    X = mc.Sequences(["".join("abc"[c] for c in row) for row in truth.sample(60, 3, random_state=0)[0]], alphabet="abc")
    for prior in (None, "pooled", truth):
        reached, context = [], None
        for n_iter in (1, 2, 4, 8):
            model = mc.FactorialHMM(prior=prior, n_iter=n_iter, tol=0, n_init=1)
            context = model.fit(X).context_ if context is None else context
            found, info = model.fit_each(X, context, return_info=True)
            reached.append(info.objective)
        assert (np.diff(reached, axis=0) >= -1e-8).all()
        assert found.shape == (3,)
    assert mc.ProbabilityProduct(model, length=3).fit_transform(X).shape == (3, 3)
    assert np.isfinite(mc.Fisher(model).fit_transform(X)).all()


@pytest.mark.parametrize("given", [models(2, 1, d=2), tables(2, 1)], ids=["vectors", "symbols"])
def test_a_given_prior_holds_the_fit(given):
    X = STRINGS if given.of_symbols else SERIES
    strong = mc.FactorialHMM(prior=given, prior_strength=1e9, floor=0.0, n_iter=3, tol=0).fit_each(X)
    for name in ("initial", "transition", "probability", "covariance"):
        np.testing.assert_allclose(getattr(strong, name), np.repeat(getattr(given, name), 4, axis=0), atol=1e-6)
    joint = [m.hmms().emission for m in (strong, given)]
    if not given.of_symbols:  # a constant can move between the effects of the chains
        np.testing.assert_allclose(joint[0].mean, np.repeat(joint[1].mean, 4, axis=0), atol=1e-6)
    with pytest.raises(ValueError, match="prior has 2 chains of 2 states; expected 3 of 2"):
        mc.FactorialHMM(3, prior=given).fit(X)
    with pytest.raises(TypeError, match=r"prior requires vectors; got symbols|no alphabet; pass symbols"):
        mc.FactorialHMM(prior=given).fit(SERIES if given.of_symbols else STRINGS)


def test_ambiguity_codes_and_missing_symbols():
    model = tables(1, 1, k=4, alphabet="dna")
    X = mc.Sequences(["ACGT", "ANGR"], alphabet="dna")
    every = ["A" + b + "G" + d for b in "ACGT" for d in "AG"]
    np.testing.assert_allclose(np.exp(model.log_prob(X)[0, 1]), np.exp(model.log_prob(every)).sum(), rtol=1e-12)
    assert np.isfinite(mc.FactorialHMM(alphabet="dna", n_iter=3, tol=0).fit(X).model_.probability).all()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"probability": np.full((1, 4, 2), 0.5), "mean": np.zeros((1, 2, 2, 1))}, "probability; got both"),
        ({"probability": np.full((1, 3, 2), 0.5)}, r"probability must have shape \(1, 4, 2\)"),
        ({}, "need mean and covariance"),
        ({"mean": np.zeros((1, 2, 2, 1)), "covariance": np.eye(1)[None], "alphabet": "ab"}, "alphabet is for models"),
        ({"probability": np.full((1, 4, 2), 0.6)}, "sums to 1.2"),
    ],
)
def test_bad_tables_are_named(change, match):
    good = {"initial": np.full((1, 2, 2), 0.5), "transition": np.full((1, 2, 2, 2), 0.5)}
    with pytest.raises(ValueError, match=match):
        mc.models.FactorialHMMs(**good, **change)


@pytest.mark.slow
def test_bad_symbols_are_named():
    many = {"initial": np.full((1, 17, 2), 0.5), "transition": np.full((1, 17, 2, 2), 0.5)}
    with pytest.raises(ValueError, match=r"131,072 joint states, more than 1,024\. Use fewer"):
        mc.models.FactorialHMMs(**many, probability=np.full((1, 4, 2), 0.5))
    with pytest.raises(ValueError, match="up to 1,024 joint states; got 131,072"):
        mc.FactorialHMM(17).fit(["ab"])
    with pytest.raises(ValueError, match="differ in alphabet"):
        mc.ProbabilityProduct(length=2)(tables(), tables(alphabet="xyz"))
    with pytest.raises(ValueError, match="symbols and 1 coordinates"):
        mc.ProbabilityProduct(length=2)(tables(), models())
    fitted = mc.FactorialHMM(n_iter=2, tol=0).fit(STRINGS)
    with pytest.raises(TypeError, match="no alphabet; pass symbols"):
        fitted.fit_each(SERIES)
    zero = mc.models.FactorialHMMs([[[1.0]]], [[[[1.0]]]], probability=[[[1.0, 0.0]]], alphabet="ab")
    with pytest.raises(ValueError, match="sequence 1 has probability zero under the prior"):
        mc.FactorialHMM(1, 1, prior=zero, prior_strength=0.0).fit_each(["aa", "ab"])
    with pytest.raises(ValueError, match="coordinate 0"):
        mc.FactorialHMM().fit([np.full((3, 1), np.nan)])
