"""Observations of many models, as Baum-Welch and EM take them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer._array import Floats
from mercer.data.segments import segment_sum
from mercer.models._forward.interface import Runs

__all__ = ["Data"]


@dataclass(frozen=True)
class Data:
    """Observations of several models: the sequences of a model stand together, models in order.

    Parameters
    ----------
    x : array of shape (T, ...)
        All observations.
    offsets : array of shape (S + 1,)
        Sequence s has the observations ``offsets[s]:offsets[s + 1]``.
    model : array of shape (S,)
        Model of every sequence, ascending from 0.
    size : int
        Number of models.
    weights : array of shape (T,), default=None
        How often every observation counts; None is once. For mixtures alone, which know no order.
    """

    x: Floats
    offsets: Floats
    model: Floats
    size: int
    weights: Floats | None = None

    @cached_property
    def runs(self) -> Runs:
        """The sequences, each under its model."""
        return Runs(self.offsets[:-1], np.diff(self.offsets), self.model)

    @cached_property
    def owner(self) -> Floats:
        """Model of every observation."""
        return np.repeat(self.model, np.diff(self.offsets))

    @cached_property
    def sequence_offsets(self) -> Floats:
        """Model i has the sequences ``[i]:[i + 1]`` of these."""
        return np.searchsorted(self.model, np.arange(self.size + 1))

    @cached_property
    def point_offsets(self) -> Floats:
        """Model i has the observations ``[i]:[i + 1]`` of these."""
        return np.asarray(self.offsets[self.sequence_offsets])

    @cached_property
    def mass(self) -> Floats:
        """Number of observations of every model, or their weight."""
        if self.weights is None:
            return np.diff(self.point_offsets)
        return segment_sum(self.weights, self.point_offsets)

    @cached_property
    def incomplete(self) -> Floats:
        """Observations with a coordinate that is NaN."""
        return np.flatnonzero(np.isnan(self.x).any(axis=1))

    def some(self, which: Floats) -> Data:
        """Keep the sequences of some models, which are ascending."""
        keep = np.zeros(self.size, dtype=bool)
        keep[which] = True
        place = np.cumsum(keep) - 1
        inside, lengths = keep[self.model], np.diff(self.offsets)
        points = np.flatnonzero(np.repeat(inside, lengths))
        offsets = np.concatenate([[0], np.cumsum(lengths[inside])])
        weights = None if self.weights is None else self.weights[points]
        return Data(self.x[points], offsets, place[self.model[inside]], len(which), weights)
