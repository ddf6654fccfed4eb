"""Mixtures: closed forms against quadrature and enumeration, EM against its own promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import mercer as mc
from mercer._array import logsumexp, safe_log
from mercer.models._fitting import em
from mercer.models._fitting.goals import MixtureGoal
from mercer.models.mixture_estimator import Mixture
from mercer.testing.models import ModelContract


class TestMixtures(ModelContract):
    def members(self, seed=0, shape=(3,)):
        rng = np.random.default_rng(seed)
        components = mc.Gaussians(rng.normal(0, 2, (*shape, 2, 1)), rng.uniform(0.3, 2, (*shape, 2, 1, 1)))
        return mc.Mixtures(rng.dirichlet(np.ones(2), shape), components)

    def outcomes(self):
        x = np.linspace(-20, 20, 2001)
        return x[:, None], np.full(2001, x[1] - x[0])

    def joint(self, p):
        x, mean, variance = self.outcomes()[0][:, 0], p.components.mean[0], p.components.covariance[0, :, 0]
        return p.weights[0][:, None] * np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    def base_kernel(self, gamma):
        x, _ = self.outcomes()
        return np.exp(-gamma * (x - x.T) ** 2)

    def parameters(self, p):
        return np.log(p.weights)

    def build(self, theta):
        weights = np.exp(theta) / np.exp(theta).sum(axis=-1, keepdims=True)
        return mc.Mixtures(weights, self.members().components)

    def scores(self, p, X):
        assert p.score_names()[:2] == ["weights[0]", "weights[1]"]
        assert_allclose(p.responsibilities(X[::500]).sum(axis=1), 1, rtol=1e-12)
        return p.fisher_scores(X)[..., :2]

    def estimator(self):
        return Mixture(n_components=2, n_init=1, n_iter=50, tol=1e-3)


COMPONENTS = {
    "full": mc.Gaussian("full", floor=0.0),
    "diagonal": mc.Gaussian("diagonal", floor=0.0),
    "isotropic with a floor": mc.Gaussian("isotropic", floor=0.2),
    "full with a floor": mc.Gaussian("full", floor=0.2),
    "shrunk": mc.Gaussian("diagonal", prior="pooled", prior_strength=3.0),
    "poisson": mc.Poisson(),
    "bernoulli": mc.Bernoulli(threshold=3.0),
    "multinomial": mc.Multinomial(trials=5),
}


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_the_objective_never_decreases(name, prior, monkeypatch):
    component, rng = COMPONENTS[name], np.random.default_rng(7)
    if isinstance(component, mc.Gaussian):
        sets = [rng.normal(rng.choice([-2.0, 2.0], (n, 1)), 1.0, (n, 2)) for n in (40, 60)]
    else:
        sets = [rng.poisson(rng.choice([1.0, 8.0], (n, 1)) * [1.0, 2.0, 1.0]).astype(float) for n in (40, 60)]
    estimator = Mixture(component, n_components=2, prior=prior, n_iter=30, n_init=1, tol=0.0)
    context = clone(estimator).set_params(n_iter=3).context(estimator.accept(sets))
    history, maximize = [], MixtureGoal.maximize

    def watched(self, mixtures, data, found, memory):
        history.append(found.log_prob + self.log_prior(mixtures))
        return maximize(self, mixtures, data, found, memory)

    monkeypatch.setattr(MixtureGoal, "maximize", watched)
    with mc.config(cache_bytes=0):
        estimator.fit_each(sets, context)
    objective = np.array(history)
    assert objective.shape == (30, 2)
    assert np.all(np.diff(objective, axis=0) >= -1e-10 * np.abs(objective[:-1]))
    assert np.all(objective[-1] > objective[0] + 1e-4)


def test_one_step_by_hand_with_weights_and_a_floor():
    """Responsibilities see what the fit sees: every point with the floor as a variance of its own."""
    x, weights = np.array([[0.0], [1.0], [4.0], [6.0]]), np.array([1.0, 2.0, 0.5, 1.0])
    start = mc.Mixtures([[0.3, 0.7]], mc.Gaussians([[[0.5], [5.0]]], [[[1.0], [2.0]]]))
    estimator = mc.Mixture(mc.Gaussian("diagonal", floor=0.25), prior=None, n_iter=1)
    context = estimator.context(x)
    found = estimator.fit_weighted(x, weights[:, None], np.array([0, 4]), context, start=start.reshape(1, 1))[:, 0]
    mean, variance, f = np.array([0.5, 5.0]), np.array([1.0, 2.0]), context.floor
    assert f > 0
    joint = np.log([0.3, 0.7]) - (np.log(variance) + ((x - mean) ** 2 + f) / variance) / 2
    share = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True) * weights[:, None]
    mass = share.sum(axis=0)
    m = (share * x).sum(axis=0) / mass
    v = (share * ((x - m) ** 2 + f)).sum(axis=0) / mass
    np.testing.assert_allclose(found.weights[0], mass / mass.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.components.mean[0, :, 0], m, rtol=1e-12)
    np.testing.assert_allclose(found.components.covariance[0, :, 0], v, rtol=1e-12)


def test_em_finds_what_scikit_learn_finds():
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal([-3, 0], 1.0, (150, 2)), rng.normal([3, 1], [0.5, 2.0], (100, 2))])
    ours = mc.Mixture(mc.Gaussian("full", floor=0.0), n_components=2, prior=None, tol=1e-10, n_iter=500).fit(x)
    theirs = GaussianMixture(2, reg_covar=0.0, tol=1e-10, max_iter=500, n_init=3, random_state=0).fit(x)
    assert abs(ours.score(x) - theirs.score(x)) < 1e-6


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (mc.Mixture(n_components=0), r"n_components must be .*; got 0"),
        (mc.Mixture(component="gaussian"), r"component must be .*; got 'gaussian'. Use a family"),
        (mc.Mixture(prior="pool"), "got 'pool'. Pass one member"),
        (mc.Mixture(prior_strength=-1.0), r"prior_strength must be .*; got -1.0"),
        (mc.Mixture(tol=-1.0), r"tol must be .*; got -1.0"),
        (mc.Mixture(tol=np.inf), r"tol must be .*; got inf"),
        (mc.Mixture(n_iter=1.5), r"n_iter must be .*; got 1.5"),
    ],
)
def test_bad_parameters_get_one_clear_sentence(estimator, message):
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        estimator.fit_each([np.zeros((3, 1)), np.ones((3, 1))])


def test_bad_batches_get_one_clear_sentence():
    components = mc.Gaussians([[[0.0], [1.0]]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"sums to 0\.9"):
        mc.Mixtures([[0.5, 0.4]], components)
    with pytest.raises(ValueError, match="one component per weight"):
        mc.Mixtures([[1.0]], components)
    with pytest.raises(TypeError, match="JensenShannon needs"):
        mc.JensenShannon()(mc.Mixtures([[0.5, 0.5]], components))


def test_seeds_see_every_coordinate_in_its_own_unit():
    """Clusters in a narrow coordinate beside a wide one without any: the narrow one must count as much."""
    rng = np.random.default_rng(13)
    side = rng.choice([-1.0, 1.0], 200)
    x = np.stack([1e4 * rng.normal(size=200), 1e-2 * (4 * side + rng.normal(size=200))], axis=1)
    x[::17, 0] = np.nan
    estimator = mc.Mixture(mc.Gaussian("diagonal", floor=0.0), n_components=2, prior=None)
    context = estimator.context(estimator.accept(x, reset=True))
    assert np.all(context.scale > 0)
    np.testing.assert_allclose(np.log2(context.scale / np.nanvar(x, axis=0)), 0, atol=0.5 + 1e-9)
    means = np.sort(np.asarray(estimator.fit(x).model_.components.mean)[0, :, 1])
    np.testing.assert_allclose(means, [-0.04, 0.04], atol=5e-3)


@pytest.mark.slow
def test_a_mixture_takes_what_its_components_take():
    rng = np.random.default_rng(14)
    sets = [rng.normal(size=(15, 3)) for _ in range(3)]
    ones = mc.Mixture(mc.Bernoulli(threshold=0.5)).fit_each(sets)
    truth = mc.Mixture(mc.Bernoulli()).fit_each([(x > 0.5).astype(float) for x in sets])
    np.testing.assert_allclose(np.asarray(ones.components.probability), np.asarray(truth.components.probability))
    strings = mc.Mixture(mc.Categorical("dna", unknown="missing")).fit_each(["ACG?T", "AAAC", "GG!"])
    assert strings.shape == (3,)
    with pytest.raises(ValueError, match="must have the alphabet AB; got XY"):
        mc.Mixture(mc.Categorical()).fit(["AB", "BA"]).fit_each(mc.Sequences(["XY"]))
    sets[1][2, 0] = np.nan
    for prior in (None, "pooled"):
        estimator = mc.Mixture(mc.Gaussian("full"), prior=prior)
        assert np.isfinite(estimator.fit(sets).score_samples(sets)).all()
        assert np.isfinite(np.asarray(estimator.fit_each(sets).components.covariance)).all()
    assert mc.Mixture(mc.Gaussian("diagonal")).fit_each(sets).shape == (3,)


@pytest.mark.parametrize("prior", [None, "pooled"])
def test_init_is_where_every_fit_starts(prior):
    rng = np.random.default_rng(16)
    sets = [rng.normal(rng.choice([-3.0, 3.0], (60, 1)), 1.0, (60, 1)) for _ in range(3)]
    for order in ([-3.0, 3.0], [3.0, -3.0]):
        init = mc.Mixtures([[0.5, 0.5]], mc.Gaussians(np.array(order)[None, :, None], np.ones((1, 2, 1))))
        estimator = mc.Mixture(prior=prior, init=init)
        for found in (estimator.fit_each(sets), clone(estimator).fit(sets).model_):
            means = np.asarray(found.components.mean)[..., 0]
            np.testing.assert_array_equal(np.sign(means), np.tile(np.sign(order), (len(found), 1)))


def test_a_bad_init_gets_one_clear_sentence():
    components = mc.Gaussians(np.zeros((2, 2, 1)), np.ones((2, 2, 1)))
    two = mc.Mixtures(np.full((2, 2), 0.5), components)
    sets = [np.arange(4.0)[:, None], np.ones((3, 1))]
    for init, n, error, message in [
        ("random", 2, TypeError, "init must be None for k-means.* got 'random'"),
        (two, 2, ValueError, r"init must be Mixtures of shape \(1,\), .* got shape \(2,\)"),
        (two[:1], 3, ValueError, "init has 2 components, but n_components is 3"),
    ]:
        with pytest.raises(error, match=message):
            mc.Mixture(n_components=n, init=init).fit_each(sets)
    with pytest.raises(ValueError, match=r"init does not suit Gaussian components: .*differ in structure"):
        mc.Mixture(mc.Gaussian("full"), init=two[:1]).fit_each(sets)
    with pytest.raises(TypeError, match="init does not suit Poisson components"):
        mc.Mixture(mc.Poisson(), init=two[:1]).fit_each(sets)


@pytest.mark.parametrize("state", ["a", -1, 1.5, True])
def test_what_is_no_seed(state):
    with pytest.raises(ValueError, match=r"random_state must be .*; got"):
        mc.Mixture(random_state=state).fit(np.eye(3))


def test_no_mixture_of_mixtures():
    with pytest.raises(TypeError, match="a mixture of mixtures is a mixture"):
        mc.Mixture(mc.Mixture()).fit(np.eye(3))


def test_impossible_and_unconverged_data_are_named():
    X = mc.Sequences(["ab", "ba", "bb"], ids=["one", "two", "three"])
    never = mc.Mixtures([[0.5, 0.5]], mc.Categoricals([[[1.0, 0.0], [1.0, 0.0]]], "ab"))
    with pytest.raises(ValueError, match="sequence 'one' has probability zero under the prior"):
        mc.Mixture(mc.Categorical("ab"), prior=never).fit_each(X)
    sets = [np.random.default_rng(i).normal(size=(20, 1)) for i in range(3)]
    estimator = mc.Mixture(prior=None, n_iter=2, tol=1e-12, n_init=1)
    with pytest.warns(
        ConvergenceWarning, match="EM stopped after n_iter = 2 iterations, before sequence 0, sequence 1"
    ):
        _, info = estimator.fit_each(sets[:2], return_info=True)
    assert info.n_iter.tolist() == [2, 2]
    assert not info.converged.any()
    with pytest.warns(ConvergenceWarning):
        estimator.fit_each(sets[:2])
    with pytest.warns(ConvergenceWarning, match="before sequence 0, sequence 1, sequence 2 converged"):
        estimator.fit_each(sets)


V = [np.random.default_rng(i).normal(size=(12, 2)) for i in range(3)]


def test_what_is_given_must_suit_the_components():
    two = mc.Mixture(n_components=2).fit(V).model_
    with pytest.raises(ValueError, match="prior has 2 components, but n_components is 3"):
        mc.Mixture(n_components=3, prior=two).fit(V)
    with pytest.raises(ValueError, match="prior does not suit Gaussian components"):
        mc.Mixture(mc.Gaussian("full"), prior=two).fit_each(V)
    with pytest.raises(TypeError, match="must be None, 'pooled', or Mixtures"):
        mc.Mixture(prior=mc.Gaussian("diagonal").fit(V).model_).fit_each(V)
    with pytest.raises(ValueError, match="prior does not suit"):
        mc.Mixture(mc.Gaussian("diagonal")).fit(V).set_params(component=mc.Gaussian("full")).fit_each(V)
    with pytest.raises(TypeError, match=r"component must be a family; got MarkovChain.* Use mc.Gaussian"):
        mc.Mixture(mc.MarkovChain(2)).fit(["ab"])


def test_numbers_of_points_to_draw():
    mixture = mc.Mixture().fit(V).model_
    with pytest.raises(ValueError, match=r"size must be a whole number .* got 2.5"):
        mixture.sample(2.5)


def test_a_pooled_prior_of_the_family_makes_nothing_impossible():
    mixture = mc.Mixture(mc.Bernoulli(prior="pooled")).fit([np.ones((4, 1))])
    assert np.isfinite(mixture.model_.log_prob(np.zeros((1, 1)))).all()


def test_nan_is_not_lost():
    """A component that has no density leaves none, where it would look like one of density zero."""
    logs = np.array([[0.0, np.nan], [-np.inf, -np.inf], [1.0, np.inf]])
    assert np.array_equal(logsumexp(logs), [np.nan, -np.inf, np.inf], equal_nan=True)
    assert np.array_equal(safe_log(np.array([0.0, np.nan, 1.0])), [-np.inf, np.nan, 0.0], equal_nan=True)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_long_fit_is_logged_in_one_line(seconds, monkeypatch, caplog):
    monkeypatch.setattr(em, "BAR_AFTER_SECONDS", seconds)
    with caplog.at_level("INFO", "mercer"):
        found = mc.Mixture(prior=None, n_init=1, tol=1e-2).fit(V)
        tree = mc.HiddenTree("(a,b,c);", alphabet="AC").fit(["ACA", "CCA"])
    fits = [("1 Mixtures of 36 points", found), ("HiddenTree of 2 samples", tree)]
    texts = [record.getMessage().rpartition(",")[0] for record in caplog.records]
    assert texts == [f"EM: {about}, {fit.n_iter_} iterations" for about, fit in fits if not seconds]


@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("odd", [object(), 2, np.int64(2), 2.5, "x", None, [], {}, len, np.array(2.0), [object()]])
def test_criteria_of_what_is_no_data(criterion, odd):
    half = [[0.5, 0.5]]
    for components, what in (
        (
            mc.Gaussians(np.zeros((1, 2, 2)), np.ones((1, 2))),
            r"Points must have shape \(T, 2|Expected numbers; got",
        ),
        (mc.Categoricals([half * 2], "AC"), r"Encode strings with mc\.Sequences|Codes must have shape"),
    ):
        with pytest.raises((TypeError, ValueError), match=what):
            getattr(mc.Mixtures(half, components), criterion)(odd)


def test_criteria_count_the_points_of_any_form():
    mixture, X = mc.Mixture(mc.Gaussian()).fit(V), np.concatenate(V)
    expected = mixture.model_.n_parameters * np.log(len(X)) - 2 * mixture.model_.log_prob(X).sum()
    for same in (X, X.tolist(), pd.DataFrame(X), mc.Sequences([X])):
        np.testing.assert_allclose(mixture.model_.bic(same), expected)


def test_points_have_no_leading_axes():
    """Two blocks of points were taken for those of the two components."""
    mixture = mc.Mixtures([[0.5, 0.5]], mc.Gaussians(np.zeros((1, 2, 2)), np.ones((1, 2))))
    coins = mc.Mixtures([[0.5, 0.5]], mc.Categoricals(np.full((1, 2, 2), 0.5), "AC"))
    for model, x in ((mixture, np.zeros((2, 18, 2))), (coins, np.zeros((2, 5), int))):
        for ask in (model.log_prob, model.responsibilities, model.fisher_scores, model.aic):
            with pytest.raises(ValueError, match=r"x must be the points of all mixtures.* got shape \(2, "):
                ask(x)
