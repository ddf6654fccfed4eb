"""A transformer that gives all series the same number of time steps."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats
from mercer._parameters import Rules, whole
from mercer.data.ragged import offsets_of
from mercer.data.sequences import Sequences
from mercer.data.transformers import _Transformer
from mercer.data.wrapped import wrapped_like


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

    def transform(self, X: Any) -> Any:
        """Interpolate the series.

        Parameters
        ----------
        X : Sequences, array-like or Confounded
            Series; confounds are kept.
        """
        self._check_parameters()
        vectors, steps = self._vectors(X), int(self.n_steps)
        vectors.require_nonempty()
        values = [_interpolated(x, steps) for x in vectors]
        flat = np.concatenate(values) if values else vectors.values
        offsets = offsets_of(np.full(len(vectors), steps))
        return wrapped_like(X, Sequences._make(flat, offsets, None, vectors.ids, None, None, vectors.channels))


def _interpolated(x: Floats, steps: int) -> Floats:
    """Interpolate one series ``(T, d)``; shape ``(steps, d)``."""
    places = np.linspace(0.0, len(x) - 1.0, steps) if steps > 1 else np.array([(len(x) - 1) / 2])
    out = np.zeros((steps, x.shape[1]), dtype=x.dtype)
    for channel, values in enumerate(x.T):
        seen = np.flatnonzero(~np.isnan(values))
        if len(seen):
            out[:, channel] = np.interp(places, seen, values[seen])
    return out
