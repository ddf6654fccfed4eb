"""Filtering and forecasting with hidden Markov models: states given the observations so far, and those to come."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log, to_numpy
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.families.poisson import Poissons
from mercer.models._forward.evidence import code_probabilities, row_log_prob
from mercer.models.mixture import Mixtures


def log_densities(emission: Any, x: Any, owner: Indices) -> Floats:
    """Log likelihood of each point under the states of its model, ``(T, n)``."""
    if isinstance(emission, Categoricals):
        return np.asarray(safe_log(code_probabilities(emission))[owner, :, x])
    return np.asarray(row_log_prob(emission, x, owner))


def filtered(initial: Floats, transition: Floats, table: Floats, offsets: Indices) -> tuple[Floats, Floats]:
    """Probabilities of the states given the observations up to each time, and log probabilities of the sequences.

    Parameters
    ----------
    initial, transition : ndarray of shape (M, n) and (M, n, n)
        The model of each sequence.
    table : ndarray of shape (T, n)
        Log likelihoods of all observations, concatenated.
    offsets : ndarray of int of shape (M + 1,)
        Sequence i has the rows ``offsets[i]:offsets[i + 1]``.

    Returns
    -------
    states : ndarray of shape (T, n)
    log_prob : ndarray of shape (M,)
        -inf if a sequence is impossible; its states are then uniform from there on.
    """
    lengths, n = np.diff(offsets), table.shape[1]
    states, log_prob = np.empty_like(table), np.zeros(len(lengths))
    before, steps = safe_log(initial), safe_log(transition)
    for t in range(int(lengths.max(initial=0))):
        active = np.flatnonzero(lengths > t)
        joint = before[active] + table[offsets[active] + t]
        total = np.asarray(logsumexp(joint, axis=-1))
        log_prob[active] += total
        possible = np.isfinite(total)[:, None]
        logs = np.where(possible, joint - np.where(possible, total[:, None], 0.0), -np.log(n))
        states[offsets[active] + t] = np.exp(logs)
        before[active] = logsumexp(logs[:, :, None] + steps[active], axis=1)
    return states, log_prob


def emission_moments(emission: Any) -> tuple[Floats, Floats]:
    """Mean and covariance of one observation in each state, ``(N, n, d)`` and ``(N, n, d, d)``.

    A symbol counts as its indicator vector, whose mean are the probabilities of all symbols.
    """
    if isinstance(emission, Categoricals):
        mean = to_numpy(emission.probability).astype(np.float64)
        return mean, mean[..., None] * np.eye(mean.shape[-1]) - mean[..., :, None] * mean[..., None, :]
    if isinstance(emission, Poissons):
        mean = to_numpy(emission.rate).astype(np.float64)
        return mean, mean[..., None] * np.eye(mean.shape[-1])
    if isinstance(emission, Gaussians):
        mean, spread = (to_numpy(a).astype(np.float64) for a in (emission.mean, emission.covariance))
        if emission.structure != "full":
            eye = np.eye(mean.shape[-1])
            spread = (spread[..., None] if emission.structure == "diagonal" else spread[..., None, None]) * eye
        return mean, spread
    if isinstance(emission, Mixtures):
        return mixed(to_numpy(emission.weights).astype(np.float64), *emission_moments(emission.components))
    raise TypeError(
        f"Forecasts are means and covariances, which {type(emission).__name__} do not have here. Use Categoricals, "
        "Gaussians, Poissons or Mixtures of these as emissions, or sample."
    )


def mixed(weights: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of mixtures, from those of their k components, ``(..., k, d)`` and ``(..., k, d, d)``."""
    center = np.einsum("...k,...kd->...d", weights, mean)
    away = mean - center[..., None, :]
    spread = covariance + away[..., :, None] * away[..., None, :]
    return center, np.einsum("...k,...kde->...de", weights, spread)
