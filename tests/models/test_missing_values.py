"""Series with gaps: every model of series is fitted to what was observed, and scores are its gradient."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import mercer as mc
from mercer.models._dynamics import em
from mercer.models._fitting.data import Data


def series(seed=0, count=4, length=12, d=3):
    """Series with correlated channels that a common cause moves."""
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + 0.5 * np.triu(np.ones((d, d)), 1)
    common = [np.cumsum(rng.normal(size=(length + i, 1)), axis=0) for i in range(count)]
    return [0.5 * x * np.linspace(1, -1, d) + rng.normal(size=(len(x), d)) @ mix for x in common]


def lacking(kind, X):
    """Return copies of series with values missing in one of the ways that data have."""
    X = [x.copy() for x in X]
    if kind == "a whole step":
        X[0][5] = np.nan
    elif kind == "single channels":
        X[0][5, 1], X[1][[2, 7], 0], X[2][3, 1:] = np.nan, np.nan, np.nan
    elif kind == "a channel of one series":
        X[1][:, 2] = np.nan
    elif kind == "first and last steps":
        X[0][0], X[1][-1], X[2][:3] = np.nan, np.nan, np.nan
    elif kind == "a whole series":
        X[3][:] = np.nan
    else:
        assert kind == "at random"
        rng = np.random.default_rng(1)
        X = [np.where(rng.random(x.shape) < 0.3, np.nan, x) for x in X]
    return X


KINDS = [
    "a whole step", "single channels", "a channel of one series", "first and last steps", "a whole series", "at random"
]  # fmt: skip
MODELS = {
    **{f"HMM, {name}": mc.HMM(2, mc.Gaussian(name), n_init=1) for name in ("full", "tied", "diagonal", "isotropic")},
    "HMM, mixtures": mc.HMM(2, mc.Mixture(mc.Gaussian("full"), 2), n_init=1),
    "LDS, diagonal": mc.LDS(2, n_init=1),
    "LDS, full": mc.LDS(2, noise="full", n_init=1),
    "SwitchingLDS": mc.SwitchingLDS(2, 1, n_paths=4, n_init=1),
    "FactorialHMM": mc.FactorialHMM(2, 2, n_init=1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "SwitchingLDS" else name for name in MODELS]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_model_takes_every_kind_of_gap(name, kind):
    X = lacking(kind, series(count=4, length=7))
    estimator = MODELS[name].__class__(**MODELS[name].get_params(deep=False)).set_params(n_iter=2)
    logs = estimator.fit(X).score_samples(X)
    assert np.isfinite(logs).all()
    each = estimator.fit_each(X)
    assert np.isfinite(each.log_prob(X)).all()
    blank = [np.isnan(x).all() for x in X]
    assert_allclose(logs[blank], 0, atol=1e-12)
    if name == "SwitchingLDS":
        assert_allclose(np.diag(mc.kernels.SwitchingProduct(estimator).fit_transform(X)), 1)
        return
    assert_allclose(np.diag(mc.ProbabilityProduct(estimator).fit_transform(X)), 1)
    fisher = mc.Fisher(estimator, normalize=False).fit_transform(X)
    assert np.isfinite(fisher).all()
    assert_array_equal(fisher[blank], 0)  # exactly, or normalization would give noise a direction
    assert (np.diag(fisher)[np.logical_not(blank)] > 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_channel_that_is_never_observed_gets_one_sentence(name):
    X = series()
    for x in X:
        x[:, 1] = np.nan
    for fit in (MODELS[name].fit, MODELS[name].fit_each):
        with pytest.raises(ValueError, match=r"^[^.]*(coordinate|Channel) 1\b[^.]*\. Leave (it|the channel) out\.$"):
            fit(X)


def enumerated(model, x):
    """Log probability of one series under an HMM: all paths, and the density of what was observed at each step."""
    initial, transition = np.asarray(model.initial[0]), np.asarray(model.transition[0])
    mean, covariance = np.asarray(model.emission.mean[0]), np.asarray(model.emission._as_full().covariance[0])
    logs = np.zeros((len(x), len(initial)))
    for t, point in enumerate(x):
        seen = ~np.isnan(point)
        if seen.any():
            for j in range(len(initial)):
                logs[t, j] = multivariate_normal(mean[j][seen], covariance[j][np.ix_(seen, seen)]).logpdf(point[seen])
    paths = np.array(list(itertools.product(range(len(initial)), repeat=len(x))))
    total = np.log(initial[paths[:, 0]]) + logs[np.arange(len(x)), paths].sum(axis=1)
    return logsumexp(total + np.log(transition[paths[:, :-1], paths[:, 1:]]).sum(axis=1))


@pytest.mark.parametrize("structure", ["full", "tied", "isotropic"])
def test_an_hmm_is_fitted_to_the_probability_of_what_was_observed(structure):
    """At the fit, no change of an emission or a transition raises the probability, which is that of all paths."""
    X = lacking("at random", series(count=4, length=30, d=2))
    X[0][4:6] = X[1][0] = X[2][-1] = np.nan
    X = [x + 5 * (np.arange(len(x)) % 14 > 6)[:, None] for x in X]
    estimator = mc.HMM(2, mc.Gaussian(structure, floor=0.0), prior=None, n_init=1, n_iter=3000, tol=1e-14).fit(X)
    model = estimator.model_
    short = [x[:7] for x in X]
    assert_allclose(model.log_prob(short)[0], [enumerated(model, x) for x in short], rtol=1e-10)

    mean, covariance = np.asarray(model.emission.mean), np.asarray(model.emission.covariance)
    shared = structure == "tied"
    corner = np.tril_indices(2)

    def log_prob(theta):
        part = covariance + theta[4:].reshape(covariance.shape) if structure == "isotropic" else covariance.copy()
        if structure != "isotropic":
            for j in range(2):
                part[0, j][corner] += theta[4 + 3 * (0 if shared else j) :][:3]
                part[0, j] = np.tril(part[0, j]) + np.tril(part[0, j], -1).T
        emission = mc.Gaussians(mean + theta[:4].reshape(1, 2, 2), part)
        return mc.HMMs(model.initial, model.transition, emission).log_prob(X).sum()

    size = {"full": 10, "tied": 7, "isotropic": 6}[structure]
    assert_allclose(approx_fprime(np.zeros(size), log_prob, 1e-6), 0, atol=5e-3)
    assert (np.diff(estimator.history_) >= -1e-9 * np.abs(estimator.history_[:-1])).all()


@pytest.mark.parametrize("structure", ["full", "tied", "isotropic", "diagonal", "mixtures"])
@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_of_an_hmm_never_falls(structure, prior):
    X = lacking("at random", series(count=5, length=20))
    X[0][4:6] = X[1][0] = np.nan
    emission = mc.Mixture(mc.Gaussian("full", floor=0.2), 2) if structure == "mixtures" else mc.Gaussian(structure, 0.2)
    context = mc.HMM(2, emission, prior=prior, n_init=1, n_iter=4).context(mc.Sequences(X))
    found = []
    for n_iter in range(1, 12):
        estimator = mc.HMM(2, emission, prior=prior, prior_strength=3.0, n_init=1, n_iter=n_iter, tol=0.0)
        found.append(estimator.fit_each(X, context=context, return_info=True)[1].objective)
    assert (np.diff(found, axis=0) > -1e-9 * np.abs(found[:-1])).all()
    assert (found[-1] > found[0]).all()


def test_steps_that_are_missing_as_a_whole_need_no_covariance():
    """With one state, an HMM is the Gaussian of the steps that were observed."""
    X = lacking("a whole step", series())
    found = mc.HMM(1, mc.Gaussian("full"), prior=None).fit(X)
    rest = np.concatenate(X)
    assert_allclose(found.model_.emission.mean[0, 0], np.nanmean(rest, axis=0), rtol=1e-12)
    complete = rest[~np.isnan(rest).any(axis=1)]
    expected = np.cov(complete.T, bias=True) + found.context_.floor * np.eye(3)
    assert_allclose(found.model_.emission.covariance[0, 0], expected, rtol=1e-12)


def changed(model, name, k, step):
    """Return a system with one entry of a parameter changed; covariances stay symmetric."""
    values = {key: np.array(getattr(model, key), dtype=float) for key in type(model)._arrays if key != "state_dims"}
    i = np.unravel_index(k, values[name].shape)
    values[name][i] += step
    if name.endswith("covariance") and i[-1] != i[-2]:
        values[name][(*i[:-2], i[-1], i[-2])] += step
    return mc.LDSs(**values)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["full", "diagonal"])
def test_a_system_is_fitted_to_the_probability_of_what_was_observed(noise):
    """EM without a floor reaches a point at which no change of the observations raises the log probability."""
    X = lacking("at random", series(count=4, length=20, d=2))
    X[0][4:6] = X[1][0] = X[2][-1] = np.nan
    values, lengths = np.concatenate(X), [len(x) for x in X]
    data = Data(values, np.concatenate([[0], np.cumsum(lengths)]), np.zeros(len(X), dtype=int), 1)
    none = np.zeros(1), np.zeros(2), np.zeros(1)
    known = {"state_offset": np.zeros(1), "transition": np.full((1, 1), 0.9), "process_covariance": np.ones((1, 1))}
    goal = em.LDSGoal(noise, known, none, None, 0.0)
    model, before = goal.admitted(mc.LDS(1, noise=noise, n_init=1, n_iter=20, tol=0.0).fit(X).model_), -np.inf
    for _ in range(4000):
        found, memory = goal.expect(model, data)
        now = found.log_prob.sum()
        assert now >= before - 1e-8
        model = goal.maximize(model, data, found, memory)
        if now - before < 1e-12:
            break
        before = now
    for name in ("emission", "observation_offset", "observation_covariance"):
        for k in range(np.asarray(getattr(model, name)).size):
            if noise == "diagonal" and name.endswith("covariance") and k in (1, 2):
                continue
            up, down = (changed(model, name, k, step).log_prob(X).sum() for step in (1e-5, -1e-5))
            assert abs(up - down) / 2e-5 < 5e-3, (name, k)


def test_scores_of_systems_are_gradients_with_gaps():
    X = [x[:6] for x in lacking("at random", series(d=2))]
    X[0][2], X[1][:, 1] = np.nan, np.nan
    model = mc.LDS(2, noise="full", n_init=1, n_iter=5, tol=0.0).fit(series(d=2)).model_
    found, names = model.sequence_scores(X)[0], model.score_names()
    parameters = {
        "emission": (2, 2),
        "observation_offset": (2,),
        "transition": (2, 2),
        "observation_covariance": (2, 2),
    }
    for name, shape in parameters.items():
        for k, i in enumerate(np.ndindex(shape)):
            label = f"{name}[{', '.join(map(str, i))}]"
            if label in names:
                up, down = (changed(model, name, k, step).log_prob(X)[0] for step in (1e-5, -1e-5))
                scale = np.sqrt(0.5) if name.endswith("covariance") and i[0] != i[1] else 1.0
                assert_allclose(found[:, names.index(label)], scale * (up - down) / 2e-5, atol=1e-5, rtol=1e-5)
