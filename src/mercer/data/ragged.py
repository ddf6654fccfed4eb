"""Pure functions on ragged arrays: flat values of shape ``(T, ...)`` and N + 1 offsets."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats, as_array
from mercer._native import mixtures as native

Offsets = NDArray[np.int64]


def offsets_of(lengths: Any) -> Offsets:
    """Convert N lengths to N + 1 offsets."""
    lengths = np.asarray(lengths, dtype=np.int64)
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def check_offsets(offsets: Any, total: int) -> None:
    """Raise unless offsets ascend from 0 to the number of values, so that every part lies within them."""
    sound = isinstance(offsets, np.ndarray) and offsets.ndim == 1 and len(offsets) and offsets.dtype.kind == "i"
    if not sound or offsets[0] != 0 or offsets[-1] != total or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets do not ascend from 0 to the number of values")


def unstacked(X: Any, lengths: Any) -> Any:
    """Cut the rows of ``X``, sequences below each other, into one array per sequence; ``X`` itself without lengths."""
    if lengths is None:
        return X
    rows = as_array(X, "X", "an array of stacked sequences")
    sizes = as_array(lengths, "lengths", "a list of whole numbers")
    if rows.ndim == 0 or sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or not np.all(sizes == np.floor(sizes)):
        raise TypeError(f"lengths must be a list of whole numbers; got {lengths!r}.")
    if sizes.sum() != len(rows) or (sizes < 0).any():
        found = f"the length {sizes.min()}" if (sizes < 0).any() else f"a sum of {sizes.sum()}"
        raise ValueError(f"lengths must be 0 or more and sum to the {len(rows)} rows of X; got {found}.")
    return np.split(rows, np.cumsum(sizes.astype(np.int64))[:-1])


def gather(values: NDArray[Any], offsets: Offsets, index: NDArray[np.intp]) -> tuple[NDArray[Any], Offsets]:
    """Return the values and offsets of the sequences at ``index``; for consecutive indices, values are a view."""
    if len(index) and np.array_equal(index, np.arange(index[0], index[0] + len(index))):
        picked = offsets[index[0] : index[-1] + 2]
        return values[picked[0] : picked[-1]], picked - picked[0]
    starts, lengths = offsets[:-1][index], np.diff(offsets)[index]
    out = offsets_of(lengths)
    where = np.repeat(starts - out[:-1], lengths) + np.arange(out[-1])
    return values[where], out


def locate(offsets: Offsets, flat: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the sequences that contain the sorted flat positions, and the first such position in each."""
    owners = np.searchsorted(offsets, flat, side="right") - 1
    sequences, first = np.unique(owners, return_index=True)
    return sequences, flat[first] - offsets[sequences]


def digests(values: NDArray[Any], offsets: Offsets, prefix: bytes) -> list[bytes]:
    """Return a 16-byte hash of ``prefix``, dtype, dimension and values for every sequence; all NaN are equal."""
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


def window_steps(offsets: Offsets, steps: NDArray[Any], length: int, dilation: int) -> NDArray[np.int64]:
    """Return the steps of windows around some steps, ``(n, length)``; a sequence is reflected at its ends."""
    place = np.arange(float(offsets[-1]))[:, None]
    return native.windows(place, offsets, steps, length, dilation, None).astype(np.int64)


def evenly(offsets: Offsets, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return steps that are evenly spaced in every sequence, ``counts`` of them."""
    lengths = np.repeat(np.diff(offsets), counts)
    local = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(offsets[:-1], counts) + (2 * local + 1) * lengths // (2 * np.repeat(counts, counts)))


def neighbors(seen: NDArray[np.bool_], offsets: Offsets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the nearest observed steps before and after every step and channel; the step itself if there is none."""
    lengths, steps = np.diff(offsets), np.arange(len(seen))[:, None]
    first, last = np.repeat(offsets[:-1], lengths)[:, None], np.repeat(offsets[1:], lengths)[:, None] - 1
    edge = np.full((1, seen.shape[1]), -1)
    before = np.concatenate([edge, np.maximum.accumulate(np.where(seen, steps, -1), axis=0)[:-1]])
    backward = np.minimum.accumulate(np.where(seen, steps, len(seen))[::-1], axis=0)[::-1]
    after = np.concatenate([backward[1:], edge + len(seen) + 1])
    return np.where(before < first, steps, before), np.where(after > last, steps, after)


def windows(values: NDArray[Any], offsets: Offsets, order: int) -> tuple[NDArray[Any], Offsets]:
    """Stack ``order + 1`` consecutive points, oldest first; every sequence must be that long."""
    lengths = np.diff(offsets) - order
    out = offsets_of(lengths)
    first = np.repeat(offsets[:-1] - out[:-1], lengths) + np.arange(out[-1])
    stacked = values[first[:, None] + np.arange(order + 1)]
    return stacked.reshape(len(first), (order + 1) * values.shape[1]), out


class Windows(NamedTuple):
    """Windows without ambiguity codes or missing symbols, in the order of the data."""

    code: Floats
    """Each window as an integer with its symbols as digits, the oldest first, ``(W,)`` int64."""
    owner: Floats
    """Index of the sequence that contains the window, ``(W,)``."""
    start: Floats
    """Position of the window's first symbol in the flat values, ``(W,)``."""


def windows_of(values: Floats, offsets: Floats, n_symbols: int, width: int) -> Windows:
    """Find all windows of ``width`` symbols that contain no ambiguity code and no missing symbol.

    Parameters
    ----------
    values : ndarray of int of shape (T,)
        Codes; codes of ``n_symbols`` or more are ambiguous or missing.
    offsets : ndarray of shape (N + 1,)
        Sequence i is ``values[offsets[i]:offsets[i + 1]]``.
    n_symbols : int
        Size of the alphabet; ``n_symbols ** width`` must fit into int64.
    width : int
        Number of symbols in a window, at least 1.
    """
    count = max(len(values) - width + 1, 0)
    code = np.zeros(count, dtype=np.int64)
    good = np.ones(count, dtype=bool)
    for j in range(width if count else 0):
        part = values[j : j + count]
        code *= n_symbols
        code += part
        good &= part < n_symbols
    if len(offsets) == 2:  # one sequence, as in a prediction
        owner = np.zeros(count, dtype=np.int64)
    else:
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[:count]
        good &= np.arange(width, width + count) <= offsets[1:][owner]
    if good.all():
        return Windows(code, owner, np.arange(count))
    return Windows(code[good], owner[good], np.flatnonzero(good))
