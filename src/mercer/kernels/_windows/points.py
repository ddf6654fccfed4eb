"""Windows of vectors: exact averages of the base kernel over all pairs (EMMK-2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._immutable import cached_property
from mercer.data import Sequences
from mercer.kernels.base.transformer import NoFeatures

TILE_POINTS = 2048
"""Number of points on one side of a tile."""


class WindowSets:
    """Sequences of vectors: tiles by compiled loops, without a table per pair of sequences.

    Parameters
    ----------
    sequences : Sequences
        Vectors, every sequence longer than ``window_order``.
    window_order : int
        Windows have ``window_order + 1`` vectors.
    gamma : float
        Parameter of the base kernel.
    """

    order: Floats | None = None

    def __init__(self, sequences: Sequences, window_order: int, gamma: float) -> None:
        self.sequences = sequences
        self.window_order = window_order
        self.gamma = gamma

    @cached_property
    def lanes(self) -> Floats:
        """All vectors, coordinate by coordinate."""
        from mercer._native.points import by_coordinate

        return by_coordinate(self.sequences.values)

    @property
    def tile_hint(self) -> int:
        """Number of sequences in a tile, from their average length."""
        average = self.sequences.offsets[-1] / max(len(self), 1)
        return int(np.clip(TILE_POINTS / max(average, 1), 1, 256))

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, key: Any) -> WindowSets:
        return WindowSets(self.sequences[key], self.window_order, self.gamma)

    def pair(self, other: WindowSets) -> Floats:
        """Log average base kernel of every pair of sequences, exact even where all terms underflow."""
        left, right = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        return self._log_means(other, left, right).reshape(len(self), len(other))

    def alone(self) -> Floats:
        """Log average base kernel of every sequence with itself."""
        every = np.arange(len(self))
        return self._log_means(self, every, every)

    def features(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "EmpiricalMeanMap of vectors has no finite explicit features. Set n_components=1000 for random ones, or "
            "use its Gram matrix."
        )

    def _log_means(self, other: WindowSets, left: Floats, right: Floats) -> Floats:
        if self.gamma == 0:
            return np.zeros(len(left))
        from mercer._native import points

        scale = -points.LOG2_E * float(self.gamma)
        offsets, width = (self.sequences.offsets, other.sequences.offsets), self.window_order + 1

        def ask(term: int, which: Any, shift: Floats) -> Floats:
            pairs = left[which], right[which]
            return points.window_sums(
                term, self.sequences.values, other.lanes, offsets, pairs, width, scale, shift
            )  # fmt: skip

        logs = points.log_sums(ask, np.full(len(left), scale))
        count, other_count = (side.sequences.lengths - side.window_order for side in (self, other))
        return np.asarray(logs - np.log(count[left]) - np.log(other_count[right]))
