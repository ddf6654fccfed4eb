"""Spectral solutions: from kernel matrices (HSE-3, HSE-7) or from features (HSE-8) to the operators of a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from mercer._array import Floats
from mercer._notices import notify
from mercer.embedding._comparison import check_semidefinite

RANK = 1e-7
"""Singular values below this fraction of the largest are rounding."""
CHUNK = 1 << 21
"""Number of products of two coordinates that are held at a time."""


@dataclass(frozen=True)
class Operators:
    """What a filter needs; N components, m training triples.

    Parameters
    ----------
    reads : array of shape (m, N)
        Weights over the training triples from a belief, ``v = reads @ b``.
    writes : array of shape (m, N)
        Coordinates of the shifted future window of every triple.
    start, normalizer : array of shape (N,)
        The first belief, normalized; the functional that is 1 on beliefs.
    unseen : array of shape (N, N)
        Operator of a missing step: the sum over all training points with equal weights.
    metric : array of shape (N, N)
        Inner products of the embedded predictions, ``b' metric b'`` (HSE-9).
    radius : float
        Largest distance of an embedded training window from the first belief.
    gain : array of shape (r, N * N), or None
        Operators of the features of an observation; None in the exact form.
    factor : tuple or None
        Cholesky factor of the regularized kernel matrix of observations in the exact form.
    singular_values : array
        Those that were kept.
    """

    reads: Floats
    writes: Floats
    start: Floats
    normalizer: Floats
    unseen: Floats
    metric: Floats
    radius: float
    gain: Floats | None
    factor: Any
    singular_values: Floats

    @property
    def n(self) -> int:
        """Number of components."""
        return len(self.start)

    def codes(self, compared: Floats) -> Floats:
        """Return what multiplies the operators of every step, from features or kernel values ``(T, r)``."""
        if self.gain is not None:
            return compared
        return len(self.reads) * linalg.cho_solve(self.factor, compared.T, check_finite=False).T


def kept(values: Floats, n: int) -> int:
    """Return the number of components, at most the numerical rank; warn if it is reduced."""
    rank = int(np.sum(values > RANK * values[0])) if len(values) and values[0] > 0 else 0
    if rank == 0:
        raise ValueError(
            "Past and future windows have no covariance, so there is nothing to predict. Pass data that vary, or "
            "another kernel."
        )
    if rank < n:
        notify(
            f"n_components = {n} is above the numerical rank of the covariance of past and future windows; it was "
            f"reduced to {rank}. Set n_components to at most {rank}."
        )
    return min(n, rank)


def from_grams(
    past: Floats, future: Floats, shifted: Floats, observed: Floats, first: Floats, n: int, alpha: float, solver: str
) -> Operators:
    """Solve with kernel matrices of m training triples, O(m^3).

    Parameters
    ----------
    past, future, shifted, observed : array of shape (m, m)
        Kernels of past windows, of future windows, of future windows (rows) with shifted ones (columns), and of
        current observations.
    first : array of shape (m,)
        Mean of the kernel of future windows with the windows that sequences start with.
    n : int
        Number of components.
    alpha : float
        Regularization.
    solver : {"svd", "reduced_rank"}
        How the subspace is chosen.
    """
    m = len(past)
    values, vectors = np.linalg.eigh(future)
    check_semidefinite(values, "training windows")
    keep = values > 1e-10 * values[-1]
    roots, vectors = np.sqrt(values[keep]), vectors[:, keep]
    half = vectors * roots  # future = half @ half.T
    middle = past
    if solver == "reduced_rank":
        own, basis = np.linalg.eigh(past)
        middle = (basis * (own / (np.maximum(own, 0.0) + alpha * m))) @ basis.T
    omega, z = np.linalg.eigh(half.T @ middle @ half)
    omega, z = omega[::-1], z[:, ::-1]
    singular = np.sqrt(np.maximum(omega, 0.0)) / m
    n = kept(singular, n)
    directions = (vectors / roots) @ z[:, :n]  # orthonormal in the feature space: directions' future directions = 1
    reach = past @ (future @ directions)
    # reach' (future directions) is the square of U' C21; its inverse makes the pseudo-inverse (HSE-3).
    reads = np.linalg.solve((future @ directions).T @ reach, reach.T).T
    writes = shifted.T @ directions
    weighted = observed + alpha * m * np.eye(m)
    try:
        factor = linalg.cho_factor(weighted, lower=True, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(
            "The kernel matrix of the observations is not positive semi-definite. Use a positive semi-definite kernel, "
            "or a larger alpha."
        ) from None
    return _finished(reads, writes, directions.T @ first, future @ directions, None, factor, singular[:n], future)


def from_features(
    past: Floats,
    future: Floats,
    shifted: Floats,
    observed: Floats,
    first: Floats,
    n: int,
    alpha: float,
    solver: str,
) -> Operators:
    """Solve with features of m training triples, O(m r^2 + m r N^2); the same as `from_grams` for their kernel.

    Parameters
    ----------
    past, future, shifted : array of shape (m, r)
        Features of windows.
    observed : array of shape (m, s)
        Features of current observations.
    first : array of shape (r,)
        Mean of the features of the windows that sequences start with.
    n, alpha, solver
        As in `from_grams`.
    """
    m = len(past)
    crossed = future.T @ past / m
    target = crossed
    if solver == "reduced_rank":
        own, basis = np.linalg.eigh(past.T @ past / m)
        target = (crossed @ basis) / np.sqrt(np.maximum(own, 0.0) + alpha) @ basis.T
    left, singular, _ = np.linalg.svd(target, full_matrices=False)
    n = kept(singular, n)
    left = left[:, :n]
    reached = left.T @ crossed
    inverse = np.linalg.solve(reached @ reached.T, reached).T
    reads, writes, coordinates = past @ inverse / m, shifted @ left, future @ left
    gain = products(observed, writes, reads)
    second = observed.T @ observed / m + alpha * np.eye(observed.shape[1])
    gain = linalg.solve(second, gain, assume_a="pos", check_finite=False)
    embedded = crossed @ inverse
    return _finished(reads, writes, left.T @ first, coordinates, gain, None, singular[:n], embedded.T @ embedded)


def products(observed: Floats, writes: Floats, reads: Floats) -> Floats:
    """Return the sums over triples of ``observed_c writes_a reads_b``, ``(r, N * N)``, in chunks."""
    m, n = writes.shape
    out = np.zeros((observed.shape[1], n * n))
    step = max(CHUNK // (n * n), 1)
    for begin in range(0, m, step):
        part = slice(begin, begin + step)
        pairs = (writes[part, :, None] * reads[part, None, :]).reshape(-1, n * n)
        out += observed[part].T @ pairs
    return out


def _finished(
    reads: Floats,
    writes: Floats,
    start: Floats,
    coordinates: Floats,
    gain: Floats | None,
    factor: Any,
    singular: Floats,
    gram: Floats,
) -> Operators:
    """Normalize the start, and measure how far training windows are from it."""
    normalizer = reads.sum(axis=0)
    scale = float(normalizer @ start)
    if not np.isfinite(scale) or abs(scale) < 1e-6:
        raise ValueError(
            "The first belief cannot be normalized: past windows do not predict future ones. Use fewer components, a "
            "larger alpha or more data."
        )
    start = start / scale
    radius = float(np.sqrt(np.max(np.sum((coordinates - start) ** 2, axis=1))))
    metric = reads.T @ gram @ reads if factor is not None else gram
    unseen, metric = writes.T @ reads, (metric + metric.T) / 2
    return Operators(reads, writes, start, normalizer, unseen, metric, max(radius, 1e-300), gain, factor, singular)
