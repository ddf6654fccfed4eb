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
TOGETHER = 4
"""Number of rows whose emission products are computed together, in two columns."""
GROUP = 8
"""Number of rows between two updates of the exponents, a multiple of `TOGETHER`."""


def _arranged(lanes: int, ranged: bool) -> tuple[Any, Any]:
    """Return the compiled functions that clear an array, and arrange a block of profiles in lanes."""
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

    return clear, fill


def _emissions(lanes: int, strip: int, together: int, ranged: bool) -> tuple[Any, Any]:
    """Return the compiled functions that compute the emission products of all columns and rows, and of a tile."""
    pairs = min(strip, 2)
    products = emission_products(lanes, together, pairs, ranged)

    @compiled
    def same_insertions(
        places: Any, psi: Floats, left: Floats, base: int, nodes: int, right: Floats, columns: int, letters: int
    ) -> None:  # pragma: no cover - compiled
        """Compute psi_IM of every column, psi_MI of every row and psi_II, after the psi_MM of a tile."""
        at = GROUP * strip
        for c in range(0, columns, pairs):
            products(psi, at + c, 0, 1, left, 2 * base + 1, 0, right, 2 * c, 2, letters)
        rows = at + columns
        for r in range(0, nodes, together):
            products(psi, rows + r, 1, 0, left, 2 * (base + r), 2, right, 1, 0, letters)
        products(psi, rows + nodes + together, 0, 0, left, 2 * base + 1, 0, right, 1, 0, letters)
        places[:] = [0, at, rows, rows + nodes + together, strip, 0, 1, 0, 1, 1, 0, 0]

    @compiled
    def of_tile(
        psi: Floats, left: Floats, first: int, rows: int, right: Floats, column: int, one: bool, letters: int
    ) -> None:  # pragma: no cover - compiled
        """Compute psi_MM of a tile, and the other products unless there is ``one`` distribution of insertions."""
        for r in range(0, rows, together):
            row = 2 * (first + r)
            if one:
                for c in range(0, strip, pairs):
                    products(psi, r * strip + c, strip, 1, left, row, 2, right, column + 2 * c, 2, letters)
                continue
            for c in range(strip):
                at = (r * strip + c) * PRODUCTS
                for x in range(2):
                    for y in range(0, 2, pairs):
                        products(
                            psi, at + x + 2 * y, PRODUCTS * strip, 2, left, row + x, 2, right, column + 2 * c + y, 1,
                            letters,
                        )  # fmt: skip

    return same_insertions, of_tile


@functools.cache
def _sweep(lanes: int, strip: int, together: int, ranged: bool) -> Any:
    """Return the compiled loop over blocks of profiles, their strips and groups of rows."""
    parts = 2 if ranged else 1
    width = parts * lanes
    tile, (clear, fill) = tile_function(lanes, strip, ranged), _arranged(lanes, ranged)
    same_insertions, of_tile = _emissions(lanes, strip, together, ranged)

    @compiled
    def sweep(
        left_emission: Floats, left_transition: Floats, left_offsets: Any, left_same: Any, right_emission: Floats,
        right_transition: Floats, right_offsets: Any, right_same: Any, order: Any, letters: int, block_emission: Floats,
        block_transition: Floats, state: Floats, edge: Floats, psi: Floats, marks: Floats, record: Floats,
        total: Floats, value: Floats, exponent: Floats, lowest: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        """Compute value, exponent and the smallest number of all pairs."""
        places = np.empty(3 * PRODUCTS, np.int64)
        for block in range(0, order.size, lanes):
            members = order[block : block + lanes]
            longest, same = 0, True
            for lane in range(members.size):
                same = same and right_same[members[lane]]
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
                one = same and left_same[i]  # distribution of insertions in each profile
                if one:
                    same_insertions(places, psi, left_emission, base, nodes, block_emission, strips * strip, letters)
                else:
                    places[:] = [0, 1, 2, 3] + [PRODUCTS * strip] * 4 + [PRODUCTS] * 4
                for k in range(strips):
                    clear(state)
                    for group in range(groups):
                        first = group * GROUP
                        rows = min(GROUP, nodes - first)
                        entry = 0.0
                        for r in range(rows):
                            entry = max(entry, left_transition[((base + first + r) * TRANSITIONS + ENTER) * parts])
                        of_tile(
                            psi, left_emission, base + first, rows, block_emission, 2 * k * strip, one, letters
                        )  # fmt: skip
                        if one:
                            places[1] = GROUP * strip + k * strip
                            places[2] = GROUP * strip + strips * strip + first
                        tile(
                            state, edge, first, rows, psi, places, left_transition, base, entry, block_transition,
                            k * strip, marks, group, record, total,
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
    left_same, right_same = (_same(side[0][:, 1], side[2]) for side in (left, right))
    tall, wide = int(sizes.max()), -(-int(others.max()) // strip) * strip
    _sweep(LANES, strip, together, ranged)(
        _padded(left[0]), _padded(left[1]), _plain(left[2]), left_same,
        owned(right[0]).reshape(-1), owned(right[1]).reshape(-1), _plain(right[2]), right_same,
        np.argsort(others, kind="stable"), letters,
        aligned((wide * 2 * letters * width,)), aligned((wide * TRANSITIONS * width,)),
        aligned(((STATE * strip + 1) * width,)), aligned((tall * EDGE * width,)),
        aligned(((GROUP * strip * PRODUCTS + wide + tall + 2 * together) * width,)),
        aligned((2 * -(-tall // GROUP) * LANES,)), aligned((LANES,)), aligned((2 * LANES,)),
        value, exponent, lowest,
    )  # fmt: skip
    return value, exponent, lowest


def _same(insert: Floats, offsets: Any) -> Any:
    """Return whether all insert states of each profile emit alike; the last node, its end, has none."""
    first = np.repeat(insert[offsets[:-1]], np.diff(offsets), axis=0)
    other = (insert != first).reshape(len(insert), -1).any(axis=1)
    other[offsets[1:] - 1] = False
    return ~np.logical_or.reduceat(other, offsets[:-1])


def _padded(x: Floats) -> Floats:
    """Append nodes of zeros: emissions of some nodes are read together."""
    return np.concatenate([x, np.zeros((TOGETHER, *x.shape[1:]))]).reshape(-1)


def _plain(offsets: Any) -> Any:
    """Copy: Numba would compile another instance for a read-only array."""
    return np.array(offsets, np.int64)
