"""Operands of kernels that compare vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer.families import _csr
from mercer.families._csr import CSRRows


class Rows:
    """Rows of a matrix, dense or compressed: inner products by one matrix product a tile."""

    order: np.ndarray[Any, Any] | None = None
    tile_hint = 512

    def __init__(self, values: Any) -> None:
        self.values: Any = _csr.prepare(values) if isinstance(values, CSRRows) else values

    @property
    def sparse(self) -> bool:
        """Whether the rows are compressed."""
        return isinstance(self.values, _csr.Prepared)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.values.rows.n_columns if self.sparse else int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Rows:
        return Rows(self.values[key])

    def inner(self, other: Rows) -> Array:
        """Return the inner products of every pair of rows."""
        if self.sparse and other.sparse:
            return _csr.outer(self.values, other.values)
        right = other.dense()
        return self.dense() @ namespace(right).matrix_transpose(right)

    def squares(self) -> Array:
        """Return the squared norms of the rows."""
        if self.sparse:
            return self.values.rows.power(2.0).row_sums()
        return namespace(self.values).sum(self.values * self.values, axis=-1)

    def squared_distances(self, other: Rows) -> Array:
        """Return |x - y|^2 of every pair; dense rows about their mean, so that data far from zero lose no digits."""
        left, right = self, other
        if not (self.sparse or other.sparse):
            origin = namespace(self.values).mean(self.values, axis=0, keepdims=True)
            left, right = Rows(self.values - origin), Rows(other.values - origin)
        squared = left.squares()[:, None] + right.squares()[None, :] - 2 * left.inner(right)
        return namespace(squared).clip(squared, 0.0, None)

    def dense(self) -> Array:
        """Return the rows as an ordinary matrix."""
        return self.values.rows.dense() if self.sparse else self.values
