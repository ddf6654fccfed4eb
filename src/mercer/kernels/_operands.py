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

    def dense(self) -> Array:
        """Return the rows as an ordinary matrix."""
        return self.values.rows.dense() if self.sparse else self.values
