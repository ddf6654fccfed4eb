"""Covariances that are computed once, for steps after convergence and for series of one system, change no result."""

import sys
from pathlib import Path

import numpy as np
import pytest

import mercer as mc
from mercer.models._dynamics import runs
from mercer.models._forward.interface import Runs


def system(n=3, d=2, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    turn = 0.9 * np.linalg.qr(rng.normal(size=(n, n)))[0]
    return mc.LDSs(
        [turn], [rng.normal(size=(d, n))], [0.1 * np.eye(n)], [noise * np.eye(d)], np.ones((1, n)), [np.eye(n)]
    )


def smoothed(model, x):
    """Filter and smooth one series step by step (ALG-KF, ALG-RTS)."""
    a, c, q, r = model.transition[0], model.emission[0], model.process_covariance[0], model.observation_covariance[0]
    mean, spread, kept, log_prob = model.initial_mean[0], model.initial_covariance[0], [], 0.0
    for value in x:
        seen = np.isfinite(value)
        cs, v = c[seen], c[seen] @ spread @ c[seen].T + r[np.ix_(seen, seen)]
        e = value[seen] - cs @ mean
        gain = spread @ cs.T @ np.linalg.inv(v)
        log_prob -= 0.5 * (np.linalg.slogdet(2 * np.pi * v)[1] + e @ np.linalg.solve(v, e))
        mean, spread = mean + gain @ e, spread - gain @ v @ gain.T
        kept.append((mean, spread))
        mean, spread = a @ mean, a @ spread @ a.T + q
    out = [kept[-1]]
    for mean, spread in reversed(kept[:-1]):
        back = spread @ a.T @ np.linalg.inv(a @ spread @ a.T + q)
        late = out[-1]
        out.append((mean + back @ (late[0] - a @ mean), spread + back @ (late[1] - a @ spread @ a.T - q) @ back.T))
    return log_prob, np.array([m for m, _ in out[::-1]]), np.array([s for _, s in out[::-1]])


@pytest.mark.parametrize("gaps", ["none", "one step", "a stretch at the end"])
@pytest.mark.parametrize("noise", [0.2, 1e-9])
def test_steady_covariances_are_those_of_every_step(gaps, noise):
    model = system(noise=noise)
    x = model.sample(400, random_state=1)[0, 0]
    if gaps == "one step":
        x[200, 0] = np.nan
    elif gaps != "none":
        x[390:] = np.nan
    found = model.posterior([x])
    log_prob, means, covariances = smoothed(model, x)
    np.testing.assert_allclose(found.log_prob, log_prob, rtol=1e-10)
    np.testing.assert_allclose(found.means, means, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.covariances, covariances, rtol=1e-7, atol=1e-10)


def parts(found):
    return [part for part in found if part is not None]


@pytest.mark.parametrize("gaps", [0.0, 0.02])
def test_series_of_one_system_share_covariances_up_to_their_first_gap(gaps):
    model, rng = system(), np.random.default_rng(0)
    series = list(model.sample(120, 70, random_state=1)[0])
    series = [x[: rng.integers(0, 121)].copy() for x in series]
    for x in series[::3]:
        x[rng.random(x.shape) < gaps] = np.nan
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in series])])
    systems, values = runs.systems_of(model), np.concatenate(series)
    together = runs.expected(systems, values, Runs.shared(offsets))
    np.testing.assert_allclose(
        runs.log_likelihoods(systems, values, Runs.shared(offsets)), together.log_prob, rtol=1e-12
    )
    for i in range(0, len(series), 5):
        alone = runs.expected(systems, series[i], Runs.shared(np.array([0, len(series[i])])))
        for mine, theirs in zip(parts(alone), parts(together), strict=True):
            np.testing.assert_allclose(theirs[i], mine[0], rtol=1e-11, atol=1e-11)


def test_a_long_series_is_smoothed_in_blocks(monkeypatch):
    model = system()
    x = model.sample(90, 3, random_state=1)[0]
    x[1, 40:50], x[2, 70] = np.nan, np.nan
    whole = model.posterior(x[[0, 1, 2]])
    monkeypatch.setattr(runs, "_MOST", 0)
    monkeypatch.setattr(runs, "_FEWEST", 32)
    blocks = model.posterior(x)
    np.testing.assert_allclose(blocks.means, whole.means, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(blocks.covariances, whole.covariances, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(blocks.lags, whole.lags, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(blocks.log_prob, whole.log_prob, rtol=1e-12)


def test_the_benchmark_runs(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    bench = __import__("bench_lds")
    monkeypatch.setitem(sys.modules, "dynamax", None)  # only our own times
    bench.fits(4, 20, 2)
    bench.filters(4, 20)
    bench.grams(3, (5, 100), 2)
    assert "matrix product" in capsys.readouterr().out
