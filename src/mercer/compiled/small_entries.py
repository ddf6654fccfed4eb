"""Sums, choices, checks and determinants of many small matrices, entry by entry (see `small_layout`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value
from mercer.compiled.small_layout import LANES, ZERO, Matrix, cases, in_steps, lane_function

_CANCELED = 1e-4  # if less than this fraction of a variance is left by a difference, digits are lost
_STEADY = 4e-16
"""Matrices whose entries change by at most this fraction of the diagonal do not change any more."""


def _entries(emit: Callable[..., Value]) -> Any:
    """Make a loop over the entries of matrices; ``emit(e, w, a, b, c)`` gives what is stored."""

    def whole(
        e: Emitter, w: Value, out: Value, a: Value, b: Value, step: Value, c: Value, other: Value, count: Value
    ) -> None:
        code = e.builder
        with cgutils.for_range(code, count) as loop:
            here = code.mul(loop.index, e.constant(LANES))
            second = code.add(b, code.mul(loop.index, step))
            third = code.add(c, code.mul(loop.index, other))
            e.store(emit(e, w, code.add(a, here), second, third), w, code.add(out, here))

    return lane_function(whole)


_copied = _entries(lambda e, w, a, b, c: e.load(w, a))
_summed = _entries(lambda e, w, a, b, c: e.add(e.load(w, a), e.multiply(e.load(w, b), e.load(w, c))))
_chosen = _entries(lambda e, w, a, b, c: e.where(e.load(w, c), ">", e.number(0.0), e.load(w, a), e.load(w, b)))


@compiled
def copy(w: Floats, out: int, a: int, count: int) -> None:  # pragma: no cover - compiled
    """Copy ``count`` entries."""
    _copied(w, out, a, ZERO, 0, ZERO, 0, count)


@compiled
def add(w: Floats, out: int, a: int, b: int, factor: int, count: int) -> None:  # pragma: no cover - compiled
    """Compute ``out = a + factor * b`` for ``count`` entries; ``factor`` is where one vector lies."""
    _summed(w, out, a, b, LANES, factor, 0, count)


@compiled
def choose(w: Floats, out: int, a: int, b: int, mark: int, count: int) -> None:  # pragma: no cover - compiled
    """Copy ``count`` entries of ``a`` in lanes where the vector ``mark`` is positive, else of ``b``."""
    _chosen(w, out, a, b, LANES, mark, 0, count)


def _emit_scaled(e: Emitter, w: Value, out: Value, a: Value, factor: Value, rows: Value, columns: Value) -> None:
    """Emit rows times their factors."""
    code, one = e.builder, e.constant(LANES)
    into, matrix = (Matrix(e, w, at, code.mul(columns, one), one) for at in (out, a))
    with cgutils.for_range(code, rows) as first:
        scale = e.load(w, code.add(factor, code.mul(first.index, one)))
        with cgutils.for_range(code, columns) as second:
            i, j = first.index, second.index
            into.moved(i, j).store(e.multiply(matrix.moved(i, j).load(0, 0), scale), 0, 0)


_scaled = lane_function(_emit_scaled)


@compiled
def scale_rows(
    w: Floats, out: int, a: int, factor: int, rows: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Multiply every row of a matrix by an entry of ``factor``."""
    _scaled(w, out, a, factor, rows, columns)


def _emit_added_times(e: Emitter, w: Value, out: Value, a: Value, count: Value, times: Value) -> None:
    """Emit ``out += a``, so many times."""
    with in_steps(e, count, e.constant(4)) as (i, some):

        def entries(wide: int) -> None:
            zero, one = e.constant(0), e.constant(LANES)
            into, term = (Matrix(e, w, at, one, zero).moved(i, zero) for at in (out, a))
            terms = [term.load(c, 0) for c in range(wide)]
            sums = e.loop_sums(wide, times, lambda k: terms, [into.load(c, 0) for c in range(wide)])
            for c, value in enumerate(sums):
                into.store(value, c, 0)

        cases(e, some, {c: functools.partial(entries, c) for c in range(1, 5)})


