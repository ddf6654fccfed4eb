"""A tensor times two vectors, in one pass over its memory: steps of embedded HMMs, by native/contraction.hpp."""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import Prepared

LINE = 8
"""Numbers of a cache line."""
DOUBLE = np.dtype(np.float64)


class _Call(threading.local):
    """A call with vectors of its own in every thread: copies are faster than to check arrays and find their memory."""

    def __init__(self, name: str, size: int, **fixed: Any) -> None:
        n, m, _ = fixed["tensor"].shape
        self.given, self.belief, self.out = np.empty(size), np.empty(m), np.empty(n + 2)
        others = dict.fromkeys(("code", "points", "offsets", "total", "x")) | {"gamma": 0.0}
        self.run = Prepared("contraction", **others | {name: self.given} | fixed, belief=self.belief, out=self.out)


class Contraction:
    """The product ``sum_jk tensor[i, j, k] b[j] c[k]`` of a tensor with two vectors.

    Parameters
    ----------
    tensor : ndarray of shape (n, m, r)
        The tensor, which is copied.

    """

    def __init__(self, tensor: Floats) -> None:
        n, m, r = tensor.shape
        self.tensor = _in_large_pages((n, m, -(-r // LINE) * LINE))
        self.tensor[..., :r] = tensor
        self.tensor[..., r:] = 0.0
        self._product = _Call("code", r, tensor=self.tensor)

    def __call__(self, c: Floats, b: Floats) -> Floats:
        """Return the product with vectors ``c`` of shape (r,) and ``b`` of shape (m,), ``(n,)``."""
        here = self._product
        here.given[:], here.belief[:] = c, b
        here.run()
        return here.out[:-2].copy()


def _in_large_pages(shape: tuple[int, ...]) -> Floats:
    """Allocate an array on cache lines, in pages of 2 MiB where the system has them.

    NumPy asks for large pages, too, but gets used memory with small ones after other large arrays were freed. A pass
    over small pages takes up to 1.5 times as long.
    """
    size, page = math.prod(shape), 1 << 21
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory = mmap.mmap(-1, 8 * size + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(memory)
    else:
        page = 64
        raw = np.empty(size + LINE)
    skip = (-raw.ctypes.data % page) // 8
    return raw[skip : skip + size].reshape(shape)


class GaussianContraction(Contraction):
    """One step of a filter: the product with Gaussian kernels of an observation and points, and with a belief.

    All of it is one call. A pass over a large tensor leaves nothing else in the caches, so that every other call from
    Python would take several times longer than usual.

    Parameters
    ----------
    tensor : ndarray of shape (n, n, r)
        The tensor.
    points : ndarray of shape (r, d)
        The points.
    gamma : float
        The kernel is exp(-gamma |x - y|^2).
    total : ndarray of shape (n,)
        The functional that is 1 on beliefs.
    """

    def __init__(self, tensor: Floats, points: Floats, gamma: float, total: Floats) -> None:
        super().__init__(tensor)
        self._shapes = points.shape[1:], tensor.shape[1:2]
        self._step = _Call(
            "x", points.shape[1], tensor=self.tensor, points=2 * gamma * points.T,
            offsets=gamma * np.einsum("ij,ij->i", points, points), total=total, gamma=float(gamma),
        )  # fmt: skip

    def step(self, x: Floats, b: Floats) -> tuple[Floats, float, float] | None:
        """Advance a belief ``(n,)`` by an observation ``(d,)``.

        Returns
        -------
        belief : ndarray of shape (n,)
            The new belief, divided by its total.
        total, square : float
            Its total before, and its squared norm after the division; not finite if an argument is not. None if the
            arguments are not plain arrays of these shapes.
        """
        if (x.shape, b.shape) != self._shapes or not x.dtype is b.dtype is DOUBLE:
            return None
        here = self._step
        here.given[:], here.belief[:] = x, b
        here.run()
        return here.out[:-2].copy(), here.out.item(-2), here.out.item(-1)
