"""The affine recursion of local alignments, one string against a block of others in SIMD lanes (MK-5d).

It is that of `mercer.compiled.pairs_affine` with flanks. An alignment whose first match is at (i+1, j+1) has a flank of
i letters of s and one of j letters of t before it, of weight A(i) B(j); one whose last match is at (i, j) has flanks of
weight A(n-i) B(m-j) after it. Here numbers of cell (i, j) are divided by e^i and f^j, e and f the probabilities that a
gap and a flank go on. Then B is constant, except for a flank without letters, and

    y(i,j+1) = d (y(i,j) + G u(i,j)) + (1-d) A(i) B,    d = e/f,

contains A(i) B, so that z does: a flank costs one fused multiply-add. The result is the sum over all matches, times
their flanks, which costs a sum.

A(i) grows by a factor per letter, beyond the range of floats: the weights of the rows of a group have a common power of
two. From strip to strip, runs of gaps decrease by d per column, and so may exponents. The result is a number and an
exponent per lane.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba.core import cgutils

from mercer._array import Floats
from mercer.compiled import pairs_affine
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Value, aligned, vector_function
from mercer.compiled.machine import MACHINE
from mercer.compiled.pairs_affine import Ends, Rows, Strip, emit_rows, filler, prepared

STRIP = pairs_affine.STRIP if MACHINE.registers >= 32 else 3
"""Number of columns of a strip: flanks take registers, too, and numbers that do not fit would go through memory."""
HALVES = 0.5 ** np.arange(1075.0)
"""Powers of one half; all others are zero."""


class _Local(Ends):
    """Flanks of a group of rows.

    ``fall`` is the number of powers of two by which the exponent may decrease from strip to strip, ``decay`` d, and
    ``share`` (1-d) B. ``entry`` is the exponent of the weights ``row_in`` of flanks before matches, ``leave`` that of
    the weights ``row_out`` after them; ``tails`` contains factors of matches, if strings end in this strip.
    """

    def __init__(
        self, fall: Value, decay: Value, share: Value, row_in: Value, entry: Value, row_out: Value, leave: Value,
        back: Value, total: Value, tails: Value = None, tails_at: Value = None,
    ) -> None:  # fmt: skip
        self.fall, self.decay, self.share, self.total = fall, decay, share, total
        self.row_in, self.entry, self.row_out, self.leave = row_in, entry, row_out, leave
        self.back, self.tails, self.tails_at = back, tails, tails_at
        self.here: Value = None

    def neighbor(self, e: Strip, exponent: Value) -> Value:
        return e.builder.sub(exponent, e.whole_number(self.fall))

    def begin(self, e: Strip, of: Rows, now: Value) -> None:
        super().begin(e, of, now)
        b = e.builder
        self.now, self.less = now, e.filled(self.decay)
        self.opened = b.fmul(self.less, self.weight)
        exponent = b.sub(e.whole_number(self.entry), now)
        most = e.integers(e.bias + 1)  # infinity
        scale = e.power(b.select(b.icmp_signed(">", exponent, most), most, exponent))
        self.factor = b.fmul(scale, e.filled(self.share))
        self.sum = cgutils.alloca_once(b, e.vector)
        b.store(e.number(0.0), self.sum)

    def row(self, i: Value) -> None:
        self.entered = self.e.builder.fmul(self.factor, self.e.spread(self.row_in, i))

    def matched(self, value: Value, c: int) -> None:
        e, add = self.e, self.e.builder.fadd
        if self.tails is not None:
            add = e.add
            value = e.multiply(value, e.row(self.tails, e.builder.add(self.tails_at, e.constant(c))))
        self.here = value if c == 0 else add(self.here, value)

    def next_run(self, y: Value, closed: Value, c: int) -> Value:
        e, less, opened = self.e, self.less, self.opened
        if MACHINE.registers < 32:
            # Copies of constants in memory, one per column, because there are not enough registers for all of them.
            less, opened = (e.row(self.total, e.constant(2 + 2 * c + k)) for k in range(2))
        # What enters does not wait for y: one fused multiply-add per column is in sequence.
        return e.add(e.multiply(less, y), e.add(e.multiply(opened, closed), self.entered))

    def row_done(self, i: Value) -> None:
        e, b = self.e, self.e.builder
        b.store(e.add(b.load(self.sum), e.multiply(self.here, e.spread(self.row_out, i))), self.sum)

    def done(self) -> None:
        """Add the sum of the group to the result, which has the larger of both exponents."""
        e, b = self.e, self.e.builder
        here, unit = b.fmul(b.load(self.sum), e.filled(self.back)), b.add(self.now, e.whole_number(self.leave))
        value, old = e.row(self.total, e.constant(0)), b.bitcast(e.row(self.total, e.constant(1)), e.whole)
        some = b.fcmp_unordered(">", here, e.number(0.0))  # true for NaN, which the result must become
        new = e.most(old, b.select(some, b.add(unit, e.exponent_of(here)), old))
        for factor in e.powers(b.sub(old, new)):
            value = b.fmul(value, factor)
        for factor in e.powers(b.select(some, b.sub(unit, new), e.integers(0))):
            here = b.fmul(here, factor)
        e.put(b.fadd(value, here), self.total, e.constant(0))
        e.put(b.bitcast(new, e.vector), self.total, e.constant(1))


@functools.cache
def _groups(lanes: int, strip: int) -> tuple[Any, Any]:
    """Return the functions that process a group of rows of a strip: all flanks are alike, or some strings end there."""

    @vector_function(lanes, emitter=Strip)
    def inner(
        e: Strip, state: Value, profile: Value, strip_at: Value, codes: Value, first: Value, rows: Value,
        edge: Value, exponents: Value, group: Value, gap: Value, target: Value, fall: Value, decay: Value,
        share: Value, row_in: Value, entry: Value, row_out: Value, leave: Value, back: Value, total: Value,
    ) -> None:  # fmt: skip
        of = Rows(state, profile, strip_at, codes, first, rows, edge, exponents, group, gap, target)
        emit_rows(e, strip, of, _Local(fall, decay, share, row_in, entry, row_out, leave, back, total))

    @vector_function(lanes, emitter=Strip)
    def last(
        e: Strip, state: Value, profile: Value, strip_at: Value, codes: Value, first: Value, rows: Value,
        edge: Value, exponents: Value, group: Value, gap: Value, target: Value, fall: Value, decay: Value,
        share: Value, row_in: Value, entry: Value, row_out: Value, leave: Value, back: Value, total: Value,
        tails: Value, tails_at: Value,
    ) -> None:  # fmt: skip
        of = Rows(state, profile, strip_at, codes, first, rows, edge, exponents, group, gap, target)
        emit_rows(e, strip, of, _Local(fall, decay, share, row_in, entry, row_out, leave, back, total, tails, tails_at))

    return inner, last


@functools.cache
def _sweep(lanes: int, strip: int) -> Any:
    """Return the compiled loop over blocks of strings and their strips."""
    (inner_rows, last_rows), fill_profile = _groups(lanes, strip), filler(lanes, strip)
    corner_at, exponent_at, width = 2 * strip * lanes, (2 * strip + 1) * lanes, strip * lanes

    @compiled
    def fill_tails(
        offsets: Any, members: Any, strips: int, end: Any, tails: Floats
    ) -> int:  # pragma: no cover - compiled
        """Arrange weights of matches as [strip][column][lane]: ``end`` in the last column of a string, 1 before it.

        Return the number of strips before the first string ends.
        """
        tails[: strips * width] = 1.0
        whole = strips
        for lane in range(members.size):
            m = offsets[members[lane] + 1] - offsets[members[lane]]
            if m > 0:
                whole = min(whole, (m - 1) // strip)
                tails[(m - 1) * lanes + lane] = end
        return whole

    @compiled
    def sweep(
        table: Floats, left: Any, left_offsets: Any, right: Any, right_offsets: Any, order: Any, gap: Any, start: Any,
        target: int, group_rows: int, profile: Floats, state: Floats, edge: Floats, exponents: Floats, powers: Any,
        value: Floats, exponent: Any, run: Floats, power: Any, none: Any, some: Any, some_power: int, decay: Any,
        falls: Any, heads: Floats, shares: Floats, backs: Floats, even: bool, row_in: Floats,
        in_power: Any, row_out: Floats, tails: Floats, total: Floats,
        total_power: Any, group_power: Any,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value and exponent of all pairs.

        Weights of flanks are run 2^power of l letters of s; those of t are ``none`` without letters and ``some`` with
        any, times 2^some_power. ``heads``, ``shares`` and ``backs`` are B, (1-d) B and B / some in every strip: they
        correct for the rounding of ``decay``.
        """
        n_codes = table.shape[0]
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            strips = fill_profile(table, right, right_offsets, members, profile)
            whole = strips if even else fill_tails(right_offsets, members, strips, none / some, tails)
            for i in range(left_offsets.size - 1):
                codes = left[left_offsets[i] : left_offsets[i + 1]]
                n = codes.size
                groups = -(-n // group_rows)
                for row in range(n):
                    for lane in range(lanes):
                        edge[2 * row * lanes + lane] = row_in[row] * some * start
                        edge[(2 * row + 1) * lanes + lane] = row_in[row] * none * start
                for group in range(groups):
                    group_power[group * lanes : (group + 1) * lanes] = in_power[group] + some_power
                total[:lanes] = 0.0
                total_power[lanes : 2 * lanes] = 0
                for lane in range(members.size):  # no match: one flank
                    m = right_offsets[members[lane] + 1] - right_offsets[members[lane]]
                    total[lane] = run[n] * (some if m > 0 else none)
                    total_power[lanes + lane] = power[n] + some_power
                for k in range(strips):
                    state[:width] = run[0] * heads[k] * start
                    state[width:corner_at] = 0.0
                    state[corner_at:exponent_at] = run[0] * (heads[k] if k > 0 else none) * start
                    powers[exponent_at:] = power[0] + some_power
                    for group in range(groups):
                        first = group * group_rows
                        last = min(first + group_rows, n)
                        leave = max(power[n - first - 1], power[n - last])
                        if k == 0:
                            for row in range(first, last):
                                down = leave - power[n - row - 1]
                                row_out[row] = run[n - row - 1] * some * (HALVES[down] if down < HALVES.size else 0.0)
                        leave += some_power - target
                        entry = target + in_power[group] + some_power
                        if k < whole:
                            inner_rows(
                                state, profile, k * n_codes, codes, first, last - first, edge, exponents, group, gap,
                                target, falls[k], decay, shares[k], row_in, entry, row_out, leave, backs[k], total,
                            )  # fmt: skip
                        else:
                            last_rows(
                                state, profile, k * n_codes, codes, first, last - first, edge, exponents, group, gap,
                                target, falls[k], decay, shares[k], row_in, entry, row_out, leave, backs[k], total,
                                tails, k * strip,
                            )  # fmt: skip
                for lane in range(members.size):
                    value[i, members[lane]] = total[lane]
                    exponent[i, members[lane]] = total_power[lanes + lane]

    return sweep


def local_kernels(
    table: Floats, left: tuple[Any, Any], right: tuple[Any, Any], gap: float,
    flanks: tuple[float, float, float], precision: str, start: int, rows: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Compute the sum over all local alignments of every pair, as numbers and exponents.

    Parameters
    ----------
    table, left, right, gap, precision, start, rows
        As in `mercer.compiled.pairs_affine.lane_kernels`.
    flanks : tuple of float
        Tilted weights of a flank of no letters and of one letter, and the factor of each further letter, at least 1.

    Returns
    -------
    value, exponent : ndarray of shape (I, J)
        The sum is value 2^exponent. Infinite or NaN where the numbers left the floating-point range.
    """
    real, lanes, strip = np.dtype(precision), pairs_affine.lanes_of(precision), STRIP
    none, first, growth = flanks
    decay = real.type(1 / growth)
    of = prepared(table * decay, left, right, real, lanes, strip, rows)
    whole = of.exponent.dtype
    n, m = (int(np.diff(side[1]).max(initial=0)) for side in (left, right))
    groups = -(-n // rows)
    run, power = _table(*flanks, groups * rows)
    in_power = power[rows * np.arange(1, groups + 1)]
    row_in = run[1:] * np.exp2(power[1:] - np.repeat(in_power, rows))
    some, some_power = math.frexp(first / growth)
    even = abs(none - first / growth) <= 4 * np.finfo(float).eps * none
    none = math.ldexp(none, -some_power)
    state, total = aligned(((2 * strip + 2) * lanes,), real), aligned(((2 + 2 * strip) * lanes,), real)
    total[2 * lanes :].reshape(strip, 2, lanes)[:] = np.array([decay, decay * real.type(gap)])[:, None]
    # Weights of flanks of t are constant up to the rounding of decay.
    strips = -(-m // strip)
    heads = (growth * float(decay)) ** (strip * np.arange(strips))
    steps = np.floor(strip * math.log2(growth) * np.arange(-1.0, strips)).astype(np.int64)
    falls = np.where(np.arange(strips) > 0, np.diff(steps), 0)
    _sweep(lanes, strip)(
        of.table, *of.left, *of.right, of.order, real.type(gap), real.type(2.0**start), start, rows, of.profile, state,
        of.edge, of.exponents, state.view(whole), of.value, of.exponent, run, power, real.type(none), real.type(some),
        some_power, decay, falls, (some * heads).astype(real), (some * heads * (1 - float(decay))).astype(real),
        (1 / heads).astype(real), even, row_in.astype(real), in_power, np.empty(n, real),
        aligned((strips * strip * lanes,), real), total, total.view(whole), of.exponents.view(whole),
    )  # fmt: skip
    return of.value.astype(np.float64), of.exponent + np.diff(right[1]) * math.log2(growth)


def _table(none: float, first: float, growth: float, longest: int) -> tuple[Floats, Any]:
    """Return mantissas from 1/2 to 1 and exponents of the weights of flanks of 0 .. longest letters."""
    logs = math.log2(first) + math.log2(growth) * np.arange(-1.0, longest)
    logs[0] = math.log2(none)
    power = np.floor(logs) + 1
    return np.exp2(logs - power), power.astype(np.int64)
