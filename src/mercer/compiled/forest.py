"""Sums over the shared hidden states of two samples, in a chain or tree (MK-3, MK-4, MK-6).

Fast: one sample of the left side with several of the right side in SIMD lanes; all numbers of a pair stay in registers.
A message of S numbers is multiplied by the evidence of both sides, divided by a power of two near its largest entry,
and passed to the parent. Messages that wait for another branch of a tree are kept on a small stack. Several rows of the
left side are computed together to hide latency. Every pair has its own lane, so that its bits depend on the two samples
only.

Careful: one pair at a time, in the log domain.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

LANES = MACHINE.width
"""Number of samples of the right side in one vector."""
SMALLEST = 1e-300
"""If entries are watched, positive evidence is raised to this floor, and a product at the floor counts as lost."""
_LOG_SMALLEST = -695.0
"""Floor of relative log evidence, slightly below the logarithm of `SMALLEST`."""


def rows_at_once(states: int) -> int:
    """Return the number of rows of the left side that are computed together: eight message entries in all."""
    return max(1, min(4, 8 // states))


@functools.cache
def sweep(states: int, side: int, watched: bool, logarithms: bool) -> Any:
    """Compile the fast loop for a number of states and of rows at once.

    Parameters
    ----------
    states, side : int
        Numbers of hidden states, and of rows of the left side that are computed together.
    watched : bool
        Whether to detect positive entries that are lost by underflow.
    logarithms : bool
        Whether evidence is in the log domain. The sum of both sides is then scaled at every node, so that two samples
        whose evidence differs by more than the range of float64 stay in range.

    Returns
    -------
    callable
        Its last argument, of shape (3 or 4, R, C), receives for every pair the product of the sums, its exponent, the
        smallest intermediate number and, in the log domain, the logarithm to add.
    """
    histories = vector_function(LANES, states, side, watched, logarithms)(_histories)

    @compiled
    def loop(
        children: Floats, roots: Floats, waits: Floats, left: Floats, right: Floats, step: Floats, stride: int,
        root: Floats, floor: float, rows: Floats, groups: Floats, targets: Floats, columns: Floats, stack: Floats,
        places: Floats, record: Floats,
    ) -> None:  # pragma: no cover - compiled  # fmt: skip
        nodes = children.size
        size = nodes * states
        flat, plane, width = record.reshape(-1), record.shape[1] * record.shape[2], record.shape[2]
        for k in range(groups.size):
            for r in range(side):
                places[0, r] = rows[k, r] * size
                places[1, r] = targets[k, r] * width + columns[k] * LANES
            histories(
                children, roots, waits, nodes, left, places, right, groups[k] * size * LANES, step, stride, root,
                floor, stack, flat, plane,
            )  # fmt: skip

    return loop


def _histories(
    e: Emitter, states: int, side: int, watched: bool, logarithms: bool, children: Value, roots: Value, waits: Value,
    nodes: Value, left: Value, places: Value, right: Value, at: Value, step: Value, stride: Value, root: Value,
    floor: Value, stack: Value, record: Value, plane: Value,
) -> None:  # fmt: skip
    """Process all nodes of the forest, for several rows and one group of columns."""
    b, width = e.builder, states * LANES
    rows = [_Row(e, states, e.filled(floor) if watched else None) for _ in range(side)]
    own = [b.load(b.gep(places, [e.constant(k)])) for k in range(side)]
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
        place = b.load(b.gep(places, [e.constant(side + k)]))
        found = [b.load(row.total), b.sitofp(b.load(row.exponent), e.vector), b.load(row.low)]
        for what, value in enumerate([*found, b.load(row.shift)] if logarithms else found):
            e.store(value, record, b.add(place, b.mul(e.constant(what), plane)))


class _Row:
    """One sample of the left side and a group of the right: the current message, and the product of all sums."""

    def __init__(self, e: Emitter, states: int, floor: Value | None) -> None:
        b = e.builder
        self.e = e
        self.floor = floor
        self.cells = [cgutils.alloca_once_value(b, e.number(1.0)) for _ in range(states)]
        self.total = cgutils.alloca_once_value(b, e.number(1.0))
        self.low = cgutils.alloca_once_value(b, e.number(1.0))
        self.shift = cgutils.alloca_once_value(b, e.number(0.0))
        self.exponent = cgutils.alloca_once_value(b, e.word(0))

    def begin(self) -> None:
        """Start at a node without children."""
        for cell in self.cells:
            self.e.builder.store(self.e.number(1.0), cell)

    def product(self, x: Value, y: Value) -> Value:
        """Multiply; if entries are watched, positive values stay positive or are recorded as lost."""
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
        """Convert the log evidence of both sides to numbers relative to the best state, and add its logarithm."""
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
        """Pass the message to the parent, with as many sums at once as fit half of the registers."""
        e, b, states = self.e, self.e.builder, len(self.cells)
        message, passed = [b.load(cell) for cell in self.cells], []
        for first in range(0, states, MACHINE.registers // 2):
            sums: list[Value] = []
            for c, factor in enumerate(message):
                places = range(first, min(first + MACHINE.registers // 2, states))
                entries = (e.spread(step, b.add(edge, e.constant(c * states + a))) for a in places)
                terms = [e.multiply(factor, entry) for entry in entries]
                sums = [e.add(x, y) for x, y in zip(sums, terms, strict=True)] if c else terms
            passed += sums
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
        """Scale a number into [1, 2) by a power of two, and add up the exponent; zero stays zero."""
        b = self.e.builder
        factor, more = self.e.inverse_power(top)
        b.store(b.add(b.load(self.exponent), more), self.exponent)
        return factor


@compiled
def careful_pairs(
    children: Floats, roots: Floats, depth: int, step: Floats, root: Floats, left: Floats, right: Floats,
    rows: Floats, columns: Floats, out: Floats,
) -> None:  # pragma: no cover - compiled  # fmt: skip
    """Write the logarithms of given pairs; -inf if they are impossible.

    Parameters
    ----------
    children, roots, depth
        The forest: numbers of children and whether a node is a root, in the order of the stack; the stack size.
    step : ndarray of shape (V, S, S) or (1, S, S)
        Logarithms of the transitions, in the order of the stack.
    root : ndarray of shape (S,)
        Logarithms of the root probabilities.
    left, right : ndarray of shape (I, V, S) and (J, V, S)
        Logarithms of the evidence.
    rows, columns : ndarray of int of shape (K,)
        The pairs.
    out : ndarray of shape (K,)
        Output: the logarithms.
    """
    stack, message = np.empty((depth + 1, root.size)), np.empty(root.size)
    for k in range(rows.size):
        x, y = left[rows[k]], right[columns[k]]
        waiting, total = 0, 0.0
        for j in range(children.size):
            waiting -= children[j]
            for a in range(root.size):
                message[a] = x[j, a] + y[j, a]
                for child in range(children[j]):
                    message[a] += stack[waiting + child, a]
            top = message.max()  # messages are relative to their largest entry
            total += top
            if top == -np.inf:  # no state explains both samples
                break
            message -= top
            if roots[j]:
                total += _log_sum_exp(root, message)
                continue
            edge = step[j if step.shape[0] > 1 else 0]
            for a in range(root.size):
                stack[waiting, a] = _log_sum_exp(edge[a], message)
            waiting += 1
        out[k] = total


@compiled
def _log_sum_exp(weights: Floats, message: Floats) -> float:  # pragma: no cover - compiled
    top = -np.inf
    for b in range(weights.size):
        top = max(top, weights[b] + message[b])
    if top == -np.inf:
        return -np.inf
    total = 0.0
    for b in range(weights.size):
        total += math.exp(weights[b] + message[b] - top)
    return top + math.log(total)
