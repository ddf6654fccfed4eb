"""Gaps between means, without cancellation where two numbers or matrices are nearly equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, namespace, xlogx
from mercer.families.special import relative

NEAR = 1e-4
"""Determinant gaps below this are computed from eigenvalues; of larger ones, rounding takes the last digits only."""
LARGE = 1e6
"""Means of negative binomials above this number of sizes have a divergence that rounding would hide in a difference."""
CHUNK = 4096
"""Pairs of matrices whose eigenvalues are computed at once."""


def jensen_gap(a: Array, b: Array) -> Array:
    """Compute (a log a + b log b)/2 - m log m, m = (a + b)/2, for nonnegative a and b, without cancellation.

    With d = (a - b)/(2 m) it is m/2 [(1+d) log(1+d) + (1-d) log(1-d)]. Near d = 0, where the terms cancel, the bracket
    is its series: the sum over n >= 1 of d^(2n) / (n (2n - 1)).
    """
    xp = namespace(a, b)
    middle = a / 2 + b / 2
    difference = a / 2 - b / 2
    near = xp.abs(difference) < 0.1 * middle
    d = xp.where(near, difference, xp.zeros_like(middle)) / xp.where(near, middle, xp.ones_like(middle))
    square = d * d
    series: Any = 1 / 91
    for n in range(6, 0, -1):  # the next term is below rounding: 0.01^7 / 120
        series = 1 / (n * (2 * n - 1)) + square * series
    return xp.where(near, middle / 2 * square * series, (xlogx(a) + xlogx(b)) / 2 - xlogx(middle))


def overdispersed_gap(a: Array, b: Array, size: float) -> Array:
    """Compute the divergence jensen_gap(a, b) - jensen_gap(a + size, b + size) of negative binomials of means a and b.

    Of means above `LARGE` sizes, the difference would be rounding. With m the mean of a and b it is half the sum of
    k log(k (m + size) / (m (k + size))) over k = a and k = b, plus size times a log mean gap: no term grows with m.
    """
    xp = namespace(a, b)
    middle = a / 2 + b / 2
    large = middle > LARGE * size
    one = xp.ones_like(middle)
    first, second, m = (xp.where(large, k + 0 * middle, one) for k in (a, b, middle))

    def term(k: Array) -> Array:
        positive = xp.where(k > 0, k, one)
        change = size * ((positive - m) / m) / (positive + size)
        near = change > -0.5
        logs = xp.log(positive) - xp.log(m) + xp.log(m + size) - xp.log(positive + size)
        return xp.where(k > 0, k * xp.where(near, xp.log1p(xp.where(near, change, 0 * one)), logs), 0 * one)

    apart = (term(first) + term(second)) / 2 + size * log_mean_gap(first + size, second + size)
    return xp.where(large, apart, jensen_gap(a, b) - jensen_gap(a + size, b + size))


def overdispersed_entropy(m: Array, n: Array, size: float) -> Array:
    """Compute relative(m, n) - relative(m + size, n + size), the relative entropy of negative binomials.

    Of a mean n above `LARGE` sizes, the difference would be rounding: logs of ratios near one are taken together.
    """
    xp = namespace(m, n)
    large = n + 0 * m > LARGE * size
    one = xp.ones_like(n + 0 * m)
    a, b = xp.where(large, m, one), xp.where(large, n, one)
    positive = xp.where(a > 0, a, one)
    change = size * ((positive - b) / b) / (positive + size)
    near = change > -0.5
    logs = xp.log(positive) - xp.log(b) + xp.log(b + size) - xp.log(positive + size)
    first = xp.where(a > 0, a * xp.where(near, xp.log1p(xp.where(near, change, 0 * one)), logs), 0 * one)
    apart = first - size * (xp.log(a + size) - xp.log(b + size))
    return xp.where(large, apart, relative(m, n) - relative(m + size, n + size))


def log_mean_gap(a: Array, b: Array) -> Array:
    """Log of the arithmetic over the geometric mean of positive numbers, without cancellation."""
    xp = namespace(a, b)
    low, high = ordered(a, b)
    part = (high - low) / high  # of which sums cannot overflow
    d = part / (2 - part)
    near = d < 0.5
    safe = xp.where(near, d, xp.zeros_like(d))
    return xp.where(near, -0.5 * xp.log1p(-safe * safe), xp.log(a / 2 + b / 2) - 0.5 * (xp.log(a) + xp.log(b)))


def ordered(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the smaller and the larger one of every pair."""
    xp, less = namespace(a, b), a < b
    return xp.where(less, a, b), xp.where(less, b, a)


def excess(y: Array, a: Array, log_y: Array) -> Array:
    """Compute y - a - a log(y / a) of positive numbers: zero where they agree, else positive.

    Parameters
    ----------
    y, a : array
        The numbers; y may have underflowed to 0.
    log_y : array
        Logarithm of y, which the caller finds without y.
    """
    xp = namespace(y, a)
    change = y - a
    near = xp.abs(change) < a / 2
    ratio = xp.where(near, change, xp.zeros_like(change)) / a
    return xp.where(near, a * (ratio - xp.log1p(ratio)), change - a * (log_y - xp.log(a)))


def determinant_gap(a: Array, b: Array, value: Array) -> Array:
    """Return log|M| - log|A|/2 - log|B|/2 of every pair of matrices, M their mean, given it as a difference.

    With A = M (1 + E) and B = M (1 - E) it is minus half the sum of log(1 - e^2) over the eigenvalues e of E: so it is
    computed where the difference has cancelled. Arrays of other libraries than NumPy stay as they are.

    Parameters
    ----------
    a, b : arrays of shape (..., n, d, d) and (..., m, d, d)
        Positive definite matrices.
    value : array of shape (..., n, m)
        The difference of logarithms, with its rounding.
    """
    if not is_numpy_array(value) or value.ndim != 2 or value.dtype != np.float64:
        return value
    rows, columns = np.nonzero(value < NEAR)
    for begin in range(0, len(rows), CHUNK):
        at = rows[begin : begin + CHUNK], columns[begin : begin + CHUNK]
        left, right = a[at[0]], b[at[1]]
        root = np.linalg.inv(np.linalg.cholesky((left + right) / 2))
        part = root @ ((left - right) / 2) @ np.swapaxes(root, -1, -2)
        e = np.linalg.eigvalsh((part + np.swapaxes(part, -1, -2)) / 2)
        value[at] = -np.sum(np.log1p(-e * e), axis=-1) / 2
    return value
