"""Functions that formulas are written with: of any array library, with gradients, and of complex arguments too.

A log partition function written with them can be continued into the complex plane, which gives exact derivatives and
the characteristic function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from mercer import _special as real
from mercer._array import Array, Floats, beside, namespace, needs_gradient, to_numpy, xlogx

__all__ = [
    "betaln",
    "digamma",
    "exp",
    "expm1",
    "gammaln",
    "log",
    "log1mexp",
    "log1p",
    "log1pexp",
    "log_bessel",
    "log_bessel_k",
    "logsumexp",
    "multigammaln",
    "relative",
    "sqrt",
    "times",
    "total",
    "trigamma",
]


def _of(x: Array) -> Any:
    """Return the namespace of an array, for NumPy without a search."""
    return np if type(x) is np.ndarray else namespace(x)


def exp(x: Array) -> Array:
    """Exponential function."""
    return _of(x).exp(x)


def log(x: Array) -> Array:
    """Natural logarithm."""
    return _of(x).log(x)


def sqrt(x: Array) -> Array:
    """Square root."""
    return _of(x).sqrt(x)


def log1p(x: Array) -> Array:
    """Logarithm of 1 + x."""
    return _of(x).log1p(x)


def expm1(x: Array) -> Array:
    """Compute exp(x) - 1."""
    return _of(x).expm1(x)


def total(x: Array) -> Array:
    """Sum over the last axis."""
    return _of(x).sum(x, axis=-1)


def is_complex(x: Array) -> bool:
    """Whether an array holds complex numbers."""
    return bool(namespace(x).isdtype(x.dtype, "complex floating"))


def real_part(x: Array) -> Array:
    """Return the real part; real arrays as they are. Conditions of formulas ask it."""
    return namespace(x).real(x) if is_complex(x) else x


def log1pexp(x: Array) -> Array:
    """Log of 1 + exp(x), which does not overflow."""
    xp = namespace(x)
    up = real_part(x) > 0
    return xp.where(up, x, xp.zeros_like(x)) + log1p(exp(xp.where(up, -x, x)))


def log1mexp(x: Array) -> Array:
    """Log of 1 - exp(x) for x < 0, accurate for x near 0."""
    xp = namespace(x)
    near = real_part(x) > -math.log(2)
    half = xp.zeros_like(x) - 0.5
    return xp.where(near, log(-expm1(xp.where(near, x, half))), log1p(-exp(xp.where(near, 2 * half, x))))


def logsumexp(x: Array) -> Array:
    """Log of the sum of exp over the last axis."""
    xp = namespace(x)
    top = xp.max(real_part(x), axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return log(total(exp(x - top))) + top[..., 0]


def relative(a: Array, b: Array) -> Array:
    """Compute a log(a / b) with 0 log 0 = 0; infinite where b is zero and a is not."""
    xp = namespace(a, b)
    value = xlogx(a) - a * xp.log(xp.where(b > 0, b, xp.ones_like(b)))
    return xp.where((a > 0) & (b <= 0), xp.inf, value)


def times(x: Array, y: Array) -> Array:
    """Multiply x >= 0 with numbers that may be infinite; 0 times anything is 0."""
    xp = namespace(x, y)
    return xp.where(x > 0, x, xp.ones_like(x)) * xp.where(x > 0, y, xp.zeros_like(y))


def gammaln(x: Array) -> Array:
    """Logarithm of the gamma function."""
    return by_scipy(special.loggamma, x) if is_complex(x) else real.gammaln(x)


def digamma(x: Array) -> Array:
    """Compute the derivative of the log-gamma function."""
    return by_scipy(special.digamma, x) if is_complex(x) else real.digamma(x)


def trigamma(x: Array) -> Array:
    """Compute the second derivative of the log-gamma function."""
    return real.trigamma(x)


def betaln(a: Array, b: Array) -> Array:
    """Log of the beta function."""
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def multigammaln(a: Array, d: int) -> Array:
    """Log of the gamma function of d x d matrices."""
    return sum(gammaln(a - i / 2) for i in range(d)) + d * (d - 1) / 4 * math.log(math.pi)


def log_bessel(order: float, x: Array) -> Array:
    """Log of I_order(x) / x^order, the logarithm of an even and entire function, for x >= 0 or with Re x >= 0."""
    return by_scipy(lambda z: _log_bessel(order, z), x, lambda z: bessel_ratio(order + 1, z))


def _log_bessel(order: float, z: Any) -> Any:
    small = np.abs(z) < 1e-3 * (1 + order)
    w = np.where(small, 1.0, z)
    if np.iscomplexobj(z) and np.all(np.abs(z.imag) <= 1e-16 * np.abs(z.real)):
        # The digits of a tiny imaginary part, of a derivative, are lost in SciPy's complex Bessel functions.
        ratio = special.ive(order + 1, w.real) / special.ive(order, w.real)
        large: Any = _log_ive(order, w.real) + 1j * w.imag * ratio
    else:
        large = _log_ive(order, w)
    square = np.where(small, z * z / 4, 0.0)
    series = 1 + square / (order + 1) * (1 + square / (2 * (order + 2)) * (1 + square / (3 * (order + 3))))
    return np.where(small, np.log(series) - order * math.log(2) - special.gammaln(order + 1), large)


def _log_ive(order: float, w: Any) -> Any:
    return np.log(special.ive(order, w)) + np.abs(w.real) - order * np.log(w)


def bessel_ratio(order: float, x: Array) -> Array:
    """I_order(x) / I_(order - 1)(x) for real x >= 0, the length of the mean of unit vectors in 2 order dimensions."""

    def ratio(z: Any) -> Any:
        small = z < 1e-3 * order
        w = np.where(small, 1.0, z)
        square = np.where(small, z * z, 0.0)
        near = z / (2 * order) * (1 - square / (4 * order * (order + 1)) * (1 - square / (2 * order * (order + 2))))
        return np.where(small, near, special.ive(order, w) / special.ive(order - 1, w))

    def slope(z: Array) -> Array:
        r = bessel_ratio(order, z)
        tiny = z < 1e-100
        safe = namespace(z).where(tiny, namespace(z).ones_like(z), z)
        share = namespace(z).where(tiny, namespace(z).full_like(z, 0.5 / order), r / safe)
        return 1 - r * r - (2 * order - 1) * share

    return by_scipy(ratio, x, slope)


def log_bessel_k(order: float, x: Array) -> Array:
    """Log of the Bessel function K of order 0 or more, for x > 0, also where it overflows near zero."""

    def value(z: Any) -> Any:
        with np.errstate(over="ignore", divide="ignore"):
            found = np.log(special.kve(order, z)) - z
        if order > 0 and not np.isfinite(found).all():
            near = special.gammaln(order) + (order - 1) * math.log(2) - order * np.log(z)
            found = np.where(np.isfinite(found), found, near)
        return found

    def slope(z: Array) -> Array:
        return by_scipy(lambda w: -special.kve(abs(order - 1), w) / special.kve(order, w) - order / w, z)

    return by_scipy(value, x, slope)


def by_scipy(function: Callable[[Floats], Any], x: Array, slope: Callable[[Array], Array] | None = None) -> Array:
    """Apply a function of NumPy arrays to one of any library; ``slope`` is its derivative, for gradients of torch."""
    if needs_gradient(x):
        if slope is None:
            raise TypeError("This function of complex numbers has no gradient. Use x.detach().")
        return _differentiable().apply(x, function, slope)
    return beside(x, np.asarray(function(to_numpy(x))), x.dtype)


def _differentiable() -> Any:
    """Return the function of torch that calls SciPy, and whose gradient is given."""
    import torch

    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, function: Any, slope: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.slope = slope
            return beside(x, np.asarray(function(to_numpy(x))), x.dtype)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.slope(*ctx.saved_tensors), None, None

    return Applied
