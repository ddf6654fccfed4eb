"""Products, Cholesky factors and triangular solves of many small matrices, one matrix of each kind per lane."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value
from mercer.compiled.machine import MACHINE
from mercer.compiled.small_layout import LANES, ZERO, Matrix, cases, in_steps, lane_function, least

_WIDTHS = [4, 4 if MACHINE.registers >= 32 else 2]
"""Columns of tiles of one and of two rows, whose sums and factors stay in registers."""


# -- products --------------------------------------------------------------------------------------------


def _products(minus: bool) -> Any:
    """Make products that are added to what there is, or subtracted from it."""

    def emit_product(
        e: Emitter, w: Value, out: Value, oi: Value, start: Value, si: Value, sj: Value, a: Value, ai: Value, ak: Value,
        b: Value, bk: Value, bj: Value, rows: Value, inner: Value, columns: Value, height: Value, lower: Value,
    ) -> None:  # fmt: skip
        """Emit ``out = start + a b``, or ``start - a b``, in tiles of at most ``height`` rows.

        If ``lower``, emit tiles up to the diagonal, and copies of the lower triangle to the upper one.
        """
        code, zero = e.builder, e.constant(0)
        whole = [
            Matrix(e, w, out, oi, e.constant(LANES)), Matrix(e, w, start, si, sj), Matrix(e, w, a, ai, ak),
            Matrix(e, w, b, bk, bj), Matrix(e, w, out, e.constant(LANES), oi),
        ]  # fmt: skip
        half = code.icmp_signed("!=", lower, zero)

        def tile(tall: int, wide: int, i: Value, j: Value) -> None:
            into, begin, mirrored = (whole[part].moved(i, j) for part in (0, 1, 4))
            left, right = whole[2].moved(i, zero), whole[3].moved(zero, j)
            places = [(r, c) for r in range(tall) for c in range(wide)]

            def terms(k: Value) -> list[Value]:
                here, there = left.moved(zero, k), right.moved(k, zero)
                x, y = [here.load(r, 0) for r in range(tall)], [there.load(0, c) for c in range(wide)]
                x = [code.fneg(value) for value in x] if minus else x
                return [e.multiply(x[r], y[c]) for r, c in places]

            sums = e.loop_sums(len(places), inner, terms, [begin.load(r, c) for r, c in places])
            found = dict(zip(places, sums, strict=True))
            # The last tile of a row ends with the diagonal; what is above it there is written first, and replaced.
            above = [place for place in places if place[1] - (wide - tall) >= place[0]]
            with code.if_then(half):
                for place in above:
                    mirrored.store(found[place], *place)
            for place in places:
                into.store(found[place], *place)
            with code.if_then(half):
                for place in [place for place in places if place not in above]:
                    mirrored.store(found[place], *place)

        with in_steps(e, rows, height) as (i, tall):
            below = least(e, columns, code.add(i, tall))
            stop = code.select(half, below, columns)
            two = code.icmp_signed("==", tall, e.constant(2))
            for number, widest in enumerate(_WIDTHS):
                with (
                    code.if_then(two if number else code.not_(two)),
                    in_steps(e, stop, e.constant(widest)) as (j, wide),
                ):
                    cases(e, wide, {c: functools.partial(tile, number + 1, c, i, j) for c in range(1, widest + 1)})

    return lane_function(emit_product)


_added, _subtracted = _products(False), _products(True)


@compiled
def _multiplied(
    w: Floats, out: int, oi: int, start: int, si: int, sj: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int,
    rows: int, inner: int, columns: int, sign: float, height: int, lower: int,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    if sign > 0.0:
        _added(w, out, oi, start, si, sj, a, ai, ak, b, bk, bj, rows, inner, columns, height, lower)
    else:
        _subtracted(w, out, oi, start, si, sj, a, ai, ak, b, bk, bj, rows, inner, columns, height, lower)


@compiled
def block_product(
    w: Floats, out: int, oi: int, start: int, si: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, rows: int,
    inner: int, columns: int, sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``.

    Parameters
    ----------
    w : ndarray
        The buffer.
    out, oi, start, si : int
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
    sj = 0 if start == ZERO else LANES
    _multiplied(
        w, out, oi * LANES, start, si * sj, sj, a, ai * LANES, ak * LANES, b, bk * LANES, bj * LANES, rows, inner,
        columns, sign, 2, 0,
    )  # fmt: skip


@compiled
def chain(
    w: Floats, x: int, step: int, b: int, bk: int, bj: int, n: int, times: int
) -> None:  # pragma: no cover - compiled
    """Compute ``x_{t+1} += x_t b`` for vectors that lie ``step`` entries apart, one after the other."""
    width, next_ = step * LANES, x + step * LANES
    _multiplied(
        w, next_, width, next_, width, LANES, x, width, LANES, b, bk * LANES, bj * LANES, times, n, n, 1.0, 1, 0
    )  # fmt: skip


@compiled
def symmetric_product(
    w: Floats, out: int, start: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, n: int, inner: int,
    sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``, a symmetric matrix of size n, from its triangle; see `block_product`."""
    sj = 0 if start == ZERO else LANES
    _multiplied(
        w, out, n * LANES, start, n * sj, sj, a, ai * LANES, ak * LANES, b, bk * LANES, bj * LANES, n, inner, n, sign,
        2, 1,
    )  # fmt: skip


