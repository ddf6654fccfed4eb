"""Fits of linear dynamical systems: EM, gaps are marginalized, priors shrink, fixed parameters stay."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.models.test_lds import systems

import mercer as mc
from mercer.models._dynamics import em
from mercer.models._fitting.data import Data


def series(seed=0, count=12, gaps=0.3, d=2):
    """Series of one system, of different lengths, with missing entries."""
    rng = np.random.default_rng(seed)
    drawn = systems(seed, 1, 2, d).sample(60, count, random_state=seed)[0]
    drawn = [x[: rng.integers(25, 60)] for x in drawn]
    return [np.where(rng.random(x.shape) < gaps, np.nan, x) for x in drawn]


def objectives(estimator, X, steps):
    """Objective of every model before each of the numbers of iterations in ``steps``."""
    found = []
    for n_iter in steps:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator = clone(estimator).set_params(n_iter=n_iter, tol=0.0)
            _, info = estimator.fit_each(X, context=clone(estimator).set_params(n_iter=20).context(mc.Sequences(X)),
                                         return_info=True)  # fmt: skip
        found.append(info.objective)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize(
    "estimator",
    [
        mc.LDS(2, prior=None, noise="full", n_init=1),
        mc.LDS(2, prior=None, noise="isotropic", n_init=1, fixed={"transition": [[0.9, np.nan], [0.0, np.nan]]}),
        mc.LDS(3, prior="pooled", noise="diagonal", n_init=1, prior_strength=5.0),
        mc.LDS(
            2,
            prior="pooled",
            n_init=1,
            fixed={
                "transition": [[np.nan, np.nan], [1.0, 0.0]],
                "process_covariance": [[1.0, 0.0], [0.0, 0.0]],
            },
        ),
    ],
    ids=["likelihood", "fixed", "pooled", "singular"],
)
def test_the_objective_never_falls(estimator, gaps):
    found = objectives(estimator, series(gaps=gaps, count=5), range(1, 15))
    assert (np.diff(found, axis=0) > -1e-8 * np.abs(found[:-1])).all()
    assert (found[-1] > found[0]).all()


def test_the_m_step_is_a_maximum_of_the_expected_objective():
    """At the new parameters, small changes lower the log probability of data completed by the E-step."""
    model = systems(1, 1, 2, 2)
    x = model.sample(300, 1, random_state=0)[0, 0]
    data = Data(x, np.array([0, 300]), np.array([0]), 1)
    zero = np.zeros(2)
    goal = em.LDSGoal("full", {}, (zero, zero, zero), None, 0.0)
    found, memory = goal.expect(model, data)
    new = goal.maximize(model, data, found, memory)
    states = model.posterior([x])
    m, v, lag = states.means, states.covariances, states.lags
    second = v + m[:, :, None] * m[:, None, :]
    cross = np.swapaxes(lag[:-1], 1, 2) + m[:-1, :, None] * m[1:, None, :]  # E[s_t s_{t+1}']
    # Ordinary least squares on the smoothed moments (EST-3).
    moment = np.zeros((3, 3))
    moment[:2, :2], moment[:2, 2], moment[2, :2] = second[:-1].sum(axis=0), m[:-1].sum(axis=0), m[:-1].sum(axis=0)
    moment[2, 2] = 299
    target = np.concatenate([cross.sum(axis=0), m[1:].sum(axis=0)[None]])
    coefficients = np.linalg.solve(moment, target).T
    np.testing.assert_allclose(new.transition[0], coefficients[:, :2], rtol=1e-8)
    np.testing.assert_allclose(new.state_offset[0], coefficients[:, 2], rtol=1e-7)
    noise = (second[1:].sum(axis=0) - coefficients @ target) / 299
    np.testing.assert_allclose(new.process_covariance[0], noise, rtol=1e-7)
    moment[:2, :2], moment[:2, 2], moment[2, :2], moment[2, 2] = second.sum(axis=0), m.sum(axis=0), m.sum(axis=0), 300
    target = np.concatenate([m.T @ x, x.sum(axis=0)[None]])
    coefficients = np.linalg.solve(moment, target).T
    np.testing.assert_allclose(new.emission[0], coefficients[:, :2], rtol=1e-8)
    np.testing.assert_allclose(new.observation_covariance[0], (x.T @ x - coefficients @ target) / 300, rtol=1e-7)
    np.testing.assert_allclose(new.initial_mean[0], m[0], rtol=1e-10)
    np.testing.assert_allclose(new.initial_covariance[0], v[0], rtol=1e-8)


def test_a_system_is_recovered_from_data_with_gaps():
    X = series(seed=1, count=60)
    true = systems(1, 1, 2, 2)
    fitted = mc.LDS(2, noise="full").fit(X)
    held_out = true.sample(100, 20, random_state=9)[0]
    assert fitted.score(held_out) > true.log_prob(held_out).mean() - 2.0
    assert fitted.converged_


def test_a_strong_prior_gives_the_pooled_system_and_a_weak_one_the_likelihood():
    X = series(count=6, gaps=0.0)
    pooled = mc.LDS(2, prior_strength=1e9, n_init=1).fit(X)
    strong = pooled.fit_each(X)
    np.testing.assert_allclose(strong.transition, np.repeat(pooled.model_.transition, 6, axis=0), rtol=1e-5)
    own = [mc.LDS(2, prior_strength=s, n_init=1).fit(X).fit_each(X) for s in (0.0, 1.0, 100.0)]
    fits = [np.diag(models.log_prob(X)).sum() for models in own]
    assert fits[0] > fits[1] > fits[2]


def test_fixed_parameters_stay():
    X = series(count=4)
    emission = np.array([[1.0, 0.0], [np.nan, np.nan]])
    noise = 0.3 * np.eye(2)
    fixed = {"emission": emission, "observation_covariance": noise, "initial_mean": [0.0, np.nan]}
    models = mc.LDS(2, fixed=fixed, n_init=1).fit_each(X)
    np.testing.assert_array_equal(models.emission[:, 0], np.tile([1.0, 0.0], (4, 1)))
    np.testing.assert_array_equal(models.observation_covariance, np.tile(noise, (4, 1, 1)))
    np.testing.assert_array_equal(models.initial_mean[:, 0], 0.0)
    assert np.ptp(models.emission[:, 1]) > 0
    np.testing.assert_array_equal(models.state_offset, 0.0)
    learned = mc.LDS(2, fixed={"state_offset": None}, n_init=1).fit_each(X)
    assert np.abs(learned.state_offset).max() > 0


NAN = np.nan
TREND = {
    "transition": [[1.0, 1.0], [0.0, 1.0]], "emission": [[1.0, 0.0]], "observation_offset": [0.0],
    "process_covariance": [[0.0, 0.0], [0.0, 0.01]],
}  # fmt: skip
"""A smooth trend: the level has no noise of its own."""
FIRST = {"initial_covariance": np.eye(2), "initial_mean": [0.0, 0.0], "observation_offset": [0.0]}
TURN = [[0.9, 0.2], [-0.2, 0.9]]
SINGULAR = {
    "trend": TREND,
    "autoregression": FIRST | {
        "transition": [[NAN, NAN], [1.0, 0.0]], "emission": [[1.0, 0.0]], "process_covariance": [[1.0, 0.0], [0.0, 0.0]]
    },
    "one shock": FIRST | {"transition": TURN, "process_covariance": [[0.4, 0.2], [0.2, 0.1]]},
    "no shock": FIRST | {"transition": TURN, "process_covariance": np.zeros((2, 2))},
    "start": TREND | FIRST | {"initial_covariance": [[1.0, 1.0], [1.0, 1.0]]},
    "observation": FIRST | {
        "emission": [[1.0, 0.0]], "observation_covariance": [[0.0]], "process_covariance": np.eye(2),
        "transition": [[NAN, 0.2], [NAN, 0.9]],
    },
}  # fmt: skip


@pytest.mark.parametrize("fixed", SINGULAR.values(), ids=SINGULAR)
def test_a_fixed_covariance_may_be_singular(fixed):
    """EM increases the objective, and ends where the log probability has no slope in any parameter that is learned."""
    rng = np.random.default_rng(0)
    walks = np.cumsum(np.cumsum(0.1 * rng.normal(size=(8, 20)), axis=1) + rng.normal(size=(8, 20)), axis=1)
    X = list(walks + rng.normal(size=(8, 20)))
    estimator = mc.LDS(2, fixed=fixed, prior=None, floor=0.0, n_init=1, n_iter=1000, tol=1e-13)
    data = mc.Sequences(X)
    found = estimator._fit_together(data, estimator._bare_context(data))
    assert (np.diff(found.history[0]) > -1e-9).all()
    fields = {name: np.asarray(getattr(found.models, name)) for name in list(mc.LDSs._arrays)[:8]}
    step, seen = 1e-4, 0
    for name, value in fields.items():
        given = np.asarray(fixed.get(name, np.zeros(2) if name == "state_offset" else np.full(value.shape[1:], NAN)))
        np.testing.assert_array_equal(value[0][~np.isnan(given)], given[~np.isnan(given)])
        for place in np.argwhere(np.isnan(given)):
            change = np.zeros_like(value)
            change[(0, *place)] = step
            if "covariance" in name:
                change = np.maximum(change, change.swapaxes(1, 2))
            sides = [
                mc.LDSs._make(**{**fields, name: value + sign * change, "state_dims": np.array([2])})
                for sign in (1, 0, -1)
            ]
            up, middle, down = (one.log_prob(X).sum() for one in sides)
            slope, bend = (up - down) / (2 * step), abs(up - 2 * middle + down) / step**2
            assert abs(slope) < 1e-3 * max(bend, 1.0), (name, place, slope, bend)
            seen += 1
    assert seen > 0


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        ([np.full((5, 2), np.nan)], {}, "Channel 0 has no value"),
        ([np.zeros((2, 1))], {"prior": None, "state_dim": 3}, "2 observations, too few"),
        ([], {}, "X is empty; pass at least one sequence"),
        (["abc"], {}, "symbols"),
        ([np.zeros((9, 2))], {"fixed": {"emission": np.zeros((3, 2))}}, r"emission'\] must have shape \(2, 2\)"),
        ([np.zeros((9, 2))], {"fixed": {"speed": 1}}, "fixed must be"),
        ([np.zeros((9, 2))], {"fixed": {"process_covariance": np.full((2, 2), np.nan)}}, "without NaN"),
        ([np.zeros((9, 2))], {"fixed": {"process_covariance": np.zeros((2, 2))}}, "learn row 0 of transition.*Fix"),
        ([np.zeros((9, 2))], {"fixed": {"initial_covariance": np.diag([1.0, 0.0])}}, "learn row 1 of initial_mean"),
        ([np.zeros((9, 1))], {"fixed": TREND | {"observation_covariance": [[0.0]], "observation_offset": [np.nan]}},
         "learn row 0 of observation_offset"),
        ([np.zeros((9, 1))], {"fixed": TREND | {"process_covariance": -np.eye(2)}}, r"covariance'\] must be positive"),
        ([np.random.default_rng(0).normal(size=(9, 1))], {"fixed": TREND | {
            "observation_covariance": [[0.0]], "initial_covariance": np.zeros((2, 2)), "initial_mean": [0.0, 0.0],
        }}, r"observation_covariance'\] is singular, and the state does not vary"),
        ([np.zeros((9, 2))], {"noise": "white"}, "noise must be"),
        ([np.zeros((9, 2))], {"state_dim": 0}, "state_dim must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_is_named(X, parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mc.LDS(**parameters).fit(X)


def test_a_channel_that_does_not_vary_is_learned_with_a_floor_and_refused_without():
    x = np.random.default_rng(0).normal(size=(3, 40, 2))
    x[..., 1] = 7.0
    models = mc.LDS(1, n_init=1).fit_each(x)
    assert np.isfinite(models.log_prob(x)).all()
    with pytest.raises(ValueError, match="floor"):
        mc.LDS(1, floor=0.0, prior=None, n_init=1, n_iter=500, tol=0.0).fit(x)


def test_one_observation_gets_the_prior():
    X = [*series(count=5), np.array([[0.1, 0.2]]), np.empty((0, 2))]
    models = mc.LDS(2, n_init=1).fit_each(X)
    assert np.isfinite(models.transition).all()
    assert np.isfinite(mc.ProbabilityProduct(length=5)(models)).all()
