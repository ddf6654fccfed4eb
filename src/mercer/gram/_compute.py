"""Compute a Gram matrix outside a pipeline, and estimate its cost beforehand."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy
from mercer._atomic import FULL, in_use, new_folder
from mercer._files import check_path, check_target
from mercer._notices import notify, warns_once
from mercer._parallel import progress_bar, single_blas, thread_map
from mercer._sizes import check_room, duration, human
from mercer._version import __version__
from mercer.gram.engine import Block, blocks, threads_for, tile_shape


def compute(kernel: Any, X: Any, Y: Any = None, *, store: Any = None, client: Any = None) -> Any:
    """Compute the Gram matrix of ``X``, or the cross-Gram matrix of ``X`` and ``Y``; equals ``kernel(X, Y)``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X, Y : data
        As for ``kernel(X, Y)``.
    store : str or path, default=None
        Folder on disk for a matrix that does not fit into memory; needs zarr. If it exists, the computation is
        continued; a folder of another kernel or of other data is refused.
    client : "joblib" or None, default=None
        Who computes the tiles: "joblib" is the backend of ``joblib.parallel_config``, such as Dask, Ray or processes.
        None uses the threads of this process.

    Returns
    -------
    array of shape (N, M)
        With ``store``, a ``zarr.Array`` on disk, whose values are those of ``kernel(X, Y)`` up to rounding.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.compute(mc.Linear(normalize=False), [[1.0], [2.0]])
    array([[1., 2.],
           [2., 4.]])
    """
    _check_kernel(kernel)
    if store is None and client is None:
        return kernel(X, Y)
    X, Y = _listed(X), None if Y is X else _listed(Y)
    return compute_parts(kernel, X, Y, store, client)


def _listed(X: Any) -> Any:
    return list(X) if hasattr(X, "__next__") else X  # it is read more than once


def _check_kernel(kernel: Any) -> None:
    if isinstance(kernel, type) or not hasattr(kernel, "sources"):
        raise TypeError(f"kernel must be a kernel, such as mc.RBF(); got {kernel!r}.")


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a Gram matrix.

    Parameters
    ----------
    pairs : int
        Number of kernel evaluations.
    bytes : int
        Size of the result; the computation needs a few tiles in addition.
    seconds : float
        Time on these threads, extrapolated from a few samples: self-kernels and all pairs, but not model fitting.
    threads : int, default=1
        Number of threads, by the setting ``n_jobs`` of `mercer.set_config`.

    Examples
    --------
    >>> import mercer as mc
    >>> print(mc.gram.Estimate(pairs=5050, bytes=80_000, seconds=0.2))
    5,050 pairs, 78.1 KiB, about 0.2 s on 1 thread
    """

    pairs: int
    bytes: int
    seconds: float
    threads: int = 1

    def __str__(self) -> str:
        threads = f"{self.threads} thread" + "s" * (self.threads > 1)
        return f"{self.pairs:,} pairs, {human(self.bytes)}, about {duration(self.seconds)} on {threads}"


