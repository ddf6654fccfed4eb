"""The pair recursion of visits, scaled: eight pairs side by side in vector lanes, or one by one for many states (MK-5).

A cell (i, j) holds the weights S(i, j) of entering every state once i symbols of s and j of t are written, and a power
of two of its own, so nothing underflows whatever the lengths. With G the weights of having been there,

    G(i, j) = S(i-1, j) o E[s_i] o eps + S(i, j-1) o eps o E[t_j] + S(i-1, j-1) o E[s_i] o E[t_j],    S = G W.

Cells of an antidiagonal do not need each other, so that a processor works on several at once. Swapping s and t swaps
two addends, and changes no bit. A result is *sound* where no weight that is possible came near the end of the
floating range; `mercer.models._pairs.visits_rescue` does the others.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["FAR", "NEVER", "lane_sweep", "plain_sweep", "power", "profile"]

_LOG_2 = math.log(2.0)
NEVER = -1e300
"""Exponent of a cell that cannot be reached."""
FAR = 200.0
"""Neighbours that differ by more powers of two than this make a result doubtful."""


def power(e: Emitter, exponent: Value) -> Value:
    """Raise two to whole numbers, -1000 at least."""
    from llvmlite import ir

    b, integers = e.builder, ir.VectorType(e.integer, LANES)
    # Adding this number moves a whole number into the lowest bits.
    moved = b.fadd(e.at_least(exponent, -1000.0), e.number(1.5 * 2.0**52))
    bits = b.add(b.bitcast(moved, integers), ir.Constant(integers, [1023] * LANES))
    return b.bitcast(b.shl(bits, ir.Constant(integers, [52] * LANES)), e.vector)


@intrinsic(prefer_literal=True)
def _cell(
    typing: Any, n: Any, new: Any, before: Any, earlier: Any, i: Any, left: Any, right: Any, j: Any, silent: Any,
    step: Any, record: Any,
) -> Any:  # fmt: skip
    """Compute cell (i, j): its neighbours stand at i and i + 1 of ``before`` and at i of ``earlier``."""

    def emit(
        e: Emitter, n: int, new: Value, before: Value, earlier: Value, i: Value, left: Value, right: Value, j: Value,
        silent: Value, step: Value, record: Value,
    ) -> None:  # fmt: skip
        b, zero, width = e.builder, e.number(0.0), (n + 1) * LANES
        places = [e.offset(e.constant(0), i, width), e.offset(e.constant(0), i, width, width)]
        cells = [(before, places[0]), (before, places[1]), (earlier, places[0])]  # (i-1, j), (i, j-1), (i-1, j-1)
        exponents = [e.load(array, b.add(place, e.constant(n * LANES))) for array, place in cells]
        top = e.larger(exponents[2], e.larger(exponents[0], exponents[1]))
        low = e.load(record, e.constant(0))
        factors = []
        for exponent in exponents:
            distance = b.fsub(exponent, top)
            factors.append(power(e, distance))
            reached = e.where(exponent, ">", e.number(NEVER), distance, zero)
            low = e.where(reached, "<", e.number(-FAR), e.number(-1.0), low)
        s, t = e.offset(e.constant(0), i, n * LANES), e.offset(e.constant(0), j, n * LANES)
        sums: list[Value] = []
        for a in range(n):
            shift, nothing = e.constant(a * LANES), e.spread(silent, e.constant(a))
            here, there = e.load(left, b.add(s, shift)), e.load(right, b.add(t, shift))
            up, beside, across = (
                b.fmul(e.load(array, b.add(place, shift)), factor)
                for (array, place), factor in zip(cells, factors, strict=True)
            )
            # Rounded one by one, never fused: both sides of the sum are treated alike.
            single = b.fadd(b.fmul(up, b.fmul(here, nothing)), b.fmul(beside, b.fmul(there, nothing)))
            weight = b.fadd(single, b.fmul(across, b.fmul(here, there)))
            terms = [e.multiply(weight, e.spread(step, e.constant(a * n + c))) for c in range(n)]
            sums = [e.add(x, y) for x, y in zip(sums, terms, strict=True)] if sums else terms
        largest = functools.reduce(e.larger, sums)
        _, exponent = e.split(largest)
        possible = b.fcmp_ordered(">", largest, zero)
        scale = power(e, b.select(possible, b.fsub(zero, exponent), zero))
        one = e.number(1.0)
        place = places[1]
        for a, value in enumerate(sums):
            value = b.fmul(value, scale)
            low = e.where(e.where(value, ">", zero, value, one), "<", low, value, low)
            e.store(value, new, b.add(place, e.constant(a * LANES)))
        e.store(b.select(possible, b.fadd(top, exponent), e.number(NEVER)), new, b.add(place, e.constant(n * LANES)))
        e.store(low, record, e.constant(0))

    return operation(n, (new, before, earlier, i, left, right, j, silent, step, record), emit)


@compiled
def profile(codes: Floats, begin: Floats, length: Floats, longest: int, table: Floats) -> Floats:  # pragma: no cover
    """Lay the emissions of eight strings out as [place][state][lane]; place 0 and what is beyond the end are zero."""
    n = table.shape[1]
    out = np.zeros((longest + 1) * n * LANES)
    for lane in range(LANES):
        for i in range(length[lane]):
            code = codes[begin[lane] + i]
            for a in range(n):
                out[((i + 1) * n + a) * LANES + lane] = table[code, a]
    return out


@compiled
def _closing(
    before: Floats, earlier: Floats, i: int, s: Floats, t: Floats, lane: int, silent: Floats, stop: Floats
) -> float:  # pragma: no cover - compiled
    """Return the logarithm of G(i, j) times the weight of the end, for one lane."""
    n = len(stop)
    width = (n + 1) * LANES
    up, beside = before[i * width + lane :], before[(i + 1) * width + lane :]
    across = earlier[i * width + lane :]
    top = max(up[n * LANES], beside[n * LANES], across[n * LANES])
    if top == NEVER:
        return -np.inf
    factors = [2.0 ** max(cell[n * LANES] - top, -1000.0) for cell in (up, beside, across)]
    total = 0.0
    for a in range(n):
        here, there, k = s[a * LANES + lane], t[a * LANES + lane], a * LANES
        single = up[k] * factors[0] * (here * silent[a]) + beside[k] * factors[1] * (there * silent[a])
        total += (single + across[k] * factors[2] * (here * there)) * stop[a]
    return math.log(total) + top * _LOG_2 if total > 0.0 else -np.inf


@functools.cache
def lane_sweep(n: int) -> Any:
    """Return the compiled loop for ``n`` states.

    It takes groups of eight pairs ``slots (G, 8)``, -1 where there is none; who is in every pair ``first``, ``second
    (P,)``; both sides' codes and offsets; the emission ``table (n_codes, n)``; silent ``(n,)``; the eliminated start
    ``(n,)``, step ``(n, n)`` flat, stop ``(n,)`` and the logarithm of what two empty strings have. It writes
    logarithms and the smallest weight that was met, ``(P,)``; the latter is negative where a result is doubtful.
    """

    @compiled
    def sweep(
        slots: Floats, first: Floats, second: Floats, codes: Floats, offsets: Floats, other: Floats, ends: Floats,
        table: Floats, silent: Floats, start: Floats, step: Floats, stop: Floats, empty: float,
        value: Floats, lowest: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        width = (n + 1) * LANES
        record = np.empty(LANES)
        for g in range(len(slots)):
            begin, length = np.zeros((2, LANES), np.int64), np.zeros((2, LANES), np.int64)
            for lane in range(LANES):
                pair = slots[g, lane]
                if pair >= 0:
                    begin[0, lane], begin[1, lane] = offsets[first[pair]], ends[second[pair]]
                    length[0, lane] = offsets[first[pair] + 1] - offsets[first[pair]]
                    length[1, lane] = ends[second[pair] + 1] - ends[second[pair]]
            tall, wide = length[0].max(), length[1].max()
            left = profile(codes, begin[0], length[0], tall, table)
            right = profile(other, begin[1], length[1], wide, table)
            cells = np.zeros((3, (tall + 2) * width))
            for k in range(3):
                for i in range(tall + 2):
                    cells[k, i * width + n * LANES : (i + 1) * width] = NEVER
            smallest = 1.0
            for a in range(n):
                cells[0, width + a * LANES : width + (a + 1) * LANES] = start[a]
                if start[a] > 0.0:
                    smallest = min(smallest, start[a])
            cells[0, width + n * LANES : 2 * width] = 0.0
            record[:] = smallest
            for d in range(tall + wide + 1):
                new, before, earlier = cells[d % 3], cells[(d + 2) % 3], cells[(d + 1) % 3]
                if d > 0:
                    for i in range(max(0, d - wide), min(tall, d) + 1):
                        _cell(n, new, before, earlier, i, left, right, d - i, silent, step, record)
                for lane in range(LANES):
                    pair, i, j = slots[g, lane], length[0, lane], length[1, lane]
                    if pair >= 0 and i + j == d:
                        if d == 0:
                            value[pair] = empty
                        else:
                            s, t = left[i * n * LANES :], right[j * n * LANES :]
                            value[pair] = _closing(before, earlier, i, s, t, lane, silent, stop)
                        lowest[pair] = record[lane]

    return sweep


@compiled
def plain_sweep(
    first: Floats, second: Floats, codes: Floats, offsets: Floats, other: Floats, ends: Floats,
    table: Floats, silent: Floats, start: Floats, step: Floats, stop: Floats, empty: float,
    value: Floats, lowest: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute pairs one by one, for models of many states; arguments as those of `lane_sweep`."""
    for pair in range(len(first)):
        s = codes[offsets[first[pair]] : offsets[first[pair] + 1]]
        t = other[ends[second[pair]] : ends[second[pair] + 1]]
        value[pair], lowest[pair] = _one_pair(s, t, table, silent, start, step, stop, empty)


