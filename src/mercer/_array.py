"""Array namespaces: one source for NumPy, torch, CuPy and the strict test namespace.

A function fetches its namespace once, at its top, and then uses only that. Nothing here imports
an array library that the caller has not imported already.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""
Floats: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array, on the host."""
Namespace: TypeAlias = Any
"""The module-like object that ``array_namespace`` returns."""


def namespace(*arrays: Any) -> Namespace:
    """Return the array namespace that all of ``arrays`` share; what is no array does not count."""
    found = [a for a in arrays if is_array_api_obj(a)]
    return array_namespace(*found) if found else array_namespace(np.empty(0))


def as_float(x: Any) -> Array:
    """Turn lists and numbers into NumPy arrays, integers and booleans into float64; other arrays stay as they are."""
    x = x if is_array_api_obj(x) else np.asarray(x)
    xp = namespace(x)
    if xp.isdtype(x.dtype, "real floating"):
        return x
    if is_numpy_array(x) and x.dtype.kind not in "biuf":
        raise TypeError(f"expected numbers, got an array of dtype {x.dtype}")
    return xp.astype(x, xp.float64)


def frozen(x: Array) -> Array:
    """Copy ``x``; a NumPy copy is made read-only. Torch keeps its gradient through the copy."""
    if is_torch_array(x):
        return x.clone()
    xp = namespace(x)
    x = xp.asarray(x, copy=True)
    if is_numpy_array(x):
        x.setflags(write=False)
    return x


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """Copy ``x`` to NumPy on the host, without its gradient: for checks, files and messages only."""
    if is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    if hasattr(x, "get") and not is_numpy_array(x) and is_array_api_obj(x):  # CuPy
        return np.asarray(x.get())
    return np.asarray(x)


def beside(x: Array, values: Any, dtype: Any = None) -> Array:
    """Return ``values`` as an array of the library and on the device of ``x``."""
    return namespace(x).asarray(values, dtype=dtype, device=device(x))


def identity(x: Array, n: int) -> Array:
    """Return the identity matrix in the dtype, library and on the device of ``x``."""
    return namespace(x).eye(n, dtype=x.dtype, device=device(x))


def safe_log(x: Array) -> Array:
    """Logarithm with log 0 = -inf, without a warning and with a zero gradient there; NaN stays NaN."""
    xp = namespace(x)
    nothing = x <= 0
    return xp.where(nothing, -xp.inf, xp.log(xp.where(nothing, xp.ones_like(x), x)))


def xlogx(x: Array) -> Array:
    """Compute x log x with 0 log 0 = 0."""
    xp = namespace(x)
    safe = xp.where(x > 0, x, xp.ones_like(x))
    return xp.where(x > 0, x * xp.log(safe), xp.zeros_like(x))


def logsumexp(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Compute log sum exp along ``axis``; all entries -inf give -inf, one NaN gives NaN."""
    xp = namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    shift = xp.where(xp.isinf(top), xp.zeros_like(top), top)
    total = safe_log(xp.sum(xp.exp(x - shift), axis=axis))
    return total + xp.reshape(shift, total.shape)


def cross_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of a pairing: leading axes align, the last axes cross (matmul's rule).

    Parameters
    ----------
    a, b : tuple of int
        Batch shapes ``(*B, n)`` and ``(*B, m)``.

    Returns
    -------
    tuple of int
        ``(*B, n, m)``.
    """
    if not a or not b:
        raise ValueError(
            "a pairing needs batches with at least one axis; index with a slice, such as p[3:4], to keep it"
        )
    return (*np.broadcast_shapes(a[:-1], b[:-1]), a[-1], b[-1])
