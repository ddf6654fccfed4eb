"""Sums over all pairs of windows of two sequences, of symbols or of vectors. Every pair is summed separately."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.points import LANES, NEAREST, ROWS, reduced, squares, write

PADDING = max(2 * LANES, ROWS)
"""Number of padding points after the last sequence that may be loaded; results from them are overwritten.

Columns are rounded up to whole vectors, and so are columns together with the rest of their windows.
"""
BLOCK_ROWS, BLOCK_COLUMNS = 64, 256
"""Smallest number of windows of a block; its distances stay in the cache."""


@compiled(contract=True)
def difference_counts(
    x: Floats, y: Floats, x_offsets: Floats, y_offsets: Floats, left: Floats, right: Floats, width: int, out: Floats
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Count the pairs of windows of strings ``left[p], right[p]`` that differ in 0, 1, ... positions (P, w + 1)."""
    counts = np.empty(
        (2, width + 1), np.int64
    )  # two alternating tables: an increment does not wait for the previous one
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


def ask(
    term: int, x: Floats, y: Floats, offsets: tuple[Floats, Floats], pairs: tuple[Floats, Floats], width: int,
    scale: float, shift: Floats,
) -> Floats:  # fmt: skip
    """Sum over all windows of pairs of sequences of vectors.

    Parameters
    ----------
    term : {SUM, NEAREST}
        The sum of 2^(scale q + shift) over the squared distances q of windows, or the smallest q.
    x, y : ndarray of shape (T + PADDING, d) and (d, T + PADDING)
        All vectors of the left and of the right side.
    offsets : pair of ndarrays
        Sequence i of the left side is ``x[offsets[0][i]:offsets[0][i + 1]]``.
    pairs : pair of ndarrays of int of shape (P,)
        Indices of the sequences of each pair.
    width : int
        Number of vectors in a window.
    scale, shift : float and ndarray of shape (P,)
        Scale and shift of the exponents.

    Returns
    -------
    ndarray of shape (P,)
    """
    out = np.empty(len(shift))
    window_sums(term)(x, y, *offsets, *pairs, width, scale, shift, out, aligned((ROWS * LANES,)))
    return out


@functools.cache
def window_sums(term: int) -> Any:
    """Compile the loop over pairs of sequences.

    Squared distances of points are computed a block at a time; those of windows are sums along its diagonals.
    """
    row_block = vector_function(LANES, term)(_row_block)

    @compiled(contract=True)
    def loop(
        x: Floats, y: Floats, x_offsets: Floats, y_offsets: Floats, left: Floats, right: Floats, width: int,
        scale: float, shift: Floats, out: Floats, room: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        d, length = y.shape
        x_flat, y_flat = x.reshape(-1), y.reshape(-1)
        height, breadth = _whole(max(BLOCK_ROWS, width), ROWS), _whole(max(BLOCK_COLUMNS, width), LANES)
        stride = breadth + _whole(width - 1, LANES)
        table = np.empty((_whole(height + width - 1, ROWS), stride))
        flat = table.reshape(-1)
        for p in range(len(left)):
            a_at, a_end = x_offsets[left[p]], x_offsets[left[p] + 1]
            b_at, b_end = y_offsets[right[p]], y_offsets[right[p] + 1]
            n, m = a_end - a_at - width + 1, b_end - b_at - width + 1
            total = np.inf if term == NEAREST else 0.0
            for row in range(0, n, height):
                rows = _whole(min(height, n - row), ROWS)
                for column in range(0, m, breadth):
                    columns = _whole(min(breadth, m - column), LANES)
                    lines, across = _whole(rows + width - 1, ROWS), _whole(columns + width - 1, LANES)
                    for i in range(0, lines, ROWS):
                        if a_at + row + i < a_end:
                            _lines(
                                x_flat, (a_at + row + i) * d, y_flat, b_at + column, length, d, across // LANES,
                                flat, i * stride, stride,
                            )  # fmt: skip
                    # Points beyond the ends of the two sequences are infinitely far away.
                    table[max(a_end - a_at - row, 0) : lines, :across] = np.inf
                    table[:lines, max(b_end - b_at - column, 0) : across] = np.inf
                    for i in range(0, rows, ROWS):
                        row_block(flat, i * stride, stride, width, columns // LANES, scale, shift, p, room)
                        total = min(total, room[0]) if term == NEAREST else total + room[0]
            out[p] = total

    return loop


@compiled(contract=True)
def _whole(number: int, unit: int) -> int:  # pragma: no cover - compiled
    """Round up to a multiple."""
    return (number + unit - 1) // unit * unit


@vector_function(LANES)
def _lines(
    e: Emitter, x: Value, x_at: Value, y: Value, y_at: Value, length: Value, d: Value, groups: Value,
    table: Value, at: Value, stride: Value,
) -> None:  # fmt: skip
    """Write squared distances of several points x, one row each, from groups of points y."""
    b = e.builder
    points = [b.add(x_at, b.mul(e.constant(r), d)) for r in range(ROWS)]
    lines = [b.add(at, b.mul(e.constant(r), stride)) for r in range(ROWS)]
    with cgutils.for_range(b, groups) as loop:
        shift = b.mul(loop.index, e.constant(LANES))
        for line, value in zip(lines, squares(e, x, points, y, b.add(y_at, shift), length, d), strict=True):
            e.store(value, table, b.add(line, shift))


def _row_block(
    e: Emitter, term: int, table: Value, at: Value, stride: Value, width: Value, groups: Value, scale: Value,
    shift: Value, p: Value, out: Value,
) -> None:  # fmt: skip
    """Write the result for several rows of a block and all groups of its columns.

    The squared distance of two windows is the sum of ``width`` numbers along a diagonal of the table.
    """
    b = e.builder
    diagonal = b.add(stride, e.constant(1))

    def distances(group: Value) -> list[Value]:
        begin = b.add(at, b.mul(group, e.constant(LANES)))
        starts = [b.add(begin, b.mul(e.constant(r), stride)) for r in range(ROWS)]
        return e.loop_sums(ROWS, width, lambda k: [e.load(table, b.add(start, b.mul(k, diagonal))) for start in starts])

    shifts = [e.spread(shift, p)] * ROWS
    write(e, term, reduced(e, term, groups, distances, e.filled(scale), shifts), False, out)
