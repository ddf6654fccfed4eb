"""The affine recursion of local alignments, one string against a block of others in SIMD lanes (MK-5d).

It is that of `mercer.compiled.pairs_affine`, with flanks. Before its first match an alignment has a flank of i letters
of s and one of j letters of t, of weight A(i) A(j); after its last match at (i, j), of weight A(n-i) A(m-j). So z of a
cell contains A(i) A(j) in addition, and every match is multiplied by A(n-i) A(m-j) and added to the result: two fused
multiply-adds per cell.

Weights of flanks grow by a factor per letter, beyond the range of floats. Those of the rows of a group have a common
power of two, and so do those of the columns of a strip; the result is a number and an exponent per lane.
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
from mercer.compiled.pairs_affine import Ends, Rows, Strip, emit_rows, filler, prepared

HALVES = 0.5 ** np.arange(1075.0)
"""Powers of one half; all others are zero."""


class _Local(Ends):
    """Flanks of a group of rows."""

    def __init__(
        self, heads: Value, heads_at: Value, head_power: Value, row_in: Value, row_out: Value, tails: Value,
        deltas: Value, strip_number: Value, out_power: Value, total: Value,
    ) -> None:  # fmt: skip
        self.heads, self.heads_at, self.head_power = heads, heads_at, head_power
        self.row_in, self.row_out = row_in, row_out
        self.tails, self.deltas, self.strip_number, self.out_power = tails, deltas, strip_number, out_power
        self.total = total

    def begin(self, e: Strip, now: Value) -> None:
        b = e.builder
        exponent = b.sub(e.whole_number(self.head_power), now)
        most = e.integers(e.bias + 1)  # infinity
        exponent = b.select(b.icmp_signed(">", exponent, most), most, exponent)
        self.e, self.now, self.factor = e, now, e.power(exponent)
        self.sum = cgutils.alloca_once(b, e.vector)
        b.store(e.number(0.0), self.sum)

    def row(self, i: Value) -> None:
        self.weight = self.e.multiply(self.factor, self.e.spread(self.row_in, i))
        self.parts = [self.e.number(0.0)] * 2  # two chains of dependent additions instead of one

    def entered(self, value: Value, c: int) -> Value:
        e = self.e
        return e.add(value, e.multiply(self.weight, e.spread(self.heads, e.builder.add(self.heads_at, e.constant(c)))))

    def matched(self, value: Value, c: int) -> None:
        e = self.e
        tail = e.row(self.tails, e.builder.add(self.heads_at, e.constant(c)))
        self.parts[c % 2] = e.add(self.parts[c % 2], e.multiply(value, tail))

    def row_done(self, i: Value) -> None:
        e = self.e
        here = e.builder.fadd(*self.parts)
        e.builder.store(e.add(e.builder.load(self.sum), e.multiply(here, e.spread(self.row_out, i))), self.sum)

    def done(self) -> None:
        """Add the sum of the group to the result, which has the larger of both exponents."""
        e, b = self.e, self.e.builder
        here = b.load(self.sum)
        delta = b.bitcast(e.row(self.deltas, self.strip_number), e.whole)
        unit = b.add(b.add(self.now, delta), e.whole_number(self.out_power))
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
def _group(lanes: int, strip: int) -> Any:
    """Return the function that processes a group of rows of a strip of columns."""

    @vector_function(lanes, emitter=Strip)
    def group(
        e: Strip, state: Value, profile: Value, strip_at: Value, codes: Value, first: Value, rows: Value,
        edge: Value, exponents: Value, group: Value, gap: Value, target: Value, heads: Value, heads_at: Value,
        head_power: Value, row_in: Value, row_out: Value, tails: Value, deltas: Value, strip_number: Value,
        out_power: Value, total: Value,
    ) -> None:  # fmt: skip
        of = Rows(state, profile, strip_at, codes, first, rows, edge, exponents, group, gap, target)
        ends = _Local(
            heads, heads_at, head_power, row_in, row_out, tails, deltas, strip_number, out_power, total
        )  # fmt: skip
        emit_rows(e, strip, of, ends)

    return group


@functools.cache
def _sweep(lanes: int, strip: int) -> Any:
    """Return the compiled loop over blocks of strings and their strips."""
    group_of_rows, fill_profile = _group(lanes, strip), filler(lanes, strip)
    corner_at, exponent_at, width = 2 * strip * lanes, (2 * strip + 1) * lanes, strip * lanes

    @compiled
    def scaled(run: Floats, power: Any, letters: int, top: int) -> float:  # pragma: no cover - compiled
        """Return the weight of a flank, divided by 2^top."""
        down = top - power[letters]
        return run[letters] * HALVES[down] if down < HALVES.size else 0.0

    @compiled
    def fill_tails(
        run: Floats, power: Any, offsets: Any, members: Any, strips: int, tails: Floats, delta: Any
    ) -> None:  # pragma: no cover - compiled
        """Arrange the weights of flanks after the columns of a block as [strip][column][lane], and their exponents."""
        tails[: strips * width] = 0.0
        delta[: strips * lanes] = 0
        for lane in range(members.size):
            m = offsets[members[lane] + 1] - offsets[members[lane]]
            for k in range(-(-m // strip)):
                last = min((k + 1) * strip, m)
                top = max(power[m - k * strip - 1], power[m - last])
                delta[k * lanes + lane] = top
                for j in range(k * strip + 1, last + 1):
                    tails[(j - 1) * lanes + lane] = scaled(run, power, m - j, top)

    @compiled
    def sweep(
        table: Floats, left: Any, left_offsets: Any, right: Any, right_offsets: Any, order: Any, gap: Any, start: Any,
        target: int, group_rows: int, profile: Floats, state: Floats, edge: Floats, exponents: Floats, powers: Any,
        value: Floats, exponent: Any, run: Floats, power: Any, none: Any, heads: Floats, head_power: Any,
        corners: Floats, row_in: Floats, in_power: Any, row_out: Floats, out_power: Any, tails: Floats, deltas: Floats,
        delta: Any, total: Floats, total_power: Any, group_power: Any,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value and exponent of all pairs."""
        n_codes = table.shape[0]
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            strips = fill_profile(table, right, right_offsets, members, profile)
            fill_tails(run, power, right_offsets, members, strips, tails, delta)
            for i in range(left_offsets.size - 1):
                codes = left[left_offsets[i] : left_offsets[i + 1]]
                n = codes.size
                groups = -(-n // group_rows)
                for group in range(groups):
                    first, last = group * group_rows, min((group + 1) * group_rows, n)
                    out_power[group] = max(power[n - first - 1], power[n - last])
                    for row in range(first, last):
                        row_out[row] = scaled(run, power, n - row - 1, out_power[group])
                        for lane in range(lanes):
                            edge[2 * row * lanes + lane] = 0.0
                            edge[(2 * row + 1) * lanes + lane] = none * row_in[row] * start
                    group_power[group * lanes : (group + 1) * lanes] = in_power[group]
                total[:lanes] = 0.0
                total_power[lanes:] = 0
                for lane in range(members.size):  # no match: one flank
                    m = right_offsets[members[lane] + 1] - right_offsets[members[lane]]
                    total[lane] = run[n] * run[m]
                    total_power[lanes + lane] = power[n] + power[m]
                for k in range(strips):
                    for c in range(strip):
                        state[c * lanes : (c + 1) * lanes] = none * heads[k * strip + c] * start
                    state[width:corner_at] = 0.0
                    state[corner_at:exponent_at] = corners[k] * start
                    powers[exponent_at:] = head_power[k]
                    for group in range(groups):
                        first = group * group_rows
                        rows = min(group_rows, n - first)
                        group_of_rows(
                            state, profile, k * n_codes, codes, first, rows, edge, exponents, group, gap, target,
                            heads, k * strip, target + in_power[group] + head_power[k], row_in, row_out, tails, deltas,
                            k, out_power[group] - target, total,
                        )  # fmt: skip
                for lane in range(members.size):
                    value[i, members[lane]] = total[lane]
                    exponent[i, members[lane]] = total_power[lanes + lane]

    return sweep


def local_kernels(
    table: Floats, left: tuple[Any, Any], right: tuple[Any, Any], gap: float,
    flanks: tuple[float, float, float], precision: str, start: int, rows: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Compute the tilted sum over all local alignments of every pair, as numbers and exponents.

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
    real, lanes, strip = np.dtype(precision), pairs_affine.lanes_of(precision), pairs_affine.STRIP
    of = prepared(table, left, right, real, lanes, rows)
    whole = of.exponent.dtype
    n, m = (int(np.diff(side[1]).max(initial=0)) for side in (left, right))
    groups, strips = -(-n // rows), -(-m // strip)
    none = flanks[0]
    run, power = _table(*flanks, max(groups * rows, strips * strip))
    row_in, in_power = _by_part(run, power, groups, rows)
    heads, head_power = _by_part(run, power, strips, strip)
    before = strip * np.arange(strips)
    corners = none * run[before] * np.exp2(power[before] - head_power)
    state, total = aligned(((2 * strip + 2) * lanes,), real), aligned((2 * lanes,), real)
    deltas = aligned((strips * lanes,), real)
    _sweep(lanes, strip)(
        of.table, *of.left, *of.right, of.order, real.type(gap), real.type(2.0**start), start, rows, of.profile, state,
        of.edge, of.exponents, state.view(whole), of.value, of.exponent, run, power, real.type(none),
        heads.astype(real), head_power, corners.astype(real), row_in.astype(real), in_power, np.empty(n, real),
        np.empty(groups, np.int64), aligned((strips * strip * lanes,), real), deltas, deltas.view(whole), total,
        total.view(whole), of.exponents.view(whole),
    )  # fmt: skip
    return of.value.astype(np.float64), of.exponent.astype(np.float64)


def _table(none: float, first: float, growth: float, longest: int) -> tuple[Floats, Any]:
    """Return mantissas from 1/2 to 1 and exponents of the weights of flanks of 0 .. longest letters."""
    logs = math.log2(first) + math.log2(growth) * np.arange(-1.0, longest)
    logs[0] = math.log2(none)
    power = np.floor(logs) + 1
    return np.exp2(logs - power), power.astype(np.int64)


def _by_part(run: Floats, power: Any, parts: int, size: int) -> tuple[Floats, Any]:
    """Divide the weights of flanks of 1, 2, .. letters by a power of two per part of so many, that of its last."""
    top = power[size * np.arange(1, parts + 1)]
    letters = slice(1, parts * size + 1)
    return run[letters] * np.exp2(power[letters] - np.repeat(top, size)), top
