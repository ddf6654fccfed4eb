"""Starts of mixtures: points as vectors, variances, seeded generators and k-means++ seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._random import seeds
from mercer.families.estimator import Context


def side_by_side(columns: list[Any]) -> Any:
    """Join m batches of shape ``(n,)`` into one of shape ``(n, m)``."""
    n, m = len(columns[0]), len(columns)
    joined = type(columns[0]).concat(columns)
    return joined[np.arange(n * m).reshape(m, n).T.ravel()].reshape(n, m)


def numbers(x: Any, context: Context) -> Floats:
    """Return points as vectors, for distances: counts, one-hot symbols, standardized coordinates with 0 for NaN."""
    if context.alphabet is not None:
        return context.alphabet.indicators(np.asarray(x))
    dense = x.dense() if hasattr(x, "indptr") else np.asarray(x, dtype=float)
    if context.center is not None:
        dense = dense - context.center
    if context.scale is not None:
        dense = dense / np.sqrt(context.scale)
    return np.nan_to_num(dense)


def spread(x: Floats) -> Floats:
    """Return variances of the coordinates, ignoring NaN, rounded to powers of two; 1 if a coordinate does not vary.

    Rounding makes them equal for most folds of a cross-validation, which can then share cached fits.
    """
    seen = ~np.isnan(x)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, x, 0.0).sum(axis=0) / count
    variance = np.where(seen, x - mean, 0.0)
    variance = np.sum(variance * variance, axis=0, dtype=float) / count
    varies = variance > (8 * np.finfo(x.dtype if x.dtype.kind == "f" else float).eps * np.abs(mean)) ** 2
    return np.where(varies, 2.0 ** np.round(np.log2(np.where(varies, variance, 1.0))), 1.0)


def seed_shares(x: Floats, weights: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Assign points to k-means++ seeds after a few Lloyd steps, softly, so that no component starts empty."""
    means = x[seeds(x, weights, n, rng)]
    label = np.zeros(len(x), dtype=int)
    for _ in range(5):
        label = np.argmin(((x[:, None, :] - means) ** 2).sum(axis=-1), axis=1)
        for j in range(n):
            inside = label == j
            if np.any(weights[inside] > 0):
                means[j] = np.average(x[inside], axis=0, weights=weights[inside])
    return 0.9 * np.eye(n)[label] + 0.1 / n
