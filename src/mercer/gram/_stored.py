"""A Gram matrix on disk: rows, blocks, the diagonal and products with vectors, without the whole in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._checks import is_whole
from mercer._memory import check_room
from mercer._parallel import single_blas
from mercer.gram._plan import Place
from mercer.gram._store import Store


class StoredGram:
    """Gram matrix on disk, read tile by tile; `mercer.gram.open` makes it.

    ``K[i]``, ``K[10:20]``, ``K[np.ix_(rows, columns)]`` and ``K @ v`` read only the tiles that they need, and check
    each when it is first read. ``numpy.asarray(K)`` reads the whole matrix. Splitters of scikit-learn, machines with
    ``kernel="precomputed"`` and SciPy's iterative solvers take it in place of an array.

    Parameters
    ----------
    store : Store
        The folder.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    dtype : dtype
        Type of the values.
    kernel : str
        Text of the kernel.

    Examples
    --------
    >>> import numpy as np, mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gram.zarr"
    >>> K = mc.gram.compute(mc.Linear(normalize=False), [[1.0], [2.0], [3.0]], store=path)
    >>> K.shape, K[1], K.diag()
    ((3, 3), array([2., 4., 6.]), array([1., 4., 9.]))
    >>> K @ [1.0, 0.0, 1.0]
    array([ 4.,  8., 12.])
    """

    __array_ufunc__ = None  # NumPy would read the whole matrix for ``v @ K``
    ndim = 2

    def __init__(self, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"StoredGram is made by mc.gram.open(path) and mc.gram.compute(..., store=path); got {store!r}."
            )
        self._store = store
        self._checked: set[Place] = set()
        # Position of every object in the stored order.
        self._at: tuple[Indices | None, ...] = tuple(None if o is None else np.argsort(o) for o in store.orders)
        self.shape: tuple[int, int] = store.plan.shape
        self.dtype = store.dtype
        self.kernel: str = store.header["kernel"]

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<{n} x {m} Gram matrix of {self.kernel} in {self._store.path}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (os.path.abspath(self._store.path),)  # another process reads the same folder

    def __len__(self) -> int:
        return self.shape[0]

    # -- entries -----------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            key = (key, slice(None))
        if len(key) != 2:
            raise IndexError(f"A Gram matrix has two indices; got {len(key)}.")
        outer = all(np.ndim(k) == 2 for k in key) and np.shape(key[0])[1] == np.shape(key[1])[0] == 1  # np.ix_
        lists = [np.ndim(k) > 0 for k in key if not isinstance(k, slice)]
        if not outer and (sum(lists) == 2 or any(np.ndim(k) > 1 for k in key if not isinstance(k, slice))):
            raise IndexError("Index a Gram matrix on disk with K[np.ix_(rows, columns)], K[rows] or slices.")
        chosen = [
            _positions(np.ravel(k) if outer else k, n, name)
            for k, n, name in zip(key, self.shape, ("row", "column"), strict=True)
        ]
        values = self._block(*chosen)
        single = tuple(0 if not isinstance(k, slice) and np.ndim(k) == 0 else slice(None) for k in key)
        return values if outer else values[single]

    def _block(self, rows: Indices, columns: Indices) -> Floats:
        """Return the values of some rows and columns."""
        check_room(
            len(rows) * len(columns) * self.dtype.itemsize,
            f"A block of {len(rows):,} x {len(columns):,} values",
            "Read fewer rows at a time, or use K @ v.",
        )
        out = np.empty((len(rows), len(columns)), dtype=self.dtype)
        r, c = (i if at is None else at[i] for i, at in zip((rows, columns), self._at, strict=True))
        for i, row_places in _grouped(r, self._store.plan.part[0]):
            for j, column_places in _grouped(c, self._store.plan.part[1]):
                part = self._part(i, j)
                local = r[row_places] - i * part.shape[0], c[column_places] - j * part.shape[1]
                out[np.ix_(row_places, column_places)] = part[np.ix_(*local)]
        return out

    def _part(self, i: int, j: int) -> Floats:
        if self._store.plan.symmetric and i > j:
            return self._read((j, i)).T
        return self._read((i, j))

    def _read(self, place: Place) -> Floats:
        values = self._store.read(place, check=place not in self._checked)
        self._checked.add(place)
        return values

    def diag(self) -> Floats:
        """Return the diagonal, ``(N,)``."""
        n = min(self.shape)
        if self._store.plan.symmetric:
            side = self._store.plan.part[0]
            parts = [np.diagonal(self._read((i, i))) for i in range(-(-n // side))]
            stored = np.concatenate(parts)[:n] if parts else np.empty(0, dtype=self.dtype)
            return stored if self._at[0] is None else stored[self._at[0]]
        return np.array([self[i, i] for i in range(n)], dtype=self.dtype)

    def rows(self, size: int = 1000) -> Iterator[Floats]:
        """Yield blocks of ``size`` rows, ``(size, M)``, from the first to the last.

        Parameters
        ----------
        size : int, default=1000
            Rows of a block; the last one may have fewer.
        """
        if not is_whole(size):
            raise ValueError(f"size must be a whole number of rows, 1 or more; got {size!r}.")
        return (self[start : start + size] for start in range(0, len(self), size))

    # -- the whole ---------------------------------------------------------------------------------------

    def to_numpy(self) -> Floats:
        """Return the whole matrix; raise if it does not fit into memory."""
        n, m = self.shape
        check_room(n * m * self.dtype.itemsize, f"The matrix of {n:,} x {m:,} values", "Use K @ v, or blocks of rows.")
        return self._block(np.arange(n), np.arange(m))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if copy is False:
            raise ValueError("A Gram matrix on disk cannot be used as an array without a copy.")
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    # -- products ----------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Floats:
        return self._product(other, transposed=False)

    def __rmatmul__(self, other: Any) -> Floats:
        return self._product(_dense(other).T, transposed=True).T

    def matvec(self, v: Any) -> Floats:
        """Return the product with a vector, ``(N,)``; SciPy's solvers call it."""
        return self @ v

    def matmat(self, V: Any) -> Floats:
        """Return the product with the columns of a matrix, ``(N, k)``, in one pass over the tiles."""
        return self @ V

    def rmatvec(self, v: Any) -> Floats:
        """Return the product of the transposed matrix with a vector, ``(M,)``."""
        return self._product(v, transposed=True)

    def _product(self, other: Any, transposed: bool) -> Floats:
        """Multiply in one pass over the tiles, each read once."""
        plan = self._store.plan
        V = _dense(other)
        if V.dtype.kind not in "biufc":
            raise TypeError(f"A Gram matrix multiplies arrays of numbers; got {type(other).__name__} of {V.dtype}.")
        V = V.astype(np.result_type(self.dtype, V.dtype), copy=False)
        n, m = self.shape[::-1] if transposed else self.shape
        if V.ndim not in (1, 2) or len(V) != m:
            raise ValueError(f"The matrix has {m} columns, so that it multiplies {m} rows; got shape {V.shape}.")
        out_at, in_at = self._at[::-1] if transposed else self._at
        V = V if in_at is None else V[np.argsort(in_at)]
        out = np.zeros((n, *V.shape[1:]), dtype=V.dtype)
        with single_blas():  # products of a tile are too short for threads
            for place in plan.places():
                block = plan.block(place)
                r, c = block.rows, block.columns
                values = self._read(place)[: r.stop - r.start, : c.stop - c.start]
                if plan.symmetric or not transposed:
                    out[r] += values @ V[c]
                if (plan.symmetric and place[0] != place[1]) or (transposed and not plan.symmetric):
                    out[c] += values.T @ V[r]
        return out if out_at is None else out[out_at]


