"""A Gram matrix on disk: rows, blocks, the diagonal and products with vectors, without the whole in memory.

The folder is a group of Zarr 3: the array ``K`` has one chunk with a checksum for each part of the matrix (of a
symmetric one, on and above the diagonal), and ``rows`` and ``columns`` are the order of its objects. The attribute
``mercer`` of ``K`` is the header. ``K`` is made last and its chunks appear whole, so that the folder is valid at every
moment: a part without a chunk is computed again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._checks import is_whole
from mercer._files import check_path
from mercer._memory import check_room
from mercer._parallel import single_blas
from mercer._units import human
from mercer._version import __version__
from mercer.gram.engine import Block, blocks

if TYPE_CHECKING:
    from mercer.gram._large import Parts

FORMAT = 2


class StoredGram:
    """Gram matrix on disk, read tile by tile; `mercer.gram.open` makes it.

    ``K[i]``, ``K[10:20]``, ``K[np.ix_(rows, columns)]`` and ``K @ v`` read only the tiles that they need, and check
    each when it is first read. ``numpy.asarray(K)`` reads the whole matrix. Splitters of scikit-learn, estimators with
    ``kernel="precomputed"`` and SciPy's iterative solvers take it in place of an array.

    Parameters
    ----------
    path : str or path
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path(path)
        self._path = Path(path)
        try:
            group = _zarr().open_group(self._path, mode="r+")
            self._K = group["K"]
            self.shape: tuple[int, int] = self._K.shape
            self.dtype = self._K.dtype
            self._part: tuple[int, int] = self._K.chunks
            self._header: dict[str, Any] = self._K.attrs["mercer"]
            self.kernel: str = self._header["kernel"]
            self._symmetric: bool = self._header["symmetric"]
            # The order of the objects, and the position of every object in it.
            self._orders: tuple[Indices, Indices] = (group["rows"][:], group["columns"][:])
            self._at = tuple(np.argsort(order) for order in self._orders)
            if not all(
                np.array_equal(o[at], np.arange(n)) for o, at, n in zip(self._orders, self._at, self.shape, strict=True)
            ):
                raise ValueError("rows and columns must be permutations")
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise ValueError(
                f"{self._path} is damaged: its description is not what was written. Restore it from a copy, or remove "
                "the folder and call mc.gram.compute again."
            ) from error
        if self._header.get("format") != FORMAT:
            raise ValueError(
                f"{self._path} has format {self._header.get('format')}; this version reads format {FORMAT}. Choose "
                "another path."
            )

    @staticmethod
    def _find(path: Any) -> StoredGram | None:
        """Return the matrix at ``path``, complete or not; None if there is nothing yet; raise for other files."""
        _zarr()
        check_path(path)
        folder = Path(path)
        if not folder.parent.is_dir():
            raise FileNotFoundError(f"The folder {folder.parent} does not exist. Create it first.")
        if not folder.exists():
            return None
        described = _names(folder / "K")
        if _names(folder) <= {"zarr.json", "rows", "columns", "K"} and not described:
            return None  # an empty folder, or one whose matrix was not described yet
        if not described:
            raise ValueError(f"{folder} exists and is not a matrix of mercer.gram.compute. Choose another path.")
        return StoredGram(folder)

    @staticmethod
    def _make(path: Any, identity: dict[str, Any], parts: Parts) -> StoredGram:
        """Make an empty matrix in a new folder; ``K`` is written last, so that it is whole or absent."""
        from zarr.codecs import Crc32cCodec

        header = {
            **{name: identity[name] for name in ("kernel", "parameters", "fitted", "data", "processor")},
            "format": FORMAT,
            "version": __version__,
            "symmetric": parts.b is None,
            "tile": parts.tile,
        }
        group = _zarr().open_group(path, mode="w")
        for name, order, n in zip(("rows", "columns"), (parts.rows, parts.columns), parts.shape, strict=True):
            group.create_array(name, data=np.arange(n) if order is None else order, compressors=Crc32cCodec())
        group.create_array(
            "K",
            shape=parts.shape,
            chunks=parts.part,
            dtype=parts.dtype,
            compressors=Crc32cCodec(),
            fill_value=np.nan,
            attributes={"mercer": header},
            config={"write_empty_chunks": True},
        )
        return StoredGram(path)

    def _check_same(self, identity: dict[str, Any]) -> None:
        """Raise unless the matrix is that of the same kernel, parameters and data."""
        header, objects, cure = self._header, identity["objects"], "Choose another path, or remove it."
        if header["kernel"] != identity["kernel"]:
            raise ValueError(f"{self._path} holds the matrix of {self.kernel}, not of {identity['kernel']}. {cure}")
        if header["parameters"] != identity["parameters"]:
            raise ValueError(f"{self._path} holds the matrix of {self.kernel} with other parameters. {cure}")
        if header["fitted"] != identity["fitted"]:
            raise ValueError(f"{self._path} holds the matrix of {self.kernel} fitted to other training data. {cure}")
        same = self.shape == (objects[0], objects[-1]) and self._symmetric == (len(objects) == 1)
        if header["data"] != identity["data"] or not same:
            count = f"{self.shape[0]:,}" if self._symmetric else f"{self.shape[0]:,} and {self.shape[1]:,}"
            raise ValueError(f"{self._path} holds the matrix of {count} objects, which are not these data. {cure}")

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<{n} x {m} Gram matrix of {self.kernel} in {self._path}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (os.path.abspath(self._path),)  # another process reads the same folder

    def __len__(self) -> int:
        return self.shape[0]

    # -- parts -------------------------------------------------------------------------------------------

    def _blocks(self) -> list[Block]:
        """Return the rows and columns of all parts."""
        return blocks(*self.shape, self._part, self._symmetric)

    def _kept(self) -> str:
        return f"{self._K.nchunks_initialized} of {len(self._blocks())} tiles are kept"

    def _write(self, block: Block, values: Floats) -> None:
        """Keep a part."""
        try:
            self._K[block.rows, block.columns] = values
        except OSError as error:
            left = len(self._blocks()) - self._K.nchunks_initialized
            size = human(left * self._part[0] * self._part[1] * self.dtype.itemsize)
            reason = error.strerror or type(error).__name__
            raise type(error)(
                f"{self._path} cannot be written ({reason}): {self._kept()}, and the others need {size}. Make room for "
                "them, and call again to continue."
            ) from error

    def _read(self, block: Block) -> Floats:
        """Return a part; raise if it is missing or differs from what was written."""
        error: Exception | None = None
        try:
            values = np.asarray(self._K[block.rows, block.columns])
            if not np.isnan(values).all():  # as where there is no chunk
                return values
        except (ValueError, OSError) as found:
            error = found
        i, j = block.rows.start // self._part[0], block.columns.start // self._part[1]
        raise DamagedTile(
            f"Tile {i}/{j} of {self._path} is damaged: its file is not what was written. Call mc.gram.compute again "
            "with the same kernel and data; it computes this tile only."
        ) from error

    def _is_sound(self, block: Block) -> bool:
        try:
            self._read(block)
        except DamagedTile:
            return False
        return True

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
        r, c = self._at[0][rows], self._at[1][columns]
        for top, row_places in _grouped(r, self._part[0]):
            for left, column_places in _grouped(c, self._part[1]):
                part = self._square(top, left)
                out[np.ix_(row_places, column_places)] = part[np.ix_(r[row_places] - top, c[column_places] - left)]
        return out

    def _square(self, top: int, left: int) -> Floats:
        """Return the part that begins at a row and a column, from its mirror image below the diagonal."""
        if self._symmetric and top > left:
            return self._square(left, top).T
        n, m = self.shape
        rows, columns = slice(top, min(top + self._part[0], n)), slice(left, min(left + self._part[1], m))
        return self._read(Block(rows, columns))

    def diag(self) -> Floats:
        """Return the diagonal, ``(N,)``."""
        n = min(self.shape)
        if self._symmetric:
            parts = [np.diagonal(self._square(start, start)) for start in range(0, n, self._part[0])]
            return np.concatenate(parts)[self._at[0]]
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
        V = _dense(other)
        if V.dtype.kind not in "biufc":
            raise TypeError(f"A Gram matrix multiplies arrays of numbers; got {type(other).__name__} of {V.dtype}.")
        V = V.astype(np.result_type(self.dtype, V.dtype), copy=False)
        n, m = self.shape[::-1] if transposed else self.shape
        if V.ndim not in (1, 2) or len(V) != m:
            raise ValueError(f"The matrix has {m} columns, so that it multiplies {m} rows; got shape {V.shape}.")
        out_order, in_order = self._orders[::-1] if transposed else self._orders
        V = V[in_order]
        out = np.zeros((n, *V.shape[1:]), dtype=V.dtype)
        with single_blas():  # products of a tile are too short for threads
            for block in self._blocks():
                values = self._read(block)
                if self._symmetric or not transposed:
                    out[block.rows] += values @ V[block.columns]
                if (self._symmetric and not block.diagonal) or (transposed and not self._symmetric):
                    out[block.columns] += values.T @ V[block.rows]
        return out[np.argsort(out_order)]


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
    found = StoredGram._find(path)
    if found is None:
        raise FileNotFoundError(f"There is no Gram matrix in {os.fspath(path)}.")
    if found._K.nchunks_initialized < len(found._blocks()):
        raise ValueError(
            f"The matrix in {os.fspath(path)} is not complete: {found._kept()}. Call mc.gram.compute again with the "
            "same kernel and data to continue."
        )
    return found


class DamagedTile(ValueError):
    """A part on disk is not what was written."""


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Matrices on disk need zarr: pip install 'mercer[store]'.") from error
    return zarr


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
    """Yield the first position of each part that contains some of the positions, with the places of these."""
    if not len(positions):
        return
    part = positions // side * side
    order = np.argsort(part, kind="stable")
    which, starts = np.unique(part[order], return_index=True)
    yield from zip(which.tolist(), np.split(order, starts[1:]), strict=True)


def _names(folder: Path) -> set[str]:
    """Return the names of what a folder contains, without files that a killed process has begun to write."""
    if not folder.is_dir():
        return {""} if folder.exists() else set()
    return {entry.name for entry in folder.iterdir() if not entry.name.endswith(".partial")}
