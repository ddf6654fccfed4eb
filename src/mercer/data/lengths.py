"""Sequence length as a baseline feature."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer._parameters import Rules, boolean
from mercer.data.sequences import Sequences
from mercer.data.transformers import _Transformer
from mercer.data.wrapped import inside, wrapped_like


class Lengths(_Transformer, auto_wrap_output_keys=("transform",)):
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
