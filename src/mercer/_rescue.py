"""Replace inaccurate results of a fast computation: compute in floats, then recompute what left their range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats


def rescued(values: Floats, sound: Any, careful: Callable[..., Any]) -> Floats:
    """Recompute, in place, the values that are not sound.

    Parameters
    ----------
    values : ndarray
        Results of a fast recursion.
    sound : ndarray of bool, same shape
        Whether each result is accurate.
    careful : callable
        Called with the indices of the other results, one integer array per axis as in `numpy.nonzero`; returns their
        values. Not called if all results are sound.

    Returns
    -------
    ndarray
        ``values``.
    """
    index = np.nonzero(~np.asarray(sound))
    if len(index[0]):
        values[index] = careful(*index)
    return values
