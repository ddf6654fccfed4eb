"""Filter and smoother of given regime paths: linear dynamical systems whose parameters change from step to step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains, States, advance

__all__ = ["Smoothed", "smooth_along", "weights_along"]


class Smoothed(NamedTuple):
    """States given all observations of a series, at every observation of every layer of paths."""

    means: Floats
    """``(M, T, n)``."""
    covariances: Floats
    """``(M, T, n, n)``."""
    lags: Floats
    """Covariances of a state and the one before it, ``(M, T, n, n)``; zero where a series begins."""


def weights_along(chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices) -> Floats:
    """Return the log weights of the given paths of runs, ``(S,)``, as `explore` does.

    Parameters
    ----------
    chains, x, runs
        As of `explore`.
    paths : array of int of shape (M, T)
        Regimes at every observation, in M layers.
    layer : array of int of shape (S,)
        The layer of the path of every run.
    """
    k, order = chains.regimes, np.argsort(-np.asarray(runs.length), kind="stable")
    starts, lengths, models = (np.asarray(part)[order] for part in runs)
    weight, states, before, picked = np.zeros(len(order)), None, np.empty(0, int), layer[order]
    for t in range(int(lengths.max(initial=0))):
        active = int(np.searchsorted(-lengths, -t, side="left"))
        point, model = starts[:active] + t, models[:active]
        regime = paths[picked[:active], point].astype(int)
        step = chains.log_transition[model, before[:active], regime] if t else chains.log_initial[model, regime]
        density, states = advance(
            chains.systems, x, states, np.arange(active) if t else np.full(active, -1), model * k + regime, point
        )
        weight[:active] += step + density
        if chains.bonus is not None:
            seen = np.isfinite(x[point]).any(axis=1)
            weight[:active] += chains.bonus[min(t, 1)][model, regime] + seen * chains.bonus[2][model, regime]
        before = regime
    found = np.empty(len(order))
    found[order] = weight
    return found


def smooth_along(chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices) -> Smoothed:
    """Smooth the states of runs along paths (ALG-RTS); parameters are those of `weights_along`."""
    n, order = chains.systems.size[0], np.argsort(-np.asarray(runs.length), kind="stable")
    starts, lengths, models = (np.asarray(part)[order] for part in runs)
    layer = layer[order]
    shape = paths.shape
    found = Smoothed(np.zeros((*shape, n)), np.zeros((*shape, n, n)), np.zeros((*shape, n, n)))
    systems, longest, states = chains.systems, int(lengths.max(initial=0)), None

    def here(t: int, active: int) -> tuple[Indices, Indices, Indices]:
        point = starts[:active] + t
        return layer[:active], point, models[:active] * chains.regimes + paths[layer[:active], point]

    for t in range(longest):
        active = int(np.searchsorted(-lengths, -t, side="left"))
        row, point, system = here(t, active)
        parent = np.arange(active) if t else np.full(active, -1)
        _, states = advance(systems, x, states, parent, system, point)
        found.means[row, point], found.covariances[row, point] = (part[:active] for part in states)
    for t in range(longest - 2, -1, -1):
        active = int(np.searchsorted(-lengths, -(t + 1), side="left"))
        row, point, system = here(t + 1, active)
        before = States(found.means[row, point - 1], found.covariances[row, point - 1])
        mean, covariance, lag = _back(before, States(found.means[row, point], found.covariances[row, point]),
                                      systems.transition[system], systems.state_offset[system],
                                      systems.process_covariance[system])  # fmt: skip
        found.means[row, point - 1], found.covariances[row, point - 1] = mean, covariance
        found.lags[row, point] = lag
    return found


def _back(before: States, after: States, a: Floats, b: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Smooth filtered states given the next smoothed ones; return also the covariances of the two."""
    moved = a @ before.covariances
    predicted = moved @ a.swapaxes(-1, -2) + q
    n = predicted.shape[-1]
    small = 1e-13 * np.trace(predicted, axis1=-2, axis2=-1)[..., None, None] + 1e-300
    gain = np.linalg.solve(predicted + small * np.eye(n), moved)  # transposed
    away = after.means - (a @ before.means[..., None])[..., 0] - b
    mean = before.means + (gain.swapaxes(-1, -2) @ away[..., None])[..., 0]
    covariance = before.covariances + gain.swapaxes(-1, -2) @ (after.covariances - predicted) @ gain
    return mean, (covariance + covariance.swapaxes(-1, -2)) / 2, after.covariances @ gain
