"""Observations of many models, in the layout that EM uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._array import Floats, Indices
from mercer._immutable import cached_property
from mercer.data.segments import segment_sum
from mercer.models._forward.interface import Runs


@dataclass(frozen=True)
class Data:
    """Observations of several models; the sequences of a model are contiguous, in the order of the models.

    Parameters
    ----------
    x : array of shape (T, ...)
        All observations.
    offsets : array of shape (S + 1,)
        Sequence s has the observations ``offsets[s]:offsets[s + 1]``.
    model : array of shape (S,)
        Model of each sequence, ascending from 0.
    size : int
        Number of models.
    weights : array of shape (T,), default=None
        Weight of each observation; None means 1. Only for mixtures, which ignore the order of observations.
    """

    x: Floats
    offsets: Indices
    model: Indices
    size: int
    weights: Floats | None = None

    @cached_property
    def runs(self) -> Runs:
        """The sequences, each under its model."""
        return Runs(self.offsets[:-1], np.diff(self.offsets), self.model)

    @cached_property
    def owner(self) -> Indices:
        """Model of each observation."""
        return np.repeat(self.model, np.diff(self.offsets))

    @cached_property
    def sequence_offsets(self) -> Indices:
        """Model i has the sequences ``sequence_offsets[i]:sequence_offsets[i + 1]``."""
        return np.searchsorted(self.model, np.arange(self.size + 1))

    @cached_property
    def point_offsets(self) -> Indices:
        """Model i has the observations ``point_offsets[i]:point_offsets[i + 1]``."""
        return np.asarray(self.offsets[self.sequence_offsets])

    @cached_property
    def mass(self) -> Floats:
        """Number, or total weight, of the observations of each model."""
        if self.weights is None:
            return np.diff(self.point_offsets)
        return segment_sum(self.weights, self.point_offsets)

    @cached_property
    def incomplete(self) -> Indices:
        """Indices of the observations with missing coordinates (NaN)."""
        return np.flatnonzero(np.isnan(self.x).any(axis=1))

    @cached_property
    def observed(self) -> Floats:
        """Number of the observations of each model that have at least one coordinate."""
        return segment_sum(np.isfinite(self.x).any(axis=1).astype(float), self.point_offsets)

    def some(self, which: Indices) -> Data:
        """Return the sequences of the models ``which``, ascending."""
        keep = np.zeros(self.size, dtype=bool)
        keep[which] = True
        place = np.cumsum(keep) - 1
        inside, lengths = keep[self.model], np.diff(self.offsets)
        points = np.flatnonzero(np.repeat(inside, lengths))
        offsets = np.concatenate([[0], np.cumsum(lengths[inside])])
        weights = None if self.weights is None else self.weights[points]
        return Data(self.x[points], offsets, place[self.model[inside]], len(which), weights)
