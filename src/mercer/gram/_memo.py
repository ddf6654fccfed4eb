"""Memo of kernel values, so that folds and values of C do not evaluate a pair twice.

For every setting of a kernel, the memo keeps one growing matrix, indexed by the digests of the objects. The Gram matrix
of a fold is gathered from it; missing values are computed in rectangles. Old settings are evicted when the byte budget
is reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from mercer._cache import ByteCache
from mercer._config import settings

Floats = np.ndarray[Any, Any]
Rectangle = Callable[[Floats, Floats | None], Floats]
"""Computes the pairs of the given rows and columns; None as columns means the symmetric matrix of the rows."""


RECTANGLES = 8
"""Maximum number of exact rectangles; the rest is evaluated at once, with some pairs evaluated twice."""


def matrix_bytes(n: int) -> int:
    """Return the memory of a memo of ``n`` objects: a float64 and a flag for every pair."""
    return 9 * n * n


class _Known:
    """Known kernel values of one setting."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.position: dict[bytes, int] = {}
        self.values: Floats = np.zeros((0, 0), dtype=np.float32)
        self.known: Floats = np.zeros((0, 0), dtype=bool)

    def make_room(self, digests: list[bytes], budget: int) -> None:
        """Assign a position to every object, and forget all others if the budget is exceeded."""
        if matrix_bytes(len(self.position.keys() | set(digests))) > budget:
            self._forget()
        for digest in digests:
            self.position.setdefault(digest, len(self.position))
        size = len(self.position)
        if size > len(self.values):
            ample = int(1.25 * len(self.values))
            capacity = ample if ample > size and matrix_bytes(ample) <= budget else size
            self.values = _grown(self.values, capacity)
            self.known = _grown(self.known, capacity)

    def places(self, digests: list[bytes]) -> Floats:
        """Return the positions of known objects."""
        return np.array([self.position[digest] for digest in digests], dtype=int)

    def store(self, r: Floats, c: Floats, values: Floats) -> None:
        """Store the new values of a rectangle and of its transpose; known values are kept, as diagonals are exact."""
        dtype = np.result_type(self.values, values)
        if dtype != self.values.dtype:
            self.values = self.values.astype(dtype)
        for place, block in ((np.ix_(r, c), values), (np.ix_(c, r), values.T)):
            self.values[place] = np.where(self.known[place], self.values[place], block)
            self.known[place] = True

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.known.nbytes


def _grown(matrix: Floats, size: int) -> Floats:
    larger = np.zeros((size, size), dtype=matrix.dtype)
    larger[: len(matrix), : len(matrix)] = matrix
    return larger


memo = ByteCache()
"""The matrices of all settings in this process."""
_lock = threading.Lock()


def gather(setting: Hashable, rows: list[bytes], columns: list[bytes] | None, compute: Rectangle) -> Floats:
    """Return the matrix of all pairs, computing only those that are not known.

    Parameters
    ----------
    setting : hashable
        Key of the kernel, its parameters and its fitted state.
    rows, columns : lists of digests
        The objects; ``columns=None`` for the symmetric matrix of ``rows``.
    compute : callable
        ``compute(row_index, column_index)`` returns a rectangle of the matrix.
    """
    budget = settings().memo_bytes
    objects = rows + (columns or [])
    if budget == 0 or matrix_bytes(len(set(objects))) > budget:
        return compute(np.arange(len(rows)), None if columns is None else np.arange(len(columns)))
    with _lock:
        known = memo.get(setting)
        if known is None:
            known = _Known()
            memo.put(setting, known, size=0, budget=budget)
    with known.lock:
        known.make_room(objects, budget)
        r = known.places(rows)
        c = r if columns is None else known.places(columns)
        _complete(known, r, c, compute)
        memo.put(setting, known, size=known.nbytes, budget=budget)
        return known.values[np.ix_(r, c)]


def _complete(known: _Known, r: Floats, c: Floats, compute: Rectangle) -> None:
    """Compute the missing values between the objects at positions ``r`` and ``c``, which may repeat."""
    row_places, row_index = np.unique(r, return_index=True)
    column_places, column_index = np.unique(c, return_index=True)

    def evaluate(rows: Floats, columns: Floats) -> None:
        same = np.array_equal(row_places[rows], column_places[columns])
        values = compute(row_index[rows], None if same else column_index[columns])
        known.store(row_places[rows], column_places[columns], values)

    # Compute missing diagonal blocks first, as a symmetric matrix, whose diagonal is exact unlike that of a rectangle.
    new = np.flatnonzero(np.isin(row_places, column_places) & ~known.known[row_places, row_places])
    if len(new):
        evaluate(new, np.searchsorted(column_places, row_places[new]))
    for attempt in range(RECTANGLES + 1):
        missing = ~known.known[np.ix_(row_places, column_places)]
        incomplete = np.flatnonzero(missing.any(axis=1))
        if not len(incomplete):
            return
        if attempt == RECTANGLES:
            evaluate(incomplete, np.flatnonzero(missing.any(axis=0)))
            return
        # Rows that lack the same columns form an exact rectangle; compute that of the first incomplete row.
        first = missing[incomplete[0]]
        evaluate(np.flatnonzero((missing == first).all(axis=1)), np.flatnonzero(first))
