"""Rows of word counts, compressed: the only file of mercer that computes on SciPy's CSR.

A document holds a few dozen of many thousand words. `CSRRows` stores such rows, immutable and in one
canonical form; `Prepared` adds what a Gram matrix needs again and again; `outer` and `shared_entropy`
turn two sets of rows into a dense tile. After the tile everything is dense.

>>> import numpy as np
>>> X = CSRRows.of(np.asarray([[1.0, 0.0, 3.0], [0.0, 2.0, 2.0]]))
>>> P = X.scaled(1 / X.row_sums())
>>> outer(P.power(0.5), P.power(0.5)).round(4)
array([[1.    , 0.6124],
       [0.6124, 1.    ]])
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from mercer._immutable import cached_property
from mercer._native import call
from mercer._sizes import check_room
from mercer.data.ragged import check_offsets, offsets_of

Vector: TypeAlias = np.ndarray[Any, Any]
Key: TypeAlias = Any
"""Selection of rows: a slice, an array of integers, or an array of booleans."""

TILE_ROWS = 512
"""The recommended edge of a tile: its line and its index stay in the cache."""


class CSRRows:
    """Immutable sparse rows in canonical form; make one with `CSRRows.of`.

    Canonical: sorted indices, no duplicates, no stored zeros, float64 or float32, and int32 indices
    where these suffice. Two equal rows are then equal bytes.

    Parameters
    ----------
    data : ndarray, shape (nnz,)
        The entries, none of them zero.
    indices : ndarray, shape (nnz,)
        The column ("word") of every entry, ascending within a row.
    indptr : ndarray, shape (n + 1,)
        Row ``i`` is ``data[indptr[i]:indptr[i + 1]]``.
    n_columns : int
        The number of columns.
    """

    def __init__(self, data: Vector, indices: Vector, indptr: Vector, n_columns: int) -> None:
        index = np.int32 if max(n_columns, data.size) <= np.iinfo(np.int32).max else np.int64
        self.data = _read_only(data)
        self.indices = _read_only(indices.astype(index, copy=False))
        self.indptr = _read_only(indptr.astype(index, copy=False))
        self.n_columns = int(n_columns)

    @classmethod
    def of(cls, X: Any) -> CSRRows:
        """Bring a matrix, sparse or dense and of shape (n, d), to canonical form; ``X`` stays as it is."""
        if isinstance(X, CSRRows):
            return X
        given: Any = X if sparse.issparse(X) else np.asarray(X)
        check_places(given)
        if given.ndim != 2:
            raise ValueError(f"Counts must have shape (documents, words); got shape {given.shape}.")
        if given.dtype.kind not in "biuf":
            raise TypeError(f"Expected numbers; got a matrix of dtype {given.dtype}.")
        # Floats before anything is summed: duplicates of a small integer type could overflow.
        matrix: Any = sparse.csr_array(given.astype(np.float32 if given.dtype == np.float32 else np.float64))
        # Made anew from its parts, since SciPy's flags of canonical form may be stale; copied, since what
        # follows works in place.
        parts = (matrix.data, matrix.indices, matrix.indptr)
        matrix = sparse.csr_array(parts, shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(matrix.data, matrix.indices, matrix.indptr, matrix.shape[1])

    @classmethod
    def checked(cls, data: Any, indices: Any, indptr: Any, n_columns: Any) -> CSRRows:
        """Copy what a file contains; raise unless it is in canonical form, as compiled loops trust."""
        check_offsets(indptr, len(data))
        if data.dtype not in (np.float32, np.float64) or data.ndim != 1 or indices.shape != data.shape:
            raise ValueError("sparse rows are not vectors of entries and columns of one length")
        if indices.dtype.kind != "i" or not isinstance(n_columns, int | np.integer) or isinstance(n_columns, bool):
            raise ValueError("the columns of sparse rows are not whole numbers")
        if n_columns < 0 or (len(indices) and not (indices.min() >= 0 and indices.max() < n_columns)):
            raise ValueError(f"sparse rows have columns outside of 0, ..., {n_columns - 1}")
        follows = np.ones(len(indices), dtype=bool)
        follows[indptr[:-1][indptr[:-1] < len(indices)]] = False  # the first entry of a row follows nothing
        if (np.diff(indices, prepend=-1)[follows] <= 0).any():
            raise ValueError("the columns of sparse rows do not ascend")
        return cls(data.copy(), indices.copy(), indptr.copy(), int(n_columns))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self), self.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the entries."""
        return self.data.dtype

    def __len__(self) -> int:
        return int(self.indptr.size) - 1

    def __repr__(self) -> str:
        return f"CSRRows(shape={self.shape}, entries={self.data.size}, dtype={self.dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return CSRRows, (self.data, self.indices, self.indptr, self.n_columns)  # read-only again where it arrives

    def __getitem__(self, key: Key) -> CSRRows:
        """Select rows; a slice without a step shares the memory of the whole."""
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop = _bounds(key, len(self))
            first, last = self.indptr[start], self.indptr[stop]
            ptr = self.indptr[start : stop + 1] - first
            return CSRRows(self.data[first:last], self.indices[first:last], ptr, self.n_columns)
        rows = np.arange(len(self))[key]
        if rows.ndim != 1:
            raise TypeError("Index rows by a slice or a 1-D array; use X[3:4] for one row.")
        ptr = offsets_of(np.diff(self.indptr)[rows])
        shift = np.repeat(self.indptr[rows] - ptr[:-1], np.diff(ptr))
        entries = np.arange(ptr[-1]) + shift
        return CSRRows(self.data[entries], self.indices[entries], ptr, self.n_columns)

    def widened(self) -> CSRRows:
        """Return the rows in float64."""
        return CSRRows(self.data.astype(np.float64, copy=False), self.indices, self.indptr, self.n_columns)

    def power(self, exponent: float) -> CSRRows:
        """Raise every entry to a positive power (PPK-3.3)."""
        if not exponent > 0:
            raise ValueError(f"The power of sparse rows must be positive, or absent words become 1; got {exponent}.")
        return self._with(self.data**exponent)

    def scaled(self, factors: Vector) -> CSRRows:
        """Multiply row ``i`` by ``factors[i]``; an empty row stays empty for any factor."""
        per_entry = np.repeat(factors, np.diff(self.indptr))
        return self._with((self.data * per_entry).astype(self.dtype, copy=False))

    def shares(self) -> CSRRows:
        """Divide every row by its sum, however small; an empty row stays empty."""
        return self._with((self.data / np.repeat(self.row_sums(), np.diff(self.indptr))).astype(self.dtype, copy=False))

    def row_sums(self) -> Vector:
        """Sum every row, in float64; shape (n,)."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        return np.bincount(owner, weights=self.data, minlength=len(self))

    def dense(self) -> Vector:
        """Return the rows as an ordinary array, shape (n, d)."""
        needed = len(self) * self.n_columns * self.dtype.itemsize
        check_room(needed, f"A dense matrix of {len(self)} rows and {self.n_columns} columns", "Use fewer columns.")
        return np.asarray(self.to_scipy().toarray())

    def to_scipy(self) -> Any:
        """Return the rows as a ``scipy.sparse.csr_array`` that shares their read-only memory."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    @staticmethod
    def joined(parts: Sequence[CSRRows]) -> CSRRows:
        """Put rows over the same columns below each other."""
        if not parts:
            raise ValueError("nothing to concatenate")
        for part in parts:
            _same_columns(parts[0], part)
        return CSRRows(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            offsets_of(np.concatenate([np.diff(part.indptr) for part in parts])),
            parts[0].n_columns,
        )

    def row_digests(self) -> list[bytes]:
        """Digest every row to 16 bytes that depend on its words, entries and dtype, and on nothing else."""
        words = self.indices.astype("<i8")
        data = self.data.astype(self.dtype.newbyteorder("<"))
        ends = self.indptr.tolist()
        return [
            blake2b(
                words[a:b].tobytes() + data[a:b].tobytes(), digest_size=16, person=self.dtype.name.encode()
            ).digest()
            for a, b in pairwise(ends)
        ]

    def check_counts(self) -> None:
        """Raise a ValueError that names the first entry which is negative or not finite."""
        wrong = np.flatnonzero(~(np.isfinite(self.data) & (self.data >= 0)))
        if wrong.size:
            at = wrong[0]
            document = int(np.searchsorted(self.indptr, at, side="right")) - 1
            raise ValueError(
                f"document {document} has the count {self.data[at]} for word {self.indices[at]}. "
                "Counts must be nonnegative and finite."
            )

    def _with(self, data: Vector) -> CSRRows:
        """Replace the entries; those that have underflowed to zero are dropped."""
        kept = data != 0
        if kept.all():
            return CSRRows(data, self.indices, self.indptr, self.n_columns)
        ptr = offsets_of(kept)[self.indptr]
        return CSRRows(data[kept], self.indices[kept], ptr, self.n_columns)


