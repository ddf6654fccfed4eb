"""Transformers of sequences for scikit-learn's pipelines; they keep the lengths."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._parameters import CheckedParameters
from mercer.data._forms import as_floats
from mercer.data.channels import by_name, inside, wrapped_like
from mercer.data.sequences import Sequences


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
        X = by_name(self, Sequences(inside(X)).require("vectors", self), reset=reset)
        return X if reset else X.require_dimension(getattr(self, "n_features_in_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = False
        return tags


class _Appending(_Transformer):
    """Base class of transformers that append one block of coordinates per order or lag."""

    _numbers: ClassVar[str]
    """Name of the parameter that holds the orders or lags."""
    _prefix: ClassVar[str]
    """Start of the names of new channels."""

    def _check_parameters(self) -> None:
        numbers_from_one(self._numbers, getattr(self, self._numbers))

    @abstractmethod
    def _blocks(self, X: Sequences, numbers: tuple[int, ...]) -> list[NDArray[Any]]:
        """Return the appended blocks, each of the shape of the values."""

    def _transformed(self, X: Sequences) -> Sequences:
        blocks = self._blocks(X, numbers_from_one(self._numbers, getattr(self, self._numbers)))
        return X.mapped(lambda values: np.concatenate([values, *blocks], axis=1))

    def _names_out(self, channels: tuple[str, ...]) -> list[str]:
        chosen = numbers_from_one(self._numbers, getattr(self, self._numbers))
        return [*channels, *(f"{self._prefix}{k}({name})" for k in chosen for name in channels)]


class Derivatives(_Appending):
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
    difference at both ends, and 0 in a sequence of length 1. Higher orders repeat it. Missing values (NaN) propagate
    to the derivatives. d coordinates and m orders give ``d (m + 1)`` coordinates: the values, then one block per
    order. Channels with a name, such as "speed", have derivatives with a name, "d1(speed)".

    See Also
    --------
    Delays : Append values of earlier time steps.
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

    _numbers = "orders"
    _prefix = "d"

    def __init__(self, orders: int | tuple[int, ...] = 1) -> None:
        self.orders = orders

    def _blocks(self, X: Sequences, numbers: tuple[int, ...]) -> list[NDArray[Any]]:
        found = [X.values]
        for _ in range(max(numbers)):
            found.append(_gradient(found[-1], X.offsets))
        return [found[k] for k in numbers]


class Delays(_Appending):
    """Append the values of earlier time steps to every time step.

    Parameters
    ----------
    lags : int or tuple of int, default=1
        An int k appends the values of the 1 to k previous steps; a tuple appends the given lags.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    Lengths are kept: before the start of a sequence, its first value is repeated. d coordinates and m lags give
    ``d (m + 1)`` coordinates: the values, then one block per lag. Channels with a name, such as "speed", have earlier
    values with a name, "lag1(speed)".

    See Also
    --------
    Derivatives : Append differences instead.
    mercer.Sequences.windows : Stack consecutive steps and drop the first ones.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.data.Delays((1, 3)).fit_transform([[0.0, 1.0, 2.0, 3.0]])[0]
    array([[0., 0., 0.],
           [1., 0., 0.],
           [2., 1., 0.],
           [3., 2., 0.]])
    """

    _numbers = "lags"
    _prefix = "lag"

    def __init__(self, lags: int | tuple[int, ...] = 1) -> None:
        self.lags = lags

    def _blocks(self, X: Sequences, numbers: tuple[int, ...]) -> list[NDArray[Any]]:
        first, steps = np.repeat(X.offsets[:-1], X.lengths), np.arange(len(X.values))
        return [X.values[np.maximum(steps - k, first)] for k in numbers]


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
"""The largest delay: each of them makes a copy of the data."""


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


def _gradient(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Differentiate every sequence like `numpy.gradient`."""
    lengths = np.diff(offsets)
    steps = np.arange(len(values))
    before = np.maximum(steps - 1, np.repeat(offsets[:-1], lengths))
    after = np.minimum(steps + 1, np.repeat(offsets[1:], lengths) - 1)
    apart = np.maximum(after - before, 1)[:, None]  # 1 avoids 0 / 0 in sequences of length 1
    return (values[after] - values[before]) / apart.astype(values.dtype)
