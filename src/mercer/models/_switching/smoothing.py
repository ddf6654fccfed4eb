"""Posteriors of regimes, and forecasts: the paths of regimes that a filter follows, with their states merged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, logsumexp
from mercer.data import Sequences
from mercer.data.segments import segment_sum
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains, States, Trace, explore, groups
from mercer.models.hidden import Clique, require_possible

_LAG = 10
"""Steps after which a pair of regimes is weighted by the paths that have come through it, at most."""


def normalized_weights(weights: Floats) -> Floats:
    """Return the probabilities of branches from their log weights, ``(S, C)``."""
    with np.errstate(invalid="ignore"):  # of impossible series, which the caller reports
        return np.asarray(np.exp(weights - logsumexp(weights, axis=1)[:, None]))


class RegimePosteriors(NamedTuple):
    """Posteriors of T observations of S series."""

    regimes: Floats
    """Of the regime at each observation, ``(T, K)``."""
    steps: Floats
    """Of the regime before and the one at each observation, ``(T, K, K)``; zero at the start of a series."""
    log_prob: Floats
    """Log probabilities of the series, ``(S,)``."""


def regime_posteriors(
    chains: Chains, x: Floats, runs: Runs, n_paths: int, random_state: Any, whole: bool = True
) -> RegimePosteriors:
    """Return posteriors of regimes; each observation is in one run.

    Given the next regime, a regime has the probability that it has ten steps later, over all branches of the filter.
    Unless ``whole``, the posteriors are those given the observations so far.
    """
    k = chains.regimes
    found, pairs = np.zeros((len(x), k)), np.zeros((len(x), k, k))  # of this regime; of the one before and this one
    joint = np.zeros_like(pairs)

    def visit(points: Indices, weights: Floats, _: States, trace: Trace) -> None:
        share, rows = normalized_weights(weights), np.arange(len(points))[:, None]
        path, regime = np.divmod(np.broadcast_to(np.arange(share.shape[1]), share.shape), k)
        found[points] = np.bincount((rows * k + regime).ravel(), share.ravel(), len(points) * k).reshape(-1, k)
        for lag in range(min(_LAG, len(trace.parents)) if whole else 0):
            before = trace.regimes[-1 - lag][rows, path]
            code = (rows * k + before) * k + regime
            pairs[points - lag] = np.bincount(code.ravel(), share.ravel(), len(points) * k * k).reshape(-1, k, k)
            path, regime = trace.parents[-1 - lag][rows, path], before

    log_prob = np.zeros(len(runs.length))
    for which, some, most, select in groups(chains, runs, max(n_paths, k), random_state):
        log_prob[which] = logsumexp(explore(chains, x, some, most, select, visit=visit).log_weight, axis=1)
    starts, lengths = np.asarray(runs.start), np.asarray(runs.length)
    for t in range(int(lengths.max(initial=0)) - 2 if whole else -1, -1, -1):
        at = starts[lengths > t + 1] + t
        total = pairs[at + 1].sum(axis=1, keepdims=True)
        back = pairs[at + 1] / np.where(total > 0, total, 1.0)
        joint[at + 1] = back * found[at + 1][:, None]
        found[at] = joint[at + 1].sum(axis=2)
    return RegimePosteriors(found, joint, log_prob)


def regime_cliques(chains: Chains, X: Sequences, n_paths: int) -> list[Clique]:
    """Return the clique of observations and regimes, and that of steps between regimes, of one model (LMMK-0)."""
    values, lengths = np.asarray(X.values, dtype=np.float64), np.diff(X.offsets)
    found = regime_posteriors(chains, values, Runs.shared(np.asarray(X.offsets)), n_paths, 0)
    require_possible(X, found.log_prob)
    names = tuple(str(k) for k in range(chains.regimes))
    share = np.repeat(1 / np.maximum(lengths, 1), lengths)
    steps = segment_sum(found.steps.reshape(len(values), -1), X.offsets) / np.maximum(lengths - 1, 1)[:, None]
    return [
        Clique(found.regimes * share[:, None], (names,), (True,), column=slice(0, X.dimension)),
        Clique(steps.reshape(len(X), len(names), len(names)), (names, names), (True, True), step=True),
    ]


def merged(share: Floats, means: Floats, covariances: Floats) -> tuple[Floats, Floats, Floats]:
    """Merge H states ``(S, H, ...)`` by shares ``(S, H, K)``: probabilities, means and covariances, ``(S, K, ...)``."""
    total = share.sum(axis=1)
    share = share / np.where(total > 0, total, 1.0)[:, None]
    center = np.einsum("shk,shi->ski", share, means)
    away = means[:, :, None] - center[:, None]
    spread = np.einsum("shk,shij->skij", share, covariances) + np.einsum("shk,shki,shkj->skij", share, away, away)
    return total, center, spread


# Forecasts of switching systems: means and covariances of the mixture over regimes.


def forecasts(
    chains: Chains, x: Floats, runs: Runs, steps: int, n_particles: int, random_state: Any
) -> tuple[Floats, Floats, Floats]:
    """Return means ``(S, steps, d)`` and covariances of future observations, and the log probabilities so far.

    The first two moments of the states of each regime follow linear recursions, which merge the regimes before.
    """
    k, d = chains.regimes, chains.systems.size[1]
    lengths, models = np.asarray(runs.length), np.asarray(runs.model)
    n, log_prob = chains.systems.size[0], np.zeros(len(lengths))
    filtered = np.zeros((len(x), k)), np.zeros((len(x), k, n)), np.zeros((len(x), k, n, n))

    def visit(points: Indices, weights: Floats, states: States, _: Any) -> None:
        regime = np.arange(weights.shape[1]) % k
        shares = normalized_weights(weights)[..., None] * (regime[:, None] == np.arange(k))
        for out, value in zip(filtered, merged(shares, *states), strict=True):
            out[points] = value

    for which, part, most, select in groups(chains, runs, max(n_particles, k), random_state):
        log_prob[which] = logsumexp(explore(chains, x, part, most, select, visit=visit).log_weight, axis=1)
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
        share[some], mean[some], covariance[some] = moved(some, *(part[last] for part in filtered))
    means, covariances = np.empty((len(models), steps, d)), np.empty((len(models), steps, d, d))
    for t in range(steps):
        seen = (c @ mean[..., None])[..., 0] + offset
        spread = c @ covariance @ c.swapaxes(-1, -2) + r
        means[:, t] = np.einsum("sk,ski->si", share, seen)
        away = seen - means[:, t, None]
        covariances[:, t] = np.einsum("sk,skij->sij", share, spread + away[..., None] * away[..., None, :])
        if t + 1 < steps:
            share, mean, covariance = moved(slice(None), share, mean, covariance)
    return means, covariances, log_prob
