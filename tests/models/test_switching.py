"""Switching linear dynamical systems against sums over all regime paths of dense joint distributions."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from tests.models.test_lds import gappy, systems

import mercer as mc
from mercer.models._switching import hypotheses as likelihood
from mercer.models._switching.hypotheses import unbiased


def switching(seed, size=2, k=2, n=2, d=2, **options):
    rng = np.random.default_rng(seed)
    parts = systems(seed, size * k, n, d, **options).reshape(size, k)
    return mc.models.SwitchingLDSs(rng.dirichlet(np.ones(k), size), rng.dirichlet(np.ones(k), (size, k)), parts)


def path_joint(model, path):
    """Mean and covariance of all observations of a batch of one model, given its regimes."""
    names = list(model.systems._arrays)[:8]
    a, c, q, r, mu, s, b, offset = (np.asarray(getattr(model.systems, name))[0] for name in names)
    n, length = a.shape[-1], len(path)
    mean, spread = np.zeros((length, n), a.dtype), np.zeros((length, n, length, n), a.dtype)
    for t, k in enumerate(path):
        mean[t] = a[k] @ mean[t - 1] + b[k] if t else mu[k]
        spread[t, :, t] = a[k] @ spread[t - 1, :, t - 1] @ a[k].T + q[k] if t else s[k]
        for u in range(t):
            spread[t, :, u] = a[k] @ spread[t - 1, :, u]
            spread[u, :, t] = spread[t, :, u].T
    emit = np.zeros((length, c.shape[1], length, n), a.dtype)
    noise = np.zeros((length, c.shape[1], length, c.shape[1]), a.dtype)
    for t, k in enumerate(path):
        emit[t, :, t], noise[t, :, t] = c[k], r[k]
    size = length * c.shape[1]
    emit, spread = emit.reshape(size, -1), spread.reshape(length * n, -1)
    center = emit @ mean.ravel() + np.concatenate([offset[k] for k in path])
    return center, emit @ spread @ emit.T + noise.reshape(size, size)


def path_probability(model, path):
    first, step = np.asarray(model.initial)[0], np.asarray(model.transition)[0]
    return first[path[0]] * np.prod([step[j, k] for j, k in pairwise(path)])


def enumerated(model, x):
    """All paths, and their log probabilities together with a series."""
    paths, logs = list(product(range(model.initial.shape[-1]), repeat=len(x))), []
    seen = np.isfinite(x.ravel())
    for path in paths:
        mean, covariance = path_joint(model, path)
        gaussian = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]) if seen.any() else None
        logs.append(np.log(path_probability(model, path)) + (gaussian.logpdf(x.ravel()[seen]) if gaussian else 0.0))
    return np.array(paths), np.array(logs)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.4, 1.0]), st.integers(0, 99))
def test_probabilities_and_regimes_are_sums_over_all_paths(k, n, d, share, seed):
    X = gappy(seed, [3, 1, 4], d, share)
    models = switching(seed, 3, k, n, d)
    table, posterior = models.log_prob(X), models.regime_probabilities(X)
    paths, value = models.viterbi(X)
    for i, x in enumerate(X):
        every, logs = enumerated(models[i : i + 1], x)
        np.testing.assert_allclose(table[i, i], logsumexp(logs), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(posterior.log_prob[i], logsumexp(logs), rtol=1e-9, atol=1e-9)
        weights = np.exp(logs - logsumexp(logs))
        expected = [[weights[every[:, t] == j].sum() for j in range(k)] for t in range(len(x))]
        np.testing.assert_allclose(posterior[i], expected, atol=1e-9)
        np.testing.assert_allclose(value[i], logs.max(), rtol=1e-9, atol=1e-9)
        assert logs[np.flatnonzero((every == paths[i]).all(axis=1))[0]] > logs.max() - 1e-9


def test_particles_are_unbiased_and_exact_where_all_paths_fit(monkeypatch):
    models = switching(0, 3, 3)
    X = list(models.sample(6, 1, random_state=1)[:, 0])
    X[1][2, 0] = np.nan
    exact = models.log_prob(X)
    monkeypatch.setattr(likelihood, "FEW", 1)
    found = models.log_prob(X, n_particles=160)
    assert np.abs(found - exact).max() < 0.1
    assert (found != exact).any()
    seeds = [models.log_prob(X, n_particles=4, random_state=i) for i in range(100)]
    ratios = np.exp(np.stack(seeds) - exact)  # of any series under any model: unbiased
    assert np.abs(ratios.mean(axis=0) - 1).max() < 5 * (ratios.std(axis=0) / 10).max()
    again = models[1:].log_prob(X[2:3], n_particles=160)
    np.testing.assert_array_equal(again, found[1:, 2:3])  # whatever else there is
    np.testing.assert_allclose(models.log_prob(X, n_particles=3**6), exact, rtol=1e-10)


def test_long_series_are_estimated():
    models = switching(3, 1, 2)
    X = models.sample(60, 2, random_state=0)[0]
    few, many = (
        np.stack([models.log_prob(X, n_particles=count, random_state=i) for i in range(8)]) for count in (16, 256)
    )
    assert (np.abs(few.mean(axis=0) - many.mean(axis=0)) < 4 * few.std(axis=0)).all()
    assert (many.std(axis=0) < few.std(axis=0)).all()


def test_random_selections_are_unbiased():
    rng = np.random.default_rng(0)
    weights = np.log(rng.dirichlet(np.full(12, 0.5), 2))
    weights[0, 3] = -np.inf
    total = np.zeros((2, 12))
    for uniform in rng.random(20_000):
        picked, found = unbiased(np.array([uniform]))(weights, 5, 0)
        np.add.at(total, (np.arange(2)[:, None], picked), np.exp(found))
        assert all(len(set(row)) == 5 for row in picked.tolist())
    np.testing.assert_allclose(total / 20_000, np.exp(weights), atol=0.01)


def test_regimes_of_particles_are_about_the_exact_ones(monkeypatch):
    models = switching(1, 1, 3)
    X = list(models.sample(6, 4, random_state=2)[0])
    X[2][1:3] = np.nan
    exact = models.regime_probabilities(X).states
    monkeypatch.setattr(likelihood, "FEW", 1)
    found = models.regime_probabilities(X, n_paths=64)
    np.testing.assert_allclose(found.states.sum(axis=1), 1.0)
    assert np.abs(found.states - exact).max() < 0.06


def test_one_regime_is_the_linear_dynamical_system():
    plain = systems(0, 3, 2, 2)
    models = mc.models.SwitchingLDSs(np.ones((3, 1)), np.ones((3, 1, 1)), plain.reshape(3, 1))
    X = gappy(0, [50, 3, 20], 2)
    np.testing.assert_allclose(models.log_prob(X), plain.log_prob(X), rtol=1e-12)
    np.testing.assert_array_equal(models.regime_probabilities(X).states, 1.0)
    for found, expected in zip(models.forecast(X, 4), plain.forecast(X, 4), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_equal_regimes_are_one():
    plain = systems(2, 2, 2, 2)
    both = mc.LDSs.concat([plain.reshape(2, 1), plain.reshape(2, 1)])[np.array([[0, 2], [1, 3]]), 0]
    models = mc.models.SwitchingLDSs([[0.3, 0.7]] * 2, [[[0.5, 0.5], [0.2, 0.8]]] * 2, both)
    X = gappy(0, [30, 7], 2)
    np.testing.assert_allclose(models.log_prob(X), plain.log_prob(X), rtol=1e-10)
    for found, expected in zip(models.forecast(X, 3), plain.forecast(X, 3), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_forecasts_have_the_moments_of_samples_and_of_empty_series():
    models = switching(5, 1, 2, 2, 1)
    means, covariances = models.forecast([np.empty((0, 1))], 3)
    drawn = models.sample(3, 200_000, random_state=0)[0, :, :, 0]
    np.testing.assert_allclose(means[0, :, 0], drawn.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(covariances[0, :, 0, 0], drawn.var(axis=0), rtol=0.05)


def test_samples_follow_the_chain():
    models = switching(0, 2, 3)
    series, regimes = models.sample(4, 50_000, random_state=0, return_regimes=True)
    assert series.shape == (2, 50_000, 4, 2)
    for i in range(2):
        counts = np.array([np.mean(regimes[i, :, 0] == k) for k in range(3)])
        np.testing.assert_allclose(counts, np.asarray(models.initial)[i], atol=0.01)
        after = np.array([np.mean(regimes[i, regimes[i, :, 2] == 1, 3] == k) for k in range(3)])
        np.testing.assert_allclose(after, np.asarray(models.transition)[i, 1], atol=0.02)
    np.testing.assert_array_equal(models.sample(4, 3, random_state=7), models.sample(4, 3, random_state=7))


def test_changes_of_the_state_and_of_the_order_of_regimes_change_no_probability():
    models, X = switching(4, 1, 2), gappy(4, [5, 2], 2)
    turn = np.array([[1.0, 0.5], [-0.3, 2.0]])
    back, parts = np.linalg.inv(turn), models.systems
    other = mc.LDSs(
        turn @ parts.transition @ back, parts.emission @ back, turn @ parts.process_covariance @ turn.T,
        parts.observation_covariance, parts.initial_mean @ turn.T, turn @ parts.initial_covariance @ turn.T,
        state_offset=parts.state_offset @ turn.T, observation_offset=parts.observation_offset,
    )  # fmt: skip
    for changed in (
        mc.models.SwitchingLDSs(models.initial, models.transition, other),
        mc.models.SwitchingLDSs(models.initial[:, ::-1], models.transition[:, ::-1, ::-1], parts[:, ::-1]),
    ):
        np.testing.assert_allclose(changed.log_prob(X), models.log_prob(X), rtol=1e-9)


def test_diffuse_starts_cost_as_many_digits_as_in_the_linear_dynamical_system():
    plain = systems(2, 1, 3, 1)._replaced(initial_covariance=1e14 * np.eye(3)[None])
    model, x = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], plain.reshape(1, 1)), np.zeros((9, 1))
    for one in (plain, model):
        with pytest.warns(UserWarning, match="Fewer than eight digits of the results may be left: initial_covariance"):
            one.log_prob([x])


def test_messages():
    models, one = switching(0, 1), systems(0, 1)
    half, step = [[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]]
    with pytest.raises(TypeError, match="must be LDSs"):
        mc.models.SwitchingLDSs(half, step, mc.Poissons([[1.0]]))
    with pytest.raises(ValueError, match=r"shape \(1, 2\); got \(1,\)"):
        mc.models.SwitchingLDSs(half, step, one)
    with pytest.raises(ValueError, match="transition must have shape"):
        mc.models.SwitchingLDSs(half, [[[1.0]]], models.systems)
    with pytest.raises(ValueError, match="sums to"):
        mc.models.SwitchingLDSs([[0.5, 0.6]], step, models.systems)
    with pytest.raises(ValueError, match="got 0"):
        models.log_prob(np.zeros((1, 4, 2)), n_particles=0)
    with pytest.raises(ValueError, match="steps must be"):
        models.forecast(np.zeros((1, 4, 2)), 0)
    with pytest.raises(ValueError, match="2 coordinates"):
        models.log_prob(np.zeros((1, 4, 3)))
    flat = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.0]]], [[[0.0]]], [[0.0]],
                                                        [[[0.0]]]).reshape(1, 1))  # fmt: skip
    with pytest.raises(ValueError, match="no density"):
        flat.log_prob([[1.0, 2.0]])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("n", "d", "length"), [(1, 2, 3), pytest.param(3, 1, 7, marks=pytest.mark.slow)])
def test_the_number_of_parameters_is_the_rank_of_the_joint_distributions(n, d, length, shared):
    """How many directions of the parameters change the mean or the covariance of a series given some path."""
    model, step = switching(0, 1, 2, n, d), 1e-5
    fields = {name: np.array(getattr(model.systems, name)) for name in list(model.systems._arrays)[:8]}
    common = ("emission", "observation_offset", "observation_covariance") if shared else ()
    fields |= {name: np.repeat(fields[name][:, :1], 2, axis=1) for name in common}
    paths = list(product(range(2), repeat=length))[:: 3 if length < 4 else 13]

    def of(changed):
        return mc.models.SwitchingLDSs(model.initial, model.transition, mc.LDSs(**changed))

    def moments(changed):
        return np.concatenate([part.ravel() for path in paths for part in path_joint(of(changed), path)])

    rows = []
    for name, value in fields.items():
        for regimes, place in product([slice(None)] if name in common else [0, 1], np.ndindex(value.shape[2:])):
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[(0, regimes, *place)] += sign * step
                if "covariance" in name and place[0] != place[1]:
                    moved[(0, regimes, *place[::-1])] += sign * step
                sides.append(moments({**fields, name: moved}))
            rows.append((sides[0] - sides[1]) / (2 * step))
    rank = np.linalg.matrix_rank(np.array(rows), rtol=1e-7)
    assert of(fields).n_parameters.tolist() == [3 + rank]  # and those of the chain
