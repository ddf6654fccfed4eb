"""Files of features that are written block by block: npy for dense ones, npz for sparse ones, Parquet."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._atomic import replacing
from mercer._files import check_path

HEADER = 128
"""Bytes of the header of an npy file, which is written when the number of rows is known."""


def writer(path: Any, names: Any) -> FeatureFile:
    """Return the writer of a file that does not exist yet, by its suffix; ``names`` returns those of the columns."""
    check_path(path)
    target = Path(path)
    kinds = {".npy": DenseFile, ".npz": SparseFile, ".parquet": ParquetFile}
    if target.suffix not in kinds:
        raise ValueError(f"out must end in .npy (dense), .npz (sparse) or .parquet; got {os.fspath(path)!r}.")
    if target.exists():
        raise FileExistsError(f"{target} exists. Remove it, or choose another name.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} does not exist. Create it first.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"The folder {target.parent} cannot be written. Choose another one.")
    return kinds[target.suffix](target, names)


class FeatureFile:
    """A file that grows by blocks of rows. It gets its name when it is complete; a partial one is removed."""

    file: IO[bytes]

    def __init__(self, path: Path, names: Any) -> None:
        self.path = path
        self.names = names
        self.shape: tuple[int, int] | None = None
        self.dtype: Any = None
        self._opened = ExitStack()

    def __enter__(self) -> FeatureFile:
        self.file = self._opened.enter_context(replacing(self.path))
        return self

    def __exit__(self, *error: Any) -> None:
        with self._opened:
            if error[0] is None:
                self._finish()
            self._opened.pop_all().__exit__(*error)

    def add(self, rows: Any) -> None:
        """Append a block of rows."""
        if self.shape is None:
            self.shape, self.dtype = (0, rows.shape[1]), rows.dtype
            self._begin(rows)
        self._write(rows)
        self.shape = (self.shape[0] + rows.shape[0], self.shape[1])

    def _begin(self, rows: Any) -> None:
        """Start the file, knowing the first rows."""

    def _write(self, rows: Any) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Complete the file."""


class DenseFile(FeatureFile):
    """An npy file, for ``np.load(path, mmap_mode="r")``."""

    def _begin(self, rows: Any) -> None:
        if sparse.issparse(rows):
            raise ValueError(
                f"These features are sparse, with {rows.shape[1]:,} columns. Use a name that ends in .npz in place of "
                f"{self.path.name!r}."
            )
        self.file.write(bytes(HEADER))

    def _write(self, rows: Any) -> None:
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)

    def _finish(self) -> None:
        self.file.seek(0)
        self.file.write(_header(self.dtype, self.shape))


class SparseFile(FeatureFile):
    """An npz file of a CSR matrix, for ``scipy.sparse.load_npz``; its arrays grow in nameless temporary files."""

    def _begin(self, rows: Any) -> None:
        if not sparse.issparse(rows):
            raise ValueError(f"These features are dense. Use a name that ends in .npy in place of {self.path.name!r}.")
        self.counts: list[Floats] = []
        self.kinds = {"data": self.dtype, "indices": np.dtype(np.int64)}
        enter, folder = self._opened.enter_context, self.path.parent
        self.parts = {name: enter(tempfile.TemporaryFile(dir=folder)) for name in self.kinds}  # noqa: SIM115

    def _write(self, rows: Any) -> None:
        rows = sparse.csr_array(rows)
        for name, part in self.parts.items():
            part.write(np.ascontiguousarray(getattr(rows, name), dtype=self.kinds[name]).data)
        self.counts.append(np.diff(rows.indptr))

    def _finish(self) -> None:
        assert self.shape is not None
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self.counts))])
        with zipfile.ZipFile(self.file, "w", allowZip64=True) as archive:
            for name, part in self.parts.items():
                part.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    member.write(_header(self.kinds[name], (int(indptr[-1]),)))
                    shutil.copyfileobj(part, member)
            small = {
                "indptr": indptr,
                "format": np.array(b"csr"),
                "shape": np.array(self.shape),
                "_is_array": np.array(True),
            }
            for name, array in small.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _header(dtype: Any, shape: Any) -> bytes:
    """Return the header of an npy file, of a length that does not depend on the number of rows."""
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.encode().ljust(HEADER - 11) + b"\n"


class ParquetFile(FeatureFile):
    """A Parquet file with one named column per feature, one row group per block."""

    def __init__(self, path: Path, names: Any) -> None:
        super().__init__(path, names)
        try:
            import pyarrow.parquet
        except ImportError:
            raise ImportError("Parquet files need pyarrow. Install it, or use a name that ends in .npy.") from None
        self.arrow = pyarrow

    def _begin(self, rows: Any) -> None:
        fields = [(str(name), self.arrow.from_numpy_dtype(self.dtype)) for name in self.names()]
        self.table = self._opened.enter_context(self.arrow.parquet.ParquetWriter(self.file, self.arrow.schema(fields)))

    def _write(self, rows: Any) -> None:
        dense = rows.toarray() if sparse.issparse(rows) else rows
        if len(dense):
            columns = [self.arrow.array(np.ascontiguousarray(column)) for column in np.asarray(dense).T]
            self.table.write_table(self.arrow.table(columns, schema=self.table.schema))
