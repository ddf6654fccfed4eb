"""Leaf kernels of coupled chains: from logarithms to values with one scale per pair of models."""

from __future__ import annotations

import functools

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, namespace

_CHUNK = 1 << 15  # numbers that fit into the L2 cache


def lost_leaves(psi: Array, log_psi: Array) -> Array | None:
    """Mark leaf kernels that underflow relative to a larger one; None if there are none."""
    xp = namespace(psi)
    if 0 in psi.shape or bool(xp.min(psi) > 0):
        return None
    lost = (psi == 0) & (log_psi > -xp.inf)
    return lost if bool(xp.any(lost)) else None


def scaled_leaves(log_psi: Array, shape: tuple[int, ...], state_axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Turn log leaf kernels into values with one scale per pair of models."""
    if is_numpy_array(log_psi) and len(shape) == 4 and 0 not in shape:
        return _scaled_tile(log_psi, shape)
    xp = namespace(log_psi)
    blocks = xp.reshape(log_psi, shape)
    top = xp.max(blocks, axis=state_axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    psi = xp.reshape(xp.exp(blocks - top), log_psi.shape)
    kept = tuple(n for axis, n in enumerate(shape) if axis not in state_axes)
    return psi, xp.reshape(top, kept)


def _scaled_tile(log_psi: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Scale a tile (I, n, J, m) in NumPy, a few models at a time, to stay in the cache."""
    i, n, j, m = shape
    blocks = log_psi.reshape(i, n, j * m)
    psi, top = np.empty_like(blocks), np.empty((i, j), log_psi.dtype)
    step = max(1, _CHUNK // (n * j * m))
    for first in range(0, i, step):
        some = blocks[first : first + step]
        # Along the long axis first, row by row, because maxima over short axes are slow.
        columns = some.max(axis=1).reshape(-1, j, m)
        highest = functools.reduce(np.maximum, (columns[:, :, b] for b in range(m)))
        highest = np.where(np.isfinite(highest), highest, 0.0)
        top[first : first + step] = highest
        out = psi[first : first + step]
        np.subtract(some, np.repeat(highest, m, axis=1)[:, None, :], out=out)
        np.exp(out, out=out)
    return psi.reshape(log_psi.shape), top
