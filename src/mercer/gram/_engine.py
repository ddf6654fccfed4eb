"""How a Gram matrix is filled: tiles, the symmetric half, threads, progress.

The engine knows a protocol and no kernel: operands that have a length and can be sliced, and a function that answers a
tile. It permutes by the operands' ``order``, cuts by their ``tile_hint``, calls, writes and mirrors. A tile's size
depends on the operands alone, so that the result has the same bits for any number of threads.
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

from mercer._array import Array, namespace
from mercer._parallel import n_threads, single_blas, thread_map

PARALLEL_FROM_SECONDS = 0.004
"""Work below this is done by one thread: starting a pool costs about a tenth of it."""
TILE_FROM_SECONDS = 0.0002
"""Tiles faster than this spend their time on the interpreter's lock, which threads would fight for."""

ACCELERATOR_TILES = 8
"""How many times longer a tile's sides are on a GPU, where a small tile costs as much to start as to compute."""

logger = logging.getLogger("mercer")
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Run:
    """What one filling of a matrix did, for the record.

    Parameters
    ----------
    label : str
        The kernel.
    shape : tuple of int
        Of the matrix.
    tiles, threads : int
        How many tiles, on how many threads.
    device : str
        Where: "cpu" for NumPy, else the array's device.
    seconds : float
        How long.

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
    """Return the records of this process's latest 100 runs, the newest last; they are also logged under ``mercer``.

    Examples
    --------
    >>> import mercer as mc
    >>> K = mc.Linear()([[1.0], [2.0], [3.0]])
    >>> mc.gram.runs()[-1].shape
    (3, 3)
    """
    return list(_runs)


class Operand(Protocol):
    """What a kernel prepares once per batch and the engine cuts into tiles."""

    @property
    def order(self) -> np.ndarray[Any, Any] | None:
        """A permutation in which neighbours cost alike, or None."""

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Self: ...


Tile = Callable[[Any, Any], Array]


@dataclass(frozen=True)
class Block:
    """A tile's place: rows and columns of the permuted matrix."""

    rows: slice
    columns: slice

    @property
    def diagonal(self) -> bool:
        """Whether the tile lies on the diagonal of a symmetric matrix."""
        return self.rows == self.columns


