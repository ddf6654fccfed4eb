"""Is a matrix positive semi-definite? Exact for small ones, by Lanczos for large ones."""

from __future__ import annotations

from dataclasses import dataclass
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
        How far below zero the smallest eigenvalue may be, as a fraction of the largest.

    Returns
    -------
    Check
        True in a condition where the matrix is positive semi-definite.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> bool(mc.psd.check(np.eye(3))), bool(mc.psd.check([[1.0, 2.0], [2.0, 1.0]]))
    (True, False)
    """
    K = square(K)
    if len(K) <= DENSE_UP_TO:
        values = np.linalg.eigvalsh(K)
        smallest, largest, method = float(values[0]), float(values[-1]), "dense"
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).standard_normal(len(K))  # the same answer every time
        largest = float(eigsh(K, k=1, which="LA", return_eigenvectors=False, v0=start)[0])
        # Shifting the spectrum below zero makes the smallest eigenvalue the one of largest magnitude, which Lanczos finds fast.
        shifted = _shifted(K, largest)
        tol = tolerance / 10
        extreme = eigsh(shifted, k=1, which="LM", return_eigenvectors=False, v0=start, tol=tol)[0]
        smallest = float(extreme) + largest
        method = "lanczos"
    scale = max(abs(largest), abs(smallest))
    return Check(smallest >= -tolerance * scale, smallest, largest, tolerance, method)


def _shifted(K: Any, shift: float) -> Any:
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator(K.shape, matvec=lambda v: K @ v - shift * v, dtype=K.dtype)


def square(K: Any) -> np.ndarray[Any, Any]:
    """Return ``K`` as a finite symmetric NumPy matrix, or raise a sentence."""
    K = np.asarray(to_numpy(K), dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) == 0:
        raise ValueError(f"expected a square Gram matrix, got an array of shape {K.shape}")
    if not np.isfinite(K).all():
        i, j = (int(x) for x in np.argwhere(~np.isfinite(K))[0])
        raise ValueError(f"the Gram matrix holds {K[i, j]} at ({i}, {j})")
    scale = float(np.abs(K).max()) or 1.0
    if np.abs(K - K.T).max() > 1e-6 * scale:
        raise ValueError("the matrix is not symmetric: a Gram matrix of training data is, a cross-Gram is not")
    return (K + K.T) / 2
