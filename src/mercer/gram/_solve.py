"""Solve (K + alpha I) x = y by products with K: kernel ridge regression and Gaussian processes on large matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Floats, as_array
from mercer._notices import notify, warns_once
from mercer._parameters import NONE, between, check, positive, whole
from mercer._random import random_generator

ROWS = 1024
"""Rows of a matrix on disk that are read at once."""


@warns_once
def solve(
    K: Any,
    y: Any,
    *,
    alpha: float,
    rank: int | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
    random_state: Any = 0,
) -> Floats:
    r"""Solve :math:`(K + \alpha I)x = y` by preconditioned conjugate gradients, with products ``K @ V`` only.

    These are the weights of kernel ridge regression and of the mean of a Gaussian process with noise variance
    ``alpha``: the prediction for new objects is ``kernel(new, X) @ x``. Every iteration reads the matrix once, for all
    columns of ``y`` together.

    Parameters
    ----------
    K : array of shape (N, N), zarr.Array or LinearOperator
        A symmetric positive semi-definite matrix, or anything with a ``shape`` and a product ``K @ V``. A matrix on
        disk is read in blocks of rows.
    y : array of shape (N,) or (N, T)
        Targets.
    alpha : float
        Positive regularization, or noise variance.
    rank : int, default=None
        Number of directions in the preconditioner; None uses up to 200. More cost memory, N numbers each, and save
        iterations where ``alpha`` is small.
    tol : float, default=1e-10
        Largest norm of the residual, relative to that of ``y``.
    max_iter : int, default=1000
        Largest number of iterations. A ``ConvergenceWarning`` tells the residual if it is reached.
    random_state : int, Generator or None, default=0
        Seed of the preconditioner.

    Returns
    -------
    array of shape (N,) or (N, T)

    Notes
    -----
    The preconditioner is randomized Nyström: from one product with ``rank`` random vectors,
    :math:`K \approx U\Lambda U^\top`, and the preconditioned matrix has a condition number of about
    :math:`1 + \lambda_{rank} / \alpha`, with :math:`\lambda_{rank}` the smallest of the eigenvalues found.

    References
    ----------
    Frangella, Z., Tropp, J. A. and Udell, M. (2023). Randomized Nyström preconditioning. SIAM Journal on Matrix
    Analysis and Applications 44(2).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> K = mc.RBF(gamma=10.0)(x)
    >>> weights = mc.gram.solve(K, np.sin(6 * x[:, 0]), alpha=0.01)
    >>> exact = np.linalg.solve(K + 0.01 * np.eye(50), np.sin(6 * x[:, 0]))
    >>> bool(np.allclose(weights, exact))
    True
    """
    K = as_array(K, "K") if isinstance(K, list | tuple) else K
    check(positive("It is the variance of the noise in y."), alpha=alpha)
    check(between(0, 1, "neither"), tol=tol)
    check(whole(1), max_iter=max_iter)
    check(whole(0) | NONE, rank=rank)
    Y = _checked(K, y)
    n = len(Y)
    wanted = min(200, n // 4) if rank is None else min(int(rank), n)
    found = _conjugate_gradients(_Product(K), Y.reshape(n, -1), float(alpha), wanted, random_state, tol, max_iter)
    return found.reshape(Y.shape)


def _checked(K: Any, y: Any) -> Floats:
    """Return the targets as floats; raise unless they belong to a square matrix."""
    shape = getattr(K, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"K must be a square matrix; got {type(K).__name__} of shape {shape}.")
    if shape[0] == 0:
        raise ValueError("K is empty (0 objects). Pass the matrix of at least one.")
    try:
        Y = np.asarray(y).astype(float, casting="same_kind" if np.iscomplexobj(y) else "unsafe")
    except (TypeError, ValueError):
        raise ValueError("y must be real numbers. Encode labels first, as -1 and 1, for example.") from None
    if Y.ndim not in (1, 2) or len(Y) != shape[0]:
        raise ValueError(f"y must have one value or row for each of the {shape[0]} objects; got shape {Y.shape}.")
    if not np.isfinite(Y).all():
        raise ValueError("y must be finite. Leave out objects without a target.")
    return Y


@dataclass(frozen=True)
class _Product:
    """Products with K."""

    K: Any

    def __call__(self, V: Floats) -> Floats:
        K = self.K
        with np.errstate(over="ignore", invalid="ignore"):
            if hasattr(K, "__matmul__"):
                found = np.asarray(K @ V)
            else:
                found = np.concatenate([K[at : at + ROWS] @ V for at in range(0, K.shape[0], ROWS)])
        if found.dtype.kind not in "fiu":
            raise ValueError(f"K must have real numbers; its products have the type {found.dtype}.")
        if not np.isfinite(found).all():
            raise ValueError("K has entries that are not finite, or whose sums overflow. Check the data, or rescale K.")
        return found.astype(float, copy=False)


def _nystrom(product: _Product, n: int, rank: int, alpha: float, random_state: Any) -> tuple[Floats, Floats]:
    """Approximate the leading eigenvectors U (n, r) from one product with random vectors (Frangella et al., 2.1).

    The inverse of the preconditioner is I - U diag(s) U'; U and s are returned.
    """
    test = np.linalg.qr(random_generator(random_state).standard_normal((n, min(max(rank, 2), n))))[0]
    image = product(test)
    _check_symmetric(test, image)
    test, image = test[:, :rank], image[:, :rank]
    shift = np.finfo(float).eps * np.linalg.norm(image)  # keeps the small matrix positive definite
    image = image + shift * test
    inner = test.T @ image
    values, vectors = linalg.eigh((inner + inner.T) / 2) if rank else (np.zeros(0), np.zeros((0, 0)))
    keep = values > values.max(initial=0.0) * np.finfo(float).eps * rank
    if not keep.any():
        return np.zeros((n, 0)), np.zeros(0)
    U, singular, _ = np.linalg.svd(image @ (vectors[:, keep] / np.sqrt(values[keep])), full_matrices=False)
    spectrum = np.maximum(singular**2 - shift, 0.0)
    return U, 1 - (spectrum[-1] + alpha) / (spectrum + alpha)


def _check_symmetric(test: Floats, image: Floats) -> None:
    """Raise unless u'Kv = v'Ku for random orthogonal vectors."""
    inner = test.T @ image
    difference = np.abs(inner - inner.T)
    if difference.max() > 1e-6 * np.linalg.norm(image, axis=0).max():
        i, j = np.unravel_index(np.argmax(difference), inner.shape)
        raise ValueError(
            f"K must be symmetric; for two random vectors, u'Kv is {inner[i, j]:.6g} and v'Ku is {inner[j, i]:.6g}. "
            "Pass the Gram matrix of one data set, not a cross-Gram matrix."
        )


def _conjugate_gradients(
    product: _Product, Y: Floats, alpha: float, rank: int, random_state: Any, tol: float, max_iter: int
) -> Floats:
    """Solve for all columns at once, as one system with a block per column, so that K is read once per iteration."""
    U, shrinkage = _nystrom(product, len(Y), rank, alpha, random_state)
    norms = np.linalg.norm(Y, axis=0)
    if not norms.any():
        return np.zeros_like(Y)

    def times(flat: Floats) -> Floats:
        P = flat.reshape(Y.shape)
        Q = product(P) + alpha * P
        curvature = (P * Q).sum(axis=0)
        if curvature.min() < 0 or not curvature.max() > 0:
            raise ValueError(
                f"K + {alpha:.4g} I is not positive definite, as a kernel matrix must be. "
                "Wrap the kernel in mc.kernels.Repaired, or raise alpha."
            )
        return Q.ravel()

    def preconditioned(flat: Floats) -> Floats:
        R = flat.reshape(Y.shape)
        return (R - U @ (shrinkage[:, None] * (U.T @ R))).ravel()

    system, inverse = (LinearOperator((Y.size, Y.size), f, dtype=float) for f in (times, preconditioned))
    # If the residual of all columns together is so small, that of each is.
    goal = tol * float(norms[norms > 0].min())
    flat, iterations = cg(system, Y.ravel(), rtol=0.0, atol=goal, maxiter=max_iter, M=inverse)
    X: Floats = flat.reshape(Y.shape)
    if iterations:
        residual = np.linalg.norm(Y - product(X) - alpha * X, axis=0)
        left = float((residual / np.where(norms > 0, norms, 1.0)).max())
        notify(
            f"The solution has the relative residual {left:.2g} after {max_iter} iterations, not {tol:.2g}. Raise "
            "rank, max_iter or alpha.",
            ConvergenceWarning,
        )
    return X
