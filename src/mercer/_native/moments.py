"""Weighted moments of points about given centers, for every sample and state, computed by native/moments.hpp."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._native import call


class Moments(NamedTuple):
    """Sums over the observed values of every coordinate; only those that were requested."""

    mass: Any
    """Sum of w, ``(S, n, d)``."""
    first: Any
    """Sum of w (x - c), ``(S, n, d)``."""
    second: Any
    """Sum of w (x - c)^2, ``(S, n, d)``."""
    full: Any
    """Sum of w (x - c)(x - c)', ``(S, n, d, d)``, of complete points."""


def moments(
    x: Floats,
    weights: Floats,
    offsets: Any,
    center: Floats,
    *,
    first: bool = False,
    second: bool = False,
    full: bool = False,
) -> Moments:
    """Sum weighted powers of points.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points; NaN is ignored.
    weights : ndarray of shape (T, n)
        Weight of every point in every state.
    offsets : ndarray of int of shape (S + 1,)
        Sample s has the points ``offsets[s]:offsets[s + 1]``.
    center : ndarray of shape (S, n, d) or (1, n, d)
        The centers c.
    first, second, full : bool, default=False
        Which sums to compute; ``first`` includes the mass.
    """
    shape = (len(offsets) - 1, weights.shape[1], x.shape[1])
    mass, one, two = (np.empty(shape) if wanted else None for wanted in (first, first, second))
    found = Moments(mass, one, two, np.empty((*shape, shape[-1])) if full else None)
    call("moments", x=x, weights=weights, offsets=offsets, center=center, **found._asdict())
    return found
