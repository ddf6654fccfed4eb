"""Numbers of unlimited range, for recursions that are correct for all parameters.

A number is v 2^(512 k) with 2^-256 <= v < 2^256, or zero. The precision is that of float64, and the range is unlimited.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

RADIX, INVERSE = 2.0**512, 2.0**-512
HIGH, LOW = 2.0**256, 2.0**-256
NEVER = -(1 << 30)
"""Exponent of zero, below all others; it fits into 32 bits."""
LOG_2 = math.log(2.0)
LOG_RADIX = 512 * LOG_2
# log 2 in two parts; the first has few bits, so that its products with integers are exact
_LOG_2_HIGH, _LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10


@compiled
def tidy(v: float, k: int) -> tuple[float, int]:  # pragma: no cover - compiled
    """Normalize a finite v."""
    if v >= HIGH:
        while v >= HIGH:
            v *= INVERSE
            k += 1
    elif v < LOW:
        if v == 0.0:
            return 0.0, NEVER
        while v < LOW:
            v *= RADIX
            k -= 1
    return v, k


@compiled
def times(v: float, k: int, w: float, l: int) -> tuple[float, int]:  # noqa: E741  # pragma: no cover - compiled
    """Multiply two numbers."""
    return tidy(v * w, k + l)


@compiled
def plus(v: float, k: int, w: float, l: int) -> tuple[float, int]:  # noqa: E741  # pragma: no cover - compiled
    """Add; if the exponents differ by two, the smaller number is below 2^-512 of the larger.

    The sum may exceed the range of v by a factor of two: the next product normalizes it.
    """
    if k == l:
        return v + w, k
    if k > l:
        return (v + w * INVERSE, k) if k == l + 1 else (v, k)
    return (w + v * INVERSE, l) if l == k + 1 else (w, l)


@compiled
def plain(v: float, k: int) -> float:  # pragma: no cover - compiled
    """Return the number as a float; zero or infinity if it is out of range."""
    if k == 0:
        return v
    if k < 0:
        return 0.0 if k < -2 else (v * INVERSE if k == -1 else v * INVERSE * INVERSE)
    return np.inf if k > 2 else (v * RADIX if k == 1 else v * RADIX * RADIX)


@compiled
def split(values: Floats) -> tuple[Floats, Any]:  # pragma: no cover - compiled
    """Convert an array of floats to mantissas and exponents."""
    v, k = np.empty(values.shape), np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape):
        v[place], k[place] = tidy(values[place], 0)
    return v, k


@compiled
def from_logs(logs: Floats) -> tuple[Floats, Any]:  # pragma: no cover - compiled
    """Convert exp(logs) to mantissas and exponents."""
    v, k = np.zeros(logs.shape), np.full(logs.shape, NEVER)
    for place in np.ndindex(logs.shape):
        if logs[place] > -np.inf:
            whole = np.rint(logs[place] / LOG_RADIX)
            rest = (logs[place] - 512.0 * whole * _LOG_2_HIGH) - 512.0 * whole * _LOG_2_LOW
            v[place], k[place] = tidy(math.exp(rest), int(whole))
    return v, k
