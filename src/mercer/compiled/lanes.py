"""Explicit SIMD instructions, because LLVM's vectorizer gives up on many of these loops.

A compiler often keeps loops over lanes scalar because it cannot know that two buffers do not overlap. So the innermost
operations are emitted as LLVM vector instructions and become functions that Numba loops call. The number of lanes is a
parameter of every operation: with one lane the same code is a scalar loop.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mercer._array import Floats
from mercer.compiled.machine import MACHINE

Value: TypeAlias = Any
"""An LLVM value."""

MAGIC = 1.5 * 2.0**52
"""Adding this to a float64 rounds it to an integer, which is then in the lowest bits."""


class Emitter:
    """Vector instructions on flat float64 arrays.

    Offsets are in elements. The flag "contract" allows a fused multiply-add and nothing else: infinities and
    NaN keep their meaning.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.integer = ir.IntType(64)
        self.vector = ir.VectorType(ir.DoubleType(), lanes)
        self.words = ir.VectorType(self.integer, lanes)
        self.args = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, args, strict=True)
        ]

    def offset(self, base: Value, step: Value, width: int, constant: int = 0) -> Value:
        """Compute base + step * width + constant."""
        b, integer = self.builder, self.integer
        moved = b.add(base, b.mul(step, ir.Constant(integer, width)))
        return b.add(moved, ir.Constant(integer, constant))

    def cell(self, b: Value, n: int, a: int) -> Value:
        """Locate [b][a] in a table of pairs."""
        return self.offset(self.constant(a * self.lanes), b, n * self.lanes)

    def constant(self, value: int) -> Value:
        """Return an integer constant."""
        return ir.Constant(self.integer, value)

    def _pointer(self, array: Value, offset: Value) -> Value:
        return self.builder.bitcast(self.builder.gep(array, [offset]), self.vector.as_pointer())

    def load(self, array: Value, offset: Value) -> Value:
        """Load consecutive numbers."""
        return self.builder.load(self._pointer(array, offset), align=8)

    def store(self, value: Value, array: Value, offset: Value) -> None:
        """Store consecutive numbers."""
        self.builder.store(value, self._pointer(array, offset), align=8)

    def spread(self, array: Value, offset: Value) -> Value:
        """Copy one number of an array into all lanes."""
        return self.filled(self.builder.load(self.builder.gep(array, [offset])))

    def filled(self, number: Value, vector: Any = None) -> Value:
        """Copy one number into all lanes, of another type of vector if one is given."""
        b, word = self.builder, ir.IntType(32)
        nothing = ir.Constant(vector or self.vector, ir.Undefined)
        one = b.insert_element(nothing, number, ir.Constant(word, 0))
        return b.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(word, self.lanes), [0] * self.lanes))

    def multiply(self, x: Value, y: Value) -> Value:
        """Multiply elementwise."""
        return self.builder.fmul(x, y, flags=("contract",))

    def add(self, x: Value, y: Value) -> Value:
        """Add elementwise."""
        return self.builder.fadd(x, y, flags=("contract",))

    def loop_sums(
        self, count: int, trips: Value, terms: Callable[[Value], list[Value]], start: list[Value] | None = None
    ) -> list[Value]:
        """Sum ``count`` vectors over a loop whose body returns one term for each, starting at zero or ``start``."""
        return self.loop([self.number(0.0)] * count if start is None else start, trips, terms, self.add)

    def loop(
        self, start: list[Value], trips: Value, terms: Callable[[Value], list[Value]], combine: Callable[..., Value]
    ) -> list[Value]:
        """Combine vectors, starting with ``start``, with one term for each in every iteration of a loop."""
        cells = [cgutils.alloca_once(self.builder, self.vector) for _ in start]
        for cell, value in zip(cells, start, strict=True):
            self.builder.store(value, cell)
        with cgutils.for_range(self.builder, trips) as loop:
            for cell, term in zip(cells, terms(loop.index), strict=True):
                self.builder.store(combine(self.builder.load(cell), term), cell)
        return [self.builder.load(cell) for cell in cells]

    # -- comparisons, exponentials and sums across lanes --------------------------------------------------

    def number(self, value: float) -> Value:
        """Return a constant in all lanes."""
        return ir.Constant(self.vector, [value] * self.lanes)

    def where(self, left: Value, sign: str, right: Value, yes: Value, no: Value, unordered: bool = False) -> Value:
        """Select elementwise by a comparison, which is true for NaN if ``unordered``."""
        compare = self.builder.fcmp_unordered if unordered else self.builder.fcmp_ordered
        return self.builder.select(compare(sign, left, right), yes, no)

    def at_least(self, x: Value, bound: float) -> Value:
        """Raise smaller numbers to ``bound``; NaN stays."""
        return self.where(x, "<", self.number(bound), self.number(bound), x)

    def larger(self, x: Value, y: Value) -> Value:
        """Return the maximum, or y if one is NaN."""
        return self.where(x, ">", y, x, y)

    def smaller(self, x: Value, y: Value) -> Value:
        """Return the minimum, or y if one is NaN."""
        return self.where(x, "<", y, x, y)

    def scaled(self, x: Value, moved: Value) -> Value:
        """Multiply by 2 to the power of integers to which `MAGIC` was added; x and the results are normal numbers."""
        b = self.builder
        exponent = b.shl(b.bitcast(moved, self.words), self.word(52))
        return b.bitcast(b.add(b.bitcast(x, self.words), exponent), self.vector)

    def power_of_two(self, exponent: Value) -> Value:
        """Compute 2 to the power of integers between -1022 and 1023."""
        return self.scaled(self.number(1.0), self.builder.fadd(exponent, self.number(MAGIC)))

    def inverse_power(self, x: Value) -> tuple[Value, Value]:
        """Return the power of two that scales positive numbers into [1, 2), and 1023 minus its exponent.

        For zero, these are 2^1023 and 0.
        """
        b = self.builder
        bits = b.and_(b.bitcast(x, self.words), self.word(0x7FF << 52))
        return b.bitcast(b.sub(self.word(2046 << 52), bits), self.vector), b.lshr(bits, self.word(52))

    def word(self, value: int) -> Value:
        """Return an integer constant in all lanes."""
        return ir.Constant(self.words, [value] * self.lanes)

    def exp2(self, values: list[Value]) -> list[Value]:
        """Compute 2^t for -1020 <= t <= 1000: a power of two times a Taylor polynomial for |t| <= 1/2.

        If the registers hold all coefficients, vectors are processed one by one; otherwise Horner's scheme advances all
        vectors together, so that a coefficient needs a register only while it is used.
        """
        b, degree, found = self.builder, 12, []  # the next term is below 2e-16
        for some in [[t] for t in values] if MACHINE.registers >= 32 else [values]:
            moved = [b.fadd(t, self.number(MAGIC)) for t in some]
            rests = [b.fsub(t, b.fsub(m, self.number(MAGIC))) for t, m in zip(some, moved, strict=True)]
            sums = [self.number(math.log(2) ** degree / math.factorial(degree))] * len(some)
            for k in reversed(range(degree)):
                coefficient = self.number(math.log(2) ** k / math.factorial(k))
                sums = [self.add(self.multiply(total, x), coefficient) for total, x in zip(sums, rests, strict=True)]
            found += [self.scaled(total, m) for total, m in zip(sums, moved, strict=True)]
        return found

    def exponential(self, x: Value) -> Value:
        """Compute exp for -700 < x < 700: a power of two times a Taylor polynomial for |x| <= log(2) / 2."""
        b, magic = self.builder, self.number(MAGIC)
        moved = self.add(self.multiply(x, self.number(1 / math.log(2))), magic)
        whole = b.fsub(moved, magic)
        # log 2 in two parts; the first has few bits, so that its products with integers are exact
        rest = self.add(x, self.multiply(whole, self.number(-0.6931471803691238)))
        rest = self.add(rest, self.multiply(whole, self.number(-1.9082149292705877e-10)))
        power, terms = rest, [self.number(1 / math.factorial(k)) for k in range(14)]
        while len(terms) > 1:  # Estrin's scheme: shorter chains of dependent operations than Horner's
            pairs = [
                self.add(low, self.multiply(power, high)) for low, high in zip(terms[::2], terms[1::2], strict=False)
            ]
            terms = [*pairs, terms[-1]] if len(terms) % 2 else pairs
            power = self.multiply(power, power)
        return self.scaled(terms[0], moved)

    def split(self, x: Value) -> tuple[Value, Value]:
        """Split positive normal numbers into mantissas in [1, 2) and exponents."""
        b = self.builder
        bits = b.bitcast(x, self.words)
        exponent = b.sub(b.lshr(bits, self.word(52)), self.word(1023))
        bits = b.or_(b.and_(bits, self.word(2**52 - 1)), self.word(1023 << 52))
        return b.bitcast(bits, self.vector), b.sitofp(exponent, self.vector)

    def across(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Reduce the lanes of one vector; every lane gets the result."""
        mask = ir.VectorType(ir.IntType(32), self.lanes)
        for distance in self._halves():
            order = ir.Constant(mask, [lane ^ distance for lane in range(self.lanes)])
            x = combine(x, self.builder.shuffle_vector(x, x, order))
        return x

    def _halves(self) -> list[int]:
        """Return the distances of a butterfly over the lanes: 4, 2, 1 for eight."""
        return [1 << k for k in reversed(range(self.lanes.bit_length() - 1))]

    def beside(self, values: list[Value], combine: Callable[[Value, Value], Value], width: int | None = None) -> Value:
        """Combine vectors elementwise, in the order in which `across` reduces vectors of ``width`` lanes."""
        values = list(values)
        width = self.lanes if width is None else width
        while len(values) > 1:
            if len(values) <= width // 2:
                width //= 2
                continue
            for k in range(width, len(values)):
                values[k % width] = combine(values[k % width], values[k])
            values = values[:width]
            width //= 2
            for k in range(width, len(values)):
                values[k - width] = combine(values[k - width], values[k])
            values = values[:width]
        return values[0]


def vector_function(
    lanes: int, *known: Any, emitter: Any = Emitter, returns: Any = types.void
) -> Callable[[Callable[..., Value | None]], Any]:
    """Convert ``emit(emitter, *known, *arguments)`` to a function of the arguments that compiled loops can call.

    Parameters
    ----------
    lanes : int
        Number of lanes of a vector.
    *known : object
        What is known when the code is emitted, such as the number of states.
    emitter : type, default=Emitter
        Class of the emitter.
    returns : type, default=void
        Numba's type of what ``emit`` returns.
    """

    def decorate(emit: Callable[..., Value | None]) -> Any:
        def define(typing: Any, *kinds: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                e = emitter(context, builder, signature, args, lanes)
                found = emit(e, *known, *e.args)
                return context.get_dummy_value() if found is None else found

            return returns(*kinds), code

        names = list(inspect.signature(emit).parameters.values())  # Numba asks for those of the arguments
        define.__signature__ = inspect.Signature([names[0], *names[1 + len(known) :]])  # type: ignore[attr-defined]
        return intrinsic(define)

    return decorate


def aligned(shape: tuple[int, ...], real: Any = np.float64) -> Floats:
    """Allocate an array aligned to a cache line, so that no vector crosses two lines."""
    size, width = math.prod(shape), np.dtype(real).itemsize
    raw = np.empty(size + 64 // width, real)
    skip = (-raw.ctypes.data % 64) // width
    return raw[skip : skip + size].reshape(shape)
