"""Products, Cholesky factors and triangular solves of many small matrices, one matrix of each kind per lane.

All matrices of a group lie in one flat buffer of float64. Entry (i, j) of a matrix with c columns that begins at ``at``
has its lanes at ``at + (i * c + j) * LANES``. The first vector of the buffer is zero. Sizes are arguments, so that a
new size compiles nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
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
    "add_outer",
    "block_product",
    "canceled",
    "cholesky",
    "choose",
    "converged",
    "copy",
    "multiply_determinant",
    "product",
    "scale_rows",
    "solve_lower",
    "solve_upper",
    "symmetric_product",
    "symmetrize",
]

LANES = 2 * MACHINE.width
"""Matrices side by side: two registers, so that one hides the latency of the other."""
ZERO = 0
"""Where the zero vector lies."""
_CANCELED = 1e-4  # if less than this fraction of a variance is left by a difference, digits are lost
_STEADY = 4e-16
"""Matrices whose entries change by at most this fraction of the diagonal do not change any more."""

_HEIGHT, _WIDTH = (2, 4) if MACHINE.registers >= 32 else (2, 2)
"""Rows and columns of a tile, whose sums and factors stay in registers."""


def _vector_function(emit: Callable[..., None]) -> Any:
    """Convert ``emit(emitter, *arguments)`` to a function of the arguments that compiled loops can call.

    The loop that calls it stays a function of its own: copies in all callers would only take long to compile.
    """

    @functools.wraps(emit)
    def emit_apart(e: Emitter, *args: Any) -> None:
        e.builder.function.attributes.add("noinline")
        emit(e, *args)

    return vector_function(LANES)(emit_apart)


def _by_size(emit: Callable[..., None], sizes: Sequence[tuple[int, ...]]) -> Any:
    """Convert ``emit(emitter, *size, *arguments)`` to a function of the number of a size and the arguments.

    Every size has an LLVM function of its own. In one function, LLVM would compute addresses for all sizes first.
    """

    def define(e: Emitter, name: str, size: tuple[int, ...], kinds: list[Any]) -> Any:
        function = ir.Function(e.builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        outside, e.builder = e.builder, ir.IRBuilder(function.append_basic_block())
        emit(e, *size, *function.args)
        e.builder.ret_void()
        e.builder = outside
        return function

    def emit_cases(e: Emitter, which: Value, *args: Value) -> None:
        code = e.builder
        code.function.attributes.add("noinline")
        end = code.append_basic_block()
        cases, kinds = code.switch(which, end), [value.type for value in args]
        for number, size in enumerate(sizes):
            name = f"mercer{emit.__name__}{number}"
            function = code.module.globals.get(name) or define(e, name, size, kinds)
            block = code.append_basic_block()
            cases.add_case(e.constant(number), block)
            code.position_at_end(block)
            code.call(function, args)
            code.branch(end)
        code.position_at_end(end)

    names = list(inspect.signature(emit).parameters.values())
    which = inspect.Parameter("which", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = names[1 + len(sizes[0]) :]
    emit_cases.__signature__ = inspect.Signature([names[0], which, *rest])  # type: ignore[attr-defined]
    return vector_function(LANES)(emit_cases)


# -- products --------------------------------------------------------------------------------------------


def _emit_tile(
    e: Emitter, rows: int, columns: int, inner: int, square: bool, w: Value, out: Value, width: Value, start: Value,
    si: Value, sj: Value, a: Value, ai: Value, ak: Value, b: Value, bk: Value, bj: Value, sign: Value,
) -> None:  # fmt: skip
    """Emit ``out = start + sign * a b`` for a tile of known size, or its triangle, without loops."""
    code = e.builder
    bits = e.filled(code.and_(code.bitcast(sign, e.integer), e.constant(-(2**63))), e.words)
    places = [(i, j) for i in range(rows) for j in range(columns) if i >= j or not square]

    def at(base: Value, step: Value, times: int) -> Value:
        return code.add(base, code.mul(step, e.constant(times))) if times else base

    def signed(x: Value) -> Value:
        return code.bitcast(code.xor(code.bitcast(x, e.words), bits), e.vector)

    sums = [e.load(w, at(at(start, si, i), sj, j)) for i, j in places]
    for k in range(inner):
        left = [signed(e.load(w, at(at(a, ak, k), ai, i))) for i in range(rows)]
        right = [e.load(w, at(at(b, bk, k), bj, j)) for j in range(columns)]
        sums = [e.add(total, e.multiply(left[i], right[j])) for total, (i, j) in zip(sums, places, strict=True)]
    for (i, j), value in zip(places, sums, strict=True):
        e.store(value, w, code.add(at(out, width, i), e.constant(j * LANES)))
        if square and i > j:
            e.store(value, w, code.add(at(out, width, j), e.constant(i * LANES)))


_INNER = 4
_TILES = [
    (rows, columns, inner, False) for rows in range(1, _HEIGHT + 1) for columns in range(1, _WIDTH + 1)
    for inner in range(1, _INNER + 1)
]  # fmt: skip
_SQUARE = len(_TILES)
_TILES += [(size, size, inner, True) for size in range(1, _HEIGHT + 1) for inner in range(1, _INNER + 1)]
_COLUMN, _TALL = len(_TILES), 2 * _HEIGHT
_TILES += [(rows, 1, inner, False) for rows in range(1, _TALL + 1) for inner in range(1, _INNER + 1)]
"""Rows, columns, terms of a sum, and whether only a triangle is computed, of a symmetric product.