_added_times = lane_function(_emit_added_times)


@compiled
def add_times(w: Floats, out: int, a: int, count: int, times: int) -> None:  # pragma: no cover - compiled
    """Add ``count`` entries of ``a`` to those of ``out``, ``times`` times: the same digits as in as many calls."""
    _added_times(w, out, a, count, times)


def _emit_squares(e: Emitter, w: Value, out: Value, x: Value, step: Value, count: Value, times: Value) -> None:
    """Emit ``out += x' x`` for vectors that lie ``step`` apart."""
    code = e.builder
    total = cgutils.alloca_once(code, e.vector)
    code.store(e.load(w, out), total)
    with cgutils.for_range(code, times) as steps, cgutils.for_range(code, count) as entries:
        at = code.add(x, code.add(code.mul(steps.index, step), code.mul(entries.index, e.constant(LANES))))
        value = e.load(w, at)
        code.store(e.add(code.load(total), e.multiply(value, value)), total)
    e.store(code.load(total), w, out)


_squared = lane_function(_emit_squares)


@compiled
def add_squares(w: Floats, out: int, x: int, step: int, count: int, times: int) -> None:  # pragma: no cover - compiled
    """Add the squares of all entries of ``times`` vectors of ``count`` entries that lie ``step`` entries apart."""
    _squared(w, out, x, step * LANES, count, times)


def _emit_symmetrized(e: Emitter, w: Value, a: Value, n: Value) -> None:
    """Emit copies of the lower triangle to the upper one."""
    code = e.builder
    whole = Matrix(e, w, a, code.mul(n, e.constant(LANES)), e.constant(LANES))
    with cgutils.for_range(code, n) as rows, cgutils.for_range(code, rows.index) as columns:
        i, j = rows.index, columns.index
        whole.moved(j, i).store(whole.moved(i, j).load(0, 0), 0, 0)


_symmetrized = lane_function(_emit_symmetrized)


@compiled
def symmetrize(w: Floats, a: int, n: int) -> None:  # pragma: no cover - compiled
    """Copy the lower triangle onto the upper one."""
    _symmetrized(w, a, n)


# -- checks ----------------------------------------------------------------------------------------------


def _lanes_with(e: Emitter, sign: str, x: Value) -> Value:
    """Emit a bit for every lane in which a number is "==" zero, or "!="."""
    found = e.builder.fcmp_ordered(sign, x, e.number(0.0))
    return e.builder.bitcast(found, ir.IntType(e.lanes))


def _emit_canceled(e: Emitter, w: Value, mark: Value, after: Value, before: Value, n: Value) -> Value:
    """Emit one in lanes where a diagonal entry has become small, else zero; return whether there is one."""
    code, found = e.builder, cgutils.alloca_once(e.builder, e.vector)
    code.store(e.number(0.0), found)
    step = code.mul(code.add(n, e.constant(1)), e.constant(LANES))
    with cgutils.for_range(code, n) as loop:
        at = code.mul(loop.index, step)
        left, bound = e.load(w, code.add(after, at)), e.multiply(e.number(_CANCELED), e.load(w, code.add(before, at)))
        code.store(e.where(left, "<", bound, e.number(1.0), code.load(found)), found)
    marks = code.load(found)
    e.store(marks, w, mark)
    return code.icmp_unsigned("!=", _lanes_with(e, "!=", marks), ir.Constant(ir.IntType(LANES), 0))


