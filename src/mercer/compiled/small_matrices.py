"""Products, Cholesky factors and triangular solves of many small matrices, one matrix of each kind per lane.

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

from mercer._array import Floats
from mercer.compiled.code import compiled, function_key
from mercer.compiled.lanes import Emitter, Value, vector_function
from mercer.compiled.machine import MACHINE

__all__ = [
    "LANES",
    "ZERO",
    "add",
    "add_squares",
    "add_times",
    "block_product",
    "chain",
    "cholesky",
    "choose",
    "copy",
    "keep_converged",
    "mark_canceled",
    "multiply_determinant",
    "product",
    "scale_rows",
    "solve",
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

_WIDTHS = [4, 4 if MACHINE.registers >= 32 else 2]
"""Columns of tiles of one and of two rows, whose sums and factors stay in registers."""


def _vector_function(emit: Callable[..., Value | None], returns: Any = types.void) -> Any:
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


class _Matrix:
    """Where the entries of a matrix are, with strides in numbers."""

    def __init__(self, e: Emitter, w: Value, at: Value, row: Value, column: Value) -> None:
        self.e, self.w, self.at, self.row, self.column = e, w, at, row, column

    def moved(self, i: Value, j: Value) -> _Matrix:
        """Return the part that begins at entry (i, j)."""
        code = self.e.builder
        at = code.add(self.at, code.add(code.mul(i, self.row), code.mul(j, self.column)))
        return _Matrix(self.e, self.w, at, self.row, self.column)

    def _place(self, i: int, j: int) -> Value:
        code, at = self.e.builder, self.at
        for step, times in ((self.row, i), (self.column, j)):
            at = code.add(at, code.mul(step, self.e.constant(times))) if times else at
        return at

    def load(self, i: int, j: int) -> Value:
        return self.e.load(self.w, self._place(i, j))

    def store(self, value: Value, i: int, j: int) -> None:
        self.e.store(value, self.w, self._place(i, j))


def _least(e: Emitter, a: Value, b: Value) -> Value:
    return e.builder.select(e.builder.icmp_signed("<", a, b), a, b)


@contextmanager
def _steps(e: Emitter, stop: Value, step: Value) -> Iterator[tuple[Value, Value]]:
    """Loop over 0, step, ... below ``stop``; yield the index and how many are left, at most ``step``."""
    with cgutils.for_range_slice(e.builder, e.constant(0), stop, step) as (i, _):
        yield i, _least(e, e.builder.sub(stop, i), step)


def _cases(e: Emitter, which: Value, emit: dict[int, Callable[[], None]]) -> None:
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
            _Matrix(e, w, out, oi, e.constant(LANES)), _Matrix(e, w, start, si, sj), _Matrix(e, w, a, ai, ak),
            _Matrix(e, w, b, bk, bj), _Matrix(e, w, out, e.constant(LANES), oi),
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

        with _steps(e, rows, height) as (i, tall):
            below = _least(e, columns, code.add(i, tall))
            stop = code.select(half, below, columns)
            two = code.icmp_signed("==", tall, e.constant(2))
            for number, widest in enumerate(_WIDTHS):
                with code.if_then(two if number else code.not_(two)), _steps(e, stop, e.constant(widest)) as (j, wide):
                    _cases(e, wide, {c: functools.partial(tile, number + 1, c, i, j) for c in range(1, widest + 1)})

    return _vector_function(emit_product)


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
    lower, full = _Matrix(e, w, out, width, one), _Matrix(e, w, start, width, one)

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
    found, right = _Matrix(e, w, out, oi, oj), _Matrix(e, w, b, oi, oj)
    factor = _Matrix(e, w, lower, li, lk)

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

    with _steps(e, columns, e.constant(_WIDTHS[0])) as (j, wide):
        _cases(e, wide, {c: functools.partial(some, c, j) for c in range(1, _WIDTHS[0] + 1)})


_factored = _vector_function(_emit_cholesky)
_solved = _vector_function(_emit_solved)


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
    into, matrix = (_Matrix(e, w, at, code.mul(columns, one), one) for at in (out, a))
    with cgutils.for_range(code, rows) as first:
        scale = e.load(w, code.add(factor, code.mul(first.index, one)))
        with cgutils.for_range(code, columns) as second:
            i, j = first.index, second.index
            into.moved(i, j).store(e.multiply(matrix.moved(i, j).load(0, 0), scale), 0, 0)


_scaled = _vector_function(_emit_scaled)


@compiled
def scale_rows(
    w: Floats, out: int, a: int, factor: int, rows: int, columns: int
) -> None:  # pragma: no cover - compiled
    """Multiply every row of a matrix by an entry of ``factor``."""
    _scaled(w, out, a, factor, rows, columns)


def _emit_added_times(e: Emitter, w: Value, out: Value, a: Value, count: Value, times: Value) -> None:
    """Emit ``out += a``, so many times."""
    with _steps(e, count, e.constant(4)) as (i, some):

        def entries(wide: int) -> None:
            zero, one = e.constant(0), e.constant(LANES)
            into, term = (_Matrix(e, w, at, one, zero).moved(i, zero) for at in (out, a))
            terms = [term.load(c, 0) for c in range(wide)]
            sums = e.loop_sums(wide, times, lambda k: terms, [into.load(c, 0) for c in range(wide)])
            for c, value in enumerate(sums):
                into.store(value, c, 0)

        _cases(e, some, {c: functools.partial(entries, c) for c in range(1, 5)})


_added_times = _vector_function(_emit_added_times)


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


_squared = _vector_function(_emit_squares)


@compiled
def add_squares(w: Floats, out: int, x: int, step: int, count: int, times: int) -> None:  # pragma: no cover - compiled
    """Add the squares of all entries of ``times`` vectors of ``count`` entries that lie ``step`` entries apart."""
    _squared(w, out, x, step * LANES, count, times)


def _emit_symmetrized(e: Emitter, w: Value, a: Value, n: Value) -> None:
    """Emit copies of the lower triangle to the upper one."""
    code = e.builder
    whole = _Matrix(e, w, a, code.mul(n, e.constant(LANES)), e.constant(LANES))
    with cgutils.for_range(code, n) as rows, cgutils.for_range(code, rows.index) as columns:
        i, j = rows.index, columns.index
        whole.moved(j, i).store(whole.moved(i, j).load(0, 0), 0, 0)


_symmetrized = _vector_function(_emit_symmetrized)


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
    new, old = (_Matrix(e, w, at, width, one) for at in (after, before))
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


_canceled = _vector_function(_emit_canceled, types.boolean)
_kept = _vector_function(_emit_kept, types.boolean)


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


_determinant = _vector_function(_emit_determinant)


@compiled
def multiply_determinant(
    w: Floats, mantissa: int, exponent: int, factor: int, step: int, power: int, count: int
) -> None:  # pragma: no cover - compiled
    """Multiply the number ``mantissa * 2^exponent`` by ``count`` numbers ``factor * 2^power``; NaN stays NaN.

    Factors are positive normal numbers that lie ``step`` entries apart; with 0, they are all the same one. The power
    is that of all of them, and may be `ZERO`.
    """
    _determinant(w, mantissa, exponent, factor, step * LANES, power, count)
