"""Is a matrix positive semi-definite? Exact for small ones, by Lanczos for large ones."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mercer._array import to_numpy

DENSE_UP_TO = 1500
"""Below this size all eigenvalues are computed; above it Lanczos finds the two ends of the spectrum."""


@dataclass(frozen=True)
class Check:
    """The outcome of `check`.

    Parameters
    ----------
    ok : bool
        Whether the smallest eigenvalue is above minus the tolerance times the largest.
    smallest, largest : float
        The ends of the spectrum.
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
        How far below zero the smallest eigenvalue may be, as a fraction of the largest; 0 or more.

    Returns
    -------
    Check
        True in a condition where the matrix is positive semi-definite.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> bool(mc.gram.psd.check(np.eye(3))), bool(mc.gram.psd.check([[1.0, 2.0], [2.0, 1.0]]))
    (True, False)
    """
    K = square(K)
    check_tolerance(tolerance)
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


def _lanczos(K: np.ndarray[Any, Any], tolerance: float) -> tuple[float, float] | None:
    """Return the ends of the spectrum, or None where Lanczos does not find them.

    The eigenvalues of a Gram matrix crowd at zero, where plain Lanczos does not converge: the lower end is found on the
    inverse of K + shift, the least shift on a ladder that makes it positive definite.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(len(K))  # the same answer every time
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
                if shift >= 2 * bound:  # diagonally dominant by then: it cannot fail but by rounding
                    return None
                shift = min(100 * shift, 2 * bound)
        inverse = LinearOperator(K.shape, matvec=lambda v: cho_solve(factor, v, check_finite=False), dtype=K.dtype)
        found = eigsh(K, k=1, sigma=-shift, OPinv=inverse, return_eigenvectors=False, v0=start, tol=1e-4, ncv=50)
    except ArpackError:  # no convergence
        return None
    return float(found[0]), largest


def check_tolerance(tolerance: Any) -> None:
    """Raise unless ``tolerance`` is a number, 0 or more."""
    if not isinstance(tolerance, Real) or not 0 <= float(tolerance) < np.inf:
        raise ValueError(f"tolerance = {tolerance!r}: give a number, 0 or more, such as 1e-10")


def square(K: Any) -> np.ndarray[Any, Any]:
    """Return ``K`` as a finite symmetric NumPy matrix, or raise a sentence."""
    K = finite_square(K)
    if asymmetry(K) is not None:
        raise ValueError("the matrix is not symmetric: a Gram matrix of training data is, a cross-Gram is not")
    return symmetric_part(K)


def symmetric_part(K: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the mean of a matrix and its transpose."""
    return K / 2 + K.T / 2  # their sum could overflow


def asymmetry(K: np.ndarray[Any, Any]) -> tuple[int, int] | None:
    """Return the place where a matrix differs most from its transpose, or None where it is symmetric to rounding."""
    apart = np.abs(K - K.T)
    if apart.max() <= 1e-6 * (float(np.abs(K).max()) or 1.0):
        return None
    i, j = np.unravel_index(np.argmax(apart), K.shape)
    return int(i), int(j)


def finite_square(K: Any) -> np.ndarray[Any, Any]:
    """Return ``K`` as a finite square NumPy matrix, or raise a sentence."""
    if callable(K):
        raise TypeError(f"{type(K).__name__} is a kernel, and a Gram matrix is needed: give kernel(X)")
    try:
        K = np.asarray(to_numpy(K))
    except ValueError:
        raise ValueError("the rows of the matrix have different lengths: give a square Gram matrix") from None
    if K.dtype.kind == "c":
        raise TypeError("the Gram matrix holds complex numbers, and kernels are real: pass its real part, K.real")
    try:
        K = K.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"expected a square Gram matrix of numbers, got an array of dtype {K.dtype}") from None
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) == 0:
        raise ValueError(f"expected a square Gram matrix, got an array of shape {K.shape}")
    if not np.isfinite(K).all():
        i, j = (int(x) for x in np.argwhere(~np.isfinite(K))[0])
        raise ValueError(f"the Gram matrix holds {K[i, j]} at ({i}, {j})")
    return K
