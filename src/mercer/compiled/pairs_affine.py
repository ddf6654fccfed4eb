"""The affine recursion of one string against a block of others, one in each SIMD lane (MK-5b).

Columns are split into strips. A strip processes all rows with its numbers in registers, and gets two numbers per row
from its left neighbor, y and z at its edge. The numbers are *tilted*: those of cell (i, j) are divided by e^(i+j), so
that a run of insertions has the weight g/e for any length, and a cell costs a product, two fused multiply-adds and two
sums. A strip has an exponent per lane, which may grow every few rows; `mercer.models._pairs.affine_range` proves that
no significant number is lost by underflow.

The state of a strip is two numbers per column, so the width of a strip follows the number of registers. A lane
depends on its own pair only: the bits of a pair do not depend on its neighbors.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.machine import MACHINE

STRIP = 8 if MACHINE.registers >= 32 else 4
"""Number of columns of a strip: two registers each, and about six for everything else."""


def lanes_of(precision: str) -> int:
    """Return the number of strings in one vector register."""
    return MACHINE.width if precision == "float64" else 2 * MACHINE.width


class Strip(Emitter):
    """Vector instructions on float64 or float32, and powers of two."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, lanes: int) -> None:
        super().__init__(context, builder, signature, args, lanes)
        self.double = signature.args[0].dtype == types.float64
        self.bits, self.bias = (52, 1023) if self.double else (23, 127)
        self.vector = ir.VectorType(ir.DoubleType() if self.double else ir.FloatType(), lanes)
        self.whole = ir.VectorType(ir.IntType(64 if self.double else 32), lanes)

    def row(self, array: Value, index: Value) -> Value:
        """Load vector number ``index``."""
        return self.load(array, self.builder.mul(index, self.constant(self.lanes)))

    def put(self, value: Value, array: Value, index: Value) -> None:
        """Store vector number ``index``."""
        self.store(value, array, self.builder.mul(index, self.constant(self.lanes)))

    def integers(self, value: int) -> Value:
        """Return an integer in all lanes."""
        return ir.Constant(self.whole, [value] * self.lanes)

    def exponent_of(self, x: Value) -> Value:
        """Return the exponent of nonnegative numbers; far below all others for zero."""
        b = self.builder
        return b.sub(b.lshr(b.bitcast(x, self.whole), self.integers(self.bits)), self.integers(self.bias))

    def power(self, exponent: Value) -> Value:
        """Compute 2 to a power of at most zero; zero if the result is not a normal number."""
        b = self.builder
        lowest = self.integers(-self.bias)
        kept = b.select(b.icmp_signed("<", exponent, lowest), lowest, exponent)
        return b.bitcast(b.shl(b.add(kept, self.integers(self.bias)), self.integers(self.bits)), self.vector)

    def powers(self, exponent: Value) -> list[Value]:
        """Return factors whose product is 2 to a power of at most zero.

        The smallest power of float32 is larger than its smallest numbers, so there are two of them.
        """
        if self.double:
            return [self.power(exponent)]
        half = self.builder.ashr(exponent, self.integers(1))
        return [self.power(half), self.power(self.builder.sub(exponent, half))]

    def whole_number(self, number: Value) -> Value:
        """Copy an integer into all lanes."""
        return self.filled(number if self.double else self.builder.trunc(number, self.whole.element), self.whole)

    def most(self, x: Value, y: Value) -> Value:
        """Return the larger integer."""
        return self.builder.select(self.builder.icmp_signed(">", x, y), x, y)


class Ends:
    """What local alignments do at their ends in a group of rows; here, for global ones, nothing."""

    def neighbor(self, e: Strip, exponent: Value) -> Value:
        """Return the smallest exponent of a strip, given that of its left neighbor."""
        return exponent

    def begin(self, e: Strip, of: Rows, now: Value) -> None:
        """Start a group of rows in which the strip has the exponents ``now``."""
        self.e, self.weight = e, e.filled(of.gap)

    def row(self, i: Value) -> None:
        """Start row i."""

    def matched(self, value: Value, c: int) -> None:
        """Receive the match at column c of the strip."""

    def next_run(self, y: Value, closed: Value, c: int) -> Value:
        """Return y of the column after column c of the strip."""
        return self.e.add(y, self.e.multiply(self.weight, closed))

    def row_done(self, i: Value) -> None:
        """Finish row i."""

    def done(self) -> None:
        """Finish the group."""


class Rows(NamedTuple):
    """Arguments of a group of rows of a strip of columns."""

    state: Value
    """Vectors: z and x of the columns, z of the cell above and to the left, the exponent."""
    profile: Value
    """Match weights, arranged as [strip][code of s][column][lane]."""
    strip_at: Value
    """Number of the first vector of the strip in ``profile``, in strips."""
    codes: Value
    first: Value
    rows: Value
    edge: Value
    """y and z of the left neighbor in every row; they are overwritten by those of the strip."""
    exponents: Value
    """Exponent of the left neighbor in every group; overwritten, too."""
    group: Value
    gap: Value
    target: Value
    """Exponent to which numbers are rescaled."""


