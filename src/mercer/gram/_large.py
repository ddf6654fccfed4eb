"""Matrices that one process does not hold or compute: on disk, and on a cluster."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from mercer._array import Array, Floats
from mercer._memory import check_room
from mercer._notices import notify, warns_once
from mercer._parallel import n_threads, progress_bar, thread_map
from mercer._units import human
from mercer._version import __version__
from mercer.gram._cluster import check_client, on_cluster
from mercer.gram._plan import Place, Sorted, whole_matrix
from mercer.gram._store import Store, WriteBehind
from mercer.gram._stored import StoredGram
from mercer.gram.engine import Run, record


@warns_once
def to_memory(kernel: Any, X: Any, Y: Any, client: Any) -> Array:
    """Compute a matrix on a cluster."""
    check_client(client)
    n, m = _count(X), _count(X if Y is None else Y)
    check_room(8 * n * m, f"The matrix of {type(kernel).__name__}", "Write it to disk, with store='gram.zarr'.")
    sides = Sorted.of(*kernel.operands(X, Y))
    plan, dtype = sides.plan()
    places = plan.places()
    start = time.perf_counter()
    matrix = whole_matrix(on_cluster(client, sides.parts(plan), places), sides, plan, dtype)
    record(Run(type(kernel).__name__, plan.shape, len(places), 1, "cluster", time.perf_counter() - start))
    return matrix


@warns_once
def to_disk(kernel: Any, X: Any, Y: Any, path: Any, client: Any) -> StoredGram:
    """Compute a matrix into a folder, or what is missing of it."""
    if client is not None:
        check_client(client)
    store = Store.find(path)
    identity = kernel._identity(X, Y)
    if store is None:
        _check_disk(Path(path), kernel, X, Y)
    else:
        store.check_same(identity)
        missing = store.missing(check=True)
        if not missing:
            return StoredGram(store)
        _note_mixture(store, identity["processor"])
    ready, a, b = kernel.operands(X, Y)
    sides = Sorted.of(ready, a, b, None if store is None else store.orders)
    if store is None:
        plan, dtype = sides.plan()
        store = Store.make(path, identity, plan, dtype, (sides.rows, sides.columns))
        missing = plan.places()
    _fill(store, missing, sides, client, type(kernel).__name__)
    return StoredGram(store)


def _fill(store: Store, missing: list[Place], sides: Sorted, client: Any, label: str) -> None:
    parts = sides.parts(store.plan)
    threads, start = 1, time.perf_counter()

    try:
        if client is None:
            threads = min(n_threads(), len(missing))
            with WriteBehind(store) as write:
                thread_map(lambda place: write(place, parts(place)), missing, threads=threads, label=label)
        else:
            found: Iterator[tuple[Place, Floats]] = on_cluster(client, parts, missing)
            with closing(progress_bar(missing, label)) as bar, WriteBehind(store) as write:
                for (place, values), _ in zip(found, bar, strict=True):
                    write(place, values)
    except KeyboardInterrupt:
        kept = len(store.sums)
        raise KeyboardInterrupt(
            f"{kept} of {len(store.plan.places())} tiles are in {store.path}. Call again to continue."
        ) from None
    store.remove_partial()
    where = "cpu" if client is None else "cluster"
    record(Run(label, store.plan.shape, len(missing), threads, where, time.perf_counter() - start))


def _check_disk(folder: Path, kernel: Any, X: Any, Y: Any) -> None:
    """Raise if the folder cannot be written or is too small, before models are fitted."""
    made = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(f"{folder} cannot be written ({reason}). Choose a folder that you may write to.") from error
    n, m = _count(X), _count(X if Y is None else Y)
    needed = 8 * (n * (n + 1) // 2 if Y is None else n * m)
    if needed > free:
        if made:
            folder.rmdir()
        raise OSError(
            f"The matrix of {type(kernel).__name__} needs {human(needed)} on disk, and {human(free)} are free at "
            f"{folder}. Choose another disk, or use mc.Features(kernel) or mc.Landmarks(kernel, 500)."
        )


def _note_mixture(store: Store, processor: str) -> None:
    """Warn, and note in the header, that a matrix is continued by another version or kind of processor."""
    version, before = store.header["version"], store.header["processor"]
    if (version, before) == (__version__, processor):
        return
    notify(
        f"{store.path} was begun with mercer {version} on {before}, and is continued with {__version__} on "
        f"{processor}: its tiles agree to rounding, about 1e-12, and not to the last bit."
    )
    store.header["mixed"] = True
    store.write_header()


def _count(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0
