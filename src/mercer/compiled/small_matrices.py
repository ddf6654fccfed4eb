"""Products, Cholesky factors and triangular solves of many small matrices, one matrix of each kind per lane.

All matrices of a group lie in one flat buffer of float64. Entry (i, j) of a matrix with c columns that begins at ``at``
has its lanes at ``at + (i * c + j) * LANES``. The first vector of the buffer is zero. Sizes are arguments, so that a
new size compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

__all__ = [
    "LANES",
    "ZERO",
    "add",
    "block_product",
    "cholesky",
    "choose",
    "copy",
    "multiply_determinant",
    "product",
    "scale_rows",
    "solve_lower",
    "solve_upper",
    "symmetrize",
]

LANES = 2 * MACHINE.width
"""Matrices side by side: two registers, so that one hides the latency of the other."""
ZERO = 0
"""Where the zero vector lies."""


# -- products --------------------------------------------------------------------------------------------


def _tile(rows: int, columns: int) -> Any:
    """Make ``out = start + sign * a b`` for a tile of ``rows`` times ``columns`` entries; sums grow in registers."""

    def emit(
        e: Emitter, w: Value, out: Value, width: Value, start: Value, si: Value, sj: Value, a: Value, ai: Value,
        ak: Value, b: Value, bk: Value, bj: Value, inner: Value, sign: Value,
    ) -> None:  # fmt: skip
        code = e.builder
        places = [(i, j) for i in range(rows) for j in range(columns)]

        def at(base: Value, step: Value, times: int) -> Value:
            return code.add(base, code.mul(step, e.constant(times)))

        def terms(k: Value) -> list[Value]:
            left = [e.multiply(factor, e.load(w, code.add(at(a, ai, i), code.mul(k, ak)))) for i in range(rows)]
            right = [e.load(w, code.add(at(b, bj, j), code.mul(k, bk))) for j in range(columns)]
            return [e.multiply(left[i], right[j]) for i, j in places]

        factor = e.filled(sign)
        before = [e.load(w, at(at(start, si, i), sj, j)) for i, j in places]
        for (i, j), value in zip(places, e.loop_sums(len(places), inner, terms, before), strict=True):
            e.store(value, w, code.add(at(out, width, i), e.constant(j * LANES)))

    return vector_function(LANES)(emit)


_WIDTH = 4 if MACHINE.registers >= 32 else 2
"""Columns of a tile of two rows: sums, two registers each, and their factors stay in registers."""
_t11, _t12, _t13, _t14 = (_tile(1, columns) for columns in (1, 2, 3, 4))
_t21, _t22, _t23, _t24 = (_tile(2, columns) for columns in (1, 2, 3, 4))


@compiled
def block_product(
    w: Floats, out: int, start: int, step: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, rows: int,
    inner: int, columns: int, sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``.

    Parameters
    ----------
    w : ndarray
        The buffer.
    out, start, step : int
        Where matrices of ``rows`` and ``columns`` begin, and the entries from one row to the next. They may be the
        same; `ZERO` starts from zero.
    a, ai, ak : int
        Entry (i, k) of the left factor lies at ``a + (i * ai + k * ak) * LANES``.
    b, bk, bj : int
        Entry (k, j) of the right factor lies at ``b + (k * bk + j * bj) * LANES``.
    rows, inner, columns : int
        Sizes.
    sign : float
        Factor of the product.
    """
    ai, ak, bk, bj, width = ai * LANES, ak * LANES, bk * LANES, bj * LANES, step * LANES
    si, sj = (0, 0) if start == ZERO else (width, LANES)
    for i in range(0, rows, 2):
        for j in range(0, columns, _WIDTH):
            o, s = out + i * width + j * LANES, start + i * si + j * sj
            p, q, rest = a + i * ai, b + j * bj, min(columns - j, _WIDTH)
            if rows - i >= 2:
                if rest == 4:
                    _t24(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
                elif rest == 3:
                    _t23(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
                elif rest == 2:
                    _t22(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
                else:
                    _t21(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
            elif rest == 4:
                _t14(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
            elif rest == 3:
                _t13(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
            elif rest == 2:
                _t12(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)
            else:
                _t11(w, o, width, s, si, sj, p, ai, ak, q, bk, bj, inner, sign)


@compiled
def product(
    w: Floats, out: int, start: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, rows: int, inner: int,
    columns: int, sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``, a matrix without gaps between its rows; see `block_product`."""
    block_product(w, out, start, columns, a, ai, ak, b, bk, bj, rows, inner, columns, sign)


# -- Cholesky factors and solves -------------------------------------------------------------------------


def _root(e: Emitter, x: Value) -> Value:
    """Emit square roots."""
    name = f"llvm.sqrt.v{e.lanes}f64"
    function = e.builder.module.globals.get(name)
    if function is None:
        function = ir.Function(e.builder.module, ir.FunctionType(e.vector, [e.vector]), name=name)
    return e.builder.call(function, [x])


def _rest(e: Emitter, w: Value, start: Value, a: Value, step: Value, b: Value, other: Value, inner: Value) -> Value:
    """Emit start minus the inner product of a and b, whose entries lie ``step`` and ``other`` apart."""
    code = e.builder

    def terms(k: Value) -> list[Value]:
        return [e.multiply(e.load(w, code.add(a, code.mul(k, step))), e.load(w, code.add(b, code.mul(k, other))))]

    return code.fsub(e.load(w, start), e.loop_sums(1, inner, terms)[0])


def _emit_diagonal(e: Emitter, w: Value, out: Value, inverse: Value, start: Value, row: Value, inner: Value) -> None:
    """Emit a diagonal entry of a Cholesky factor and its inverse; NaN if the matrix is not positive definite."""
    one = e.constant(LANES)
    value = _rest(e, w, start, row, one, row, one, inner)
    root = _root(e, e.where(value, ">", e.number(0.0), value, e.number(float("nan"))))
    e.store(root, w, out)
    e.store(e.builder.fdiv(e.number(1.0), root), w, inverse)


def _emit_entry(
    e: Emitter, w: Value, out: Value, inverse: Value, start: Value, a: Value, step: Value, b: Value, other: Value,
    inner: Value,
) -> None:  # fmt: skip
    """Emit (start - a b) / diagonal: an entry below the diagonal of a factor, or of the solution of a system."""
    e.store(e.multiply(_rest(e, w, start, a, step, b, other, inner), e.load(w, inverse)), w, out)


_diagonal = vector_function(LANES)(_emit_diagonal)
_entry = vector_function(LANES)(_emit_entry)


@compiled
def cholesky(w: Floats, out: int, inverse: int, a: int, n: int) -> None:  # pragma: no cover - compiled
    """Factor ``a = out out'``: the lower triangle of ``out``, and its inverse diagonal.

    A lane whose matrix is not positive definite gets NaN.
    """
    for i in range(n):
        row = out + i * n * LANES
        for j in range(i):
            other = out + j * n * LANES
            _entry(w, row + j * LANES, inverse + j * LANES, a + (i * n + j) * LANES, row, LANES, other, LANES, j)
        _diagonal(w, row + i * LANES, inverse + i * LANES, a + (i * n + i) * LANES, row, i)


@compiled
def solve_lower(
    w: Floats, out: int, lower: int, inverse: int, b: int, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower out = b``; ``out`` may be ``b``."""
    width = columns * LANES
    for i in range(n):
        for j in range(columns):
            at, top = i * width + j * LANES, out + j * LANES
            _entry(w, out + at, inverse + i * LANES, b + at, lower + i * n * LANES, LANES, top, width, i)


@compiled
def solve_upper(
    w: Floats, out: int, lower: int, inverse: int, b: int, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower' out = b``; ``out`` may be ``b``."""
    width = columns * LANES
    for i in range(n - 1, -1, -1):
        column, count = lower + ((i + 1) * n + i) * LANES, n - 1 - i
        for j in range(columns):
            at = i * width + j * LANES
            _entry(
                w, out + at, inverse + i * LANES, b + at, column, n * LANES, out + at + width, width, count
            )  # fmt: skip


# -- entry by entry --------------------------------------------------------------------------------------


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

    return vector_function(LANES)(whole)


_copied = _entries(lambda e, w, a, b, c: e.load(w, a))
_summed = _entries(lambda e, w, a, b, c: e.add(e.load(w, a), e.multiply(e.load(w, b), e.load(w, c))))
_scaled = _entries(lambda e, w, a, b, c: e.multiply(e.load(w, a), e.load(w, c)))
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


@compiled
def scale_rows(
    w: Floats, out: int, a: int, factor: int, rows: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Multiply every row of a matrix by an entry of ``factor``."""
    for i in range(rows):
        at = i * columns * LANES
        _scaled(w, out + at, a + at, ZERO, 0, factor + i * LANES, 0, columns)


@compiled
def symmetrize(w: Floats, a: int, n: int) -> None:  # pragma: no cover - compiled
    """Copy the lower triangle onto the upper one."""
    for i in range(n):
        for j in range(i):
            copy(w, a + (j * n + i) * LANES, a + (i * n + j) * LANES, 1)


def _emit_determinant(e: Emitter, w: Value, mantissa: Value, exponent: Value, factor: Value, count: Value) -> None:
    """Emit mantissa 2^exponent *= product of factors, so that nothing leaves the range of floats."""
    code = e.builder
    cells = [cgutils.alloca_once(code, e.vector) for _ in range(2)]
    for cell, at in zip(cells, (mantissa, exponent), strict=True):
        code.store(e.load(w, at), cell)
    with cgutils.for_range(code, count) as loop:
        value = e.load(w, code.add(factor, code.mul(loop.index, e.constant(LANES))))
        first, power = e.split(value)  # of both factors, since a product could overflow
        both, carry = e.split(e.multiply(code.load(cells[0]), first))
        bad = e.where(value, ">", e.number(0.0), both, e.number(float("nan")), unordered=False)
        code.store(bad, cells[0])
        code.store(code.fadd(code.load(cells[1]), code.fadd(power, carry)), cells[1])
    for cell, at in zip(cells, (mantissa, exponent), strict=True):
        e.store(code.load(cell), w, at)


_determinant = vector_function(LANES)(_emit_determinant)


@compiled
def multiply_determinant(
    w: Floats, mantissa: int, exponent: int, factor: int, count: int
) -> None:  # pragma: no cover - compiled
    """Multiply the number ``mantissa * 2^exponent`` by ``count`` positive normal numbers; NaN stays NaN."""
    _determinant(w, mantissa, exponent, factor, count)
