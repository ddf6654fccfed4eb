"""Forecasts of switching systems: means and covariances of the mixture over regimes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._random import random_generator
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains
from mercer.models._switching.smoothing import filtered

__all__ = ["forecasts"]


def forecasts(
    chains: Chains, x: Floats, runs: Runs, steps: int, n_particles: int, random_state: Any
) -> tuple[Floats, Floats, Floats]:
    """Return means ``(S, steps, d)`` and covariances of future observations, and the log probabilities so far.

    The first two moments of the states of each regime follow linear recursions, which merge the regimes before.
    """
    k, d = chains.regimes, chains.systems.size[1]
    lengths, models = np.asarray(runs.length), np.asarray(runs.model)
    uniform = random_generator(random_state).random((int(lengths.max(initial=0)), 1))
    states = filtered(chains, x, runs, max(n_particles, k), uniform)
    system = models[:, None] * k + np.arange(k)
    a, b, c, offset, q, r, mu, s = (part[system] for part in chains.systems)
    share, mean, covariance = np.exp(chains.log_initial[models]), np.array(mu), np.array(s)
    some = np.flatnonzero(lengths)  # an empty series is predicted from its start
    last = np.asarray(runs.start)[some] + lengths[some] - 1
    move = np.exp(chains.log_transition[models])

    def moved(which: Any, share: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
        joint = share[:, :, None] * move[which]  # (S, before, after)
        after = joint.sum(axis=1)
        part = joint / np.where(after > 0, after, 1.0)[:, None]
        center = np.einsum("sjk,sji->ski", part, mean)
        away = mean[:, :, None] - center[:, None]
        spread = np.einsum("sjk,sjil->skil", part, covariance) + np.einsum("sjk,sjki,sjkl->skil", part, away, away)
        forward = a[which]
        next_mean = (forward @ center[..., None])[..., 0] + b[which]
        return after, next_mean, forward @ spread @ forward.swapaxes(-1, -2) + q[which]

    if len(some):
        filtered_states = states.probability[last], states.means[last], states.covariances[last]
        share[some], mean[some], covariance[some] = moved(some, *filtered_states)
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
