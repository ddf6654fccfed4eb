"""Switching linear dynamical systems against sums over all regime paths of dense joint distributions."""

from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
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


def test_particles_are_within_their_standard_errors_and_exact_where_all_paths_fit():
    models = switching(0, 3, 3)
    X = list(models.sample(6, 1, random_state=1)[:, 0])
    X[1][2, 0] = np.nan
    exact = models.log_prob(X, method="exact")
    found = models.log_prob_estimate(X, method="particles", n_particles=20)
    assert (found.standard_error > 0).all()
    own = np.diag(np.abs(found.log_prob - exact) < 4 * found.standard_error)
    assert own.all()
    assert np.abs(found.log_prob - exact).max() < 0.1
    seeds = [models.log_prob(X, method="particles", n_particles=4, random_state=i) for i in range(100)]
    ratios = np.exp(np.stack(seeds) - exact)  # of any series under any model: unbiased
    assert np.abs(ratios.mean(axis=0) - 1).max() < 5 * (ratios.std(axis=0) / 10).max()
    again = models[1:].log_prob_estimate(X[2:3], method="particles", n_particles=20)
    np.testing.assert_array_equal(again.log_prob, found.log_prob[1:, 2:3])  # whatever else there is
    whole = models.log_prob_estimate(X, method="particles", n_particles=3**6)
    np.testing.assert_allclose(whole.log_prob, exact, rtol=1e-10)
    np.testing.assert_allclose(whole.standard_error, 0.0, atol=1e-12)
    assert (models.log_prob_estimate(X).standard_error == 0).all()


def test_long_series_are_estimated():
    models = switching(3, 1, 2)
    X = models.sample(60, 2, random_state=0)[0]
    few, many = (models.log_prob_estimate(X, n_particles=count, random_state=count) for count in (16, 128))
    both = np.hypot(few.standard_error, many.standard_error)
    assert (np.abs(few.log_prob - many.log_prob) < 4 * both).all()
    assert (many.standard_error < few.standard_error).all()


def test_random_selections_are_unbiased():
    rng = np.random.default_rng(0)
    weights = np.tile(np.log(rng.dirichlet(np.full(12, 0.5))), (20_000, 1))
    weights[:, 3] = -np.inf
    select = unbiased(rng.random((1, 20_000)), np.arange(20_000))
    picked, found = select(weights, 5, 0, np.arange(20_000))
    total = np.zeros(12)
    np.add.at(total, picked.ravel(), np.exp(found).ravel())
    np.testing.assert_allclose(total / 20_000, np.exp(weights[0]), atol=0.01)
    assert all(len(set(row)) == 5 for row in picked[:50].tolist())


def test_regimes_of_paths_drawn_backwards_are_about_the_exact_ones(monkeypatch):
    models = switching(1, 1, 3)
    X = list(models.sample(6, 4, random_state=2)[0])
    X[2][1:3] = np.nan
    exact = models.regime_probabilities(X).states
    monkeypatch.setattr(likelihood, "FEW", 1)
    found = models.regime_probabilities(X, n_paths=1000)
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


def test_models_of_different_sizes_are_padded():
    small, large = switching(0, 2, 2, 1, 2), switching(1, 1, 3, 3, 2)
    both = mc.models.SwitchingLDSs.concat([small, large])
    X = gappy(0, [4, 6], 2)
    assert both.n_regimes.tolist() == [2, 2, 3]
    np.testing.assert_allclose(both.log_prob(X), np.concatenate([small.log_prob(X), large.log_prob(X)]), rtol=1e-10)
    particles = both.log_prob(X, method="particles", n_particles=10)
    np.testing.assert_allclose(particles[:2], small.log_prob(X, method="particles", n_particles=10), rtol=1e-10)
    assert both.n_parameters.tolist() == [*small.n_parameters, *large.n_parameters]


def moved(model, name, place, step, parametrization):
    """One of the parameters of a batch of one model, changed by a step; those of probabilities keep their sum."""
    fields = {field: np.array(getattr(model, field)) for field in ("initial", "transition")}
    if name.startswith("chain."):
        value = fields[name[6:]][(0, *place[:-1])]
        if parametrization == "logit":
            value[:] = value * np.exp(step * (np.arange(len(value)) == place[-1]))
        else:
            value[place[-1]] += step
        value /= value.sum()
        return mc.models.SwitchingLDSs(**fields, systems=model.systems)
    parts = {field: np.array(getattr(model.systems, field)) for field in list(model.systems._arrays)[:8]}
    parts[name][(0, *place)] += step
    if "covariance" in name and place[1] != place[2]:
        parts[name][(0, place[0], place[2], place[1])] += step
    return mc.models.SwitchingLDSs(**fields, systems=mc.LDSs(**parts))


