"""Helpers of the estimators of word counts: read rows of counts, and sum them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data.csr import CSRRows
from mercer.data.segments import segments
from mercer.families._counts.rows import dense_counts
from mercer.families.domains import check_counts
from mercer.families.estimator import Estimator


class DocumentEstimator(Estimator):
    """An estimator of rows of counts, dense or sparse."""

    takes: ClassVar[str] = "counts"

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix of nonnegative counts, dense or sparse."""
        X = super().accept(X, **options)
        if isinstance(X, CSRRows):
            bad = np.flatnonzero(~(np.isfinite(X.data) & (X.data >= 0)))
            if len(bad):
                row = int(np.searchsorted(X.indptr, int(bad[0]), side="right")) - 1
                check_counts(X[row : row + 1].dense(), type(self).__name__, first=row)
            X.check_counts()  # NaN
        else:
            x, _ = segments(X)
            check_counts(x, type(self).__name__, X)
            self._check_observed(X)
        return X


def pooled_counts(x: Any) -> Floats:
    """Add up all rows, ``(k,)``, or raise if there are no words."""
    with np.errstate(over="ignore"):  # overflow raises below
        total = np.asarray(x.to_scipy().sum(axis=0)).ravel() if isinstance(x, CSRRows) else x.sum(axis=0)
        everything = float(total.sum())
    check_finite_sum(everything, "all documents")
    if everything == 0:
        raise ValueError("Every document is empty; there is nothing to learn from.")
    return np.asarray(total)


def check_finite_sum(total: float, whose: str) -> None:
    """Raise if a sum of counts has overflowed."""
    if not np.isfinite(total):
        raise ValueError(f"The sum of the counts of {whose} overflows. Divide the counts by a constant.")


def weighted_counts(x: Any, weights: Floats, offsets: Floats) -> Floats:
    """Sum the rows of each sample with the weights of each model, ``(T, k)`` and ``(T, n)`` to ``(N, n, k)``."""
    rows = np.diff(offsets)
    owner = np.repeat(np.arange(len(rows)), rows)
    place = (owner, np.arange(len(owner)))
    matrix = x.to_scipy() if isinstance(x, CSRRows) else x
    shares = (sparse.csr_array((column, place), shape=(len(rows), len(owner))) for column in weights.T)
    return np.stack([dense_counts(share @ matrix) for share in shares], axis=1)
