"""The expected Laplace kernel of a Gaussian difference, stable from point masses to any width (GMMK-2a)."""

from __future__ import annotations

import math

from mercer._array import Array, namespace
from mercer._special import erfc, erfcx

_LARGE = 50.0
"""From here on five terms of the asymptotic series of erfcx are exact to the last digit, and so is their slope."""
_FAR = 30.0
"""Standard deviations beyond which exp(-z^2) is zero."""


def log_laplace(mean: Array, variance: Array, gamma: float) -> Array:
    """Log of E exp(-gamma |d|) for d ~ N(mean, variance), elementwise; a variance may be 0.

    With m = |mean|, v = variance and z = (gamma v -+ m) / sqrt(2 v), the value is

    ``exp(-m^2 / 2v) [erfcx(z_-) + erfcx(z_+)] / 2`` where z_- >= 0, so that m^2 / 2v <= gamma m / 2, and
    ``exp(-gamma (m - gamma v / 2)) [erfc(z_-) + exp(-z_-^2) erfcx(z_+)] / 2`` where z_- < 0: the same, and safe.

    Unused branches get harmless numbers, so that gradients stay finite.
    """
    xp = namespace(mean, variance)
    m = xp.abs(mean)
    spread = variance > 0
    root = xp.sqrt(2 * xp.where(spread, variance, xp.ones_like(variance)))
    width, step = gamma * root / 2, m / root
    lower, upper = width - step, width + step
    near = lower >= 0
    zero = xp.zeros_like(lower)

    inside = xp.where(near, step, zero)
    both = _erfcx(xp.where(near, lower, zero)) + _erfcx(xp.where(near, upper, zero))
    close = xp.log(both / 2) - inside * inside

    left = xp.clip(xp.where(near, zero - 1, lower), -_FAR, None)
    tail = xp.exp(-left * left) * _erfcx(xp.where(near, zero, upper))
    slope = gamma * (gamma / 2 * xp.where(spread & near, zero, variance) - m)  # gamma^2 may overflow
    apart = xp.log((erfc(left) + tail) / 2) + slope

    # Without spread the value is exp(-gamma m), and its slope in the variance gamma^2 / 2.
    return xp.where(spread, xp.where(near, close, apart), slope)


def _erfcx(z: Array) -> Array:
    """Compute exp(z^2) erfc(z) for z >= 0; at large z by its series, since the slope of the function cancels there."""
    xp = namespace(z)
    large = z > _LARGE
    inverse = 1 / xp.where(large, z, xp.full_like(z, _LARGE))
    x = inverse * inverse / 2
    series = 1 - x * (1 - 3 * x * (1 - 5 * x * (1 - 7 * x * (1 - 9 * x))))
    return xp.where(large, inverse / math.sqrt(math.pi) * series, erfcx(xp.where(large, xp.zeros_like(z), z)))
