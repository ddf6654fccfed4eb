"""Array API helpers: the same code runs on NumPy, torch, CuPy and array-api-strict.

A function gets its namespace once, at the top, and uses only that. Nothing here imports an array library that the
caller has not imported already.
"""

from __future__ import annotations

import math
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
"""A NumPy array of floats, on the host."""
Indices: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of integers: indices, offsets or codes."""
Mask: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of booleans."""
Namespace: TypeAlias = Any
"""The module-like object that ``array_namespace`` returns."""


def namespace(*arrays: Any) -> Namespace:
    """Return the array namespace that all of ``arrays`` share; non-array arguments are ignored."""
    found = [a for a in arrays if is_array_api_obj(a)]
    return array_namespace(*found) if found else array_namespace(np.empty(0))


def as_float(x: Any, name: str = "") -> Array:
    """Convert lists and numbers to NumPy arrays, integers and booleans to float64; return float arrays unchanged.

    ``name`` is that of the parameter, for a message.
    """
    x = x if is_array_api_obj(x) else as_array(x, name)
    xp = namespace(x)
    if xp.isdtype(x.dtype, "real floating"):
        return x
    if is_numpy_array(x) and x.dtype.kind not in "biuf":
        must = f"{name} must be an array of numbers" if name else "Expected numbers"
        raise TypeError(f"{must}; got an array of dtype {x.dtype}.")
    return xp.astype(x, xp.float64)


def as_array(x: Any, name: str = "", what: str = "an array of numbers") -> np.ndarray[Any, Any]:
    """Convert lists and numbers to a NumPy array; raise if nested lists have different lengths."""
    try:
        return np.asarray(x)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        must = f"{name} must be" if name else "Expected"
        raise ValueError(f"{must} {what}; got nested lists of different lengths{_uneven(x)}.") from None


def _uneven(x: Any) -> str:
    """Name the first entry whose shape differs from that of the first one."""
    try:
        shapes = [np.shape(entry) for entry in x]
    except ValueError:  # the entries are uneven themselves
        return ""
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
    return f": entry 0 has shape {shapes[0]}, entry {other} has shape {shapes[other]}"


def frozen(x: Array) -> Array:
    """Return a copy of ``x``, read-only for NumPy; a torch copy keeps its gradient."""
    if is_torch_array(x):
        return x.clone()
    xp = namespace(x)
    x = xp.asarray(x, copy=True)
    if is_numpy_array(x):
        x.setflags(write=False)
    return x


def as_rows(x: Floats) -> Floats:
    """Return one vector per entry of the first axis, ``(N, D)``, also where N is 0."""
    return np.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """Convert ``x`` to NumPy on the host, without its gradient; for checks, files and messages only."""
    if is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    if hasattr(x, "get") and not is_numpy_array(x) and is_array_api_obj(x):  # CuPy
        return np.asarray(x.get())
    return as_array(x)


def beside(x: Array, values: Any, dtype: Any = None) -> Array:
    """Return ``values`` as an array in the library and on the device of ``x``."""
    return namespace(x).asarray(values, dtype=dtype, device=device(x))


def identity(x: Array, n: int) -> Array:
    """Return the n x n identity matrix in the library and dtype and on the device of ``x``."""
    return namespace(x).eye(n, dtype=x.dtype, device=device(x))


def needs_gradient(*arrays: Array) -> bool:
    """Whether torch tracks gradients of any of the arrays."""
    if not any(is_torch_array(x) and x.requires_grad for x in arrays):
        return False
    import torch

    return bool(torch.is_grad_enabled())


def safe_log(x: Array) -> Array:
    """Compute log x with log 0 = -inf, without a warning and with gradient zero at 0; NaN stays NaN."""
    xp = namespace(x)
    zero = x <= 0
    return xp.where(zero, -xp.inf, xp.log(xp.where(zero, xp.ones_like(x), x)))


def log_complement(p: Array) -> Array:
    """Compute log(1 - p), -inf at 1, with gradient zero there."""
    xp = namespace(p)
    inside = p < 1
    return xp.where(inside, xp.log1p(-xp.where(inside, p, xp.zeros_like(p))), -xp.inf)


def xlogx(x: Array) -> Array:
    """Compute x log x with 0 log 0 = 0."""
    xp = namespace(x)
    safe = xp.where(x > 0, x, xp.ones_like(x))
    return xp.where(x > 0, x * xp.log(safe), xp.zeros_like(x))


def inner_logs(x: Array, logs: Array) -> Array:
    """Compute the inner products of all rows of ``x >= 0`` with all rows of ``logs``, where 0 times -inf is 0."""
    xp = namespace(x, logs)
    possible = xp.isfinite(logs)
    value = x @ xp.matrix_transpose(xp.where(possible, logs, xp.zeros_like(logs)))
    impossible = x @ xp.matrix_transpose(xp.astype(~possible, x.dtype))
    return xp.where(impossible > 0, -xp.inf, value)


def logsumexp(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Compute log sum exp along ``axis``; -inf if all entries are -inf, NaN if any entry is NaN."""
    xp = namespace(x)
    top = xp.max(x, axis=axis, keepdims=True)
    shift = xp.where(xp.isinf(top), xp.zeros_like(top), top)
    total = safe_log(xp.sum(xp.exp(x - shift), axis=axis))
    return total + xp.reshape(shift, total.shape)


def cross_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of all pairs: leading axes broadcast, the last axes cross (as in matmul).

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
            "Both batches must have at least one axis; index with a slice, such as p[3:4], to keep the axis."
        )
    return (*np.broadcast_shapes(a[:-1], b[:-1]), a[-1], b[-1])
