"""Transformers of series that need no matrix transformer: standardized values, time, resampling and lengths."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._parameters import CheckedParameters, Rules, boolean, nonnegative, one_of, whole
from mercer.data.channels import inside, wrapped_like
from mercer.data.ragged import offsets_of
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.data.transformers import _Transformer


class Standardize(_Transformer):
    """Shift and scale series to mean 0 and standard deviation 1, per channel or per series.

    Parameters
    ----------
    per : {"channel", "series"}, default="channel"
        "channel" uses one mean and one standard deviation per channel, of all time steps of the training series;
        levels and sizes of series are kept relative to each other. "series" uses those of each series itself
        (z-normalization), so that only its shape remains; each channel is scaled separately.

    Attributes
    ----------
    mean_, scale_ : arrays of shape (d,)
        Mean and standard deviation of every channel of the training series; with ``per="channel"``.
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    Missing values (NaN) are ignored and stay missing. A channel that is constant, up to rounding, becomes 0. The means
    and scales of channels are correctly rounded sums: they do not depend on the order of the series.

    See Also
    --------
    PerStep : Any other transformer of time steps.
    Derivatives : Append time derivatives; standardize after them.

    Examples
    --------
    >>> import mercer as mc
    >>> series = [[1.0, 2.0, 3.0], [10.0, 20.0]]
    >>> [
    ...     x.ravel().round(2).tolist()
    ...     for x in mc.Standardize(per="series").fit_transform(series)
    ... ]
    [[-1.22, 0.0, 1.22], [-1.0, 1.0]]
    >>> [x.ravel().round(2).tolist() for x in mc.Standardize().fit_transform(series)]
    [[-0.87, -0.73, -0.59], [0.39, 1.79]]
    """

    _parameters: ClassVar[Rules] = {
        "per": one_of("channel", "series", cure="'series' gives every series mean 0 and standard deviation 1.")
    }

    def __init__(self, per: str = "channel") -> None:
        self.per = per

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the means and standard deviations of the channels, if they are used.

        Parameters
        ----------
        X : Sequences or array-like
            Training series, in any form that `Sequences` accepts.
        y : ignored
            Present for API consistency.
        """
        X = Sequences(inside(X))
        super().fit(X)
        for name in ("mean_", "scale_"):
            self.__dict__.pop(name, None)
        if self.per == "channel":
            self.mean_, self.scale_ = _of_channels(X.values)
        return self

    def _transformed(self, X: Sequences) -> Sequences:
        mean, scale = self._learned() if self.per == "channel" else _of_series(X)

        def standardized(values: Floats) -> Floats:
            with np.errstate(over="ignore"):  # an infinite result raises
                wide = (values.astype(np.float64) - mean) / scale
                return wide.astype(values.dtype, copy=False)

        return X.mapped(standardized)

    def _learned(self) -> tuple[Floats, Floats]:
        check_is_fitted(self, "mean_")
        return self.mean_, self.scale_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.per == "channel"
        return tags


class Clock(_Transformer):
    r"""Append the time as a coordinate, from the start of every series to its end.

    Kernels that compare the points of two series in any order, such as `EmpiricalMeanMap`, then compare points of
    about the same time.

    Parameters
    ----------
    weight : float, default=1.0
        Standard deviation of the new coordinate: it goes from :math:`-\sqrt3` to :math:`\sqrt3`, times the weight. With
        other channels that are standardized, 1 makes the time as important as one of them; a weight of 10 compares
        points of nearly the same time only.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    The time runs evenly from start to end in every series, whatever its length, and is 0 in a series of length 1. Use
    `Clock` after transformers that scale, which would undo the weight.

    See Also
    --------
    Standardize : Scale the other coordinates.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.data.Clock(weight=10.0).fit_transform([[5.0, 6.0, 7.0], [8.0]])[0].round(2)
    array([[  5.  , -17.32],
           [  6.  ,   0.  ],
           [  7.  ,  17.32]])
    """

    _parameters: ClassVar[Rules] = {"weight": nonnegative("It is the standard deviation of the time coordinate.")}

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def _transformed(self, X: Sequences) -> Sequences:
        step = np.arange(len(X.values)) - np.repeat(X.offsets[:-1], X.lengths)
        last = np.repeat(X.lengths - 1, X.lengths)
        time = float(self.weight) * math.sqrt(3.0) * (2 * step - last) / np.maximum(last, 1)
        return X.mapped(lambda values: np.concatenate([values, time[:, None].astype(values.dtype)], axis=1))

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        name = "clock"
        while name in channels:
            name += "'"
        return [*channels, name]


