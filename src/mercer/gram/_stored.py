"""Gram matrices that one process does not hold or compute: arrays of Zarr 3 on disk, and parts on a cluster.

The matrix is computed in squares, each by the engine. On disk, a square is a chunk with a checksum, which appears
whole: one that is missing or damaged is computed again.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._files import check_path
from mercer._memory import check_room
from mercer._notices import notify, warns_once
from mercer._parallel import progress_bar
from mercer._units import human
from mercer._version import __version__
from mercer.gram.engine import Block, blocks

PART = 1024
"""Rows and columns of a square: 8 MiB in double precision."""
IDENTITY = ("kernel", "parameters", "fitted", "data")
"""What two runs must have in common; values of another version or processor agree to rounding."""


@warns_once
def compute_parts(kernel: Any, X: Any, Y: Any, store: Any, client: Any) -> Any:
    """Compute a matrix part by part, or what is missing of it: a zarr array on disk, or a NumPy array."""
    if client not in (None, "joblib"):
        raise TypeError(
            f"client must be 'joblib', for the backend of joblib.parallel_config; got {client!r}. For Dask, use "
            "joblib.parallel_config(backend='dask')."
        )
    label, identity = type(kernel).__name__, {**kernel._identity(X, Y), "version": __version__}
    objects = identity.pop("objects")
    shape, symmetric = (objects[0], objects[-1]), len(objects) == 1
    out, parts = None, blocks(*shape, (PART, PART), symmetric)
    if store is None:
        check_room(8 * shape[0] * shape[1], f"The matrix of {label}", "Write it to disk, with store='gram.zarr'.")
    else:
        out = _begun(store, identity, label, 8 * shape[0] * shape[1])
    if out is not None:
        parts = [part for part in parts if not _is_sound(out, part, symmetric)]
        if not parts:
            return out
    ready, a, b = kernel.operands(X, Y)
    other = a if b is None else b
    if out is None:
        dtype = to_numpy(ready._evaluation.value_tile(a[:1], other[:1])).dtype
        out = np.empty(shape, dtype=dtype) if store is None else _made(store, shape, dtype, identity)
    tasks = ((ready, a[p.rows], None if symmetric and p.diagonal else other[p.columns]) for p in parts)
    found: Any = (_part(*task) for task in tasks)
    if client is not None:
        from joblib import Parallel, delayed

        found = Parallel(return_as="generator")(delayed(_part)(*task) for task in tasks)
    with closing(progress_bar(parts, label)) as bar:
        for part, values in zip(bar, found, strict=True):
            out[part.rows, part.columns] = values
            if symmetric and not part.diagonal:
                out[part.columns, part.rows] = values.T
    return out


def _part(kernel: Any, a: Any, b: Any) -> Floats:
    return to_numpy(kernel._evaluation.matrix(a, b))


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Matrices on disk need zarr: pip install 'mercer[store]'.") from error
    return zarr


def _begun(path: Any, identity: dict[str, Any], label: str, needed: int) -> Any:
    """Return the matrix that was begun at ``path``; None if there is nothing yet, and room for it."""
    check_path(path)
    zarr, folder = _zarr(), Path(path)
    if not folder.exists():
        free = shutil.disk_usage(folder.parent).free
        if needed > free:
            raise OSError(
                f"The matrix of {label} needs {human(needed)} on disk, and {human(free)} are free at {folder.parent}. "
                "Choose another disk, or use mc.Features(kernel) or mc.Landmarks(kernel, 500)."
            )
        return None
    try:
        found = zarr.open_array(folder, mode="r+")
        header = found.attrs["mercer"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{folder} exists and is not a matrix of mercer.gram.compute. Choose another path.") from error
    if any(header.get(name) != identity[name] for name in IDENTITY):
        raise ValueError(
            f"{folder} holds the matrix of {header.get('kernel')}, of {found.shape[0]} and {found.shape[1]} objects, "
            f"with other parameters, training data or objects than {identity['kernel']} here. Choose another path, or "
            "remove it."
        )
    if header != identity:
        notify(
            f"{folder} was begun with mercer {header.get('version')} on {header.get('processor')}, and is continued "
            f"with {__version__} on {identity['processor']}: its parts agree to rounding, about 1e-12."
        )
    return found


def _made(path: Any, shape: tuple[int, int], dtype: Any, identity: dict[str, Any]) -> Any:
    """Make an empty matrix in a new folder."""
    from zarr.codecs import Crc32cCodec

    return _zarr().create_array(
        path,
        shape=shape,
        chunks=(PART, PART),
        dtype=dtype,
        compressors=Crc32cCodec(),
        fill_value=np.nan,
        attributes={"mercer": identity},
        config={"write_empty_chunks": True},
    )


def _is_sound(found: Any, part: Block, symmetric: bool) -> bool:
    """Whether a part, and its mirror image, have been written as they are."""
    places = [(part.rows, part.columns), (part.columns, part.rows)][: 1 + symmetric]
    try:
        return not any(np.isnan(found[place]).any() for place in places)
    except (ValueError, OSError):  # the checksum of a chunk
        return False
