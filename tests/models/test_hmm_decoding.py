"""States over time, filtering, forecasts, criteria and samples of HMMs, against enumeration of paths and hmmlearn."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import mercer as mc

INITIAL, TRANSITION = np.array([0.6, 0.4, 0.0]), np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.3, 0.3, 0.4]])
SYMBOLS = mc.HMMs([INITIAL], [TRANSITION], mc.Categoricals([[[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]]], "ab"))
MEANS, SPREADS = np.array([[[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]]]), np.array([[[1.0, 2.0], [0.5, 0.5], [3.0, 1.0]]])
VECTORS = mc.HMMs([INITIAL], [TRANSITION], mc.Gaussians(MEANS, SPREADS))
SERIES = [np.random.default_rng(i).normal(size=(n, 2)) for i, n in enumerate((4, 1, 3))]
CASES = {"symbols": (SYMBOLS, ["abba", "b", "aab"]), "vectors": (VECTORS, SERIES)}


def likelihoods(model, x):
    if model.alphabet is not None:
        return model.emission[0].probability[:, ["ab".index(c) for c in x]].T
    return np.exp(model.emission[0].log_prob(x)).T


def joint(model, x):
    """Probability of the sequence and every path of states."""
    table = likelihoods(model, x)
    for path in product(range(3), repeat=len(table)):
        p = INITIAL[path[0]] * np.prod([TRANSITION[a, b] for a, b in pairwise(path)])
        yield path, p * np.prod([table[t, s] for t, s in enumerate(path)])


@pytest.mark.parametrize("case", CASES)
def test_filtering_and_forecasts_by_enumeration(case):
    model, X = CASES[case]
    found, states = model.filter(X), model.forecast_states(X, steps=3)
    means, covariances = model.forecast(X, steps=3)
    for i, x in enumerate(X):
        for t in range(len(x)):
            truth = np.zeros(3)
            for path, p in joint(model, x[: t + 1]):
                truth[path[-1]] += p
            assert_allclose(found[i][t], truth / truth.sum(), atol=1e-13)
        assert_allclose(found.log_prob[i], np.log(truth.sum()), rtol=1e-12)
        ahead = truth / truth.sum()
        for t in range(3):
            ahead = ahead @ TRANSITION
            assert_allclose(states[i, t], ahead, atol=1e-13)
            each = model.emission[0].probability if case == "symbols" else MEANS[0]
            assert_allclose(means[i, t], ahead @ each, atol=1e-12)
            second = [np.diag(p) for p in each] if case == "symbols" else [
                np.diag(s) + np.outer(m, m) for m, s in zip(MEANS[0], SPREADS[0], strict=True)
            ]  # fmt: skip
            total = np.einsum("i,ijk->jk", ahead, np.array(second)) - np.outer(means[i, t], means[i, t])
            assert_allclose(covariances[i, t], total, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_stream_gives_what_the_filter_gives(case):
    model, X = CASES[case]
    belief = None
    for t, x in enumerate(X[0]):
        belief = model.update(x, belief)
        assert_allclose(belief, model.filter(X)[0][t], atol=1e-14)
    assert_allclose(model.update(None, belief), belief @ TRANSITION, atol=1e-15)


@pytest.mark.parametrize("case", CASES)
def test_paths_and_posteriors_of_the_estimator_by_enumeration(case):
    model, X = CASES[case]
    fitted = mc.HMM(3, model.emission.estimator(), init=model, n_iter=1, tol=0).fit(X)
    fitted.model_ = model
    values, paths = fitted.decode(X)
    log_prob, modes = fitted.decode(X, algorithm="map")
    for i, x in enumerate(X):
        every = dict(joint(model, x))
        best = max(every, key=every.get)
        assert tuple(fitted.predict(X)[i]) == tuple(paths[i]) == best
        assert_allclose(values[i], np.log(every[best]))
        posterior = np.zeros((len(x), 3))
        for path, p in every.items():
            posterior[np.arange(len(x)), list(path)] += p / sum(every.values())
        assert_allclose(fitted.predict_proba(X)[i], posterior, atol=1e-13)
        assert_array_equal(modes[i], posterior.argmax(axis=1))
        assert_allclose(log_prob[i], np.log(posterior.max(axis=1)).sum())
    total = 2 * fitted.score_samples(X).sum()
    assert fitted.aic(X) == pytest.approx(2 * model.n_parameters[0] - total)
    assert fitted.bic(X) == pytest.approx(model.n_parameters[0] * np.log(sum(map(len, X))) - total)
    assert_allclose(fitted.forecast(X, 2)[0], model.forecast(X, 2)[0])
    assert_allclose(fitted.filter(X).states, model.filter(X).states)


def test_impossible_sequences_are_named():
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[1.0, 0.0]]], "ab"))
    with pytest.raises(ValueError, match="sequence 1 has probability zero"):
        model.filter(["aa", "ab"])


def test_samples_come_with_their_states():
    sequences, states = SYMBOLS.sample(2000, 3, random_state=0, return_states=True)
    assert_array_equal(sequences, SYMBOLS.sample(2000, 3, random_state=0))
    assert sequences.shape == states.shape == (1, 3, 2000)
    assert states[0, :, 0].max() < 2  # the third is never first
    for s in range(3):
        here = states == s
        assert_allclose(sequences[here].mean(), SYMBOLS.emission[0].probability[s, 1], atol=0.05)
        follow = np.bincount(states[:, :, 1:][here[:, :, :-1]], minlength=3) / here[:, :, :-1].sum()
        assert_allclose(follow, TRANSITION[s], atol=0.06)
    fitted = mc.HMM(2, alphabet="ab").fit(["abab", "bbaa"])
    assert fitted.sample(5, 2, random_state=0).shape == (2, 5)
    assert [part.shape for part in fitted.sample(5, 2, return_states=True)] == [(2, 5), (2, 5)]


def test_the_summary_is_a_table():
    lines = VECTORS.summary().splitlines()
    assert lines[0] == "HMM of 3 states, Gaussians of diagonal covariance, 18 free parameters"
    assert lines[1].split() == ["state", "initial", "to", "0", "to", "1", "to", "2", "steps", "share", "emission"]
    assert lines[2].endswith("0 ± 1, 1 ± 1.4")
    many = mc.HMMs(np.full((1, 12), 1 / 12), np.full((1, 12, 12), 1 / 12), mc.Poissons(np.ones((1, 12, 6))))
    assert "..." in many.summary()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mc.HMM(n_components=3), "It is called 'n_states' here"),
        (lambda: mc.HMM().set_params(n_components=3), "It is called 'n_states' here"),
        (lambda: mc.HMM(3, covariance_type="full"), r"mc\.Gaussian\('full'\)"),
        (lambda: mc.HMM(3, n_mix=2), r"mc\.Mixture"),
        (lambda: mc.Gaussian(covariance_type="full"), "called 'covariance' here"),
        (lambda: mc.Mixture(covariance_type="full"), r"mc\.Gaussian\('full'\)"),
        (lambda: mc.Gaussian("diag").fit([[1.0], [2.0]]), "got 'diag'. 'diag' of other libraries is 'diagonal'"),
        (lambda: mc.GaussianHMM, r"use mercer.HMM\(n_states, mercer.Gaussian"),
        (lambda: mc.HMM().transmat_, "use transition_"),
        (lambda: mc.HMM().n_components, "use n_states"),
        (lambda: mc.HMM().n_features, "use context_.dimension"),
        (lambda: mc.HMM().fit(np.ones((4, 1)), [2, 2]), r"2 numbers that sum to the 4 rows.*from_hmmlearn\(X, lengths"),
        (lambda: mc.LDS(1).fit(np.ones((4, 1)), np.array([3, 1])), r"from_hmmlearn\(X, lengths"),
        (lambda: mc.MarkovChain().fit([[0], [1], [1]], [2, 1]), r"from_hmmlearn\(X, lengths"),
        (lambda: mc.HMM().score([[0], [1], [1]], [2, 1]), r"from_hmmlearn\(X, lengths"),
        (lambda: SYMBOLS.update("a", [1.0, 1.0, 1.0]), "belief must be 3 probabilities that sum to one"),
        (lambda: SYMBOLS.forecast(["ab"], steps=0), "steps must be a whole number"),
        (lambda: mc.HMM(2).fit(["ab", "ba"]).decode(["ab"], "best"), "algorithm must be 'viterbi' or 'map'"),
    ],
)
def test_what_hmmlearn_calls_otherwise(call, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        call()


def test_classes_are_not_taken_for_lengths():
    x = np.random.default_rng(0).normal(size=(4, 6))
    assert mc.HMM(1, n_iter=1).fit(x, [1, 1, 1, 1]).model_.shape == (1,)
    assert mc.HMM(1, n_iter=1).fit(x, ["a", "b"]).model_.shape == (1,)


def test_names_of_hmmlearn_do_not_exist():
    assert not hasattr(mc.HMM(), "transmat_")
    for name in ("predict", "predict_proba", "decode", "filter", "forecast", "aic", "bic"):
        with pytest.raises(NotFittedError):
            getattr(mc.HMM(), name)(["ab"])


def test_equal_to_hmmlearn():
    pytest.importorskip("hmmlearn")
    theirs = VECTORS.to_hmmlearn()[0]
    ours = mc.HMM(3, mc.Gaussian("diagonal"), init=VECTORS, n_iter=1, tol=0).fit(SERIES)
    ours.model_ = VECTORS
    X, lengths = np.concatenate(SERIES), [len(x) for x in SERIES]
    log_prob, states = theirs.decode(X, lengths)
    assert_allclose(ours.decode(SERIES)[0].sum(), log_prob)
    assert_array_equal(np.concatenate(ours.predict(SERIES)), states)
    assert_allclose(np.concatenate(ours.predict_proba(SERIES)), theirs.predict_proba(X, lengths), atol=1e-12)
    assert_allclose(ours.score_samples(SERIES).sum(), theirs.score(X, lengths))
    assert ours.aic(SERIES) - 2 * VECTORS.n_parameters[0] == pytest.approx(-2 * theirs.score(X, lengths))
    assert_allclose(VECTORS.stationary()[0], theirs.get_stationary_distribution(), atol=1e-10)
