"""Rising factorials, for distributions of counts with an uncertain rate or frequency."""

from __future__ import annotations

from mercer._array import Array, namespace
from mercer._special import gammaln
from mercer.families._gamma_functions import LARGE, binet


def log_rising(a: Array, x: Array) -> Array:
    """Compute log of Gamma(a + x) / Gamma(a), a >= 0 and x >= 0, without cancellation for large a.

    0 at x = 0 for every a; -inf at a = 0 otherwise.
    """
    xp = namespace(a, x)
    a, x = a + xp.zeros_like(x), x + xp.zeros_like(a)
    possible = (a > 0) & (x > 0)
    a, large = xp.where(possible, a, xp.ones_like(a)), a >= LARGE
    big, small = xp.where(large, a, xp.full_like(a, LARGE)), xp.where(large, xp.ones_like(a), a)
    stirling = (big - 0.5) * xp.log1p(x / big) + x * (xp.log(big + x) - 1) + binet(big + x) - binet(big)
    value = xp.where(large, stirling, gammaln(small + x) - gammaln(small))
    return xp.where(possible, value, xp.where(x > 0, -xp.inf, xp.zeros_like(value)))
