"""Samples and forecasts of unstable systems, which grow beyond the floating range."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats


def within_range(values: Floats, time_axis: int, name: str, what: str) -> Floats:
    """Return the values if all are finite; otherwise say after how many steps they are not.

    Parameters
    ----------
    values : ndarray
        Samples or forecasts.
    time_axis : int
        The axis of the steps.
    name : str
        The parameter that is the number of steps.
    what : str
        What the values are, in the plural.
    """
    finite: Any = np.isfinite(values)
    if finite.all():
        return values
    steps = np.moveaxis(finite, time_axis, 0).reshape(values.shape[time_axis], -1).all(axis=1)
    last = int(np.argmin(steps))
    raise ValueError(
        f"The {what} exceed the floating range after {last} steps, because a transition is unstable; got {name}="
        f"{values.shape[time_axis]}. Use at most {last}, or a stable system."
    )
