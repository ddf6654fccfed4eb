"""Posteriors of regimes: sums over all paths, or paths drawn backwards from a particle filter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, logsumexp
from mercer._probability import drawn
from mercer._random import random_generator
from mercer.models._dynamics.runs import Systems
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import (
    Chains,
    States,
    best,
    by_number_of_paths,
    explore,
    picked_runs,
    unbiased,
)

_BLOCK = 2**20
"""Numbers of the states of all paths of a block of runs."""


class Filtered(NamedTuple):
    """Regimes and states given the observations so far, at every observation."""

    log_prob: Floats
    """``(S,)``."""
    probability: Floats
    """``(T, K)``."""
    means: Floats
    """Of the state in each regime, ``(T, K, n)``."""
    covariances: Floats
    """``(T, K, n, n)``."""


def merged(share: Floats, means: Floats, covariances: Floats) -> tuple[Floats, Floats, Floats]:
    """Merge H states ``(S, H, ...)`` by shares ``(S, H, K)``: probabilities, means and covariances, ``(S, K, ...)``."""
    total = share.sum(axis=1)
    share = share / np.where(total > 0, total, 1.0)[:, None]
    center = np.einsum("shk,shi->ski", share, means)
    away = means[:, :, None] - center[:, None]
    spread = np.einsum("shk,shij->skij", share, covariances) + np.einsum("shk,shki,shkj->skij", share, away, away)
    return total, center, spread


def filtered(chains: Chains, x: Floats, runs: Runs, n_particles: int, uniform: Floats) -> Filtered:
    """Filter series by particles; each observation is in one run."""
    k, n = chains.regimes, chains.systems.size[0]
    found = np.zeros((len(x), k)), np.zeros((len(x), k, n)), np.zeros((len(x), k, n, n))

    def visit(points: Indices, weights: Floats, which: Indices, states: States) -> None:
        with np.errstate(invalid="ignore"):  # of impossible series, which the caller reports
            share = np.exp(weights - logsumexp(weights, axis=1)[:, None])[..., None]
        for out, value in zip(found, merged(share * (which[..., None] == np.arange(k)), *states), strict=True):
            out[points] = value

    explored = explore(chains, x, runs, n_particles, unbiased(uniform), visit=visit)
    return Filtered(np.asarray(logsumexp(explored.log_weight, axis=1)), *found)


def regime_posteriors(chains: Chains, x: Floats, runs: Runs, n_paths: int, random_state: Any) -> tuple[Floats, Floats]:
    """Return posteriors of regimes ``(T, K)``, and log probabilities ``(S,)``; each observation is in one run."""
    k = chains.regimes
    found, log_prob = np.zeros((len(x), k)), np.zeros(len(runs.length))
    few, rest = by_number_of_paths(k, runs.length)
    for which, count in few:
        some = picked_runs(runs, which)
        explored = explore(chains, x, some, count, best(k), paths=True)
        assert explored.regimes is not None
        log_prob[which] = logsumexp(explored.log_weight, axis=1)
        with np.errstate(invalid="ignore"):  # of impossible series, which the caller reports
            share = np.exp(explored.log_weight - log_prob[which, None])
        points, owner = _points(some)
        for path in range(count):
            found[points, explored.regimes[path, points]] += share[owner, path]
    if len(rest):
        others = picked_runs(runs, rest)
        longest = int(others.length.max())
        uniform = random_generator(random_state).random((longest, 1 + n_paths))  # the same for any other series
        states = filtered(chains, x, others, max(n_paths, k), uniform[:, 0])
        log_prob[rest] = states.log_prob
        step = max(1, _BLOCK // (n_paths * k * chains.systems.size[0] ** 2))
        order = np.argsort(-others.length, kind="stable")
        for begin in range(0, len(order), step):
            _backwards(chains, x, picked_runs(others, order[begin : begin + step]), states, uniform[:, 1:], found)
    return found, log_prob


def _points(runs: Runs) -> tuple[Indices, Indices]:
    """Return the observations of runs, and the run of each."""
    lengths = np.asarray(runs.length)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    begin = np.cumsum(lengths) - lengths
    return np.asarray(runs.start)[owner] + np.arange(len(owner)) - begin[owner], owner


def _backwards(chains: Chains, x: Floats, runs: Runs, states: Filtered, uniform: Floats, found: Floats) -> None:
    """Draw paths of runs, longest first, from the end on; write the mean probabilities of the regimes.

    Given the regimes that follow, the probability of all later observations is exp(l's - s'Hs/2) up to a constant, as
    a function of the state s.
    """
    k, n, paths = chains.regimes, chains.systems.size[0], uniform.shape[1]
    starts, lengths, models = (np.asarray(part) for part in runs)
    h, ell = np.zeros((len(starts), paths, n, n)), np.zeros((len(starts), paths, n))
    later = np.zeros((len(starts), paths), int)
    with np.errstate(divide="ignore"):
        log_filtered = np.log(states.probability)
    for t in range(int(lengths[0]) - 1, -1, -1):
        active = int(np.searchsorted(-lengths, -t, side="left"))
        point, model = starts[:active] + t, models[:active]
        logs = np.repeat(log_filtered[point][:, None], paths, axis=1)  # (S, J, K)
        go = np.flatnonzero(lengths[:active] > t + 1)
        if len(go):
            step = chains.log_transition[model[go][:, None, None], np.arange(k), later[go][..., None]]
            fit = _log_integral(states.means[point[go]][:, None], states.covariances[point[go]][:, None],
                                h[go][:, :, None], ell[go][:, :, None])  # fmt: skip
            logs[go] += step + fit
        with np.errstate(invalid="ignore"):
            probability = np.exp(logs - logsumexp(logs, axis=-1)[..., None])
        found[point] = probability.mean(axis=1)
        later[:active] = drawn(np.cumsum(probability, axis=-1), uniform[t])
        system = model[:, None] * k + np.arange(k)
        curve, slope = _observed(chains.systems, system, x[point])
        rows = np.arange(active)[:, None]
        h[:active] += curve[rows, later[:active]]
        ell[:active] += slope[rows, later[:active]]
        if t:
            which = system[rows, later[:active]]
            h[:active], ell[:active] = _before(chains.systems, which, h[:active], ell[:active])


def _log_integral(m: Floats, p: Floats, h: Floats, ell: Floats) -> Floats:
    """Return the log of the integral of N(s; m, p) exp(l's - s'hs/2)."""
    inner = np.eye(m.shape[-1]) + p @ h
    rest = ell - (h @ m[..., None])[..., 0]
    moved = np.linalg.solve(inner, p @ rest[..., None])[..., 0]
    _, log_det = np.linalg.slogdet(inner)
    return np.asarray(-0.5 * log_det + ((ell + rest) * m).sum(axis=-1) / 2 + (rest * moved).sum(axis=-1) / 2)


def _observed(systems: Systems, which: Indices, x: Floats) -> tuple[Floats, Floats]:
    """Return the curvature C'R^-1 C and the slope C'R^-1 (x - d) of observations ``(S, d)`` in systems ``(S, K)``."""
    seen = np.isfinite(x)[:, None]
    c = np.where(seen[..., None], systems.emission[which], 0.0)
    noise = systems.observation_covariance[which]
    both = seen[..., None] & seen[..., None, :]
    spread = c @ systems.initial_covariance[which] @ c.swapaxes(-1, -2) + noise
    unit = np.eye(x.shape[1])
    small = 1e-9 * np.trace(spread, axis1=-2, axis2=-1)[..., None, None] / x.shape[1]  # the noise may be singular
    noise = np.where(both, noise + small * unit, unit)
    away = np.where(seen, x[:, None] - systems.observation_offset[which], 0.0)
    weighed = np.linalg.solve(noise, np.concatenate([c, away[..., None]], axis=-1))
    found = c.swapaxes(-1, -2) @ weighed
    return found[..., :-1], found[..., -1]


def _before(systems: Systems, which: Indices, h: Floats, ell: Floats) -> tuple[Floats, Floats]:
    """Move a function exp(l's - s'hs/2) of the state one step back."""
    a, q, b = systems.transition[which], systems.process_covariance[which], systems.state_offset[which]
    target = np.concatenate([h @ a, (ell - (h @ b[..., None])[..., 0])[..., None]], axis=-1)
    found = a.swapaxes(-1, -2) @ np.linalg.solve(np.eye(a.shape[-1]) + h @ q, target)
    curve = found[..., :-1]
    return (curve + curve.swapaxes(-1, -2)) / 2, found[..., -1]


# Forecasts of switching systems: means and covariances of the mixture over regimes.


def forecasts(
    chains: Chains, x: Floats, runs: Runs, steps: int, n_particles: int, random_state: Any
) -> tuple[Floats, Floats, Floats]:
    """Return means ``(S, steps, d)`` and covariances of future observations, and the log probabilities so far.

    The first two moments of the states of each regime follow linear recursions, which merge the regimes before.
    """
    k, d = chains.regimes, chains.systems.size[1]
    lengths, models = np.asarray(runs.length), np.asarray(runs.model)
    uniform = random_generator(random_state).random(int(lengths.max(initial=0)))
    states = filtered(chains, x, runs, max(n_particles, k), uniform)
    system = models[:, None] * k + np.arange(k)
    a, b, c, offset, q, r, mu, s = (part[system] for part in chains.systems)
    share, mean, covariance = np.exp(chains.log_initial[models]), np.array(mu), np.array(s)
    some = np.flatnonzero(lengths)  # an empty series is predicted from its start
    last = np.asarray(runs.start)[some] + lengths[some] - 1
    move = np.exp(chains.log_transition[models])

    def moved(which: Any, share: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
        after, center, spread = merged(share[:, :, None] * move[which], mean, covariance)
        forward = a[which]
        return (
            after,
            (forward @ center[..., None])[..., 0] + b[which],
            forward @ spread @ forward.swapaxes(-1, -2) + q[which],
        )

    if len(some):
        share[some], mean[some], covariance[some] = moved(some, *(part[last] for part in states[1:]))
    means, covariances = np.empty((len(models), steps, d)), np.empty((len(models), steps, d, d))
    for t in range(steps):
        seen = (c @ mean[..., None])[..., 0] + offset
        spread = c @ covariance @ c.swapaxes(-1, -2) + r
        means[:, t] = np.einsum("sk,ski->si", share, seen)
        away = seen - means[:, t, None]
        covariances[:, t] = np.einsum("sk,skij->sij", share, spread + away[..., None] * away[..., None, :])
        if t + 1 < steps:
            share, mean, covariance = moved(slice(None), share, mean, covariance)
    return means, covariances, states.log_prob
