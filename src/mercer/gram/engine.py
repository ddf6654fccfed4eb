"""Fill a Gram matrix tile by tile: symmetry, threads and progress.

The engine does not know kernels, only a protocol: operands that have a length and can be sliced, and a function that
computes a tile. It permutes the operands by their ``order``, splits the matrix by their ``tile_hint``, and mirrors the
upper half of a symmetric matrix. The tile size depends only on the operands, so that the result is bitwise identical
for any number of threads.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from array_api_compat import device, is_cupy_array, is_numpy_array, is_torch_array

from mercer._array import Array, namespace, to_numpy
from mercer._parallel import n_threads, single_blas, thread_map
from mercer.gram._on_device import matrix_on_device

PARALLEL_FROM_SECONDS = 0.004
"""Shorter work runs in one thread: starting a pool takes about a tenth of this time."""
TILE_FROM_SECONDS = 0.0002
"""Faster tiles run in one thread: their time is mostly interpreter overhead, for which threads contend."""

ACCELERATOR_TILES = 8
"""Factor by which tile sides grow on a GPU, where launching a small tile costs as much as computing it."""

logger = logging.getLogger("mercer")
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Run:
    """Record of the computation of one matrix.

    Parameters
    ----------
    label : str
        Name of the kernel.
    shape : tuple of int
        Shape of the matrix.
    tiles, threads : int
        Number of tiles, and of threads.
    device : str
        "cpu" for NumPy, else the device of the array.
    seconds : float
        Duration.

    Examples
    --------
    >>> import mercer as mc
    >>> K = mc.RBF(gamma=1.0)([[0.0], [1.0]])
    >>> run = mc.gram.runs()[-1]
    >>> run.label, run.shape, run.tiles, run.threads
    ('RBF', (2, 2), 1, 1)
    """

    label: str
    shape: tuple[int, ...]
    tiles: int
    threads: int
    device: str
    seconds: float

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return (
            f"{self.label}: {size}, {self.tiles} tiles, {self.threads} thread(s), {self.device}, {self.seconds:.3g} s"
        )


_runs: deque[Run] = deque(maxlen=100)


def runs() -> list[Run]:
    """Return the records of the latest 100 runs in this process, newest last; they are also logged under ``mercer``.

    Examples
    --------
    >>> import mercer as mc
    >>> K = mc.Linear()([[1.0], [2.0], [3.0]])
    >>> mc.gram.runs()[-1].shape
    (3, 3)
    """
    return list(_runs)


class Operand(Protocol):
    """Batch prepared by a kernel, which the engine splits into tiles."""

    @property
    def order(self) -> np.ndarray[Any, Any] | None:
        """Permutation that groups objects of similar cost, or None."""

    @property
    def tile_hint(self) -> int:
        """Number of rows per tile that fits the caches."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Self: ...


Tile = Callable[[Any, Any], Array]


@dataclass(frozen=True)
class Block:
    """Position of a tile: rows and columns of the permuted matrix."""

    rows: slice
    columns: slice

    @property
    def diagonal(self) -> bool:
        """Whether the tile lies on the diagonal of a symmetric matrix."""
        return self.rows == self.columns