@pytest.mark.slow
@pytest.mark.parametrize("parametrization", ["logit", "weight"])
def test_scores_are_derivatives_of_the_log_probability(parametrization):
    model, X = switching(1, 1, 2, 2, 2), gappy(1, [4, 1, 0, 3], 2, 0.2)
    X[0][2] = np.nan
    scores = dict(zip(model.score_names(), model.sequence_scores(X, parametrization)[0].T, strict=True))
    step, seen = 1e-5, 0
    names = [("chain.initial", model.initial), ("chain.transition", model.transition)]
    names += [(name, getattr(model.systems, name)) for name in list(model.systems._arrays)[:8]]
    for name, value in names:
        for place in np.ndindex(np.shape(value)[1:]):
            if "covariance" in name and place[1] > place[2]:
                continue
            sides = [
                moved(model, name, place, sign * step, parametrization).log_prob(X, "exact")[0] for sign in (1, -1)
            ]
            slope = (sides[0] - sides[1]) / (2 * step)
            if "covariance" in name and place[1] != place[2]:
                slope = slope / np.sqrt(2)
            own = name.startswith("chain.")
            inner = ", ".join(map(str, place if own else place[1:]))
            label = f"{name[6:]}[{inner}]" if own else f"systems[{place[0]}].{name}[{inner}]"
            np.testing.assert_allclose(scores[label], slope, rtol=1e-5, atol=1e-6, err_msg=label)
            seen += 1
    assert seen == len(scores)


def test_scores_of_long_series_are_averages_over_drawn_paths(monkeypatch):
    models = switching(1, 2, 3)
    X = list(models[:1].sample(6, 3, random_state=2)[0])
    exact = models.sequence_scores(X)
    monkeypatch.setattr(likelihood, "FEW", 1)
    found = models.sequence_scores(X, n_paths=400)
    np.testing.assert_allclose(found, exact, atol=0.1 * np.abs(exact).max())
    short = models.sequence_scores([X[0][:3], X[1]])
    np.testing.assert_array_equal(models.sequence_scores([X[0][:3]])[:, 0], short[:, 0])  # whatever else there is


NOISES = [1.0, 1e-4, 1e-8, 1e-12, 1e-16, 0.0, None]
"""Variances of the second shock of the state, where the first one has variance 1; None: there is no shock."""


def shocks(rng, k, least):
    """Covariances in directions that are drawn at random, some singular."""
    turned = np.linalg.qr(rng.normal(size=(k, 2, 2)))[0]
    return turned * ([0.0, 0.0] if least is None else [1.0, least]) @ turned.swapaxes(1, 2)


@pytest.mark.parametrize("least", NOISES)
def test_one_regime_has_the_scores_of_the_linear_dynamical_system(least):
    rng = np.random.default_rng(0)
    for first in (np.eye(2), np.ones((2, 2)), np.zeros((2, 2))):
        plain, X = systems(0, 2, 2, 2), gappy(0, [40, 3, 20], 2)
        plain = plain._replaced(process_covariance=shocks(rng, 2, least), initial_covariance=np.tile(first, (2, 1, 1)))
        models = mc.models.SwitchingLDSs(np.ones((2, 1)), np.ones((2, 1, 1)), plain.reshape(2, 1))
        scores, truth = models.sequence_scores(X), plain.sequence_scores(X)
        np.testing.assert_allclose(scores[..., 2:], truth, rtol=1e-10, atol=1e-10 * np.abs(truth).max())
        np.testing.assert_array_equal(scores[..., :2], 0.0)


