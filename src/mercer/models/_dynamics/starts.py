"""Starts of EM for linear dynamical systems: subspace identification from lagged covariances."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats, Indices

__all__ = ["start"]

_STABLE = 0.98
"""Largest absolute eigenvalue of the transition of a start."""
_NOISE = 0.05
"""Least share of a variance that a start leaves to the noise."""


def lagged_covariances(x: Floats, offsets: Indices, lags: int) -> Floats:
    """Covariances of observations ``k`` steps apart, ``(lags + 1, d, d)``, of centered series; NaN is left out."""
    seen = np.isfinite(x)
    filled = np.where(seen, x, 0.0)
    place = np.arange(len(x)) - np.repeat(offsets[:-1], np.diff(offsets))
    found = np.zeros((lags + 1, x.shape[1], x.shape[1]))
    for k in range(min(lags + 1, len(x))):
        later = np.flatnonzero(place >= k)
        if len(later):
            now, before = filled[later], filled[later - k]
            count = seen[later].T.astype(float) @ seen[later - k].astype(float)
            found[k] = now.T @ before / np.maximum(count, 1.0)
    return found


def start(
    x: Floats, offsets: Indices, n: int, center: Floats, scale: Floats, seed: int, attempt: int
) -> dict[str, Floats]:
    """Return the parameters of one system, each without a batch axis: the state has about unit variance.

    Parameters
    ----------
    x : array of shape (T, d)
        Observations; NaN is missing.
    offsets : array of shape (S + 1,)
        Series s has the observations ``offsets[s]:offsets[s + 1]``.
    n : int
        Number of state coordinates.
    center, scale : array of shape (d,)
        Mean and variance of each channel; the scale is positive.
    seed, attempt : int
        Starts after the first are perturbed at random.
    """
    d = x.shape[1]
    deviation = np.sqrt(scale)
    blocks = max(2, -(-n // d) + 1)
    covariances = lagged_covariances((x - center) / deviation, offsets, 2 * blocks)
    rng = np.random.default_rng([seed, attempt])
    hankel = np.block([[covariances[i + j + 1] for j in range(blocks)] for i in range(blocks)])
    if attempt:
        hankel = hankel + 0.3 * rng.normal(size=hankel.shape) * np.abs(hankel).max(initial=0.1)
    left, values, _ = np.linalg.svd(hankel)
    values = np.maximum(values[:n], 1e-3 * max(values[0], 1e-3))
    observability = left[:, :n] * np.sqrt(values)
    a = np.linalg.lstsq(observability[:-d], observability[d:], rcond=1e-6)[0]
    radius = np.abs(np.linalg.eigvals(a)).max(initial=0.0)
    a = a * min(1.0, _STABLE / max(radius, 1e-12))
    # State variances are singular values, as in a balanced realization, less where they exceed those of the data.
    c = observability[:d] / np.sqrt(values)
    share = np.minimum(1.0, (1 - _NOISE) / np.maximum((c**2 * values).sum(axis=1), 1e-12))
    root = np.sqrt(values)
    transition = a * root[None, :] / root[:, None]
    emission = c * root * np.sqrt(share.min())
    process = np.eye(n) - transition @ transition.T
    low, vectors = np.linalg.eigh((process + process.T) / 2)
    process = (vectors * np.maximum(low, _NOISE)) @ vectors.T
    noise = np.maximum(1.0 - (emission**2).sum(axis=1), _NOISE)
    return {
        "transition": transition,
        "emission": emission * deviation[:, None],
        "process_covariance": process,
        "observation_covariance": np.diag(noise * scale),
        "initial_mean": np.zeros(n),
        "initial_covariance": np.eye(n),
        "state_offset": np.zeros(n),
        "observation_offset": np.array(center),
    }
