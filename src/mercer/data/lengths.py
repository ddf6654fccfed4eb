"""The length of every sequence as its only feature: the baseline beside every set of different lengths."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from mercer.data._wrapped import inside, wrapped_like
from mercer.data.sequences import Sequences


class Lengths(TransformerMixin, BaseEstimator):
    """Return the length of every sequence, and nothing else of it: a baseline.

    Where sequences have different lengths, a classifier may live on these alone. Put this in front of a plain
    classifier to know how far that goes.

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

    def __init__(self, log: bool = True) -> None:
        self.log = log

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: there is nothing to learn.

        Parameters
        ----------
        X : Sequences, or what becomes one
            The data.
        y : ignored
            For scikit-learn.
        """
        return self

    def transform(self, X: Any) -> Any:
        """Return the lengths, ``(N, 1)``.

        Parameters
        ----------
        X : Sequences, what becomes one, or Confounded
            The data; confounds stay beside them.
        """
        sequences = Sequences(inside(X))
        if not self.log:
            return wrapped_like(X, sequences.lengths[:, None].astype(np.float64))
        return wrapped_like(X, np.log(sequences.require_nonempty().lengths[:, None]))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the name of the one column.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn.
        """
        return np.array(["log_length" if self.log else "length"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        return tags
