"""Check whether a matrix is positive semi-definite, and whether it is a P-kernel."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy

__all__ = ["Check", "PKernelCheck", "check", "is_p_kernel", "p_kernel"]

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
    _check_tolerance(tolerance)
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


@dataclass(frozen=True)
class PKernelCheck:
    """Result of `is_p_kernel`.

    Parameters
    ----------
    ok : bool
        Whether the matrix is a P-kernel.
    reason : str
        The first condition that does not hold, with its value; empty if all hold.
    total : float
        Sum of all entries.
    smallest : float
        Smallest entry.
    psd : Check
        Result of `check`.

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.gram.psd.is_p_kernel([[0.0, 0.5], [0.5, 0.0]])
    >>> bool(found), found.reason
    (False, 'it is not positive semi-definite: the smallest eigenvalue is -0.5')
    """

    ok: bool
    reason: str
    total: float
    smallest: float
    psd: Check

    def __bool__(self) -> bool:
        return self.ok


def is_p_kernel(P: Any, tolerance: float = 1e-10) -> PKernelCheck:
    """Check whether a matrix is a P-kernel: a distribution over pairs that is a kernel (definition 12.1, MK-1).

    Its entries are nonnegative and sum to one, and it is symmetric and positive semi-definite.

    Parameters
    ----------
    P : array of shape (N, N)
        A symmetric matrix: the probability of every pair of N objects.
    tolerance : float, default=1e-10
        How far the sum may be from one, and how far entries and eigenvalues may be below zero, as a fraction of the
        largest; at least 0.

    Returns
    -------
    PKernelCheck
        Truthy if the matrix is a P-kernel; ``reason`` says why not.

    Examples
    --------
    >>> import mercer as mc
    >>> bool(mc.gram.psd.is_p_kernel([[0.3, 0.2], [0.2, 0.3]]))
    True
    >>> mc.gram.psd.is_p_kernel([[1.0, 0.5], [0.5, 1.0]]).reason
    'its entries sum to 3, not to 1'
    """
    P = square(P)
    found = check(P, tolerance)
    total, smallest = float(P.sum()), float(P.min())
    reason = ""
    if smallest < -tolerance * float(np.abs(P).max()):
        i, j = (int(x) for x in np.unravel_index(np.argmin(P), P.shape))
        reason = f"the entry at ({i}, {j}) is negative, {smallest:.6g}"
    elif abs(total - 1) > tolerance:
        reason = f"its entries sum to {total:.6g}, not to 1" + _excess(total)
    elif not found:
        reason = f"it is not positive semi-definite: the smallest eigenvalue is {found.smallest:.6g}"
    return PKernelCheck(not reason, reason, total, smallest, found)


def p_kernel(K: Any, tolerance: float = 1e-10) -> Floats:
    r"""Divide a kernel matrix by the sum of its entries, so that it is a distribution over pairs (section 12.1).

    .. math:: P(x, z) = \frac1M \kappa(x, z), \qquad M = \sum_x \sum_z \kappa(x, z)

    A kernel with negative values has no P-kernel: shift or square it first.

    Parameters
    ----------
    K : array of shape (N, N)
        Gram matrix of all objects of a finite set, with nonnegative entries.
    tolerance : float, default=1e-10
        How far entries and eigenvalues may be below zero, as a fraction of the largest; such entries become zero.

    Returns
    -------
    ndarray of shape (N, N)

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.psd.p_kernel([[2.0, 1.0], [1.0, 2.0]]).round(3)
    array([[0.333, 0.167],
           [0.167, 0.333]])
    """
    K = square(K)
    found = check(K, tolerance)
    largest, smallest = float(np.abs(K).max()), float(K.min())
    if smallest < -tolerance * largest:
        i, j = (int(x) for x in np.unravel_index(np.argmin(K), K.shape))
        raise ValueError(
            f"K must be nonnegative, since a P-kernel is a probability; got {smallest:.6g} at ({i}, {j}). Use a kernel "
            "without negative values, such as K * K."
        )
    if largest == 0:
        raise ValueError("K must have a positive entry; all entries are 0, so that they cannot be made to sum to one.")
    if not found:
        raise ValueError(
            f"K must be positive semi-definite; its smallest eigenvalue is {found.smallest:.6g}. Wrap the kernel in "
            "mc.kernels.Repaired."
        )
    K = np.maximum(K / largest, 0.0)  # so that the sum does not overflow
    return np.asarray(K / K.sum())


def _excess(total: float) -> str:
    """Say how far a sum is from one, where six digits do not show it."""
    return f" (the difference is {total - 1:.1e})" if f"{total:.6g}" == "1" else ""


def _check_tolerance(tolerance: Any) -> None:
    if not isinstance(tolerance, Real) or not 0 <= float(tolerance) < np.inf:
        raise ValueError(f"tolerance must be a number, at least 0, such as 1e-10; got {tolerance!r}.")


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
