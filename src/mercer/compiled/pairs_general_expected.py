"""Expected counts of the trajectories of two strings: forward and backward, pairs in SIMD lanes (MK-5).

With S the weights of entering a state, G of having visited it, and the backward weights h of an entry and Q of a visit,
a posterior is S w Q / kappa, where w is the emission. Rows of cells are stored as [cell][state or exponent][lane], with
an unreachable cell before the first one. Lanes have different lengths: emissions and weights are zero after the end of
a string. Rows of S are stored at regular intervals and recomputed in between, so that the memory grows with the length
to the power 3/2.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.copies import copy_to
from mercer.compiled.lanes import vector_function
from mercer.compiled.pairs_cell import Strings, backward, forward
from mercer.compiled.pairs_general import profile
from mercer.compiled.pairs_numbers import ZERO_EXPONENT, Scaled
from mercer.compiled.ranged import LOG_2


@functools.cache
def _cells(n: int, lanes: int) -> tuple[Any, Any]:
    """Return the cells for n states, forward and backward."""
    width = (n + 1) * lanes

    @vector_function(lanes, emitter=Scaled)
    def go(
        e: Any, rows: Any, before: Any, at: Any, been: Any, left: Any, s: Any, right: Any, t: Any, silent: Any,
        step: Any,
    ) -> None:  # fmt: skip
        """Compute the cell at ``at`` of S and G; the cell above it is at ``before``."""
        b, one = e.builder, e.constant(width)
        cells = [(rows, before), (rows, b.sub(at, one)), (rows, b.sub(before, one))]
        forward(e, n, cells, Strings(e, left, s, right, t, silent), step, (rows, at), been=(been, at))

    @vector_function(lanes, emitter=Scaled)
    def back(
        e: Any, after: Any, here: Any, j: Any, left: Any, s: Any, right: Any, t: Any, silent: Any, step: Any,
        rows: Any, been: Any, at: Any, ends: Any, sums: Any, column: Any, entry: Any,
    ) -> None:  # fmt: skip
        """Compute the cell at ``j`` of ``here``, the backward weights of a visit, and add expected counts."""
        beyond = e.builder.add(j, e.constant(width))
        cells = [(after, j), (here, beyond), (after, beyond)]
        strings = Strings(e, left, s, right, t, silent)
        backward(e, n, cells, strings, step, (here, j), rows, been, at, ends, sums, column, entry)

    return go, back


@compiled
def _blank(size: int, n: int, lanes: int) -> Floats:  # pragma: no cover - compiled
    """Return an array of unreachable cells."""
    cells = np.zeros(size)
    for place in range(0, size, (n + 1) * lanes):
        cells[place + n * lanes : place + (n + 1) * lanes] = ZERO_EXPONENT
    return cells


@compiled
def _who(slots: Any, first: Any, second: Any, offsets: Any) -> tuple[Any, Any]:  # pragma: no cover - compiled
    """Return the starts of the strings of both sides, ``(2, lanes)``, and their lengths, -1 for empty lanes."""
    lanes = len(slots)
    begin, length = np.zeros((2, lanes), np.int64), np.full((2, lanes), -1)
    for lane in range(lanes):
        if slots[lane] >= 0:
            for side, who in enumerate((first[slots[lane]], second[slots[lane]])):
                begin[side, lane], length[side, lane] = offsets[who], offsets[who + 1] - offsets[who]
    return begin, length


@functools.cache
def expected_sweep(n: int, lanes: int) -> Any:
    """Return the compiled loop for ``n`` states and a number of lanes.

    It takes the indices of pairs ``slots (lanes,)``, -1 for empty lanes, and, as `forward_sweep`, the strings and the
    model; it writes gradients in the eliminated start ``gain (P, n + 1)`` and step ``moves (P, n, n + 1)``, expected
    counts of ``symbols (P, n, C)`` and of visits that emit one symbol only ``once (P, n)``, and log kernels ``value
    (P,)``. No pair has two empty strings. ``matched (n, m)``, if not empty, receives the posterior that two symbols of
    the pair in the first lane are from one visit.
    """
    go, back = _cells(n, lanes)
    width, states = (n + 1) * lanes, n * lanes

    @compiled
    def forward_row(
        i: int, base: int, line: int, wide: int, rows: Floats, been: Floats, left: Floats, right: Floats,
        silent: Floats, start: Floats, step: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute row i of S and G, which starts at ``base``; the row above it is ``line`` elements before."""
        for j in range(wide + 1):
            at = base + j * width
            if i + j > 0:
                go(rows, at - line, at, been, left, i * states, right, j * states, silent, step)
                continue
            been[at : at + states], been[at + states : at + width] = 0.0, ZERO_EXPONENT
            rows[at + states : at + width] = 0.0
            for a in range(n):
                rows[at + a * lanes : at + (a + 1) * lanes] = start[a]

    @compiled
    def close(
        lane: int, at: int, pair: int, been: Floats, stop: Floats, ends: Floats, moves: Floats, value: Floats
    ) -> None:  # pragma: no cover - compiled
        """Write the log kernel of a pair whose last cell is at ``at``, and the expected counts of its last step."""
        total = 0.0
        for a in range(n):
            total += been[at + a * lanes] * stop[a]
        whole = been[at + states]
        value[pair] = math.log(total) + whole * LOG_2 if total > 0.0 else -np.inf
        ends[lane], ends[lanes + lane] = 1.0 / total if total > 0.0 else 0.0, whole
        for a in range(n):
            moves[pair, a, n] = been[at + a * lanes] * ends[lane]

    @compiled
    def backward_row(
        i: int, base: int, length: Any, wide: int, after: Floats, here: Floats, left: Floats, right: Floats,
        silent: Floats, step: Floats, stop: Floats, rows: Floats, been: Floats, ends: Floats, sums: Floats,
        column: Floats, entry: Floats, matched: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute row i of the backward weights ``here``, and sum the expected counts of the visits in it."""
        sums[states : 2 * states] = 0.0
        last = False
        for lane in range(lanes):
            last = last or length[0, lane] == i
        for j in range(wide, -1, -1):
            back(
                after, here, j * width, left, (i + 1) * states, right, (j + 1) * states, silent, step, rows, been,
                base + j * width, ends, sums, column, entry,
            )  # fmt: skip
            if matched.size > 0 and i < len(matched) and j < wide:
                matched[i, j] = entry[width]
            for lane in range(lanes):
                if last and length[0, lane] == i and length[1, lane] == j:  # the end is possible here
                    for a in range(n):
                        here[j * width + a * lanes + lane] = stop[a]
                    here[j * width + states + lane] = 0.0

    @compiled
    def collect(
        lane: int, pair: int, t: Any, ends: Floats, sums: Floats, column: Floats, entry: Floats, gain: Floats,
        moves: Floats, symbols: Floats, once: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Write the sums of one lane, for the pair whose second string is ``t``."""
        weight = 2.0 ** min(max(entry[states + lane] - ends[lanes + lane], -1000.0), 1000.0) * ends[lane]
        for a in range(n):
            once[pair, a] = sums[a * lanes + lane]
            gain[pair, a] = entry[a * lanes + lane] * weight
            for c in range(n):
                moves[pair, a, c] = sums[(2 * n + a * n + c) * lanes + lane]
            for j in range(len(t)):
                symbols[pair, a, t[j]] += column[((j + 1) * n + a) * lanes + lane]

    @compiled
    def sweep(
        slots: Any, first: Any, second: Any, codes: Any, offsets: Any, table: Floats, silent: Floats, start: Floats,
        step: Floats, stop: Floats, gain: Floats, moves: Floats, symbols: Floats, once: Floats, value: Floats,
        matched: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        begin, length = _who(slots, first, second, offsets)
        tall, wide = length[0].max(), length[1].max()
        left = profile(codes, begin[0], length[0], tall + 1, table, lanes)
        right = profile(codes, begin[1], length[1], wide + 1, table, lanes)
        block = math.ceil(math.sqrt(tall + 1.0))
        count = (tall + block) // block
        line = (wide + 2) * width
        kept = np.empty((count, line))
        rows, been = _blank((block + 1) * line, n, lanes), _blank((block + 1) * line, n, lanes)
        after, here = _blank((wide + 3) * width, n, lanes), _blank((wide + 3) * width, n, lanes)
        ends, sums, column = np.zeros(2 * lanes), np.zeros((2 + n) * states), np.zeros((wide + 2) * states)
        entry = np.zeros(width + lanes)
        for q in range(2 * count):  # all blocks forward; then, from the last block on, forward again and backward
            again = q >= count
            part = 2 * count - 1 - q if again else q
            if again:
                copy_to(rows, kept[part])
            else:
                copy_to(kept[part], rows[:line])
            low, top = part * block, min((part + 1) * block, tall + 1)
            for i in range(low, top):
                base = (i - low + 1) * line + width
                forward_row(i, base, line, wide, rows, been, left, right, silent, start, step)
                for lane in range(lanes):
                    if not again and slots[lane] >= 0 and length[0, lane] == i:
                        at = base + length[1, lane] * width + lane
                        close(lane, at, slots[lane], been, stop, ends, moves, value)
            if not again:
                copy_to(rows, rows[(top - low) * line : (top - low + 1) * line])
                continue
            for i in range(top - 1, low - 1, -1):
                backward_row(
                    i, (i - low + 1) * line + width, length, wide, after, here, left, right, silent, step, stop, rows,
                    been, ends, sums, column, entry, matched,
                )  # fmt: skip
                for lane in range(lanes):
                    if i < length[0, lane]:
                        code = codes[begin[0, lane] + i]
                        for a in range(n):
                            symbols[slots[lane], a, code] += sums[(n + a) * lanes + lane]
                after, here = here, after
        for lane in range(lanes):
            if slots[lane] >= 0:
                t = codes[begin[1, lane] : begin[1, lane] + length[1, lane]]
                collect(lane, slots[lane], t, ends, sums, column, entry, gain, moves, symbols, once)

    return sweep
