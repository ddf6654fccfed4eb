"""Linear and Gaussian kernels on vectors, the usual baselines."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._array import Array
from mercer._parameters import Rules, gamma, optional
from mercer._verdict import Verdict
from mercer.data.csr import CSRRows
from mercer.data.segments import validated
from mercer.kernels._operands import CHEAP_COLUMNS, InnerProducts, Rows
from mercer.kernels.base.hooks import WIDE, Bounds
from mercer.kernels.base.kernel import Kernel


class _VectorKernel(Kernel):
    def _accept(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, CSRRows):
            return X
        first = reset or not hasattr(self, "n_features_in_")
        X = validated(self, X, reset=first, dtype=[np.float64, np.float32], accept_sparse="csr")
        return CSRRows.of(X) if sparse.issparse(X) else X

    def _prepare(self, source: Any) -> Rows:
        return Rows(source)

    def _cheap_pairs(self, source: Any) -> bool:
        return not isinstance(source, CSRRows) and source.shape[1] <= CHEAP_COLUMNS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Linear(InnerProducts, _VectorKernel):
    r"""The inner product :math:`\langle x, y\rangle`; the cosine if normalized.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear()([[1.0, 0.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    psd = Verdict("always", "an inner product")

    def __init__(self, normalize: bool = True, on_zero: str = "raise") -> None:
        self.normalize = normalize
        self.on_zero = on_zero

    def _feature_names(self, width: int) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(width)] if names is None else [str(name) for name in names]


class RBF(_VectorKernel):
    r"""The Gaussian kernel :math:`e^{-\gamma\|x-y\|^2}`.

    Parameters
    ----------
    gamma : float or None, default=None
        Inverse width; None means 1 / n_features.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.RBF(gamma=0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {"gamma": optional(gamma())}
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}
    _stationary = True

    infinitely_divisible = True

    psd = Verdict("always", "the Gaussian kernel (Schoenberg)")

    def __init__(self, gamma: float | None = None) -> None:
        self.gamma = gamma

    def _prepare(self, source: Any) -> Rows:
        return Rows.widened(source)

    def _tile(self, a: Rows, b: Rows) -> Array:
        gamma = 1.0 / a.width if self.gamma is None else float(self.gamma)
        return -gamma * a.squared_distances(b)

    def _self(self, a: Rows) -> Array:
        return np.zeros(len(a))
