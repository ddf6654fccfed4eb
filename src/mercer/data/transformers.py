"""Transformers of sequences for scikit-learn's pipelines; they keep the lengths."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._parameters import CheckedParameters, Rules, whole
from mercer.data._forms import as_floats
from mercer.data.channels import by_name, inside, wrapped_like
from mercer.data.ragged import neighbors, window_steps
from mercer.data.sequences import OverlappingWindows, Sequences


class _Transformer(CheckedParameters, TransformerMixin, BaseEstimator, ABC):
    """Base class of the transformers: converts input to `Sequences` and checks its dimension."""

    def __init_subclass__(cls, **options: Any) -> None:
        # Output features have names, but Sequences are not a table, so scikit-learn must not wrap them in a DataFrame.
        super().__init_subclass__(auto_wrap_output_keys=None, **options)

    def set_output(self, *, transform: Any = None) -> Self:
        """Choose the container of the output; `Sequences` are no table, and stay as they are.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            As for any transformer of scikit-learn, so that a pipeline can pass it on to all of its steps.
        """
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Validate the parameters and store the dimension of the data.

        Parameters
        ----------
        X : Sequences or array-like
            Training sequences, in any form that `Sequences` accepts.
        y : ignored
            Present for API consistency.
        """
        self._check_parameters()
        self.n_features_in_ = self._vectors(X, reset=True).values.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Transform sequences.

        Parameters
        ----------
        X : Sequences, array-like or Confounded
            Sequences; confounds are kept.
        """
        self._check_parameters()
        vectors = self._vectors(X)
        out = self._transformed(vectors)
        return wrapped_like(X, out if vectors.channels is None else self._named(out, vectors.channels))

    @abstractmethod
    def _transformed(self, X: Sequences) -> Sequences:
        """Return the sequences transformed; the names of their channels come later."""

    def _named(self, out: Sequences, channels: tuple[str, ...]) -> Sequences:
        """Return the output with the names of its channels, from those of the input."""
        return out.with_channels(self._names_out(channels))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the output channels.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input channels; by default those of the training data, or "x0", "x1", ... if they have none.
        """
        check_is_fitted(self, "n_features_in_")
        numbers = [f"x{i}" for i in range(self.n_features_in_)]
        names = getattr(self, "feature_names_in_", numbers) if input_features is None else input_features
        return np.array(self._names_out(self._checked_names(names)), dtype=object)

    def _checked_names(self, names: Any) -> tuple[str, ...]:
        """Return names of the input channels; raise unless there is one per channel."""
        given = tuple(str(name) for name in names) if not isinstance(names, str) and np.ndim(names) == 1 else ()
        if len(given) != self.n_features_in_:
            raise ValueError(
                f"input_features must be a list of {self.n_features_in_} names, one per channel; got {names!r}."
            )
        return given

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        """Return the names of the output channels from those of the input."""
        return list(channels)

    def _vectors(self, X: Any, *, reset: bool = False) -> Sequences:
        """Return the input as Sequences of vectors; unless ``reset``, with the channels that were seen in fit."""
        X = inside(X)
        X = X if isinstance(X, Sequences) else Sequences(X)  # windows stay windows
        X = by_name(self, X.require("vectors", self), reset=reset)
        return X if reset else X.require_dimension(getattr(self, "n_features_in_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = False
        return tags


class Derivatives(_Transformer):
    """Append time derivatives to the values of every sequence.

    Many series differ more in how they change than in their values. A model whose emissions depend on one time step
    only, such as a hidden Markov model, then needs the change as a coordinate.

    Parameters
    ----------
    orders : int or tuple of int, default=1
        An int k appends the orders 1 to k; a tuple appends the given orders.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    The first derivative is `numpy.gradient` with unit steps: ``(x[t + 1] - x[t - 1]) / 2`` inside, the one-sided
    difference at both ends, and 0 in a sequence of length 1. Higher orders repeat it. Next to missing values (NaN), and
    in gaps, it is the slope between the nearest observed values on both sides. d coordinates and m orders give
    ``d (m + 1)`` coordinates: the values, then one block per order. Channels with a name, such as "speed", have
    derivatives with a name, "d1(speed)".

    See Also
    --------
    Windows : Replace steps by the windows around them.
    PerStep : Scale or project every time step.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Derivatives().fit_transform([[0.0, 1.0, 4.0, 9.0], [5.0]])[0]
    array([[0., 1.],
           [1., 2.],
           [4., 4.],
           [9., 5.]])
    """

    def __init__(self, orders: int | tuple[int, ...] = 1) -> None:
        self.orders = orders

    def _check_parameters(self) -> None:
        numbers_from_one("orders", self.orders)

    def _transformed(self, X: Sequences) -> Sequences:
        orders, found = numbers_from_one("orders", self.orders), [X.values]
        for _ in range(max(orders)):
            found.append(slopes(found[-1], X.offsets))
        return X.mapped(lambda values: np.concatenate([values, *(found[k] for k in orders)], axis=1))

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        return [*channels, *(f"d{k}({name})" for k in numbers_from_one("orders", self.orders) for name in channels)]


class Windows(_Transformer):
    """Replace every time step by the window around it, whose steps may be some steps apart.

    A window of 9 steps with dilation 4 sees a shape that is 33 steps long. A model of single time steps, such as a
    `Mixture`, then becomes a model of shapes.

    Parameters
    ----------
    length : int, default=9
        Number of steps of a window.
    dilation : int, default=1
        Distance of these steps.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    Numbers of time steps are kept: beyond its ends, a sequence is reflected. d coordinates give ``length * d``: all of
    the first step, then those of the next one. Channels with a name, such as "speed", have steps with a name,
    "speed[-1]", "speed[+0]".

    Windows overlap, so that every value counts several times: what a model says about windows is a composite
    likelihood. It compares series, and trains models, but it is not a probability of the series: `LikelihoodRatio`,
    ``bic`` and ``mercer.stats.goodness_of_fit`` refuse windows.

    See Also
    --------
    Derivatives : Append differences instead.
    FisherEnsemble : Compares series by their windows at all scales.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Windows(length=3, dilation=2).fit_transform([[0.0, 1.0, 2.0, 3.0]])[0]
    array([[2., 0., 2.],
           [1., 1., 3.],
           [0., 2., 2.],
           [1., 3., 1.]])

    A Fisher kernel of a mixture of shapes:

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> kernel = mc.Fisher(mc.Mixture(mc.Gaussian("diagonal"), 2))
    >>> X = [np.sin(np.arange(20.0) * f) for f in (0.3, 0.5, 0.8)]
    >>> make_pipeline(mc.Windows(5), kernel).fit_transform(X).shape
    (3, 3)
    """

    _parameters: ClassVar[Rules] = {"length": whole(1, 10_000), "dilation": whole(1, 1_000_000_000)}

    def __init__(self, length: int = 9, dilation: int = 1) -> None:
        self.length = length
        self.dilation = dilation

    def _transformed(self, X: Sequences) -> Sequences:
        length = int(self.length)
        steps = window_steps(X.offsets, np.arange(len(X.values)), length, int(self.dilation))
        windows = X.values[steps].reshape(len(steps), length * X.values.shape[1])
        return OverlappingWindows._make(windows, X.offsets, None, X.ids)

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        places = (np.arange(self.length) - self.length // 2) * self.dilation
        return [f"{name}[{place:+d}]" for place in places.tolist() for name in channels]


class PerStep(_Transformer):
    """Apply a scikit-learn transformer, such as a scaler or PCA, to every time step.

    Parameters
    ----------
    transformer : estimator
        Any scikit-learn transformer of matrices; it is cloned. It is fitted on all time steps of all training
        sequences, one per row, so that long sequences have more weight than short ones. It does not receive y.

    Attributes
    ----------
    transformer_ : estimator
        The fitted clone.
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    NaN is passed to the transformer unchanged: StandardScaler keeps it, PCA raises an error.

    See Also
    --------
    Derivatives : Append time derivatives.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> chain = make_pipeline(mc.Derivatives(), mc.PerStep(StandardScaler()))
    >>> X = chain.fit_transform([[0.0, 2.0, 4.0], [6.0, 8.0]])
    >>> X
    Sequences(2 sequences of 2-dimensional vectors (float64), lengths 2 to 3)
    >>> X.values.mean(axis=0), X.values.std(axis=0)
    (array([0., 0.]), array([1., 0.]))
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def _check_parameters(self) -> None:
        if isinstance(self.transformer, type):
            name = self.transformer.__name__
            raise TypeError(f"transformer must be an instance; got the class {name}. Pass {name}().")
        if not (hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")):
            raise TypeError(
                f"transformer must have fit and transform, such as StandardScaler(); got {self.transformer!r}."
            )
        if isinstance(self.transformer, _Transformer):
            name = type(self.transformer).__name__
            raise TypeError(
                f"transformer must accept single time steps; got {self.transformer!r}, which requires sequences. Use "
                f"{name} as a separate step, as in make_pipeline({name}(...), PerStep(StandardScaler()))."
            )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer on all time steps.

        Parameters
        ----------
        X : Sequences or array-like
            Training sequences, in any form that `Sequences` accepts.
        y : ignored
            Present for API consistency.
        """
        X = Sequences(inside(X))
        super().fit(X)
        self.transformer_ = clone(self.transformer).fit(X.values)
        return self

    def _transformed(self, X: Sequences) -> Sequences:
        check_is_fitted(self, "transformer_")
        return X.mapped(self._steps).with_channels(None)

    def _named(self, out: Sequences, channels: tuple[str, ...]) -> Sequences:
        return super()._named(out, channels) if hasattr(self.transformer_, "get_feature_names_out") else out

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        return [str(name) for name in self.transformer_.get_feature_names_out(channels)]

    def _steps(self, values: NDArray[Any]) -> NDArray[Any]:
        out = self.transformer_.transform(values)
        out = out.toarray() if hasattr(out, "toarray") else np.asarray(out)
        return as_floats(out if out.ndim == 2 else out.reshape(len(out), -1))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the transformer's output features.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input features.
        """
        check_is_fitted(self, "transformer_")
        known = getattr(self, "feature_names_in_", None)
        given = known if input_features is None else self._checked_names(input_features)
        return self.transformer_.get_feature_names_out(given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


_MOST = 10_000
"""The highest order: each of them makes a copy of the data."""


def numbers_from_one(name: str, value: Any) -> tuple[int, ...]:
    """Convert an int k to (1, ..., k); check a tuple of integers."""
    several = isinstance(value, tuple | list | range)
    chosen = list(value) if several else [value]
    whole = all(isinstance(v, numbers.Integral) and not isinstance(v, bool) for v in chosen)
    if not chosen or not whole or min(chosen) < 1 or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"{name} must be an integer of at least 1, or a tuple of distinct such integers; got {value!r}."
        )
    if max(chosen) > _MOST:
        raise ValueError(f"{name} must be at most {_MOST}, because each makes a copy of the data; got {value!r}.")
    return tuple(int(v) for v in chosen) if several else tuple(range(1, int(value) + 1))


def slopes(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Return the slopes between the nearest observed values before and after every step, as `numpy.gradient` does."""
    before, after = neighbors(~np.isnan(values), offsets)
    apart = np.maximum(after - before, 1)  # 1 avoids 0 / 0 in sequences with a single value
    change = np.take_along_axis(values, after, axis=0) - np.take_along_axis(values, before, axis=0)
    return np.asarray(change / apart.astype(values.dtype))
