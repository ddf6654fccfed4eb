"""One step of coupled chains (PPK-4.2) in SIMD lanes: blocked products of matrices whose entries are vectors.

One model of the left side is compared with several of the right side at once, and every number of the recursion is a
vector with one lane per pair of models. Both products of a step, and the leaf kernels of categorical emissions, are
products of small matrices of such vectors. They are split into blocks whose sums fit the registers, so that a loaded
number is used in several sums (`Plan`). Tables of pairs are stored as [b][a][lane], where b is a state of the right
side.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.layout import owned, to_lanes
from mercer.compiled.machine import MACHINE, Machine

LITERAL = 5
"""Up to this number of states, that of the right side is a constant too, and loops are unrolled."""


class Plan(NamedTuple):
    """How products are split into blocks for a given number of states."""

    lanes: int
    """Number of pairs of models that are computed at once."""
    rows: int
    """Number of rows of a block of sums."""
    columns: int
    """Number of columns of a block of sums."""


def plan_of(n: int, machine: Machine = MACHINE) -> Plan:
    """Choose lanes and blocks for ``n`` states, so that sums, factors and one entry fit the registers.

    A block of r x c sums takes r + c loads and r c multiply-adds per term. A processor starts two of each per cycle,
    and needs eight independent sums to hide their latency. Models of few states use two vectors per number instead of
    several rows: their loops are short, and twice as many pairs share the overhead.
    """
    if n <= 4:
        return Plan(2 * machine.width, 1, n)

    def cost(rows: int, columns: int) -> float:
        blocks = itertools.product(_parts(n, rows), _parts(n, columns))
        return sum(max(r * c, r + c, 8) + 0.01 * (r + c) for r, c in blocks)

    # Sixteen sums keep both units busy; larger blocks are not faster and leave larger remainders. Every number of
    # rows up to that of a block is compiled, so fewer rows save seconds of compilation.
    sizes = [
        (rows, columns)
        for rows in (1, 2, 3, 4)
        for columns in range(1, n + 1)
        if rows * columns <= 16 and rows * columns + rows + 1 <= machine.registers
    ]
    return Plan(machine.width, *min(sizes, key=lambda size: cost(*size)))


def _parts(n: int, size: int) -> list[int]:
    return [min(size, n - first) for first in range(0, n, size)]


# ------------------------------------------------------------------ operations on vectors


def _emit_product(
    e: Emitter, n: int, plan: Plan, spread: bool, out: Value, psi: Value, x: Value, x_at: Value, y: Value, y_at: Value,
    m: Value, k: Value,
) -> None:  # fmt: skip
    """Emit out = psi o (x y): x is an (m, k) matrix of vectors, y a (k, n) matrix of vectors, or of scalars if spread.

    Without ``psi`` the product itself is stored. A block of columns is multiplied with all rows before the next block,
    so that its entries of y stay in the L1 cache.
    """
    b = e.builder
    lanes, rows, columns = plan
    unit = 1 if spread else lanes
    full = b.udiv(m, e.constant(rows))
    rest = b.sub(m, b.mul(full, e.constant(rows)))

    def block(d: Value, height: int, first: int, width: int) -> None:
        starts = [b.add(x_at, b.mul(b.mul(b.add(d, e.constant(r)), k), e.constant(lanes))) for r in range(height)]

        def terms(c: Value) -> list[Value]:
            factors = [e.load(x, e.offset(start, c, lanes)) for start in starts]
            values = []
            for a in range(first, first + width):
                place = b.add(y_at, e.offset(e.constant(a * unit), c, n * unit))
                entry = e.spread(y, place) if spread else e.load(y, place)
                values += [e.multiply(factor, entry) for factor in factors]
            return values

        sums = iter(e.loop_sums(height * width, k, terms))
        for a in range(first, first + width):
            for r in range(height):
                place = e.cell(b.add(d, e.constant(r)), n, a)
                value = next(sums)
                e.store(value if psi is None else e.multiply(value, e.load(psi, place)), out, place)

    for first in range(0, n, columns):
        width = min(columns, n - first)
        with cgutils.for_range(b, full) as loop:
            block(b.mul(loop.index, e.constant(rows)), rows, first, width)
        for height in range(1, rows):
            with b.if_then(b.icmp_unsigned("==", rest, e.constant(height))):
                block(b.sub(m, rest), height, first, width)


class Operations(NamedTuple):
    """The operations on tables of pairs for a given number of states of the left side."""

    leaf: Any
    start: Any
    step: Any
    total: Any
    scale: Any
    dot: Any


@functools.cache
def operations(n: int, plan: Plan) -> Operations:
    """Make the operations on tables of ``n`` states on the left side."""
    lanes = plan.lanes

    @vector_function(lanes)
    def leaf(e: Emitter, psi: Value, right: Value, j: Value, left: Value, i: Value, m: Value, k: Value) -> None:
        """Compute psi[b, a] = sum over s of right[j, b, s] left[i, s, a]."""
        _emit_product(e, n, plan, True, psi, None, right, j, left, i, m, k)

    @vector_function(lanes)
    def step(
        e: Emitter, new: Value, half: Value, phi: Value, psi: Value, left: Value, i: Value, right: Value,
        j: Value, m: Value
    ) -> None:  # fmt: skip
        """Compute new = psi o (left[i]^T phi^T right[j])^T."""
        _emit_product(e, n, plan, False, half, None, right, j, phi, e.constant(0), m, m)
        _emit_product(e, n, plan, True, new, psi, half, e.constant(0), left, i, m, e.constant(n))

    @vector_function(lanes)
    def start(e: Emitter, phi: Value, psi: Value, left: Value, i: Value, right: Value, j: Value, m: Value) -> None:
        """Compute phi[b, a] = psi[b, a] left[i, a] right[j, b]."""
        with cgutils.for_range(e.builder, m) as loop:
            weight = e.load(right, e.offset(j, loop.index, lanes))
            for a in range(n):
                both = e.multiply(weight, e.spread(left, e.builder.add(i, e.constant(a))))
                e.store(e.multiply(both, e.load(psi, e.cell(loop.index, n, a))), phi, e.cell(loop.index, n, a))

    def added(e: Emitter, m: Value, value: Callable[[Value], Value]) -> Value:
        """Sum ``value(cell)`` over the cells of all pairs of states, four sums at once."""

        def row(b: Value) -> list[Value]:
            values = [value(e.cell(b, n, a)) for a in range(n)]
            return [functools.reduce(e.add, values[k::4]) for k in range(min(n, 4))]

        return functools.reduce(e.add, e.loop_sums(min(n, 4), m, row))

    @vector_function(lanes)
    def total(e: Emitter, sums: Value, phi: Value, m: Value) -> None:
        """Compute sums = sum over a and b of phi[b, a]."""
        e.store(added(e, m, lambda cell: e.load(phi, cell)), sums, e.constant(0))

    @vector_function(lanes)
    def scale(e: Emitter, phi: Value, factors: Value, m: Value) -> None:
        """Multiply phi by the factors."""
        factor = e.load(factors, e.constant(0))
        with cgutils.for_range(e.builder, m) as loop:
            for a in range(n):
                place = e.cell(loop.index, n, a)
                e.store(e.multiply(factor, e.load(phi, place)), phi, place)

    @vector_function(lanes)
    def dot(e: Emitter, sums: Value, phi: Value, outer: Value, m: Value) -> None:
        """Add to sums the sum over a and b of phi[b, a] outer[b, a]."""
        more = added(e, m, lambda cell: e.multiply(e.load(phi, cell), e.load(outer, cell)))
        e.store(e.add(e.load(sums, e.constant(0)), more), sums, e.constant(0))

    return Operations(leaf, start, step, total, scale, dot)


# ------------------------------------------------------------------ models in lanes


@compiled
def gather(psi: Floats, row: int, n: int, first: int, m: int, table: Floats) -> None:
    """Arrange the leaf kernels of one model with several others in lanes; the last model fills the remaining lanes."""
    lanes = table.size // (n * m)
    last = psi.shape[1] // m - 1
    for lane in range(lanes):
        at = min(first + lane, last) * m
        for a in range(n):
            for b in range(m):
                table[(b * n + a) * lanes + lane] = psi[row + a, at + b]


def in_lanes(x: Floats, axes: tuple[int, ...], lanes: int) -> Floats:
    """Bring the models of the right side into lanes, as `to_lanes` does, flat."""
    return to_lanes(owned(x), axes, lanes).reshape(-1)
