"""Memo of kernel values, so that folds and values of C do not evaluate a pair twice.

For every setting of a kernel, the memo keeps the values of pairs, indexed by the digests of the objects. Every object
has a position, in order of arrival, and a row of its values with the objects at lower positions: a new object adds one
row, and nothing is copied. The Gram matrix of a fold is gathered from the rows; missing values are computed in
rectangles, without a lock, so that threads never wait for each other. Old settings are evicted when the byte budget is
reached. A few new objects, as in a request to a server, go around the memo: they would not come again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
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


def matrix_bytes(n: int) -> int:
    """Return the size of the memo of all pairs of ``n`` objects: a number for every pair and every object."""
    return 4 * n * (n + 1)


class _Known:
    """The pairs known for one setting.

    Row i has the values of object i with the objects from ``starts[i]`` to i, NaN where unknown.
    """

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
        self.position: dict[bytes, int] = {}
        self.rows: list[Floats | None] = []
        self.starts: list[int] = []
        self.dtype: Any = np.dtype(np.float32)
        self.nbytes = 0

    def places(self, digests: list[bytes]) -> Floats:
        """Return the positions of objects, and assign one to those that are new."""
        position = self.position
        found = np.array([position.setdefault(digest, len(position)) for digest in digests], dtype=int)
        new = range(len(self.rows), len(position))
        self.rows += [None] * len(new)
        self.starts += new
        return found

    def make_room(self, size: int, budget: int) -> None:
        """Forget everything where ``size`` more bytes exceed the budget."""
        if self.nbytes + size > budget:
            self._forget()

    def has_rows(self, places: Floats) -> bool:
        """Whether a value of some of these objects is known."""
        return any(self.rows[place] is not None for place in places.tolist())

    def snapshot(self, places: Floats) -> _Rows:
        """Return the rows of some places, which may be read without the lock: a row only ever gains values."""
        return _Rows({p: (self.rows[p], self.starts[p]) for p in places.tolist()}, self.dtype)

    def store(self, r: Floats, c: Floats, values: Floats) -> None:
        """Keep the new values of a rectangle; known values are kept, as diagonals are exact."""
        self.dtype = np.result_type(self.dtype, values)
        if r is c and len(r) and len(r) == r[-1] - r[0] + 1 and not self.has_rows(r) and bool(np.all(np.diff(r) == 1)):
            for i, place in enumerate(r.tolist()):  # a first fit: slices are faster than indices
                self._set(place, int(r[0]), values[i, : i + 1].astype(self.dtype))
            return
        for lines, first, second in ((values, r, c), (values.T, c, r))[: 1 if r is c else 2]:
            for i, at in _lower(first, second):
                place, columns = int(first[i]), second[at]
                if self.rows[place] is None and len(columns) == place + 1 - columns[0]:  # a whole row, in order
                    self._set(place, int(columns[0]), lines[i, at].astype(self.dtype, copy=False))
                    continue
                row = self._row(place, int(columns[0]))
                columns = columns - self.starts[place]
                old = row[columns]
                row[columns] = np.where(np.isnan(old), lines[i, at], old)

    def _row(self, place: int, first: int) -> Floats:
        """Return the row of a place, which has room for the objects from ``first`` on."""
        row = self.rows[place]
        if row is not None and row.dtype == self.dtype and self.starts[place] <= first:
            return row
        start = min(first, self.starts[place])
        new = np.full(place + 1 - start, np.nan, dtype=self.dtype)
        if row is not None:
            new[self.starts[place] - start :] = row
            self.nbytes -= row.nbytes
        self._set(place, start, new)
        return new

    def _set(self, place: int, start: int, row: Floats) -> None:
        self.rows[place], self.starts[place] = row, start
        self.nbytes += row.nbytes


class _Rows:
    """Rows of the memo at one time, as (values, start) by place."""

    def __init__(self, rows: dict[int, tuple[Floats | None, int]], dtype: Any) -> None:
        self.rows = rows
        self.dtype = dtype

    def __bool__(self) -> bool:
        return any(row is not None for row, _ in self.rows.values())

    def gather(self, r: Floats, c: Floats) -> Floats:
        """Return the values between the objects at places ``r`` and ``c``, NaN where unknown."""
        out = np.full((len(r), len(c)), np.nan, dtype=self.dtype)
        for lines, first, second in ((out, r, c), (out.T, c, r)):
            for i, at in _lower(first, second):
                row, start = self.rows[int(first[i])]
                if row is not None:
                    at = at[np.searchsorted(second[at], start) :]
                    lines[i, at] = row[second[at] - start]
        return out


def _lower(first: Floats, second: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield every index of ``first`` with those of ``second`` whose places are not higher, lowest first, if any are."""
    order = np.argsort(second, kind="stable")
    count = np.searchsorted(second[order], first, side="right")
    for i in np.flatnonzero(count).tolist():
        yield i, order[: count[i]]


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
    size = matrix_bytes(len(rows)) if columns is None else 8 * len(rows) * (len(columns) + len(rows))
    known = memo.get(setting)
    if budget == 0 or size > budget or _is_request(known, rows, columns):
        return compute(np.arange(len(rows)), None if columns is None else np.arange(len(columns)))
    if known is None:
        known = _Known()
        memo.put(setting, known, size=0, budget=budget)
    with known.lock:
        known.make_room(size, budget)
        c = known.places(rows if columns is None else columns)  # training data come first, so that new rows are whole
        r = c if columns is None else known.places(rows)
        rows_now = known.snapshot(c if columns is None else np.concatenate([r, c]))
        position = known.position
    matrix, computed = _complete(rows_now.gather(r, c) if rows_now else None, r, c, compute)
    if computed:
        with known.lock:
            if known.position is position:  # these positions have not been evicted meanwhile
                for at, columns_at, values in computed:
                    known.store(at, columns_at, values)
            memo.put(setting, known, size=known.nbytes, budget=budget)
    return matrix


def _is_request(known: _Known | None, rows: list[bytes], columns: list[bytes] | None) -> bool:
    """Whether the rows are few and some of them are new."""
    if columns is None or len(rows) > max(1, len(columns) // FEW):
        return False
    return known is None or not all(digest in known.position for digest in rows)


Part = tuple[Floats, Floats, Floats]
"""Places of rows and columns, and their values."""


def _complete(out: Floats | None, r: Floats, c: Floats, compute: Rectangle) -> tuple[Floats, list[Part]]:
    """Evaluate what is missing in ``out``, between the objects at places ``r`` and ``c``, which may have duplicates.

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