def _of_channels(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the scale of every column, from sums that do not depend on the order of the rows."""
    found = []
    for column in np.asarray(values, dtype=np.float64).T:
        seen = column[~np.isnan(column)]
        peak = float(np.max(np.abs(seen), initial=0.0)) or 1.0  # so that no square overflows
        n = max(len(seen), 1)
        mean = math.fsum(seen / peak) / n
        square = math.fsum((seen / peak - mean) ** 2) / n
        found.append((mean * peak, float(_scale(mean, square, n, peak))))
    means, scales = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return means, scales


def _of_series(X: Sequences) -> tuple[Floats, Floats]:
    """Return the mean and the scale of every column in every series, repeated for its time steps."""
    values = np.asarray(X.values, dtype=np.float64)
    seen = ~np.isnan(values)
    known = np.where(seen, values, 0.0)

    def sums(points: Floats) -> Floats:
        return segment_sum(points, X.offsets)

    def repeated(numbers: Floats) -> Floats:
        return np.repeat(numbers, X.lengths, axis=0)

    peak = np.ones((len(X), values.shape[1]))
    full = X.lengths > 0
    if full.any():
        peak[full] = np.maximum.reduceat(np.abs(known), X.offsets[:-1][full], axis=0)
    peak[peak == 0] = 1.0
    known = known / repeated(peak)
    n = np.maximum(sums(seen.astype(np.float64)), 1.0)
    mean = sums(known) / n
    square = sums(np.where(seen, known - repeated(mean), 0.0) ** 2) / n
    return repeated(mean * peak), repeated(_scale(mean, square, n, peak))


def _scale(mean: Any, square: Any, n: Any, peak: Any) -> Floats:
    """Return the standard deviations of values that were divided by ``peak``; 1 if constant up to rounding."""
    constant = square <= (n * np.finfo(np.float64).eps * mean) ** 2
    return np.where(constant, 1.0, np.sqrt(square) * peak)


class Resample(_Transformer):
    """Give all series the same number of time steps, by linear interpolation from start to end.

    Parameters
    ----------
    n_steps : int, default=64
        The number of time steps.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    Missing values (NaN) are interpolated from the nearest observed values of their channel; before the first and after
    the last of them, its value is repeated. A channel without any observed value in a series becomes 0, which is the
    mean if `Standardize` comes before. Unlike other transformers of sequences, this one changes the lengths.

    See Also
    --------
    Clock : Append the time as a coordinate.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = mc.data.Resample(5).fit_transform([[0.0, 2.0, 4.0], [1.0, np.nan, 3.0, 1.0]])
    >>> [x.ravel().tolist() for x in X]
    [[0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1.75, 2.5, 2.5, 1.0]]
    """

    _parameters: ClassVar[Rules] = {"n_steps": whole(1, cure="It is the number of time steps of every series.")}

    def __init__(self, n_steps: int = 64) -> None:
        self.n_steps = n_steps

    def _transformed(self, X: Sequences) -> Sequences:
        X.require_nonempty()
        steps = int(self.n_steps)
        values = [_interpolated(x, steps) for x in X]
        flat = np.concatenate(values) if values else X.values
        return Sequences._make(flat, offsets_of(np.full(len(X), steps)), None, X.ids)


def _interpolated(x: Floats, steps: int) -> Floats:
    """Interpolate one series ``(T, d)``; shape ``(steps, d)``."""
    places = np.linspace(0.0, len(x) - 1.0, steps) if steps > 1 else np.array([(len(x) - 1) / 2])
    out = np.zeros((steps, x.shape[1]), dtype=x.dtype)
    for channel, values in enumerate(x.T):
        seen = np.flatnonzero(~np.isnan(values))
        if len(seen):
            out[:, channel] = np.interp(places, seen, values[seen])
    return out


def interpolated(X: Sequences) -> Floats:
    """Return the values of series, interpolated in gaps; a channel without any value in a series is 0."""
    if not np.isnan(X.values).any():
        return X.values
    return np.concatenate([_interpolated(x, len(x)) for x in X])


class Lengths(CheckedParameters, TransformerMixin, BaseEstimator):
    """Transform every sequence to its length, as a baseline feature.

    If sequences differ in length, a classifier may rely on the lengths only. Combine this transformer with a simple
    classifier to see how accurate that is.

    Parameters
    ----------
    log : bool, default=True
        Whether to return the logarithm of the length.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Lengths(log=False).fit_transform(["ACGT", "AC"])
    array([[4.],
           [2.]])
    """

    _parameters: ClassVar[Rules] = {"log": boolean()}

    def __init__(self, log: bool = True) -> None:
        self.log = log

    def fit(self, X: Any, y: Any = None) -> Self:
        """Validate the parameters; nothing is learned.

        Parameters
        ----------
        X : Sequences or array-like
            Training sequences, in any form that `Sequences` accepts.
        y : ignored
            Present for API consistency.
        """
        self._check_parameters()
        return self

    def transform(self, X: Any) -> Any:
        """Return the lengths, ``(N, 1)``.

        Parameters
        ----------
        X : Sequences, array-like or Confounded
            Sequences; confounds are kept.
        """
        sequences = Sequences(inside(X))
        if not self.log:
            return wrapped_like(X, sequences.lengths[:, None].astype(np.float64))
        return wrapped_like(X, np.log(sequences.require_nonempty().lengths[:, None]))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the name of the single output feature.

        Parameters
        ----------
        input_features : ignored
            Present for API consistency.
        """
        return np.array(["log_length" if self.log else "length"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = False
        return tags
