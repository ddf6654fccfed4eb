"""Shared histories of few states: one datum of the left side meets eight of the right side in vector lanes.

All of a pair stays in registers: the evidence of both sides goes in, a message of S numbers is multiplied, divided by a
power of two near its largest entry, and passed to the parent. Messages that wait for another branch of a tree go to a
small stack. Several rows of the left side go side by side, because one alone waits for its own results most of the
time. Every pair has a lane of its own, so that its bits depend on the two data alone.

`mercer.models._history.sweeps` calls these loops, and is imported when it is needed.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["FOUND", "SMALLEST", "block_sweep", "tile_sweep"]

SMALLEST = 1e-300
"""Evidence that is possible is raised to it where entries are watched, and a product that falls to it is lost."""
_LOG_SMALLEST = -695.0
"""Relative log evidence is raised to it: a little below the logarithm of `SMALLEST`."""
_EXPONENT = 0x7FF << 52
_WATCHED, _LOGARITHMS = 10_000, 100_000
"""Added to a form of states + 100 rows: entries are watched, evidence comes as logarithms."""
FOUND = 4
"""Numbers of a pair: product of the sums, its exponent, the smallest number on the way, and a logarithm to be added."""


@functools.cache
def tile_sweep(states: int, side: int, watched: bool) -> Any:
    """Compile the loops over the groups and rows of a tile for a number of states, ``side`` rows at once."""
    form = states + 100 * side + _WATCHED * watched

    @compiled
    def sweep(
        children: Floats, roots: Floats, waits: Floats, left: Floats, right: Floats, step: Floats, stride: int,
        root: Floats, floor: float, own: bool, data: int, stack: Floats, bases: Floats, found: Floats, record: Floats,
    ) -> None:  # pragma: no cover - compiled  # fmt: skip
        nodes = children.size
        size = nodes * states
        for group in range(record.shape[2] // LANES):
            first = group * LANES if own else 0
            count = min(LANES, data - first) if own else data
            for i in range(0, count, side):
                for k in range(side):
                    bases[k] = (first + min(i + k, count - 1)) * size
                _histories(
                    form, children, roots, waits, nodes, left, bases, right, group * size * LANES, step, stride,
                    root, floor, stack, found,
                )  # fmt: skip
                for k in range(min(side, count - i)):
                    for what in range(record.shape[0]):
                        at = (what * side + k) * LANES
                        for lane in range(LANES):
                            record[what, i + k, group * LANES + lane] = found[at + lane]

    return sweep


@functools.cache
def block_sweep(states: int, watched: bool) -> Any:
    """Compile the loop over some rows, each with a group, whose evidence comes as logarithms."""
    form = states + 100 + _WATCHED * watched + _LOGARITHMS

    @compiled
    def sweep(
        children: Floats, roots: Floats, waits: Floats, left: Floats, right: Floats, step: Floats, stride: int,
        root: Floats, floor: float, rows: Floats, groups: Floats, stack: Floats, bases: Floats, found: Floats,
        record: Floats,
    ) -> None:  # pragma: no cover - compiled  # fmt: skip
        nodes = children.size
        size = nodes * states
        for k in range(rows.size):
            bases[0] = rows[k] * size
            _histories(
                form, children, roots, waits, nodes, left, bases, right, groups[k] * size * LANES, step, stride,
                root, floor, stack, found,
            )  # fmt: skip
            for what in range(record.shape[0]):
                for lane in range(LANES):
                    record[what, k, lane] = found[what * LANES + lane]

    return sweep


@intrinsic(prefer_literal=True)
def _histories(
    typing: Any, form: Any, children: Any, roots: Any, waits: Any, nodes: Any, left: Any, bases: Any, right: Any,
    at: Any, step: Any, stride: Any, root: Any, floor: Any, stack: Any, found: Any,
) -> Any:  # fmt: skip
    """Go through all nodes of the forest, for some rows and eight columns."""
    kinds = (children, roots, waits, nodes, left, bases, right, at, step, stride, root, floor, stack, found)
    return operation(form, kinds, _emit)


def _emit(
    e: Emitter, form: int, children: Value, roots: Value, waits: Value, nodes: Value, left: Value, bases: Value,
    right: Value, at: Value, step: Value, stride: Value, root: Value, floor: Value, stack: Value, found: Value,
) -> None:  # fmt: skip
    states, side, watched, logarithms = form % 100, form // 100 % 100, form // _WATCHED % 10 > 0, form >= _LOGARITHMS
    b, width = e.builder, form % 100 * LANES
    rows = [_Row(e, states, e.filled(floor) if watched else None) for _ in range(side)]
    own = [b.load(b.gep(bases, [e.constant(k)])) for k in range(side)]
    waiting = cgutils.alloca_once_value(b, e.constant(0))

    def flag(array: Value, j: Value) -> Value:
        return b.icmp_signed("!=", b.load(b.gep(array, [j])), e.constant(0))

    with cgutils.for_range(b, nodes) as loop:
        j = loop.index
        with b.if_then(flag(waits, j), likely=False):
            place = e.offset(e.constant(0), b.load(waiting), side * width)
            for k, row in enumerate(rows):
                for a, cell in enumerate(row.cells):
                    e.store(b.load(cell), stack, b.add(place, e.constant(k * width + a * LANES)))
            b.store(b.add(b.load(waiting), e.constant(1)), waiting)
        kids = b.load(b.gep(children, [j]))
        with b.if_then(b.icmp_signed("==", kids, e.constant(0)), likely=False):
            for row in rows:
                row.begin()
        with cgutils.for_range(b, b.sub(kids, e.constant(1))):
            b.store(b.sub(b.load(waiting), e.constant(1)), waiting)
            place = e.offset(e.constant(0), b.load(waiting), side * width)
            for k, row in enumerate(rows):
                for a, cell in enumerate(row.cells):
                    other = e.load(stack, b.add(place, e.constant(k * width + a * LANES)))
                    b.store(row.product(b.load(cell), other), cell)
        shown = [e.load(right, e.offset(at, j, width, a * LANES)) for a in range(states)]
        for k, row in enumerate(rows):
            mine = [e.spread(left, e.offset(own[k], j, states, a)) for a in range(states)]
            row.meet(
                row.likelihoods(shown, mine)
                if logarithms
                else [row.product(x, y) for x, y in zip(shown, mine, strict=True)]
            )
        edge = b.mul(j, stride)
        with b.if_else(flag(roots, j), likely=False) as (is_root, is_inner):
            with is_root:
                for row in rows:
                    row.end([e.spread(root, e.constant(a)) for a in range(states)])
            with is_inner:
                for row in rows:
                    row.climb(step, edge)
    for k, row in enumerate(rows):
        exponent = b.sitofp(b.load(row.exponent), e.vector)
        for what, value in enumerate((b.load(row.total), exponent, b.load(row.low), b.load(row.shift))):
            e.store(value, found, e.constant((what * side + k) * LANES))


class _Row:
    """One datum of the left side beside eight of the right side: the message in its cells, the product of all sums."""

    def __init__(self, e: Emitter, states: int, floor: Value | None) -> None:
        b = e.builder
        self.e = e
        self.floor = floor
        self.integers = ir.VectorType(e.integer, LANES)
        self.cells = [cgutils.alloca_once_value(b, e.number(1.0)) for _ in range(states)]
        self.total = cgutils.alloca_once_value(b, e.number(1.0))
        self.low = cgutils.alloca_once_value(b, e.number(1.0))
        self.shift = cgutils.alloca_once_value(b, e.number(0.0))
        self.exponent = cgutils.alloca_once_value(b, ir.Constant(self.integers, [0] * LANES))

    def begin(self) -> None:
        """Start at a node without children."""
        for cell in self.cells:
            self.e.builder.store(self.e.number(1.0), cell)

    def product(self, x: Value, y: Value) -> Value:
        """Multiply; where entries are watched, what is possible stays above zero, or is found lost."""
        e, b = self.e, self.e.builder
        value = e.multiply(x, y)
        if self.floor is None:
            return value
        zero, smallest = e.number(0.0), e.number(SMALLEST)
        possible = b.and_(b.fcmp_ordered(">", x, zero), b.fcmp_ordered(">", y, zero))
        lost = b.and_(possible, b.fcmp_ordered("<=", value, smallest))
        b.store(b.select(lost, zero, b.load(self.low)), self.low)
        return b.select(lost, smallest, value)

    def likelihoods(self, shown: list[Value], mine: list[Value]) -> list[Value]:
        """Turn the log evidence of both sides into numbers relative to the best state, and count its logarithm."""
        e, b = self.e, self.e.builder
        nowhere = e.number(float("-inf"))
        logs = [b.fadd(x, y) for x, y in zip(shown, mine, strict=True)]
        top = functools.reduce(e.larger, logs)
        top = e.where(top, "==", nowhere, e.number(0.0), top)
        b.store(b.fadd(b.load(self.shift), top), self.shift)
        values = []
        for log in logs:
            relative = b.fsub(log, top)
            value = e.exponential(e.at_least(relative, _LOG_SMALLEST))
            values.append(e.where(relative, "==", nowhere, e.number(0.0), value))
        return values

    def meet(self, likelihoods: list[Value]) -> None:
        """Multiply the message by the evidence of both sides, and divide it by a power of two."""
        e, b = self.e, self.e.builder
        values = [self.product(x, b.load(cell)) for x, cell in zip(likelihoods, self.cells, strict=True)]
        top = functools.reduce(e.larger, values)
        factor = self._factor(top)
        values = [e.multiply(value, factor) for value in values]
        if self.floor is None:
            self._lower(top)
        else:
            zero, one = e.number(0.0), e.number(1.0)
            for k, value in enumerate(values):
                self._lower(e.where(value, ">", zero, value, one))
                values[k] = e.where(value, ">", zero, e.larger(value, self.floor), zero)
        for value, cell in zip(values, self.cells, strict=True):
            b.store(value, cell)

    def climb(self, step: Value, edge: Value) -> None:
        """Pass the message to the parent."""
        b = self.e.builder
        passed = self.e.products([b.load(cell) for cell in self.cells], step, edge)
        for value, cell in zip(passed, self.cells, strict=True):
            b.store(value, cell)

    def end(self, root: list[Value]) -> None:
        """Multiply the result by the sum over the states of a root."""
        e, b = self.e, self.e.builder
        terms = [e.multiply(p, b.load(cell)) for p, cell in zip(root, self.cells, strict=True)]
        total = functools.reduce(e.add, terms)
        if self.floor is None:
            self._lower(total)
        total = e.multiply(total, b.load(self.total))
        b.store(e.multiply(total, self._factor(total)), self.total)

    def _lower(self, value: Value) -> None:
        b, low = self.e.builder, self.e.builder.load(self.low)
        b.store(self.e.where(value, "<", low, value, low), self.low)

    def _factor(self, top: Value) -> Value:
        """Find the power of two that brings a number into [1, 2), and count its exponent; zero stays zero."""
        b = self.e.builder
        bits = b.and_(b.bitcast(top, self.integers), ir.Constant(self.integers, [_EXPONENT] * LANES))
        more = b.lshr(bits, ir.Constant(self.integers, [52] * LANES))
        b.store(b.add(b.load(self.exponent), more), self.exponent)
        return b.bitcast(b.sub(ir.Constant(self.integers, [2046 << 52] * LANES), bits), self.e.vector)
