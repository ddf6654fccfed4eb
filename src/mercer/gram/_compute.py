"""Fill a Gram matrix outside a pipeline, and say beforehand what it will cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer._array import Array, to_numpy
from mercer._parallel import n_threads, single_blas
from mercer.gram._engine import Operand, blocks, tile_shape


class TileKernel(Protocol):
    """What is asked of a kernel here."""

    def tile(self, a: Any, b: Any) -> Array:
        """Answer a tile."""

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Answer a whole matrix."""

    def operands(self, X: Any, Y: Any = None) -> tuple[TileKernel, Operand, Operand | None]:
        """Return a kernel that can answer, and what it has prepared for each side; None where both are the same."""


def compute(kernel: TileKernel, X: Any, Y: Any = None) -> Array:
    """Fill the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``: the same as ``kernel(X, Y)``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.compute(mc.Linear(normalize=False), [[1.0], [2.0]])
    array([[1., 2.],
           [2., 4.]])
    """
    return kernel(X, Y)


@dataclass(frozen=True)
class Estimate:
    """What a Gram matrix will cost.

    Parameters
    ----------
    pairs : int
        Kernel values to evaluate.
    bytes : int
        Of the result; a few tiles come on top.
    seconds : float
        On the threads that are set, from one tile of the data.

    Examples
    --------
    >>> import mercer as mc
    >>> print(mc.gram.Estimate(pairs=5050, bytes=80_000, seconds=0.2))
    5,050 pairs, 0.1 MiB, about 0.2 s
    """

    pairs: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.pairs:,} pairs, {self.bytes / 2**20:,.1f} MiB, about {self.seconds:.2g} s"


def estimate(kernel: TileKernel, X: Any, Y: Any = None) -> Estimate:
    """Estimate pairs, memory and time of a Gram matrix from one tile of it, before the run.

    Parameters
    ----------
    kernel : Kernel
        What to evaluate.
    X, Y : data
        As for ``kernel(X, Y)``. Models are fitted in order to time the kernel, and stay in the fit cache.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> cost = mc.gram.estimate(mc.RBF(gamma=1.0), np.zeros((100, 3)))
    >>> cost.pairs, cost.bytes
    (5050, 80000)
    """
    kernel, a, other = kernel.operands(X, Y)
    symmetric = other is None
    b = a if other is None else other
    n, m = len(a), len(b)
    pairs = n * (n + 1) // 2 if symmetric else n * m
    todo = blocks(n, m, tile_shape(a, b, symmetric), symmetric)
    sample = todo[len(todo) // 2]
    with single_blas():
        kernel.tile(a[sample.rows], b[sample.columns])  # compiles and warms the caches
        start = time.perf_counter()
        values = kernel.tile(a[sample.rows], b[sample.columns])
        seconds = time.perf_counter() - start
    evaluated = sum((t.rows.stop - t.rows.start) * (t.columns.stop - t.columns.start) for t in todo)
    *lead, rows, columns = values.shape
    threads = min(n_threads(), len(todo))
    return Estimate(
        pairs, int(np.prod(lead)) * n * m * to_numpy(values).itemsize, seconds * evaluated / (rows * columns) / threads
    )
