"""Log odds of classes and their gradients as an operand: coefficients times scores, never multiplied out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats, logsumexp
from mercer._coupling import FieldOperand
from mercer.kernels._operands import Rows
from mercer.models.scores import DENSE, difference


@dataclass
class Tangents(FieldOperand):
    """Log odds and their gradients as an operand: coefficients times scores, which are never multiplied out.

    Parameters
    ----------
    odds : array of shape (N, V)
        Log odds.
    coefficients : array of shape (N, V, C)
        Coefficient of the score of model k in the gradient of log odds v.
    scores : list of C Rows or CenteredCounts
        The scores of every model.
    """

    odds: Floats
    coefficients: Floats
    scores: list[Any]

    def inner(self, other: Self) -> Floats:
        """Return the inner products of every pair."""
        value = self.odds @ other.odds.T
        for k, (rows, others) in enumerate(zip(self.scores, other.scores, strict=True)):
            value += (self.coefficients[:, :, k] @ other.coefficients[:, :, k].T) * rows.inner(others)
        return np.asarray(value)

    def squares(self) -> Floats:
        """Return the squared norms."""
        weights = np.sum(self.coefficients**2, axis=1)
        value = np.sum(self.odds**2, axis=1)
        for k, rows in enumerate(self.scores):
            value = value + weights[:, k] * rows.squares()
        return np.asarray(value)

    def dense(self) -> Floats:
        """Return the features, ``(N, V + V C P)``: log odds, and the gradient of each with respect to every model."""
        n, v, _ = self.coefficients.shape
        size = n * v * sum(part.width if isinstance(part, Rows) else len(part.expected) for part in self.scores)
        if size > DENSE:
            raise ValueError(
                f"The explicit features of {n} samples under {len(self.scores)} classes are {size} numbers. Pass fewer "
                "samples at once, or use the Gram matrix, which does not need them."
            )
        rows = [part.dense() for part in self.scores]
        gradients = [self.coefficients[:, c, k, None] * rows[k] for c in range(v) for k in range(len(rows))]
        return np.concatenate([self.odds, *gradients], axis=1)


def log_odds(joint: Floats) -> tuple[Floats, Floats]:
    """Convert log P(c) p_c(x) ``(N, C)`` to log odds ``(N, V)`` and the coefficients of scores ``(N, V, C)``."""
    n, count = joint.shape
    scale = np.abs(joint).max(axis=1, keepdims=True)
    if count == 2:  # the other log odds are the negatives of these
        odds = difference(joint[:, 1:], joint[:, :1], scale)
        return odds, np.broadcast_to(np.array([-1.0, 1.0]), (n, 1, 2))
    others = np.where(np.eye(count, dtype=bool), -np.inf, joint[:, None, :])
    total = logsumexp(others, axis=-1)
    return difference(joint, total, scale), np.eye(count) - np.exp(others - total[..., None])
