"""Pure functions on ragged arrays: flat values of shape ``(T, ...)`` and N + 1 offsets."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._forms import offsets_of

Offsets = NDArray[np.int64]


def gather(values: NDArray[Any], offsets: Offsets, index: NDArray[np.intp]) -> tuple[NDArray[Any], Offsets]:
    """Return the values and offsets of the data at ``index``; a run of neighbours is a view."""
    if len(index) and np.array_equal(index, np.arange(index[0], index[0] + len(index))):
        picked = offsets[index[0] : index[-1] + 2]
        return values[picked[0] : picked[-1]], picked - picked[0]
    starts, lengths = offsets[:-1][index], np.diff(offsets)[index]
    out = offsets_of(lengths)
    where = np.repeat(starts - out[:-1], lengths) + np.arange(out[-1])
    return values[where], out


def locate(offsets: Offsets, flat: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return, for sorted flat positions, the data that hold them and the first position in each."""
    owners = np.searchsorted(offsets, flat, side="right") - 1
    data, first = np.unique(owners, return_index=True)
    return data, flat[first] - offsets[data]


def digests(values: NDArray[Any], offsets: Offsets, prefix: bytes) -> list[bytes]:
    """Return 16 bytes for every datum, from ``prefix``, dtype, dimension and values; all NaN are one."""
    if values.dtype.kind == "f":
        values = values + 0.0
        values[np.isnan(values)] = np.nan
    start = blake2b(prefix + repr((values.dtype.str, values.shape[1:])).encode(), digest_size=16)
    width = values.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))
    raw: Any = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    out = []
    for a, b in pairwise((offsets * width).tolist()):
        h = start.copy()
        h.update(raw[a:b])
        out.append(h.digest())
    return out


def windows(values: NDArray[Any], offsets: Offsets, order: int) -> tuple[NDArray[Any], Offsets]:
    """Stack ``order + 1`` consecutive points, oldest first; every datum must have that many."""
    lengths = np.diff(offsets) - order
    out = offsets_of(lengths)
    first = np.repeat(offsets[:-1] - out[:-1], lengths) + np.arange(out[-1])
    stacked = values[first[:, None] + np.arange(order + 1)]
    return stacked.reshape(len(first), (order + 1) * values.shape[1]), out
