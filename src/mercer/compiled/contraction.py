"""A tensor times two vectors, in one pass over its memory.

A tensor of some megabytes is larger than the caches close to a core, so the time is that of reading it. It is read in
the order of its memory, in whole aligned vectors. Sums stay in registers: lanes are added up only once per result.
"""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.layout import owned
from mercer.compiled.machine import MACHINE

LANES = MACHINE.width
SUMS = 4
"""Number of independent sums, so that an addition need not wait for the one before."""


class Contraction:
    """The product ``sum_jk tensor[i, j, k] b[j] c[k]`` of a tensor with two vectors.

    Parameters
    ----------
    tensor : ndarray of shape (n, m, r)
        The tensor, which is copied.

    """

    def __init__(self, tensor: Floats) -> None:
        *outer, r = tensor.shape
        self._tensor = aligned((*outer, -(-r // LANES) * LANES))
        self._tensor[..., :r] = tensor
        self._tensor[..., r:] = 0.0

    def __call__(self, c: Floats, b: Floats) -> Floats:
        """Return the product with vectors ``c`` of shape (r,) and ``b`` of shape (m,), ``(n,)``."""
        out = np.empty(len(self._tensor))
        c, b = (x if x.flags.carray else owned(x) for x in (c, b))
        _products(self._tensor, c, b, out)
        return out


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
def _products(tensor: Floats, c: Floats, b: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    n, m, width = tensor.shape
    room = np.zeros(width + LANES)  # c on cache lines of its own, and zeros up to the last whole vector
    at = (-room.ctypes.data % 64) // 8
    for k in range(len(c)):
        room[at + k] = c[k]
    for i in range(n):
        _product(tensor, i * m * width, m, width // LANES, room, at, b, out, i)