def estimate(kernel: Any, X: Any, Y: Any = None) -> Estimate:
    """Estimate the number of pairs, memory and time of a Gram matrix from a few of its objects.

    Parameters
    ----------
    kernel : Kernel
        Kernel to evaluate. One that must be fitted, and is not, is fitted to a few objects of X, with any classes in
        place of ``y``.
    X, Y : data
        As for ``kernel(X, Y)``. Models are fitted to time the kernel, and stay in the fit cache.

    Notes
    -----
    Times are extrapolated as linear or quadratic functions of the number of samples. With several threads, all of them
    are timed at once, so cores that other work uses, or that a container may not, do not count; the environment
    variable ``OMP_NUM_THREADS`` is about BLAS, which has one thread here. What a kernel learns from the
    matrix of the training objects is not included: `Centered` computes this matrix in ``fit``, and eigenvalues of it,
    which `Repaired` and `LogOdds` need, take cubic time.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> cost = mc.gram.estimate(mc.RBF(gamma=1.0), np.zeros((100, 3)))
    >>> cost.pairs, cost.bytes
    (5050, 80000)
    """
    _check_kernel(kernel)
    kernel, left, other = kernel._to_be_timed(X, Y)
    symmetric = other is None
    right = left if other is None else other
    n, m = _size(left), _size(right)
    with single_blas():
        _timed(kernel, left, right, 1)  # warm the caches
        count = _FEW
        while True:
            sample = _timed(kernel, left, right, count)
            if _ENOUGH_SECONDS <= sample.seconds < _SURE_SECONDS:  # or another process had the core for a moment
                sample = min(sample, _timed(kernel, left, right, count), key=lambda sample: sample.seconds)
            if sample.seconds >= _ENOUGH_SECONDS or count >= min(_MANY, max(n, m)):
                break
            count *= 4
    rows, columns = sample.values.shape[-2:]
    tiles = blocks(n, m, tile_shape(_Sized(n, sample.a), _Sized(m, sample.b), symmetric), symmetric)
    evaluated = sum((t.rows.stop - t.rows.start) * (t.columns.stop - t.columns.start) for t in tiles)
    serial = sample.tiling * evaluated / (rows * columns)
    threads = threads_for(len(tiles), serial / len(tiles))
    tiling = serial if threads == 1 else serial * _together(kernel, sample, threads) / sample.tiling
    preparing = sample.preparing * (n + m) / (len(sample.a) + len(sample.b))
    return Estimate(
        n * (n + 1) // 2 if symmetric else n * m,
        int(np.prod(sample.values.shape[:-2])) * n * m * to_numpy(sample.values).itemsize,
        preparing + tiling,
        threads,
    )


_FEW, _MANY = 2, 512
"""Number of objects per side in the first and in the largest timing sample."""
_ENOUGH_SECONDS = 0.01
"""A timing sample of this duration is long enough to extrapolate."""
_SURE_SECONDS = 1.0
"""A shorter one is timed twice."""


class _Sample(NamedTuple):
    """Timing of a few objects per side: to prepare them, including self-kernels, and to compare them."""

    a: Any
    b: Any
    values: Array
    preparing: float
    tiling: float

    @property
    def seconds(self) -> float:
        """Time of both."""
        return self.preparing + self.tiling


def _timed(kernel: Any, left: Any, right: Any, count: int) -> _Sample:
    """Prepare and compare ``count`` objects of each side, evenly spaced."""

    def few(source: Any) -> Any:
        n = _size(source)
        return source if n <= count else source[np.linspace(0, n - 1, count).round().astype(int)]

    start = time.perf_counter()
    a = kernel._evaluation.prepared(few(left))
    b = a if right is left else kernel._evaluation.prepared(few(right))
    middle = time.perf_counter()
    values = _compared(kernel, a, b)
    return _Sample(a, b, values, middle - start, time.perf_counter() - middle)


def _compared(kernel: Any, a: Any, b: Any) -> Array:
    values: Array = kernel.tile(a, b)
    if kernel.domain == "log":
        with np.errstate(over="ignore"):  # include the time of the exponential
            namespace(values).exp(values)
    return values


def _together(kernel: Any, sample: _Sample, threads: int) -> float:
    """Return the time of a comparison of the sample while all threads compare: of all, divided by their number."""
    repeats = int(np.clip(np.ceil(_ENOUGH_SECONDS / max(sample.tiling, 1e-9)), 1, _MANY))

    def work(_: int) -> None:
        for _ in range(repeats):
            _compared(kernel, sample.a, sample.b)

    seconds = []
    for _ in range(2):  # or another process had a core for a moment
        start = time.perf_counter()
        thread_map(work, list(range(threads)), threads=threads, label="estimate")
        seconds.append(time.perf_counter() - start)
    return min(seconds) / (repeats * threads)


