"""A folder with the parts of a matrix, each in a file of its own: an array of Zarr 3 that mercer writes itself.

============== ==========================================================================================
file           content
============== ==========================================================================================
``zarr.json``  Zarr's description of the array; its attribute ``mercer`` is the header
``c/i/j``      part (i, j), plain little-endian numbers; of a symmetric matrix, those with ``j >= i``
``tiles.txt``  a line "i j checksum" for every part that is complete
``rows.npy``   order of the rows, if they are sorted by cost; ``columns.npy`` if the columns are other objects
============== ==========================================================================================

The checksums of the description and of the orders are in the header (`mercer.gram._header`).

A part is written to another name, renamed, and then noted in ``tiles.txt``, so that the folder is valid at every
moment: what was not noted is computed again. Nothing here depends on the package zarr, which can read the folder.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._atomic import FULL, remove_if_dead, renamed
from mercer._files import check_path
from mercer._units import human
from mercer._version import __version__
from mercer.gram._header import FORMAT, ORDERS, checksum_of, decoded, encoded, order_bytes, read_order
from mercer.gram._plan import Place, Plan

WAITING = 4
"""Parts that may wait for the disk."""
_LINE = re.compile(r"(\d+) (\d+) ([0-9a-f]{8})")
_OURS = re.compile(r"rows\.npy|columns\.npy|.*\.partial")


class Store:
    """A matrix on disk, complete or not.

    Parameters
    ----------
    path : Path
        The folder.
    header : dict
        What the values depend on, and how they are stored.
    plan : Plan
        The parts.
    dtype : dtype
        Type of the values.
    orders : tuple of array or None
        Order of the rows and of the columns.
    """

    def __init__(self, path: Path, header: dict[str, Any], plan: Plan, dtype: Any, orders: Any) -> None:
        self.path, self.header, self.plan, self.dtype = path, header, plan, np.dtype(dtype)
        self.orders: tuple[Floats | None, Floats | None] = orders
        self._lock = threading.Lock()
        self.sums = self._noted()

    # -- make and find -----------------------------------------------------------------------------------

    @staticmethod
    def make(path: Any, identity: dict[str, Any], plan: Plan, dtype: Any, orders: Any) -> Store:
        """Make an empty store in a new folder; its description is written last, so that it is whole or absent."""
        files = [order_bytes(orders[0]), None if plan.symmetric else order_bytes(orders[1])]
        header = {
            **{name: identity[name] for name in ("kernel", "parameters", "fitted", "data", "processor")},
            "format": FORMAT,
            "version": __version__,
            "symmetric": plan.symmetric,
            "tile": list(plan.tile),
            "orders": [None if data is None else checksum_of(data) for data in files],
        }
        store = Store(Path(path), header, plan, dtype, orders)
        try:
            store.path.mkdir(exist_ok=True)
            for name, data in zip(ORDERS, files, strict=True):
                if data is None:  # a process that was killed may have left one
                    (store.path / name).unlink(missing_ok=True)
                else:
                    _replace(store.path / name, data)
        except OSError as error:
            raise store.cannot_write(error) from error
        store.write_header()
        return store

    @staticmethod
    def find(path: Any) -> Store | None:
        """Return the store at ``path``, None if there is nothing yet; raise if there is something else."""
        check_path(path)
        folder = Path(path)
        if not folder.name:
            raise ValueError(f"path must name a folder for the matrix; got {os.fspath(path)!r}.")
        if not folder.parent.is_dir():
            raise FileNotFoundError(f"The folder {folder.parent} does not exist. Create it first.")
        if not folder.exists():
            return None
        if not folder.is_dir() or not (folder / "zarr.json").is_file():
            begun = folder.is_dir() and all(_OURS.fullmatch(entry.name) for entry in folder.iterdir())
            if begun:  # an empty folder, or one whose description was not written yet
                return None
            raise ValueError(f"{folder} exists and is not a matrix of mercer.gram.compute. Choose another path.")
        return Store._read(folder)

    @staticmethod
    def _read(folder: Path) -> Store:
        header, plan, dtype = decoded(folder)
        rows, columns = (
            read_order(folder, name, n, checksum)
            for name, n, checksum in zip(ORDERS, plan.shape, header["orders"], strict=True)
        )
        return Store(folder, header, plan, dtype, (rows, rows if plan.symmetric else columns))

    def write_header(self) -> None:
        """Write the description of the array."""
        try:
            _replace(self.path / "zarr.json", encoded(self.header, self.plan, self.dtype))
        except OSError as error:
            raise self.cannot_write(error) from error

    # -- parts -------------------------------------------------------------------------------------------

    def file(self, place: Place) -> Path:
        """Return the file of a part."""
        return self.path / "c" / str(place[0]) / str(place[1])

    def _noted(self) -> dict[Place, int]:
        try:
            lines = (self.path / "tiles.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        except IsADirectoryError as error:
            raise _is_a_folder(self.path / "tiles.txt") from error
        found = (_LINE.fullmatch(line) for line in lines)  # the last line may be cut off
        return {(int(m[1]), int(m[2])): int(m[3], 16) for m in found if m}

    def write(self, place: Place, values: Floats) -> None:
        """Keep a part."""
        data = np.ascontiguousarray(values, dtype=self.dtype.newbyteorder("<"))
        checksum = _checksum(data)
        target = self.file(place)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, data)
            with self._lock, open(self.path / "tiles.txt", "ab", buffering=0) as notes:
                notes.write(f"\n{place[0]} {place[1]} {checksum:08x}\n".encode())  # one call: whole or cut off
        except OSError as error:
            raise self.cannot_write(error) from error
        self.sums[place] = checksum

    def read(self, place: Place, check: bool = True) -> Floats:
        """Return a part, of the size of all parts; raise if it differs from what was written."""
        try:
            values = np.fromfile(self.file(place), dtype=self.dtype.newbyteorder("<"))
        except (FileNotFoundError, NotADirectoryError):
            values = np.empty(0)
        except IsADirectoryError as error:
            raise _is_a_folder(self.file(place)) from error
        if values.size != self.plan.part_entries or (check and _checksum(values) != self.sums.get(place)):
            raise DamagedTile(
                f"Tile {place[0]}/{place[1]} of {self.path} is damaged: its file is not what was written. Call "
                "mc.gram.compute again with the same kernel and data; it computes this tile only."
            )
        return values.reshape(self.plan.part)

    def missing(self, check: bool = False) -> list[Place]:
        """Return the parts that are not noted; with ``check``, also those that are damaged."""
        return [place for place in self.plan.places() if place not in self.sums or (check and not self._sound(place))]

    def _sound(self, place: Place) -> bool:
        try:
            self.read(place)
        except DamagedTile:
            return False
        return True

    def remove_partial(self) -> None:
        """Remove what processes that were killed have left, and nothing that another one is writing."""
        for left in [*self.path.glob("*.partial"), *self.path.glob("c/*/*.partial")]:
            remove_if_dead(left, time.time())

    # -- messages ----------------------------------------------------------------------------------------

    def check_same(self, identity: dict[str, Any]) -> None:
        """Raise unless the store is that of the same kernel, parameters and data."""
        cure = "Choose another path, or remove it."
        kernel = self.header["kernel"]
        same = all(self.header[name] == identity[name] for name in ("kernel", "parameters"))
        if not same:
            other = (
                f"{kernel}, not of {identity['kernel']}"
                if kernel != identity["kernel"]
                else f"{kernel} with other parameters"
            )
            raise ValueError(f"{self.path} holds the matrix of {other}. {cure}")
        if self.header["fitted"] != identity["fitted"]:
            raise ValueError(f"{self.path} holds the matrix of {kernel} fitted to other training data. {cure}")
        objects = identity["objects"]
        shape, symmetric = (objects[0], objects[-1]), len(objects) == 1
        if self.header["data"] != identity["data"] or (self.plan.shape, self.plan.symmetric) != (shape, symmetric):
            raise ValueError(f"{self.path} holds the matrix of {self.described}, which are not these data. {cure}")

    @property
    def described(self) -> str:
        """Number of objects, for a message."""
        n, m = self.plan.shape
        return f"{n:,} objects" if self.plan.symmetric else f"{n:,} and {m:,} objects"

    def cannot_write(self, error: OSError) -> OSError:
        """Return the error of a write, with what is kept and what to do."""
        total, done = len(self.plan.places()), len(self.sums)
        kept = f"{done} of {total} tiles are kept"
        if error.errno in FULL:
            rest = human((total - done) * self.plan.part_entries * self.dtype.itemsize)
            return OSError(f"The disk of {self.path} is full: {kept}. Free {rest} and call again to continue.")
        reason = error.strerror or type(error).__name__
        return type(error)(f"{self.path} cannot be written ({reason}): {kept}. Choose a folder that you may write to.")


class WriteBehind:
    """Writes parts in a thread of its own, so that the computation does not wait for the disk.

    A few parts may wait; then the computation waits too. The first error ends it. What was computed before an
    interrupt is written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: queue.Queue[tuple[Place, Floats] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._error: BaseException | None = None

    def __call__(self, place: Place, values: Floats) -> None:
        """Keep a part, soon."""
        if self._error is not None:
            raise self._error
        self._queue.put((place, values))

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is None:  # after an error only empty the queue, so that nobody waits forever
                try:
                    self._store.write(*item)
                except BaseException as error:
                    self._error = error

    def __enter__(self) -> WriteBehind:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error


class DamagedTile(ValueError):
    """A part on disk is not what was written."""


def _is_a_folder(path: Path) -> ValueError:
    return ValueError(f"{path} is a folder, where a file should be. Remove it, and call mc.gram.compute again.")


def _checksum(values: Floats) -> int:
    return zlib.crc32(memoryview(values))  # type: ignore[arg-type]


def _replace(target: Path, data: Any) -> None:
    """Write a file under another name and rename it, so that it is whole or absent."""
    with renamed(target) as file:
        file.write(memoryview(data).cast("B"))
