"""Windows of series (native/series_windows.hpp), and sums over mixtures of Gaussians (native/mixtures.hpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call


def windows(values: Floats, offsets: Any, steps: Any, length: int, dilation: int, floor: Floats | None) -> Floats:
    """Return the windows of one scale around some steps, channel by channel; a missing value is NaN.

    Parameters
    ----------
    values : ndarray of shape (T, c)
        Series, one after the other; they are reflected at their ends.
    offsets : ndarray of int of shape (S + 1,)
        Series s has the steps ``offsets[s]:offsets[s + 1]``.
    steps : ndarray of int of shape (n,)
        Steps in the middle of the windows, in increasing order.
    length, dilation : int
        Number of values of a window and channel, and the steps between two of them.
    floor : ndarray of shape (c,) or None
        The channels of a window lose their means, and are divided by their standard deviations plus these.

    Returns
    -------
    ndarray of shape (n, c * length)
    """
    found = np.empty((1, len(steps), values.shape[1] * length))
    call(
        "window_points",
        values=values,
        offsets=offsets,
        steps=steps,
        dilations=[dilation],
        floor=None if floor is None else floor[None],
        center=None,
        whitening=None,
        points=found,
    )
    return found[0]


def window_points(
    values: Floats,
    offsets: Any,
    steps: Any,
    dilations: Any,
    floor: Floats | None,
    center: Floats,
    whitening: Floats,
) -> Floats:
    """Return whitened windows of all scales, and the time in the series, from -sqrt(3) to sqrt(3).

    Parameters
    ----------
    values, offsets, steps
        As in `windows`; a window with a NaN is NaN.
    dilations : sequence of int of length M
        Steps between two values of a window, for every scale.
    floor : ndarray of shape (M, c) or None
        As in `windows`, for every scale.
    center : ndarray of shape (M, c * length)
        Means of the windows.
    whitening : ndarray of shape (M, c * length, p)
        What windows are multiplied with.

    Returns
    -------
    ndarray of shape (M, n, p + 1)
    """
    points = np.empty((len(center), len(steps), whitening.shape[2] + 1))
    call(
        "window_points",
        values=values,
        offsets=offsets,
        steps=steps,
        dilations=dilations,
        floor=floor,
        center=center,
        whitening=whitening,
        points=points,
    )
    return points


def mixture_sums(points: Floats, factors: Floats, ends: Any, shares: Floats | None = None) -> Floats:
    """Return sums over points y of the shares of components times (y, y^2, 1), in parts of the points.

    Parameters
    ----------
    points : ndarray of shape (M, n, q)
        Points of every mixture; those with a NaN do not count.
    factors : ndarray of shape (M, 2 q + 1, K)
        Log joint densities of the components are (y, y^2, 1) times these.
    ends : ndarray of int of shape (S + 1,)
        Part s has the points ``ends[s]:ends[s + 1]``.
    shares : ndarray of shape (M, n, K), optional
        Gets the posterior probabilities of the components.

    Returns
    -------
    ndarray of shape (M, S, 2 q + 1, K)
    """
    sums = np.empty((len(points), len(ends) - 1, *factors.shape[1:]))
    call("mixture_sums", points=points, factors=factors, ends=ends, sums=sums, shares=shares)
    return sums
