"""Weighted fit of many Gaussians at once: the same as `Gaussian.fit_weighted`, in two passes of a compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.families.gaussian import Gaussians


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

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points; missing coordinates (NaN) are left out, for diagonal covariances only.
    weights : ndarray of shape (T, k)
        Weight of each point in each of the k Gaussians.
    offsets : ndarray of int of shape (N + 1,)
        Sample i has the points ``offsets[i]:offsets[i + 1]``.
    floor : float
        Variance of each point (EST-1).
    start : Gaussians of shape (N, k)
        The result where all weights are zero; its structure is that of the fit.
    prior : Gaussians of shape (1, k) or (1,), default=None
        The Gaussians that estimates are shrunk to.
    strength : float, default=0.0
        Weight of the prior, in observations.

    Returns
    -------
    Gaussians of shape (N, k)
    """
    from mercer.compiled.moments import full_moments, moments

    x, weights = (np.ascontiguousarray(a, dtype=np.float64) for a in (x, weights))
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    old = np.array(to_numpy(start.mean), dtype=np.float64)
    mass, total, nothing = np.empty_like(old), np.empty_like(old), np.empty((0, 0, 0))
    moments(x, weights, offsets, old, mass, total, nothing)
    noise = floor * mass  # every point varies by itself
    if prior is not None:
        single = prior.reshape(1, 1) if prior.ndim == 1 else prior
        m0, s0 = to_numpy(single.mean), to_numpy(single.covariance)
        total, mass = total + strength * (m0 - old), mass + strength
    empty = mass <= 0
    mean = old + total / np.where(empty, 1.0, mass)
    full = start.structure == "full"
    second = np.empty((*mean.shape, mean.shape[-1]) if full else mean.shape)
    if full:
        full_moments(x, weights, offsets, mean, second)
    else:
        moments(x, weights, offsets, mean, nothing, nothing, second)
    covariance = to_numpy(start.covariance)
    if full:
        second += noise[..., None] * np.eye(mean.shape[-1])
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
            found, empty = found.mean(axis=-1), empty[..., 0]
        found = np.where(empty, covariance, found)
    return Gaussians._make(mean=mean, covariance=found, structure=start.structure)
