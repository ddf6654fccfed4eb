"""What a step of a pipeline reads of the columns of its input."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices

ROUNDING = 1e-12
"""A sum below this fraction of the sum of its absolute terms is zero up to rounding."""
CANCELLATION = 1000.0
"""A sum below the sum of its absolute terms divided by this has too few digits to be computed in another way."""
Kept = Indices | None
"""The columns that are left, as indices of the original columns; None if all of them are."""


class Needs(NamedTuple):
    """The columns that a step reads, and how.

    Parameters
    ----------
    why : str
        Who reads them, for messages.
    columns : array of bool of shape (N,) or None
        Whether a column has an influence; None if every column has.
    weights : sparse array of shape (R, N) or None
        The linear functions of a row through which the step reads it; None if it reads it in another way.
    shifted : bool
        Whether a step subtracts the mean of every row, which fewer columns change.
    """

    why: str
    columns: Floats | None = None
    weights: Any = None
    shifted: bool = False

    @staticmethod
    def of(weights: Any, why: str) -> Needs:
        """Return the needs of a step that reads linear functions of a row only."""
        weights = sparse.csr_array(weights)
        return Needs(why, np.asarray(abs(weights).sum(axis=0)).ravel() > 0, weights)

    @staticmethod
    def of_all(found: Iterable[Needs]) -> Needs:
        """Return the needs of several steps that read the same input."""
        parts = list(found)
        why = ", ".join(dict.fromkeys(part.why for part in parts))
        if any(part.columns is None for part in parts) or not parts:
            return Needs(why)
        columns = np.logical_or.reduce([part.columns for part in parts])  # type: ignore[arg-type]
        linear = all(part.weights is not None for part in parts)
        weights = sparse.vstack([part.weights for part in parts], format="csr") if linear else None
        return Needs(why, columns, weights, any(part.shifted for part in parts))

    def block(self, at: slice) -> Needs:
        """Return the needs of some consecutive columns."""
        if self.columns is None:
            return self
        return self._replace(columns=self.columns[at], weights=None if self.weights is None else self.weights[:, at])

    def scattered(self, index: Indices, n: int) -> Needs:
        """Return the needs of the input of a step whose columns are the columns ``index`` of its n inputs."""
        columns = np.zeros(n, dtype=bool)
        columns[index[self.indices(len(index))]] = True
        if self.weights is None:
            return self._replace(columns=columns)
        spread = sparse.csr_array((np.ones(len(index)), (np.arange(len(index)), index)), shape=(len(index), n))
        return self._replace(columns=columns, weights=sparse.csr_array(self.weights @ spread))

    def indices(self, n: int) -> Indices:
        """Return the columns that are read, out of n; one if none is, since an input has columns."""
        found = np.arange(n) if self.columns is None else np.flatnonzero(self.columns)
        return found if len(found) else np.arange(1)

    @property
    def ignores_constants(self) -> bool:
        """Whether a number that is added to all columns of a row changes nothing."""
        return self.columns is not None and vanishes(self.weights, np.ones((len(self.columns), 1)))


def vanishes(weights: Any, q: Floats) -> bool:
    """Return whether ``weights @ q`` is zero up to rounding; False if the weights are not known."""
    if weights is None:
        return False
    return bool(np.all(np.abs(weights @ q) <= ROUNDING * (abs(weights) @ np.abs(q))))


def cancels(weights: Any, rows: Floats, terms: Floats) -> bool:
    """Return whether a subtraction costs weighted sums of rows ``(M, N)`` their digits.

    Rounding errors are about 1e-16 of the values ``terms``, ``(M, N)``, from which the rows are left, and depend on the
    number of columns. In sums that are 1,000 times smaller than such terms, they pass 1e-13. If the rows are almost as
    large as the terms, it is the weights that have different signs, and the subtraction does not matter.
    """
    sums, left, sizes = (
        np.max(found, axis=1)
        for found in (np.abs(weights @ rows.T), abs(weights) @ np.abs(rows.T), abs(weights) @ np.abs(terms.T))
    )
    return bool(np.any((sizes > CANCELLATION * sums) & (sizes > 10 * left)))


OUTPUT = Needs("all of them are output")
"""What is read of the last step."""


class Objects(NamedTuple):
    """Training objects that a compact pipeline keeps.

    Parameters
    ----------
    step : str
        Name of the step that has them.
    kept, of : int
        Number of the objects, and number of all training objects of the step; both 0 if all stay and their number is
        not known.
    why : str
        What they are kept for.
    """

    step: str
    kept: int
    of: int
    why: str

    def __str__(self) -> str:
        number = f"{self.kept} of {self.of}" if self.of else "all"  # a step of another library may not tell
        return f"{self.step}: {number} training objects ({self.why})"


def blocks(widths: list[int | None], total: int | None) -> list[slice | None]:
    """Return the columns of each transformer of a union; None where they are not known."""
    if widths.count(None) == 1 and total is not None:
        widths = [total - sum(w for w in widths if w is not None) if width is None else width for width in widths]
    if any(width is None for width in widths):
        return [None] * len(widths)
    ends = np.cumsum([0, *widths])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def shifted(columns: Kept, at: slice | None) -> Indices:
    """Return the columns of a transformer as columns of the union."""
    if at is None:
        return np.zeros(0, dtype=int)
    return np.arange(at.start, at.stop) if columns is None else at.start + columns


def joined(given: list[Indices], total: int | None) -> Kept:
    found = np.concatenate([np.zeros(0, dtype=int), *given])
    return None if total is None or len(found) == total else found