The last ones are for products of a matrix and a vector.
"""
_tile = _by_size(_emit_tile, _TILES)


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
        1 or -1.
    """
    ai, ak, bk, bj, width = ai * LANES, ak * LANES, bk * LANES, bj * LANES, step * LANES
    si, sj = (0, 0) if start == ZERO else (width, LANES)
    height = _TALL if columns == 1 else _HEIGHT
    for i in range(0, rows, height):
        for j in range(0, columns, _WIDTH):
            which = ((min(rows - i, _HEIGHT) - 1) * _WIDTH + min(columns - j, _WIDTH) - 1) * _INNER - 1
            if columns == 1:
                which = _COLUMN + (min(rows - i, _TALL) - 1) * _INNER - 1
            o, s = out + i * width + j * LANES, start + i * si + j * sj
            p, q = a + i * ai, b + j * bj
            _tile(which + min(inner, _INNER), w, o, width, s, si, sj, p, ai, ak, q, bk, bj, sign)
            for k in range(_INNER, inner, _INNER):
                p, q, next_ = p + _INNER * ak, q + _INNER * bk, which + min(inner - k, _INNER)
                _tile(next_, w, o, width, o, width, LANES, p, ai, ak, q, bk, bj, sign)


@compiled
def symmetric_product(
    w: Floats, out: int, start: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, n: int, inner: int,
    sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``, a symmetric matrix of size n, from its triangle; see `block_product`."""
    for i in range(0, n, _HEIGHT):
        rows = min(n - i, _HEIGHT)
        if i > 0:
            line = i * n * LANES
            begin = ZERO if start == ZERO else start + line
            block_product(w, out + line, begin, n, a + i * ai * LANES, ai, ak, b, bk, bj, rows, inner, i, sign)
            for row in range(i, i + rows):
                for column in range(i):
                    copy(w, out + (column * n + row) * LANES, out + (row * n + column) * LANES, 1)
        o, s, step = out + i * (n + 1) * LANES, ZERO, 0
        if start != ZERO:
            s, step = start + i * (n + 1) * LANES, LANES
        p, q, which = a + i * ai * LANES, b + i * bj * LANES, _SQUARE + (rows - 1) * _INNER - 1
        ui, uk, vk, vj = ai * LANES, ak * LANES, bk * LANES, bj * LANES
        _tile(which + min(inner, _INNER), w, o, n * LANES, s, n * step, step, p, ui, uk, q, vk, vj, sign)
        for k in range(_INNER, inner, _INNER):
            p, q, next_ = p + _INNER * uk, q + _INNER * vk, which + min(inner - k, _INNER)
            _tile(next_, w, o, n * LANES, o, n * LANES, LANES, p, ui, uk, q, vk, vj, sign)


@compiled(inline=True)
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
    """Emit (start - a b) / diagonal: an entry below the diagonal of a factor."""
    e.store(e.multiply(_rest(e, w, start, a, step, b, other, inner), e.load(w, inverse)), w, out)


def _emit_solved(
    e: Emitter, rows: int, columns: int, w: Value, out: Value, b: Value, width: Value, lower: Value, li: Value,
    lk: Value, inverse: Value, next_inverse: Value,
) -> None:  # fmt: skip
    """Emit some columns of the solution of a triangular system of known size, row by row, in registers.

    Strides are negative for an upper triangle, which is solved from the last row.
    """
    code = e.builder

    def at(base: Value, step: Value, times: int, constant: int = 0) -> Value:
        return code.add(code.add(base, code.mul(step, e.constant(times))), e.constant(constant * LANES))

    found: list[list[Value]] = []
    for i in range(rows):
        sums = [e.load(w, at(b, width, i, j)) for j in range(columns)]
        for k, row in enumerate(found):
            left = code.fneg(e.load(w, at(at(lower, li, i), lk, k)))
            sums = [e.add(total, e.multiply(left, x)) for total, x in zip(sums, row, strict=True)]
        factor = e.load(w, at(inverse, next_inverse, i))
        found.append([e.multiply(total, factor) for total in sums])
    for i, row in enumerate(found):
        for j, x in enumerate(row):
            e.store(x, w, at(out, width, i, j))


_ROWS = 4
_solved = _by_size(_emit_solved, [(rows, columns) for rows in range(1, _ROWS + 1) for columns in range(1, _WIDTH + 1)])
_diagonal = _vector_function(_emit_diagonal)
_entry = _vector_function(_emit_entry)


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
    for i in range(0, n, _ROWS):
        rows, here, right, corner = min(n - i, _ROWS), out + i * width, b + i * width, lower + i * n * LANES
        if i > 0:
            block_product(w, here, right, columns, corner, n, 1, out, columns, 1, rows, i, columns, -1.0)
            right = here
        for j in range(0, columns, _WIDTH):
            which = (rows - 1) * _WIDTH + min(columns - j, _WIDTH) - 1
            o, x, diagonal = here + j * LANES, right + j * LANES, corner + i * LANES
            _solved(which, w, o, x, width, diagonal, n * LANES, LANES, inverse + i * LANES, LANES)


@compiled
def solve_upper(
    w: Floats, out: int, lower: int, inverse: int, b: int, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower' out = b``; ``out`` may be ``b``."""
    width = columns * LANES
    for end in range(n, 0, -_ROWS):
        i, rows = max(end - _ROWS, 0), min(end, _ROWS)
        here, right, last = out + i * width, b + i * width, (end - 1) * LANES
        if end < n:
            corner = lower + (end * n + i) * LANES
            block_product(
                w, here, right, columns, corner, 1, n, out + end * width, columns, 1, rows, n - end, columns, -1.0
            )  # fmt: skip
            right = here
        for j in range(0, columns, _WIDTH):
            which = (rows - 1) * _WIDTH + min(columns - j, _WIDTH) - 1
            down = (rows - 1) * width + j * LANES
            _solved(
                which, w, here + down, right + down, -width, lower + last * (n + 1), -LANES, -n * LANES,
                inverse + last, -LANES,
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

    return _vector_function(whole)


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


def _emit_outer_row(
    e: Emitter, w: Value, out: Value, x: Value, sign: Value, a: Value, b: Value, factor: Value, count: Value
) -> None:
    """Emit ``out += factor * (a b + sign * x)`` for a row of matrices."""
    code = e.builder
    left, scale, plus = e.load(w, a), e.load(w, factor), e.filled(sign)
    with cgutils.for_range(code, count) as loop:
        here = code.mul(loop.index, e.constant(LANES))
        value = e.multiply(left, e.load(w, code.add(b, here)))
        value = e.add(value, e.multiply(plus, e.load(w, code.add(x, here))))
        place = code.add(out, here)
        e.store(e.add(e.load(w, place), e.multiply(scale, value)), w, place)


_outer_row = _vector_function(_emit_outer_row)


@compiled
def add_outer(
    w: Floats, out: int, x: int, sign: float, a: int, b: int, factor: int, rows: int, columns: int, lower: bool
) -> None:  # pragma: no cover - compiled
    """Compute ``out += factor * (a b' + sign * x)``, or its lower triangle; ``factor`` is where one vector lies."""
    for i in range(rows):
        at = i * columns * LANES
        _outer_row(w, out + at, x + at, sign, a + i * LANES, b, factor, i + 1 if lower else columns)


@compiled
def symmetrize(w: Floats, a: int, n: int) -> None:  # pragma: no cover - compiled
    """Copy the lower triangle onto the upper one."""
    for i in range(n):
        for j in range(i):
            copy(w, a + (j * n + i) * LANES, a + (i * n + j) * LANES, 1)


# -- checks ----------------------------------------------------------------------------------------------


@compiled
def canceled(w: Floats, after: int, before: int, n: int) -> bool:  # pragma: no cover - compiled
    """Whether digits were lost in the difference of covariances."""
    found = False
    for i in range(n):
        k = i * (n + 1) * LANES
        for lane in range(LANES):
            found |= w[after + k + lane] < _CANCELED * w[before + k + lane]
    return found


@compiled
def converged(w: Floats, after: int, before: int, n: int) -> bool:  # pragma: no cover - compiled
    """Whether positive semi-definite matrices do not change any more."""
    for i in range(n):
        for j in range(i + 1):
            for lane in range(LANES):
                k = (i * n + j) * LANES + lane
                bound = w[after + i * (n + 1) * LANES + lane] + w[after + j * (n + 1) * LANES + lane]
                if not abs(w[after + k] - w[before + k]) <= _STEADY * bound:
                    return False
    return True


# -- determinants ----------------------------------------------------------------------------------------


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


_determinant = _vector_function(_emit_determinant)


@compiled
def multiply_determinant(
    w: Floats, mantissa: int, exponent: int, factor: int, count: int
) -> None:  # pragma: no cover - compiled
    """Multiply the number ``mantissa * 2^exponent`` by ``count`` positive normal numbers; NaN stays NaN."""
    _determinant(w, mantissa, exponent, factor, count)
