"""Matrices on an NVIDIA GPU: large tiles, and smaller ones if memory is short."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._sizes import human

LEAST_PAIRS = 2**12
"""Tiles of fewer pairs are not tried: what does not fit then is the data."""
COPY_ROWS, COPY_THREADS = 100, 4

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
    """Compute bands of rows, and mirror those of a symmetric matrix."""
    n, rows = len(a), max(1, min(pairs // len(b), len(a)))
    if rows == n:
        values: Any = tile(a, a if symmetric else b)  # one object: the Triton kernel computes half
        if symmetric and not bool((values == values.mT).all()):
            values = values.tril() + values.tril(-1).mT
        _set_diagonal(values, diagonal)
        values = _unsorted(values, orders)
        return _on_host(values) if to_host else values, 1
    whole: Any = None
    bands = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    for band in bands:
        values = tile(a[band], b[band.start :] if symmetric else b)
        if symmetric:
            square = values[..., : band.stop - band.start]
            square.copy_(square.tril() + square.tril(-1).mT)
        if to_host:
            values = _on_host(values)
        if whole is None:
            shape = (*values.shape[:-2], n, len(b))
            whole = np.empty(shape, dtype=values.dtype) if to_host else values.new_empty(shape)
        whole[..., band, band.start if symmetric else 0 :] = values
        if symmetric:
            whole[..., band.start :, band] = np.swapaxes(values, -1, -2) if to_host else values.mT
    if to_host:
        if diagonal is not None:
            whole[..., np.arange(n), np.arange(n)] = to_numpy(diagonal)
        for order, axis in zip(orders, (-2, -1), strict=True):
            whole = whole if order is None else np.take(whole, np.argsort(order), axis=axis)
        return whole, len(bands)
    _set_diagonal(whole, diagonal)
    return _unsorted(whole, orders), len(bands)


def _on_host(values: Any) -> Floats:
    """Bring values back by several threads, through pinned buffers: fresh pages cost more time than the transfer."""
    import torch

    out, local = torch.empty(values.shape, dtype=values.dtype), threading.local()
    there, here = (x.reshape(-1, x.shape[-1]) for x in (values, out))

    def copy(first: int) -> None:
        rows = there[first : first + COPY_ROWS]
        if not hasattr(local, "buffer"):
            local.buffer = torch.empty((COPY_ROWS, rows.shape[1]), dtype=rows.dtype, pin_memory=rows.is_cuda)
        here[first : first + COPY_ROWS].copy_(local.buffer[: len(rows)].copy_(rows))

    with ThreadPoolExecutor(COPY_THREADS) as pool:
        list(pool.map(copy, range(0, len(here), COPY_ROWS)))
    found: Floats = out.numpy()
    return found


def _set_diagonal(values: Any, diagonal: Any) -> None:
    if diagonal is not None:
        values.diagonal(0, -2, -1).copy_(diagonal)


def _unsorted(values: Any, orders: tuple[Any, Any]) -> Any:
    import torch

    for order, axis in zip(orders, (-2, -1), strict=True):
        if order is not None:
            back = torch.from_numpy(np.argsort(order)).to(values.device)
            values = values.index_select(values.ndim + axis, back)
    return values
