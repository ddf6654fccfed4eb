"""The general pair recursion, forward: pairs of strings in SIMD lanes, scaled or in numbers of unlimited range (MK-5).

Cells of an antidiagonal are independent, so that a processor computes several at once. A scaled result is *sound* if no
positive weight comes near the end of the floating-point range.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import vector_function
from mercer.compiled.machine import MACHINE
from mercer.compiled.pairs_cell import Strings, forward
from mercer.compiled.pairs_numbers import ZERO_EXPONENT, Ranged, Scaled
from mercer.compiled.ranged import LOG_RADIX, tidy

LANES = MACHINE.width
"""Number of pairs of strings in one vector."""


@functools.cache
def _cell(n: int, lanes: int, ranged: bool) -> Any:
    """Return the cell for n states: at ``at`` of ``new``, from the two previous antidiagonals."""

    @vector_function(lanes, emitter=Ranged if ranged else Scaled)
    def cell(
        e: Any, new: Any, at: Any, before: Any, up: Any, beside: Any, earlier: Any, across: Any, left: Any, s: Any,
        right: Any, t: Any, silent: Any, step: Any, record: Any,
    ) -> None:  # fmt: skip
        cells = [(before, up), (before, beside), (earlier, across)]
        forward(e, n, cells, Strings(e, left, s, right, t, silent), step, (new, at), record=record)

    return cell


@compiled
def profile(
    codes: Any, begin: Any, length: Any, longest: int, table: Floats, lanes: int
) -> Floats:  # pragma: no cover - compiled
    """Arrange the emissions of strings as [position][state][lane]; zero at position 0 and after the end."""
    n = table.shape[1]
    out = np.zeros((longest + 1) * n * lanes)
    for lane in range(lanes):
        for i in range(length[lane]):
            code = codes[begin[lane] + i]
            for a in range(n):
                out[((i + 1) * n + a) * lanes + lane] = table[code, a]
    return out


@functools.cache
def forward_sweep(n: int, lanes: int, ranged: bool) -> Any:
    """Return the compiled loop for ``n`` states and a number of lanes.

    It takes groups of pairs ``slots (G, lanes)``, -1 for empty lanes; the strings of every pair ``first``, ``second
    (P,)``; both sides' codes and offsets; the emission ``table (n_codes, n)``; silent ``(n,)``; the eliminated start
    ``(n,)``, step ``(n, n)`` flat, stop ``(n,)`` and the log kernel of two empty strings. It writes logarithms and
    the smallest weight, ``(P,)``; the latter is negative if a result is doubtful, and has no meaning for numbers of
    unlimited range.
    """
    cell = _cell(n, lanes, ranged)
    states, width = n * lanes, (2 * n if ranged else n + 1) * lanes
    log_unit = LOG_RADIX if ranged else math.log(2.0)

    @compiled
    def sweep(
        slots: Any, first: Any, second: Any, codes: Any, offsets: Any, other: Any, ends: Any, table: Floats,
        silent: Floats, start: Floats, step: Floats, stop: Floats, empty: float, value: Floats, lowest: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        record, last, smallest = np.empty(lanes), np.empty(width), 1.0
        stops = np.repeat(stop, n)  # used instead of the step, it makes every weight that of the end
        for a in range(n):
            if start[a] > 0.0:
                smallest = min(smallest, start[a])
        for g in range(len(slots)):
            begin, length = np.zeros((2, lanes), np.int64), np.zeros((2, lanes), np.int64)
            for lane in range(lanes):
                pair = slots[g, lane]
                if pair >= 0:
                    begin[0, lane], begin[1, lane] = offsets[first[pair]], ends[second[pair]]
                    length[0, lane] = offsets[first[pair] + 1] - offsets[first[pair]]
                    length[1, lane] = ends[second[pair] + 1] - ends[second[pair]]
            tall, wide = length[0].max(), length[1].max()
            left = profile(codes, begin[0], length[0], tall, table, lanes)
            right = profile(other, begin[1], length[1], wide, table, lanes)
            cells = np.zeros((3, (tall + 2) * width))
            for k in range(3):
                for i in range(tall + 2):
                    cells[k, i * width + states : (i + 1) * width] = ZERO_EXPONENT
            cells[0, width + states : 2 * width] = 0.0
            for a in range(n):
                v, k = tidy(start[a], 0) if ranged else (start[a], 0)
                cells[0, width + a * lanes : width + (a + 1) * lanes] = v
                if ranged:
                    cells[0, width + states + a * lanes : width + states + (a + 1) * lanes] = k
            record[:] = smallest
            for d in range(tall + wide + 1):
                new, before, earlier = cells[d % 3], cells[(d + 2) % 3], cells[(d + 1) % 3]
                if d > 0:
                    for i in range(max(0, d - wide), min(tall, d) + 1):
                        high, near = i * width, (i + 1) * width
                        cell(
                            new, near, before, high, near, earlier, high, left, i * states, right, (d - i) * states,
                            silent, step, record,
                        )  # fmt: skip
                for lane in range(lanes):
                    pair, i, j = slots[g, lane], length[0, lane], length[1, lane]
                    if pair < 0 or i + j != d:
                        continue
                    value[pair], lowest[pair] = empty, record[lane]
                    if d > 0:
                        high, near = i * width, (i + 1) * width
                        cell(
                            last, 0, before, high, near, earlier, high, left, i * states, right, j * states, silent,
                            stops, record,
                        )  # fmt: skip
                        total = last[lane]
                        value[pair] = math.log(total) + last[states + lane] * log_unit if total > 0.0 else -np.inf

    return sweep
