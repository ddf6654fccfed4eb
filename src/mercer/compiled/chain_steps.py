"""One step of coupled chains (PPK-4.2) in SIMD lanes: blocked products of matrices whose entries are vectors.

One model of the left side is compared with several of the right side at once, and every number of the recursion is a
vector with one lane per pair of models. Both products of a step, and the leaf kernels of categorical emissions, are
products of small matrices of such vectors. They are split into blocks whose sums fit the registers, so that a loaded
number is used in several sums (`Plan`). Tables of pairs are stored as [b][a][lane], where b is a state of the right
side.

Small numbers of states are compile-time constants, and loops over them are unrolled. Larger ones are loop bounds: code
is compiled for each of a few plans, not for each number of states.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.layout import owned, to_lanes
from mercer.compiled.machine import MACHINE, Machine

LITERAL = 4
"""Up to this number of states, it is a constant, and loops are unrolled."""
BLOCKS = ((4, 4), (3, 5), (2, 7), (2, 6), (2, 5), (3, 4), (2, 4))
"""Rows and columns of the blocks for more states; code is compiled for each."""


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
    if n <= LITERAL:
        return Plan(2 * machine.width, 1, n)

    def cost(block: tuple[int, int]) -> float:
        rows, columns = block
        full, rest = divmod(n, rows)
        high = (full + (rest > 1)) * (max(rows * columns, rows + columns, 8) + 0.01 * (rows + columns))
        return -(-n // columns) * (high + (rest == 1) * max(columns + 1, 8))

    fitting = [(r, c) for r, c in BLOCKS if c <= n and r * c + r + 1 <= machine.registers]
    return Plan(machine.width, *min(fitting, key=cost))


# ------------------------------------------------------------------ operations on vectors


class _Table:
    """Tables of pairs, [b][a][lane]: where their cells lie, and a loop over a."""

    def __init__(self, e: Emitter, n: int, states: Value, lanes: int) -> None:
        self.e = e
        self.n = n
        """Number of states of the left side; 0 where it is a loop bound."""
        self.states = e.constant(n) if n else states
        self.lanes = lanes

    def cell(self, b: Value, a: Value) -> Value:
        """Locate [b][a]."""
        builder = self.e.builder
        return builder.mul(builder.add(builder.mul(b, self.states), a), self.e.constant(self.lanes))

    def each(self, body: Callable[[Value], None]) -> None:
        """Emit ``body(a)`` for all states of the left side."""
        if self.n:
            for a in range(self.n):
                body(self.e.constant(a))
            return
        with cgutils.for_range(self.e.builder, self.states) as loop:
            body(loop.index)

    def sum(self, m: Value, value: Callable[[Value, Value], Value]) -> Value:
        """Add up ``value(b, a)`` over all cells: in every row four sums, of every fourth state each."""
        e, b, n = self.e, self.e.builder, self.n

        def row(first: Value) -> list[Value]:
            if n:
                values = [value(first, e.constant(a)) for a in range(n)]
                return [functools.reduce(e.add, values[k::4]) for k in range(min(n, 4))]
            fours = b.udiv(self.states, e.constant(4))
            done = b.mul(fours, e.constant(4))

            def terms(q: Value) -> list[Value]:
                return [value(first, b.add(b.mul(q, e.constant(4)), e.constant(k))) for k in range(4)]

            sums = e.loop_sums(4, fours, terms)
            for k in range(3):  # the rest; what lies beyond it may be read, and counts nothing
                a = b.add(done, e.constant(k))
                some = b.icmp_unsigned("<", a, self.states)
                sums[k] = e.add(sums[k], b.select(some, value(first, a), e.number(0.0)))
            return sums

        return functools.reduce(e.add, e.loop_sums(min(n, 4) if n else 4, m, row))


def _emit_product(
    table: _Table, plan: Plan, spread: bool, out: Value, psi: Value, x: Value, x_at: Value, y: Value, y_at: Value,
    m: Value, k: Value,
) -> None:  # fmt: skip
    """Emit out = psi o (x y): x is an (m, k) matrix of vectors, y a (k, n) matrix of vectors, or of scalars if spread.

    Without ``psi`` the product itself is stored. A block of columns is multiplied with all rows before the next block,
    so that its entries of y stay in the L1 cache. The last block overlaps the one before it if the sizes do not divide:
    computing some cells twice is cheaper than compiling code for every size of a remainder. A single remaining row is
    computed alone.
    """
    e, b = table.e, table.e.builder
    lanes, rows, columns = plan
    unit = e.constant(1 if spread else lanes)

    def block(d: Value, height: int, first: Value, width: int) -> None:
        starts = [b.add(x_at, b.mul(b.mul(b.add(d, e.constant(r)), k), e.constant(lanes))) for r in range(height)]

        def terms(c: Value) -> list[Value]:
            factors = [e.load(x, e.offset(start, c, lanes)) for start in starts]
            line = b.add(y_at, b.mul(b.add(b.mul(c, table.states), first), unit))
            values = []
            for a in range(width):
                place = b.add(line, b.mul(e.constant(a), unit))
                entry = e.spread(y, place) if spread else e.load(y, place)
                values += [e.multiply(factor, entry) for factor in factors]
            return values

        sums = iter(e.loop_sums(height * width, k, terms))
        for a in range(width):
            for r in range(height):
                place = table.cell(b.add(d, e.constant(r)), b.add(first, e.constant(a)))
                value = next(sums)
                e.store(value if psi is None else e.multiply(value, e.load(psi, place)), out, place)

    def all_rows(first: Value, width: int) -> None:
        done = e.constant(0)
        if rows > 1:
            height = e.constant(rows)
            full = b.udiv(m, height)
            rest = b.sub(m, b.mul(full, height))
            more = b.and_(b.icmp_unsigned(">", rest, e.constant(1)), b.icmp_unsigned(">", full, e.constant(0)))
            with cgutils.for_range(b, b.add(full, b.zext(more, e.integer))) as loop:
                start, last = b.mul(loop.index, height), b.sub(m, height)
                block(b.select(b.icmp_unsigned("<", start, last), start, last), rows, first, width)
            done = b.select(more, m, b.mul(full, height))
        with cgutils.for_range(b, b.sub(m, done)) as loop:
            block(b.add(done, loop.index), 1, first, width)

    if table.n:
        for first in range(0, table.n, columns):
            all_rows(e.constant(first), min(columns, table.n - first))
        return
    width = e.constant(columns)
    count = b.udiv(b.add(table.states, e.constant(columns - 1)), width)
    with cgutils.for_range(b, count) as loop:
        start, last = b.mul(loop.index, width), b.sub(table.states, width)
        all_rows(b.select(b.icmp_unsigned("<", start, last), start, last), columns)


class Operations(NamedTuple):
    """The operations on tables of pairs; the first argument of each is the number of states of the left side."""

    leaf: Any
    start: Any
    step: Any
    total: Any
    scale: Any
    dot: Any


@functools.cache
def operations(known: int, plan: Plan) -> Operations:
    """Make the operations on tables of ``known`` states on the left side, 0 if the number is a loop bound."""
    lanes = plan.lanes

    @vector_function(lanes)
    def leaf(
        e: Emitter, n: Value, psi: Value, right: Value, j: Value, left: Value, i: Value, m: Value, k: Value
    ) -> None:
        """Compute psi[b, a] = sum over s of right[j, b, s] left[i, s, a]."""
        _emit_product(_Table(e, known, n, lanes), plan, True, psi, None, right, j, left, i, m, k)

    @vector_function(lanes)
    def step(
        e: Emitter, n: Value, new: Value, half: Value, phi: Value, psi: Value, left: Value, i: Value, right: Value,
        j: Value, m: Value,
    ) -> None:  # fmt: skip
        """Compute new = psi o (left[i]^T phi^T right[j])^T."""
        table = _Table(e, known, n, lanes)
        _emit_product(table, plan, False, half, None, right, j, phi, e.constant(0), m, m)
        _emit_product(table, plan, True, new, psi, half, e.constant(0), left, i, m, table.states)

    @vector_function(lanes)
    def start(
        e: Emitter, n: Value, phi: Value, psi: Value, left: Value, i: Value, right: Value, j: Value, m: Value
    ) -> None:
        """Compute phi[b, a] = psi[b, a] left[i, a] right[j, b]."""
        table = _Table(e, known, n, lanes)
        with cgutils.for_range(e.builder, m) as loop:
            weight = e.load(right, e.offset(j, loop.index, lanes))

            def begin(a: Value) -> None:
                both = e.multiply(weight, e.spread(left, e.builder.add(i, a)))
                place = table.cell(loop.index, a)
                e.store(e.multiply(both, e.load(psi, place)), phi, place)

            table.each(begin)

    @vector_function(lanes)
    def total(e: Emitter, n: Value, sums: Value, phi: Value, m: Value) -> None:
        """Compute sums = sum over a and b of phi[b, a]."""
        table = _Table(e, known, n, lanes)
        e.store(table.sum(m, lambda b, a: e.load(phi, table.cell(b, a))), sums, e.constant(0))

    @vector_function(lanes)
    def scale(e: Emitter, n: Value, phi: Value, factors: Value, m: Value) -> None:
        """Multiply phi by the factors."""
        table, factor = _Table(e, known, n, lanes), e.load(factors, e.constant(0))
        with cgutils.for_range(e.builder, m) as loop:

            def times(a: Value) -> None:
                place = table.cell(loop.index, a)
                e.store(e.multiply(factor, e.load(phi, place)), phi, place)

            table.each(times)

    @vector_function(lanes)
    def dot(e: Emitter, n: Value, sums: Value, phi: Value, outer: Value, m: Value) -> None:
        """Add to sums the sum over a and b of phi[b, a] outer[b, a]."""
        table = _Table(e, known, n, lanes)

        def value(b: Value, a: Value) -> Value:
            return e.multiply(e.load(phi, table.cell(b, a)), e.load(outer, table.cell(b, a)))

        e.store(e.add(e.load(sums, e.constant(0)), table.sum(m, value)), sums, e.constant(0))

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
