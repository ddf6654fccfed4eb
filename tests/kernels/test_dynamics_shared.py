"""Kernels of series under one shared linear dynamical system: LatentMeanMap, Fisher and TOP."""

import numpy as np
import pytest
from tests.models.test_lds import conditioned, gappy, systems

import mercer as mc


def whole(seed, lengths, d=2):
    return gappy(seed, lengths, d, share=0.0)


def latent(model, x, y, gamma, gamma_states):
    """The kernel of two series from the dense joint distribution, by sums over all pairs of steps."""
    sides = []
    for series in (x, y):
        _, mean, covariance = conditioned(model, series)
        n = len(mean) // len(series)
        blocks = covariance.reshape(len(series), n, len(series), n)
        sides.append([(series[t], mean[t * n : (t + 1) * n], blocks[t, :, t]) for t in range(len(series))])
    total = 0.0
    for u, m, v in sides[0]:
        for w, k, s in sides[1]:
            wide = np.eye(len(m)) + 2 * gamma_states * (v + s)
            states = np.exp(-gamma_states * (m - k) @ np.linalg.solve(wide, m - k)) / np.sqrt(np.linalg.det(wide))
            total += np.exp(-gamma * np.sum((u - w) ** 2)) * states
    return total / (len(x) * len(y))


@pytest.mark.parametrize("gamma_states", [None, 0.7])
def test_latent_mean_maps_are_sums_over_smoothed_states(gamma_states):
    model, X = systems(1, 1, 3, 2), whole(0, [4, 1, 6])
    kernel = mc.LatentMeanMap(model, gamma=0.3, gamma_states=gamma_states, normalize=False)
    expected = [[latent(model, x, y, 0.3, gamma_states or 0.3) for y in X] for x in X]
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-9)
    np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-9)
    np.testing.assert_allclose(kernel(X[:1], X[1:]), np.array(expected)[:1, 1:], rtol=1e-9)


def test_latent_mean_maps_have_random_features():
    model, X = systems(1, 1, 2, 2), whole(0, [4, 2, 6])
    exact = mc.LatentMeanMap(model, gamma=0.3, gamma_states=0.1, normalize=False)(X)
    kernel = mc.LatentMeanMap(model, gamma=0.3, gamma_states=0.1, n_components=4000, normalize=False)
    features = kernel.fit(X).features(X)
    assert features.shape == (3, 8000)
    np.testing.assert_allclose(features @ features.T, exact, atol=5 / np.sqrt(4000))


def test_a_rotation_of_the_state_changes_no_latent_mean_map():
    model, X = systems(1, 1, 2, 2), whole(0, [4, 3])
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = mc.LDSs(
        turn @ model.transition @ turn.T, model.emission @ turn.T, turn @ model.process_covariance @ turn.T,
        model.observation_covariance, model.initial_mean @ turn.T, turn @ model.initial_covariance @ turn.T,
        model.state_offset @ turn.T, model.observation_offset,
    )  # fmt: skip
    np.testing.assert_allclose(mc.LatentMeanMap(turned)(X), mc.LatentMeanMap(model)(X), rtol=1e-9)


def test_a_latent_mean_map_learns_its_system():
    X = [systems(i % 2, 1, 2, 2).sample(15, random_state=i)[0, 0] for i in range(6)]
    kernel = mc.LatentMeanMap(mc.LDS(2, n_iter=10, tol=0.0), gamma=0.1)
    found = kernel.fit_transform(X)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    np.testing.assert_allclose(kernel.transform(X[:2]), found[:2], rtol=1e-10)


