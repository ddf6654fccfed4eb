"""Likelihoods of observations under the states of hidden Markov models, for emissions of any family or mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Floats, as_float, logsumexp, safe_log, to_numpy
from mercer._native.gaussians import gaussian_rows
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_gaps import gaps_of
from mercer.models._forward.interface import CHUNK_SECONDS, Densities, Evidence, Symbols, share

LOG_2PI = math.log(2 * math.pi)
CELLS = 20_000
"""Points times states whose densities are computed at once, so that the parameters stay in the cache."""


def evidence_of(emission: Any, x: Any, owner: Floats) -> Evidence:
    """Compute the likelihood of every point under the states of its own model.

    Parameters
    ----------
    emission : batch of shape (N, n)
        Emission distributions of n states of N models.
    x : ndarray of shape (T, ...)
        Points: symbol codes or vectors.
    owner : ndarray of int of shape (T,)
        Index of the model of each point, ascending.
    """
    if isinstance(emission, Categoricals):
        return Symbols(np.asarray(x), code_probabilities(emission))
    return Densities(row_log_prob(emission, x, owner))


def code_probabilities(emission: Categoricals) -> Floats:
    """Probability of every code, ``(*B, n_codes)``; ambiguity codes sum over their symbols, the missing code has 1."""
    p = to_numpy(emission.probability).astype(np.float64, copy=False)
    k, sets = p.shape[-1], emission.alphabet.ambiguity
    table = np.ones((*p.shape[:-1], k + len(sets) + 1))
    table[..., :k] = p
    if len(sets):
        table[..., k:-1] = p @ sets.T
    return table


def row_log_prob(emission: Any, x: Any, owner: Floats) -> Floats:
    """Log density of every point in the states of its own model, ``(T, n)``.

    Gaussians and their mixtures use compiled loops; other families broadcast every point against its own states.
    """
    if isinstance(emission, Gaussians):
        return _gaussian(emission, x, owner)
    if hasattr(emission, "components"):  # mixtures import this file
        return _mixture(emission, x, owner)
    if hasattr(x, "indptr") or len(emission) == 1:  # sparse rows cannot be aligned with a batch of models
        return _by_model(emission, x, owner)
    table = np.empty((x.shape[0], int(emission.shape[-1])))
    for rows in _blocks(x, table.shape[1]):
        aligned = emission[owner[rows]]  # the states of every point's model
        table[rows] = to_numpy(aligned.log_prob(x[rows][:, None]))[..., 0]
    return table


def _by_model(emission: Any, x: Any, owner: Floats) -> Floats:
    """Evaluate one model at a time, in blocks that fit into the cache."""
    table = np.empty((x.shape[0], int(emission.shape[-1])))
    ends = np.searchsorted(owner, np.arange(len(emission) + 1))
    for i in range(len(emission)):
        part, found = x[int(ends[i]) : int(ends[i + 1])], table[int(ends[i]) : int(ends[i + 1])]
        for rows in _blocks(part, table.shape[1]):
            found[rows] = to_numpy(emission[i].log_prob(part[rows])).T
    return table


def _blocks(x: Any, n: int) -> Iterator[Any]:
    """Split points into blocks; those with missing coordinates are separate, so they never change the others' bits."""
    step = max(1, CELLS // n)
    if hasattr(x, "indptr") or x.dtype.kind != "f" or not np.isnan(x).any():
        yield from (slice(begin, begin + step) for begin in range(0, x.shape[0], step))
        return
    missing = np.isnan(x).any(axis=tuple(range(1, x.ndim)))
    for kind in (missing, ~missing):
        rows = np.flatnonzero(kind)
        yield from (rows[begin : begin + step] for begin in range(0, len(rows), step))


def _gaussian(emission: Gaussians, x: Any, owner: Floats) -> Floats:
    x = np.asarray(emission._checked_points(as_float(to_numpy(x))), dtype=np.float64)
    emission._require_regular("a density")
    mean, covariance = to_numpy(emission.mean), to_numpy(emission.covariance)
    table = _densities(mean, covariance, x, owner)
    if emission.structure == "full":
        table[np.isnan(x).all(axis=1)] = 0.0
        for part in gaps_of(x, owner).blocks(mean.shape[1]):
            # A missing coordinate is a standard normal at its mean, whose density is then taken off.
            seen = part.seen[part.group]
            points, centers = np.where(seen, x[part.rows], 0.0), np.where(part.seen[:, None], mean[part.owner], 0.0)
            found = _densities(centers, part.covariances(covariance), points, part.group)
            table[part.rows] = found + LOG_2PI / 2 * (~seen).sum(axis=1, keepdims=True)
    return table


def _densities(mean: Floats, covariance: Floats, x: Floats, owner: Floats) -> Floats:
    """Log densities of points under the Gaussians of their models, ``(T, n)``; NaN if they are incomplete."""
    d, full = mean.shape[2], covariance.ndim > mean.ndim
    table = np.empty((len(x), mean.shape[1]))
    mean, covariance = mean.astype(np.float64, copy=False), covariance.astype(np.float64, copy=False)

    def work(rows: slice) -> None:
        gaussian_rows(x[rows], owner[rows], mean, covariance, table[rows])

    pieces, seconds = _pieces(len(x), (10 + table.shape[1] * (d * (d + 1) / 2 if full else d) / 2) * 1e-9)
    share(work, pieces, seconds)
    return table


def _mixture(emission: Any, x: Any, owner: Floats) -> Floats:
    """Log of the sum over components, each evaluated like a separate state."""
    weights = safe_log(to_numpy(emission.weights))
    models, n, m = weights.shape
    parts = emission.components.reshape(models, n * m)
    table = np.empty((x.shape[0], n))
    step = max(1, CELLS * 10 // (n * m))
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        if isinstance(parts, Categoricals):
            logs = safe_log(code_probabilities(parts))[owner[rows], :, np.asarray(x[rows])]
        else:
            logs = row_log_prob(parts, x[rows], owner[rows])
        table[rows] = logsumexp(logs.reshape(-1, n, m) + weights[owner[rows]], axis=-1)
    return table


def _pieces(count: int, each: float) -> tuple[list[slice], float]:
    """Split points into pieces for threads; the split depends on the points only, not on the number of threads."""
    step = max(1, int(CHUNK_SECONDS / each))
    return [slice(begin, begin + step) for begin in range(0, count, step)], count * each
