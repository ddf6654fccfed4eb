"""Compute a Gram matrix outside a pipeline, and estimate its cost beforehand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, namespace, to_numpy
from mercer._parallel import n_threads, single_blas
from mercer._units import duration, human
from mercer.gram._stored import compute_parts
from mercer.gram.engine import blocks, tile_shape


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
        Time with the configured number of threads, extrapolated from a few samples: self-kernels and all pairs, but
        not model fitting.

    Examples
    --------
    >>> import mercer as mc
    >>> print(mc.gram.Estimate(pairs=5050, bytes=80_000, seconds=0.2))
    5,050 pairs, 78.1 KiB, about 0.2 s
    """

    pairs: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.pairs:,} pairs, {human(self.bytes)}, about {duration(self.seconds)}"


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
    Times are extrapolated as linear or quadratic functions of the number of samples. What a kernel learns from the
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
    threads = min(n_threads(), len(tiles))
    preparing = sample.preparing * (n + m) / (len(sample.a) + len(sample.b))
    return Estimate(
        n * (n + 1) // 2 if symmetric else n * m,
        int(np.prod(sample.values.shape[:-2])) * n * m * to_numpy(sample.values).itemsize,
        preparing + sample.tiling * evaluated / (rows * columns) / threads,
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
    values = kernel.tile(a, b)
    if kernel.domain == "log":
        with np.errstate(over="ignore"):  # include the time of the exponential
            namespace(values).exp(values)
    return _Sample(a, b, values, middle - start, time.perf_counter() - middle)


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