def cut(n: int, size: int) -> list[slice]:
    """Cut ``range(n)`` into pieces of ``size``."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def blocks(n: int, m: int, tile: tuple[int, int], symmetric: bool) -> list[Block]:
    """List the tiles of an n x m matrix; of a symmetric one those on and above the diagonal."""
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
) -> Array:
    """Fill the matrix of all pairs of ``a`` and ``b``, or of ``a`` with itself.

    Parameters
    ----------
    tile : callable
        ``tile(a[rows], b[columns])`` gives ``(..., I, J)``. Pure and thread-safe.
    a, b : operands
        ``b=None`` fills a symmetric matrix from its upper half.
    diagonal : array of shape (..., N), default=None
        Exact values for the diagonal of a symmetric matrix.
    label : str
        Of the progress bar.

    Returns
    -------
    array of shape (..., N, M)
    """
    symmetric = b is None
    other: Any = a if b is None else b
    row_order, a = _sorted(a)
    column_order, other = (row_order, a) if symmetric else _sorted(other)
    n, m = len(a), len(other)
    if n == 0 or m == 0:
        return np.zeros((n, m))
    tiles = blocks(n, m, tile_shape(a, other, symmetric), symmetric)
    start = time.perf_counter()
    with single_blas():
        first = tile(a[tiles[0].rows], other[tiles[0].columns])
        seconds = time.perf_counter() - start
    if not is_numpy_array(first):
        joined, ran = _assemble(tile, first, a, other, row_order, column_order, symmetric, diagonal)
        _record(label, joined, ran, 1, start)
        return joined

    out = np.empty((*first.shape[:-2], n, m), dtype=first.dtype)
    write = _Writer(out, row_order, column_order, symmetric)
    write(tiles[0], first)
    del first

    def work(block: Block) -> None:
        write(block, tile(a[block.rows], other[block.columns]))

    worthwhile = seconds >= TILE_FROM_SECONDS and seconds * (len(tiles) - 1) >= PARALLEL_FROM_SECONDS
    threads = min(n_threads(), len(tiles)) if worthwhile else 1
    thread_map(work, tiles[1:], threads=threads, label=label)
    if symmetric and diagonal is not None:
        index = np.arange(n)
        out[..., index, index] = diagonal
    _record(label, out, len(tiles), threads, start)
    return out


def _record(label: str, out: Array, tiles: int, threads: int, start: float) -> None:
    where = "cpu" if is_numpy_array(out) else str(device(out))
    run = Run(label, tuple(out.shape), tiles, threads, where, time.perf_counter() - start)
    _runs.append(run)
    logger.debug("%s", run)


class _Writer:
    """Puts tiles into the matrix, undoing the permutation and mirroring the symmetric half."""

    def __init__(
        self,
        out: Any,
        rows: np.ndarray[Any, Any] | None,
        columns: np.ndarray[Any, Any] | None,
        symmetric: bool,
    ) -> None:
        self.out = out
        self.rows = rows
        self.columns = columns
        self.symmetric = symmetric

    def __call__(self, block: Block, values: Any) -> None:
        if self.symmetric and block.diagonal:
            values = _mirrored(values)
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


def _sorted(operand: Any) -> tuple[np.ndarray[Any, Any] | None, Any]:
    order = operand.order
    return (None, operand) if order is None else (order, operand[order])


def tile_shape(a: Any, b: Any, symmetric: bool) -> tuple[int, int]:
    """Return rows and columns of a tile: the operands' business, and never that of the number of threads."""
    if symmetric:
        # A tile on the diagonal is evaluated whole, for a half: four along a side keep that waste at a quarter.
        quarter = 16 * max(1, -(-len(a) // 64))
        return min(a.tile_hint, quarter), min(a.tile_hint, quarter)
    # Few rows on one side leave room for more columns: the area is what the caches hold.
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
    """Join tiles instead of writing into them: keeps gradients, and any device. The first tile is there already.

    Returns the matrix, and how many tiles ran for it: on an accelerator they are larger, and the first runs again.
    """
    xp = namespace(first)
    ran = 1
    shape = tile_shape(a, b, symmetric)
    if _accelerated(first):
        shape = (ACCELERATOR_TILES * shape[0], ACCELERATOR_TILES * shape[1])
        first = tile(a[: shape[0]], b[: shape[1]])
        ran += 1
    rows, columns = cut(len(a), shape[0]), cut(len(b), shape[1])
    grid: list[list[Array]] = []
    for i, r in enumerate(rows):
        done = [xp.matrix_transpose(above[i]) for above in grid] if symmetric else [first] if i == 0 else []
        if symmetric:
            done.append(_mirrored(tile(a[r], b[r]) if i else first))
        grid.append(done + [tile(a[r], b[c]) for c in columns[len(done) :]])
    ran += (len(rows) * (len(rows) + 1) // 2 if symmetric else len(rows) * len(columns)) - 1
    out = xp.concat([xp.concat(tiles, axis=-1) for tiles in grid], axis=-2)
    for order, axis in ((row_order, -2), (column_order, -1)):
        if order is not None:
            out = xp.take(out, xp.asarray(np.argsort(order), device=device(out)), axis=axis)
    if symmetric and diagonal is not None:
        eye = xp.eye(out.shape[-1], dtype=xp.bool, device=device(out))
        out = xp.where(eye, diagonal[..., :, None], out)
    return out, ran


def _accelerated(x: Array) -> bool:
    return is_cupy_array(x) or (is_torch_array(x) and x.device.type != "cpu")


def _mirrored(values: Array) -> Array:
    """Return a diagonal tile with its upper half on both sides: two orders of summation differ in the last digit."""
    xp = namespace(values)
    above = xp.triu(values, k=1)
    return xp.triu(values) + xp.matrix_transpose(above)
