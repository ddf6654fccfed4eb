"""Bandwidths of kernel density estimates, as variances: Silverman's rule and least-squares cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mercer._array import Floats
from mercer._parallel import n_threads, thread_map
from mercer.data.segments import segment_sum
from mercer.models._kde.points import two_sums

if TYPE_CHECKING:
    from mercer._native.points import PointSets

WIDEST = 4.0
"""The search starts at this multiple of Silverman's variance and halves it repeatedly."""
GOLDEN = (math.sqrt(5) - 1) / 2
STEPS = 26
"""Golden-section steps on an interval of factor 4, for a relative precision of 5e-6."""


def silverman(data: Floats, indptr: Floats) -> Floats:
    """Silverman's rule for every set, ``(N,)``: optimal for points from an isotropic Gaussian.

    h = s (4 / ((d + 2) m))^(2 / (d + 4)), with s the average variance of the coordinates; 0 for one point.
    """
    sizes, d = np.diff(indptr), data.shape[1]
    least = np.maximum(sizes, 1)
    mean = segment_sum(data, indptr) / least[:, None]
    square = segment_sum(np.sum((data - np.repeat(mean, sizes, axis=0)) ** 2, axis=1), indptr)
    spread = square / (d * np.maximum(sizes - 1, 1))
    return np.asarray(spread * (4 / ((d + 2) * least)) ** (2 / (d + 4)))


def shrunk(bandwidth: Floats, sizes: Floats, scale: float, strength: float, dimension: int) -> Floats:
    """Shrink log bandwidths to those that ``scale`` implies for sets of these sizes.

    The best bandwidth of m points from one density falls as m^(-2 / (d + 4)); its scale, h m^(2 / (d + 4)), is
    comparable between sets of different sizes. A bandwidth of 0 is unknown and becomes that of the prior.
    """
    known = bandwidth > 0
    usual = scale / scale_factor(sizes, dimension)
    share = sizes / (sizes + strength)
    ratio = np.where(known, bandwidth, usual) / usual
    return np.asarray(usual * ratio**share)


def scale_factor(sizes: Floats, dimension: int) -> Floats:
    """Return m^(2 / (d + 4)), the factor that converts a bandwidth to that of a single point."""
    return np.asarray(sizes, dtype=float) ** (2 / (dimension + 4))


def pooled_scale(bandwidth: Floats, sizes: Floats, dimension: int) -> float:
    """Average the log scales of known bandwidths, weighted by the number of points; 0 if none is known."""
    known = bandwidth > 0
    if not known.any():
        return 0.0
    logs = np.log(bandwidth[known] * scale_factor(sizes[known], dimension))
    return float(np.exp(np.average(logs, weights=sizes[known])))


def criterion(packed: PointSets, sizes: Floats, bandwidth: Floats, unit: Floats) -> Floats:
    """Least-squares criterion of every set of two points or more (EST-6), times (4 pi unit)^(d/2)."""
    d, m = packed.points[0].shape[1], sizes.astype(float)
    sums = np.empty((len(sizes), 2))

    def work(part: Floats) -> None:
        sums[part] = two_sums(packed[part], 1 / (4 * bandwidth[part]))

    pieces = np.array_split(np.arange(len(sizes)), min(len(sizes), 8 * n_threads()))
    thread_map(work, pieces, threads=n_threads(), label="bandwidths")
    # N(x; 0, 2h) is exp(-x^2 / 4h) (4 pi h)^(-d/2), and N(x; 0, h) the square of that exponential times 2^(d/2)
    bracket = sums[:, 0] / m**2 - 2 ** (d / 2) * 2 * (sums[:, 1] - m) / (m * (m - 1))
    return np.asarray(bracket * np.exp(np.minimum(-d / 2 * np.log(bandwidth / unit), 600.0)))


def cross_validated(data: Floats, indptr: Floats, floor: Floats) -> Floats:
    """Minimize the least-squares criterion (EST-6) for every set, not below ``floor (N,)``.

    Repeated halving from four times Silverman's variance brackets the lowest minimum; golden-section search refines it.
    """
    from mercer._native.points import PointSets

    best = np.maximum(silverman(data, indptr), floor)
    sizes = np.diff(indptr)
    active = np.flatnonzero((sizes > 1) & (best > floor))
    if not len(active):
        return best
    packed, sizes, floor = PointSets.of(data, indptr)[active], sizes[active], floor[active]
    top = np.log(WIDEST * best[active])
    low = np.log(np.maximum(floor, np.finfo(float).tiny))
    low = np.maximum(low, top - 40 * math.log(2))  # with a floor of 0, down to Silverman's variance times 4e-12
    unit = np.exp(top)

    def at(log_bandwidth: Floats) -> Floats:
        return criterion(packed, sizes, np.exp(log_bandwidth), unit)

    middle, value = _ladder(at, top, low)
    left, right = np.maximum(middle - math.log(2), low), middle + math.log(2)
    a, b = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
    at_a, at_b = at(a), at(b)
    for _ in range(STEPS):
        smaller = at_a < at_b
        left, right = np.where(smaller, left, a), np.where(smaller, b, right)
        a, b = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
        fresh = at(np.where(smaller, a, b))
        at_a, at_b = np.where(smaller, fresh, at_b), np.where(smaller, at_a, fresh)
    found, lowest = np.where(at_a < at_b, a, b), np.minimum(at_a, at_b)
    found = np.where(value < lowest, middle, found)  # the grid point, if its neighborhood has two minima
    best[active] = np.maximum(np.exp(found), floor)
    return best


def _ladder(at: Callable[[Floats], Floats], top: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Return the minimizer of the criterion among top, top / 2, ..., low, and its value."""
    best, value = top, at(top)
    for step in range(1, math.ceil(float(np.max(top - low)) / math.log(2)) + 1):
        here = np.maximum(top - step * math.log(2), low)
        found = at(here)
        best, value = np.where(found < value, here, best), np.where(found < value, found, value)
    return best, value
