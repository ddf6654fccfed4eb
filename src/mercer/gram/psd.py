"""Check whether a matrix is positive semi-definite, or a P-kernel.

P-kernels are kernels on a finite set that are joint distributions (Shawe-Taylor and Cristianini 2004, 12.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy

__all__ = ["Check", "PKernelCheck", "check", "is_p_kernel", "p_kernel", "p_mixture", "p_product"]

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


def check_tolerance(tolerance: Any) -> None:
    """Raise unless ``tolerance`` is a nonnegative number."""
    if not isinstance(tolerance, Real) or not 0 <= float(tolerance) < np.inf:
        raise ValueError(f"tolerance must be a number, at least 0, such as 1e-10; got {tolerance!r}.")


def square(K: Any) -> Floats:
    """Return ``K`` as a finite symmetric NumPy matrix, or raise."""
    K = finite_square(K)
    asymmetric = asymmetry(K)
    if asymmetric is not None:
        i, j = asymmetric
        raise ValueError(
            f"K must be symmetric; got {K[i, j]:.6g} at ({i}, {j}) and {K[j, i]:.6g} at ({j}, {i}). Pass the Gram "
            "matrix of one data set, not a cross-Gram matrix."
        )
    return symmetric_part(K)


def symmetric_part(K: Floats) -> Floats:
    """Return the mean of a matrix and its transpose."""
    return K / 2 + K.T / 2  # K + K.T could overflow


def asymmetry(K: Floats) -> tuple[int, int] | None:
    """Return the index where a matrix differs most from its transpose, or None if it is symmetric up to rounding."""
    difference = np.abs(K - K.T)
    if difference.max() <= 1e-6 * (float(np.abs(K).max()) or 1.0):
        return None
    i, j = np.unravel_index(np.argmax(difference), K.shape)
    return int(i), int(j)


def finite_square(K: Any) -> Floats:
    """Return ``K`` as a finite square NumPy matrix, or raise."""
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
    return K


@dataclass(frozen=True)
class PKernelCheck:
    """Result of `is_p_kernel`.

    Parameters
    ----------
    ok : bool
        Whether the matrix is a P-kernel.
    reason : str
        Why the matrix is not a P-kernel; empty if it is.
    smallest : float
        Smallest entry.
    total : float
        Sum of all entries.
    psd : Check
        Whether the symmetric part of the matrix is positive semi-definite.

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.gram.psd.is_p_kernel([[0.4, 0.2], [0.2, 0.4]])
    >>> bool(found), found.reason
    (False, 'the entries must sum to 1; got 1.2. Normalize them with psd.p_kernel.')
    """

    ok: bool
    reason: str
    smallest: float
    total: float
    psd: Check

    def __bool__(self) -> bool:
        return self.ok


def is_p_kernel(K: Any, tolerance: float = 1e-10) -> PKernelCheck:
    """Check whether a matrix over all objects of a finite set is a P-kernel: a joint distribution and a kernel (MK-1).

    Parameters
    ----------
    K : array of shape (N, N)
        A matrix with one row per object of the set.
    tolerance : float, default=1e-10
        Tolerance of the sum; also of negative entries and negative eigenvalues, as a fraction of the largest ones.
        At least 0.

    Returns
    -------
    PKernelCheck
        Truthy if the matrix is a P-kernel; otherwise ``reason`` says why not.

    Examples
    --------
    >>> import mercer as mc
    >>> bool(mc.gram.psd.is_p_kernel([[0.4, 0.1], [0.1, 0.4]]))
    True
    >>> mc.gram.psd.is_p_kernel([[0.1, 0.4], [0.4, 0.1]]).reason
    'the matrix must be positive semi-definite; its smallest eigenvalue is -0.3.'

    The joint distribution of two fair coins that always differ is not a kernel:

    >>> bool(mc.gram.psd.is_p_kernel([[0.0, 0.5], [0.5, 0.0]]))
    False
    """
    check_tolerance(tolerance)
    K = finite_square(K)
    smallest, total, spectrum = float(K.min()), float(K.sum()), check(symmetric_part(K), tolerance)
    asymmetric = asymmetry(K)
    if asymmetric is not None:
        i, j = asymmetric
        reason = f"the matrix must be symmetric; got {K[i, j]:.6g} at ({i}, {j}) and {K[j, i]:.6g} at ({j}, {i})."
    elif smallest < -tolerance * np.abs(K).max():
        i, j = (int(x) for x in np.unravel_index(np.argmin(K), K.shape))
        reason = f"the entries must be nonnegative; got {smallest:.6g} at ({i}, {j})."
    elif abs(total - 1) > tolerance:
        reason = f"the entries must sum to 1; got {total:.6g}. Normalize them with psd.p_kernel."
    elif not spectrum:
        reason = f"the matrix must be positive semi-definite; its smallest eigenvalue is {spectrum.smallest:.6g}."
    else:
        reason = ""
    return PKernelCheck(not reason, reason, smallest, total, spectrum)


def p_kernel(K: Any) -> Floats:
    """Normalize a nonnegative kernel to a P-kernel by dividing it by its sum over all pairs (MK-1).

    Parameters
    ----------
    K : array of shape (N, N)
        A positive semi-definite matrix without negative entries.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.psd.p_kernel([[2.0, 0.5], [0.5, 1.0]])
    array([[0.5  , 0.125],
           [0.125, 0.25 ]])
    """
    K = square(K)
    total = float(K.sum())
    if total <= 0:
        raise ValueError(f"The entries of K must have a positive sum; got {total:.6g}.")
    normalized = K / total
    verdict = is_p_kernel(normalized)
    if not verdict:
        raise ValueError(f"K cannot be normalized to a P-kernel: {verdict.reason}")
    return normalized


def p_product(*kernels: Any) -> Floats:
    """Return the P-kernel of objects that consist of independent parts, with one P-kernel per part (MK-1).

    Parameters
    ----------
    *kernels : arrays of shapes (N1, N1), (N2, N2), ...
        P-kernels of the parts.

    Returns
    -------
    ndarray of shape (N1 N2 ..., N1 N2 ...)
        Objects are tuples of parts, the last part varying fastest, as in ``itertools.product``.

    Examples
    --------
    >>> import mercer as mc
    >>> K = mc.gram.psd.p_product([[0.4, 0.1], [0.1, 0.4]], [[0.5, 0.0], [0.0, 0.5]])
    >>> K.shape, bool(mc.gram.psd.is_p_kernel(K))
    ((4, 4), True)
    """
    return np.asarray(reduce(np.kron, _checked(kernels)))


def p_mixture(kernels: Sequence[Any], weights: Any) -> Floats:
    """Return the mixture of several P-kernels on the same objects (MK-1).

    Parameters
    ----------
    kernels : list of arrays of shape (N, N)
        P-kernels.
    weights : array of shape (len(kernels),)
        Mixture weights: nonnegative, with sum 1.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.psd.p_mixture(
    ...     [[[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]]], weights=[0.6, 0.4]
    ... )
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    if not isinstance(kernels, list | tuple) and np.ndim(kernels) != 3:
        raise TypeError(f"kernels must be a list of matrices; got {kernels!r}.")
    matrices = _checked(tuple(kernels))
    if len({len(K) for K in matrices}) > 1:
        raise ValueError(
            f"kernels must be on the same objects; got {', '.join(str(len(K)) for K in matrices)} objects. For "
            "kernels of different parts, use p_product."
        )
    try:
        probabilities = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        probabilities = np.empty(0)
    valid = probabilities.shape == (len(matrices),) and np.all(probabilities >= 0)
    if not valid or abs(probabilities.sum() - 1) > 1e-10:
        raise ValueError(f"weights must be {len(matrices)} probabilities that sum to 1; got {weights!r}.")
    return np.asarray(np.tensordot(probabilities, np.stack(matrices), axes=1))


def _checked(kernels: tuple[Any, ...]) -> list[Floats]:
    """Return the matrices; raise if one is not a P-kernel."""
    if not kernels:
        raise ValueError("Pass at least one P-kernel; got none.")
    matrices = [square(K) for K in kernels]
    for i, K in enumerate(matrices):
        verdict = is_p_kernel(K)
        if not verdict:
            raise ValueError(f"Kernel {i} is not a P-kernel: {verdict.reason}")
    return matrices
