"""Metrics of Fisher scores: inverse roots of an estimated information matrix (FK-2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats


class Diagonal(NamedTuple):
    """Scale every column."""

    columns: Floats

    def applied(self, scores: Any) -> Any:
        """Multiply scores, dense or sparse, with the matrix."""
        return scores.multiply(self.columns).tocsr() if sparse.issparse(scores) else scores * self.columns

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return weights * self.columns


class LowRank(NamedTuple):
    """The symmetric matrix ``V' diag(inside) V + rest``, which is never formed; the rows of V are orthonormal."""

    rows: Floats
    inside: Floats
    rest: float

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return (scores @ self.rows.T * self.inside) @ self.rows + self.rest * scores

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores; the matrix is symmetric."""
        return self.applied(weights)


class Full(NamedTuple):
    """Multiply with a matrix."""

    matrix: Floats

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return scores @ self.matrix

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return weights @ self.matrix.T


Metric = Diagonal | LowRank | Full


def inverse_root(values: Floats, ridge: float) -> Floats:
    """Return (values + ridge)^{-1/2}; without a ridge 0 if a value is below 1e-12 of the largest (FK-2)."""
    values = np.maximum(values, 0.0)
    raised = values + ridge * values.mean()
    keep = raised > (0.0 if ridge else 1e-12 * values.max())
    return np.where(keep, 1 / np.sqrt(np.where(keep, raised, 1.0)), 0.0)


def effective_rank(values: Floats) -> float:
    """Return (sum of eigenvalues)^2 / sum of their squares."""
    values = np.maximum(values, 0.0)
    return float(values.sum() ** 2 / max(np.sum(values**2), 1e-300))


def estimated(scores: Any, ridge: float, *, diagonal: bool) -> tuple[Metric, Floats]:
    """Root of the second moment of scores ``(N, P)``, or of its diagonal; and its eigenvalues."""
    n, p = scores.shape
    if diagonal:
        squares = scores.multiply(scores) if sparse.issparse(scores) else scores * scores
        values = np.asarray(squares.sum(axis=0)).ravel() / n
        return Diagonal(inverse_root(values, ridge)), values
    if n >= p:
        values, vectors = np.linalg.eigh(scores.T @ scores / n)
        return Full(vectors * inverse_root(values, ridge)), values
    _, singular, right = np.linalg.svd(scores, full_matrices=False)
    # The p - n eigenvalues that are 0 come last: (I + r)^{-1/2} = r^{-1/2} (1 - V V') + V (values + r)^{-1/2} V'
    values = np.append(singular**2 / n, np.zeros(p - n))
    inverse = inverse_root(values, ridge)
    return LowRank(right, inverse[:n] - inverse[-1], float(inverse[-1])), values