def cut(n: int, size: int) -> list[slice]:
    """Split ``range(n)`` into slices of ``size``."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def blocks(n: int, m: int, tile: tuple[int, int], symmetric: bool) -> list[Block]:
    """List the tiles of an n x m matrix; for a symmetric one, those on and above the diagonal."""
    rows, columns = cut(n, tile[0]), cut(m, tile[1])
    if symmetric:
        return [Block(r, c) for i, r in enumerate(rows) for c in columns[i:]]
    return [Block(r, c) for r in rows for c in columns]


def fill(
    tile: Tile,
    a: Operand,
    b: Operand | None = None,
    *,
    diagonal: Array | None = None,
    label: str = "Gram matrix",
    to_host: bool = False,
    device_pairs: int | None = None,
) -> Array:
    """Compute the matrix of all pairs of ``a`` and ``b``, or of ``a`` with itself.

    Parameters
    ----------
    tile : callable
        ``tile(a[rows], b[columns])`` returns ``(..., I, J)``. Must be pure and thread-safe.
    a, b : operands
        ``b=None`` computes a symmetric matrix from its upper half.
    diagonal : array of shape (..., N), default=None
        Exact values for the diagonal of a symmetric matrix.
    label : str
        Label of the progress bar.
    to_host : bool
        Whether to return a NumPy array if tiles are computed on another device.
    device_pairs : int or None
        Number of pairs that a Triton kernel computes at once; None to choose tiles for the CPU.

    Returns
    -------
    array of shape (..., N, M)
    """
    symmetric = b is None
    other: Any = a if b is None else b
    row_order, a = sorted_operand(a)
    column_order, other = (row_order, a) if symmetric else sorted_operand(other)
    n, m = len(a), len(other)
    if n == 0 or m == 0:
        return np.zeros((n, m))
    start = time.perf_counter()
    if device_pairs is not None:
        orders = row_order, column_order
        if diagonal is not None and row_order is not None:
            diagonal = diagonal[..., row_order]
        matrix, n_tiles = matrix_on_device(tile, a, other, orders, symmetric, diagonal, device_pairs, to_host)
        _record(label, matrix, n_tiles, 1, start)
        return matrix
    tiles = blocks(n, m, tile_shape(a, other, symmetric), symmetric)
    with single_blas():
        first = tile(a[tiles[0].rows], other[tiles[0].columns])
        seconds = time.perf_counter() - start
    if not is_numpy_array(first):
        matrix, n_tiles = _assemble(tile, first, a, other, row_order, column_order, symmetric, diagonal)
        _record(label, matrix, n_tiles, 1, start)
        return to_numpy(matrix) if to_host else matrix

    out = np.empty((*first.shape[:-2], n, m), dtype=first.dtype)
    write = Writer(out, row_order, column_order, symmetric)
    write(tiles[0], first)
    del first

    def work(block: Block) -> None:
        write(block, tile(a[block.rows], other[block.columns]))

    threads = threads_for(len(tiles), seconds)
    thread_map(work, tiles[1:], threads=threads, label=label)
    if symmetric and diagonal is not None:
        index = np.arange(n)
        out[..., index, index] = diagonal
    _record(label, out, len(tiles), threads, start)
    return out


def threads_for(tiles: int, seconds: float) -> int:
    """Return the number of threads that compute some tiles, of which one takes some seconds."""
    worthwhile = seconds >= TILE_FROM_SECONDS and seconds * (tiles - 1) >= PARALLEL_FROM_SECONDS
    return min(n_threads(), tiles) if worthwhile else 1


def _record(label: str, out: Array, tiles: int, threads: int, start: float) -> None:
    where = "cpu" if is_numpy_array(out) else str(device(out))
    record(Run(label, tuple(out.shape), tiles, threads, where, time.perf_counter() - start))


def record(run: Run) -> None:
    """Keep the record of a run, and log it."""
    _runs.append(run)
    logger.debug("%s", run)


@dataclass(frozen=True)
class Writer:
    """Writes tiles into the matrix, undoing the permutation and mirroring the symmetric half."""

    out: Any
    rows: np.ndarray[Any, Any] | None
    columns: np.ndarray[Any, Any] | None
    symmetric: bool

    def __call__(self, block: Block, values: Any) -> None:
        """Write a tile, and where the matrix is symmetric its mirror image."""
        if self.symmetric and block.diagonal:
            values = mirrored(values)
        self._put(block.rows, block.columns, values)
        if self.symmetric and not block.diagonal:
            self._put(block.columns, block.rows, np.swapaxes(values, -1, -2))

    def _put(self, rows: slice, columns: slice, values: Any) -> None:
        if self.rows is None and self.columns is None:
            self.out[..., rows, columns] = values
            return
        r = np.arange(rows.start, rows.stop) if self.rows is None else self.rows[rows]
        c = np.arange(columns.start, columns.stop) if self.columns is None else self.columns[columns]
        self.out[..., r[:, None], c] = values


def sorted_operand(operand: Any) -> tuple[np.ndarray[Any, Any] | None, Any]:
    """Return the order of an operand, None for its own, and the operand in this order."""
    order = operand.order
    return (None, operand) if order is None else (order, operand[order])


def tile_shape(a: Any, b: Any, symmetric: bool) -> tuple[int, int]:
    """Return the rows and columns of a tile, which must not depend on the number of threads."""
    if symmetric:
        # Half of a diagonal tile is wasted; at least four tiles along a side keep the waste below a quarter.
        quarter = 16 * max(1, -(-len(a) // 64))
        return min(a.tile_hint, quarter), min(a.tile_hint, quarter)
    # With few rows, use more columns: the caches limit the area of a tile.
    area = a.tile_hint * b.tile_hint
    rows = min(len(a), a.tile_hint)
    columns = min(len(b), max(b.tile_hint, area // max(rows, 1)))
    return max(rows, 1), max(columns, 1)


def _assemble(
    tile: Tile,
    first: Array,
    a: Any,
    b: Any,
    row_order: Any,
    column_order: Any,
    symmetric: bool,
    diagonal: Array | None,
) -> tuple[Array, int]:
    """Concatenate tiles instead of writing into an array, which keeps gradients and works on any device.

    ``first`` is the first tile. Returns the matrix and the number of computed tiles: on an accelerator tiles are
    larger, so the first one is computed again.
    """
    xp = namespace(first)
    n_tiles = 1
    shape = tile_shape(a, b, symmetric)
    if _accelerated(first):
        shape = (ACCELERATOR_TILES * shape[0], ACCELERATOR_TILES * shape[1])
        first = tile(a[: shape[0]], b[: shape[1]])
        n_tiles += 1
    rows, columns = cut(len(a), shape[0]), cut(len(b), shape[1])
    grid: list[list[Array]] = []
    for i, r in enumerate(rows):
        done = [xp.matrix_transpose(above[i]) for above in grid] if symmetric else [first] if i == 0 else []
        if symmetric:
            done.append(mirrored(tile(a[r], b[r]) if i else first))
        grid.append(done + [tile(a[r], b[c]) for c in columns[len(done) :]])
    n_tiles += (len(rows) * (len(rows) + 1) // 2 if symmetric else len(rows) * len(columns)) - 1
    out = xp.concat([xp.concat(tiles, axis=-1) for tiles in grid], axis=-2)
    for order, axis in ((row_order, -2), (column_order, -1)):
        if order is not None:
            out = xp.take(out, xp.asarray(np.argsort(order), device=device(out)), axis=axis)
    if symmetric and diagonal is not None:
        eye = xp.eye(out.shape[-1], dtype=xp.bool, device=device(out))
        out = xp.where(eye, diagonal[..., :, None], out)
    return out, n_tiles


def _accelerated(x: Array) -> bool:
    return is_cupy_array(x) or (is_torch_array(x) and x.device.type != "cpu")


def mirrored(values: Array) -> Array:
    """Return a diagonal tile with its upper half mirrored, since both halves differ by rounding."""
    xp = namespace(values)
    above = xp.triu(values, k=1)
    return xp.triu(values) + xp.matrix_transpose(above)
