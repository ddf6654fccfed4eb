"""Windows of vectors: exact averages of the base kernel over all pairs (EMMK-2)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.kernels.base.hooks import NoFeatures

__all__ = ["WindowSets", "require_windows"]

LOST = 1e-260
"""Sums below this have lost terms to underflow, and are summed once more from their largest term."""
TILE_POINTS = 2048
"""Points of one side of a tile."""


def require_windows(X: Sequences, order: int) -> None:
    """Raise where a sequence has no window."""
    short = np.flatnonzero(X.lengths <= order)
    if len(short):
        raise ValueError(
            f"{X.name(short[0])} has length {X.lengths[short[0]]}, but windows of order {order} need {order + 1}; "
            "leave it out, or lower the order"
        )


class WindowSets:
    """Sequences of vectors: tiles by compiled loops, in which no table of a pair of sequences is made.

    Parameters
    ----------
    sequences : Sequences
        Vectors, every sequence longer than ``window_order``.
    window_order : int
        Windows have one vector more.
    gamma : float
        Of the base kernel.
    """

    order: Floats | None = None

    def __init__(self, sequences: Sequences, window_order: int, gamma: float) -> None:
        self.sequences = sequences
        self.window_order = window_order
        self.gamma = gamma

    @cached_property
    def rows(self) -> Floats:
        """All vectors, ``(T + PADDING, d)``."""
        from mercer.kernels._windows.loops import PADDING

        values = self.sequences.values
        return np.concatenate([values, np.zeros((PADDING, values.shape[1]))], dtype=np.float64)

    @cached_property
    def lanes(self) -> Floats:
        """The same coordinate by coordinate."""
        return np.ascontiguousarray(self.rows.T)

    @property
    def tile_hint(self) -> int:
        """Sequences of a tile, by their average length."""
        average = self.sequences.offsets[-1] / max(len(self), 1)
        return int(np.clip(TILE_POINTS / max(average, 1), 1, 256))

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, key: Any) -> WindowSets:
        return WindowSets(self.sequences[key], self.window_order, self.gamma)

    def pair(self, other: WindowSets) -> Floats:
        """Log average base kernel of every pair of sequences, exact where all terms underflow."""
        left, right = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        return self._log_means(other, left, right).reshape(len(self), len(other))

    def alone(self) -> Floats:
        """Log average base kernel of every sequence with itself."""
        every = np.arange(len(self))
        return self._log_means(self, every, every)

    def features(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "EmpiricalMeanMap of vectors has no finite explicit features: give n_components=1000 for random ones, or "
            "use its Gram matrix"
        )

    def _log_means(self, other: WindowSets, left: Floats, right: Floats) -> Floats:
        from mercer.kernels._windows.loops import NEAREST, SUM

        shift = np.zeros(len(left))
        if self.gamma == 0:
            return shift
        sums = self._ask(SUM, other, left, right, shift)
        lost = np.flatnonzero(sums < LOST)
        if len(lost):
            pairs = left[lost], right[lost]
            with np.errstate(over="ignore"):
                shift[lost] = self.gamma * self._ask(NEAREST, other, *pairs, shift[lost])
            sums[lost] = self._ask(SUM, other, *pairs, np.minimum(shift[lost], np.finfo(float).max))
        windows, windows_of_other = (side.sequences.lengths - side.window_order for side in (self, other))
        return np.asarray(np.log(sums) - shift - np.log(windows[left]) - np.log(windows_of_other[right]))

    def _ask(self, what: int, other: WindowSets, left: Floats, right: Floats, shift: Floats) -> Floats:
        from mercer.compiled.lanes import LANES, aligned
        from mercer.kernels._windows.loops import ROWS, window_sums

        out = np.empty(len(left))
        window_sums(
            what, self.rows, other.lanes, self.sequences.offsets, other.sequences.offsets, left, right,
            self.window_order + 1, -float(self.gamma), shift, out, aligned((ROWS * LANES,)),
        )  # fmt: skip
        return out
