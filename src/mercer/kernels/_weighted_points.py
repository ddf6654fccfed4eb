"""Data as points with weight vectors: their kernel is the sum of base kernels times inner products of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.kernels._operands import Rows
from mercer.kernels.base.hooks import NoFeatures

ROWS, LANES = 4, 8
"""Points side by side on either side of a pair, as in `_hidden_loops`."""
TILE_POINTS = 2048
"""Points of one side of a tile."""


@dataclass(frozen=True)
class WeightedPoints:
    """Points in blocks of four rows and in groups of eight lanes, filled up with weights of zero; and rows beside."""

    points: tuple[Floats, Floats]
    """Rows and lanes, flat."""
    weights: tuple[Floats, Floats]
    """Those of the points, in the same places."""
    widths: tuple[int, int]
    """Numbers of coordinates and of weights of a point."""
    places: Floats
    """``(N, 4)``: first block and number of blocks, first group and number of groups."""
    gamma: float
    """Of the base kernel."""
    beside: Rows
    """Features whose inner products are added."""

    order = None

    @classmethod
    def of(cls, points: Floats, weights: Floats, offsets: Floats, gamma: float, beside: Rows) -> Self:
        """Lay out points ``(T, d)`` and weights ``(T, m)``, datum i at ``offsets[i]:offsets[i + 1]``."""
        blocks, groups = (_filled(offsets, width) for width in (ROWS, LANES))
        places = np.stack([blocks[:-1], np.diff(blocks), groups[:-1], np.diff(groups)], axis=1)
        sides = [(_rows(values, offsets, blocks), _lanes(values, offsets, groups)) for values in (points, weights)]
        return cls(sides[0], sides[1], (points.shape[1], weights.shape[1]), places, gamma, beside)

    @property
    def tile_hint(self) -> int:
        """Data of a tile, by their average number of points."""
        average = float(self.places[:, 1].mean()) * ROWS if len(self) else 1.0
        return int(np.clip(TILE_POINTS / max(average, 1.0), 1, 256))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, key: Any) -> WeightedPoints:
        return replace(self, places=self.places[key], beside=self.beside[key])  # the points are shared

    def inner(self, other: WeightedPoints) -> Floats:
        """Return the kernels of every pair."""
        left, right = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        sums = self._sums(other, left, right).reshape(len(self), len(other))
        return np.asarray(sums + self.beside.inner(other.beside))

    def squares(self) -> Floats:
        """Return the kernel of every datum with itself."""
        every = np.arange(len(self))
        return np.asarray(self._sums(self, every, every) + self.beside.squares())

    def dense(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "LatentMeanMap of vectors has no finite explicit features: give n_components=1000 for random ones, or use "
            "its Gram matrix"
        )

    def _sums(self, other: WeightedPoints, left: Floats, right: Floats) -> Floats:
        """Sum over all pairs of points of the data ``left[p], right[p]``."""
        from mercer.compiled.lanes import aligned
        from mercer.kernels._hidden_loops import weighted_sums

        out = np.empty(len(left))
        (row_at, blocks), (lane_at, groups) = self.places.T[:2], other.places.T[2:]
        arrays = (np.ascontiguousarray(a) for a in (row_at, blocks, lane_at, groups))
        row_at, blocks, lane_at, groups = arrays
        weighted_sums(
            self.points[0], self.weights[0], row_at, blocks, other.points[1], other.weights[1], lane_at, groups, left,
            right, *self.widths, -self.gamma, out, aligned((ROWS * LANES,)),
        )  # fmt: skip
        return out


def _filled(offsets: Floats, width: int) -> Floats:
    """Count the blocks of ``width`` points before every datum, ``(N + 1,)``."""
    return np.concatenate([[0], np.cumsum(-(-np.diff(offsets) // width))]).astype(np.int64)


def _moved(values: Floats, offsets: Floats, blocks: Floats, width: int) -> Floats:
    out = np.zeros((int(blocks[-1]) * width, values.shape[1]))
    out[np.repeat(blocks[:-1] * width - offsets[:-1], np.diff(offsets)) + np.arange(len(values))] = values
    return out


def _rows(values: Floats, offsets: Floats, blocks: Floats) -> Floats:
    return _moved(values, offsets, blocks, ROWS).reshape(-1)


def _lanes(values: Floats, offsets: Floats, groups: Floats) -> Floats:
    from mercer.compiled.lanes import aligned

    moved = _moved(values, offsets, groups, LANES)
    out = aligned((len(moved) // LANES, values.shape[1], LANES))
    out[:] = moved.reshape(-1, LANES, values.shape[1]).swapaxes(1, 2)
    return out.reshape(-1)