@compiled
def product(
    w: Floats, out: int, start: int, a: int, ai: int, ak: int, b: int, bk: int, bj: int, rows: int, inner: int,
    columns: int, sign: float,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute ``out = start + sign * a b``, a matrix without gaps between its rows; see `block_product`."""
    block_product(w, out, columns, start, columns, a, ai, ak, b, bk, bj, rows, inner, columns, sign)


# -- Cholesky factors and solves -------------------------------------------------------------------------


def _root(e: Emitter, x: Value) -> Value:
    """Emit square roots."""
    name = f"llvm.sqrt.v{e.lanes}f64"
    function = e.builder.module.globals.get(name)
    if function is None:
        function = ir.Function(e.builder.module, ir.FunctionType(e.vector, [e.vector]), name=name)
    return e.builder.call(function, [x])


def _emit_cholesky(e: Emitter, w: Value, out: Value, inverse: Value, start: Value, n: Value) -> None:
    """Emit a Cholesky factor, column by column; NaN if the matrix is not positive definite."""
    code, one, zero = e.builder, e.constant(LANES), e.constant(0)
    width = code.mul(n, one)
    lower, full = Matrix(e, w, out, width, one), Matrix(e, w, start, width, one)

    def rest(i: Value, j: Value) -> Value:
        here, there = lower.moved(i, zero), lower.moved(j, zero)

        def terms(k: Value) -> list[Value]:
            return [code.fneg(e.multiply(here.moved(zero, k).load(0, 0), there.moved(zero, k).load(0, 0)))]

        return e.loop_sums(1, j, terms, [full.moved(i, j).load(0, 0)])[0]

    with cgutils.for_range(code, n) as loop:
        j = loop.index
        value = rest(j, j)
        root = _root(e, e.where(value, ">", e.number(0.0), value, e.number(float("nan"))))
        over = code.fdiv(e.number(1.0), root)
        lower.moved(j, j).store(root, 0, 0)
        e.store(over, w, code.add(inverse, code.mul(j, one)))
        with cgutils.for_range_slice(code, code.add(j, e.constant(1)), n, e.constant(1)) as (i, _):
            lower.moved(i, j).store(e.multiply(rest(i, j), over), 0, 0)


def _emit_solved(
    e: Emitter, w: Value, out: Value, b: Value, oi: Value, oj: Value, lower: Value, li: Value, lk: Value,
    inverse: Value, next_: Value, n: Value, columns: Value,
) -> None:  # fmt: skip
    """Emit the solution of a triangular system, row by row; strides are negative for an upper triangle."""
    code, zero = e.builder, e.constant(0)
    found, right = Matrix(e, w, out, oi, oj), Matrix(e, w, b, oi, oj)
    factor = Matrix(e, w, lower, li, lk)

    def some(wide: int, j: Value) -> None:
        with cgutils.for_range(code, n) as loop:
            i = loop.index
            row = factor.moved(i, zero)

            def terms(k: Value) -> list[Value]:
                left, above = code.fneg(row.moved(zero, k).load(0, 0)), found.moved(k, j)
                return [e.multiply(left, above.load(0, c)) for c in range(wide)]

            here = right.moved(i, j)
            sums = e.loop_sums(wide, i, terms, [here.load(0, c) for c in range(wide)])
            scale, into = e.load(w, code.add(inverse, code.mul(i, next_))), found.moved(i, j)
            for c, value in enumerate(sums):
                into.store(e.multiply(value, scale), 0, c)

    with in_steps(e, columns, e.constant(_WIDTHS[0])) as (j, wide):
        cases(e, wide, {c: functools.partial(some, c, j) for c in range(1, _WIDTHS[0] + 1)})


_factored = lane_function(_emit_cholesky)
_solved = lane_function(_emit_solved)


@compiled
def cholesky(w: Floats, out: int, inverse: int, a: int, n: int) -> None:  # pragma: no cover - compiled
    """Factor ``a = out out'``: the lower triangle of ``out``, and its inverse diagonal.

    A lane whose matrix is not positive definite gets NaN.
    """
    _factored(w, out, inverse, a, n)


@compiled
def solve(
    w: Floats, out: int, b: int, oi: int, oj: int, lower: int, inverse: int, upper: bool, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower out = b``, or ``lower' out = b``; ``out`` may be ``b``.

    Entries of both lie ``oi`` apart from row to row, and ``oj`` from column to column.
    """
    if upper:  # from the last row
        last = (n - 1) * LANES
        _solved(
            w, out + last * oi, b + last * oi, -oi * LANES, oj * LANES, lower + last * (n + 1), -LANES, -n * LANES,
            inverse + last, -LANES, n, columns,
        )  # fmt: skip
    else:
        _solved(w, out, b, oi * LANES, oj * LANES, lower, n * LANES, LANES, inverse, LANES, n, columns)


@compiled
def solve_lower(
    w: Floats, out: int, lower: int, inverse: int, b: int, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower out = b``; ``out`` may be ``b``."""
    solve(w, out, b, columns, 1, lower, inverse, False, n, columns)


@compiled
def solve_upper(
    w: Floats, out: int, lower: int, inverse: int, b: int, n: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Solve ``lower' out = b``; ``out`` may be ``b``."""
    solve(w, out, b, columns, 1, lower, inverse, True, n, columns)
