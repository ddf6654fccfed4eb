"""Special functions on arrays of any library.

NumPy arrays use SciPy; torch tensors use torch's functions, with gradients. Arrays of any other library are converted
to NumPy and back, which always works but is slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, namespace, to_numpy


def _call(name: str, x: Array, *first: float) -> Array:
    if is_torch_array(x):
        import torch

        return getattr(torch.special, name)(*first, x)
    from scipy import special

    function: Any = getattr(special, name)
    if isinstance(x, np.ndarray | np.generic | float):
        return function(*first, x)
    return namespace(x).asarray(function(*first, to_numpy(x)), dtype=x.dtype)


def gammaln(x: Array) -> Array:
    """Logarithm of the gamma function."""
    return _call("gammaln", x)


def digamma(x: Array) -> Array:
    """Compute the derivative of the log-gamma function."""
    return _call("digamma", x)


def trigamma(x: Array) -> Array:
    """Compute the second derivative of the log-gamma function."""
    return _call("zeta", x, 2.0)  # torch's own polygamma has nine digits


def i0e(x: Array) -> Array:
    """Bessel function I_0(x) exp(-|x|)."""
    return _call("i0e", x)


def erfcx(x: Array) -> Array:
    """Scaled complementary error function exp(x^2) erfc(x)."""
    return _call("erfcx", x)
