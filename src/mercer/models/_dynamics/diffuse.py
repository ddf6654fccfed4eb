"""Filters from starts so diffuse that digits are lost: how many are left is measured, not guessed.

The covariance of a first state that is 1e10 times that of the noise leaves, after the first observations, differences
of large numbers. How much of them is rounding shows where the coordinates of the state have other units: nothing
changes then but the rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mercer._array import Floats
from mercer._notices import notify
from mercer.data import Sequences
from mercer.models._dynamics.checks import possible, variances
from mercer.models._dynamics.runs import StateExpectations, States, Systems

__all__ = ["LogProbs", "computed"]

_DIFFUSE = 1e6
"""Ratio of variances, of the start and of the noise, from which on digits are counted."""
_ENOUGH = 1e-8
"""Largest relative error without a warning."""

_CURE = "Use a smaller one, such as 1000 times the variances of the series, and an initial_mean near their values."


class _Result(Protocol):
    """Results of filters: at least log probabilities of all series, for one model after the other."""

    @property
    def log_prob(self) -> Floats: ...


Result = TypeVar("Result", bound=_Result)


class LogProbs(NamedTuple):
    """Log probabilities and nothing else."""

    log_prob: Floats


def computed(compute: Callable[[Systems], Result], systems: Systems, X: Sequences) -> Result:
    """Return ``compute(systems)``; raise if a series has no density, and warn if a diffuse start costs digits."""
    found = compute(systems)
    variance, noise = variances(systems)
    ratio = float((variance / noise).max(initial=0.0))
    cause = f"initial_covariance is {ratio:.0e} times the covariance of the noise"
    finite = np.isfinite(found.log_prob)
    if not finite.all():
        smaller = np.minimum(1.0, _DIFFUSE * noise / np.maximum(variance, 1e-300))
        smaller[variance > 1e29 * noise] = 1.0  # without noise, predictions are singular from any start
        less = compute(systems._replace(initial_covariance=systems.initial_covariance * smaller[:, None, None]))
        lost = np.flatnonzero(~finite & np.isfinite(less.log_prob))
        if len(lost):
            raise ValueError(
                f"{X.name(int(lost[0]) % len(X))} has no density in float64 under its model: {cause}, and no digit is "
                f"left. {_CURE}"
            )
        possible(found.log_prob.reshape(-1, len(X)), X)
    if ratio > _DIFFUSE:
        error = max(_difference(found, compute, systems, seed) for seed in range(3))
        if error > _ENOUGH:
            notify(f"About {int(-np.log10(min(10 * error, 1.0)))} digits of the results are left: {cause}. {_CURE}")
    return found


def _difference(found: Any, compute: Callable[[Systems], Any], systems: Systems, seed: int) -> float:
    """Return the largest relative difference to results with other units of the state."""
    a, b, c, offset, q, r, mu, s = systems
    unit = np.random.default_rng(seed).uniform(1, 2, a.shape[-1])
    both = unit[:, None] * unit
    other = compute(Systems(a * unit[:, None] / unit, b * unit, c / unit, offset, q * both, r, mu * unit, s * both))
    errors = [np.abs(found.log_prob - other.log_prob) / np.maximum(np.abs(found.log_prob), 1.0)]
    if isinstance(found, States) and found.means.size:
        scale = np.sqrt(np.maximum(np.diagonal(found.covariances, axis1=1, axis2=2), 0.0))
        scale = np.maximum(scale, 1e-6 * np.median(scale) + 1e-300)  # a state that is known has no standard deviation
        errors += [
            np.abs(found.means - other.means / unit) / np.maximum(scale, np.abs(found.means)),
            np.abs(found.covariances - other.covariances / both) / (scale[:, :, None] * scale[:, None, :]),
        ]
    elif isinstance(found, StateExpectations):  # one of the scores, which has no unit of the state
        errors.append(np.abs(found.observation - other.observation) / np.maximum(np.abs(found.observation).max(), 1.0))
    worst = max(float(part.max(initial=0.0)) for part in errors)
    return worst if np.isfinite(worst) else 1.0
