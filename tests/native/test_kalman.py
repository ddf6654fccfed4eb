"""Filters, smoothers and pairs of linear dynamical systems in C++: all sizes, calls that are resumed, long series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import mercer as mc
from mercer._native import kalman
from mercer.models._dynamics import runs
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Runs
from mercer.models._switching.em import _along_paths
from mercer.models._switching.hypotheses import Chains


def systems(n, d, count=1, seed=0):
    rng = np.random.default_rng([n, d, seed])

    def covariance(k):
        root = rng.normal(size=(count, k, k))
        return root @ root.swapaxes(1, 2) / k + 0.1 * np.eye(k)

    turn = 0.9 * np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    return mc.LDSs(
        turn, rng.normal(size=(count, d, n)), covariance(n), covariance(d), rng.normal(size=(count, n)), covariance(n),
        rng.normal(size=(count, n)), rng.normal(size=(count, d)),
    )  # fmt: skip


def joint(model, length):
    """Return mean and covariance of all states of a series, then of all observations."""
    a, b, c, offset, q, r, mean, first = (part[0] for part in runs.systems_of(model))
    n = len(a)
    means, spread = np.zeros((length, n)), np.zeros((length, n, length, n))
    for t in range(length):
        means[t] = a @ means[t - 1] + b if t else mean
        spread[t, :, t] = a @ spread[t - 1, :, t - 1] @ a.T + q if t else first
        for s in range(t):
            spread[t, :, s] = a @ spread[t - 1, :, s]
            spread[s, :, t] = spread[t, :, s].T
    flat, emit = spread.reshape(length * n, -1), np.kron(np.eye(length), c)
    cross = emit @ flat
    whole = np.block([[flat, cross.T], [cross, cross @ emit.T + np.kron(np.eye(length), r)]])
    return np.concatenate([means.ravel(), (means @ c.T + offset).ravel()]), whole


@settings(max_examples=40)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_any_size_against_the_joint_gaussian(n, d, length, gaps):
    model, rng = systems(n, d), np.random.default_rng(n * d)
    x = rng.normal(size=(length, d))
    if gaps:
        x[rng.random(x.shape) < 0.4] = np.nan
    found = model.posterior([x])
    mean, covariance = joint(model, length)
    seen = n * length + np.flatnonzero(np.isfinite(x.ravel()))
    states = np.arange(n * length)
    away, gain = x.ravel()[seen - n * length] - mean[seen], np.zeros((len(states), 0))
    if len(seen):
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, states)]).T
        log_prob = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(x.ravel()[seen - n * length])
        np.testing.assert_allclose(found.log_prob, log_prob, rtol=1e-9)
    rest = covariance[np.ix_(states, states)] - gain @ covariance[np.ix_(seen, states)]
    np.testing.assert_allclose(found.means.ravel(), mean[states] + gain @ away, atol=1e-8)
    own = [rest[t * n : (t + 1) * n, t * n : (t + 1) * n] for t in range(length)]
    np.testing.assert_allclose(found.covariances, own, atol=1e-8)


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (2, 5, 3), (4, 3, 1), (7, 2, 2)])
def test_pairs_against_the_joint_gaussian(n, m, d):
    left, right, length = systems(n, d, 3), systems(m, d, 2, seed=1), 4
    rows, columns = np.array([0, 2, 1, 2]), np.array([1, 0, 1, 1])
    sides = runs.systems_of(left), runs.systems_of(right)
    found = kalman.pairs_at_zero(*sides, rows, columns, np.array([1, length]), 1.0, 0.5)
    for p, (i, j) in enumerate(zip(rows, columns, strict=True)):
        both = [joint(model, length) for model in (left[i : i + 1], right[j : j + 1])]
        (mean, spread), (other, more) = ((x[-length * d :], y[-length * d :, -length * d :]) for x, y in both)
        density = multivariate_normal(mean - other, spread + more + 0.5 * np.eye(length * d))
        np.testing.assert_allclose(found[1, p], density.logpdf(np.zeros(length * d)), rtol=1e-9)


def test_calls_that_are_resumed_change_no_bit(monkeypatch):
    model, rng = systems(3, 2), np.random.default_rng(0)
    series = [rng.normal(size=(length, 2)) for length in (300, 1, 0, 70, 299, *[20] * 14)]
    series[3][10:13], series[4][7, 0] = np.nan, np.nan
    values, offsets = np.concatenate(series), np.concatenate([[0], np.cumsum([len(x) for x in series])])
    system = runs.systems_of(model)

    def found():
        each = Runs.shared(offsets)
        states = runs.filtered(system, values, each)[:3] + runs.smoothed(system, values, each)
        pairs = kalman.pairs_at_zero(system, system, *np.zeros((2, 40), int), np.array([5, 9]), 1.0, 0.0)
        return [*states, *runs.expected(system, values, each), pairs]

    monkeypatch.setattr(runs, "_MOST", 0)
    monkeypatch.setattr(runs, "_FEWEST", 32)
    whole, calls = found(), []
    monkeypatch.setattr(kalman, "_LONG_CALL", 1.0)
    monkeypatch.setattr(kalman, "call", lambda name, **given: calls.append(name) or _call(name, **given))
    for mine, theirs in zip(found(), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert calls.count("kalman") > 60
    assert calls.count("system_pairs") == 3


_call = kalman.call


def test_a_singular_prediction_is_no_number_and_its_neighbors_are():
    """The covariance of an observation without noise that says nothing about the state is zero."""
    models = systems(2, 2, 20)
    emission, noise = np.array(models.emission), np.array(models.observation_covariance)
    emission[7], noise[7] = 0.0, 0.0
    system = runs.systems_of(models)._replace(emission=emission, observation_covariance=noise)
    x, offsets = np.zeros((60, 2)), np.arange(0, 61, 3)
    found = runs.log_likelihoods(system, x, Runs.own(offsets))
    assert np.flatnonzero(~np.isfinite(found)).tolist() == [7]


def test_a_covariance_that_overflows_has_not_converged():
    wild = mc.LDSs([[[10.0]]], [[[1.0]]], [[[0.1]]], [[[0.1]]], [[1.0]], [[[1.0]]])
    x = np.full((400, 1), np.nan)
    found = runs.filtered(runs.systems_of(wild), x, Runs.shared(np.array([0, 400])))
    growing = 100.0 ** np.arange(150) * (1 + 0.1 / 99) - 0.1 / 99
    np.testing.assert_allclose(found.covariances[:150, 0, 0], growing, rtol=1e-12)
    assert not np.isfinite(found.covariances[200:]).any()


@pytest.mark.parametrize("steps", [2**21, 0])
def test_the_regimes_of_a_path_add_up_to_the_sums_of_one_system(steps, monkeypatch):
    """If both regimes are the same system, whatever the path, in one block of steps or in several."""
    monkeypatch.setattr(runs, "_MOST", steps)
    monkeypatch.setattr(runs, "_FEWEST", 16)
    system, rng = runs.systems_of(systems(3, 2)), np.random.default_rng(0)
    series = [rng.normal(size=(length, 2)) for length in (70, 1, 0, 33, *[20] * 14)]
    series[0][10:13], series[3][7, 0] = np.nan, np.nan
    x, offsets = np.concatenate(series), np.concatenate([[0], np.cumsum([len(one) for one in series])])
    each, twice = Runs.shared(offsets), runs.Systems(*(np.repeat(part, 2, axis=0) for part in system))
    chains = Chains(np.log([[0.5, 0.5]]), np.log(np.full((1, 2, 2), 0.5)), twice)
    layer, paths, weight = np.zeros(len(series), int), rng.integers(0, 2, (1, len(x))), rng.random(len(series))
    data = Data(x, offsets, layer, 1)
    found, counts, moves = _along_paths(chains, data, paths, np.arange(len(series)), layer, weight)
    single = runs.expected(system, x, each)
    for mine, theirs in zip(found[1:], single[1:], strict=True):
        total = np.tensordot(weight, theirs, 1)
        np.testing.assert_allclose(mine.sum(axis=0), total, rtol=1e-9, atol=1e-9 * np.abs(total).max())
    np.testing.assert_allclose(counts.series.sum(), weight.sum() - weight[2])
    np.testing.assert_allclose(moves.sum(), weight @ np.maximum(np.diff(offsets) - 1, 0))
