"""Sequences of vectors whose windows a kernel averages over."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.kernels.base.transformer import NoFeatures


class VectorSets:
    """Sequences of vectors: a subclass averages a base kernel over the pairs of their windows.

    Parameters
    ----------
    sequences : Sequences
        Vectors, every sequence longer than ``window_order``.
    window_order : int
        Windows have ``window_order + 1`` vectors.
    gamma : float
        Parameter of the base kernel.
    """

    tile_points: ClassVar[int]
    """Number of points on one side of a tile."""
    order: Floats | None = None

    def __init__(self, sequences: Sequences, window_order: int, gamma: float) -> None:
        self.sequences, self.window_order, self.gamma = sequences, window_order, gamma

    @property
    def tile_hint(self) -> int:
        """Number of sequences in a tile, from their average length."""
        average = self.sequences.offsets[-1] / max(len(self), 1)
        return int(np.clip(self.tile_points / max(average, 1), 1, 256))

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.sequences[key], self.window_order, self.gamma)

    def features(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "EmpiricalMeanMap of vectors has no finite explicit features. Set n_components=1000 for random ones, or "
            "use its Gram matrix."
        )
