"""A memo of evaluated pairs, so that folds and values of C cost no second evaluation.

For every setting of a kernel it keeps one growing matrix, indexed by the digests of the objects. A fold's Gram matrix
is a gather; what is missing is computed, as rectangles. Old settings leave when the byte budget is reached.
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
"""Computes the pairs of some rows and columns; columns None: the symmetric matrix of the rows."""


RECTANGLES = 8
"""After so many exact rectangles what is still missing is evaluated at once, with some pairs twice."""


def matrix_bytes(n: int) -> int:
    """Return what the memo of ``n`` objects takes: a number and a flag for every pair."""
    return 9 * n * n


class _Known:
    """The pairs known for one setting."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.position: dict[bytes, int] = {}
        self.values: Floats = np.zeros((0, 0), dtype=np.float32)
        self.known: Floats = np.zeros((0, 0), dtype=bool)

    def make_room(self, digests: list[bytes], budget: int) -> None:
        """Give every object a place, and forget the others where the budget asks for it."""
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
        """Return the places of objects that have one."""
        return np.array([self.position[digest] for digest in digests], dtype=int)

    def store(self, r: Floats, c: Floats, values: Floats) -> None:
        """Keep the new values of a rectangle, and of its mirror image; what is known stays, as diagonals are exact."""
        kept = np.result_type(self.values, values)
        if kept != self.values.dtype:
            self.values = self.values.astype(kept)
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
"""The matrices of all settings of the process."""
_lock = threading.Lock()


def gather(setting: Hashable, rows: list[bytes], columns: list[bytes] | None, compute: Rectangle) -> Floats:
    """Return the matrix of all pairs, computing only those that were never asked for.

    Parameters
    ----------
    setting : hashable
        Key of the kernel, its parameters and what it has learned.
    rows, columns : lists of digests
        The objects; ``columns=None`` for the symmetric matrix of ``rows``.
    compute : callable
        ``compute(row_index, column_index)`` answers a rectangle of the asked matrix.
    """
    budget = settings().memo_bytes
    everybody = rows + (columns or [])
    if budget == 0 or matrix_bytes(len(set(everybody))) > budget:
        return compute(np.arange(len(rows)), None if columns is None else np.arange(len(columns)))
    with _lock:
        known = memo.get(setting)
        if known is None:
            known = _Known()
            memo.put(setting, known, size=0, budget=budget)
    with known.lock:
        known.make_room(everybody, budget)
        r = known.places(rows)
        c = r if columns is None else known.places(columns)
        _complete(known, r, c, compute)
        memo.put(setting, known, size=known.nbytes, budget=budget)
        return known.values[np.ix_(r, c)]


def _complete(known: _Known, r: Floats, c: Floats, compute: Rectangle) -> None:
    """Evaluate what is missing between the objects at places ``r`` and ``c``; an object may be there several times."""
    row_places, row_index = np.unique(r, return_index=True)
    column_places, column_index = np.unique(c, return_index=True)

    def evaluate(rows: Floats, columns: Floats) -> None:
        same = np.array_equal(row_places[rows], column_places[columns])
        values = compute(row_index[rows], None if same else column_index[columns])
        known.store(row_places[rows], column_places[columns], values)

    # Objects that never met themselves go first, as a symmetric matrix: its diagonal is exact, a rectangle's is not.
    new = np.flatnonzero(np.isin(row_places, column_places) & ~known.known[row_places, row_places])
    if len(new):
        evaluate(new, np.searchsorted(column_places, row_places[new]))
    for attempt in range(RECTANGLES + 1):
        missing = ~known.known[np.ix_(row_places, column_places)]
        somewhere = np.flatnonzero(missing.any(axis=1))
        if not len(somewhere):
            return
        if attempt == RECTANGLES:
            evaluate(somewhere, np.flatnonzero(missing.any(axis=0)))
            return
        # Rows that lack the same columns make an exact rectangle; the first such group goes first.
        first = missing[somewhere[0]]
        evaluate(np.flatnonzero((missing == first).all(axis=1)), np.flatnonzero(first))
