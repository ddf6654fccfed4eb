r"""The cell of the product of two profile HMMs, written once for all kinds of numbers (PPK-4.2d).

A profile is a sequence of nodes with a match, an insert and a silent delete state each. A path enters at the match
state of a node and leaves from one, with some weight: begin and end are nodes that emit a symbol of their own. All
paths through a pair of profiles p, q that emit the same symbols are summed over cells (i, j), pairs of nodes. A cell
has the weights of all pairs of paths up to

    F_XY   a symbol that state X of node i and state Y of node j emit together, X and Y in {M, I}
    D_Y    p at the delete state of node i, q still at the state Y of node j that emitted last
    A_Y    the same, p having chosen the match state of node i as the next that emits; B_Y: its insert state
    E_X    p having chosen state X of node i, q at the delete state of node j

With t the transitions of p, u of q (into a node from the previous one: mm, im, dm, md, dd; at a node: mi, ii), "enter"
the product of the weights to enter, and psi the products of the emissions, summed over symbols:

    D_Y(i,j)  = t_md F_MY(i-1,j) + t_dd D_Y(i-1,j)
    A_Y(i,j)  = t_mm F_MY(i-1,j) + t_im F_IY(i-1,j) + t_dm D_Y(i-1,j)
    B_Y(i,j)  = t_mi F_MY(i,j) + t_ii F_IY(i,j)
    E_M(i,j)  = u_md A_M(i,j-1) + u_dd E_M(i,j-1),    E_I(i,j) = u_md B_M(i,j-1) + u_dd E_I(i,j-1)
    F_MM(i,j) = psi_MM (u_mm A_M(i,j-1) + u_im A_I(i,j-1) + u_dm E_M(i,j-1) + enter(i,j))
    F_IM(i,j) = psi_IM (u_mm B_M(i,j-1) + u_im B_I(i,j-1) + u_dm E_I(i,j-1))
    F_MI(i,j) = psi_MI (u_mi A_M(i,j) + u_ii A_I(i,j))
    F_II(i,j) = psi_II (u_mi B_M(i,j) + u_ii B_I(i,j))

The product is the sum of F_MM(i,j) times the weights to leave.

Each pair of paths is counted once. Cut it after every common symbol: between two symbols p takes a run of silent moves
and then its next emitting state, and so does q, independently of each other. The weight of the pair of paths is the
product over the cuts of (run of p) (run of q), and the recursion takes the run of p first (D, A, B, while q waits) and
that of q then (E, F, while the choice of p is fixed). So the order of the silent moves of the two, which is not part of
the pair of paths, is the same for all of them.

All cells depend on cells to the left and above, except that F_II depends on itself, by B_I: a geometric series,

    F_II = psi_II / (1 - psi_II t_ii u_ii) (u_mi B_M + u_ii t_mi F_MI).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer.compiled.lanes import Value, vector_function
from mercer.compiled.pairs_numbers import ZERO_EXPONENT, Number, Ranged, Scaled
from mercer.compiled.ranged import INVERSE

FAR = -100.0
"""Exponents of neighboring tiles that differ by more than this make a result doubtful."""
TRANSITIONS = 9
"""Numbers of a node: mm, im, dm, md, dd into it, mi, ii, and the weights to enter and to leave."""
ENTER = 7
STATE, EDGE, PRODUCTS = 6, 6, 4
"""Numbers per column, per row and per cell."""


class _Floats(Scaled):
    """Numbers in arrays: [number][part][lane], or [number][part] for the same number in all lanes."""

    def fetch(self, array: Value, index: Value) -> Number:
        """Load a number."""
        return tuple(self.load(array, self._place(index, part, self.lanes)) for part in range(self.parts))

    def same(self, array: Value, index: Value) -> Number:
        """Load one number into all lanes."""
        return tuple(self.spread(array, self._place(index, part, 1)) for part in range(self.parts))

    def keep(self, number: Number, array: Value, index: Value) -> None:
        """Store a number."""
        for part, value in enumerate(number):
            self.store(value, array, self._place(index, part, self.lanes))

    def _place(self, index: Value, part: int, width: int) -> Value:
        return self.offset(self.constant(part * width), index, self.parts * width)

    def sum_of(self, *terms: tuple[Number, Number]) -> Number:
        """Sum products of two numbers."""
        total = self.times(*terms[0])
        for x, y in terms[1:]:
            total = self.accumulate(total, x, y)
        return total

    def looped(self, psi: Number, stay: Number) -> Number:
        """Compute psi / (1 - psi stay), the sum over all lengths of a common insertion; infinite if it diverges."""
        b, one = self.builder, self.number(1.0)
        again = self.as_float(self.times(psi, stay))
        rest = self.where(again, "<", one, b.fsub(one, again), self.number(0.0))
        return (b.fdiv(psi[0], rest), *psi[1:])

    def as_float(self, x: Number) -> Value:
        """Convert to floats."""
        return x[0]

    def times_loop(self, x: Number, loop: Number) -> Number:
        """Multiply by a loop: NaN if it is infinite and x is zero, so that the pair is computed again."""
        return self.times(x, loop)


class _Unlimited(_Floats, Ranged):
    """The same for numbers with an exponent each."""

    def as_float(self, x: Number) -> Value:
        """Convert to floats; zero or infinity if a number is out of range."""
        b, zero = self.builder, self.number(0.0)
        value = self.where(x[1], "==", zero, x[0], zero)
        value = self.where(x[1], "==", self.number(-1.0), b.fmul(x[0], self.number(INVERSE)), value)
        return self.where(x[1], ">", zero, self.number(np.inf), value)

    def times_loop(self, x: Number, loop: Number) -> Number:
        """Multiply by a loop, which may be infinite; zero stays zero."""
        none = self.builder.fcmp_ordered("==", x[0], self.number(0.0))
        found = zip(self.zero, self.times(x, loop), strict=True)
        return tuple(self.builder.select(none, zero, value) for zero, value in found)


@functools.cache
def emission_products(lanes: int, rows: int, columns: int, ranged: bool) -> Any:
    """Return the function that computes the inner products of some vectors of both profiles.

    Vectors have numbers ``row``, ``row + stride``, ... on the left side, and so on the right side, where numbers are in
    lanes. The product of the r-th and the c-th is written to ``place + r * down + c * across``.
    """

    @vector_function(lanes, emitter=_Unlimited if ranged else _Floats)
    def products(
        e: Any, psi: Value, place: Value, down: Value, across: Value, left: Value, row: Value, stride: Value,
        right: Value, column: Value, skip: Value, letters: Value,
    ) -> None:  # fmt: skip
        b, zero = e.builder, e.constant(0)
        starts = [b.mul(b.add(row, b.mul(e.constant(r), stride)), letters) for r in range(rows)]
        others = [b.mul(b.add(column, b.mul(e.constant(c), skip)), letters) for c in range(columns)]
        sums = [[e.variable(e.zero) for _ in others] for _ in starts]
        with cgutils.for_range(b, letters) as loop:
            theirs = [e.fetch(right, b.add(other, loop.index)) for other in others]
            for start, line in zip(starts, sums, strict=True):
                mine = e.same(left, b.add(start, loop.index))
                for total, number in zip(line, theirs, strict=True):
                    e.put(total, zero, e.accumulate(e.get(total, zero), mine, number))
        for r, line in enumerate(sums):
            for c, total in enumerate(line):
                at = b.add(place, b.add(b.mul(e.constant(r), down), b.mul(e.constant(c), across)))
                e.keep(e.get(total, zero), psi, at)

    return products


def _aligned(
    e: Any, numbers: int, state: Value, marks: Value, group: Value, record: Value, entry: Value
) -> tuple[Value, list[Value]]:
    """Choose the exponent of a tile; return it, and the factors of the strip, of its edge and of entries.

    ``marks`` contains, for every group, the exponent of the edge and the largest of its numbers; ``entry`` is the
    largest weight to enter.
    """
    b, first = e.builder, e.constant(0)
    at = b.mul(group, e.constant(2))
    own = e.fetch(state, e.constant(numbers))[0]
    exponents = [own, e.fetch(marks, at)[0], e.number(0.0)]
    tops = [e.number(0.0), e.fetch(marks, b.add(at, e.constant(1)))[0], entry]
    for k in range(numbers):
        tops[0] = e.larger(e.fetch(state, e.constant(k))[0], tops[0])
    highest = e.number(ZERO_EXPONENT)
    for exponent, top in zip(exponents, tops, strict=True):
        height = b.fadd(exponent, e.split(top)[1])
        highest = e.where(top, ">", e.number(0.0), e.larger(height, highest), highest)
    now = e.where(highest, ">", e.number(ZERO_EXPONENT), highest, own)
    low, factors = e.load(record, first), []
    for exponent, top in zip(exponents, tops, strict=True):
        distance = b.fsub(exponent, now)
        far = e.where(distance, "<", e.number(FAR), e.number(-1.0), low)
        low = e.where(top, ">", e.number(0.0), far, low)
        factors.append(e.power(e.smaller(distance, e.number(1000.0))))
    e.store(low, record, first)
    e.keep((now,), state, e.constant(numbers))
    e.keep((now,), marks, at)
    return now, factors


def _add_to_total(e: Any, total: Value, found: Value, now: Value) -> None:
    """Add a positive number at exponent ``now`` to a total and its exponent."""
    b = e.builder
    old, exponent = e.fetch(total, e.constant(0))[0], e.fetch(total, e.constant(1))[0]
    highest = e.where(old, ">", e.number(0.0), e.larger(exponent, now), now)
    parts = [b.fmul(x, e.power(b.fsub(k, highest))) for x, k in ((old, exponent), (found, now))]
    some = b.fcmp_unordered("!=", found, e.number(0.0))
    e.keep((b.select(some, b.fadd(*parts), old),), total, e.constant(0))
    e.keep((b.select(some, highest, exponent),), total, e.constant(1))


def _cell(
    e: Any, t: list[Number], u: list[Number], psi: list[Number], above: list[Number], edge: list[Number]
) -> tuple[list[Number], list[Number]]:
    """Compute the numbers of a cell: F_MM, F_IM, F_MI, F_II, D_M, D_I and A_M, A_I, B_M, B_I, E_M, E_I.

    ``above`` contains the first six of (i-1, j), ``edge`` the others of (i, j-1).
    """
    mm, im, dm, md, dd, mi, ii, enter = t
    other_mm, other_im, other_dm, other_md, other_dd, other_mi, other_ii, other_enter = u
    psi_mm, psi_im, psi_mi, psi_ii = psi
    f_mm, f_im, f_mi, f_ii, d_m, d_i = above
    a_m, a_i, b_m, b_i, e_m, e_i = edge

    new_mm = e.times(psi_mm, e.sum_of((other_mm, a_m), (other_im, a_i), (other_dm, e_m), (other_enter, enter)))
    new_im = e.times(psi_im, e.sum_of((other_mm, b_m), (other_im, b_i), (other_dm, e_i)))
    new_em, new_ei = e.sum_of((other_md, a_m), (other_dd, e_m)), e.sum_of((other_md, b_m), (other_dd, e_i))
    new_am = e.sum_of((mm, f_mm), (im, f_im), (dm, d_m))
    new_ai = e.sum_of((mm, f_mi), (im, f_ii), (dm, d_i))
    new_dm, new_di = e.sum_of((md, f_mm), (dd, d_m)), e.sum_of((md, f_mi), (dd, d_i))
    new_mi = e.times(psi_mi, e.sum_of((other_mi, new_am), (other_ii, new_ai)))
    new_bm = e.sum_of((mi, new_mm), (ii, new_im))
    entered = e.times(mi, new_mi)
    into = e.sum_of((other_mi, new_bm), (other_ii, entered))
    new_ii = e.times_loop(into, e.looped(psi_ii, e.times(ii, other_ii)))
    new_bi = e.accumulate(entered, ii, new_ii)
    return [new_mm, new_im, new_mi, new_ii, new_dm, new_di], [new_am, new_ai, new_bm, new_bi, new_em, new_ei]


@functools.cache
def tile_function(lanes: int, strip: int, ranged: bool) -> Any:
    """Return the function that processes a group of rows of a strip of columns.

    ``state`` contains six numbers per column and the exponent of the strip, ``edge`` six numbers per row: those of the
    strip to the left, which are overwritten. ``places`` contains where the four products of the first cell are in
    ``psi``, and the steps to those of the next row and of the next column.
    """
    numbers = STATE * strip

    @vector_function(lanes, emitter=_Unlimited if ranged else _Floats)
    def tile(
        e: Any, state: Value, edge: Value, first: Value, rows: Value, psi: Value, places: Value, left: Value,
        base: Value, entry: Value, right: Value, column: Value, marks: Value, group: Value, record: Value,
        total: Value,
    ) -> None:  # fmt: skip
        b, zero = e.builder, e.constant(0)
        others = [b.mul(b.add(column, e.constant(c)), e.constant(TRANSITIONS)) for c in range(strip)]
        start, now, factors = e.zero, None, [None] * 3
        if ranged:
            start = e.fetch(total, zero)
        else:
            largest = e.number(0.0)
            for there in others:
                largest = e.larger(e.fetch(right, b.add(there, e.constant(ENTER)))[0], largest)
            now, factors = _aligned(e, numbers, state, marks, group, record, b.fmul(e.filled(entry), largest))

        def scaled(x: Number, factor: Value) -> Number:
            return x if ranged else (b.fmul(x[0], factor),)

        own, theirs, entered = factors
        cells = [e.variable(scaled(e.fetch(state, e.constant(k)), own)) for k in range(numbers)]
        low, top = e.variable((e.load(record, zero), *e.zero[1:])), e.variable(e.zero)
        found = e.variable(start)
        numbers_of = [b.load(b.gep(places, [e.constant(k)])) for k in range(3 * PRODUCTS)]
        place, down, across = (numbers_of[k * PRODUCTS : (k + 1) * PRODUCTS] for k in range(3))
        with cgutils.for_range(b, rows) as loop:
            i = b.add(first, loop.index)
            node = b.mul(b.add(base, i), e.constant(TRANSITIONS))
            *t, enter, leave = (e.same(left, b.add(node, e.constant(k))) for k in range(TRANSITIONS))
            t.append(scaled(enter, entered))
            at = b.mul(i, e.constant(EDGE))
            line = [scaled(e.fetch(edge, b.add(at, e.constant(k))), theirs) for k in range(EDGE)]
            at_row = [b.add(place[k], b.mul(down[k], loop.index)) for k in range(PRODUCTS)]
            smallest, ended = e.get(low, zero)[0], e.zero
            for c, there in enumerate(others):
                *u, other_leave = (e.fetch(right, b.add(there, e.constant(k))) for k in range(TRANSITIONS))
                products = [e.fetch(psi, b.add(at_row[k], b.mul(across[k], e.constant(c)))) for k in range(PRODUCTS)]
                mine = cells[STATE * c : STATE * (c + 1)]
                new, line = _cell(e, t, u, products, [e.get(cell, zero) for cell in mine], line)
                ended = e.accumulate(ended, other_leave, new[0])
                for cell, number in zip(mine, new, strict=True):
                    e.put(cell, zero, number)
                if not ranged:
                    for (value,) in (*new, *line[-2:]):
                        smallest = e.smaller(e.where(value, ">", e.number(0.0), value, e.number(1.0)), smallest)
            e.put(found, zero, e.accumulate(e.get(found, zero), leave, ended))
            largest = e.get(top, zero)[0]
            for k, number in enumerate(line):
                e.keep(number, edge, b.add(at, e.constant(k)))
                largest = e.larger(number[0], largest)
            if not ranged:
                e.put(top, zero, (largest,))
                e.put(low, zero, (smallest,))
        for k, cell in enumerate(cells):
            e.keep(e.get(cell, zero), state, e.constant(k))
        if ranged:
            e.keep(e.get(found, zero), total, zero)
        else:
            e.keep(e.get(top, zero), marks, b.add(b.mul(group, e.constant(2)), e.constant(1)))
            e.store(e.get(low, zero)[0], record, zero)
            _add_to_total(e, total, e.get(found, zero)[0], now)

    return tile