def open(path: str | os.PathLike[str]) -> StoredGram:
    """Open a Gram matrix that ``compute(kernel, X, store=path)`` has written.

    Parameters
    ----------
    path : str or path
        The folder.

    Returns
    -------
    StoredGram

    Examples
    --------
    >>> import mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gram.zarr"
    >>> K = mc.gram.compute(mc.Linear(normalize=False), [[1.0], [2.0]], store=path)
    >>> mc.gram.open(path)[0]
    array([1., 2.])
    """
    store = Store.find(path)
    if store is None:
        raise FileNotFoundError(f"There is no Gram matrix in {os.fspath(path)}.")
    missing = len(store.missing())
    if missing:
        total = len(store.plan.places())
        raise ValueError(
            f"The matrix in {os.fspath(path)} is not complete: {total - missing} of {total} tiles are kept. Call "
            "mc.gram.compute again with the same kernel and data to continue."
        )
    return StoredGram(store)


def _dense(V: Any) -> Floats:
    """Return an array or a sparse matrix as a NumPy array; its product is dense."""
    return np.asarray(V.toarray() if hasattr(V, "toarray") else V)


def _positions(key: Any, n: int, name: str) -> Indices:
    """Return the rows or columns that an index names, as nonnegative numbers."""
    if isinstance(key, slice):
        return np.arange(n)[key]
    index = np.atleast_1d(np.asarray(key))
    if index.dtype == bool:
        if len(index) != n:
            raise IndexError(f"A mask must have one value for each of the {n} {name}s; got {len(index)}.")
        return np.flatnonzero(index)
    if index.size and index.dtype.kind not in "iu":
        raise IndexError(f"A {name} must be a whole number; got {key!r}.")
    index = index.astype(int)
    beyond = index[(index < -n) | (index >= n)]
    if len(beyond):
        raise IndexError(f"{name} {beyond[0]} is out of range: the matrix has {n} {name}s.")
    return np.where(index < 0, index + n, index)


def _grouped(positions: Indices, side: int) -> Iterator[tuple[int, Indices]]:
    """Yield each part that contains some of the positions, with the places of these."""
    if not len(positions):
        return
    part = positions // side
    order = np.argsort(part, kind="stable")
    which, starts = np.unique(part[order], return_index=True)
    yield from zip(which.tolist(), np.split(order, starts[1:]), strict=True)
