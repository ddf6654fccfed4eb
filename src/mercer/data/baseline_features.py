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
        return np.array([_statistics(x)[0] for x in Sequences(X)])


class Moments(_Features):
    """Mean of every channel and all covariances."""

    def _features(self, X: Any) -> Floats:
        points = [np.asarray(x) for x in Sequences(X)]
        upper = np.triu_indices(points[0].shape[1])
        return np.array([[*x.mean(axis=0), *np.atleast_2d(np.cov(x.T, bias=True))[upper]] for x in points])


class Summary(_Features):
    """Mean, standard deviation, range and mean change of every channel; gaps are skipped."""

    def _features(self, X: Any) -> Floats:
        return np.array([np.concatenate(_statistics(x)) for x in Sequences(X)])


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


def _statistics(x: Floats) -> list[Floats]:
    """Return the mean, standard deviation, range and mean absolute change of every channel; 0 without a value."""
    x = np.ascontiguousarray(x if len(x) else np.full((1, x.shape[1]), np.nan))  # the same bits for any layout
    seen, change = (np.ma.masked_invalid(part) for part in (x, np.abs(np.diff(x, axis=0))))
    parts = [seen.mean(axis=0), seen.std(axis=0), seen.min(axis=0), seen.max(axis=0), change.mean(axis=0)]
    return [np.ma.filled(part, 0.0) for part in parts]
