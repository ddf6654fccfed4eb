"""Sums of base kernels over the points of kernel density estimates. Numba is imported on the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._array import Floats

if TYPE_CHECKING:
    from mercer.compiled.points import PointSets

__all__ = ["log_sums", "log_sums_at", "two_sums"]


def log_sums(a: PointSets, b: PointSets, left: Floats, right: Floats, factor: Floats) -> Floats:
    """Compute log sum_ij exp(-factor |x_i - y_j|^2) for pairs of sets, accurate even if every term underflows.

    Parameters
    ----------
    a, b : PointSets
        Sets of points.
    left, right : int arrays of shape (P,)
        Indices of the paired sets in ``a`` and ``b``.
    factor : array of shape (P,)
        Positive.
    """
    from mercer.compiled import points

    scale = -points.LOG2_E * factor

    def ask(term: int, which: Any, shift: Floats) -> Floats:
        return a.ask(term, b, left[which], right[which], scale[which], shift)[:, 0]

    return points.log_sums(ask, scale)


def log_sums_at(x: Floats, packed: PointSets, sets: PointSets, which: int, factor: float) -> Floats:
    """Compute log sum_j exp(-factor |x_t - y_j|^2) for points x ``(T, d)``, also ``packed``, and one set y."""
    from mercer.compiled import points

    scale = -points.LOG2_E * factor

    def ask(term: int, some: Floats, shift: Floats) -> Floats:
        asked = packed if len(some) == len(x) else points.PointSets.of(x[some], np.array([0, len(some)]))
        return asked.ask_each(term, sets, which, scale, shift)

    return points.log_sums(ask, np.full(len(x), scale))


def two_sums(a: PointSets, factor: Floats) -> Floats:
    """Sum exp(-factor |x_i - x_j|^2) and its square over all i and j of every set, ``(N, 2)``."""
    from mercer.compiled.points import LOG2_E, TWO_SUMS

    every = np.arange(len(a))
    return a.ask(TWO_SUMS, a, every, every, -LOG2_E * factor)
