"""Checks of the joint distribution of two matched letters (MK-5b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy
from mercer._probability import check_sums

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Tolerance of asymmetry, relative to the largest entry, and of negative eigenvalues."""


def _tolerance(dtype: Any) -> float:
    return TOLERANCE.get(str(dtype), TOLERANCE["float64"])


def lowest_eigenvalue(joint: Floats) -> Floats:
    """Return the smallest eigenvalue of joint distributions ``(..., k, k)`` scaled to a diagonal of ones.

    This is the scale of normalized kernels, at which frequent letters do not hide rare ones. A letter that is never
    matched with itself is left out if it is never matched at all; otherwise the result is -inf.
    """
    joint = np.asarray(joint, dtype=np.float64)
    own = np.diagonal(joint, axis1=-2, axis2=-1)
    never = own <= 0
    root = np.sqrt(np.where(never, 1.0, own))
    scaled = joint / root[..., :, None] / root[..., None, :] + never[..., None] * np.eye(joint.shape[-1])
    lowest = np.linalg.eigvalsh(scaled)[..., 0]
    return np.where((never & (joint != 0).any(axis=-1)).any(axis=-1), -np.inf, lowest)


def is_psd(joint: Floats) -> Any:
    """Whether joint distributions ``(..., k, k)`` are positive semi-definite, within rounding."""
    return lowest_eigenvalue(joint) >= -_tolerance(joint.dtype)


def checked_joint(values: Any) -> Array:
    """Return joint probabilities of two letters that are symmetric and positive semi-definite."""
    joint = as_float(values)
    shape = tuple(joint.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0:
        raise ValueError(f"joint must have k x k probabilities of pairs in its last two axes; got shape {shape}.")
    tables = to_numpy(joint)
    for where in np.argwhere(~(tables >= 0))[:1]:
        at = tuple(map(int, where))
        raise ValueError(f"joint must be nonnegative probabilities; got {tables[at]} at index {at}.")
    check_sums(tables.sum(axis=(-1, -2)), tables.dtype, "joint")
    apart = np.abs(tables - np.swapaxes(tables, -1, -2))
    largest = tables.max(axis=(-1, -2), keepdims=True, initial=0)
    for where in np.argwhere(apart > _tolerance(tables.dtype) * largest)[:1]:
        at = tuple(map(int, where))
        other = (*at[:-2], at[-1], at[-2])
        raise ValueError(
            f"joint must be symmetric, because a match treats both strings alike; got {tables[at]} at index {at} and "
            f"{tables[other]} at {other}. Use (joint + joint.T) / 2, for example."
        )
    for where in np.argwhere(~is_psd(tables))[:1]:
        at = tuple(map(int, where))
        lowest = float(lowest_eigenvalue(tables)[at])
        raise ValueError(
            f"joint must be positive semi-definite (MK-5b); scaled to a diagonal of ones, at index {at} it has the "
            f"eigenvalue {lowest:.3g}. Raise its diagonal, or use a larger matrix_scale."
        )
    return joint
