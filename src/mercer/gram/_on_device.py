"""Matrices on an NVIDIA GPU: large tiles, smaller ones if memory is short, and results that stream to the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._units import human

LEAST_PAIRS = 2**12
"""Tiles of fewer pairs are not tried: what does not fit then is the data."""
BANDS = 16
"""Number of bands of rows of a result that is brought back: copies overlap with computation."""
BAND_PAIRS = 2**22
"""Number of pairs of a band, at least: fewer would leave the GPU idle."""
RESIDENT = 0.7
"""Share of the free memory of the GPU up to which a matrix is kept there until it is brought back."""
COPY_BYTES = 2**23
"""Size of the pinned buffer of a thread that copies; pinning memory costs as much as copying it 40 times."""
COPY_THREADS = 8

Tile = Callable[[Any, Any], Array]


def matrix_on_device(
    tile: Tile,
    a: Any,
    b: Any,
    orders: tuple[Any, Any],
    symmetric: bool,
    diagonal: Array | None,
    pairs: int,
    to_host: bool,
) -> tuple[Array, int]:
    """Compute the matrix of all pairs, with smaller tiles as long as the memory of the GPU is exhausted.

    Parameters
    ----------
    tile, a, b
        As for `mercer.gram.engine.fill`; sorted operands.
    orders : pair of arrays or None
        The permutations by which the operands were sorted.
    symmetric : bool
        Whether ``b`` is ``a``.
    diagonal : array or None
        Exact values for the diagonal.
    pairs : int
        Number of pairs per tile.
    to_host : bool
        Whether to return a NumPy array.

    Returns
    -------
    matrix, n_tiles
    """
    while True:
        try:
            return _attempt(tile, a, b, orders, symmetric, diagonal, pairs, to_host)
        except Exception as error:
            if not _exhausted(error):
                raise
            reason = str(error).partition(". ")[0]
        _release()
        pairs = min(pairs, len(a) * len(b)) // 4
        if pairs < LEAST_PAIRS:
            raise MemoryError(
                f"A matrix of {len(a)} x {len(b)} values ({human(8 * len(a) * len(b))}) does not fit into the memory "
                f"of the GPU ({reason}). Use fewer models, or mc.set_config(device=None)."
            )


def _exhausted(error: Exception) -> bool:
    return type(error).__name__ == "OutOfMemoryError"  # torch's, without importing it


def _release() -> None:
    import torch

    torch.cuda.empty_cache()


def _attempt(
    tile: Tile, a: Any, b: Any, orders: tuple[Any, Any], symmetric: bool, diagonal: Any, pairs: int, to_host: bool
) -> tuple[Array, int]:
    n, m = len(a), len(b)
    few = max(-(-n // BANDS), -(-BAND_PAIRS // m)) if to_host else n
    rows = max(1, min(pairs // m, few))
    if rows >= n:
        values = tile(a, a if symmetric else b)  # one object: the Triton kernel computes half
        if symmetric and not bool((values == values.mT).all()):
            values = values.tril() + values.tril(-1).mT
        _set_diagonal(values, diagonal)
        values = _unsorted(values, orders)
        return to_numpy(values) if to_host else values, 1
    bands = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    if not to_host:
        return _unsorted(_whole(tile, a, b, symmetric, diagonal, bands, None), orders), len(bands)
    first = tile(a[:1], b[:1])
    copier = _Copier((*first.shape[:-2], n, m), orders)
    try:
        if _resident(first, copier.out.size):
            _whole(tile, a, b, symmetric, diagonal, bands, copier)
        else:
            _streamed(tile, a, b, symmetric, diagonal, bands, copier)
        return copier.result(), len(bands)
    finally:
        copier.close()


def _resident(values: Any, count: int) -> bool:
    """Whether ``count`` float64 values fit into GPU memory in addition to the tiles."""
    if not values.is_cuda:
        return True
    import torch

    device = values.device
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(8 * count <= RESIDENT * (torch.cuda.mem_get_info(device)[0] + unused))


def _whole(
    tile: Tile, a: Any, b: Any, symmetric: bool, diagonal: Any, bands: list[slice], copier: _Copier | None
) -> Any:
    """Fill a matrix on the GPU; rows that are complete are brought back meanwhile."""
    whole: Any = None
    back = None if copier is None or copier.columns is None else np.argsort(copier.columns)
    for band in bands:
        values = tile(a[band], b[band.start :] if symmetric else b)
        if whole is None:
            whole = _empty((*values.shape[:-2], len(a), len(b)), values)
        if symmetric:
            whole[..., band.start :, band] = values.mT
            whole[..., band, band.start :] = values
            whole[..., band, band] = _mirrored(values, band, diagonal)
        else:
            whole[..., band, :] = values
        if copier is not None:
            done = whole[..., band, :]
            copier.send(done if back is None else done[..., _index(back, done)], band, None)
    return whole


def _streamed(tile: Tile, a: Any, b: Any, symmetric: bool, diagonal: Any, bands: list[slice], copier: _Copier) -> None:
    """Bring back every band at once, and its mirror image: the GPU never holds more than a band."""
    for band in bands:
        values = tile(a[band], b[band.start :] if symmetric else b)
        if symmetric:
            size = band.stop - band.start
            values[..., :size] = _mirrored(values, band, diagonal)
            if size < values.shape[-1]:
                rest = slice(band.stop, len(a))
                copier.send(values[..., size:].mT.contiguous(), rest, band)
        copier.send(values, band, slice(band.start if symmetric else 0, len(b)))
        copier.wait()


def _mirrored(values: Any, band: slice, diagonal: Any) -> Any:
    """Return the square on the diagonal of a symmetric matrix, with its lower half mirrored."""
    square = values[..., : band.stop - band.start]
    square = square.tril() + square.tril(-1).mT
    if diagonal is not None:
        square.diagonal(0, -2, -1).copy_(diagonal[..., band])
    return square


def _empty(shape: tuple[int, ...], like: Any) -> Any:
    return like.new_empty(shape)


def _index(order: Floats, like: Any) -> Any:
    import torch

    return torch.from_numpy(order).to(like.device)


def _set_diagonal(values: Any, diagonal: Any) -> None:
    if diagonal is not None:
        values.diagonal(0, -2, -1).copy_(diagonal)


def _unsorted(values: Any, orders: tuple[Any, Any]) -> Any:
    for order, axis in zip(orders, (-2, -1), strict=True):
        if order is not None:
            values = values.index_select(values.ndim + axis, _index(np.argsort(order), values))
    return values


class _Copier:
    """Copies rows from the GPU into a NumPy array while other rows are computed.

    Every thread has a pinned buffer, to which the GPU copies, and moves it on to the array, whose fresh pages cost
    more time than the transfer.
    """

    def __init__(self, shape: tuple[int, ...], orders: tuple[Any, Any]) -> None:
        self.out = np.empty(shape)
        self.rows, self.columns = orders
        self.pool = ThreadPoolExecutor(COPY_THREADS)
        self.local = threading.local()
        self.futures: list[Future[None]] = []

    def send(self, values: Any, rows: slice, columns: slice | None) -> None:
        """Queue a block ``(..., R, C)``: positions in the sorted order, or all columns in their own order."""
        import torch

        ready = torch.cuda.Event() if values.is_cuda else None
        if ready is not None:
            ready.record(torch.cuda.current_stream(values.device))
        flat, target = values.reshape(-1, *values.shape[-2:]), self.out.reshape(-1, *self.out.shape[-2:])
        at = (np.arange(self.out.shape[-2]) if self.rows is None else self.rows)[rows]
        where: Any = slice(None) if columns is None else columns
        if columns is not None and self.columns is not None:
            where = self.columns[columns]
        step = max(1, COPY_BYTES // (8 * values.shape[-1]))
        for h in range(len(flat)):
            for first in range(0, flat.shape[1], step):
                some = slice(first, min(first + step, flat.shape[1]))
                self.futures.append(self.pool.submit(self._copy, flat[h, some], target[h], at[some], where, ready))

    def _copy(self, rows: Any, target: Floats, at: Any, columns: Any, ready: Any) -> None:
        import torch

        if ready is None:
            _write(target, at, columns, rows.numpy())
            return
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream(rows.device)
            self.local.buffer = torch.empty(max(COPY_BYTES // 8, rows.shape[-1]), dtype=torch.float64, pin_memory=True)
        stream, buffer = self.local.stream, self.local.buffer[: rows.numel()].view(rows.shape)
        with torch.cuda.stream(stream):
            stream.wait_event(ready)
            buffer.copy_(rows, non_blocking=True)
        rows.record_stream(stream)
        stream.synchronize()
        _write(target, at, columns, buffer.numpy())

    def wait(self) -> None:
        """Wait for all copies."""
        for future in self.futures:
            future.result()
        self.futures.clear()

    def result(self) -> Floats:
        """Wait for all copies, and return the array."""
        self.wait()
        return self.out

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(wait=True, cancel_futures=True)


def _write(target: Floats, rows: Any, columns: Any, values: Floats) -> None:
    """Write a block into rows, and a slice or array of columns, of a matrix; slices are copied without the GIL."""
    if bool((np.diff(rows) == 1).all()):
        target[rows[0] : rows[-1] + 1, columns] = values
    elif isinstance(columns, slice):
        target[rows, columns] = values
    else:
        target[rows[:, None], columns] = values
