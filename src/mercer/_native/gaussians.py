"""Pairs of Gaussians, and log densities of points under Gaussians: native/gaussians.hpp, native/gaussian_rows.hpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call

_FEW = 32
"""A side with fewer members than this leaves most lanes idle."""


def _packed(mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Pack lower triangles ``(N, d (d + 1) / 2)``, or variances ``(N, d)``, and means ``(N, d)``."""
    if covariance.ndim == mean.ndim:
        return covariance, mean
    rows, columns = np.tril_indices(mean.shape[-1])
    return covariance[:, rows, columns], mean


def _call(left: tuple[Floats, Floats], right: tuple[Floats, Floats], **rest: Any) -> None:
    given = dict.fromkeys(("own", "other", "value", "log_det", "quadratic")) | {"weight": 0.0} | rest
    call("gaussian_pairs", left=_packed(*left), right=_packed(*right), **given)


def log_kernels(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    scale: float,
    identity: float,
    weight: float,
    own: Floats,
    theirs: Floats,
) -> Floats:
    """Return own + theirs - log|M| / 2 - weight v' M^{-1} v, ``(I, J)``, for M = scale (S + S') + identity, v = m - m'.

    Parameters
    ----------
    left, right : pair of ndarrays
        Means ``(N, d)`` and covariances, ``(N, d, d)`` or ``(N, d)``, of each side.
    scale, identity : float
        Coefficients of the matrix M.
    weight : float
        Weight of the quadratic form.
    own, theirs : ndarray of shape (I,) and (J,)
        Terms added for every member of each side.

    Returns
    -------
    ndarray of shape (I, J)
        NaN where a pivot left the range of float64.
    """
    if len(theirs) < _FEW < len(own):
        return np.ascontiguousarray(log_kernels(right, left, scale, identity, weight, theirs, own).T)
    value = np.empty((len(own), len(theirs)))
    _call(left, right, scale=scale, identity=identity, weight=weight, own=own, other=theirs, value=value)
    return value


def solve(
    left: tuple[Floats, Floats], right: tuple[Floats, Floats], scale: float, identity: float
) -> tuple[Floats, Floats]:
    """Return log|M| and v' M^{-1} v, ``(I, J)`` each, for M = scale (S + S') + identity, v = m - m'."""
    log_det, quadratic = np.empty((2, len(left[0]), len(right[0])))
    _call(left, right, scale=scale, identity=identity, log_det=log_det, quadratic=quadratic)
    return log_det, quadratic


def gaussian_rows(x: Floats, owner: Any, mean: Floats, covariance: Floats, out: Floats) -> None:
    """Write the log density of every point in every state of its own model.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points. NaN is marginalized if the covariances are diagonal; full covariances return NaN.
    owner : ndarray of int of shape (T,)
        Position of the model of every point; fastest if ascending.
    mean : ndarray of shape (N, n, d)
        Means.
    covariance : ndarray of shape (N, n, d, d), (N, n, d) or (N, n)
        Regular covariances: full, diagonal or isotropic.
    out : ndarray of shape (T, n)
        Output array.
    """
    flat = np.asarray(covariance).reshape(*mean.shape[:2], -1)
    call("gaussian_rows", x=x, owner=owner, mean=mean, covariance=flat, out=out)
