"""Functions about log-gamma for gamma distributions, without cancellation, and their inverses.

Stirling's formula is taken out by hand: log-gamma(a) = (a - 1/2) log a - a + (1/2) log 2 pi + binet(a), and
digamma(a) = log a - gap(a). The remainder is small, so shapes of 10^8 are compared as exactly as those of
shape 1.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, namespace
from mercer._special import digamma, gammaln, trigamma

HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))
LARGE = 16.0  # from here on Stirling's series has all digits


def binet(a: Array) -> Array:
    """Compute log-gamma(a) - (a - 1/2) log a + a - (1/2) log 2 pi: about 1 / (12 a)."""
    large, small, log = _split(a)
    series = _alternating(large**-2, 1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188, 691 / 360360) / large
    direct = gammaln(small) - (small - 0.5) * log(small) + small - HALF_LOG_TWO_PI
    return namespace(a).where(a >= LARGE, series, direct)


def gap(a: Array) -> Array:
    """Compute log a - digamma(a): about 1 / (2 a)."""
    large, small, log = _split(a)
    square = large**-2
    series = 0.5 / large + _alternating(square, 1 / 12, 1 / 120, 1 / 252, 1 / 240, 1 / 132, 691 / 32760) * square
    return namespace(a).where(a >= LARGE, series, log(small) - digamma(small))


def gap_slope(a: Array) -> Array:
    """Compute the derivative of `gap`, 1/a - trigamma(a): about -1 / (2 a^2)."""
    large, small, _ = _split(a)
    square = large**-2
    rest = _alternating(square, 1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730) / large
    return namespace(a).where(a >= LARGE, -(0.5 + rest) * square, 1 / small - trigamma(small))


def gamma_dual(a: Array) -> Array:
    """Compute a digamma(a) - a - log-gamma(a), the Legendre dual of gamma distributions of shape a (DJS-4)."""
    return 0.5 * namespace(a).log(a) - HALF_LOG_TWO_PI - a * gap(a) - binet(a)


def shape_divergence(a: Array, b: Array) -> Array:
    """Kullback-Leibler divergence of the gamma distribution of shape a from that of shape b and the same mean."""
    xp = namespace(a, b)
    return 0.5 * (xp.log(a) - xp.log(b)) + binet(b) - binet(a) + (b - a) * gap(a)


def solve_shape(s: Array) -> Array:
    """Solve log a - digamma(a) = s for the shape a > 0, with a gradient (DJS-4).

    Newton's method in 1/a, from a start that is 2 % off at most: the same few steps for every entry.
    """
    xp = namespace(s)
    tiny = float(xp.finfo(s.dtype).eps)
    s = xp.where(s > tiny, s, xp.full_like(s, tiny))  # equal points, after rounding
    fixed = s.detach() if is_torch_array(s) else s
    root = xp.sqrt((fixed - 3) ** 2 + 24 * fixed)
    a = xp.where(fixed < 3, (3 - fixed + root) / (12 * fixed), 2 / (root + xp.abs(fixed - 3)))
    for _ in range(4):
        a = 1 / (1 / a + (gap(a) - fixed) / (a * a * gap_slope(a)))
    return a + (s - gap(a)) / gap_slope(a)  # Newton's last step, through which the gradient comes


def _split(a: Array) -> tuple[Array, Array, Any]:
    """Return the large and the small values, each with a harmless number in place of the other, and the logarithm."""
    xp = namespace(a)
    filler = xp.full_like(a, LARGE)
    return xp.where(a >= LARGE, a, filler), xp.where(a >= LARGE, filler, a), xp.log


def _alternating(x: Array, *terms: float) -> Array:
    """Sum terms[0] - terms[1] x + terms[2] x^2 - ..., by Horner's rule."""
    return functools.reduce(lambda total, term: term - total * x, reversed(terms[:-1]), terms[-1])
