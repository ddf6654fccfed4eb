"""Windows of consecutive symbols as whole numbers: what Markov chains and spectrum kernels count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats


class Windows(NamedTuple):
    """Windows that hold plain symbols only, in the order of the data."""

    code: Floats
    """Symbols read as digits, the oldest first, ``(W,)`` int64."""
    owner: Floats
    """Position of the sequence that a window lies in, ``(W,)``."""
    start: Floats
    """Position of a window's first symbol among all values, ``(W,)``."""


def windows_of(values: Floats, offsets: Floats, n_symbols: int, width: int) -> Windows:
    """Find all windows of ``width`` symbols; those that hold an ambiguity code or a missing symbol are left out.

    Parameters
    ----------
    values : ndarray of int of shape (T,)
        Codes; from ``n_symbols`` on they are no plain symbols.
    offsets : ndarray of shape (N + 1,)
        Sequence i has the codes ``offsets[i]:offsets[i + 1]``.
    n_symbols : int
        Size of the alphabet; ``n_symbols ** width`` must be within the range of int64.
    width : int
        Number of symbols, 1 or more.
    """
    count = max(len(values) - width + 1, 0)
    code = np.zeros(count, dtype=np.int64)
    good = np.ones(count, dtype=bool)
    for j in range(width if count else 0):
        part = values[j : j + count]
        code *= n_symbols
        code += part
        good &= part < n_symbols
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[:count]
    good &= np.arange(width, width + count) <= offsets[1:][owner]
    return Windows(code[good], owner[good], np.flatnonzero(good))
