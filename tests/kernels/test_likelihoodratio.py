"""LikelihoodRatio: against densities written out, scikit-learn's checks, and every kind of model."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.kernels.likelihoodratio import LikelihoodRatio
from mercer.models.hmm_estimator import HMM
from mercer.models.markov_estimator import MarkovChain


@parametrize_with_checks([LikelihoodRatio(mc.Gaussian("diagonal")), LikelihoodRatio(mc.Gaussian(), priors="uniform")])
def test_scikit_learn_check(estimator, check):
    check(estimator)


def blobs(seed=0, classes=3, n=20):
    rng = np.random.default_rng(seed)
    y = np.repeat(["left", "middle", "right"][:classes], n)
    return rng.normal(size=(len(y), 2)) * [1.0, 2.0] + 3 * np.repeat(np.arange(classes), n)[:, None], y


@pytest.mark.parametrize("priors", ["empirical", None, "uniform", [0.2, 0.3, 0.5]])
def test_densities_written_out(priors):
    X, y = blobs()
    X, y = X[5:], y[5:]
    clf = LikelihoodRatio(mc.Gaussian(floor=0.0), priors=priors).fit(X, y)
    new = blobs(1)[0]
    shares = np.array([15, 20, 20]) / 55
    p = {"empirical": shares, "None": shares, "uniform": np.full(3, 1 / 3)}.get(str(priors), priors)
    joint = []
    for c, name in enumerate(["left", "middle", "right"]):
        own = X[y == name]
        law = multivariate_normal(own.mean(axis=0), np.cov(own.T, bias=True))
        joint.append(np.log(p[c]) + law.logpdf(new))
        np.testing.assert_allclose(clf.log_likelihood(new)[:, c], law.logpdf(new), rtol=1e-9)
    joint = np.array(joint).T
    expected = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.decision_function(new), joint, rtol=1e-9)
    np.testing.assert_allclose(clf.predict_proba(new), expected, rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(clf.predict_log_proba(new), np.log(expected), rtol=1e-8, atol=1e-12)
    assert list(clf.predict(new)) == [["left", "middle", "right"][i] for i in joint.argmax(axis=1)]
    assert list(clf.classes_) == ["left", "middle", "right"]
    np.testing.assert_allclose(clf.priors_, p)


def test_full_gaussians_are_quadratic_discriminant_analysis():
    X, y = blobs(2)
    ours = LikelihoodRatio(mc.Gaussian(floor=0.0)).fit(X, y)
    assert list(ours.predict(X)) == list(QuadraticDiscriminantAnalysis().fit(X, y).predict(X))


def test_two_classes_have_one_decision():
    X, y = blobs(3, classes=2)
    clf = LikelihoodRatio(mc.Gaussian("diagonal")).fit(X, y)
    logs = clf.predict_log_proba(X)
    np.testing.assert_allclose(clf.decision_function(X), logs[:, 1] - logs[:, 0], rtol=1e-8)


def strings(seed=0, n=15):
    rng = np.random.default_rng(seed)
    stay = {0: 0.9, 1: 0.2}
    out, y = [], np.repeat([0, 1], n)
    for c in y:
        x = [rng.integers(2)]
        for _ in range(rng.integers(10, 25)):
            x.append(x[-1] if rng.random() < stay[c] else 1 - x[-1])
        out.append("".join("ab"[s] for s in x))
    return out, y


def test_markov_chains_find_what_distinguishes_strings():
    X, y = strings()
    new, truth = strings(1)
    clf = LikelihoodRatio(MarkovChain(order=1, prior=None, smoothing=1.0)).fit(X, y)
    assert clf.score(new, truth) > 0.9
    by_hand = [
        MarkovChain(order=1, prior=None, smoothing=1.0, alphabet="ab").fit(
            [x for x, k in zip(X, y, strict=True) if k == c]
        )
        for c in (0, 1)
    ]
    expected = np.array([m.model_.log_prob(new)[0] for m in by_hand]).T
    np.testing.assert_allclose(clf.log_likelihood(new), expected, rtol=1e-10)


def test_hidden_markov_models_of_symbols_and_vectors():
    X, y = strings(n=8)
    clf = LikelihoodRatio(HMM(n_states=2, n_iter=20, tol=1e-2)).fit(X, y)
    assert clf.log_likelihood(X).shape == (16, 2)
    assert clf.score(X, y) > 0.8
    rng = np.random.default_rng(0)
    series = [rng.normal(3 * c, 1.0, size=(rng.integers(5, 9), 1)) for c in y]
    clf = LikelihoodRatio(HMM(n_states=2, emission=mc.Gaussian("diagonal"), n_iter=20, tol=1e-2)).fit(series, y)
    assert clf.score(series, y) == 1.0


def test_every_class_knows_the_alphabet_of_all():
    X, y = ["aab", "aba", "ccb", "cbc"], [0, 0, 1, 1]
    clf = LikelihoodRatio(MarkovChain(order=1, prior=None, smoothing=1.0)).fit(X, y)
    assert np.isfinite(clf.log_likelihood(["abc"])).all()
    assert list(clf.predict(["aba", "cbc"])) == [0, 1]
    with pytest.raises(ValueError, match="symbol 'd'"):
        clf.predict(["add"])


def test_counts_and_mixtures():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    counts = rng.poisson(np.where(y[:, None] == 0, [5, 1, 1], [1, 1, 5])).astype(float) + 1
    dense = LikelihoodRatio(mc.Multinomial(prior="pooled")).fit(counts, y)
    assert dense.score(counts, y) > 0.9
    compressed = LikelihoodRatio(mc.Multinomial(prior="pooled")).fit(sparse.csr_array(counts), y)
    np.testing.assert_allclose(
        compressed.predict_proba(sparse.csr_array(counts)), dense.predict_proba(counts), rtol=1e-9
    )
    sets = [rng.normal(rng.choice([-3, 3] if c else [0], (30, 1)), 1.0) for c in y]
    assert LikelihoodRatio(mc.Mixture(n_components=2, tol=1e-3)).fit(sets, y).score(sets, y) > 0.9


def test_impossible_data():
    X, y = mc.Sequences(["aa", "aa", "bb", "bb"], alphabet="abc"), [0, 0, 1, 1]
    clf = LikelihoodRatio(MarkovChain(order=0, prior=None)).fit(X, y)
    new = mc.Sequences(["a", "cc"], alphabet="abc", ids=["first", "second"])
    with pytest.raises(
        ValueError, match=r"second.*has probability zero under the model of every class.*on_zero='prior'"
    ):
        clf.predict(new)
    clf.set_params(on_zero="prior")
    np.testing.assert_allclose(clf.predict_proba(new), [[1.0, 0.0], [0.5, 0.5]])


def test_bad_input():
    X, y = blobs()
    with pytest.raises(TypeError, match=r"model must be an estimator; got None\. .*mc\.Gaussian\(\)"):
        LikelihoodRatio().fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        LikelihoodRatio(mc.Gaussian()).fit(X, None)
    with pytest.raises(ValueError, match=r"60 samples, and y of shape \(59,\)"):
        LikelihoodRatio(mc.Gaussian()).fit(X, y[1:])
    for priors in ("equal", [0.5, 0.5], [0.5, 0.6, 0.7], [-0.5, 0.5, 1.0]):
        with pytest.raises(ValueError, match=r"priors (=|must be) "):
            LikelihoodRatio(mc.Gaussian(), priors=priors).fit(X, y)
    for priors in (["a", "b", "c"], {0: 0.5, 1: 0.25, 2: 0.25}, [[0.5], [0.25, 0.25]]):
        with pytest.raises(ValueError, match=r"priors (=|must be) .*3 probabilities"):
            LikelihoodRatio(mc.Gaussian(), priors=priors).fit(X, y)
    with pytest.raises(ValueError, match=r"on_zero must be 'raise'.* got 'nan'"):
        LikelihoodRatio(mc.Gaussian(), on_zero="nan").fit(X, y)
    with pytest.raises(NotFittedError):
        LikelihoodRatio(mc.Gaussian()).log_likelihood(X)
