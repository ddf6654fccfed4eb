"""Derivatives of averages of base kernels between sets of points: mean squared distances under their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._array import Floats

if TYPE_CHECKING:
    from mercer.compiled.points import PointSets


def mean_squares(x: PointSets, y: PointSets, sizes: tuple[Floats, Floats], factor: Any, log_means: Floats) -> Floats:
    """Average |x_i - y_j|^2 with the weights exp(-factor |x_i - y_j|^2) over the points of every pair of sets.

    Parameters
    ----------
    x, y : PointSets
        I and J sets of points.
    sizes : two arrays of shape (I,) and (J,)
        Numbers of their points.
    factor : array of shape (I, J)
        Of the exponent of every pair of sets.
    log_means : array of shape (I, J)
        Logarithms of the mean weights, by which weights are divided before they can underflow.
    """
    from mercer.compiled.lanes import aligned
    from mercer.kernels._slopes.point_loops import LANES, ROWS, weighted_squares

    left, right = np.nonzero(log_means > -np.inf)
    shift = -log_means[left, right] - np.log(sizes[0][left]) - np.log(sizes[1][right])
    out = np.empty(len(left))
    weighted_squares(
        x.points[0], x.row_at, x.row_count, y.points[1], y.lane_at, y.lane_count, left, right, x.widths[0],
        -factor[left, right], shift, out, aligned((ROWS * LANES,)),
    )  # fmt: skip
    means = np.zeros(log_means.shape)
    means[left, right] = out
    return means
