"""Sums over all pairs of points of two sets, of base kernels exp(-c |x - y|^2) or other functions of the distance.

Distances are summed from differences in registers and no intermediate result of a pair of points is stored, so that
nothing cancels and no table is needed. Every pair of sets is summed separately: its bits do not depend on its
neighbors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer._rescue import rescued
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.layout import blocks, to_lanes
from mercer.compiled.machine import MACHINE

LANES = MACHINE.width
"""Number of points of the right side in one vector."""
ROWS = 4 if LANES == 8 else 6
"""Number of points of the left side that are computed together: they share loads and hide latency.

Processors issue more vector_functions at once on narrow vectors than on wide ones.
"""
SUM, NEAREST, TWO_SUMS, WEIGHTED = 1, 2, 3, 4
"""The sum of 2^t, the smallest squared distance, the sums of 2^t and of its square, the sum of 2^t <v, w>."""
_SMALLEST = {SUM: -1020.0, TWO_SUMS: -500.0, WEIGHTED: -1020.0}
"""Smaller exponents are raised to this: such terms are below rounding."""
LOST = 2.0**-900
"""Sums below this have lost terms by underflow, and are recomputed relative to their largest term."""
LOG2_E = 1 / math.log(2)


# -- layout ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PointSets:
    """Sets of points, with or without a vector of weights each, in blocks of rows and in groups of lanes.

    Padding points of the last block of a set have zero weights, or are infinitely far away.
    """

    points: tuple[Floats, Floats]
    """Blocks of points ``(B, ROWS, d)`` and groups ``(G, d, LANES)``, flat."""
    weights: tuple[Floats, Floats]
    """Weights in the same layout, m per point; empty without weights."""
    widths: tuple[int, int]
    """Numbers d of coordinates and m of weights of a point."""
    row_at: Floats
    """First block of every set, ``(N,)`` int."""
    row_count: Floats
    """Number of blocks of every set."""
    lane_at: Floats
    """First group of every set."""
    lane_count: Floats
    """Number of groups of every set."""

    @classmethod
    def of(cls, points: Floats, offsets: Floats, weights: Floats | None = None) -> Self:
        """Arrange points ``(T, d)`` and weights ``(T, m)``, set i at ``offsets[i]:offsets[i + 1]``."""
        weights = np.empty((len(points), 0)) if weights is None else weights
        widths = points.shape[1], weights.shape[1]
        sides, places = [], []
        for values, far in ((points, 0.0 if widths[1] else math.inf), (weights, 0.0)):
            rows, row_starts = blocks(values, offsets, ROWS, -far)
            groups, lane_starts = blocks(values, offsets, LANES, far)
            lanes = to_lanes(groups.reshape(len(groups) * LANES, values.shape[1]), (1,), LANES)
            sides.append((rows.reshape(-1), lanes.reshape(-1)))
            places = [row_starts[:-1].copy(), np.diff(row_starts), lane_starts[:-1].copy(), np.diff(lane_starts)]
        return cls(sides[0], sides[1], widths, *places)

    def __len__(self) -> int:
        return len(self.row_at)

    def __getitem__(self, key: Any) -> PointSets:
        """Take some sets; all share the memory of the points."""
        places = (self.row_at, self.row_count, self.lane_at, self.lane_count)
        row_at, row_count, lane_at, lane_count = (np.ascontiguousarray(place[key]) for place in places)
        return replace(self, row_at=row_at, row_count=row_count, lane_at=lane_at, lane_count=lane_count)

    def ask(
        self, term: int, other: PointSets, left: Floats, right: Floats, scale: Floats, shift: Floats | None = None
    ) -> Floats:
        """Sum over all points of the pairs of sets ``left[p], right[p]``.

        Parameters
        ----------
        term : {SUM, NEAREST, TWO_SUMS, WEIGHTED}
            The quantity to compute, for t = scale |x - y|^2 + shift.
        other : PointSets
        The sets of the right side.
        left, right : ndarray of int of shape (P,)
        Indices of the sets of each pair.
        scale, shift : ndarray of shape (P,)
        Scale and shift of each pair.

        Returns
        -------
        ndarray of shape (P, 2)
            The second column is used by ``TWO_SUMS`` only.
        """
        out = np.zeros((len(left), 2))
        shift = np.zeros(len(left)) if shift is None else shift
        self._run(pair_sums(term), other, left, right, scale, shift, out)
        return out

    def ask_each(self, term: int, other: PointSets, which: int, scale: float, shift: Floats) -> Floats:
        """Return the result for every point of the single left set with set ``which`` of the right, ``(T,)``."""
        out, padded = np.zeros((int(self.row_count[0]) * ROWS, 2)), np.zeros(int(self.row_count[0]) * ROWS)
        padded[: len(shift)] = shift
        self._run(
            pair_sums(term, each=True), other, np.zeros(1, int), np.array([which]), np.array([scale]), padded, out
        )
        return out[: len(shift), 0]

    def _run(self, loop: Any, other: PointSets, *arguments: Floats) -> None:
        left = self.points[0], self.weights[0], self.row_at, self.row_count
        right = other.points[1], other.weights[1], other.lane_at, other.lane_count
        loop(*left, *right, *self.widths, *arguments, aligned((2 * ROWS * LANES,)))


def log_sums(ask: Callable[[int, Any, Floats], Floats], scale: Floats) -> Floats:
    """Return the natural logarithms of sums of 2^(scale |x - y|^2), exact even if every term underflows.

    Parameters
    ----------
    ask : callable
        ``ask(term, which, shift)`` returns `SUM` or `NEAREST` of the given pairs, with ``shift`` added to exponents.
    scale : ndarray of shape (P,)
        Scale of every pair, negative.

    Returns
    -------
    ndarray of shape (P,)
        -inf where all points are infinitely far apart.
    """
    sums = ask(SUM, np.arange(len(scale)), np.zeros(len(scale)))

    def careful(which: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # distances that overflow
            shift = -scale[which] * ask(NEAREST, which, np.zeros(len(which)))
            again = ask(SUM, which, np.minimum(shift, np.finfo(float).max))
            # Beyond 2^56 the rounding error of the shift exceeds the logarithm of the number of terms.
            return np.where(shift > 2.0**56, -shift / LOG2_E, np.log(again) - shift / LOG2_E)

    with np.errstate(divide="ignore"):
        return rescued(np.log(sums), sums >= LOST, careful)


# -- loops -----------------------------------------------------------------------------------------------


@functools.cache
def pair_sums(term: int, each: bool = False) -> Any:
    """Compile the loop over pairs of sets for a term; ``each`` returns one result per point of the left side."""
    row_block = vector_function(LANES, term, each)(_row_block)
    count = ROWS if each else 1

    @compiled
    def loop(
        x: Floats, v: Floats, row_at: Floats, row_count: Floats, y: Floats, w: Floats, lane_at: Floats,
        lane_count: Floats, d: int, m: int, left: Floats, right: Floats, scale: Floats, shift: Floats, out: Floats,
        room: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        for p in range(len(left)):
            i, j = left[p], right[p]
            y_at, w_at = lane_at[j] * LANES * d, lane_at[j] * LANES * m
            first, second = np.inf if term == NEAREST else 0.0, 0.0
            for block in range(row_at[i], row_at[i] + row_count[i]):
                at = block * ROWS
                row_block(
                    x, at * d, v, at * m, y, y_at, w, w_at, lane_count[j], d, m, scale[p], shift,
                    at if each else p, room,
                )  # fmt: skip
                if each:
                    for r in range(count):
                        out[at + r, 0] = room[r * LANES]
                elif term == NEAREST:
                    first = min(first, room[0])
                else:
                    first += room[0]
                    second += room[LANES] if term == TWO_SUMS else 0.0
            if not each:
                out[p, 0] = first
                out[p, 1] = second

    return loop


def _row_block(
    e: Emitter, term: int, each: bool, x: Value, x_at: Value, v: Value, v_at: Value, y: Value, y_at: Value, w: Value,
    w_at: Value, groups: Value, d: Value, m: Value, scale: Value, shift: Value, at: Value, out: Value,
) -> None:  # fmt: skip
    """Write the result for one block of points x and all groups of points y."""
    b, lanes = e.builder, e.constant(LANES)
    points = [b.add(x_at, b.mul(e.constant(r), d)) for r in range(ROWS)]
    weights = [b.add(v_at, b.mul(e.constant(r), m)) for r in range(ROWS)]
    shifts = [e.spread(shift, b.add(at, e.constant(r)) if each else at) for r in range(ROWS)]

    def distances(group: Value) -> list[Value]:
        begin = b.add(y_at, b.mul(group, b.mul(d, lanes)))
        return squares(e, x, points, y, begin, lanes, d)

    def inner(group: Value) -> list[Value]:
        begin = b.add(w_at, b.mul(group, b.mul(m, lanes)))

        def products(k: Value) -> list[Value]:
            these = e.load(w, e.offset(begin, k, LANES))
            return [e.multiply(e.spread(v, b.add(row, k)), these) for row in weights]

        return e.loop_sums(ROWS, m, products)

    found = reduced(e, term, groups, distances, e.filled(scale), shifts, inner if term == WEIGHTED else None)
    write(e, term, found, each, out)


def squares(
    e: Emitter, x: Value, points: list[Value], y: Value, begin: Value, stride: Value, d: Value
) -> list[Value]:  # fmt: skip
    """Sum squared differences over d coordinates, between points x and one group of points y."""
    b = e.builder

    def terms(k: Value) -> list[Value]:
        group = e.load(y, b.add(begin, b.mul(k, stride)))
        apart = [b.fsub(e.spread(x, b.add(point, k)), group) for point in points]
        return [e.multiply(a, a) for a in apart]

    return e.loop_sums(len(points), d, terms)


def reduced(
    e: Emitter, term: int, groups: Value, distances: Callable[[Value], list[Value]], scale: Value, shifts: list[Value],
    inner: Callable[[Value], list[Value]] | None = None,
) -> list[Value]:  # fmt: skip
    """Reduce a function of the squared distances of several rows over all groups, to one or two vectors per row."""
    if term == NEAREST:
        return e.loop([e.number(math.inf)] * len(shifts), groups, distances, e.smaller)

    def powers(group: Value) -> list[Value]:
        exponents = [e.add(e.multiply(q, scale), shift) for q, shift in zip(distances(group), shifts, strict=True)]
        found = e.exp2([e.at_least(t, _SMALLEST[term]) for t in exponents])
        if inner is not None:
            found = [e.multiply(power, weight) for power, weight in zip(found, inner(group), strict=True)]
        return found + [e.multiply(p, p) for p in found] if term == TWO_SUMS else found

    return e.loop_sums(len(shifts) * (2 if term == TWO_SUMS else 1), groups, powers)


def write(e: Emitter, term: int, found: list[Value], each: bool, out: Value) -> None:
    """Reduce lanes, and rows unless ``each``; every result fills one vector of ``out``."""
    combine = e.smaller if term == NEAREST else e.add
    if not each:
        count = len(found) // 2 if term == TWO_SUMS else len(found)
        found = [functools.reduce(combine, found[k : k + count]) for k in range(0, len(found), count)]
    for k, value in enumerate(found):
        e.store(e.across(value, combine), out, e.constant(k * LANES))
