"""Samples as points with Gaussian states: sums of base kernels times mean maps of the states (LMMK-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer.data.segments import segment_sum
from mercer.families.gaussian import Gaussians
from mercer.kernels._operands import squared_distances
from mercer.kernels.base.transformer import NoFeatures

TILE_POINTS = 1024
"""Number of points on one side of a tile."""


@dataclass(frozen=True)
class GaussianPoints:
    """Observations of N samples and the Gaussian posteriors of their hidden states."""

    points: Floats
    """Observations, ``(T, d)``."""
    states: Gaussians
    """Posteriors of the states, ``(T,)``."""
    offsets: Indices
    """Sample i is at ``offsets[i]:offsets[i + 1]``."""
    gamma: float
    """Parameter of the base kernel of observations."""
    gamma_states: float
    """Parameter of the base kernel of states."""

    order = None

    @property
    def tile_hint(self) -> int:
        """Number of samples in a tile, from their average number of points."""
        return int(np.clip(TILE_POINTS * len(self) / max(len(self.points), 1), 1, 256))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> GaussianPoints:
        """Take some samples."""
        samples = np.arange(len(self))[key]
        begin, sizes = self.offsets[:-1][samples], np.diff(self.offsets)[samples]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(begin - offsets[:-1], sizes) + np.arange(offsets[-1])
        return GaussianPoints(self.points[rows], self.states[rows], offsets, self.gamma, self.gamma_states)

    def inner(self, other: GaussianPoints) -> Floats:
        """Return the kernels of every pair."""
        found = np.empty((len(self), len(other)))
        scale = np.maximum(np.diff(other.offsets), 1)
        for i in range(len(self)):  # one by one: a sum never depends on the neighbors
            found[i] = segment_sum(self._sums(i, other), other.offsets) / scale
        return found

    def squares(self) -> Floats:
        """Return the self-kernel of every sample."""
        ones = (self[i : i + 1] for i in range(len(self)))
        return np.array([one.inner(one)[0, 0] for one in ones])

    def _sums(self, i: int, other: GaussianPoints) -> Floats:
        """Average kernels of single points over the points of sample i, ``(T',)``."""
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        logs = to_numpy(self.states[rows].log_mean_map(other.states, self.gamma_states))
        logs = logs - self.gamma * squared_distances(self.points[rows], other.points)
        return np.asarray(np.exp(logs).sum(axis=0) / max(len(logs), 1))

    def dense(self) -> Floats:
        """Raise: the base kernel of vectors has no finite features."""
        raise NoFeatures(
            "LatentMeanMap of vectors has no finite explicit features. Set n_components=1000 for random ones, or use "
            "its Gram matrix"
        )

    def random_features(self, frequencies: Floats) -> Floats:
        """Return expected random Fourier features (MM-2), ``(N, 2 F)``.

        Parameters
        ----------
        frequencies : array of shape (d + n, F)
            Standard normal numbers, of observations and of states.
        """
        d = self.points.shape[1]
        mean, covariance = to_numpy(self.states.mean), to_numpy(self.states.covariance)
        seen, hidden = np.sqrt(2 * self.gamma) * frequencies[:d], np.sqrt(2 * self.gamma_states) * frequencies[d:]
        angle = self.points @ seen + mean @ hidden
        damped = np.exp(-np.einsum("tij,if,jf->tf", covariance, hidden, hidden, optimize=True) / 2)
        features = np.concatenate([np.cos(angle) * damped, np.sin(angle) * damped], axis=1)
        total = segment_sum(features, self.offsets) / np.maximum(np.diff(self.offsets), 1)[:, None]
        return np.asarray(total / np.sqrt(frequencies.shape[1]))
