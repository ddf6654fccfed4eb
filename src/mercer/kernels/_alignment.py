"""Weights of matrices by centered alignment with a target (Cortes, Mohri and Rostamizadeh 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.utils.validation import check_array

from mercer._array import Floats, as_array, safe_log, to_numpy
from mercer.kernels._classes import check_target

NOTHING = 1e-12
"""Values below this fraction of the original matrix, target or weight are rounding errors."""


def align_matrices(matrices: list[Floats], target: Floats) -> tuple[Floats, Floats, float]:
    """Return the weights, the alignment of every matrix and that of their sum with a centered target ``(N, c)``."""
    centered, norms = zip(*(_unit(matrix) for matrix in matrices), strict=True)
    goal = target @ target.T
    goal /= np.linalg.norm(goal)
    own = np.array([np.sum(matrix * goal) for matrix in centered])
    between = np.array([[np.sum(left * right) for right in centered] for left in centered])
    weights = _nonnegative(between, own)
    if not weights.any():
        raise ValueError(
            "No kernel is aligned with y: their centered alignments are "
            f"{', '.join(f'{value:.3g}' for value in own)}. Use a kernel that separates the classes or numbers."
        )
    alignment = float(own @ weights / np.sqrt(weights @ between @ weights))
    # For the matrices before scaling, in the log domain, since squares of their norms may overflow.
    logs = safe_log(weights) - np.log(norms)
    raw = np.exp(logs - logs.max())
    return raw / raw.sum(), own, alignment


def _unit(matrix: Floats) -> tuple[Floats, float]:
    """Center a matrix and divide it by its Frobenius norm; zero if only rounding errors are left."""
    scale = float(np.abs(matrix).max()) or 1.0
    matrix = matrix.astype(float) / scale
    rows = matrix.mean(axis=0)
    centered = matrix - rows - rows[:, None] + rows.mean()
    norm = float(np.linalg.norm(centered))
    if norm <= NOTHING * float(np.linalg.norm(matrix)):
        return np.zeros_like(matrix), scale
    return centered / norm, norm * scale


def _nonnegative(between: Floats, own: Floats) -> Floats:
    """Minimize v'Mv - 2v'a over v >= 0, as least squares |S v - S^-T a| with M = S'S (Cortes et al. 2012)."""
    values, vectors = np.linalg.eigh(between)
    keep = values > NOTHING * max(float(values[-1]), 1.0)
    root = np.sqrt(values[keep])
    weights: Floats = nnls(root[:, None] * vectors[:, keep].T, vectors[:, keep].T @ own / root)[0]
    # Leave out matrices that vanish, and weights that are only rounding errors.
    return np.where((np.diag(between) > 0) & (weights > NOTHING * weights.max(initial=0.0)), weights, 0.0)


def centered_target(y: Any, kind: str, n: int) -> Floats:
    """Return centered indicators of classes, or centered numbers, ``(N, c)``."""
    if y is None:
        raise ValueError(
            "TargetAligned requires y to be passed, but the target y is None. Call fit(X, y) with classes or numbers."
        )
    plain = isinstance(y, list | tuple) or hasattr(y, "iloc")
    y = as_array(y if plain else to_numpy(y), "y", "one class or number per sample")
    check_target(y, n)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim > 2:
        raise ValueError(f"y must have shape (N,) or (N, c); got {y.shape}. Pass one class or number per sample.")
    if kind == "numbers" or (kind == "auto" and (y.dtype.kind == "f" or y.ndim == 2)):
        values = _finite(y).reshape(n, -1)
        values = values / (np.abs(values).max(axis=0) + (values == 0).all(axis=0))
    else:
        if y.ndim == 2:
            raise ValueError(
                f"classes must have shape (N,); got {y.shape}. Pass one class per object, or set target='numbers'."
            )
        if y.dtype.kind == "f":
            _finite(y)
        try:
            classes, member = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"y contains classes that cannot be sorted ({error}). Convert all of them to strings."
            ) from None
        values = np.eye(len(classes))[member]
    centered = values - values.mean(axis=0)
    if np.linalg.norm(centered) <= NOTHING * np.linalg.norm(values):
        raise ValueError(
            f"y is the same for all objects (n_samples = {n}), so that no kernel can be aligned with it. Pass objects "
            "of two or more classes, or different numbers."
        )
    return np.asarray(centered)


def _finite(y: Floats) -> Floats:
    """Return numbers as floats; an error names the object without a number, after scikit-learn's message."""
    try:
        return np.asarray(check_array(y, ensure_2d=False, dtype=float, input_name="y"))
    except ValueError as error:
        if y.dtype.kind != "f" or np.isfinite(y).all():
            raise
        place = int(np.argwhere(~np.isfinite(y))[0][0])
        raise ValueError(f"{str(error).splitlines()[0]} Object {place} has no number. Leave it out.") from None
