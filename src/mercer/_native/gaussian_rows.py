"""Log densities of points under the Gaussians of their own model, computed by native/gaussian_rows.hpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call


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