def _size(source: Any) -> int:
    return int(source.shape[0]) if hasattr(source, "shape") else len(source)


@dataclass(frozen=True)
class _Sized:
    """Operand of ``count`` objects with the tile hint of a sample, to determine the tiles."""

    count: int
    sample: Any

    @property
    def tile_hint(self) -> int:
        """Tile hint of the sample."""
        return int(self.sample.tile_hint)

    def __len__(self) -> int:
        return self.count


PART = 1024
"""Rows and columns of a square: 8 MiB in double precision."""
CHECKSUM, BLOCK = 4, 4096
"""Bytes of the checksum of a part, and of the blocks of which files consist."""
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
        out = _begun(store, identity, label, shape)
    if out is not None:
        parts = [part for part in parts if not _is_sound(out, part, symmetric)]
        if not parts:
            return out
    ready, a, b = kernel.operands(X, Y)
    other = a if b is None else b
    if out is None:
        dtype = to_numpy(ready._evaluation.value_tile(a[:1], other[:1])).dtype
        out = np.empty(shape, dtype=dtype) if store is None else _made(store, shape, dtype, identity, label)
    tasks = ((ready, a[p.rows], None if symmetric and p.diagonal else other[p.columns]) for p in parts)
    found: Any = (_part(*task) for task in tasks)
    if client is not None:
        from joblib import Parallel, delayed

        found = Parallel(return_as="generator")(delayed(_part)(*task) for task in tasks)
    with nullcontext() if store is None else _writing(Path(store)), closing(progress_bar(parts, label)) as bar:
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
        raise ImportError("Matrices on disk need zarr: pip install zarr.") from error
    return zarr


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Write parts; on a full disk, say that the computation can be continued."""
    try:
        with in_use(folder):
            yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        made = OSError(
            f"The disk of {folder} is full. What has been computed is kept: free space, and make the same call again "
            "to continue."
        )
        made.errno = error.errno
        raise made from error


def _chunks(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the sides of a part that is written as one file, 8 MiB at most."""
    return min(PART, max(shape[0], 1)), min(PART, max(shape[1], 1))


def _written(shape: tuple[int, int]) -> int:
    """Return the number of bytes that a matrix takes on disk: whole parts with checksums, and its description."""
    sides = _chunks(shape)
    count = math.prod(-(-n // side) for n, side in zip(shape, sides, strict=True))
    return BLOCK * (count * -(-(8 * math.prod(sides) + CHECKSUM) // BLOCK) + 1)


def _begun(path: Any, identity: dict[str, Any], label: str, shape: tuple[int, int]) -> Any:
    """Return the matrix that was begun at ``path``; None if there is nothing yet, and room for it."""
    check_path(path)
    zarr, folder = _zarr(), Path(path)
    if not folder.exists():
        check_target(folder, str(folder))
        needed = _written(shape)
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


def _made(path: Any, shape: tuple[int, int], dtype: Any, identity: dict[str, Any], label: str) -> Any:
    """Make an empty matrix in a new folder; if another process has begun the same one meanwhile, take part in it."""
    from zarr.codecs import Crc32cCodec

    with new_folder(path) as folder:
        _zarr().create_array(
            folder,
            shape=shape,
            chunks=_chunks(shape),
            dtype=dtype,
            compressors=Crc32cCodec(),
            fill_value=np.nan,
            attributes={"mercer": identity},
            config={"write_empty_chunks": True},
        )
    return _begun(path, identity, label, shape)


def _is_sound(found: Any, part: Block, symmetric: bool) -> bool:
    """Whether a part, and its mirror image, have been written as they are."""
    places = [(part.rows, part.columns), (part.columns, part.rows)][: 1 + symmetric]
    try:
        return not any(np.isnan(found[place]).any() for place in places)
    except (ValueError, OSError):  # the checksum of a chunk
        return False
