"""Where many small matrices lie, one matrix of each kind per lane, and how loops over them are emitted.

All matrices of a group lie in one flat buffer of float64. Entry (i, j) of a matrix with c columns that begins at ``at``
has its lanes at ``at + (i * c + j) * LANES``. The first vector of the buffer is zero. Sizes are arguments, so that a
new size compiles nothing. No lane depends on another one, and no entry on how many are computed in one call.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from mercer.compiled.code import function_key
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

LANES = 2 * MACHINE.width
"""Matrices side by side: two registers, so that one hides the latency of the other."""
ZERO = 0
"""Where the zero vector lies."""


def lane_function(emit: Callable[..., Value | None], returns: Any = types.void) -> Any:
    """Convert ``emit(emitter, *arguments)`` to a function of the arguments that compiled loops can call.

    It becomes one LLVM function of pointers and numbers: copies in all callers would take long to compile, and Numba
    would pass all seven fields of every array.
    """
    # The name determines the code, as in `mercer.compiled.code`: of equal symbols the linker takes the first.
    name = f"{emit.__qualname__}_{hashlib.sha256(function_key(emit).encode()).hexdigest()[:16]}"

    @functools.wraps(emit)
    def emit_call(e: Emitter, *args: Value) -> Value | None:
        caller = e.builder
        function = caller.module.globals.get(name)
        if function is None:
            result = ir.VoidType() if returns is types.void else ir.IntType(1)
            kind = ir.FunctionType(result, [argument.type for argument in args])
            function = ir.Function(caller.module, kind, name)
            function.linkage, function.calling_convention = "linkonce_odr", "fastcc"
            for attribute in ("noinline", "nounwind", "optsize"):
                function.attributes.add(attribute)
            e.builder = ir.IRBuilder(function.append_basic_block())
            found = emit(e, *function.args)
            e.builder.ret_void() if found is None else e.builder.ret(found)
            e.builder = caller
        called = caller.call(function, args, cconv="fastcc")
        return None if returns is types.void else called

    return vector_function(LANES, returns=returns)(emit_call)


class Matrix:
    """Where the entries of a matrix are, with strides in numbers."""

    def __init__(self, e: Emitter, w: Value, at: Value, row: Value, column: Value) -> None:
        self.e, self.w, self.at, self.row, self.column = e, w, at, row, column

    def moved(self, i: Value, j: Value) -> Matrix:
        """Return the part that begins at entry (i, j)."""
        code = self.e.builder
        at = code.add(self.at, code.add(code.mul(i, self.row), code.mul(j, self.column)))
        return Matrix(self.e, self.w, at, self.row, self.column)

    def _place(self, i: int, j: int) -> Value:
        code, at = self.e.builder, self.at
        for step, times in ((self.row, i), (self.column, j)):
            at = code.add(at, code.mul(step, self.e.constant(times))) if times else at
        return at

    def load(self, i: int, j: int) -> Value:
        """Emit the load of an entry."""
        return self.e.load(self.w, self._place(i, j))

    def store(self, value: Value, i: int, j: int) -> None:
        """Emit the store of an entry."""
        self.e.store(value, self.w, self._place(i, j))


def least(e: Emitter, a: Value, b: Value) -> Value:
    """Emit the smaller of two integers."""
    return e.builder.select(e.builder.icmp_signed("<", a, b), a, b)


@contextmanager
def in_steps(e: Emitter, stop: Value, step: Value) -> Iterator[tuple[Value, Value]]:
    """Loop over 0, step, ... below ``stop``; yield the index and how many are left, at most ``step``."""
    with cgutils.for_range_slice(e.builder, e.constant(0), stop, step) as (i, _):
        yield i, least(e, e.builder.sub(stop, i), step)


def cases(e: Emitter, which: Value, emit: dict[int, Callable[[], None]]) -> None:
    """Emit a switch."""
    code = e.builder
    end = code.append_basic_block()
    switch = code.switch(which, end)
    for number, body in emit.items():
        block = code.append_basic_block()
        switch.add_case(e.constant(number), block)
        code.position_at_end(block)
        body()
        code.branch(end)
    code.position_at_end(end)
