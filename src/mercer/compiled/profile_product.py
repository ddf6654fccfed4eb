"""Products of profile HMMs: one profile against a block of others, one in each SIMD lane (PPK-4.2d).

`mercer.compiled.profile_cell` contains the recursion. Columns are split into strips, rows into groups. A tile (a group
of rows of a strip) has one exponent per lane, chosen so that the largest number that enters it is about 1. A result is
*sound* if no positive number of a tile is far below this (`mercer.models._profile.product` derives the bound); the
others are computed again in numbers of unlimited range. A lane depends on its own pair only.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import aligned
from mercer.compiled.layout import owned
from mercer.compiled.machine import MACHINE
from mercer.compiled.pairs_numbers import ZERO_EXPONENT
from mercer.compiled.profile_cell import EDGE, ENTER, PRODUCTS, STATE, TRANSITIONS, emission_products, tile_function

LANES = MACHINE.width
"""Number of profiles in one vector."""
STRIP = 4 if MACHINE.registers >= 32 else 2
"""Number of columns of a strip."""
TOGETHER = 4 if MACHINE.registers >= 32 else 2
"""Number of rows whose emission products are computed together."""
GROUP = 8
"""Number of rows between two updates of the exponents, a multiple of `TOGETHER`."""


@functools.cache
def _sweep(lanes: int, strip: int, together: int, ranged: bool) -> Any:
    """Return the compiled loop over blocks of profiles, their strips and groups of rows."""
    emissions, tile = emission_products(lanes, together, ranged), tile_function(lanes, strip, ranged)
    parts = 2 if ranged else 1
    width = parts * lanes

    @compiled
    def clear(array: Floats) -> None:  # pragma: no cover - compiled
        """Write zeros."""
        array[:] = 0.0
        if ranged:
            for k in range(lanes, array.size, width):
                array[k : k + lanes] = ZERO_EXPONENT

    @compiled
    def fill(source: Floats, offsets: Any, members: Any, numbers: int, out: Floats) -> None:  # pragma: no cover
        """Arrange profiles as [node][number][part][lane], zero after the end."""
        clear(out)
        count = numbers * parts
        for lane in range(members.size):
            begin = offsets[members[lane]] * count
            for k in range((offsets[members[lane] + 1] - offsets[members[lane]]) * count):
                out[k * lanes + lane] = source[begin + k]

    @compiled
    def sweep(
        left_emission: Floats, left_transition: Floats, left_offsets: Any, right_emission: Floats,
        right_transition: Floats, right_offsets: Any, order: Any, letters: int, block_emission: Floats,
        block_transition: Floats, state: Floats, edge: Floats, psi: Floats, marks: Floats, record: Floats,
        total: Floats, value: Floats, exponent: Floats, lowest: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value, exponent and the smallest number of all pairs."""
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            longest = 0
            for lane in range(members.size):
                longest = max(longest, right_offsets[members[lane] + 1] - right_offsets[members[lane]])
            strips = -(-longest // strip)
            columns = strips * strip * width
            fill(right_emission, right_offsets, members, 2 * letters, block_emission[: columns * 2 * letters])
            fill(right_transition, right_offsets, members, TRANSITIONS, block_transition[: columns * TRANSITIONS])
            for i in range(left_offsets.size - 1):
                base, nodes = left_offsets[i], left_offsets[i + 1] - left_offsets[i]
                groups = -(-nodes // GROUP)
                clear(edge[: nodes * EDGE * width])
                marks[: 2 * groups * lanes] = 0.0
                record[:] = 1.0
                clear(total)
                for k in range(strips):
                    clear(state)
                    for group in range(groups):
                        first = group * GROUP
                        rows = min(GROUP, nodes - first)
                        entry = 0.0
                        for r in range(rows):
                            entry = max(entry, left_transition[((base + first + r) * TRANSITIONS + ENTER) * parts])
                        for c in range(strip):
                            for r in range(0, rows, together):
                                emissions(
                                    psi, r * strip + c, strip, left_emission, base + first + r, block_emission,
                                    k * strip + c, letters,
                                )  # fmt: skip
                        tile(
                            state, edge, first, rows, psi, left_transition, base, entry, block_transition, k * strip,
                            marks, group, record, total,
                        )  # fmt: skip
                for lane in range(members.size):
                    j = members[lane]
                    value[i, j], exponent[i, j], lowest[i, j] = total[lane], total[lanes + lane], record[lane]

    return sweep


def lane_products(
    left: tuple[Floats, Floats, Any], right: tuple[Floats, Floats, Any], ranged: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Compute the products of all pairs of profiles.

    Parameters
    ----------
    left, right : tuples of ndarrays
        Emissions (T, 2, K) of the match and insert states of all nodes, transitions (T, 9) into and at each node with
        the weights to enter and to leave, and offsets (N + 1,): profile n has the nodes ``offsets[n]`` to
        ``offsets[n + 1] - 1``. If ``ranged``, the arrays have a last axis of two, number and exponent, as in
        `mercer.compiled.ranged`.
    ranged : bool, default=False
        Whether to compute in numbers of unlimited range.

    Returns
    -------
    value, exponent, lowest : ndarray of shape (I, J)
        The product is value 2^exponent, or value 2^(512 exponent) if ``ranged``. ``lowest`` is the smallest positive
        number of a tile, negative if neighboring tiles are far apart; it has no meaning if ``ranged``.
    """
    # Ranged numbers are rare: less code for them compiles faster.
    parts, strip, together = (2, 1, 1) if ranged else (1, STRIP, TOGETHER)
    letters, width = left[0].shape[2], parts * LANES
    sizes, others = np.diff(left[2]), np.diff(right[2])
    value = np.zeros((len(sizes), len(others)))
    exponent, lowest = np.zeros(value.shape), np.ones(value.shape)
    if value.size == 0:
        return value, exponent, lowest
    tall, wide = int(sizes.max()), -(-int(others.max()) // strip) * strip
    _sweep(LANES, strip, together, ranged)(
        _padded(left[0]), _padded(left[1]), _plain(left[2]),
        owned(right[0]).reshape(-1), owned(right[1]).reshape(-1), _plain(right[2]),
        np.argsort(others, kind="stable"), letters,
        aligned((wide * 2 * letters * width,)), aligned((wide * TRANSITIONS * width,)),
        aligned(((STATE * strip + 1) * width,)), aligned((tall * EDGE * width,)),
        aligned((GROUP * strip * PRODUCTS * width,)), aligned((2 * -(-tall // GROUP) * LANES,)), aligned((LANES,)),
        aligned((2 * LANES,)),
        value, exponent, lowest,
    )  # fmt: skip
    return value, exponent, lowest


def _padded(x: Floats) -> Floats:
    """Append nodes of zeros: emissions of some nodes are read together."""
    return np.concatenate([x, np.zeros((TOGETHER, *x.shape[1:]))]).reshape(-1)


def _plain(offsets: Any) -> Any:
    """Copy: Numba would compile another instance for a read-only array."""
    return np.array(offsets, np.int64)
