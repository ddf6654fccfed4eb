"""The cell of the general pair recursion, written once for all kinds of numbers and lanes (MK-5).

A cell (i, j) contains the weights S(i, j) of entering every state after i symbols of s and j of t are emitted. With G
the weights of having visited the state, E the emissions and eps the probability of emitting nothing,

    G(i, j) = S(i-1, j) o E[s_i] o eps + S(i, j-1) o eps o E[t_j] + S(i-1, j-1) o E[s_i] o E[t_j],    S = G W.

Every lane has one pair of strings. Swapping s and t swaps two addends, and does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable

from mercer.compiled.lanes import Value
from mercer.compiled.pairs_numbers import Cell, Number, Scaled


class Strings:
    """Emissions at one position of both strings: arrays [position][state][lane], and the offset of the position."""

    def __init__(self, e: Scaled, left: Value, s: Value, right: Value, t: Value, silent: Value) -> None:
        self.e, self.left, self.s, self.right, self.t, self.silent = e, left, s, right, t, silent

    def ways(self, weight: Callable[[int, Value], Number], a: Value) -> tuple[Number, Number, Number]:
        """Compute the weights of the three kinds of visits to state ``a``: a symbol for s, for t, or for both."""
        e = self.e
        here, there = e.read(e.load(self.left, e.at(self.s, a))), e.read(e.load(self.right, e.at(self.t, a)))
        nothing = e.read(e.spread(self.silent, a))
        return (
            e.times(weight(0, a), e.times(here, nothing)),
            e.times(weight(1, a), e.times(there, nothing)),
            e.times(weight(2, a), e.times(here, there)),
        )


def forward(
    e: Scaled, n: int, cells: list[Cell], strings: Strings, step: Value, new: Cell, been: Cell | None = None,
    record: Value | None = None,
) -> None:  # fmt: skip
    """Compute S of a new cell from the cells (i-1, j), (i, j-1) and (i-1, j-1); keep G in ``been``.

    ``record`` contains the smallest weight, or -1 if a result is doubtful.
    """
    low = None if record is None else e.variable((e.load(record, e.constant(0)), *e.zero[1:]))
    weight, top = e.together(n, cells, low)
    visited, entered = e.room(n), e.room(n)

    def visit(a: Value) -> None:
        up, beside, across = strings.ways(weight, a)
        e.put(visited, a, e.plus(e.plus(up, beside), across))

    e.each(n, visit)
    if been is not None:
        e.keep_cell(n, visited, top, been)
    e.product(n, visited, step, lambda a, c: e.builder.add(e.builder.mul(a, e.constant(n)), c), entered)
    e.store_cell(n, entered, top, new, low)
    if low is not None and record is not None:
        e.store(e.get(low, e.constant(0))[0], record, e.constant(0))


def backward(
    e: Scaled, n: int, cells: list[Cell], strings: Strings, step: Value, new: Cell, rows: Value, been: Value, at: Value,
    ends: Value, sums: Value, column: Value, entry: Value,
) -> None:  # fmt: skip
    """Compute backward weights of a visit from the cells (i+1, j), (i, j+1) and (i+1, j+1), and add expected counts.

    S and G of the cell are at ``at`` of ``rows`` and ``been``; ``ends`` contains 1 / kappa and its exponent. ``sums``
    has vectors of: visits that emit one symbol (n), symbols of s in this row (n), moves (n n); ``column`` the symbols
    of t. ``entry`` receives the backward weights of an entry (n), its exponent, and the probability of a match.
    """
    b, first = e.builder, e.constant(0)
    weight, top = e.together(n, cells)
    inverse, whole = e.load(ends, first), e.load(ends, e.constant(e.lanes))

    def relative(array: Value) -> Value:
        """Return the factor of the posteriors of a cell."""
        total = b.fsub(b.fadd(e.load(array, e.at(at, e.constant(n))), top), whole)
        total = e.where(total, ">", e.number(1000.0), e.number(1000.0), total)
        return b.fmul(e.power(total), inverse)

    def add(array: Value, place: Value, x: Value, y: Value) -> None:
        e.store(e.add(e.load(array, place), e.multiply(x, y)), array, place)

    scale, gone = relative(rows), relative(been)
    follows, back, matched = e.room(n), e.room(n), e.variable(e.zero)

    def visit(a: Value) -> None:
        (up,), (beside,), (across,) = strings.ways(weight, a)
        total = b.fadd(b.fadd(up, beside), across)
        e.put(follows, a, (total,))
        e.store(total, entry, e.at(first, a))
        share = b.fmul(e.load(rows, e.at(at, a)), scale)
        add(sums, e.at(first, a), share, b.fadd(up, beside))
        add(sums, e.at(e.constant(n * e.lanes), a), share, b.fadd(up, across))
        add(column, e.at(strings.t, a), share, b.fadd(beside, across))
        e.put(matched, first, e.accumulate(e.get(matched, first), (share,), (across,)))

    def move(i: Value) -> None:
        source = b.fmul(e.load(been, e.at(at, i)), gone)
        row = e.at(e.constant(2 * n * e.lanes), b.mul(i, e.constant(n)))
        e.each(n, lambda a: add(sums, e.at(row, a), source, e.get(follows, a)[0]))

    e.each(n, visit)
    e.store(top, entry, e.at(first, e.constant(n)))
    e.store(e.get(matched, first)[0], entry, e.at(first, e.constant(n + 1)))
    e.each(n, move)
    e.product(n, follows, step, lambda a, i: b.add(b.mul(i, e.constant(n)), a), back)
    e.store_cell(n, back, top, new)