def test_scores_of_one_step_are_those_of_a_gaussian():
    """T-23: the first observation is N(C mu0 + c, C S0 C' + R)."""
    model, x = systems(2, 1, 3, 2), whole(3, [1, 1, 1, 1])
    scores = dict(zip(model.score_names(), model.sequence_scores(x)[0].T, strict=True))
    c, covariance = np.asarray(model.emission)[0], np.asarray(model.initial_covariance)[0]
    mean = c @ np.asarray(model.initial_mean)[0] + np.asarray(model.observation_offset)[0]
    spread = c @ covariance @ c.T + np.asarray(model.observation_covariance)[0]
    gaussian = mc.Gaussians(mean[None], spread[None]).fisher_scores(np.concatenate(x))[0]

    def columns(name, size):
        rows, places = np.triu_indices(size)
        if "covariance" in name:
            return np.stack([scores[f"{name}[{i}, {j}]"] for i, j in zip(rows, places, strict=True)], axis=1)
        return np.stack([scores[f"{name}[{i}]"] for i in range(size)], axis=1)

    np.testing.assert_allclose(columns("observation_offset", 2), gaussian[:, :2], rtol=1e-9)
    np.testing.assert_allclose(columns("observation_covariance", 2), gaussian[:, 2:], rtol=1e-9)
    np.testing.assert_allclose(columns("initial_mean", 3), gaussian[:, :2] @ c, rtol=1e-9)
    off = gaussian[:, 3] / np.sqrt(2)
    full = np.stack([gaussian[:, 2], off, off, gaussian[:, 4]], axis=1).reshape(-1, 2, 2)
    through = c.T @ full @ c
    rows, places = np.triu_indices(3)
    factor = np.where(rows == places, 1.0, np.sqrt(2))
    np.testing.assert_allclose(
        columns("initial_covariance", 3), through[:, rows, places] * factor, rtol=1e-8, atol=1e-12
    )
    for name in ("transition[0, 1]", "state_offset[2]", "process_covariance[0, 0]"):
        np.testing.assert_allclose(scores[name], 0.0, atol=1e-12)


def test_fisher_kernels_of_a_system_are_inner_products_of_scores():
    model, X = systems(2, 1, 2, 2), gappy(1, [6, 3, 8, 4], 2)
    scores = model.sequence_scores(X)[0]
    found = mc.Fisher(model, normalize=False)(X)
    np.testing.assert_allclose(found, scores @ scores.T, rtol=1e-9)
    names = mc.Fisher(model).fit(X).get_score_names()
    assert [str(name).split(".")[-1] for name in names] == model.score_names()


def test_fisher_with_full_information_does_not_depend_on_the_basis():
    model = systems(2, 1, 1, 1)
    half = mc.LDSs(
        model.transition, np.asarray(model.emission) * 2, np.asarray(model.process_covariance) / 4,
        model.observation_covariance, np.asarray(model.initial_mean) / 2, np.asarray(model.initial_covariance) / 4,
        np.asarray(model.state_offset) / 2, model.observation_offset,
    )  # fmt: skip
    X = model.sample(10, 200, random_state=0)[0]
    left, right = (mc.Fisher(one, information="empirical", ridge=1e-12).fit(X)(X[:5]) for one in (model, half))
    np.testing.assert_allclose(left, right, atol=1e-5)


def test_top_features_are_log_odds_and_their_gradients():
    models, X = systems(5, 2, 2, 2), gappy(1, [6, 3, 8, 4], 2)
    kernel = mc.TOP(models, normalize=False)
    logs, scores = models.log_prob(X), models.sequence_scores(X)
    expected = np.concatenate([(logs[0] - logs[1])[:, None], scores[0], -scores[1]], axis=1)
    found = kernel.fit(X).features(X)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel(X), expected @ expected.T, rtol=1e-9)
    labels = ["a", "b"] * 6
    series = [models[i % 2 : i % 2 + 1].sample(20, random_state=i)[0, 0] for i in range(12)]
    fitted = mc.TOP(mc.LDS(2, n_iter=10, tol=0.0)).fit(series, labels)
    signs = np.sign(fitted.log_odds(series)[:, 0])
    assert abs(signs @ np.tile([1, -1], 6)) >= 8  # at most two of twelve on the wrong side
