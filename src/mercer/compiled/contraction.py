"""A tensor times two vectors, in one pass over its memory.

A tensor of some megabytes is larger than the caches close to a core, so the time is that of reading it. It is read in
the order of its memory, in whole aligned vectors. Sums stay in registers: lanes are added up only once per result.
"""

from __future__ import annotations

import contextlib
import math
import mmap

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.layout import owned
from mercer.compiled.machine import MACHINE

LANES = MACHINE.width
SUMS = 4
"""Number of independent sums, so that an addition need not wait for the one before."""


DOUBLE = np.dtype(np.float64)


class Contraction:
    """The product ``sum_jk tensor[i, j, k] b[j] c[k]`` of a tensor with two vectors.

    Parameters
    ----------
    tensor : ndarray of shape (n, m, r)
        The tensor, which is copied.

    """

    def __init__(self, tensor: Floats) -> None:
        *outer, r = tensor.shape
        self._tensor = _in_large_pages((*outer, -(-r // LANES) * LANES))
        self._tensor[..., :r] = tensor
        self._tensor[..., r:] = 0.0

    def __call__(self, c: Floats, b: Floats) -> Floats:
        """Return the product with vectors ``c`` of shape (r,) and ``b`` of shape (m,), ``(n,)``."""
        out = np.empty(len(self._tensor))
        c, b = (x if x.flags.carray else owned(x) for x in (c, b))
        _products(self._tensor, c, b, out)
        return out


def _in_large_pages(shape: tuple[int, ...]) -> Floats:
    """Allocate an array on cache lines, in pages of 2 MiB where the system has them.

    NumPy asks for large pages, too, but gets used memory with small ones after other large arrays were freed. A pass
    over small pages takes up to 1.5 times as long.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned(shape)
    size, page = math.prod(shape), 1 << 21
    memory = mmap.mmap(-1, 8 * size + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(memory)
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
        offsets = gamma * np.einsum("ij,ij->i", points, points)
        self._fixed = (self._tensor, owned(2 * gamma * points), offsets, float(gamma), owned(total))
        self._shapes = points.shape[1:], tensor.shape[1:2]

    def step(self, x: Floats, b: Floats) -> tuple[Floats, float, float] | None:
        """Advance a belief ``(n,)`` by an observation ``(d,)``.

        Returns
        -------
        belief : ndarray of shape (n,)
            The new belief, divided by its total.
        total, square : float
            Its total before, and its squared norm after the division; not finite if an argument is not. None if the
            arguments are not plain contiguous arrays of these shapes.
        """
        if (x.shape, b.shape) != self._shapes or not (
            x.dtype is b.dtype is DOUBLE and x.flags.carray and b.flags.carray
        ):
            return None
        out = np.empty(len(b))
        return out, *_step(*self._fixed, x, b, out)


def _emit_product(
    e: Emitter,
    tensor: Value,
    at: Value,
    m: Value,
    vectors: Value,
    c: Value,
    c_at: Value,
    b: Value,
    out: Value,
    i: Value,
) -> None:
    """Write the product of m rows of the tensor, each of some vectors, with c, which begins at ``c_at``."""
    build = e.builder
    groups, step = build.udiv(vectors, e.constant(SUMS)), e.constant(SUMS * LANES)
    rest, done = build.urem(vectors, e.constant(SUMS)), build.mul(groups, step)

    def row(j: Value) -> list[Value]:
        begin = build.add(at, build.mul(j, build.mul(vectors, e.constant(LANES))))

        def product(k: Value) -> Value:
            return e.multiply(e.load(tensor, build.add(begin, k)), e.load(c, build.add(c_at, k)))

        def many(group: Value) -> list[Value]:
            first = build.mul(group, step)
            return [product(build.add(first, e.constant(LANES * u))) for u in range(SUMS)]

        def one(vector: Value) -> list[Value]:
            return [product(e.offset(done, vector, LANES))]

        sums = e.loop_sums(SUMS, groups, many)
        sums[:1] = e.loop_sums(1, rest, one, start=sums[:1])
        return [e.multiply(e.beside(sums, e.add), e.spread(b, j))]

    (total,) = e.loop_sums(1, m, row)
    found = build.extract_element(e.across(total, e.add), e.constant(0))
    build.store(found, build.gep(out, [i]))


_product = vector_function(LANES)(_emit_product)


@compiled
def _room(width: int) -> tuple[Floats, int]:  # pragma: no cover - compiled
    """Return zeros, and where ``width`` of them begin on a cache line: so no vector crosses two."""
    room = np.zeros(width + 64 // 8)
    return room, (-room.ctypes.data % 64) // 8


@compiled
def _contract(tensor: Floats, c: Floats, at: int, b: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    n, m, width = tensor.shape
    for i in range(n):
        _product(tensor, i * m * width, m, width // LANES, c, at, b, out, i)


@compiled
def _products(tensor: Floats, c: Floats, b: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    room, at = _room(tensor.shape[2])
    for k in range(len(c)):
        room[at + k] = c[k]
    _contract(tensor, room, at, b, out)


@compiled(contract=True)
def _step(
    tensor: Floats, points: Floats, offsets: Floats, gamma: float, total: Floats, x: Floats, b: Floats, out: Floats
) -> tuple[float, float]:  # pragma: no cover - compiled
    room, at = _room(tensor.shape[2])
    square = 0.0
    for k in range(len(x)):
        square += x[k] * x[k]
    for i in range(len(points)):
        exponent = -offsets[i] - gamma * square
        for k in range(len(x)):
            exponent += points[i, k] * x[k]
        room[at + i] = math.exp(0.0 if exponent > 0.0 else exponent)  # NaN stays
    _contract(tensor, room, at, b, out)
    ratio = 0.0
    for i in range(len(out)):
        ratio += total[i] * out[i]
    square = 0.0
    for i in range(len(out)):
        out[i] /= ratio
        square += out[i] * out[i]
    return ratio, square
