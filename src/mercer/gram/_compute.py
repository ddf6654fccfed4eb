"""Fill a Gram matrix outside a pipeline, and say beforehand what it will cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer._array import Array
from mercer._parallel import n_threads, single_blas
from mercer.gram._engine import Operand, blocks


class TileKernel(Protocol):
    """What the engine asks of a kernel."""

    def prepare(self, X: Any) -> Operand:
        """Do once per batch what does not depend on the other side."""

    def tile(self, a: Any, b: Any) -> Array:
        """Answer a tile."""

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Answer a whole matrix."""


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
    a = kernel.prepare(X)
    b = a if Y is None else kernel.prepare(Y)
    n, m = len(a), len(b)
    pairs = n * (n + 1) // 2 if Y is None else n * m
    if pairs == 0:
        return Estimate(0, 0, 0.0)
    todo = blocks(n, m, (a.tile_hint, b.tile_hint), Y is None)
    sample = todo[len(todo) // 2]
    with single_blas():
        kernel.tile(a[sample.rows], b[sample.columns])  # compiles and warms the caches
        start = time.perf_counter()
        values = kernel.tile(a[sample.rows], b[sample.columns])
        seconds = time.perf_counter() - start
    evaluated = sum((t.rows.stop - t.rows.start) * (t.columns.stop - t.columns.start) for t in todo)
    share = evaluated / max(int(np.prod(values.shape[-2:])), 1)
    lead = int(np.prod(values.shape[:-2]))
    return Estimate(pairs, lead * n * m * 8, seconds * share / n_threads())
