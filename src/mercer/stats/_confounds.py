"""Confounds of a test: categories, within which objects are permuted, and numbers, which are regressed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.preprocessing import SplineTransformer

from mercer._array import Floats
from mercer.kernels import Confounded
from mercer.stats._assignments import Orders, members
from mercer.stats._input import Indices, numbered

FEW = 5
"""Numbers with at most this many different values are categories."""
KNOTS = 4
"""Number of knots of the cubic spline of a number, at its quantiles."""
PER_COLUMN = 5
"""Number of objects that one column of a spline needs; with fewer, numbers enter as they are."""


@dataclass(frozen=True)
class Confounds:
    """Confounds of objects, or of groups.

    Parameters
    ----------
    strata : ndarray of int, shape (N,)
        The combination of categories of every object.
    numbers : ndarray of shape (N, c)
        All other confounds.
    """

    strata: Indices
    numbers: Floats

    @classmethod
    def read(cls, confounds: Any, n: int) -> Self:
        """Return checked confounds of n objects: an array, a list or a data frame."""
        frame = hasattr(confounds, "iloc") and hasattr(confounds, "columns")
        cells: Any = confounds if frame else np.array(confounds, dtype=object)
        cells = cells[:, None] if cells.ndim == 1 else cells
        if cells.ndim != 2 or len(cells) != n:
            raise ValueError(f"confounds must have one row for each of {n} objects; got shape {cells.shape}.")
        strata, numbers = np.zeros(n, dtype=np.int64), []
        for j in range(cells.shape[1]):
            column = cells.iloc[:, j] if frame else cells[:, j]
            values = np.array(column.tolist(), dtype=object)
            name = f"confound {cells.columns[j] if frame else j!r}"
            codes = numbered(values, n, name)
            if codes.max() < FEW or any(isinstance(value, str | bool | np.bool_) for value in values):
                strata = _combined(strata, codes)
            else:
                numbers.append(Confounded(codes, values).confounds[:, 0])
        return cls(strata, np.column_stack(numbers) if numbers else np.zeros((n, 0)))

    def within(self, units: Indices) -> Confounds:
        """Return the confounds with groups as a further category."""
        return Confounds(_combined(self.strata, units), self.numbers)

    def of_groups(self, units: Indices) -> Confounds:
        """Return the confounds of groups: the means of numbers, and categories, which must not differ in a group."""
        leader = np.unique(units, return_index=True)[1]
        wrong = np.flatnonzero(self.strata != self.strata[leader][units])
        if len(wrong):
            raise ValueError(
                f"Objects {leader[units[wrong[0]]]} and {wrong[0]} are of one group and differ in a confound that is a "
                "category. Whole groups are compared, so use one category per group."
            )
        counts = np.bincount(units)
        means = [np.bincount(units, column) / counts for column in self.numbers.T]
        strata = np.unique(self.strata[leader], return_inverse=True)[1].reshape(-1)
        return Confounds(strata, np.column_stack(means) if means else np.zeros((len(counts), 0)))

    def basis(self) -> Floats:
        """Return an orthonormal basis of what is regressed out: a mean per stratum, and a spline of every number."""
        n, columns = len(self.strata), [np.eye(self.strata.max() + 1)[self.strata]]
        for number in self.numbers.T:
            if PER_COLUMN * (KNOTS + 1) * self.numbers.shape[1] <= n:
                knots = np.unique(np.quantile(number, np.linspace(0, 1, KNOTS)))[:, None]
                columns.append(SplineTransformer(knots=knots, include_bias=False).fit_transform(number[:, None]))
            else:
                columns.append(((number - number.mean()) / max(float(np.ptp(number)), 1e-300))[:, None])
        basis: Floats = linalg.orth(np.column_stack(columns), rcond=1e-10)
        if n - basis.shape[1] < 3:
            raise ValueError(
                f"The confounds explain {basis.shape[1]} of {n} objects completely, which leaves too few to compare. "
                "Use fewer confounds, or more objects."
            )
        return basis

    def orders(self) -> Orders:
        """Return the permutations within strata."""
        return Orders(members(self.strata))

    def permuted(self, what: str) -> str:
        """Return the name of the permuted units, for messages."""
        residuals = f"residuals of {what}" if self.numbers.shape[1] else what
        return f"{residuals} within strata" if self.strata.max() else residuals


def residual(K: Floats, basis: Floats) -> Floats:
    """Return the inner products of the residuals of the features (KK-3)."""
    left = K - basis @ (basis.T @ K)
    found = np.asarray(left - (left @ basis) @ basis.T)
    return found if np.abs(found).max() > 1e-13 * np.abs(K).max() else np.zeros_like(found)  # rounding only


def _combined(a: Indices, b: Indices) -> Indices:
    """Return a number for every combination of two categories."""
    return np.asarray(np.unique(np.stack([a, b]), axis=1, return_inverse=True)[1]).reshape(-1)
