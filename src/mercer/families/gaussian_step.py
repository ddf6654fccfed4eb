"""Weighted fit of many Gaussians at once: the same as `Gaussian.fit_weighted`, in two passes of a compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._native.moments import moments
from mercer.data.segments import segment_sum
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_gaps import gaps_of


def fit_gaussians(
    x: Floats,
    weights: Floats,
    offsets: Floats,
    floor: float,
    start: Gaussians,
    prior: Any = None,
    strength: float = 0.0,
) -> Gaussians:
    """Fit Gaussians to weighted points, shrunk to a prior in mean parameters (DJS-6): means, then central moments.

    Missing coordinates are left out if covariances are diagonal or isotropic, which is exact. With full covariances,
    ``start`` says what is expected of them: the fit is one step of EM, which never decreases the density of what was
    observed.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points; NaN is missing.
    weights : ndarray of shape (T, k)
        Weight of each point in each of the k Gaussians.
    offsets : ndarray of int of shape (N + 1,)
        Sample i has the points ``offsets[i]:offsets[i + 1]``.
    floor : float
        Variance of each point (EST-1).
    start : Gaussians of shape (N, k)
        The result where all weights are zero; its structure is that of the fit, and it completes points.
    prior : Gaussians of shape (1, k) or (1,), default=None
        The Gaussians that estimates are shrunk to.
    strength : float, default=0.0
        Weight of the prior, in observations.

    Returns
    -------
    Gaussians of shape (N, k)
    """
    x, weights = (np.ascontiguousarray(a, dtype=np.float64) for a in (x, weights))
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    old = np.array(to_numpy(start.mean), dtype=np.float64)
    full, lacking = start.structure == "full", np.asarray(np.isnan(x).any(axis=1))
    incomplete = _expected_sums(x, weights, offsets, floor, start) if full and lacking.any() else None
    if incomplete is not None:
        weights = np.where(lacking[:, None], 0.0, weights)
    mass, total, _, _ = moments(x, weights, offsets, old, first=True)
    noise = floor * mass  # every point varies by itself
    if incomplete is not None:
        mass, total = mass + incomplete.mass[..., None], total + incomplete.first
    if prior is not None:
        single = prior.reshape(1, 1) if prior.ndim == 1 else prior
        m0, s0 = to_numpy(single.mean), to_numpy(single.covariance)
        total, mass = total + strength * (m0 - old), mass + strength
    empty = mass <= 0
    mean = old + total / np.where(empty, 1.0, mass)
    central = moments(x, weights, offsets, mean, second=not full, full=full)
    second = central.full if full else central.second
    covariance = to_numpy(start.covariance)
    if full:
        second += noise[..., None] * np.eye(mean.shape[-1])
        if incomplete is not None:
            second += _moved(incomplete, mean - old)
        if prior is not None:
            difference = m0 - mean
            second += strength * (s0 + difference[..., :, None] * difference[..., None, :])
        found = np.where(empty[..., None], covariance, second / np.where(empty, 1.0, mass)[..., None])
    else:
        second += noise
        if prior is not None:
            spread = s0 if start.structure == "diagonal" else s0[..., None]
            second += strength * (spread + (m0 - mean) ** 2)
        found = second / np.where(empty, 1.0, mass)
        if start.structure == "isotropic":
            found, empty, count = found.mean(axis=-1), np.asarray(empty.all(axis=-1)), mass.sum(axis=-1)
            uneven = (mass != mass[..., :1]).any(axis=-1)  # coordinates count by how often they were observed
            found = np.where(uneven, second.sum(axis=-1) / np.where(uneven, count, 1.0), found)
        found = np.where(empty, covariance, found)
    return Gaussians._make(mean=mean, covariance=found, structure=start.structure)


def _moved(sums: _Sums, change: Floats) -> Floats:
    """Return the second moments about means that are larger by ``change``."""
    cross = sums.first[..., :, None] * change[..., None, :]
    square = change[..., :, None] * change[..., None, :]
    found = sums.second - cross - cross.swapaxes(-2, -1) + sums.mass[..., None, None] * square
    return np.asarray((found + found.swapaxes(-2, -1)) / 2)


class _Sums(NamedTuple):
    """Expected sums over points with missing coordinates, about the means of N x n Gaussians."""

    mass: Floats
    """Sum of the weights, ``(N, n)``."""
    first: Floats
    """Sum of w E[x - mean], ``(N, n, d)``."""
    second: Floats
    """Sum of w E[(x - mean)(x - mean)'], ``(N, n, d, d)``."""


def _expected_sums(x: Floats, weights: Floats, offsets: Indices, floor: float, current: Gaussians) -> _Sums:
    """Sum what current Gaussians with full covariances expect of incomplete points, given the coordinates they have.

    A missing coordinate is ``mean_m + S_mo S_oo^-1 (x_o - mean_o)`` with the covariance ``S_mm - S_mo S_oo^-1 S_om``.
    Each coordinate that is observed has the variance ``floor`` of its own (EST-1). Parameters as in `fit_gaussians`.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=np.float64) for part in (current.mean, current.covariance))
    n, d = mean.shape[1:]
    total = _Sums(np.zeros(mean.shape[:2]), np.zeros(mean.shape), np.zeros(covariance.shape))
    for part in gaps_of(x, np.repeat(np.arange(len(mean)), np.diff(offsets))).blocks(n):
        points, shares, center = x[part.rows], weights[part.rows], mean[part.owner]
        ends = np.ascontiguousarray(part.offsets, dtype=np.int64)
        mass = segment_sum(shares, ends)
        _, first, _, second = moments(points, shares, ends, center, first=True, full=True)
        own, seen = covariance[part.owner], part.seen[:, None, :, None]
        second = np.where(part.both, second + mass[..., None, None] * floor * np.eye(d), 0.0)
        # E[x - mean] = gain (x - mean), of what is seen
        gain = np.where(seen, np.eye(d), own @ part.precisions(covariance))
        unseen = ~seen & ~seen.swapaxes(-2, -1)
        spread = np.where(unseen, own - gain @ own, 0.0)
        np.add.at(total.mass, part.owner, mass)
        np.add.at(total.first, part.owner, (gain @ first[..., None])[..., 0])
        np.add.at(total.second, part.owner, gain @ second @ gain.swapaxes(-2, -1) + mass[..., None, None] * spread)
    return total
