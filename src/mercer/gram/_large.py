"""Matrices that one process does not hold or compute: on disk, and on a cluster.

Such a matrix is computed in parts. A part is a square of tiles of the engine, so that its values are those of
``kernel(X)`` to the last bit; the number of tiles in a part changes nothing but the size of a file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
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
IN_FLIGHT = 4
"""Parts per thread of a cluster that are computed or wait at a time, so that results do not pile up in its memory."""
WAIT_SECONDS = 30
"""Time until a cluster that does not answer is given up."""


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

    def __call__(self, block: Block) -> Floats:
        """Return one part."""
        on_diagonal = self.b is None and block.diagonal
        a, b = self.a[block.rows], (self.a if self.b is None else self.b)[block.columns]
        out = np.empty((len(a), len(b)), dtype=self.dtype)
        write = Writer(out, None, None, on_diagonal)
        with single_blas():
            for tile in blocks(len(a), len(b), self.tile, on_diagonal):
                write(tile, to_numpy(self.kernel._evaluation.value_tile(a[tile.rows], b[tile.columns])))
        if on_diagonal and self.diagonal is not None:
            np.fill_diagonal(out, self.diagonal[block.rows])
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
        thread_map(lambda block: write(block, parts(block)), missing, threads=threads, label=label)
    else:
        with closing(progress_bar(missing, label)) as bar:
            for (block, values), _ in zip(_on_cluster(client, parts, missing), bar, strict=True):
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


# -- clusters ----------------------------------------------------------------------------------------------


def _check_client(client: Any) -> None:
    """Raise, before anything is fitted, unless ``client`` is one that `_on_cluster` takes."""
    like = isinstance(client, str) or all(hasattr(client, name) for name in ("submit", "scatter"))
    if isinstance(client, type) or not like or client == "":
        raise TypeError(
            f"client must be a dask.distributed.Client, the address of a Dask scheduler, or 'joblib'; got {client!r}."
        )


def _evaluated(parts: Parts, block: Block) -> tuple[Block, Floats]:
    return block, parts(block)


def _on_cluster(client: Any, parts: Parts, missing: list[Block]) -> Iterator[tuple[Block, Floats]]:
    """Yield parts in the order in which they are completed."""
    if isinstance(client, str) and client == "joblib":
        from joblib import Parallel, delayed

        yield from Parallel(return_as="generator")(delayed(_evaluated)(parts, block) for block in missing)
        return
    try:
        from dask.distributed import Client, as_completed
    except ImportError as error:
        raise ImportError("A Dask cluster needs dask.distributed: pip install 'mercer[dask]'.") from error
    if isinstance(client, str):
        try:
            connected = Client(client, timeout=WAIT_SECONDS)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"There is no Dask scheduler at {client}. Start it with: dask scheduler.") from error
        with connected:
            yield from _on_cluster(connected, parts, missing)
        return
    threads = _cluster_threads(client)
    models = client.scatter(parts, broadcast=True, hash=False)
    tasks = (client.submit(_evaluated, models, block, pure=False) for block in missing)
    running = as_completed(islice(tasks, IN_FLIGHT * threads), loop=client.loop, with_results=True)
    try:
        for _, found in running:
            yield found
            running.update(list(islice(tasks, 1)))
    finally:
        if client.status == "running":  # nothing is left unless there was an error, or nobody wants the rest
            client.cancel(list(running.futures))


def _cluster_threads(client: Any) -> int:
    """Return the number of threads of a cluster; raise if it has none."""
    gone = f"The Dask cluster does not answer (the client is {client.status}). Start it again."
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except Exception as error:
        raise ConnectionError(gone) from error
    if client.status != "running":
        raise ConnectionError(gone)
    if not workers:
        address = client.scheduler.address if client.scheduler else "this address"
        raise ConnectionError(f"The Dask cluster at {address} has no workers. Start some, with: dask worker {address}.")
    return sum(int(worker["nthreads"]) for worker in workers.values())
