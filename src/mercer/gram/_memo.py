"""A memo of evaluated pairs, so that folds and values of C cost no second evaluation.

For every setting of a kernel it keeps one growing matrix, indexed by the digests of the objects. A fold's Gram matrix is a gather; what is
missing is computed, as rectangles. Old settings leave when the byte budget is reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._cache import ByteCache
from mercer._config import settings

Floats = np.ndarray[Any, Any]
Rectangle = Callable[[Floats, Floats | None], Floats]
"""Computes the pairs of some rows and columns; columns None: the symmetric matrix of the rows."""


class _Known:
    """The pairs known for one setting."""

    def __init__(self) -> None:
        self.position: dict[bytes, int] = {}
        self.values = np.full((0, 0), np.nan)
        self.known = np.zeros((0, 0), dtype=bool)
        self.lock = threading.Lock()

    def locate(self, digests: list[bytes]) -> Floats:
        for digest in digests:
            self.position.setdefault(digest, len(self.position))
        size = len(self.position)
        if size > len(self.values):
            capacity = max(size, int(1.25 * len(self.values)))
            self.values = _grown(self.values, capacity)
            self.known = _grown(self.known, capacity)
        return np.array([self.position[digest] for digest in digests], dtype=int)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.known.nbytes


def _grown(matrix: Floats, size: int) -> Floats:
    larger = np.zeros((size, size), dtype=matrix.dtype)
    larger[: len(matrix), : len(matrix)] = matrix
    return larger


memo = ByteCache()
"""The matrices of all settings of the process."""
_lock = threading.Lock()


def gather(setting: str, rows: list[bytes], columns: list[bytes] | None, compute: Rectangle) -> Floats:
    """Return the matrix of all pairs, computing only those that were never asked for.

    Parameters
    ----------
    setting : str
        Digest of the kernel, its parameters and what it has learned.
    rows, columns : lists of digests
        The objects; ``columns=None`` for the symmetric matrix of ``rows``.
    compute : callable
        ``compute(row_index, column_index)`` answers a rectangle of the asked matrix.
    """
    budget = settings().memo_bytes
    worst = 9 * (len(rows) + len(columns or [])) ** 2
    if budget == 0 or worst > budget:
        return compute(np.arange(len(rows)), None if columns is None else np.arange(len(columns)))
    with _lock:
        known = memo.get(setting)
        if known is None:
            known = _Known()
            memo.put(setting, known, size=0, budget=budget)
    with known.lock:
        r = known.locate(rows)
        c = r if columns is None else known.locate(columns)
        _complete(known, r, c, columns is None, compute)
        memo.put(setting, known, size=known.nbytes, budget=budget)
        return known.values[np.ix_(r, c)]


def _complete(known: _Known, r: Floats, c: Floats, symmetric: bool, compute: Rectangle) -> None:
    """Evaluate what is missing: the rectangle of rows and columns that have anything missing."""
    while True:
        missing = ~known.known[np.ix_(r, c)]
        if not missing.any():
            return
        # Rows that lack the same columns make an exact rectangle; the first such group goes first.
        first = missing[int(np.flatnonzero(missing.any(axis=1))[0])]
        rows = np.flatnonzero((missing == first).all(axis=1))
        columns = np.flatnonzero(first)
        if symmetric and np.array_equal(rows, columns):
            values = compute(rows, None)
        else:
            values = compute(rows, columns)
        _store(known, r[rows], c[columns], values)


def _store(known: _Known, r: Floats, c: Floats, values: Floats) -> None:
    known.values[np.ix_(r, c)] = values
    known.known[np.ix_(r, c)] = True
    known.values[np.ix_(c, r)] = values.T
    known.known[np.ix_(c, r)] = True
