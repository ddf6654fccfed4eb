"""The control flow of every fast recursion: compute fast, find what left the floating range, compute that again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats


def rescued(values: Floats, sound: Any, careful: Callable[..., Any]) -> Floats:
    """Compute again, in place, the values that are not sound.

    Parameters
    ----------
    values : ndarray
        What a fast recursion found.
    sound : ndarray of bool, same shape
        Where it can be trusted.
    careful : callable
        Called with the indices of the others, one integer array per axis as `numpy.nonzero` returns them; returns
        their values. Not called where all are sound.

    Returns
    -------
    ndarray
        ``values``.
    """
    index = np.nonzero(~np.asarray(sound))
    if len(index[0]):
        values[index] = careful(*index)
    return values
