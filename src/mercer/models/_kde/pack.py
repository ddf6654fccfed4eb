"""Sets of points as the compiled loops read them, and what the loops say about pairs of sets and about points.

Nothing here imports Numba before a loop runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mercer._array import Floats

__all__ = ["Packed", "log_sums", "log_sums_at", "two_sums"]

ROWS, LANES = 4, 8
"""Points side by side on either side of a pair, as in `loops`."""
LOST = 2.0**-900
"""Sums below this have lost terms to underflow, and are summed once more from their largest term."""
LOG2_E = 1 / math.log(2)


@dataclass(frozen=True)
class Packed:
    """Sets in blocks of four rows and in groups of eight lanes; what fills them up lies infinitely far away."""

    rows: Floats
    """Points one after the other, flat."""
    lanes: Floats
    """Groups of eight points, coordinate by coordinate, flat."""
    row_at: Floats
    """Where the rows of every set begin."""
    blocks: Floats
    """Number of blocks of every set."""
    lane_at: Floats
    """Where the lanes of every set begin."""
    groups: Floats
    """Number of groups of every set."""
    dimension: int
    """Number of coordinates."""

    @classmethod
    def of(cls, data: Floats, indptr: Floats) -> Self:
        """Lay out points ``(T, d)``, set i at ``indptr[i]:indptr[i + 1]``."""
        from mercer.compiled.lanes import aligned

        d, sizes = data.shape[1], np.diff(indptr)
        rows, row_at, blocks = _filled(data, indptr, sizes, ROWS, -np.inf)
        lanes, lane_at, groups = _filled(data, indptr, sizes, LANES, np.inf)
        beside = aligned((len(lanes) // LANES, d, LANES))
        beside[:] = lanes.reshape(-1, LANES, d).swapaxes(1, 2)
        return cls(rows.reshape(-1), beside.reshape(-1), row_at, blocks, lane_at, groups, d)

    def take(self, index: Floats) -> Packed:
        """Take some sets; all share the memory of the points."""
        return replace(
            self,
            row_at=self.row_at[index],
            blocks=self.blocks[index],
            lane_at=self.lane_at[index],
            groups=self.groups[index],
        )


def _filled(data: Floats, indptr: Floats, sizes: Floats, width: int, filler: float) -> tuple[Floats, Floats, Floats]:
    """Fill every set up to whole blocks of ``width`` points."""
    blocks = -(-sizes // width)
    begin = np.concatenate([[0], np.cumsum(blocks)]) * width
    out = np.full((int(begin[-1]), data.shape[1]), filler)
    out[np.repeat(begin[:-1] - indptr[:-1], sizes) + np.arange(len(data))] = data
    return out, begin[:-1] * data.shape[1], blocks


def _ask(what: int, a: Packed, b: Packed, left: Floats, right: Floats, scale: Floats, shift: Floats) -> Floats:
    """Run the loop over pairs ``left[p], right[p]``, ``(P, 2)``."""
    from mercer.compiled.lanes import aligned
    from mercer.models._kde.loops import over_pairs

    out = np.empty((len(left), 2))
    over_pairs(
        what, a.rows, a.row_at, a.blocks, b.lanes, b.lane_at, b.groups, left, right, a.dimension, scale, shift, out,
        aligned((9 * LANES,)),
    )  # fmt: skip
    return out


def log_sums(a: Packed, b: Packed, left: Floats, right: Floats, factor: Floats) -> Floats:
    """Compute log sum_ij exp(-factor |x_i - y_j|^2) for pairs of sets, exact where every term underflows.

    Parameters
    ----------
    a, b : Packed
        Sets of points.
    left, right : int arrays of shape (P,)
        Which sets of ``a`` and of ``b`` are paired.
    factor : array of shape (P,)
        Positive.
    """
    from mercer.models._kde.loops import NEAREST, SUM

    scale = -LOG2_E * factor
    nothing = np.zeros(len(left))
    sums = _ask(SUM, a, b, left, right, scale, nothing)[:, 0]
    lost = np.flatnonzero(sums < LOST)
    shift = np.zeros(len(left))
    if len(lost):
        pairs = left[lost], right[lost], scale[lost]
        nearest = _ask(NEAREST, a, b, *pairs, nothing[lost])[:, 0]
        shift[lost] = -scale[lost] * nearest
        with np.errstate(invalid="ignore"):  # points infinitely far apart, beyond the largest number
            sums[lost] = _ask(SUM, a, b, *pairs, np.minimum(shift[lost], np.finfo(float).max))[:, 0]
    return _logarithm(sums, shift)


def two_sums(a: Packed, factor: Floats) -> Floats:
    """Sum exp(-factor |x_i - x_j|^2) and its square over all i and j of every set, ``(N, 2)``."""
    from mercer.models._kde.loops import TWO_SUMS

    every = np.arange(len(a.blocks))
    return _ask(TWO_SUMS, a, a, every, every, -LOG2_E * factor, np.zeros(len(every)))


def log_sums_at(x: Packed, count: int, sets: Packed, which: int, factor: float) -> Floats:
    """Compute log sum_j exp(-factor |x_t - y_j|^2) for ``count`` points x, one packed set, and one set y."""
    from mercer.compiled.lanes import aligned
    from mercer.models._kde.loops import NEAREST, SUM, over_rows

    scale, blocks = -LOG2_E * factor, int(x.blocks[0])
    room = aligned((9 * LANES,))

    def ask(what: int, shift: Floats) -> Floats:
        out = np.empty(blocks * ROWS)
        over_rows(
            what, x.rows, blocks, sets.lanes, sets.lane_at[which], sets.groups[which], x.dimension, scale, shift, out,
            room,
        )  # fmt: skip
        return out

    shift = np.zeros(blocks * ROWS)
    sums = ask(SUM, shift)[:count]
    if np.any(sums < LOST):
        nearest = ask(NEAREST, shift)
        shift[:count] = np.where(sums < LOST, -scale * nearest[:count], 0.0)
        sums = ask(SUM, np.minimum(shift, np.finfo(float).max))[:count]
    return _logarithm(sums, shift[:count])


def _logarithm(sums: Floats, shift: Floats) -> Floats:
    """Return log(2^-shift sums); -inf where points are infinitely far apart."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # Beyond 2^56 the rounding of the shift is more than the logarithm of the number of terms.
        return np.where(shift > 2.0**56, -shift / LOG2_E, np.log(sums) - shift / LOG2_E)
