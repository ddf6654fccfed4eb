"""Memory layouts of tables of pairs of chains, and their operations: aligned pairs, or all pairs of a tile.

A table has an entry for every pair of models and of hidden states. All sweeps are written once, in terms of
these few operations.
"""

from __future__ import annotations

from typing import TypeAlias

from mercer._array import Array, namespace


class Aligned:
    """Tables (N, n, m): each chain of the left side is paired with one of the right."""

    @staticmethod
    def outer(a: Array, b: Array) -> Array:
        """Multiply initial weights, (N, n) and (N, m)."""
        return a[:, :, None] * b[:, None, :]

    @staticmethod
    def left(matrix: Array, table: Array) -> Array:
        """Multiply every table from the left by the matrix of its left chain."""
        return matrix @ table

    @staticmethod
    def right(table: Array, matrix: Array) -> Array:
        """Multiply every table from the right by the matrix of its right chain."""
        return table @ matrix

    @staticmethod
    def step(a: Array, table: Array, b: Array) -> Array:
        """Multiply every table from both sides by transition weights, a^T table b."""
        return namespace(table).matrix_transpose(a) @ (table @ b)

    @staticmethod
    def rows(x: Array, y: Array) -> Array:
        """Compute x y^T for every left chain, summed over the right ones."""
        return x @ namespace(x).matrix_transpose(y)

    @staticmethod
    def columns(x: Array, y: Array) -> Array:
        """Compute x^T y for every right chain, summed over the left ones."""
        return namespace(x).matrix_transpose(x) @ y

    @staticmethod
    def weighted_rows(table: Array, b: Array) -> Array:
        """Sum over the states of the right side with weights b, and over right chains."""
        return namespace(table).sum(table * b[:, None, :], axis=2)

    @staticmethod
    def weighted_columns(table: Array, a: Array) -> Array:
        """Sum over the states of the left side with weights a, and over left chains."""
        return namespace(table).sum(table * a[:, :, None], axis=1)

    @staticmethod
    def sums(table: Array) -> Array:
        """Sum over states: a number for every pair of models."""
        return namespace(table).sum(table, axis=(1, 2))

    @staticmethod
    def largest(table: Array) -> Array:
        """Find the largest entry for every pair of models."""
        return namespace(table).max(table, axis=(1, 2))

    @staticmethod
    def wide(values: Array) -> Array:
        """Reshape one number per pair of models for broadcasting against a table."""
        return values[:, None, None]


class Tile:
    """Tables (I, n, J, m): each chain of the left side is paired with each of the right.

    Products read permuted views and write contiguously; the reshapes copy nothing.
    """

    @staticmethod
    def outer(a: Array, b: Array) -> Array:
        """Multiply initial weights, (I, n) and (J, m)."""
        return a[:, :, None, None] * b

    @staticmethod
    def left(matrix: Array, table: Array) -> Array:
        """Multiply every table from the left by the matrix of its left chain."""
        i, n, j, m = table.shape
        xp = namespace(table)
        return xp.reshape(matrix @ xp.reshape(table, (i, n, j * m)), (i, matrix.shape[1], j, m))

    @staticmethod
    def right(table: Array, matrix: Array) -> Array:
        """Multiply every table from the right by the matrix of its right chain."""
        i, n, j, m = table.shape
        xp = namespace(table)
        turned = xp.permute_dims(xp.reshape(table, (i * n, j, m)), (1, 2, 0))
        product = xp.reshape(xp.matrix_transpose(matrix) @ turned, (j, matrix.shape[2], i, n))
        return xp.permute_dims(product, (2, 3, 0, 1))

    @staticmethod
    def step(a: Array, table: Array, b: Array) -> Array:
        """Multiply every table from both sides by transition weights, a^T table b."""
        i, n, j, m = table.shape
        xp = namespace(table)
        turned = xp.permute_dims(xp.reshape(table, (i * n, j, m)), (1, 2, 0))
        half = xp.reshape(xp.matrix_transpose(b) @ turned, (j * m, i, n))
        return xp.reshape(xp.matrix_transpose(a) @ xp.permute_dims(half, (1, 2, 0)), (i, n, j, m))

    @staticmethod
    def rows(x: Array, y: Array) -> Array:
        """Compute x y^T for every left chain, summed over the right ones."""
        i, n, j, m = x.shape
        xp = namespace(x)
        return xp.reshape(x, (i, n, j * m)) @ xp.matrix_transpose(xp.reshape(y, (i, n, j * m)))

    @staticmethod
    def columns(x: Array, y: Array) -> Array:
        """Compute x^T y for every right chain, summed over the left ones."""
        i, n, j, m = x.shape
        xp = namespace(x)
        by_column = [xp.permute_dims(xp.reshape(z, (i * n, j, m)), (1, 0, 2)) for z in (x, y)]
        return xp.matrix_transpose(by_column[0]) @ by_column[1]

    @staticmethod
    def weighted_rows(table: Array, b: Array) -> Array:
        """Sum over the states of the right side with weights b, and over right chains."""
        return namespace(table).sum(table * b, axis=(2, 3))

    @staticmethod
    def weighted_columns(table: Array, a: Array) -> Array:
        """Sum over the states of the left side with weights a, and over left chains."""
        return namespace(table).sum(table * a[:, :, None, None], axis=(0, 1))

    @staticmethod
    def sums(table: Array) -> Array:
        """Sum over states: a number for every pair of models."""
        return namespace(table).sum(table, axis=(1, 3))

    @staticmethod
    def largest(table: Array) -> Array:
        """Find the largest entry for every pair of models."""
        return namespace(table).max(table, axis=(1, 3))

    @staticmethod
    def wide(values: Array) -> Array:
        """Reshape one number per pair of models for broadcasting against a table."""
        return values[:, None, :, None]


Layout: TypeAlias = "type[Aligned] | type[Tile]"
