"""Two kinds of numbers for the general pair recursion, on any number of SIMD lanes (MK-5).

`Scaled` numbers are floats, and a cell has one power of two for all of them. `Ranged` numbers have an exponent each, as
in `mercer.compiled.ranged`: slower, but correct for all parameters. A cell contains one number for each of n states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir
from numba.core import cgutils

from mercer.compiled.lanes import Emitter, Value
from mercer.compiled.ranged import HIGH, INVERSE, LOW, RADIX

ZERO_EXPONENT = -1e300
"""Exponent of a cell that cannot be reached, or of the number zero; exponents in lanes are float64."""
FAR = 200.0
"""Neighbors that differ by more powers of two than this make a result doubtful."""
UNROLLED = 16
"""Loops over more states than this are not unrolled."""
TOGETHER = 8
"""Number of sums that are accumulated together if loops are not unrolled."""

Number: TypeAlias = tuple[Value, ...]
"""One number in every lane: a vector, or a vector and its exponents."""
Cell: TypeAlias = tuple[Value, Value]
"""An array, and the offset of a cell in it."""


class Scaled(Emitter):
    """Cells of n weights followed by one exponent: S = weights 2^exponent."""

    parts = 1
    zero_parts: tuple[float, ...] = (0.0,)

    # -- loops over states, and numbers on the stack, which become registers if loops are unrolled -------------

    def each(self, n: int, body: Callable[[Value], None]) -> None:
        """Call ``body`` with every integer below n."""
        if n <= UNROLLED:
            for a in range(n):
                body(self.constant(a))
        else:
            with cgutils.for_range(self.builder, self.constant(n)) as loop:
                body(loop.index)

    def room(self, n: int) -> list[Value]:
        """Reserve memory for n numbers."""
        return [cgutils.alloca_once(self.builder, ir.ArrayType(self.vector, n)) for _ in range(self.parts)]

    def put(self, room: list[Value], a: Value, number: Number) -> None:
        """Store number ``a``."""
        for part, value in zip(room, number, strict=True):
            self.builder.store(value, self.builder.gep(part, [self.constant(0), a]))

    def get(self, room: list[Value], a: Value) -> Number:
        """Load number ``a``."""
        return tuple(self.builder.load(self.builder.gep(part, [self.constant(0), a])) for part in room)

    def variable(self, number: Number) -> list[Value]:
        """Reserve memory for one number."""
        room = self.room(1)
        self.put(room, self.constant(0), number)
        return room

    def at(self, place: Value, a: Value) -> Value:
        """Locate vector ``a`` after ``place``."""
        return self.builder.add(place, self.builder.mul(a, self.constant(self.lanes)))

    # -- arithmetic ----------------------------------------------------------------------------------------

    @property
    def zero(self) -> Number:
        """The number zero."""
        return tuple(self.number(part) for part in self.zero_parts)

    def read(self, vector: Value) -> Number:
        """Convert probabilities to numbers."""
        return (vector,)

    def times(self, x: Number, y: Number) -> Number:
        """Multiply with rounding (no FMA), so that both strings are treated alike."""
        return (self.builder.fmul(x[0], y[0]),)

    def plus(self, x: Number, y: Number) -> Number:
        """Add with rounding (no FMA)."""
        return (self.builder.fadd(x[0], y[0]),)

    def accumulate(self, total: Number, x: Number, y: Number) -> Number:
        """Compute total + x y."""
        return (self.add(total[0], self.multiply(x[0], y[0])),)

    def power(self, exponent: Value) -> Value:
        """Compute 2 to the power of integers, -1000 or more."""
        return self.power_of_two(self.at_least(exponent, -1000.0))

    # -- cells -----------------------------------------------------------------------------------------------

    def together(
        self, n: int, cells: list[Cell], low: list[Value] | None = None
    ) -> tuple[Callable[[int, Value], Number], Value]:
        """Scale three cells to their largest exponent; return a reader of their weights, and the exponent.

        ``low`` becomes -1 if the exponents are far apart.
        """
        b, first = self.builder, self.constant(0)
        exponents = [self.load(array, self.at(place, self.constant(n))) for array, place in cells]
        top = self.larger(exponents[2], self.larger(exponents[0], exponents[1]))
        factors = []
        for exponent in exponents:
            distance = b.fsub(exponent, top)
            factors.append(self.power(distance))
            if low is not None:
                reached = self.where(exponent, ">", self.number(ZERO_EXPONENT), distance, self.number(0.0))
                (old,) = self.get(low, first)
                self.put(low, first, (self.where(reached, "<", self.number(-FAR), self.number(-1.0), old),))

        def weight(k: int, a: Value) -> Number:
            array, place = cells[k]
            return (b.fmul(self.load(array, self.at(place, a)), factors[k]),)

        return weight, top

    def store_cell(self, n: int, room: list[Value], top: Value, cell: Cell, low: list[Value] | None = None) -> None:
        """Store weights relative to their largest, and their exponent; record the smallest positive weight."""
        b, zero, first, (array, place) = self.builder, self.number(0.0), self.constant(0), cell
        most = self.variable((zero,))
        self.each(n, lambda a: self.put(most, first, (self.larger(self.get(most, first)[0], self.get(room, a)[0]),)))
        (largest,) = self.get(most, first)
        possible = b.fcmp_ordered(">", largest, zero)
        _, exponent = self.split(largest)
        scale = self.power(b.select(possible, b.fsub(zero, exponent), zero))

        def store(a: Value) -> None:
            value = b.fmul(self.get(room, a)[0], scale)
            self.store(value, array, self.at(place, a))
            if low is not None:
                (old,) = self.get(low, first)
                seen = self.where(value, ">", zero, value, self.number(1.0))
                self.put(low, first, (self.where(seen, "<", old, value, old),))

        self.each(n, store)
        exponent = b.select(possible, b.fadd(top, exponent), self.number(ZERO_EXPONENT))
        self.store(exponent, array, self.at(place, self.constant(n)))

    def keep_cell(self, n: int, room: list[Value], top: Value, cell: Cell) -> None:
        """Store weights unchanged, and their exponent."""
        array, place = cell
        self.each(n, lambda a: self.store(self.get(room, a)[0], array, self.at(place, a)))
        self.store(top, array, self.at(place, self.constant(n)))

    def product(
        self, n: int, source: list[Value], matrix: Value, place: Callable[[Value, Value], Value], out: list[Value]
    ) -> None:
        """Write sum over a of source[a] matrix[place(a, c)] for every c, several sums at once in registers."""

        def columns(begin: Value, count: int) -> None:
            sums, which = self.room(count), [self.constant(c) for c in range(count)]
            for c in which:
                self.put(sums, c, self.zero)

            def add(a: Value) -> None:
                x = self.get(source, a)
                for c in which:
                    entry = self.read(self.spread(matrix, place(a, self.builder.add(begin, c))))
                    self.put(sums, c, self.accumulate(self.get(sums, c), x, entry))

            self.each(n, add)
            for c in which:
                self.put(out, self.builder.add(begin, c), self.get(sums, c))

        if n <= UNROLLED:
            columns(self.constant(0), n)
            return
        with cgutils.for_range(self.builder, self.constant(n // TOGETHER)) as loop:
            columns(self.builder.mul(loop.index, self.constant(TOGETHER)), TOGETHER)
        if n % TOGETHER:
            columns(self.constant(n - n % TOGETHER), n % TOGETHER)


class Ranged(Scaled):
    """Cells of n weights v followed by their n exponents k: S = v 2^(512 k)."""

    parts = 2
    zero_parts = (0.0, ZERO_EXPONENT)

    def _tidy(self, v: Value, k: Value) -> Number:
        """Normalize products, and sums of a few numbers."""
        b, one = self.builder, self.number(1.0)
        high = b.fcmp_ordered(">=", v, self.number(HIGH))
        v = b.select(high, b.fmul(v, self.number(INVERSE)), v)
        k = b.select(high, b.fadd(k, one), k)
        low = b.fcmp_ordered("<", v, self.number(LOW))
        v = b.select(low, b.fmul(v, self.number(RADIX)), v)
        k = b.select(low, b.fsub(k, one), k)
        return v, self.where(v, "==", self.number(0.0), self.number(ZERO_EXPONENT), k)

    def read(self, vector: Value) -> Number:
        """Convert probabilities to numbers; the smallest floats are below the second power of the radix."""
        return self._tidy(*self._tidy(vector, self.number(0.0)))

    def times(self, x: Number, y: Number) -> Number:
        """Multiply."""
        return self._tidy(self.builder.fmul(x[0], y[0]), self.builder.fadd(x[1], y[1]))

    def plus(self, x: Number, y: Number) -> Number:
        """Add; if the exponents differ by two, the smaller number is below 2^-512 of the larger."""
        b, top = self.builder, self.larger(x[1], y[1])
        parts = []
        for v, k in (x, y):
            far = self.where(k, "<", b.fsub(top, self.number(1.0)), self.number(0.0), self.number(INVERSE))
            parts.append(b.fmul(v, self.where(k, "<", top, far, self.number(1.0))))
        return b.fadd(*parts), top

    def accumulate(self, total: Number, x: Number, y: Number) -> Number:
        """Compute total + x y."""
        return self.plus(total, self.times(x, y))

    def together(
        self, n: int, cells: list[Cell], low: list[Value] | None = None
    ) -> tuple[Callable[[int, Value], Number], Value]:
        """Return a reader of the cells' weights; there is no common exponent."""

        def weight(k: int, a: Value) -> Number:
            array, place = cells[k]
            shifted = self.builder.add(a, self.constant(n))
            return self.load(array, self.at(place, a)), self.load(array, self.at(place, shifted))

        return weight, None

    def store_cell(self, n: int, room: list[Value], top: Value, cell: Cell, low: list[Value] | None = None) -> None:
        """Store weights and exponents."""
        array, place = cell

        def store(a: Value) -> None:
            v, k = self.get(room, a)
            self.store(v, array, self.at(place, a))
            self.store(k, array, self.at(place, self.builder.add(a, self.constant(n))))

        self.each(n, store)
