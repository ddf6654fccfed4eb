"""Matrices that one process does not hold or compute: on disk, and on a cluster.

Such a matrix is computed in parts. A part is a square of tiles of the engine, so that its values are those of
``kernel(X)`` to the last bit; the number of tiles in a part changes nothing but the size of a file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._memory import check_room
from mercer._notices import notify, warns_once
from mercer._parallel import n_threads, progress_bar, single_blas, thread_map
from mercer._units import human
from mercer._version import __version__
from mercer.gram._stored import StoredGram
from mercer.gram.engine import Block, Run, Writer, blocks, record, sorted_operand, tile_shape

PART_SIDE = 512
"""Rows of a part of a large matrix: 2 MiB in double precision. NumPy asks for huge pages from 4 MiB on, which are slow
to get anew for every part."""
PARTS_ALONG = 8
"""Parts along the side of a small matrix, at least: enough for several threads or workers."""
PART_TILES = 16
"""Tiles along the side of a part, at most. Tiles are small where a pair is slow, so that this bounds the work that is
lost if the computation is killed."""


@dataclass(frozen=True)
class Parts:
    """Computes the parts of a matrix; travels to the workers of a cluster.

    ``a`` and ``b`` are the prepared sides in the order in which the engine compares them, ``rows`` and ``columns``;
    ``b`` is None for a symmetric matrix, which has an exact ``diagonal``. ``tile`` and ``part`` are numbers of rows and
    columns.
    """

    kernel: Any
    a: Any
    b: Any
    rows: Indices | None
    columns: Indices | None
    diagonal: Floats | None
    dtype: np.dtype[Any]
    tile: tuple[int, int]
    part: tuple[int, int]

    @staticmethod
    def of(kernel: Any, a: Any, b: Any, begun: StoredGram | None = None) -> Parts:
        """Sort the sides by cost and split the matrix, or do as for a matrix that was begun."""
        diagonal = None if b is not None else to_numpy(kernel._evaluation.exp(kernel._evaluation.diagonal(a)))
        if begun is None:
            (rows, a), (columns, b) = sorted_operand(a), (None, None) if b is None else sorted_operand(b)
        else:
            rows, columns = begun._orders
            a, b = a[rows], None if b is None else b[columns]
        if diagonal is not None:
            columns, diagonal = rows, diagonal if rows is None else diagonal[rows]
        other = a if b is None else b
        dtype = to_numpy(kernel._evaluation.value_tile(a[:1], other[:1])).dtype
        if begun is not None:
            return Parts(kernel, a, b, rows, columns, diagonal, dtype, tuple(begun._header["tile"]), begun._part)
        tile = tile_shape(a, other, b is None)
        part = [
            size * max(1, min(PART_TILES, min(PART_SIDE, -(-n // PARTS_ALONG)) // size))
            for size, n in zip(tile, (len(a), len(other)), strict=True)
        ]
        return Parts(kernel, a, b, rows, columns, diagonal, dtype, tile, (part[0], part[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return len(self.a), len(self.a if self.b is None else self.b)

    def blocks(self) -> list[Block]:
        """Return the rows and columns of all parts; of a symmetric matrix, those on and above the diagonal."""
        return blocks(*self.shape, self.part, self.b is None)

    def taken(self, block: Block) -> Parts:
        """Return what one part is made of."""
        alike = self.b is None and block.diagonal
        b = None if alike else (self.a if self.b is None else self.b)[block.columns]
        diagonal = self.diagonal[block.rows] if alike and self.diagonal is not None else None
        return replace(self, a=self.a[block.rows], b=b, diagonal=diagonal, rows=None, columns=None)

    def values(self) -> Floats:
        """Return the whole matrix of what `taken` returns."""
        a, b = self.a, self.a if self.b is None else self.b
        out = np.empty(self.shape, dtype=self.dtype)
        write = Writer(out, None, None, self.b is None)
        with single_blas():
            for tile in blocks(*self.shape, self.tile, self.b is None):
                write(tile, to_numpy(self.kernel._evaluation.value_tile(a[tile.rows], b[tile.columns])))
        if self.diagonal is not None:
            np.fill_diagonal(out, self.diagonal)
        return out


@warns_once
def to_memory(kernel: Any, X: Any, Y: Any, client: Any) -> Floats:
    """Compute a matrix on a cluster."""
    _check_client(client)
    objects = kernel._identity(X, Y)["objects"]
    size = 8 * objects[0] * objects[-1]
    check_room(size, f"The matrix of {type(kernel).__name__}", "Write it to disk, with store='gram.zarr'.")
    parts = Parts.of(*kernel.operands(X, Y))
    out = np.empty(parts.shape, dtype=parts.dtype)
    write = Writer(out, parts.rows, parts.columns, parts.b is None)
    _fill(parts, parts.blocks(), client, write, type(kernel).__name__)
    return out


@warns_once
def to_disk(kernel: Any, X: Any, Y: Any, path: Any, client: Any) -> StoredGram:
    """Compute a matrix into a folder, or what is missing of it."""
    if client is not None:
        _check_client(client)
    stored = StoredGram._find(path)
    identity = kernel._identity(X, Y)
    if stored is None:
        _check_disk(Path(path), type(kernel).__name__, identity["objects"])
        missing = None
    else:
        stored._check_same(identity)
        missing = [block for block in stored._blocks() if not stored._is_sound(block)]
        if not missing:
            return stored
        _note_mixture(stored, identity["processor"])
    ready, a, b = kernel.operands(X, Y)
    parts = Parts.of(ready, a, b, stored)
    if stored is None:
        stored = StoredGram._make(path, identity, parts)
    try:
        _fill(parts, parts.blocks() if missing is None else missing, client, stored._write, type(kernel).__name__)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{stored._kept()} in {path}. Call again to continue.") from None
    return stored


def _fill(parts: Parts, missing: list[Block], client: Any, write: Callable[[Block, Floats], None], label: str) -> None:
    """Compute and write parts, in threads of this process or on a cluster."""
    threads, start = 1, time.perf_counter()
    if client is None:
        threads = min(n_threads(), len(missing))
        thread_map(lambda block: write(block, parts.taken(block).values()), missing, threads=threads, label=label)
    else:
        from joblib import Parallel, delayed

        found = Parallel(return_as="generator")(delayed(Parts.values)(parts.taken(block)) for block in missing)
        with closing(progress_bar(missing, label)) as bar:
            for block, values in zip(bar, found, strict=True):
                write(block, values)
    where = "cpu" if client is None else "cluster"
    record(Run(label, parts.shape, len(missing), threads, where, time.perf_counter() - start))


def _check_disk(folder: Path, label: str, objects: list[int]) -> None:
    """Raise if the folder cannot be written or is too small, before models are fitted."""
    made = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(f"{folder} cannot be written ({reason}). Choose a folder that you may write to.") from error
    needed = 4 * objects[0] * (objects[0] + 1) if len(objects) == 1 else 8 * objects[0] * objects[1]
    if needed > free:
        if made:
            folder.rmdir()
        raise OSError(
            f"The matrix of {label} needs {human(needed)} on disk, and {human(free)} are free at {folder}. Choose "
            "another disk, or use mc.Features(kernel) or mc.Landmarks(kernel, 500)."
        )


def _note_mixture(stored: StoredGram, processor: str) -> None:
    """Warn, and note in the header, that a matrix is continued by another version or kind of processor."""
    version, before = stored._header["version"], stored._header["processor"]
    if (version, before) == (__version__, processor):
        return
    notify(
        f"{stored._path} was begun with mercer {version} on {before}, and is continued with {__version__} on "
        f"{processor}: its tiles agree to rounding, about 1e-12, and not to the last bit."
    )
    stored._K.attrs["mercer"] = {**stored._header, "mixed": True}


def _check_client(client: Any) -> None:
    """Raise, before anything is fitted, unless ``client`` is "joblib"."""
    if client != "joblib":
        raise TypeError(
            f"client must be 'joblib', for the backend of joblib.parallel_config; got {client!r}. For Dask, use "
            "joblib.parallel_config(backend='dask')."
        )
