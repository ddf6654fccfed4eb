"""Learning of switching linear dynamical systems: regimes of made data, the objective, priors and messages."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from tests.models.test_switching import enumerated, switching

import mercer as mc
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import em_batch


def made(kind, regimes, seed=0, length=80, size=3):
    """Sample series of regimes that can be told apart: speeds of a rotation, levels, or noises."""
    rng, every = np.random.default_rng(seed), np.arange(regimes)
    transition, offset = np.tile(0.8 * np.eye(2), (regimes, 1, 1)), np.zeros((regimes, 2))
    process = np.tile(0.05 * np.eye(2), (regimes, 1, 1))
    if kind == "speed":
        angle = 0.2 + every
        turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1)
        transition = 0.98 * turn.reshape(regimes, 2, 2)
    elif kind == "level":
        angle = 2 * np.pi * every / regimes
        offset = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        process = process * 40.0 ** every[:, None, None]
    parts = mc.LDSs(
        transition[None], np.tile(rng.normal(size=(3, 2)), (1, regimes, 1, 1)), process[None],
        np.tile(0.02 * np.eye(3), (1, regimes, 1, 1)), np.zeros((1, regimes, 2)),
        np.tile(np.eye(2), (1, regimes, 1, 1)), state_offset=offset[None],
    )  # fmt: skip
    stay = 0.97
    moves = stay * np.eye(regimes) + (1 - stay) / (regimes - 1) * (1 - np.eye(regimes))
    model = mc.models.SwitchingLDSs(np.full((1, regimes), 1 / regimes), moves[None], parts)
    series, truth = model.sample(length, size, random_state=seed, return_regimes=True)
    cut = [length - 7 * i for i in range(size)]  # of different lengths
    return [x[:n] for x, n in zip(series[0], cut, strict=True)], [q[:n] for q, n in zip(truth[0], cut, strict=True)]


def goal_of(estimator, X):
    """Return the objective without a prior of other data, and the data of one model of all series."""
    series = mc.Sequences(X)
    context = estimator._bare_context(series)
    data = Data(series.values, series.offsets, np.zeros(len(series), int), 1)
    return estimator._goal(context, estimator._weak(context), 1.0), data


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "regimes"), [("speed", 2), ("level", 3)])
def test_regimes_that_can_be_told_apart_are_found(kind, regimes):
    X, truth = made(kind, regimes)
    X[1][10:14] = np.nan
    X[0][20, 1] = np.nan
    fitted = mc.SwitchingLDS(regimes, 2, n_iter=8, tol=0).fit(X)
    found = fitted.model_.regime_probabilities(X, n_paths=16).states.argmax(axis=1)
    assert adjusted_rand_score(np.concatenate(truth), found) >= 0.8
    paths, _ = fitted.model_.viterbi(X)
    assert adjusted_rand_score(np.concatenate(truth), np.concatenate(paths)) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_three_levels_of_noise_are_found(seed):
    X, truth = made("noise", 3, seed)
    model = mc.SwitchingLDS(3, 2, tol=1e-3).fit(X).model_
    found = model.regime_probabilities(X, n_paths=16).states.argmax(axis=1)
    assert adjusted_rand_score(np.concatenate(truth), found) >= 0.8  # the model that made them reaches 0.96 to 1


def test_with_all_paths_the_objective_never_decreases():
    X, _ = made("speed", 2, length=8, size=2)
    X[0][5:8, 0] = np.nan
    estimator = mc.SwitchingLDS(2, 2, n_paths=256, prior=None)
    goal, data = goal_of(estimator, X)
    models, values = goal.admitted(switching(1, 1, 2, 2, 3)), []
    for _ in range(8):
        found, memory = goal.expect(models, data)
        values.append(found.log_prob.sum() + goal.log_prior(models)[0])
        models = goal.maximize(models, data, found, memory)
    assert np.diff(values).min() > -1e-4
    assert values[-1] - values[0] > 2


def test_with_all_paths_the_objective_is_the_log_probability():
    X, _ = made("level", 2, length=4, size=1)
    estimator = mc.SwitchingLDS(2, 2, n_paths=16, floor=0.0, prior=None)
    goal, data = goal_of(estimator, X)
    model = switching(0, 1, 2, 2, 3)
    found, moments = goal.expect(model, data)
    every, logs = enumerated(model, X[0])
    np.testing.assert_allclose(found.log_prob, logsumexp(logs), rtol=1e-9)
    weights = np.exp(logs - logsumexp(logs))
    np.testing.assert_allclose(moments.first[0], [weights[every[:, 0] == k].sum() for k in (0, 1)], atol=1e-4)
    moves = [[(weights[:, None] * ((every[:, :-1] == j) & (every[:, 1:] == k))).sum() for k in (0, 1)] for j in (0, 1)]
    np.testing.assert_allclose(moments.moves[0], moves, atol=1e-4)


def test_one_regime_is_the_linear_dynamical_system():
    X, _ = made("speed", 2, length=40, size=2)
    goal, data = goal_of(mc.SwitchingLDS(1, 2, floor=1e-3), X)
    goal, begin = goal._replace(strength=0.0), switching(0, 1, 1, 2, 3)
    one = em_batch(goal, data, goal.admitted(begin), 5, 0.0)
    single = goal.system
    plain = em_batch(single, data, single.admitted(begin.systems[:, 0]), 5, 0.0)
    np.testing.assert_allclose(one.history, plain.history, rtol=1e-10)
    np.testing.assert_allclose(one.models.log_prob(X), plain.models.log_prob(X), rtol=1e-10)


@pytest.mark.slow
def test_models_of_series_are_shrunk_to_the_pooled_one():
    X, truth = made("level", 3, length=60, size=3)
    estimator = mc.SwitchingLDS(3, 2, n_init=2, n_iter=4, tol=0)
    models, info = estimator.fit_each(X, return_info=True)
    assert models.shape == (3,)
    assert info.objective.shape == (3,)
    pooled = estimator.context(estimator.accept(X)).pooled
    far = clone(estimator).set_params(prior_strength=1e7, prior=pooled).fit_each(X)
    for name in ("transition", "emission", "process_covariance"):
        expected = np.repeat(np.asarray(getattr(pooled.systems, name)), 3, axis=0)
        np.testing.assert_allclose(getattr(far.systems, name), expected, atol=1e-3)
    found = models.regime_probabilities(X, n_paths=16).states.argmax(axis=1)
    assert adjusted_rand_score(np.concatenate(truth), found) >= 0.8  # regimes mean the same in all models
    assert mc.kernels.SwitchingProduct(estimator, length=5, n_paths=8)(X).shape == (3, 3)


@pytest.mark.slow
def test_hard_data_end_in_finite_models():
    rng = np.random.default_rng(0)
    constant = np.zeros((20, 2))
    constant[:, 0] = rng.normal(size=20)
    for X in ([np.round(rng.normal(size=(12, 2)))], [constant], [rng.normal(size=(5, 1)), rng.normal(size=(1, 1))]):
        model = mc.SwitchingLDS(3, 2, n_init=1, n_iter=5, tol=0).fit(X).model_
        assert all(np.isfinite(getattr(model.systems, name)).all() for name in model.systems._arrays)
        assert np.isfinite(model.log_prob(X, n_particles=4)).all()


@pytest.mark.slow
def test_converged_models_stop():
    X, _ = made("level", 2, length=25, size=2)
    estimator = mc.SwitchingLDS(2, 1, prior=None, n_iter=200, n_init=1)
    goal, data = goal_of(estimator, X)
    data = Data(data.x, data.offsets, np.arange(2), 2)
    found = em_batch(goal, data, switching(0, 2, 2, 1, 3), 200, 1e-2)
    assert found.converged.all()


def test_the_number_of_paths_of_long_series_may_exceed_floats():
    rng = np.random.default_rng(0)
    walks = mc.LDSs(*(np.array([part] * 3) for part in ([[0.9]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])))
    init = mc.models.SwitchingLDSs(np.full((1, 3), 1 / 3), np.full((1, 3, 3), 1 / 3), walks.reshape(1, 3))
    x = rng.normal(size=(700, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = mc.SwitchingLDS(3, 1, init=init, prior=None, n_paths=3, n_iter=2, tol=0).fit([x]).model_
        assert np.isfinite(mc.kernels.SwitchingProduct(length=700, n_paths=2)(found)).all()


def test_messages():
    X, _ = made("level", 2, length=20, size=2)
    with pytest.raises(ValueError, match="n_regimes must be"):
        mc.SwitchingLDS(0).fit(X)
    with pytest.raises(ValueError, match="init must be"):
        mc.SwitchingLDS(init=mc.LDS(2).fit(X).model_).fit(X)
    with pytest.raises(ValueError, match="too few"):
        mc.SwitchingLDS(2, 4, prior=None).fit([np.zeros((3, 1))])
    with pytest.raises(ValueError, match="n_regimes"):
        mc.SwitchingLDS(3, 2, prior=switching(0, 1, 2, 2, 3)).fit_each(X)
    with pytest.raises(ValueError, match="all NaN"):
        mc.SwitchingLDS(2).fit([np.full((9, 1), np.nan)])
    with pytest.raises(TypeError, match="symbols"):
        mc.SwitchingLDS(2).fit(["abc"])
