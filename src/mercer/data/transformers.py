"""Transformers of sequences, for scikit-learn's pipelines: sequences in, sequences of the same lengths out."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer.data._forms import as_floats
from mercer.data._wrapped import inside, wrapped_like
from mercer.data.sequences import Sequences


class _Transformer(TransformerMixin, BaseEstimator):
    """What the transformers share: input in any form of `Sequences`, the dimension kept from ``fit``."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and keep the dimension of the data.

        Parameters
        ----------
        X : Sequences, or what becomes one
            The data.
        y : ignored
            For scikit-learn.
        """
        self._check_parameters()
        self.n_features_in_ = self._vectors(X, reset=True).dimension
        return self

    def _check_parameters(self) -> None:
        """Raise where a parameter has no meaning."""

    def _vectors(self, X: Any, *, reset: bool = False) -> Sequences:
        """Return the data as Sequences of vectors; unless ``reset``, of the dimension seen in fit, if there was one."""
        X = Sequences(inside(X))
        if X.is_symbols:
            raise TypeError(
                f"{type(self).__name__} works on vectors, but these are symbols from {X.alphabet.describe()}; "
                "pass Sequences(X).one_hot()"
            )
        expected = X.dimension if reset else getattr(self, "n_features_in_", X.dimension)
        if X.dimension != expected:
            raise ValueError(
                f"the data have dimension {X.dimension}, but {type(self).__name__} was fitted on dimension "
                f"{expected}; pass data of the same sort"
            )
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = False
        return tags


class _Appending(_Transformer):
    """What the transformers share that append coordinates, a block for every one of some numbers."""

    _numbers: ClassVar[str]
    """The parameter that holds the numbers."""

    def _check_parameters(self) -> None:
        _numbers_from_one(self._numbers, getattr(self, self._numbers))

    def _blocks(self, X: Sequences, numbers: tuple[int, ...]) -> list[NDArray[Any]]:
        """Return what is appended, every block of the shape of the values."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Return the data with what is appended to every time step.

        Parameters
        ----------
        X : Sequences, what becomes one, or Confounded
            The data; confounds stay beside them.
        """
        chosen, vectors = _numbers_from_one(self._numbers, getattr(self, self._numbers)), self._vectors(X)
        blocks = self._blocks(vectors, chosen)
        return wrapped_like(X, vectors.mapped(lambda values: np.concatenate([values, *blocks], axis=1)))


class Derivatives(_Appending):
    """Append derivatives in time to the values of every sequence.

    Many series differ in how they change more than in where they are; a model whose emissions see one time step
    alone, such as a hidden Markov model, then needs the change as a coordinate.

    Parameters
    ----------
    orders : int or tuple of int, default=1
        An int k appends the orders 1 to k; a tuple appends those that it names.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.

    Notes
    -----
    The first derivative is `numpy.gradient` with unit steps: ``(x[t + 1] - x[t - 1]) / 2`` inside, the one-sided
    difference at both ends, and 0 in a sequence of length 1. Higher orders repeat it. A derivative with a value that
    was not observed (NaN) is not observed either. d coordinates and m orders give ``d (m + 1)`` coordinates: the
    values, then one block for every order.

    See Also
    --------
    Delays : Append values of earlier time steps.
    PerStep : Scale, or project, every time step.

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
        An int k appends the values 1 to k steps ago; a tuple appends those that it names.

    Attributes
    ----------
    n_features_in_ : int
        Dimension of the training data.

    Notes
    -----
    Lengths are kept: where there is no value so long ago, the first value of the sequence stands for it. d
    coordinates and m lags give ``d (m + 1)`` coordinates: the values, then one block for every lag.

    See Also
    --------
    Derivatives : Append differences instead.
    mercer.Sequences.windows : Stack neighbours and cut the beginning off.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Delays((1, 3)).fit_transform([[0.0, 1.0, 2.0, 3.0]])[0]
    array([[0., 0., 0.],
           [1., 0., 0.],
           [2., 1., 0.],
           [3., 2., 0.]])
    """

    _numbers = "lags"

    def __init__(self, lags: int | tuple[int, ...] = 1) -> None:
        self.lags = lags

    def _blocks(self, X: Sequences, numbers: tuple[int, ...]) -> list[NDArray[Any]]:
        first, steps = np.repeat(X.offsets[:-1], X.lengths), np.arange(len(X.values))
        return [X.values[np.maximum(steps - k, first)] for k in numbers]


# It has names for its output, but Sequences are no table: scikit-learn must not wrap them into one.
class PerStep(_Transformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply a transformer of matrices, such as a scaler or PCA, to every time step.

    Parameters
    ----------
    transformer : estimator
        Any scikit-learn transformer of matrices; it is cloned. It learns from all time steps of all training
        sequences, one a row, so that long sequences weigh more than short ones. It is not given y.

    Attributes
    ----------
    transformer_ : estimator
        The fitted clone.
    n_features_in_ : int
        Dimension of the training data.

    Notes
    -----
    NaN is handed to the transformer as it is: StandardScaler leaves it, PCA raises.

    See Also
    --------
    Derivatives : Append derivatives in time.

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
            raise TypeError(f"transformer={name} is a class; pass an instance, {name}()")
        if not (hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")):
            raise TypeError(
                f"transformer={self.transformer!r} has no fit and transform; pass one such as StandardScaler()"
            )

        if isinstance(self.transformer, _Transformer):
            name = type(self.transformer).__name__
            raise TypeError(
                f"transformer={self.transformer!r} works on sequences, and PerStep hands single time steps to it; make "
                f"{name} a step of its own, as in make_pipeline({name}(...), PerStep(StandardScaler()))"
            )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer on all time steps.

        Parameters
        ----------
        X : Sequences, or what becomes one
            The data.
        y : ignored
            For scikit-learn.
        """
        X = Sequences(inside(X))
        super().fit(X)
        self.transformer_ = clone(self.transformer).fit(X.values)
        return self

    def transform(self, X: Any) -> Any:
        """Return the data with every time step transformed.

        Parameters
        ----------
        X : Sequences, what becomes one, or Confounded
            The data; confounds stay beside them.
        """
        check_is_fitted(self, "transformer_")
        return wrapped_like(X, self._vectors(X).mapped(self._steps))

    def _steps(self, values: NDArray[Any]) -> NDArray[Any]:
        out = self.transformer_.transform(values)
        out = out.toarray() if hasattr(out, "toarray") else np.asarray(out)
        return as_floats(out if out.ndim == 2 else out.reshape(len(out), -1))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names that the transformer gives to its output coordinates.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input coordinates.
        """
        check_is_fitted(self, "transformer_")
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _numbers_from_one(name: str, value: Any) -> tuple[int, ...]:
    """Turn k into (1, ..., k), and check a tuple of numbers."""
    several = isinstance(value, tuple | list | range)
    chosen = list(value) if several else [value]
    whole = all(isinstance(v, numbers.Integral) and not isinstance(v, bool) for v in chosen)
    if not chosen or not whole or min(chosen) < 1 or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"{name}={value!r} is not possible: give a whole number of at least 1, or a tuple of different ones"
        )
    return tuple(int(v) for v in chosen) if several else tuple(range(1, int(value) + 1))


def _gradient(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Differentiate every sequence, as `numpy.gradient` does."""
    lengths = np.diff(offsets)
    steps = np.arange(len(values))
    before = np.maximum(steps - 1, np.repeat(offsets[:-1], lengths))
    after = np.minimum(steps + 1, np.repeat(offsets[1:], lengths) - 1)
    apart = np.maximum(after - before, 1)[:, None]  # 1 where the length is 1: then 0 is divided by it
    return (values[after] - values[before]) / apart.astype(values.dtype)
