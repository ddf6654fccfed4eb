"""Sparse rows of probabilities under a coupling: they answer tiles of a Gram matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.families import _csr


class SparseLeaf:
    """Sparse rows under a coupling: log ((1 - mismatch) <f, f'> + mismatch)^trials."""

    order: Floats | None = None
    tile_hint = _csr.TILE_ROWS

    def __init__(self, rows: _csr.Prepared, trials: int, mismatch: float = 0.0) -> None:
        self.rows = rows
        self.trials = trials
        self.mismatch = mismatch

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.rows),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.rows[key], self.trials, self.mismatch)

    def pair(self, other: Self) -> Floats:
        """Answer every pair, as a logarithm."""
        return self._log(_csr.outer(self.rows, other.rows))

    def alone(self) -> Floats:
        """Answer every member with itself."""
        return self._log(self.rows.rows.power(2.0).row_sums())

    def _log(self, inner: Floats) -> Floats:
        if self.mismatch:
            inner *= 1 - self.mismatch
            inner += self.mismatch
        with np.errstate(divide="ignore"):
            np.log(inner, out=inner)
        if self.trials != 1:
            inner *= self.trials
        return inner


class SparseDivergence(SparseLeaf):
    """Sparse rows under the Jensen-Shannon divergence: only shared words add to it."""

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.rows[key], self.trials)

    def pair(self, other: Self) -> Floats:
        """Answer every pair: trials (log 2 - shared entropy / 2), as it is."""
        shared = _csr.shared_entropy(self.rows, other.rows)
        shared *= -0.5 * self.trials
        shared += self.trials * np.log(2.0)
        return np.maximum(shared, 0.0, out=shared)

    def alone(self) -> Floats:
        """Return zeros: the divergence of a law from itself."""
        return np.zeros(len(self.rows))