def emit_rows(e: Strip, strip: int, of: Rows, ends: Ends) -> None:
    """Process a group of rows of a strip of columns."""
    b, corner_at, exponent_at = e.builder, 2 * strip, 2 * strip + 1
    # The exponent of the strip is never below that of its left neighbor, so that all factors are at most 1 (or a few
    # powers of two, if alignments are local).
    mine = b.bitcast(e.row(of.state, e.constant(exponent_at)), e.whole)
    theirs = b.bitcast(e.row(of.exponents, of.group), e.whole)
    least = ends.neighbor(e, theirs)
    height = e.exponent_of(e.row(of.state, e.constant(strip - 1)))
    grown = e.most(b.sub(height, e.whole_number(of.target)), e.integers(0))
    now = e.most(b.add(mine, grown), least)
    down = e.power(b.sub(mine, now))
    factors = e.powers(b.sub(theirs, now))
    e.put(b.bitcast(now, e.vector), of.state, e.constant(exponent_at))
    e.put(b.bitcast(now, e.vector), of.exponents, of.group)
    ends.begin(e, of, now)

    cells = [cgutils.alloca_once(b, e.vector) for _ in range(corner_at + 1)]
    for k, cell in enumerate(cells):
        b.store(e.multiply(e.row(of.state, e.constant(k)), down), cell)
    weight = e.filled(of.gap)
    with cgutils.for_range(b, of.rows) as loop:
        i = b.add(of.first, loop.index)
        ends.row(i)
        code = b.sext(b.load(b.gep(of.codes, [i])), e.integer)
        column = b.mul(b.add(of.strip_at, code), e.constant(strip))
        y_at = b.mul(i, e.constant(2))
        z_at = b.add(y_at, e.constant(1))
        y, left = e.row(of.edge, y_at), e.row(of.edge, z_at)
        for factor in factors:
            y, left = e.multiply(y, factor), e.multiply(left, factor)
        corner = b.load(cells[corner_at])
        for c in range(strip):
            z, x = cells[c], cells[strip + c]
            above, run = b.load(z), b.load(x)
            matched = e.multiply(e.row(of.profile, b.add(column, e.constant(c))), corner)
            ends.matched(matched, c)
            closed = b.fadd(matched, run)
            b.store(e.add(run, e.multiply(weight, matched)), x)
            value = b.fadd(closed, y)
            b.store(value, z)
            y = ends.next_run(y, closed, c)
            corner = above
        b.store(left, cells[corner_at])
        e.put(y, of.edge, y_at)
        e.put(value, of.edge, z_at)
        ends.row_done(i)
    for k, cell in enumerate(cells):
        e.put(b.load(cell), of.state, e.constant(k))
    ends.done()


@functools.cache
def _group(lanes: int, strip: int) -> Any:
    """Return the function that processes a group of rows of a strip of columns."""

    @vector_function(lanes, emitter=Strip)
    def group(
        e: Strip, state: Value, profile: Value, strip_at: Value, codes: Value, first: Value, rows: Value,
        edge: Value, exponents: Value, group: Value, gap: Value, target: Value,
    ) -> None:  # fmt: skip
        of = Rows(state, profile, strip_at, codes, first, rows, edge, exponents, group, gap, target)
        emit_rows(e, strip, of, Ends())

    return group


