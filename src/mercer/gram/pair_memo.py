"""Memo of kernel values, so that folds and values of C do not evaluate a pair twice.

For every setting of a kernel, the memo keeps the values of pairs, indexed by the digests of the objects: a row for each
object that was on the left, in which each object that was on the right has a column. The Gram matrix of a fold is
gathered from the rows; missing values are computed in rectangles, without a lock, so that threads never wait for each
other. Old settings are evicted when the byte budget is reached. A few new objects, as in a request to a server, go
around the memo: they would not come again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._cache import ByteCache
from mercer._config import settings
from mercer._fork import renew_after_fork

Rectangle = Callable[[Floats, Floats | None], Floats]
"""Computes the pairs of the given rows and columns; None as columns means the symmetric matrix of the rows."""

RECTANGLES = 8
"""Maximum number of exact rectangles; the rest is evaluated at once, with some pairs evaluated twice."""
FEW = 100
"""One new object, or fewer than one per this number of training objects, is a request rather than a fold."""


class _Known:
    """The pairs known for one setting: NaN in a row, or a row that is too short, means unknown."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._forget()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Get a fresh lock in a forked process; start empty if another thread was storing values."""
        interrupted = self.lock.locked()
        self.lock = threading.Lock()
        if interrupted:
            self._forget()

    def _forget(self) -> None:
        self.rows: dict[bytes, Floats] = {}
        self.columns: dict[bytes, int] = {}
        self.dtype: Any = np.dtype(np.float32)
        self.nbytes = 0

    def make_room(self, size: int, budget: int) -> None:
        """Forget everything where ``size`` more bytes exceed the budget."""
        if self.nbytes + size > budget:
            self._forget()

    def gather(self, rows: list[bytes], columns: list[bytes]) -> Floats | None:
        """Return the known values of pairs, NaN for others; None if there are none."""
        found = self._by_rows(rows, columns)
        if rows is columns:
            return found
        mirrored = self._by_rows(columns, rows)
        if found is None or mirrored is None:
            return found if mirrored is None else mirrored.T
        return np.where(np.isnan(found), mirrored.T, found)

    def _by_rows(self, rows: list[bytes], columns: list[bytes]) -> Floats | None:
        at = np.array([self.columns.get(digest, -1) for digest in columns])
        known = np.flatnonzero(at >= 0)
        stored = [(i, row) for i, row in enumerate(map(self.rows.get, rows)) if row is not None]
        if not len(known) or not stored:
            return None
        out = np.full((len(rows), len(columns)), np.nan, dtype=self.dtype)
        last = int(at.max())
        for i, row in stored:
            within = known if last < len(row) else known[at[known] < len(row)]
            out[i, within] = row[at[within]]
        return out

    def store(self, rows: list[bytes], columns: list[bytes], values: Floats) -> None:
        """Keep new values; known ones stay, as diagonals are exact."""
        self.dtype = np.result_type(self.dtype, values)
        at = np.array([self.columns.setdefault(digest, len(self.columns)) for digest in columns])
        width = int(at.max()) + 1
        for digest, line in zip(rows, values, strict=True):
            row = self.rows.get(digest)
            if row is None or len(row) < width or row.dtype != self.dtype:
                new = np.full(max(width, 0 if row is None else len(row)), np.nan, dtype=self.dtype)
                if row is not None:
                    new[: len(row)] = row
                    self.nbytes -= row.nbytes
                self.rows[digest] = row = new
                self.nbytes += row.nbytes
            old = row[at]
            row[at] = np.where(np.isnan(old), line, old)


memo = ByteCache()
"""The pairs of all settings of the process."""


def gather(setting: Hashable, rows: list[bytes], columns: list[bytes] | None, compute: Rectangle) -> Floats:
    """Return the matrix of all pairs, computing only those that are not known.

    Parameters
    ----------
    setting : hashable
        Key of the kernel, its parameters and its fitted state.
    rows, columns : lists of digests
        The objects; ``columns=None`` for the symmetric matrix of ``rows``.
    compute : callable
        ``compute(row_index, column_index)`` returns a rectangle of the matrix. It is called without a lock: threads
        that need the same pairs at the same time each compute them.
    """
    budget = settings().memo_bytes
    size = 8 * len(rows) * len(rows if columns is None else columns)
    known = memo.get(setting)
    if budget == 0 or size > budget or _is_request(known, rows, columns):
        return compute(np.arange(len(rows)), None if columns is None else np.arange(len(columns)))
    if known is None:
        known = _Known()
        memo.put(setting, known, size=0, budget=budget)
    right = rows if columns is None else columns
    with known.lock:
        known.make_room(8 * len(rows) * (len(known.columns) + len(right)), budget)
        found = known.gather(rows, right)
    number: dict[bytes, int] = {}
    r, c = (np.array([number.setdefault(digest, len(number)) for digest in side]) for side in (rows, right))
    matrix, computed = _complete(found, r, r if columns is None else c, compute)
    if computed:
        objects = list(number)
        with known.lock:
            for at, columns_at, values in computed:
                known.store([objects[i] for i in at], [objects[i] for i in columns_at], values)
            memo.put(setting, known, size=known.nbytes, budget=budget)
    return matrix


