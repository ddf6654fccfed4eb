"""Spectral solutions: from kernel matrices (HSE-3, HSE-7) or from features (HSE-8) to the operators of a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from mercer._array import Floats
from mercer._notices import notify
from mercer.embedding._comparison import check_semidefinite
from mercer.embedding._moments import Moments, Rows, Third

RANK = 1e-7
"""Singular values below this fraction of the largest are rounding."""


@dataclass(frozen=True)
class Operators:
    """Parameters of a filter; N components, m training triples.

    Parameters
    ----------
    start, normalizer : array of shape (N,)
        The first belief, normalized; the functional that is 1 on beliefs.
    unseen : array of shape (N, N)
        Operator of a missing step: the sum over all training points with equal weights.
    metric : array of shape (N, N)
        Inner products of the embedded predictions, ``b' metric b'`` (HSE-9).
    radius : float
        Largest norm of the features of a training window. A belief is a mean of such features, projected, so that it
        cannot be longer.
    singular_values : array
        Those that were kept.
    gain : array of shape (r, N * N), or None
        Operators of the features of an observation; None in the exact form.
    density, mean : array of shape (r, N), array of shape (d, N), or None
        Predicted features of the next observation, and its mean, from a belief; None in the exact form.
    reads, writes : array of shape (m, N), or None
        Exact form: weights over the training triples from a belief, ``v = reads @ b``; coordinates of the shifted
        future window of every triple.
    factor : tuple or None
        Exact form: Cholesky factor of the regularized kernel matrix of observations.
    """

    start: Floats
    normalizer: Floats
    unseen: Floats
    metric: Floats
    radius: float
    singular_values: Floats
    gain: Floats | None = None
    density: Floats | None = None
    mean: Floats | None = None
    reads: Floats | None = None
    writes: Floats | None = None
    factor: Any = None

    @property
    def n(self) -> int:
        """Number of components."""
        return len(self.start)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of entries of a code and of an operator; of training triples in the exact form."""
        if self.gain is not None:
            return self.gain.shape[0], self.gain.shape[1]
        assert self.reads is not None
        return len(self.reads), len(self.reads)

    def codes(self, compared: Floats) -> Floats:
        """Return the factors of the operators of every step, from features or kernel values ``(T, r)``."""
        if self.factor is None:
            return compared
        return compared.shape[1] * linalg.cho_solve(self.factor, compared.T, check_finite=False).T


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
    return _finished(
        directions.T @ first,
        reads.sum(axis=0),
        writes.T @ reads,
        reads.T @ future @ reads,
        float(np.sqrt(np.diagonal(future).max())),
        singular[:n],
        reads=reads,
        writes=writes,
        factor=factor,
    )


def from_moments(
    moments: Moments, source: Rows | Third, start: str, n: int, alpha: float, solver: str
) -> tuple[Operators, Floats]:
    """Solve with features, O(m r^2 + m r N^2) in all; the same as `from_grams` for their kernel.

    Parameters
    ----------
    moments : Moments
        Sums over the training triples.
    source : Rows or Third
        Makes sums of products of three features, two of them projected.
    start : {"stationary", "first"}
        The first belief: the mean of all future windows, or of those that sequences begin with.
    n, alpha, solver
        As in `from_grams`.

    Returns
    -------
    operators : Operators
    right : array of shape (r, N)
        Weights of the training triples from the features of their past windows, ``reads = z_past @ right``.
    """
    m = moments.count
    crossed = moments.crossed / m
    target = crossed
    if solver == "reduced_rank":
        own, basis = np.linalg.eigh(moments.own / m)
        target = (crossed @ basis) / np.sqrt(np.maximum(own, 0.0) + alpha) @ basis.T
    left, singular, _ = np.linalg.svd(target, full_matrices=False)
    n = kept(singular, n)
    left = left[:, :n]
    reached = left.T @ crossed
    inverse = np.linalg.solve(reached @ reached.T, reached).T
    projected = source.project(left, inverse / m)
    second = moments.observed / m
    second[np.diag_indices_from(second)] += alpha
    # Rows of the transpose are contiguous: a step reads each of them once.
    gain = np.ascontiguousarray(linalg.solve(second, projected.gain, assume_a="pos", check_finite=False).T).T
    embedded = crossed @ inverse
    first = moments.first / moments.firsts if start == "first" else moments.future / m
    operators = _finished(
        left.T @ first,
        inverse.T @ moments.past / m,
        projected.unseen,
        embedded.T @ embedded,
        moments.longest,
        singular[:n],
        gain=gain,
        density=projected.density,
        mean=projected.mean,
    )
    return operators, inverse / m


def _finished(
    start: Floats,
    normalizer: Floats,
    unseen: Floats,
    metric: Floats,
    longest: float,
    singular: Floats,
    **forms: Any,
) -> Operators:
    """Normalize the start."""
    scale = float(normalizer @ start)
    if not np.isfinite(scale) or abs(scale) < 1e-6:
        raise ValueError(
            "The first belief cannot be normalized: past windows do not predict future ones. Use fewer components, a "
            "larger alpha or more data."
        )
    # Rounding alone is not a reason to pull a belief back.
    radius = max(longest * (1 + 1e-9), 1e-300)
    return Operators(start / scale, normalizer, unseen, (metric + metric.T) / 2, radius, singular, **forms)
