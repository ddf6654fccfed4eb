r"""Products of profile HMMs: one profile against a block of others, one in each SIMD lane (PPK-4.2d).

A profile is a sequence of nodes 0 .. M + 1; node 0 is the begin and node M + 1 the end, and both are match states that
emit a symbol of their own. All paths through a pair of profiles that emit the same symbols are summed over cells (i, j)
of nodes. A cell has the weights of all pairs of paths up to

    F_XY   a symbol that state X of node i and state Y of node j emit together, X and Y in {M, I}
    D_Y    p at the delete state of node i, q still at the state Y of node j that emitted last
    A_Y    the same, p having chosen the match state of node i as the next that emits; B_Y: its insert state
    E_X    p having chosen state X of node i, q at the delete state of node j

With t the transitions of p, u of q (into a node from the previous one: mm, im, dm, md, dd; at a node: mi, ii), and psi
the products of the emissions, summed over symbols:

    D_Y(i,j)  = t_md F_MY(i-1,j) + t_dd D_Y(i-1,j)
    A_Y(i,j)  = t_mm F_MY(i-1,j) + t_im F_IY(i-1,j) + t_dm D_Y(i-1,j)
    B_Y(i,j)  = t_mi F_MY(i,j) + t_ii F_IY(i,j)
    E_M(i,j)  = u_md A_M(i,j-1) + u_dd E_M(i,j-1),    E_I(i,j) = u_md B_M(i,j-1) + u_dd E_I(i,j-1)
    F_MM(i,j) = psi_MM (u_mm A_M(i,j-1) + u_im A_I(i,j-1) + u_dm E_M(i,j-1))
    F_IM(i,j) = psi_IM (u_mm B_M(i,j-1) + u_im B_I(i,j-1) + u_dm E_I(i,j-1))
    F_MI(i,j) = psi_MI (u_mi A_M(i,j) + u_ii A_I(i,j))
    F_II(i,j) = psi_II (u_mi B_M(i,j) + u_ii B_I(i,j))

Each pair of paths is counted once. Cut it after every common symbol: between two symbols p takes a run of silent moves
and then its next emitting state, and so does q, independently of each other. The weight of the pair of paths is the
product over the cuts of (run of p) (run of q), and the recursion takes the run of p first (D, A, B, while q waits) and
that of q then (E, F, while the choice of p is fixed). So the order of the silent moves of the two, which is not part of
the pair of paths, is the same for all of them.

All cells depend on cells to the left and above, except that F_II depends on itself, by B_I: a geometric series,

    F_II = psi_II / (1 - psi_II t_ii u_ii) (u_mi B_M + u_ii t_mi F_MI).

Scaling. Columns are split into strips, rows into groups. A tile (a group of rows of a strip) has one exponent per lane,
chosen so that the largest number that enters it is about 1. A result is *sound* if no positive F, D or E is below
`LOWEST` of this (`mercer.models._profile.product` derives the bound); the others are computed again in numbers of
unlimited range by the same code. A lane depends on its own pair only.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Value, aligned, vector_function
from mercer.compiled.layout import owned
from mercer.compiled.machine import MACHINE
from mercer.compiled.pairs_numbers import ZERO_EXPONENT, Number, Ranged, Scaled
from mercer.compiled.ranged import INVERSE

LANES = MACHINE.width
"""Number of profiles in one vector."""
STRIP = 4 if MACHINE.registers >= 32 else 2
"""Number of columns of a strip."""
TOGETHER = 4 if MACHINE.registers >= 32 else 2
"""Number of rows whose emission products are computed together."""
GROUP = 8
"""Number of rows between two updates of the exponents, a multiple of `TOGETHER`."""
FAR = -100.0
"""Exponents of neighboring tiles that differ by more than this make a result doubtful."""
TRANSITIONS = 7
"""Numbers of a node: mm, im, dm, md, dd into it, then mi, ii."""
_STATE, _EDGE, _PRODUCTS = 6, 6, 4  # numbers per column, per row, and per cell


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
def _emissions(lanes: int, together: int, ranged: bool) -> Any:
    """Return the function that computes psi_MM, psi_IM, psi_MI and psi_II of some rows in one column.

    ``left`` contains [node][match, insert][symbol], ``right`` the same in lanes.
    """

    @vector_function(lanes, emitter=_Unlimited if ranged else _Floats)
    def emissions(
        e: Any, psi: Value, place: Value, step: Value, left: Value, row: Value, right: Value, column: Value,
        letters: Value,
    ) -> None:  # fmt: skip
        b = e.builder
        both = b.mul(letters, e.constant(2))
        starts = [b.mul(b.add(row, e.constant(r)), both) for r in range(together)]
        other = b.mul(column, both)
        sums = [e.variable(e.zero) for _ in range(_PRODUCTS * together)]
        with cgutils.for_range(b, letters) as loop:
            a = loop.index
            theirs = [e.fetch(right, b.add(other, b.add(a, shift))) for shift in (e.constant(0), letters)]
            for r, start in enumerate(starts):
                mine = [e.same(left, b.add(start, b.add(a, shift))) for shift in (e.constant(0), letters)]
                for k in range(_PRODUCTS):
                    total = sums[_PRODUCTS * r + k]
                    value = e.accumulate(e.get(total, e.constant(0)), mine[k % 2], theirs[k // 2])
                    e.put(total, e.constant(0), value)
        for r in range(together):
            base = b.mul(b.add(place, b.mul(e.constant(r), step)), e.constant(_PRODUCTS))
            for k in range(_PRODUCTS):
                number = e.get(sums[_PRODUCTS * r + k], e.constant(0))
                e.keep(number, psi, b.add(base, e.constant(k)))

    return emissions


def _aligned(e: Any, numbers: int, state: Value, marks: Value, group: Value, record: Value) -> tuple[Value, Value]:
    """Choose the exponent of a tile, update that of the strip, and return the factors of the strip and of its edge.

    ``marks`` contains, for every group, the exponent of the edge and the largest of its numbers.
    """
    b, first = e.builder, e.constant(0)
    at = b.mul(group, e.constant(2))
    own, theirs = e.fetch(state, e.constant(numbers))[0], e.fetch(marks, at)[0]
    tops = [e.number(0.0), e.fetch(marks, b.add(at, e.constant(1)))[0]]
    for k in range(numbers):
        tops[0] = e.larger(e.fetch(state, e.constant(k))[0], tops[0])
    heights = []
    for exponent, top in zip((own, theirs), tops, strict=True):
        height = b.fadd(exponent, e.split(top)[1])
        heights.append(e.where(top, ">", e.number(0.0), height, e.number(ZERO_EXPONENT)))
    highest = e.larger(*heights)
    now = e.where(highest, ">", e.number(ZERO_EXPONENT), highest, own)
    low, factors = e.load(record, first), []
    for exponent, top in zip((own, theirs), tops, strict=True):
        distance = b.fsub(exponent, now)
        far = e.where(distance, "<", e.number(FAR), e.number(-1.0), low)
        low = e.where(top, ">", e.number(0.0), far, low)
        factors.append(e.power(e.smaller(distance, e.number(1000.0))))
    e.store(low, record, first)
    e.keep((now,), state, e.constant(numbers))
    e.keep((now,), marks, at)
    return factors[0], factors[1]


def _cell(e: Any, t: list[Number], u: list[Number], psi: list[Number], above: list[Number], edge: list[Number]) -> Any:
    """Compute the numbers of a cell: F_MM, F_IM, F_MI, F_II, D_M, D_I and A_M, A_I, B_M, B_I, E_M, E_I.

    ``above`` contains the first six of (i-1, j), ``edge`` the others of (i, j-1).
    """
    mm, im, dm, md, dd, mi, ii = t
    other_mm, other_im, other_dm, other_md, other_dd, other_mi, other_ii = u
    psi_mm, psi_im, psi_mi, psi_ii = psi
    f_mm, f_im, f_mi, f_ii, d_m, d_i = above
    a_m, a_i, b_m, b_i, e_m, e_i = edge

    new_mm = e.times(psi_mm, e.sum_of((other_mm, a_m), (other_im, a_i), (other_dm, e_m)))
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
def _tile(lanes: int, strip: int, ranged: bool) -> Any:
    """Return the function that processes a group of rows of a strip of columns.

    ``state`` contains six numbers per column and the exponent of the strip, ``edge`` six numbers per row: those of the
    strip to the left, which are overwritten.
    """
    numbers = _STATE * strip

    @vector_function(lanes, emitter=_Unlimited if ranged else _Floats)
    def tile(
        e: Any, state: Value, edge: Value, first: Value, rows: Value, psi: Value, left: Value, base: Value,
        right: Value, column: Value, marks: Value, group: Value, record: Value,
    ) -> None:  # fmt: skip
        b, zero = e.builder, e.constant(0)
        scale = (lambda x, _: x) if ranged else (lambda x, factor: (b.fmul(x[0], factor),))
        own, theirs = (None, None) if ranged else _aligned(e, numbers, state, marks, group, record)
        cells = [e.variable(scale(e.fetch(state, e.constant(k)), own)) for k in range(numbers)]
        low = e.variable((e.load(record, zero), *e.zero[1:]))
        top = e.variable(e.zero)
        with cgutils.for_range(b, rows) as loop:
            i = b.add(first, loop.index)
            node = b.mul(b.add(base, i), e.constant(TRANSITIONS))
            t = [e.same(left, b.add(node, e.constant(k))) for k in range(TRANSITIONS)]
            at = b.mul(i, e.constant(_EDGE))
            line = [scale(e.fetch(edge, b.add(at, e.constant(k))), theirs) for k in range(_EDGE)]
            smallest = e.get(low, zero)[0]
            for c in range(strip):
                there = b.mul(b.add(column, e.constant(c)), e.constant(TRANSITIONS))
                u = [e.fetch(right, b.add(there, e.constant(k))) for k in range(TRANSITIONS)]
                place = b.mul(b.add(b.mul(loop.index, e.constant(strip)), e.constant(c)), e.constant(_PRODUCTS))
                products = [e.fetch(psi, b.add(place, e.constant(k))) for k in range(_PRODUCTS)]
                mine = cells[_STATE * c : _STATE * (c + 1)]
                new, line = _cell(e, t, u, products, [e.get(cell, zero) for cell in mine], line)
                for cell, number in zip(mine, new, strict=True):
                    e.put(cell, zero, number)
                if not ranged:
                    for (value,) in (*new, *line[-2:]):
                        smallest = e.smaller(e.where(value, ">", e.number(0.0), value, e.number(1.0)), smallest)
            largest = e.get(top, zero)[0]
            for k, number in enumerate(line):
                e.keep(number, edge, b.add(at, e.constant(k)))
                largest = e.larger(number[0], largest)
            if not ranged:
                e.put(top, zero, (largest,))
                e.put(low, zero, (smallest,))
        for k, cell in enumerate(cells):
            e.keep(e.get(cell, zero), state, e.constant(k))
        if not ranged:
            e.keep(e.get(top, zero), marks, b.add(b.mul(group, e.constant(2)), e.constant(1)))
            e.store(e.get(low, zero)[0], record, zero)

    return tile


@functools.cache
def _sweep(lanes: int, strip: int, together: int, ranged: bool) -> Any:
    """Return the compiled loop over blocks of profiles, their strips and groups of rows."""
    emissions, tile = _emissions(lanes, together, ranged), _tile(lanes, strip, ranged)
    parts = 2 if ranged else 1
    width = parts * lanes
    exponent_at = _STATE * strip * width

    @compiled
    def clear(array: Floats) -> None:  # pragma: no cover - compiled
        """Write zeros."""
        array[:] = 0.0
        if ranged:
            for k in range(lanes, array.size, width):
                array[k : k + lanes] = ZERO_EXPONENT

    @compiled
    def fill(source: Floats, offsets: Any, members: Any, numbers: int, out: Floats) -> None:  # pragma: no cover
        """Arrange profiles as [node][number][part][lane], zero after the end."""
        clear(out)
        count = numbers * parts
        for lane in range(members.size):
            begin = offsets[members[lane]] * count
            for k in range((offsets[members[lane] + 1] - offsets[members[lane]]) * count):
                out[k * lanes + lane] = source[begin + k]

    @compiled
    def sweep(
        left_emission: Floats, left_transition: Floats, left_offsets: Any, right_emission: Floats,
        right_transition: Floats, right_offsets: Any, order: Any, letters: int, block_emission: Floats,
        block_transition: Floats, state: Floats, edge: Floats, psi: Floats, marks: Floats, record: Floats,
        value: Floats, exponent: Floats, lowest: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value, exponent and the smallest number of all pairs."""
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            longest = 0
            for lane in range(members.size):
                longest = max(longest, right_offsets[members[lane] + 1] - right_offsets[members[lane]])
            strips = -(-longest // strip)
            columns = strips * strip * width
            fill(right_emission, right_offsets, members, 2 * letters, block_emission[: columns * 2 * letters])
            fill(right_transition, right_offsets, members, TRANSITIONS, block_transition[: columns * TRANSITIONS])
            for i in range(left_offsets.size - 1):
                base, nodes = left_offsets[i], left_offsets[i + 1] - left_offsets[i]
                groups = -(-nodes // GROUP)
                clear(edge[: nodes * _EDGE * width])
                edge[:lanes] = 1.0  # A_M to the left of the begin: F_MM(0, 0) = 1
                if ranged:
                    edge[lanes:width] = 0.0
                marks[: 2 * groups * lanes] = 0.0
                marks[lanes : 2 * lanes] = 1.0
                record[:] = 1.0
                for k in range(strips):
                    clear(state)
                    for group in range(groups):
                        first = group * GROUP
                        rows = min(GROUP, nodes - first)
                        for c in range(strip):
                            for r in range(0, rows, together):
                                emissions(
                                    psi, r * strip + c, strip, left_emission, base + first + r, block_emission,
                                    k * strip + c, letters,
                                )  # fmt: skip
                        tile(
                            state, edge, first, rows, psi, left_transition, base, block_transition, k * strip, marks,
                            group, record,
                        )  # fmt: skip
                    for lane in range(members.size):
                        j = members[lane]
                        last = right_offsets[j + 1] - right_offsets[j] - 1
                        if last // strip == k:
                            at = (last % strip) * _STATE * width + lane
                            value[i, j] = state[at]
                            exponent[i, j] = state[at + lanes] if ranged else state[exponent_at + lane]
                            lowest[i, j] = record[lane]

    return sweep


def lane_products(
    left: tuple[Floats, Floats, Any], right: tuple[Floats, Floats, Any], ranged: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Compute the products of all pairs of profiles.

    Parameters
    ----------
    left, right : tuples of ndarrays
        Emissions (T, 2, K) of the match and insert states of all nodes, transitions (T, 7) into and at each node, and
        offsets (N + 1,): profile n has the nodes ``offsets[n]`` to ``offsets[n + 1] - 1``, the first of which is its
        begin and the last its end. If ``ranged``, the arrays have a last axis of two, number and exponent, as in
        `mercer.compiled.ranged`.
    ranged : bool, default=False
        Whether to compute in numbers of unlimited range.

    Returns
    -------
    value, exponent, lowest : ndarray of shape (I, J)
        The product is value 2^exponent, or value 2^(512 exponent) if ``ranged``. ``lowest`` is the smallest positive
        number of a tile, negative if neighboring tiles are far apart; it has no meaning if ``ranged``.
    """
    # Ranged numbers are rare: less code for them compiles faster.
    parts, strip, together = (2, 1, 1) if ranged else (1, STRIP, TOGETHER)
    letters, width = left[0].shape[2], parts * LANES
    sizes, others = np.diff(left[2]), np.diff(right[2])
    value = np.zeros((len(sizes), len(others)))
    exponent, lowest = np.zeros(value.shape), np.ones(value.shape)
    if value.size == 0:
        return value, exponent, lowest
    tall, wide = int(sizes.max()), -(-int(others.max()) // strip) * strip
    _sweep(LANES, strip, together, ranged)(
        _padded(left[0]), _padded(left[1]), _plain(left[2]),
        owned(right[0]).reshape(-1), owned(right[1]).reshape(-1), _plain(right[2]),
        np.argsort(others, kind="stable"), letters,
        aligned((wide * 2 * letters * width,)), aligned((wide * TRANSITIONS * width,)),
        aligned(((_STATE * strip + 1) * width,)), aligned((tall * _EDGE * width,)),
        aligned((GROUP * strip * _PRODUCTS * width,)), aligned((2 * -(-tall // GROUP) * LANES,)), aligned((LANES,)),
        value, exponent, lowest,
    )  # fmt: skip
    return value, exponent, lowest


def _padded(x: Floats) -> Floats:
    """Append nodes of zeros: emissions of some nodes are read together."""
    return np.concatenate([x, np.zeros((TOGETHER, *x.shape[1:]))]).reshape(-1)


def _plain(offsets: Any) -> Any:
    """Copy: Numba would compile another instance for a read-only array."""
    return np.array(offsets, np.int64)
