"""Confounds of a test: categories, within which objects are permuted, and numbers, which are regressed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.kernels import Confounded
from mercer.stats._assignments import Orders, Signs, members
from mercer.stats._input import Indices, numbered
from mercer.stats._smoothers import Smoothers

FEW = 5
"""Numbers with at most this many different values are categories."""
PER_COLUMN = 10
"""Number of objects that are needed for the mean, and for each number, to tell a curve from noise."""


@dataclass(frozen=True)
class Confounds:
    """Confounds of objects, or of groups.

    Parameters
    ----------
    strata : ndarray of int, shape (N,)
        The combination of categories of every object.
    numbers : ndarray of shape (N, c)
        All other confounds.
    blocks : str, default="strata"
        What the strata are, for a sentence.
    """

    strata: Indices
    numbers: Floats
    blocks: str = "strata"

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
                number = Confounded(codes, values).confounds[:, 0]
                numbers.append(np.ldexp(number, -np.frexp(np.abs(number).max())[1]))  # squares cannot overflow
        return cls(strata, np.column_stack(numbers) if numbers else np.zeros((n, 0)))

    def within(self, units: Indices) -> Confounds:
        """Return the confounds with groups as a further category."""
        blocks = "groups and strata" if self.strata.max() else "groups"
        return Confounds(_combined(self.strata, units), self.numbers, blocks)

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

    def smoothers(self, what: str) -> Smoothers:
        """Return the regressions on the confounds; ``what`` names the objects that are permuted."""
        n, strata, columns = len(self.strata), int(self.strata.max()) + 1, self.numbers.shape[1]
        least = strata - 1 + PER_COLUMN * (columns + 1) if columns else strata + 3
        if n < least:
            raise ValueError(
                f"Confounds with {columns} columns of numbers and {strata} {self.blocks} need at least {least} {what} "
                f"to be told from noise; got {n}. Use fewer confounds, or collect more {what}."
            )
        return Smoothers.of(self.strata, self.numbers)

    @property
    def are_strata(self) -> bool:
        """Whether all confounds are categories."""
        return self.numbers.shape[1] == 0

    def orders(self) -> Orders | Signs:
        """Return permutations within strata; with numbers, signs of residuals."""
        return Orders(members(self.strata)) if self.are_strata else Signs(len(self.strata))

    def permuted(self, what: str) -> str:
        """Return the name of the permuted units, for messages."""
        if not self.are_strata:
            return f"signs of residuals of {what}"
        return f"{what} within {self.blocks}" if self.strata.max() else what


def _combined(a: Indices, b: Indices) -> Indices:
    """Return a number for every combination of two categories."""
    return np.asarray(np.unique(np.stack([a, b]), axis=1, return_inverse=True)[1]).reshape(-1)