class _Index(NamedTuple):
    """The inverted index of some rows: ``words[s]`` has the values ``postings[starts[s]:starts[s + 1]]``.

    They are those of the rows ``rows[starts[s]:starts[s + 1]]``.
    """

    words: Vector
    starts: Vector
    rows: Vector
    postings: Vector


class Prepared:
    """The operand of a Gram matrix: rows, their logarithms and an inverted index, each made on first use.

    Slice it by tile and pass the slices to `outer` or `shared_entropy`.

    >>> P = Prepared(CSRRows.of(np.eye(4)))
    >>> outer(P[:2], P[1:4])
    array([[0., 0., 0.],
           [1., 0., 0.]])

    A slice without a step is kept, so that all tiles of one column block share one index; the kept
    parts together are about twice as large as the rows themselves. Other selections are made afresh.
    Threads may share an object: at worst two of them do the same work once each.

    Parameters
    ----------
    rows : CSRRows
        Nonnegative rows.
    """

    def __init__(self, rows: CSRRows) -> None:
        self.rows = rows
        self._blocks: dict[tuple[int, int], Prepared] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Key) -> Prepared:
        if isinstance(key, slice) and key.step in (None, 1):
            bounds = _bounds(key, len(self))
            if bounds == (0, len(self)):
                return self
            if bounds not in self._blocks:
                self._blocks.setdefault(bounds, Prepared(self.rows[key]))
            return self._blocks[bounds]
        return Prepared(self.rows[key])

    def __reduce__(self) -> tuple[Any, ...]:
        return Prepared, (self.rows,)  # derived arrays are not pickled

    @cached_property
    def values(self) -> Vector:
        """The entries in float64, in which all sums are made."""
        return _read_only(self.rows.data.astype(np.float64, copy=False))

    @cached_property
    def logs(self) -> Vector:
        """The logarithms of the entries."""
        return _read_only(np.log(self.values))

    @cached_property
    def index(self) -> _Index:
        """For every word the rows that hold it."""
        matrix = self.rows.to_scipy()
        if self.rows.n_columns > 8 * matrix.nnz:  # mostly empty columns
            words, kept = np.unique(matrix.indices, return_inverse=True)
            matrix = sparse.csr_array((matrix.data, kept, matrix.indptr), shape=(len(self), len(words)))
        else:
            words = np.arange(self.rows.n_columns)
        columns = matrix.tocsc()
        counts = np.diff(columns.indptr)
        parts = (
            words[counts > 0],
            offsets_of(counts[counts > 0]),
            columns.indices.astype(np.int32),
            columns.data.astype(np.float64),
        )
        return _Index(*(_read_only(part) for part in parts))

    @cached_property
    def index_logs(self) -> Vector:
        """The logarithms of the postings."""
        return _read_only(np.log(self.index.postings))


