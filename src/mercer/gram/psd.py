"""Check whether a matrix is positive semi-definite."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy

__all__ = ["Check", "check"]

DENSE_UP_TO = 1500
"""Up to this size all eigenvalues are computed; above it, Lanczos computes the extreme ones."""


@dataclass(frozen=True)
class Check:
    """Result of `check`.

    Parameters
    ----------
    ok : bool
        Whether the smallest eigenvalue is above minus the tolerance times the largest.
    smallest, largest : float
        Smallest and largest eigenvalue.
    tolerance : float
        Relative tolerance.
    method : str
        "dense" or "lanczos".

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.gram.psd.check([[1.0, 2.0], [2.0, 1.0]])
    >>> bool(found), round(found.smallest, 6), round(found.largest, 6)
    (False, -1.0, 3.0)
    """

    ok: bool
    smallest: float
    largest: float
    tolerance: float
    method: str

    def __bool__(self) -> bool:
        return self.ok


def check(K: Any, tolerance: float = 1e-10) -> Check:
    """Check that a Gram matrix is positive semi-definite.

    Parameters
    ----------
    K : array of shape (N, N)
        A symmetric matrix.
    tolerance : float, default=1e-10
        How far below zero the smallest eigenvalue may be, as a fraction of the largest; at least 0.

    Returns
    -------
    Check
        Truthy if the matrix is positive semi-definite.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> (
    ...     bool(mc.gram.psd.check(np.eye(3))),
    ...     bool(mc.gram.psd.check([[1.0, 2.0], [2.0, 1.0]])),
    ... )
    (True, False)
    """
    K = square(K)
    if not isinstance(tolerance, Real) or not 0 <= float(tolerance) < np.inf:
        raise ValueError(f"tolerance must be a number, at least 0, such as 1e-10; got {tolerance!r}.")
    ends = _lanczos(K, tolerance) if len(K) > DENSE_UP_TO else None
    if ends is None:
        values = np.linalg.eigvalsh(K)
        ends = float(values[0]), float(values[-1])
        method = "dense"
    else:
        method = "lanczos"
    smallest, largest = ends
    scale = max(abs(largest), abs(smallest))
    return Check(smallest >= -tolerance * scale, smallest, largest, tolerance, method)


def _lanczos(K: Floats, tolerance: float) -> tuple[float, float] | None:
    """Return the smallest and largest eigenvalue, or None if Lanczos fails.

    The eigenvalues of a Gram matrix cluster at zero, where plain Lanczos does not converge. So the smallest one is
    computed from the inverse of K + shift, with the smallest shift on a geometric grid that makes it positive definite.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(len(K))  # deterministic result
    bound = float(np.abs(K).sum(axis=1).max())
    if bound == 0:
        return 0.0, 0.0
    try:
        largest = float(eigsh(K, k=1, which="LA", return_eigenvectors=False, v0=start, tol=1e-10)[0])
        shift = max(tolerance, 1e-14) * (largest if largest > 0 else bound)
        while True:
            try:
                factor = cho_factor(K + shift * np.eye(len(K)), overwrite_a=True, check_finite=False)
                break
            except LinAlgError:
                if shift >= 2 * bound:  # diagonally dominant, so only rounding can fail
                    return None
                shift = min(100 * shift, 2 * bound)
        inverse = LinearOperator(K.shape, matvec=lambda v: cho_solve(factor, v, check_finite=False), dtype=K.dtype)
        found = eigsh(K, k=1, sigma=-shift, OPinv=inverse, return_eigenvectors=False, v0=start, tol=1e-4, ncv=50)
    except ArpackError:  # no convergence
        return None
    return float(found[0]), largest


def square(K: Any) -> Floats:
    """Return ``K`` as a finite symmetric NumPy matrix, or raise."""
    if callable(K):
        raise TypeError(f"K must be a Gram matrix; got the kernel {type(K).__name__}. Pass kernel(X).")
    try:
        K = np.asarray(to_numpy(K))
    except ValueError:
        raise ValueError("K must be a square matrix; got rows of different lengths.") from None
    if K.dtype.kind == "c":
        raise TypeError("K must be real; got complex numbers. Pass the real part, K.real.")
    try:
        K = K.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"K must be a square matrix of numbers; got dtype {K.dtype}.") from None
    except OverflowError:
        raise ValueError("K must be finite; got a whole number that overflows float64. Rescale the kernel.") from None
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) == 0:
        raise ValueError(f"K must be a square matrix; got shape {K.shape}.")
    if not np.isfinite(K).all():
        i, j = (int(x) for x in np.argwhere(~np.isfinite(K))[0])
        raise ValueError(f"K must be finite; got {K[i, j]} at ({i}, {j}).")
    difference = np.abs(K - K.T)
    if difference.max() > 1e-6 * (float(np.abs(K).max()) or 1.0):
        i, j = (int(x) for x in np.unravel_index(np.argmax(difference), K.shape))
        raise ValueError(
            f"K must be symmetric; got {K[i, j]:.6g} at ({i}, {j}) and {K[j, i]:.6g} at ({j}, {i}). Pass the Gram "
            "matrix of one data set, not a cross-Gram matrix."
        )
    return K / 2 + K.T / 2  # K + K.T could overflow
