"""Numba: sums over all pairs of windows of two sequences, of symbols or of vectors. Every pair is summed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["NEAREST", "PADDING", "ROWS", "SUM", "difference_counts", "window_sums"]

ROWS = 4
"""Windows of one side that fill the pipeline beside each other."""
SUM, NEAREST = 1, 2
"""What is asked of a pair: the sum of its base kernels, or the smallest squared distance."""
SMALLEST = -690.0
"""Exponents below this are raised to it: what they stand for does not count."""
PADDING = LANES
"""Points after the last sequence that may be loaded; what is made of them is overwritten."""
BLOCK_ROWS, BLOCK_COLUMNS = 64, 256
"""Windows of a block at least, so that its distances stay in the cache."""


@compiled(contract=True)
def difference_counts(
    x: Floats, y: Floats, x_offsets: Floats, y_offsets: Floats, left: Floats, right: Floats, width: int, out: Floats
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Count the pairs of windows of the strings ``left[p], right[p]`` that differ in 0, 1, ... places, (P, w + 1)."""
    counts = np.empty((2, width + 1), np.int64)  # two in turn: an increment does not wait for the one before
    for p in range(len(left)):
        a, b = x[x_offsets[left[p]] : x_offsets[left[p] + 1]], y[y_offsets[right[p]] : y_offsets[right[p] + 1]]
        counts[:] = 0
        for lag in range(width - len(a), len(b) - width + 1):
            s, t = max(0, -lag), max(0, lag)
            steps = min(len(a) - s, len(b) - t) - width
            different = 0
            for r in range(width):
                different += a[s + r] != b[t + r]
            counts[0, different] += 1
            for k in range(steps):
                different += a[s + k + width] != b[t + k + width]
                different -= a[s + k] != b[t + k]
                counts[k & 1, different] += 1
        for d in range(width + 1):
            out[p, d] = counts[0, d] + counts[1, d]