def outer(A: CSRRows | Prepared, B: CSRRows | Prepared) -> Vector:
    """Compute all inner products of rows, the dense ``A @ B.T`` (PPK-3.3, s = 1, of rows to the power rho).

    Parameters
    ----------
    A, B : CSRRows or Prepared
        ``I`` and ``J`` rows over the same columns.

    Returns
    -------
    ndarray, shape (I, J)
        Summed in float64; float32 if both operands are.
    """
    return _pairs("csr_products", _operand(A), _operand(B))


def shared_entropy(A: CSRRows | Prepared, B: CSRRows | Prepared) -> Vector:
    """Sum (a+b) log(a+b) - a log a - b log b over the words that both rows hold.

    The other words add nothing. For rows that sum to one the Jensen-Shannon divergence (DJS-2 with
    the F of DJS-4, one trial) is log 2 minus half of this.

    Parameters
    ----------
    A, B : CSRRows or Prepared
        ``I`` and ``J`` rows of positive entries over the same columns.

    Returns
    -------
    ndarray, shape (I, J)
        Nonnegative, each term correct to a few units of its last digit, summed in float64; float32 if
        both operands are.

    Examples
    --------
    >>> P = CSRRows.of(np.asarray([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
    >>> divergence = np.log(2) - shared_entropy(P, P) / 2
    >>> (
    ...     bool(np.isclose(divergence[0, 1], np.log(2) / 2)),
    ...     bool(abs(divergence[0, 0]) < 1e-15),
    ... )
    (True, True)
    """
    left, right = _operand(A), _operand(B)
    return _pairs("csr_entropies", left, right, logs=left.logs, posting_logs=right.index_logs)


