"""Numba: convolutions over outcomes for every pair, many side by side; in logarithms where numbers underflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

LANES = (4, 64)
"""Pairs that are worked on side by side: where there are few, and where there are many."""


def width_of(m: int) -> int:
    """Return the number of lanes for m pairs in a row."""
    return LANES[0] if m <= 4 * LANES[0] else LANES[1]


def in_lanes(x: Floats) -> Floats:
    """Arrange rows ``(J, w, s + 1)`` as ``(blocks, w, s + 1, lanes)``; the last block repeats its last row."""
    lanes = width_of(len(x))
    blocks = -(-len(x) // lanes)
    index = np.minimum(np.arange(blocks * lanes), len(x) - 1).reshape(blocks, lanes)
    return np.ascontiguousarray(np.moveaxis(x[index], 1, -1))


def beginning(n: int, m: int, trials: int) -> Floats:
    """Return the tables before any outcome: a total of zero is certain, ``(n, blocks, s + 1, lanes)``."""
    lanes = width_of(m)
    state = np.zeros((n, -(-m // lanes), trials + 1, lanes))
    state[:, :, 0] = 1.0
    return state


def ending(state: Floats, m: int) -> Floats:
    """Return the logarithms of the last entries of all tables, ``(n, m)``."""
    with np.errstate(divide="ignore"):
        return np.log(state[:, :, -1].reshape(len(state), -1)[:, :m])


def advance(state: Floats, left: Floats, right: Floats) -> None:
    """Convolve all tables with the products of the terms of ``left (n, w, s + 1)`` and of ``right``, in lanes."""
    _ADVANCE[state.shape[-1]](state, left, right)


def _compiled_for(lanes: int) -> Any:
    """Compile for a number of lanes that is known, so that loops over them become vectors."""

    @compiled(contract=True)
    def advance(state: Floats, left: Floats, right: Floats) -> None:  # pragma: no cover - compiled
        n, width, size = left.shape
        term = np.empty((size, lanes))
        new = np.empty(lanes)
        for i in range(n):
            for block in range(state.shape[1]):
                table = state[i, block]
                for d in range(width):
                    for k in range(size):
                        mine = left[i, d, k]
                        for lane in range(lanes):
                            term[k, lane] = mine * right[block, d, k, lane]
                    for total in range(size - 1, -1, -1):  # downwards: smaller totals are still the old ones
                        for lane in range(lanes):
                            new[lane] = table[total, lane] * term[0, lane]
                        for k in range(1, total + 1):
                            for lane in range(lanes):
                                new[lane] += table[total - k, lane] * term[k, lane]
                        for lane in range(lanes):
                            table[total, lane] = new[lane]

    return advance


_ADVANCE = {lanes: _compiled_for(lanes) for lanes in LANES}


@compiled
def advance_logs(
    logs: Floats, left: Floats, right: Floats, rows: Floats, columns: Floats
) -> None:  # pragma: no cover - compiled
    """Do the same for some pairs in logarithms: ``logs (pairs, s + 1)``."""
    width, size = left.shape[1], left.shape[2]
    for pair in range(len(rows)):
        table = logs[pair]
        for d in range(width):
            mine, theirs = left[rows[pair], d], right[columns[pair], d]
            for total in range(size - 1, -1, -1):
                top = -np.inf
                for k in range(total + 1):
                    top = max(top, table[total - k] + mine[k] + theirs[k])
                if top == -np.inf:
                    table[total] = top
                    continue
                value = 0.0
                for k in range(total + 1):
                    value += np.exp(table[total - k] + mine[k] + theirs[k] - top)
                table[total] = top + np.log(value)
