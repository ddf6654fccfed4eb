"""Checks of the joint distribution of two matched letters (MK-5b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy
from mercer._probability import check_sums

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""How far a joint may be from symmetric, relative to its largest entry, and its lowest eigenvalue below zero."""


def _tolerance(dtype: Any) -> float:
    return TOLERANCE.get(str(dtype), TOLERANCE["float64"])


def lowest_eigenvalue(joint: Floats) -> Floats:
    """Return the smallest eigenvalue of joint distributions ``(..., k, k)`` scaled to a diagonal of ones.

    Normalised kernels see a joint so: the letters with large probabilities do not hide what the rare ones do. A letter
    that is never matched with itself is left out where it is never matched, and else no scale is enough: -inf.
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
        raise ValueError(f"joint has shape {shape}: its last two axes must hold k x k probabilities of pairs")
    tables = to_numpy(joint)
    for where in np.argwhere(~(tables >= 0))[:1]:
        at = tuple(map(int, where))
        raise ValueError(f"joint at index {at} is {tables[at]}: probabilities must be nonnegative numbers")
    check_sums(tables.sum(axis=(-1, -2)), tables.dtype, "joint")
    apart = np.abs(tables - np.swapaxes(tables, -1, -2))
    largest = tables.max(axis=(-1, -2), keepdims=True, initial=0)
    for where in np.argwhere(apart > _tolerance(tables.dtype) * largest)[:1]:
        at = tuple(map(int, where))
        other = (*at[:-2], at[-1], at[-2])
        raise ValueError(
            f"joint at index {at} is {tables[at]}, and at {other} {tables[other]}: a match treats both strings alike, "
            "so that it must be symmetric, such as (joint + joint.T) / 2"
        )
    for where in np.argwhere(~is_psd(tables))[:1]:
        at = tuple(map(int, where))
        lowest = float(lowest_eigenvalue(tables)[at])
        raise ValueError(
            f"joint at index {at}, scaled to a diagonal of ones, has the eigenvalue {lowest:.3g}: no hidden letter "
            "gives two strings this joint, and the kernel would not be positive semi-definite (MK-5b); raise its "
            "diagonal, or use a larger scale of the substitution matrix"
        )
    return joint
