"""Encode windows of consecutive symbols as integers, for Markov chains and spectrum kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats


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
