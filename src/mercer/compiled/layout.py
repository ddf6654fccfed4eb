"""Array layouts for SIMD lanes: groups of members in adjacent lanes, and sets in whole blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.lanes import aligned


def owned(x: Any, real: Any = np.float64) -> Floats:
    """Make an array contiguous and writable: Numba would compile another instance for other arrays."""
    return np.require(x, real, ["C", "W"])


def to_lanes(x: Floats, axes: tuple[int, ...], lanes: int) -> Floats:
    """Arrange groups of ``lanes`` members in adjacent lanes.

    Parameters
    ----------
    x : ndarray of shape (N, ...)
        N members.
    axes : tuple of int
        All axes after the first, in the order of the result.
    lanes : int
        Number of members in a group.

    Returns
    -------
    ndarray of shape (groups, ..., lanes)
        Contiguous and aligned; the last member fills the remaining lanes of the last group.
    """
    members = x.transpose(0, *axes)
    out = aligned((-(-len(x) // lanes), *members.shape[1:], lanes), x.dtype)
    for lane in range(lanes):
        some = members[lane::lanes]
        out[: len(some), ..., lane] = some
        out[len(some) :, ..., lane] = members[-1:]
    return out


def blocks(x: Floats, offsets: Floats, width: int, fill: float) -> tuple[Floats, Floats]:
    """Pad sets to whole blocks.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Concatenated sets.
    offsets : ndarray of int of shape (N + 1,)
        Set i is ``x[offsets[i]:offsets[i + 1]]``.
    width : int
        Number of rows of a block.
    fill : float
        The coordinates of padding rows.

    Returns
    -------
    out : ndarray of shape (B, width, d)
    starts : ndarray of int of shape (N + 1,)
        Set i is in the blocks ``starts[i]`` to ``starts[i + 1] - 1``.
    """
    sizes = np.diff(offsets)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // width))]).astype(np.int64)
    out = np.full((int(starts[-1]) * width, x.shape[1]), fill)
    out[np.repeat(starts[:-1] * width - offsets[:-1], sizes) + np.arange(len(x))] = x
    return out.reshape(int(starts[-1]), width, x.shape[1]), starts
