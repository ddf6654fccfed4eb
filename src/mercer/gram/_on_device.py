"""Matrices on an NVIDIA card: large tiles, smaller ones if memory is short, and results that stream to the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, Floats
from mercer._memory import human

LEAST_PAIRS = 2**12
"""Tiles of fewer pairs are not tried: what does not fit then is the data."""
BANDS = 16
"""Number of bands of rows of a result that is brought back, at least: copies overlap with computation."""
COPY_BYTES = 2**23
"""Size of the pinned buffer of a thread that copies; pinning memory costs as much as copying it 40 times."""
COPY_THREADS = 8

Tile = Callable[[Any, Any], Array]


def device_pairs(*operands: Any) -> int | None:
    """Return the number of pairs that operands compute at once on a card; None if they have no program for it."""
    sizes = [getattr(operand, "device_pairs", None) for operand in operands]
    known = [int(size) for size in sizes if size is not None]
    return min(known) if len(known) == len(operands) else None


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
    """Compute the matrix of all pairs, with smaller tiles as long as the memory of the card is exhausted.

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
                f"of the card ({reason}). Use fewer models, or mc.set_config(device=None)."
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
    if n * m <= pairs and not to_host:
        values = tile(a, a if symmetric else b)  # one object: the program computes half
        if symmetric and not bool((values == values.mT).all()):
            values = values.tril() + values.tril(-1).mT
        _set_diagonal(values, diagonal)
        return _unsorted(values, orders), 1
    rows = max(1, min(pairs // m, -(-n // BANDS) if to_host else n))
    bands = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    whole: Any = None
    copier: _Copier | None = None
    back = None if orders[1] is None else np.argsort(orders[1])
    try:
        for band in bands:
            left = a[band]
            values = tile(left, b[band.start :] if symmetric else b)
            if whole is None:
                whole = _empty((*values.shape[:-2], n, m), values)
                copier = _Copier(tuple(whole.shape)) if to_host and is_torch_array(whole) else None
            if symmetric:
                size = band.stop - band.start
                whole[..., band.start :, band] = values.mT
                whole[..., band, band.start :] = values
                square = values[..., :size].tril(-1)
                whole[..., band, band] = values[..., :size].tril() + square.mT
                if diagonal is not None:
                    whole[..., band, band].diagonal(0, -2, -1).copy_(diagonal[..., band])
            else:
                whole[..., band, :] = values
            if copier is not None:
                done = whole[..., band, :]
                if back is not None:
                    done = done[..., _index(back, done)]
                copier.send(done, (np.arange(n) if orders[0] is None else orders[0])[band])
        if copier is not None:
            return copier.result(), len(bands)
    finally:
        if copier is not None:
            copier.close()
    return _unsorted(whole, orders), len(bands)


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
    """Copies rows from the card into a NumPy array while other rows are computed.

    Every thread has a pinned buffer, to which the card copies, and moves it on to the array, whose fresh pages cost
    more time than the transfer.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.out = np.empty(shape)
        self.pool = ThreadPoolExecutor(COPY_THREADS)
        self.local = threading.local()
        self.futures: list[Future[None]] = []

    def send(self, rows: Any, where: Floats) -> None:
        """Queue a band of rows, ``(..., R, M)``, for the rows ``where`` of the array."""
        import torch

        ready = torch.cuda.Event() if rows.is_cuda else None
        if ready is not None:
            ready.record(torch.cuda.current_stream(rows.device))
        flat, target = rows.reshape(-1, *rows.shape[-2:]), self.out.reshape(-1, *self.out.shape[-2:])
        step = max(1, COPY_BYTES // (8 * rows.shape[-1]))
        for h in range(len(flat)):
            for first in range(0, flat.shape[1], step):
                some = slice(first, min(first + step, flat.shape[1]))
                self.futures.append(self.pool.submit(self._copy, flat[h, some], target[h], where[some], ready))

    def _copy(self, rows: Any, target: Floats, at: Any, ready: Any) -> None:
        import torch

        if ready is None:
            target[at] = rows.numpy()
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
        contiguous = bool((np.diff(at) == 1).all())
        target[slice(at[0], at[-1] + 1) if contiguous else at] = buffer.numpy()  # slices are copied without the GIL

    def result(self) -> Floats:
        """Wait for all copies."""
        for future in self.futures:
            future.result()
        return self.out

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(wait=True, cancel_futures=True)
