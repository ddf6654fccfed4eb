"""Filter and smoother of given regime paths: linear dynamical systems whose parameters change from step to step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices, Mask
from mercer.models._dynamics.em import Counts
from mercer.models._dynamics.runs import StateExpectations, Systems
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains, States, advance

__all__ = ["expected_along", "weights_along"]


class _Step(NamedTuple):
    """The filters of some runs at one step, longest runs first."""

    run: Indices
    regime: Indices
    density: Floats
    """Log densities of the observations given those before."""
    states: States


def _steps(chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices) -> Iterator[_Step]:
    """Filter runs along their paths, step by step."""
    order = np.argsort(-np.asarray(runs.length), kind="stable")
    starts, lengths, models = (np.asarray(part)[order] for part in runs)
    picked, states = layer[order], None
    for t in range(int(lengths.max(initial=0))):
        active = int(np.searchsorted(-lengths, -t, side="left"))
        point = starts[:active] + t
        regime = paths[picked[:active], point].astype(int)
        parent = np.arange(active) if t else np.full(active, -1)
        density, states = advance(chains.systems, x, states, parent, models[:active] * chains.regimes + regime, point)
        yield _Step(order[:active], regime, density, states)


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
    weight, before = np.zeros(len(layer)), np.empty(0, int)
    for t, (run, regime, density, _) in enumerate(_steps(chains, x, runs, paths, layer)):
        model = np.asarray(runs.model)[run]
        step = chains.log_transition[model, before[: len(run)], regime] if t else chains.log_initial[model, regime]
        weight[run] += step + density
        if chains.bonus is not None:
            seen = np.isfinite(x[np.asarray(runs.start)[run] + t]).any(axis=1)
            weight[run] += chains.bonus[min(t, 1)][model, regime] + seen * chains.bonus[2][model, regime]
        before = regime
    return weight


class _Rows(NamedTuple):
    """All steps of all runs, one run after the other, ``(W,)``."""

    run: Indices
    point: Indices
    system: Indices
    first: Mask
    last: Mask


def expected_along(
    chains: Chains, x: Floats, runs: Runs, paths: Indices, layer: Indices, weight: Floats
) -> tuple[StateExpectations, Counts]:
    """Sum the gradients and moments of runs along paths for every system, weighted, as `expected` does (FK-10).

    The way back is that of native/kalman_smoother.hpp: no covariance of a state or of a noise is inverted.

    Parameters
    ----------
    chains, x, runs, paths, layer
        As of `weights_along`.
    weight : array of shape (S,)
        Weight of every run.

    Returns
    -------
    StateExpectations, Counts
        For all systems; the log probability is left out.
    """
    starts, lengths, models = (np.asarray(part) for part in runs)
    begin = np.cumsum(lengths) - lengths
    run = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(run)) - begin[run]
    point = starts[run] + place
    system = models[run] * chains.regimes + paths[layer[run], point]
    rows = _Rows(run, point, system, place == 0, place == lengths[run] - 1)
    n = chains.systems.size[0]
    states = States(np.empty((len(run), n)), np.empty((len(run), n, n)))
    for t, step in enumerate(_steps(chains, x, runs, paths, layer)):
        for out, value in zip(states, step.states, strict=True):
            out[begin[step.run] + t] = value[: len(step.run)]
    return _summed(chains.systems, rows, weight[run], states, x, _backwards(chains.systems, rows, states, x, begin))


def _t(a: Floats) -> Floats:
    return a.swapaxes(-1, -2)


def _outer(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[:, :, None] * b[:, None, :])


def _times(a: Floats, b: Floats) -> Floats:
    return np.asarray((a @ b[..., None])[..., 0])


def _before(values: Floats, rows: _Rows) -> Floats:
    """Return the values of the step before, zero at first ones."""
    found = np.zeros_like(values)
    found[1:] = values[:-1]
    found[rows.first] = 0.0
    return found


def _after(values: Floats, rows: _Rows) -> Floats:
    """Return the values of the next step, zero at last ones."""
    found = np.zeros_like(values)
    found[:-1] = values[1:]
    found[rows.last] = 0.0
    return found


class _Updates(NamedTuple):
    """The observations of all rows given the past, with V the covariance of the surprise; zero where missing."""

    surprise: Floats
    """V^-1 e, ``(W, d)``."""
    precision: Floats
    """V^-1, ``(W, d, d)``."""
    emission: Floats
    gain: Floats
    """V^-1 C P, ``(W, d, n)``."""


def _updates(systems: Systems, rows: _Rows, states: States, x: Floats) -> _Updates:
    a, b, c, offset, q, r, mu, s = (part[rows.system] for part in systems)
    before = States(*(_before(part, rows) for part in states))
    first = rows.first
    mean = np.where(first[:, None], mu, _times(a, before.means) + b)
    covariance = np.where(first[:, None, None], s, a @ before.covariances @ _t(a) + q)
    seen = np.isfinite(x[rows.point])
    c = np.where(seen[..., None], c, 0.0)
    away = np.where(seen, x[rows.point] - _times(c, mean) - offset, 0.0)
    both, unit = seen[:, :, None] & seen[:, None, :], np.eye(seen.shape[1])
    spread = c @ covariance @ _t(c) + np.where(both, r, unit)
    precision = np.where(both, np.linalg.inv(spread), 0.0)
    return _Updates(_times(precision, away), precision, c, precision @ c @ covariance)


class _Back(NamedTuple):
    """What the way back finds at all rows."""

    updates: _Updates
    slope: Floats
    """Gradient of the log probability in the predicted state, ``(W, n)``."""
    curve: Floats
    """Its negative curvature, ``(W, n, n)``."""


def _backwards(systems: Systems, rows: _Rows, states: States, x: Floats, begin: Indices) -> _Back:
    """Return the gradient and the negative curvature of the log probability in every predicted state."""
    found = _updates(systems, rows, states, x)
    n, c = systems.size[0], found.emission
    slope, curve = _times(_t(c), found.surprise), _t(c) @ found.precision @ c
    loop = _after(systems.transition[rows.system], rows) @ (np.eye(n) - _t(found.gain) @ c)
    back = _t(loop)
    lengths = np.diff(np.append(begin, len(rows.run)))
    order = np.argsort(-lengths, kind="stable")
    lengths, begin = lengths[order], begin[order]
    for t in range(int(lengths.max(initial=0)) - 2, -1, -1):
        at = begin[: int(np.searchsorted(-lengths, -(t + 1), side="left"))] + t
        slope[at] += _times(back[at], slope[at + 1])
        curve[at] += back[at] @ curve[at + 1] @ loop[at]
    return _Back(found, slope, (curve + _t(curve)) / 2)


def _summed(
    systems: Systems, rows: _Rows, weight: Floats, states: States, x: Floats, back: _Back
) -> tuple[StateExpectations, Counts]:
    """Sum what all rows say of the parameters of their systems."""
    a, size = systems.transition[rows.system], len(systems.transition)
    slope, curve, next_slope, next_curve = back.slope, back.curve, _after(back.slope, rows), _after(back.curve, rows)
    ahead = _after(a, rows)
    moved = ahead @ states.covariances
    mean = states.means + _times(_t(moved), next_slope)
    bent = next_curve @ moved
    moment = np.concatenate([states.covariances - _t(moved) @ bent + _outer(mean, mean), mean[..., None]], axis=-1)
    augmented = np.concatenate([mean, np.ones((len(mean), 1))], axis=1)
    noise, gain = back.updates.surprise, back.updates.gain
    onward = gain @ _t(ahead)
    noise = noise - _times(onward, next_slope)
    emission = _outer(noise, augmented)
    emission[..., :-1] -= gain - onward @ bent
    observation = _outer(noise, noise) - back.updates.precision - onward @ next_curve @ _t(onward)
    transition = _outer(slope, _before(augmented, rows))
    transition[..., :-1] -= curve @ a @ _before(states.covariances, rows)
    inner = _outer(slope, slope) - curve
    seen = np.isfinite(x[rows.point]).any(axis=1)

    def total(which: Any, values: Floats) -> Floats:
        at = np.flatnonzero(which)
        weights = sparse.csr_array((weight[at], (rows.system[at], np.arange(len(at)))), shape=(size, len(at)))
        return np.asarray(weights @ values[at].reshape(len(at), math.prod(values.shape[1:]))).reshape(
            size, *values.shape[1:]
        )

    later, one = ~rows.first, np.ones(len(weight))
    found = StateExpectations(
        np.empty(0), total(seen, emission), total(later, transition), total(later, inner), total(seen, observation),
        total(later, _before(moment, rows)), total(seen, moment), total(rows.first, slope), total(rows.first, inner),
    )  # fmt: skip
    return found, Counts(total(later, one), total(seen, one), total(rows.first, one))
