"""Operands that several kernels share: rows of a matrix, an operand beside a number for every object."""

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


class InnerProducts:
    """A kernel whose operands are `Rows` and whose values are their inner products: the rows are its features."""

    domain: str = "linear"

    def _tile(self, a: Rows, b: Rows) -> Array:
        return a.inner(b)

    def _self(self, a: Rows) -> Array:
        return a.squares()

    def _features(self, a: Rows) -> Array:
        return a.dense()


class WithNumbers:
    """An operand and a number for every object: its self-kernel, its mean kernel, its distance to a centre."""

    def __init__(self, operand: Any, numbers: Array) -> None:
        self.operand = operand
        self.numbers = numbers
        self.order = operand.order
        self.tile_hint = operand.tile_hint

    def __len__(self) -> int:
        return len(self.operand)

    def __getitem__(self, key: Any) -> WithNumbers:
        return WithNumbers(self.operand[key], self.numbers[key])


def finite(diagonal: Array) -> Array:
    """Return log self-kernels, 0 for objects of zero norm, whose log kernels are -inf anyway."""
    xp = namespace(diagonal)
    return xp.where(diagonal > -xp.inf, diagonal, xp.zeros_like(diagonal))
