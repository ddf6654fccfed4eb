"""Counts of windows in sequences, the sufficient statistics of Markov chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data import Sequences
from mercer.data.ragged import windows_of

CELLS = 1 << 27
"""Largest number of entries of a dense table (1 GiB)."""


def n_heads(k: int, order: int, end: bool) -> int:
    """Count the outcomes of an initial distribution: ``order`` symbols, and with an end also all shorter sequences."""
    return int(k**order + (sum(k**j for j in range(order)) if end else 0))


def transitions_of(values: Floats, offsets: Floats, k: int, order: int, end: bool) -> tuple[Floats, Floats, Floats]:
    """List the transitions between plain symbols: sequence, window ``context * w + symbol`` and position.

    With an end, a sequence of at least ``order`` symbols also goes from its last context to the symbol ``k``; the
    position is that of the newest symbol (for an empty sequence, that of the next one).
    """
    width = k + end
    found = windows_of(values, offsets, k, order + 1)
    window = found.code // k * width + found.code % k
    owner, position = found.owner, found.start + order
    if not end:
        return owner, window, position
    context, who, last = endings_of(values, offsets, k, order)
    return (
        np.concatenate([owner, who]),
        np.concatenate([window, context * width + k]),
        np.concatenate([position, last]),
    )


def endings_of(values: Floats, offsets: Floats, k: int, order: int) -> tuple[Floats, Floats, Floats]:
    """Return the last context of plain symbols, the sequence and the last position, for sequences that have one."""
    if order == 0:
        n = len(offsets) - 1
        return np.zeros(n, dtype=np.int64), np.arange(n), np.maximum(offsets[1:] - 1, 0)
    found = windows_of(values, offsets, k, order)
    last = found.start + order == offsets[1:][found.owner]
    return found.code[last], found.owner[last], found.start[last] + order - 1


def counted(X: Sequences, k: int, order: int, end: bool) -> tuple[Floats, Any]:
    """Count the transitions of every sequence; return the windows that occur, ``(U,)``, and a CSR array ``(M, U)``."""
    owner, window, _ = transitions_of(X.values, X.offsets, k, order, end)
    windows, column = np.unique(window, return_inverse=True)
    ones = np.ones(len(owner))
    return windows, sparse.csr_array((ones, (owner, column)), shape=(len(X), len(windows)))


def heads_of(X: Sequences, k: int, order: int) -> Floats:
    """Encode the first ``order`` plain symbols of every sequence as a number, ``(M,)``."""
    head = np.zeros(len(X), dtype=np.int64)
    for j in range(order):
        head = head * k + X.values[X.offsets[:-1] + j]
    return head