@pytest.mark.parametrize("least", NOISES)
def test_scores_of_singular_regimes_are_sums_over_paths_of_derivatives(least):
    """Against derivatives along the imaginary axis, which lose no digits, of the dense densities of all paths."""
    rng, model = np.random.default_rng(1), switching(1, 1, 2, 2, 2)
    own = {"process_covariance": shocks(rng, 2, least)[None], "initial_covariance": shocks(rng, 2, least)[None]}
    model = mc.models.SwitchingLDSs(model.initial, model.transition, model.systems._replaced(**own))
    x = gappy(1, [4], 2, 0.2)[0]
    scores = dict(zip(model.score_names(), model.sequence_scores([x])[0, 0], strict=True))
    paths, logs = enumerated(model, x)
    share = np.exp(logs - logsumexp(logs))
    seen, step, scale = np.isfinite(x.ravel()), 1e-30, max(map(abs, scores.values()))
    for name in list(model.systems._arrays)[:8]:
        value = np.asarray(getattr(model.systems, name))
        for place in np.ndindex(value.shape[1:]):
            if "covariance" in name and place[1] > place[2]:
                continue
            parts = {field: np.array(getattr(model.systems, field), complex) for field in list(model.systems._arrays)}
            parts[name][(0, *place)] += step * 1j
            factor = 1.0
            if "covariance" in name and place[1] != place[2]:
                parts[name][(0, place[0], place[2], place[1])] += step * 1j
                factor = np.sqrt(0.5)
            changed = SimpleNamespace(systems=SimpleNamespace(**parts, _arrays=model.systems._arrays))
            slope = 0.0
            for path, weight in zip(paths, share, strict=True):
                mean, covariance = path_joint(changed, path)
                away, inner = (x.ravel() - mean)[seen], covariance[np.ix_(seen, seen)]
                log = -0.5 * (away @ np.linalg.solve(inner, away) + np.log(np.linalg.det(inner)))
                slope += weight * factor * log.imag / step
            label = f"systems[{place[0]}].{name}[{', '.join(map(str, place[1:]))}]"
            np.testing.assert_allclose(scores[label], slope, rtol=1e-9, atol=1e-11 * scale, err_msg=label)


def test_what_is_made_of_scores_accepts_singular_regimes():
    """One regime without noise of the level, a smooth trend, gives what the linear dynamical system gives."""
    plain = mc.LDSs(
        [[[1.0, 1.0], [0.0, 1.0]]], [[[1.0, 0.0]]], [[[0.0, 0.0], [0.0, 0.01]]], [[[1.0]]], [[0.0, 0.0]],
        [np.ones((2, 2))],
    )  # fmt: skip
    model = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], plain.reshape(1, 1))
    X, y = list(plain.sample(8, 12, random_state=0)[0]), np.repeat([0, 1], 6)
    kernels, shares = [], []
    for one in (plain, model):
        pipeline = make_pipeline(mc.Fisher(one, information="identity"), SVC(kernel="precomputed")).fit(X, y)
        kernels.append(pipeline[0](X))
        shares.append(np.concatenate(mc.explain(pipeline, X[:2]).contributions))
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-9)
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-8)
    two = mc.models.SwitchingLDSs(
        [[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], plain[[0, 0]]._replaced(initial_mean=np.eye(2)).reshape(1, 2)
    )
    found = mc.stats.goodness_of_fit(two, list(two.sample(4, 12, random_state=0)[0]), n_simulations=19)
    assert found.p_value > 0.05
    assert np.isfinite(list(found.deviations.values())).all()


def test_diffuse_starts_cost_as_many_digits_as_in_the_linear_dynamical_system():
    plain = systems(2, 1, 3, 1)._replaced(initial_covariance=1e14 * np.eye(3)[None])
    model, x = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], plain.reshape(1, 1)), np.zeros((9, 1))
    for one in (plain, model):
        with pytest.warns(UserWarning, match="digits of the results are left: initial_covariance"):
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
    with pytest.raises(ValueError, match="n_regimes"):
        mc.models.SwitchingLDSs(half, step, models.systems, n_regimes=[1])
    with pytest.raises(ValueError, match="method='particles'"):
        models.log_prob(np.zeros((1, 40, 2)), method="exact")
    with pytest.raises(ValueError, match="got 'both'"):
        models.log_prob(np.zeros((1, 4, 2)), method="both")
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
    with pytest.raises(ValueError, match="got 'raw'"):
        models.sequence_scores(np.zeros((1, 4, 2)), "raw")
    with pytest.raises(ValueError, match="n_paths must be"):
        models.sequence_scores(np.zeros((1, 4, 2)), n_paths=0)
