"""The parts into which a matrix is split on disk and on a cluster, and the computation of one part.

A part is a square of tiles of the engine, so that its values are those of ``kernel(X)`` to the last bit; the number of
tiles in a part changes nothing but the size of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._parallel import single_blas
from mercer.gram.engine import Block, Writer, cut, mirrored, sorted_operand, tile_shape

Place = tuple[int, int]
"""Row and column of a part among the parts."""

PART_SIDE = 512
"""Rows of a part of a large matrix: 2 MiB in double precision. NumPy asks for huge pages from 4 MiB on, which are slow
to get anew for every part."""
PARTS_ALONG = 8
"""Parts along the side of a small matrix, at least: enough for several threads or workers."""
PART_TILES = 16
"""Tiles along the side of a part, at most. Tiles are small where a pair is slow, so that this bounds the work that is
lost if the computation is killed."""


@dataclass(frozen=True)
class Plan:
    """The parts of a matrix.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns of the matrix.
    tile, part : tuple of int
        Rows and columns of a tile of the engine, and of a part; multiples of the former.
    symmetric : bool
        Whether only the parts on and above the diagonal exist.
    """

    shape: tuple[int, int]
    tile: tuple[int, int]
    part: tuple[int, int]
    symmetric: bool

    def places(self) -> list[Place]:
        """Return the parts that exist."""
        rows, columns = (range(-(-n // side)) for n, side in zip(self.shape, self.part, strict=True))
        return [(i, j) for i in rows for j in columns if j >= i or not self.symmetric]

    def block(self, place: Place) -> Block:
        """Return the rows and columns of a part in the permuted matrix."""
        r, c = (
            slice(at * side, min((at + 1) * side, n)) for at, side, n in zip(place, self.part, self.shape, strict=True)
        )
        return Block(r, c)

    @property
    def part_entries(self) -> int:
        """Number of values in a part."""
        return self.part[0] * self.part[1]


@dataclass(frozen=True)
class Parts:
    """Computes the parts of a matrix; travels to the workers of a cluster.

    Parameters
    ----------
    kernel : Kernel
        A kernel that can be evaluated.
    a, b : prepared sides
        Sorted by cost; ``b`` is None for a symmetric matrix.
    diagonal : array of shape (N,) or None
        The exact diagonal of a symmetric matrix, sorted in the same way.
    plan : Plan
        The parts.
    """

    kernel: Any
    a: Any
    b: Any
    diagonal: Floats | None
    plan: Plan

    def __call__(self, place: Place) -> Floats:
        """Return one part, of the size of all parts: NaN beyond the edge of the matrix."""
        plan = self.plan
        block, on_diagonal = plan.block(place), plan.symmetric and place[0] == place[1]
        other = self.a if self.b is None else self.b
        out: Floats | None = None
        top, left = block.rows.start, block.columns.start
        evaluate = self.kernel._evaluation.value_tile
        with single_blas():
            for r in _within(block.rows, plan.tile[0]):
                for c in _within(block.columns, plan.tile[1]):
                    if on_diagonal and c.start < r.start:
                        continue  # mirrored below
                    values = to_numpy(evaluate(self.a[r], other[c]))
                    if out is None:
                        out = np.empty(plan.part, dtype=values.dtype)
                        out[block.rows.stop - top :], out[:, block.columns.stop - left :] = np.nan, np.nan
                    if on_diagonal and r == c:
                        values = mirrored(values)
                    out[_shifted(r, top), _shifted(c, left)] = values
                    if on_diagonal and r != c:
                        out[_shifted(c, left), _shifted(r, top)] = values.T
        assert out is not None
        if on_diagonal and self.diagonal is not None:
            index = np.arange(block.rows.stop - top)
            out[index, index] = self.diagonal[block.rows]
        return out


@dataclass(frozen=True)
class Sorted:
    """Prepared sides in the order in which the engine compares them, and the permutations."""

    kernel: Any
    a: Any
    b: Any
    rows: Floats | None
    columns: Floats | None
    diagonal: Floats | None

    @staticmethod
    def of(kernel: Any, a: Any, b: Any, orders: tuple[Floats | None, Floats | None] | None = None) -> Sorted:
        """Sort the sides by cost, or by the permutations of a matrix that was begun."""
        evaluation = kernel._evaluation
        diagonal: Array | None = None if b is not None else to_numpy(evaluation.exp(evaluation.diagonal(a)))
        if orders is None:
            (rows, a), (columns, b) = sorted_operand(a), (None, None) if b is None else sorted_operand(b)
        else:
            rows, columns = orders
            a = a if rows is None else a[rows]
            b = b if b is None or columns is None else b[columns]
        if diagonal is not None:
            columns, diagonal = rows, diagonal if rows is None else diagonal[rows]
        return Sorted(kernel, a, b, rows, columns, diagonal)

    def parts(self, plan: Plan) -> Parts:
        """Return what computes the parts of a plan."""
        return Parts(self.kernel, self.a, self.b, self.diagonal, plan)

    def plan(self) -> tuple[Plan, np.dtype[Any]]:
        """Return a plan for these sides, and the type of the values; computes one of them."""
        a, b = self.a, self.a if self.b is None else self.b
        symmetric = self.b is None
        tile = tile_shape(a, b, symmetric)
        dtype = to_numpy(self.kernel._evaluation.value_tile(a[:1], b[:1])).dtype
        part = [
            size * max(1, min(PART_TILES, min(PART_SIDE, -(-n // PARTS_ALONG)) // size))
            for size, n in zip(tile, (len(a), len(b)), strict=True)
        ]
        return Plan((len(a), len(b)), tile, (part[0], part[1]), symmetric), dtype


def whole_matrix(parts: Any, sides: Sorted, plan: Plan, dtype: Any) -> Floats:
    """Fill a matrix from pairs of a place and its part, undoing the permutation."""
    out = np.empty(plan.shape, dtype=dtype)
    write = Writer(out, sides.rows, sides.columns, plan.symmetric)
    for place, values in parts:
        block = plan.block(place)
        write(block, values[: block.rows.stop - block.rows.start, : block.columns.stop - block.columns.start])
    return out


def _within(part: slice, size: int) -> list[slice]:
    return [slice(part.start + s.start, part.start + s.stop) for s in cut(part.stop - part.start, size)]


def _shifted(s: slice, by: int) -> slice:
    return slice(s.start - by, s.stop - by)