def _emit_kept(e: Emitter, w: Value, mark: Value, after: Value, before: Value, n: Value) -> Value:
    """Emit one in lanes where no entry has changed, else zero, and the matrix before there; return whether all have."""
    code, one = e.builder, e.constant(LANES)
    width = code.mul(n, one)
    new, old = (Matrix(e, w, at, width, one) for at in (after, before))
    kept = cgutils.alloca_once(code, e.vector)
    code.store(e.number(1.0), kept)
    with cgutils.for_range(code, n) as rows:
        i = rows.index
        own = new.moved(i, i).load(0, 0)
        with cgutils.for_range(code, code.add(i, e.constant(1))) as columns:
            j = columns.index
            bound = e.multiply(e.number(_STEADY), code.fadd(own, new.moved(j, j).load(0, 0)))
            change = code.fsub(new.moved(i, j).load(0, 0), old.moved(i, j).load(0, 0))
            size = code.bitcast(code.and_(code.bitcast(change, e.words), e.word(2**63 - 1)), e.vector)
            code.store(e.where(size, "<=", bound, code.load(kept), e.number(0.0)), kept)
    same = code.load(kept)
    e.store(same, w, mark)
    none = ir.Constant(ir.IntType(LANES), 0)
    with (
        code.if_then(code.icmp_unsigned("!=", _lanes_with(e, "!=", same), none)),
        cgutils.for_range(code, code.mul(n, n)) as loop,
    ):
        at = code.mul(loop.index, one)
        value = e.where(same, ">", e.number(0.0), e.load(w, code.add(before, at)), e.load(w, code.add(after, at)))
        e.store(value, w, code.add(after, at))
    return code.icmp_unsigned("==", _lanes_with(e, "==", same), none)


_canceled = lane_function(_emit_canceled, types.boolean)
_kept = lane_function(_emit_kept, types.boolean)


@compiled
def mark_canceled(w: Floats, mark: int, after: int, before: int, n: int) -> bool:  # pragma: no cover - compiled
    """Mark the lanes in which digits were lost in the difference of covariances; return whether there is one."""
    return _canceled(w, mark, after, before, n)


@compiled
def keep_converged(w: Floats, mark: int, after: int, before: int, n: int) -> bool:  # pragma: no cover - compiled
    """Set positive semi-definite matrices that do not change any more to what they were, and mark their lanes.

    Returns whether no lane changes.
    """
    return _kept(w, mark, after, before, n)


# -- determinants ----------------------------------------------------------------------------------------


def _emit_determinant(
    e: Emitter, w: Value, mantissa: Value, exponent: Value, factor: Value, step: Value, power: Value, count: Value
) -> None:
    """Emit mantissa 2^exponent *= product of factors 2^power, so that nothing leaves the range of floats."""
    code = e.builder
    cells = [cgutils.alloca_once(code, e.vector) for _ in range(2)]
    for cell, at in zip(cells, (mantissa, exponent), strict=True):
        code.store(e.load(w, at), cell)
    more = e.load(w, power)
    with cgutils.for_range(code, count) as loop:
        value = e.load(w, code.add(factor, code.mul(loop.index, step)))
        first, own = e.split(value)  # of both factors, since a product could overflow
        both, carry = e.split(e.multiply(code.load(cells[0]), first))
        bad = e.where(value, ">", e.number(0.0), both, e.number(float("nan")), unordered=False)
        code.store(bad, cells[0])
        code.store(code.fadd(code.load(cells[1]), code.fadd(code.fadd(own, carry), more)), cells[1])
    for cell, at in zip(cells, (mantissa, exponent), strict=True):
        e.store(code.load(cell), w, at)


_determinant = lane_function(_emit_determinant)


@compiled
def multiply_determinant(
    w: Floats, mantissa: int, exponent: int, factor: int, step: int, power: int, count: int
) -> None:  # pragma: no cover - compiled
    """Multiply the number ``mantissa * 2^exponent`` by ``count`` numbers ``factor * 2^power``; NaN stays NaN.

    Factors are positive normal numbers that lie ``step`` entries apart; with 0, they are all the same one. The power
    is that of all of them, and may be `ZERO`.
    """
    _determinant(w, mantissa, exponent, factor, step * LANES, power, count)
