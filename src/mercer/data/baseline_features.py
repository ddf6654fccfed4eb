"""Simple features of sequences, for the baselines of a comparison. Confounds that come with the data are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler

from mercer._array import Floats
from mercer.data.channels import by_name, inside, wrapped_like
from mercer.data.sequences import Sequences
from mercer.data.standardize import Resample


class _Features(TransformerMixin, BaseEstimator, ABC):
    """A transformer that learns nothing but the order of the channels."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names of the channels."""
        by_name(self, X, reset=True)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features, ``(N, D)``."""
        X = by_name(self, X, reset=False)
        return wrapped_like(X, self._features(inside(X)))

    @abstractmethod
    def _features(self, X: Any) -> Floats:
        """Return the features of data without confounds, ``(N, D)``."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


class Means(_Features):
    """Mean of every channel, over the observed values."""

    def _features(self, X: Any) -> Floats:
        return _Channels(X).mean


class Moments(_Features):
    """Mean of every channel and all covariances."""

    def _features(self, X: Any) -> Floats:
        points = [np.asarray(x) for x in Sequences(X)]
        upper = np.triu_indices(points[0].shape[1])
        return np.array([[*x.mean(axis=0), *np.atleast_2d(np.cov(x.T, bias=True))[upper]] for x in points])


class Summary(_Features):
    """Mean, standard deviation, range and mean change of every channel; gaps are skipped."""

    def _features(self, X: Any) -> Floats:
        channels = _Channels(X)
        return np.hstack([channels.mean, channels.spread, channels.lowest, channels.highest, channels.change])


class Frequencies(_Features):
    """Relative frequency of every symbol; ambiguity codes have separate columns."""

    def _features(self, X: Any) -> Floats:
        X = Sequences(X)
        codes = X.alphabet.n_codes
        cells = np.repeat(np.arange(len(X)) * codes, X.lengths) + X.values
        counts = np.bincount(cells, minlength=len(X) * codes).reshape(len(X), codes)
        return counts / np.maximum(X.lengths, 1)[:, None]


class Positions(_Features):
    """The symbol at every position, one column for each; positions beyond the longest training string are left out."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the number of positions."""
        self.length_ = int(max(Sequences(inside(X)).lengths, default=0))
        return self

    def _features(self, X: Any) -> Floats:
        X = Sequences(X)
        codes = X.alphabet.n_codes
        at = np.arange(len(X.values)) - np.repeat(X.offsets[:-1], X.lengths)
        owner, kept = np.repeat(np.arange(len(X)), X.lengths), at < self.length_
        features = np.zeros((len(X), self.length_, codes))
        features[owner[kept], at[kept], X.values[kept]] = 1.0
        return features.reshape(len(X), -1)


class Flat(_Features):
    """All values of a series, after interpolation to the same number of steps.

    Parameters
    ----------
    n_steps : int, default=64
        The number of steps.
    """

    def __init__(self, n_steps: int = 64) -> None:
        self.n_steps = n_steps

    def _features(self, X: Any) -> Floats:
        even = Resample(self.n_steps).fit_transform(Sequences(X))
        return np.asarray(even.values, dtype=np.float64).reshape(len(even), -1)


class ScaledFeatures(_Features):
    """Features with mean 0 and standard deviation 1 in training, as scikit-learn's ``StandardScaler``."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the scale."""
        self.scaler_ = StandardScaler().fit(inside(X))
        return self

    def _features(self, X: Any) -> Floats:
        scaled: Floats = self.scaler_.transform(X)
        return scaled


class ConfoundsOnly(_Features):
    """The confounds by themselves."""

    def transform(self, X: Any) -> Any:
        """Return the confounds, ``(N, c)``."""
        return self._features(X)

    def _features(self, X: Any) -> Floats:
        confounds: Floats = X.confounds
        return confounds


class _Channels:
    """Statistics of the observed values of every channel of every series; 0 where a channel has none."""

    def __init__(self, X: Any) -> None:
        self.X = Sequences(X)
        self.values = np.asarray(self.X.values, dtype=np.float64)
        self.owner = np.repeat(np.arange(len(self.X)), self.X.lengths)
        self.seen = ~np.isnan(self.values)
        self.mean = self._average(self.values, self.owner)

    @property
    def spread(self) -> Floats:
        return np.sqrt(self._average((self.values - self.mean[self.owner]) ** 2, self.owner))

    @property
    def lowest(self) -> Floats:
        return self._extreme(np.minimum, np.inf)

    @property
    def highest(self) -> Floats:
        return self._extreme(np.maximum, -np.inf)

    @property
    def change(self) -> Floats:
        """Mean absolute difference of neighbors in time."""
        inner = self.owner[1:] == self.owner[:-1]
        return self._average(np.abs(np.diff(self.values, axis=0))[inner], self.owner[1:][inner])

    def _average(self, values: Floats, owner: Any) -> Floats:
        seen = ~np.isnan(values)
        total, count = np.zeros((2, len(self.X), values.shape[1]))
        np.add.at(total, owner, np.where(seen, values, 0.0))
        np.add.at(count, owner, seen)
        return total / np.maximum(count, 1)

    def _extreme(self, better: Any, worst: float) -> Floats:
        found = np.full(self.mean.shape, worst)
        better.at(found, self.owner, np.where(self.seen, self.values, worst))
        return np.where(np.isinf(found), 0.0, found)