@functools.cache
def filler(lanes: int, strip: int) -> Any:
    """Return the function that arranges the match weights of a block of strings."""
    width = strip * lanes

    @compiled
    def fill_profile(table, codes, offsets, members, profile):  # type: ignore[no-untyped-def]  # pragma: no cover
        """Arrange match weights as [strip][code of s][column][lane], zero after the end; return their number."""
        longest = 0
        for lane in range(members.size):
            longest = max(longest, offsets[members[lane] + 1] - offsets[members[lane]])
        strips = -(-longest // strip)
        n_codes, end = table.shape[0], table.shape[1] - 1
        letters = np.full((strips * strip, lanes), end, np.int32)
        for lane in range(members.size):
            begin = offsets[members[lane]]
            for j in range(offsets[members[lane] + 1] - begin):
                letters[j, lane] = codes[begin + j]
        flat = letters.ravel()
        for k in range(strips):
            for code in range(n_codes):
                at = (k * n_codes + code) * width
                for place in range(width):
                    profile[at + place] = table[code, flat[k * width + place]]
        return strips

    return fill_profile


@functools.cache
def _sweep(lanes: int, strip: int) -> Any:
    """Return the compiled loop over blocks of strings and their strips."""
    group_of_rows, fill_profile = _group(lanes, strip), filler(lanes, strip)
    corner_at, exponent_at, width = 2 * strip * lanes, (2 * strip + 1) * lanes, strip * lanes

    @compiled
    def sweep(
        table: Floats, left: Any, left_offsets: Any, right: Any, right_offsets: Any, order: Any, gap: Any, start: Any,
        target: int, group_rows: int, profile: Floats, state: Floats, edge: Floats, exponents: Floats, powers: Any,
        value: Floats, exponent: Any,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value and exponent of all pairs in which neither string is empty."""
        n_codes = table.shape[0]
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            strips = fill_profile(table, right, right_offsets, members, profile)
            for i in range(left_offsets.size - 1):
                codes = left[left_offsets[i] : left_offsets[i + 1]]
                groups = -(-codes.size // group_rows)
                for row in range(codes.size):
                    for lane in range(lanes):
                        edge[2 * row * lanes + lane] = gap * gap * start
                        edge[(2 * row + 1) * lanes + lane] = gap * start
                exponents[: groups * lanes] = 0.0
                for k in range(strips):
                    state[:width] = gap * start
                    state[width:] = 0.0
                    state[corner_at:exponent_at] = start if k == 0 else gap * start
                    for group in range(groups):
                        first = group * group_rows
                        rows = min(group_rows, codes.size - first)
                        group_of_rows(
                            state, profile, k * n_codes, codes, first, rows, edge, exponents, group, gap, target
                        )
                    for lane in range(members.size):
                        j = members[lane]
                        last = right_offsets[j + 1] - right_offsets[j] - 1
                        if last >= 0 and last // strip == k:
                            value[i, j] = state[(last % strip) * lanes + lane]
                            exponent[i, j] = powers[exponent_at + lane]

    return sweep


def lane_kernels(
    table: Floats, left: tuple[Any, Any], right: tuple[Any, Any], gap: float, precision: str, start: int, rows: int
) -> tuple[Floats, Floats]:
    """Compute tilted z(n, m) of all pairs, as numbers and exponents; those of empty strings are left undefined.

    Parameters
    ----------
    table : ndarray of shape (C, D)
        Tilted match weights of the codes of the left and right strings, c (1-o)^2 R / e^2.
    left, right : codes and offsets of strings
        As in `Sequences`.
    gap : float
        Tilted weight of a run, g / e.
    precision : {"float64", "float32"}
        Type of the numbers.
    start : int
        Exponent at which numbers start, and to which they are rescaled.
    rows : int
        Number of rows between two updates of the exponents.

    Returns
    -------
    value, exponent : ndarray of shape (I, J)
        z = value 2^exponent. Infinite or NaN where the numbers left the floating-point range.
    """
    real, lanes = np.dtype(precision), lanes_of(precision)
    of = prepared(table, left, right, real, lanes, STRIP, rows)
    state = aligned(((2 * STRIP + 2) * lanes,), real)
    _sweep(lanes, STRIP)(
        of.table, *of.left, *of.right, of.order, real.type(gap), real.type(2.0**start), start, rows, of.profile, state,
        of.edge, of.exponents, state.view(of.exponent.dtype), of.value, of.exponent,
    )  # fmt: skip
    return of.value.astype(np.float64), of.exponent.astype(np.float64) - start


class Prepared(NamedTuple):
    """Strings and memory for the lanes."""

    table: Floats
    """Match weights of the codes that occur on the left; a last column for positions after the end."""
    left: tuple[Any, Any]
    right: tuple[Any, Any]
    order: Any
    """The strings of the right side, by length."""
    profile: Floats
    edge: Floats
    exponents: Floats
    value: Floats
    exponent: Any


def prepared(
    table: Floats, left: tuple[Any, Any], right: tuple[Any, Any], real: Any, lanes: int, strip: int, rows: int
) -> Prepared:
    """Arrange strings for the lanes and allocate their memory; arguments are those of `lane_kernels`."""
    (left_codes, left_offsets), (right_codes, right_offsets) = left, right
    sizes, others = np.diff(left_offsets), np.diff(right_offsets)
    used = np.zeros(len(table), dtype=bool)
    used[left_codes] = True
    compact = np.cumsum(used, dtype=np.int32) - np.int32(1)
    ended = np.zeros((int(used.sum()), table.shape[1] + 1), real)
    ended[:, :-1] = table[used]
    strips = -(-int(others.max(initial=0)) // strip)
    longest = int(sizes.max(initial=0))
    value = np.ones((len(sizes), len(others)), real)
    return Prepared(
        ended,
        (compact[left_codes], _plain(left_offsets)),
        (np.array(right_codes, np.int32), _plain(right_offsets)),
        np.argsort(others, kind="stable"),
        aligned((strips * strip * lanes * len(ended),), real),
        aligned((2 * longest * lanes,), real),
        aligned((-(-longest // rows) * lanes,), real),
        value,
        np.zeros(value.shape, np.int64 if real == np.float64 else np.int32),
    )


def _plain(offsets: Any) -> Any:
    """Copy: Numba would compile another instance for a read-only array."""
    return np.array(offsets, np.int64)
