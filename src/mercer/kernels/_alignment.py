"""Weights of matrices by centred alignment with a target (Cortes, Mohri and Rostamizadeh 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.utils.validation import check_array

from mercer._array import Floats, safe_log, to_numpy
from mercer.kernels._classes import check_kind

NOTHING = 1e-12
"""What is left of a matrix, a target or a weight below this fraction of it is rounding."""


def align_matrices(matrices: list[Floats], target: Floats) -> tuple[Floats, Floats, float]:
    """Return the weights, every matrix's alignment and that of the sum, with a centred target ``(N, c)``."""
    centred, norms = zip(*(_unit(matrix) for matrix in matrices), strict=True)
    goal = target @ target.T
    goal /= np.linalg.norm(goal)
    own = np.array([np.sum(matrix * goal) for matrix in centred])
    between = np.array([[np.sum(left * right) for right in centred] for left in centred])
    weights = _nonnegative(between, own)
    if not weights.any():
        raise ValueError(
            "no kernel is aligned with y: their centred alignments are "
            f"{', '.join(f'{value:.3g}' for value in own)}; give a kernel that tells the objects apart"
        )
    alignment = float(own @ weights / np.sqrt(weights @ between @ weights))
    # Of the matrices as they are, by logarithms, since their sizes may be beyond all squares.
    logs = safe_log(weights) - np.log(norms)
    raw = np.exp(logs - logs.max())
    return raw / raw.sum(), own, alignment


def _unit(matrix: Floats) -> tuple[Floats, float]:
    """Centre a matrix and divide it by its Frobenius norm; what has nothing but rounding left becomes zero."""
    scale = float(np.abs(matrix).max()) or 1.0
    matrix = matrix.astype(float) / scale
    rows = matrix.mean(axis=0)
    centred = matrix - rows - rows[:, None] + rows.mean()
    norm = float(np.linalg.norm(centred))
    if norm <= NOTHING * float(np.linalg.norm(matrix)):
        return np.zeros_like(matrix), scale
    return centred / norm, norm * scale


def _nonnegative(between: Floats, own: Floats) -> Floats:
    """Minimise v'Mv - 2v'a over v >= 0, as least squares |S v - S^-T a| with M = S'S (Cortes et al. 2012)."""
    values, vectors = np.linalg.eigh(between)
    keep = values > NOTHING * max(float(values[-1]), 1.0)
    root = np.sqrt(values[keep])
    weights: Floats = nnls(root[:, None] * vectors[:, keep].T, vectors[:, keep].T @ own / root)[0]
    # Matrices that vanish, and those that only rounding asks for.
    return np.where((np.diag(between) > 0) & (weights > NOTHING * weights.max(initial=0.0)), weights, 0.0)


def centered_target(y: Any, kind: str, n: int) -> Floats:
    """Return centred indicators of classes, or centred numbers, ``(N, c)``."""
    if y is None:
        raise ValueError(
            "TargetAligned requires y to be passed, but the target y is None: call fit(X, y) with the classes or "
            "numbers that the kernel is for"
        )
    y = np.asarray(y) if isinstance(y, list | tuple) or hasattr(y, "iloc") else np.asarray(to_numpy(y))
    check_kind(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {n} objects, and y of shape {y.shape}; give "
            "a class or a number for each"
        )
    if kind == "numbers" or (kind == "auto" and (y.dtype.kind == "f" or y.ndim == 2)):
        values = _finite(y).reshape(n, -1)
        values = values / (np.abs(values).max(axis=0) + (values == 0).all(axis=0))
    else:
        if y.ndim == 2:
            raise ValueError(f"classes of shape {y.shape}: give one class for every object, or target='numbers'")
        if y.dtype.kind == "f":
            _finite(y)
        try:
            classes, member = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise ValueError(f"y holds classes that cannot be sorted ({error}): make all of them strings") from None
        values = np.eye(len(classes))[member]
    centred = values - values.mean(axis=0)
    if np.linalg.norm(centred) <= NOTHING * np.linalg.norm(values):
        raise ValueError(
            f"y is the same for all objects (n_samples = {n}), so that no kernel can be aligned with it: give objects "
            "of two classes, or different numbers"
        )
    return np.asarray(centred)


def _finite(y: Floats) -> Floats:
    """Return numbers as floats, or say which object has none; scikit-learn's own sentence comes first."""
    try:
        return np.asarray(check_array(y, ensure_2d=False, dtype=float, input_name="y"))
    except ValueError as error:
        if y.dtype.kind != "f" or np.isfinite(y).all():
            raise
        place = int(np.argwhere(~np.isfinite(y))[0][0])
        raise ValueError(f"{str(error).splitlines()[0]} Object {place} has none: leave it out") from None