def _is_request(known: _Known | None, rows: list[bytes], columns: list[bytes] | None) -> bool:
    """Whether the rows are few and some of them are new."""
    if columns is None or len(rows) > max(1, len(columns) // FEW):
        return False
    return known is None or not all(digest in known.rows or digest in known.columns for digest in rows)


Part = tuple[Floats, Floats, Floats]
"""Numbers of the objects of rows and columns, and their values."""


def _complete(out: Floats | None, r: Floats, c: Floats, compute: Rectangle) -> tuple[Floats, list[Part]]:
    """Evaluate what is missing in ``out``, between the objects numbered ``r`` and ``c``, which may have duplicates.

    ``out`` is None if all is missing, as in a first fit: no second matrix is then made.
    """
    missing = None if out is None else np.isnan(out)
    if missing is not None and not missing.any():
        assert out is not None
        return out, []
    row_places, row_index, row_inverse = np.unique(r, return_index=True, return_inverse=True)
    column_places, column_index, column_inverse = np.unique(c, return_index=True, return_inverse=True)
    shared, in_rows, in_columns = np.intersect1d(row_places, column_places, assume_unique=True, return_indices=True)
    unique = len(row_places) == len(r) and len(column_places) == len(c)
    if unique and (missing is None or missing.all()) and (r is c or not len(shared)):
        found = compute(np.arange(len(r)), None if r is c else np.arange(len(c)))
        return found, [(r, c, found)]
    if out is None or missing is None:
        out = np.full((len(r), len(c)), np.nan, dtype=np.float32)
        missing = np.isnan(out)
    work = _Rectangles(out[np.ix_(row_index, column_index)], missing[np.ix_(row_index, column_index)])
    computed: list[Part] = []

    def evaluate(rows: Floats, columns: Floats) -> None:
        same = np.array_equal(row_places[rows], column_places[columns])
        found = compute(row_index[rows], None if same else column_index[columns])
        places = row_places[rows]
        computed.append((places, places if same else column_places[columns], found))
        work.put(rows, columns, found)
        if not same:  # the mirror image, of objects that are on both sides
            j, to_rows = _where(column_places[columns], row_places)
            i, to_columns = _where(row_places[rows], column_places)
            work.put(to_rows, to_columns, found[np.ix_(i, j)].T)

    # Objects without a known self-kernel go first, as a symmetric matrix: its diagonal is exact, a rectangle's is not.
    new = work.missing[in_rows, in_columns]
    if new.any():
        evaluate(in_rows[new], in_columns[new])
    for attempt in range(RECTANGLES + 1):
        somewhere = np.flatnonzero(work.missing.any(axis=1))
        if not len(somewhere):
            break
        if attempt == RECTANGLES:
            evaluate(somewhere, np.flatnonzero(work.missing.any(axis=0)))
            break
        # Rows that lack the same columns make an exact rectangle; the first such group goes first.
        first = work.missing[somewhere[0]]
        evaluate(np.flatnonzero((work.missing == first).all(axis=1)), np.flatnonzero(first))
    return work.values[np.ix_(row_inverse, column_inverse)], computed


class _Rectangles:
    """A matrix that is filled by rectangles; existing values are kept."""

    def __init__(self, values: Floats, missing: Floats) -> None:
        self.values = values
        self.missing = missing

    def put(self, rows: Floats, columns: Floats, found: Floats) -> None:
        """Fill in the missing values of a rectangle."""
        at = np.ix_(rows, columns)
        self.values = self.values.astype(np.result_type(self.values, found), copy=False)
        self.values[at] = np.where(self.missing[at], found, self.values[at])
        self.missing[at] = False


def _where(wanted: Floats, places: Floats) -> tuple[Floats, Floats]:
    """Return which of ``wanted`` are among the sorted ``places``, and where."""
    at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
    among = places[at] == wanted
    return np.flatnonzero(among), at[among]