@intrinsic(prefer_literal=True)
def _block(
    typing: Any, what: Any, table: Any, at: Any, stride: Any, width: Any, groups: Any, scale: Any, shift: Any, out: Any
) -> Any:  # fmt: skip
    """Write, for four rows of a block, sums over groups of eight columns of exp(scale q + shift), or the smallest q.

    The squared distance q of two windows is the sum of ``width`` numbers along a diagonal of the table.
    """

    def emit(
        e: Emitter, what: int, table: Value, at: Value, stride: Value, width: Value, groups: Value, scale: Value,
        shift: Value, out: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        factor, moved = e.filled(scale), e.filled(shift)
        diagonal = b.add(stride, e.constant(1))

        def squares(group: Value) -> list[Value]:
            begin = b.add(at, b.mul(group, e.constant(LANES)))
            starts = [b.add(begin, b.mul(e.constant(r), stride)) for r in range(ROWS)]
            return e.loop_sums(
                ROWS, width, lambda k: [e.load(table, b.add(start, b.mul(k, diagonal))) for start in starts]
            )

        def kernels(group: Value) -> list[Value]:
            exponents = [e.add(e.multiply(square, factor), moved) for square in squares(group)]
            return [e.exponential(e.at_least(t, SMALLEST)) for t in exponents]

        if what == SUM:
            for r, value in enumerate(e.loop_sums(ROWS, groups, kernels)):
                e.store(e.across(value, e.add), out, e.constant(r * LANES))
            return
        cells = [cgutils.alloca_once(b, e.vector) for _ in range(ROWS)]
        for cell in cells:
            b.store(e.number(-np.inf), cell)
        with cgutils.for_range(b, groups) as loop:
            for cell, square in zip(cells, squares(loop.index), strict=True):
                b.store(e.larger(b.load(cell), b.fneg(square)), cell)
        for r, cell in enumerate(cells):
            e.store(e.across(b.load(cell), e.larger), out, e.constant(r * LANES))

    return operation(what, (table, at, stride, width, groups, scale, shift, out), emit)


@intrinsic(prefer_literal=True)
def _four_lines(
    typing: Any, rows: Any, x: Any, x_at: Any, y: Any, y_at: Any, length: Any, d: Any, groups: Any, table: Any, at: Any,
    stride: Any,
) -> Any:  # fmt: skip
    """Write squared distances of four points x, in one line each, from groups of eight points y."""

    def emit(
        e: Emitter, rows: int, x: Value, x_at: Value, y: Value, y_at: Value, length: Value, d: Value, groups: Value,
        table: Value, at: Value, stride: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        points = [b.add(x_at, b.mul(e.constant(r), d)) for r in range(rows)]
        lines = [b.add(at, b.mul(e.constant(r), stride)) for r in range(rows)]
        with cgutils.for_range(b, groups) as loop:
            shift = b.mul(loop.index, e.constant(LANES))
            begin = b.add(y_at, shift)

            def squares(k: Value) -> list[Value]:
                eight = e.load(y, b.add(begin, b.mul(k, length)))
                apart = [b.fsub(e.spread(x, b.add(point, k)), eight) for point in points]
                return [e.multiply(a, a) for a in apart]

            for line, value in zip(lines, e.loop_sums(rows, d, squares), strict=True):
                e.store(value, table, b.add(line, shift))

    return operation(rows, (x, x_at, y, y_at, length, d, groups, table, at, stride), emit)


@compiled(contract=True)
def _whole(number: int, unit: int) -> int:  # pragma: no cover - compiled
    """Round up to whole units."""
    return (number + unit - 1) // unit * unit


@compiled(contract=True)
def window_sums(
    what: int, x: Floats, y: Floats, x_offsets: Floats, y_offsets: Floats, left: Floats, right: Floats, width: int,
    scale: float, shift: Floats, out: Floats, found: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write what is asked of all windows of the pairs ``left[p], right[p]`` into ``out (P,)``.

    ``x`` is ``(T + PADDING, d)``, ``y`` is ``(d, T + PADDING)``; ``found`` is room for four vectors. Squared distances
    of points are made a block at a time, those of windows are sums along its diagonals, in registers.
    """
    d, length = y.shape
    x_flat, y_flat = x.reshape(-1), y.reshape(-1)
    height = max(BLOCK_ROWS, _whole(width, ROWS))
    breadth = max(BLOCK_COLUMNS, _whole(width, LANES))
    stride = breadth + _whole(width - 1, LANES)
    table = np.empty((_whole(height + width - 1, ROWS), stride))
    flat = table.reshape(-1)
    for p in range(len(left)):
        a_at, a_end = x_offsets[left[p]], x_offsets[left[p] + 1]
        b_at, b_end = y_offsets[right[p]], y_offsets[right[p] + 1]
        n, m = a_end - a_at - width + 1, b_end - b_at - width + 1
        total = -np.inf if what == NEAREST else 0.0
        for row in range(0, n, height):
            rows = _whole(min(height, n - row), ROWS)
            for column in range(0, m, breadth):
                columns = _whole(min(breadth, m - column), LANES)
                lines, across = _whole(rows + width - 1, ROWS), _whole(columns + width - 1, LANES)
                for i in range(0, lines, ROWS):
                    if a_at + row + i < a_end:
                        _four_lines(
                            4, x_flat, (a_at + row + i) * d, y_flat, b_at + column, length, d, across // LANES, flat,
                            i * stride, stride,
                        )  # fmt: skip
                # What lies beyond the ends of the two sequences is infinitely far away.
                table[max(a_end - a_at - row, 0) : lines, :across] = np.inf
                table[:lines, max(b_end - b_at - column, 0) : across] = np.inf
                for i in range(0, rows, ROWS):
                    if what == SUM:
                        _block(1, flat, i * stride, stride, width, columns // LANES, scale, shift[p], found)
                        for r in range(ROWS):
                            total += found[r * LANES]
                    else:
                        _block(2, flat, i * stride, stride, width, columns // LANES, scale, shift[p], found)
                        for r in range(ROWS):
                            total = max(total, found[r * LANES])
        out[p] = -total if what == NEAREST else total
