"""Files of features that are written block by block: npy for dense ones, npz for sparse ones, Parquet."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._files import check_path, put_in_place

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

    def __init__(self, path: Path, names: Any) -> None:
        self.path = path
        self.names = names
        self.shape: tuple[int, int] | None = None
        self.dtype: Any = None
        self.partial = path.with_name(f"{path.name}.{os.getpid()}.partial")

    def __enter__(self) -> FeatureFile:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self._finish()
                put_in_place(self.partial, self.path)
        finally:
            self._close()
            self.partial.unlink(missing_ok=True)

    def add(self, rows: Any) -> None:
        """Append a block of rows."""
        if self.shape is None:
            self.shape, self.dtype = (0, rows.shape[1]), rows.dtype
            self._begin(rows)
        self._write(rows)
        self.shape = (self.shape[0] + rows.shape[0], self.shape[1])

    def _begin(self, rows: Any) -> None:
        """Open the file, knowing the first rows."""

    def _write(self, rows: Any) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Complete the file."""

    def _close(self) -> None:
        """Release what is open."""


class DenseFile(FeatureFile):
    """An npy file, for ``np.load(path, mmap_mode="r")``."""

    file: IO[bytes] | None = None

    def _begin(self, rows: Any) -> None:
        if sparse.issparse(rows):
            raise ValueError(
                f"These features are sparse, with {rows.shape[1]:,} columns. Use a name that ends in .npz in place of "
                f"{self.path.name!r}."
            )
        self.file = open(self.partial, "wb")  # noqa: SIM115 - closed at the end of the stream
        self.file.write(bytes(HEADER))

    def _write(self, rows: Any) -> None:
        assert self.file is not None
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)

    def _finish(self) -> None:
        assert self.file is not None
        text = repr({"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape})
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little"))
        self.file.write(text.encode().ljust(HEADER - 11) + b"\n")
        self._close()

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()


class SparseFile(FeatureFile):
    """An npz file of a CSR matrix, for ``scipy.sparse.load_npz``; its arrays grow in temporary files."""

    folder: Any = None

    def _begin(self, rows: Any) -> None:
        if not sparse.issparse(rows):
            raise ValueError(f"These features are dense. Use a name that ends in .npy in place of {self.path.name!r}.")
        self.folder = tempfile.TemporaryDirectory(dir=self.path.parent, prefix=f"{self.path.name}.")
        self.parts = {name: DenseFile(Path(self.folder.name, f"{name}.npy"), None) for name in ("data", "indices")}
        self.counts: list[Floats] = []

    def _write(self, rows: Any) -> None:
        rows = sparse.csr_array(rows)
        for name, part in self.parts.items():
            values = getattr(rows, name)
            part.add((values.astype(np.int64) if name == "indices" else values)[:, None])
        self.counts.append(np.diff(rows.indptr))

    def _finish(self) -> None:
        assert self.shape is not None
        with zipfile.ZipFile(self.partial, "w", allowZip64=True) as archive:
            for name, part in self.parts.items():
                assert part.shape is not None
                part.shape = (part.shape[0],)  # type: ignore[assignment]
                part._finish()
                with open(part.partial, "rb") as file, archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(file, member)
            indptr = np.concatenate([[0], np.cumsum(np.concatenate(self.counts))])
            small = {
                "indptr": indptr,
                "format": np.array(b"csr"),
                "shape": np.array(self.shape),
                "_is_array": np.array(True),
            }
            for name, array in small.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    def _close(self) -> None:
        if self.folder is not None:
            for part in self.parts.values():
                part._close()
            self.folder.cleanup()


class ParquetFile(FeatureFile):
    """A Parquet file with one named column per feature, one row group per block."""

    def __init__(self, path: Path, names: Any) -> None:
        super().__init__(path, names)
        try:
            import pyarrow.parquet
        except ImportError:
            raise ImportError("Parquet files need pyarrow. Install it, or use a name that ends in .npy.") from None
        self.arrow = pyarrow
        self.open: Any = None

    def _begin(self, rows: Any) -> None:
        fields = [(str(name), self.arrow.from_numpy_dtype(self.dtype)) for name in self.names()]
        self.open = self.arrow.parquet.ParquetWriter(self.partial, self.arrow.schema(fields))

    def _write(self, rows: Any) -> None:
        dense = rows.toarray() if sparse.issparse(rows) else rows
        if len(dense):
            columns = [self.arrow.array(np.ascontiguousarray(column)) for column in np.asarray(dense).T]
            self.open.write_table(self.arrow.table(columns, schema=self.open.schema))

    def _finish(self) -> None:
        self._close()

    def _close(self) -> None:
        if self.open is not None:
            self.open.close()
            self.open = None
