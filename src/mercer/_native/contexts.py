"""Products of Markov chains of higher order, by native/contexts.hpp."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call

STEPS = 1e9
"""Multiplications of one call: longer sweeps are computed in parts, so that they can be interrupted."""


def context_products(left: tuple[Floats, ...], right: tuple[Floats, ...], steps: Indices) -> Floats:
    """Compute the log kernels of every pair of powered chains (PPK-4.2a).

    Parameters
    ----------
    left, right : tuples of ndarrays
        Weights of the first contexts ``(N, C)``, of symbols after contexts ``(N, C, k)``, and of contexts at the end
        ``(N, C)``.
    steps : ndarray of int of shape (H,)
        Numbers of steps after the first context, ascending.

    Returns
    -------
    ndarray of shape (H, I, J)
        NaN where a sum may have lost a significant term by underflow.
    """
    value = np.empty((len(steps), len(left[0]), len(right[0])))
    if not value.size:
        return value
    at_once = max(1, int(STEPS / ((steps[-1] + 1) * max(8, len(right[0])) * left[1][0].size)))
    for begin in range(0, len(left[0]), at_once):
        rows = slice(begin, begin + at_once)
        part = np.empty((len(steps), len(left[0][rows]), len(right[0])))
        call("context_products", left=tuple(x[rows] for x in left), right=right, steps=steps, log_value=part)
        value[:, rows] = part
    return value