def _pairs(name: str, left: Prepared, right: Prepared, logs: Any = None, posting_logs: Any = None) -> Vector:
    """Sum over the words of all pairs of rows, in native code; float32 if both operands are."""
    _same_columns(left.rows, right.rows)
    rows, index = left.rows, right.index
    out = np.empty((len(left), len(right)))
    call(
        name, values=left.values, logs=logs, indices=rows.indices, indptr=rows.indptr, words=index.words,
        starts=index.starts, rows=index.rows, postings=index.postings, posting_logs=posting_logs,
        n_columns=rows.n_columns, out=out,
    )  # fmt: skip
    return out.astype(np.result_type(left.rows.dtype, right.rows.dtype), copy=False)


def _operand(A: CSRRows | Prepared) -> Prepared:
    return A if isinstance(A, Prepared) else Prepared(A)


def _same_columns(A: CSRRows, B: CSRRows) -> None:
    if A.n_columns != B.n_columns:
        raise ValueError(f"Both sides must have the same vocabulary; got {A.n_columns} and {B.n_columns} words.")


def check_places(X: Any) -> None:
    """Raise if an index of a sparse matrix of SciPy lies outside of it: SciPy's loops trust them all."""
    form = getattr(X, "format", "")
    if form in ("csr", "csc") and X.ndim == 2:
        n, size = X.shape if form == "csr" else X.shape[::-1]
        ends, total = X.indptr, X.indptr[-1] if len(X.indptr) else -1
        ascending = len(ends) == n + 1 and ends[0] == 0 and (ends[1:] >= ends[:-1]).all()
        sound = ascending and total <= len(X.indices) == len(X.data)
        places = [(X.indices[:total], size)]
    elif form == "coo":
        places, sound = list(zip(X.coords, X.shape, strict=True)), True
    else:  # another format, which is made of lists or of diagonals
        return
    if not sound or any(len(at) and not 0 <= at.min() <= at.max() < size for at, size in places):
        raise ValueError(
            f"An index of the sparse matrix of shape {X.shape} lies outside of it, so it is damaged. Make it again, as "
            "sparse.csr_array((values, (rows, columns)), shape=shape)."
        )


def csr_array(X: Any) -> Any:
    """Return a sparse matrix of any format by rows, after a check of its indices."""
    check_places(X)
    return sparse.csr_array(X)


def _bounds(key: slice, n: int) -> tuple[int, int]:
    """Return the start and stop of a slice without a step, with stop >= start."""
    start, stop, _ = key.indices(n)
    return start, max(start, stop)


def _read_only(x: Vector) -> Vector:
    """Return a read-only view: the arrays of rows are shared."""
    view = x.view()
    view.setflags(write=False)
    return view