@compiled
def _one_pair(
    s: Floats, t: Floats, table: Floats, silent: Floats, start: Floats, step: Floats, stop: Floats, empty: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Return the logarithm of one pair, and the smallest weight that was met."""
    n = len(start)
    value, low = empty, _smallest(start, 1.0)
    weights, exponents = np.zeros((2, len(t) + 1, n)), np.full((2, len(t) + 1), NEVER)
    g, sums, nobody = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(len(s) + 1):
        new, old = i % 2, 1 - i % 2
        for j in range(len(t) + 1):
            if i + j == 0:
                weights[0, 0], exponents[0, 0] = start, 0.0
                continue
            here, there, up, beside, across = nobody, nobody, nobody, nobody, nobody
            high, near, far = NEVER, NEVER, NEVER
            if i > 0:
                here, up, high = table[s[i - 1]], weights[old, j], exponents[old, j]
            if j > 0:
                there, beside, near = table[t[j - 1]], weights[new, j - 1], exponents[new, j - 1]
            if i > 0 and j > 0:
                across, far = weights[old, j - 1], exponents[old, j - 1]
            top = max(high, near, far)
            for exponent in (high, near, far):
                if exponent > NEVER and exponent < top - FAR:
                    low = -1.0
            x, y = 2.0 ** max(high - top, -1000.0), 2.0 ** max(near - top, -1000.0)
            z = 2.0 ** max(far - top, -1000.0)
            for a in range(n):
                single = up[a] * x * (here[a] * silent[a]) + beside[a] * y * (there[a] * silent[a])
                g[a] = single + across[a] * z * (here[a] * there[a])
            if i == len(s) and j == len(t):
                value = _logarithm(g, stop, top)
            exponents[new, j] = _onward(g, step, top, sums, weights[new, j])
            low = _smallest(weights[new, j], low)
    return value, low


@compiled
def _smallest(weights: Floats, low: float) -> float:  # pragma: no cover - compiled
    """Return the smallest of ``low`` and the weights that are possible."""
    for weight in weights:
        if weight > 0.0:
            low = min(low, weight)
    return low


@compiled
def _onward(g: Floats, step: Floats, top: float, sums: Floats, out: Floats) -> float:  # pragma: no cover - compiled
    """Write S = G W relative to its largest weight; return its exponent."""
    n = len(g)
    sums[:] = 0.0
    for a in range(n):
        if g[a] > 0.0:
            for c in range(n):
                sums[c] += g[a] * step[a * n + c]
    largest = sums.max()
    if largest == 0.0:
        out[:] = 0.0
        return NEVER
    exponent = math.frexp(largest)[1]
    scale = 2.0**-exponent
    for c in range(n):
        out[c] = sums[c] * scale
    return top + exponent


@compiled
def _logarithm(g: Floats, stop: Floats, top: float) -> float:  # pragma: no cover - compiled
    """Return the logarithm of what ends here."""
    total = 0.0
    for a in range(len(g)):
        total += g[a] * stop[a]
    return math.log(total) + top * _LOG_2 if total > 0.0 else -np.inf
