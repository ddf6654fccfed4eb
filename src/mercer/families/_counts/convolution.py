"""Sums over all vectors of counts of a given total, one convolution over the outcomes for every pair (PPK-3.3)."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, logsumexp, namespace

Terms: TypeAlias = Callable[[slice], Array]
"""Logarithms of the terms of some outcomes: a slice of w outcomes gives ``(*B, n, w, trials + 1)``."""

WIDTH = 64
"""Outcomes whose terms are made at a time."""
STATE = 1 << 22
"""Bytes of the tables of pairs that are worked on together."""


def log_factorials(n: int) -> list[float]:
    """Logarithms of 0!, ..., n!."""
    return [float(f) for f in np.cumsum(np.log(np.maximum(np.arange(n + 1), 1)))]


def log_sum_over_counts(left: Terms, right: Terms, outcomes: int, trials: int, rho: float) -> Array:
    """Log of the sum over all counts x of total ``trials`` of the product over d of the terms of x_d of both sides.

    Parameters
    ----------
    left, right : callables
        Logarithms of the terms of either side, each at most -rho log n! for the count n.
    outcomes : int
        How many there are.
    trials : int
        The total of the counts.
    rho : float
        The power in the terms.

    Returns
    -------
    array of shape (*B, n, m)
    """
    sample = left(slice(0, 1)), right(slice(0, 1))
    if all(is_numpy_array(side) and side.dtype == np.float64 and side.ndim == 3 for side in sample):
        return _in_lanes(left, right, outcomes, trials, rho)
    xp = namespace(*sample)
    table: list[Array] | None = None
    for d in range(outcomes):
        mine, theirs = (side(slice(d, d + 1))[..., 0, :] for side in (left, right))
        terms = [mine[..., :, None, n] + theirs[..., None, :, n] for n in range(trials + 1)]
        if table is None:
            table = terms
            continue
        table = [
            logsumexp(xp.stack([table[j] + terms[s - j] for j in range(s + 1)], axis=-1), axis=-1)
            for s in range(trials + 1)
        ]
    assert table is not None
    return table[trials]


def _in_lanes(left: Terms, right: Terms, outcomes: int, trials: int, rho: float) -> Floats:
    """Convolve numbers instead of logarithms, many times as fast; pairs that may have lost digits go by logarithms.

    Counts are tilted by s^(rho n), so that the sums are near exp(2 rho s) times the kernel. What underflows on the way
    is multiplied by at most that and the number of count vectors: a sum far above this bound has all of its digits.
    """
    from mercer.families._counts import convolution_lanes as lanes

    tilt = rho * np.log(trials) * np.arange(trials + 1)
    parts = [slice(first, min(first + WIDTH, outcomes)) for first in range(0, outcomes, WIDTH)]
    n, m = len(left(slice(0, 1))), len(right(slice(0, 1)))
    value = np.full((n, m), -np.inf)
    if not n or not m:
        return value
    if m < lanes.LANES < n:  # most lanes would idle
        return np.ascontiguousarray(_in_lanes(right, left, outcomes, trials, rho).T)
    step = max(1, STATE // (8 * (trials + 1) * m))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        state = lanes.beginning(len(value[rows]), m, trials)
        for part in parts:
            lanes.advance(state, np.exp(left(part)[rows] + tilt), lanes.in_lanes(np.exp(right(part) + tilt)))
        value[rows] = lanes.ending(state, m)
    vectors = lgamma(trials + outcomes) - lgamma(trials + 1) - lgamma(outcomes)
    limits: Any = np.finfo(float)
    bound = np.log(limits.tiny / limits.eps) + vectors + 2 * rho * trials
    value = np.where(value > bound, value, np.nan)
    far = np.nonzero(~np.isfinite(value))
    value = value - 2 * tilt[-1]
    if len(far[0]):
        logs = np.full((len(far[0]), trials + 1), -np.inf)
        logs[:, 0] = 0.0
        for part in parts:
            lanes.advance_logs(logs, left(part), right(part), *far)
        value[far] = logs[:, trials]
    return value
