"""P-kernels: kernels on a finite set that are probabilities of pairs (Shawe-Taylor and Cristianini 2004, 12.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.gram.psd._check import Check, asymmetry, check, check_tolerance, finite_square, square, symmetric_part


@dataclass(frozen=True)
class PKernelCheck:
    """The outcome of `is_p_kernel`.

    Parameters
    ----------
    ok : bool
        Whether the matrix is a P-kernel.
    reason : str
        Why not; empty where it is one.
    smallest : float
        The smallest entry.
    total : float
        The sum of all entries.
    psd : Check
        Whether the matrix (of one that is not symmetric, the mean of it and its transpose) is positive semi-definite.

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.gram.psd.is_p_kernel([[0.4, 0.2], [0.2, 0.4]])
    >>> bool(found), found.reason
    (False, 'its entries sum to 1.2, not to one: divide by the sum, as psd.p_kernel does')
    """

    ok: bool
    reason: str
    smallest: float
    total: float
    psd: Check

    def __bool__(self) -> bool:
        return self.ok


def is_p_kernel(K: Any, tolerance: float = 1e-10) -> PKernelCheck:
    """Check that a matrix over all objects of a finite set is a P-kernel: a probability of pairs, and a kernel (MK-1).

    Parameters
    ----------
    K : array of shape (N, N)
        A matrix with a row for every object of the set.
    tolerance : float, default=1e-10
        How far the sum may be from one, entries from positive, and the smallest eigenvalue from zero as a fraction of
        the largest; 0 or more.

    Returns
    -------
    PKernelCheck
        True in a condition where the matrix is a P-kernel; ``reason`` says what it lacks.

    Examples
    --------
    >>> import mercer as mc
    >>> bool(mc.gram.psd.is_p_kernel([[0.4, 0.1], [0.1, 0.4]]))
    True
    >>> mc.gram.psd.is_p_kernel([[0.1, 0.4], [0.4, 0.1]]).reason
    'it is not positive semi-definite: its smallest eigenvalue is -0.3'

    The joint law of two fair coins that always differ is a probability of pairs, and no kernel:

    >>> bool(mc.gram.psd.is_p_kernel([[0.0, 0.5], [0.5, 0.0]]))
    False
    """
    check_tolerance(tolerance)
    K = finite_square(K)
    smallest, total, spectrum = float(K.min()), float(K.sum()), check(symmetric_part(K), tolerance)
    apart = asymmetry(K)
    if apart is not None:
        i, j = apart
        reason = f"it is not symmetric: the entry at ({i}, {j}) is {K[i, j]:.6g}, and at ({j}, {i}) {K[j, i]:.6g}"
    elif smallest < -tolerance * np.abs(K).max():
        i, j = (int(x) for x in np.unravel_index(np.argmin(K), K.shape))
        reason = f"a probability is not negative, and the entry at ({i}, {j}) is {smallest:.6g}"
    elif abs(total - 1) > tolerance:
        reason = f"its entries sum to {total:.6g}, not to one: divide by the sum, as psd.p_kernel does"
    elif not spectrum:
        reason = f"it is not positive semi-definite: its smallest eigenvalue is {spectrum.smallest:.6g}"
    else:
        reason = ""
    return PKernelCheck(not reason, reason, smallest, total, spectrum)


def p_kernel(K: Any) -> Floats:
    """Divide a kernel that is never negative by its sum over all pairs: a P-kernel (MK-1).

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
        raise ValueError(f"the entries sum to {total:.6g}, and only a positive sum can be made one")
    found = K / total
    verdict = is_p_kernel(found)
    if not verdict:
        raise ValueError(f"this matrix does not become a P-kernel: {verdict.reason}")
    return found


def p_product(*kernels: Any) -> Floats:
    """Return the P-kernel of objects that are made of independent parts, one P-kernel a part (MK-1).

    Parameters
    ----------
    *kernels : arrays of shapes (N1, N1), (N2, N2), ...
        P-kernels of the parts.

    Returns
    -------
    ndarray of shape (N1 N2 ..., N1 N2 ...)
        Objects are tuples of parts, the last part running fastest, as in ``itertools.product``.

    Examples
    --------
    >>> import mercer as mc
    >>> K = mc.gram.psd.p_product([[0.4, 0.1], [0.1, 0.4]], [[0.5, 0.0], [0.0, 0.5]])
    >>> K.shape, bool(mc.gram.psd.is_p_kernel(K))
    ((4, 4), True)
    """
    return np.asarray(reduce(np.kron, _checked(kernels)))


def p_mixture(kernels: Sequence[Any], weights: Any) -> Floats:
    """Return the P-kernel of pairs that are drawn from one of several P-kernels on the same objects (MK-1).

    Parameters
    ----------
    kernels : list of arrays of shape (N, N)
        P-kernels.
    weights : array of shape (len(kernels),)
        How often each of them is drawn from.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.gram.psd.p_mixture([[[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]]], weights=[0.6, 0.4])
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    if not isinstance(kernels, list | tuple) and np.ndim(kernels) != 3:
        raise TypeError(f"kernels = {kernels!r}: give a list of P-kernels, each of them a matrix")
    found = _checked(tuple(kernels))
    if len({len(K) for K in found}) > 1:
        raise ValueError(
            f"a mixture is of kernels on the same objects, and these have {', '.join(str(len(K)) for K in found)}: "
            "use p_product for kernels of different parts"
        )
    try:
        law = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        law = np.empty(0)
    if law.shape != (len(found),) or not np.all(law >= 0) or abs(law.sum() - 1) > 1e-10:
        raise ValueError(f"weights = {weights!r}: give {len(found)} probabilities that sum to one")
    return np.asarray(np.tensordot(law, np.stack(found), axes=1))


def _checked(kernels: tuple[Any, ...]) -> list[Floats]:
    """Return P-kernels as matrices, or raise where one is none."""
    if not kernels:
        raise ValueError("give at least one P-kernel")
    found = [square(K) for K in kernels]
    for i, K in enumerate(found):
        verdict = is_p_kernel(K)
        if not verdict:
            raise ValueError(f"kernel {i} is no P-kernel: {verdict.reason}")
    return found
