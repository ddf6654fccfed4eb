"""Linear, Gaussian and Laplace kernels on vectors, the usual baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats, to_numpy
from mercer._parameters import Check, Rules, gamma, optional
from mercer._verdict import Verdict
from mercer.data.csr import CSRRows
from mercer.data.segments import validated
from mercer.kernels._operands import CHEAP_COLUMNS, InnerProducts, Rows
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import WIDE, Bounds

MEDIAN_ROWS = 1000
"""Number of rows among which the median distance is computed."""
Distances = Callable[[Rows, Rows], Array]
"""Distances of every pair of rows."""


def median_distance(rows: Any, rng: np.random.Generator, distances: Distances = Rows.squared_distances) -> float:
    """Return the median of the positive distances, squared unless given, of at most 1,000 rows; 0 if all are equal.

    Equal rows are left out: where most values are repeated, the median of all pairs would be 0.
    """
    n = len(rows)
    some = Rows.widened(rows if n <= MEDIAN_ROWS else rows[np.sort(rng.choice(n, MEDIAN_ROWS, replace=False))])
    found: Floats = to_numpy(distances(some, some))[np.triu_indices(len(some), 1)]
    found = found[found > 1e-14 * found.max(initial=0.0)]  # rounding of equal rows
    return float(np.median(found)) if len(found) else 0.0


def number_or_median(check: Check) -> Check:
    """Accept "median" and what ``check`` accepts."""

    def checked(name: str, value: Any) -> None:
        if isinstance(value, str) and value != "median":
            raise ValueError(f"{name} must be a number or 'median'; got {value!r}.")
        if not isinstance(value, str):
            check(name, value)

    return checked


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


@dataclass(eq=False, repr=False)
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

    normalize: bool = True
    on_zero: str = "raise"

    def _feature_names(self, width: int) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(width)] if names is None else [str(name) for name in names]


class _OfDistance(_VectorKernel):
    """A kernel exp(-gamma D) of a distance D of vectors."""

    _parameters: ClassVar[Rules] = {"gamma": optional(number_or_median(gamma()))}
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}
    _stationary = True

    infinitely_divisible = True

    def __init__(self, gamma: float | str | None = None) -> None:
        self.gamma = gamma

    @staticmethod
    def _distances(a: Rows, b: Rows) -> Array:
        """Return D of every pair of rows."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any = None) -> None:
        self.__dict__.pop("gamma_", None)
        if isinstance(self.gamma, str):
            median = median_distance(X, np.random.default_rng(0), self._distances)
            self.gamma_ = 1.0 / median if median > 0 else 1.0  # the kernel of equal rows is 1 for every width

    def _learned(self) -> Any:
        return getattr(self, "gamma_", None)

    @property
    def _learns_from_call(self) -> bool:
        return isinstance(self.gamma, str)

    def inverse_width(self, n_features: int) -> float:
        """Return gamma as a number; for "median" after ``fit``."""
        if self.gamma is None:
            return 1.0 / n_features
        return self.gamma_ if isinstance(self.gamma, str) else float(self.gamma)

    def _prepare(self, source: Any) -> Rows:
        return Rows.widened(source)

    def _tile(self, a: Rows, b: Rows) -> Array:
        return -self.inverse_width(a.width) * self._distances(a, b)

    def _self(self, a: Rows) -> Array:
        return np.zeros(len(a))


class RBF(_OfDistance):
    r"""The Gaussian kernel :math:`e^{-\gamma\|x-y\|^2}`.

    Parameters
    ----------
    gamma : float, "median" or None, default=None
        Inverse width. None means 1 / n_features, which suits columns of variance 1. "median" means 1 / m, where m is
        the median squared distance of two different training rows: it suits data in any units.

    Attributes
    ----------
    gamma_ : float
        The inverse width that was learned; only for ``gamma="median"``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.RBF(gamma=0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> mc.RBF(gamma="median").fit([[0.0], [1000.0], [2000.0]]).gamma_
    1e-06
    """

    psd = Verdict("always", "the Gaussian kernel (Schoenberg)")

    @staticmethod
    def _distances(a: Rows, b: Rows) -> Array:
        return a.squared_distances(b)


class Laplace(_OfDistance):
    r"""The Laplace kernel :math:`e^{-\gamma\|x-y\|_1}`, with the sum of the absolute differences of the coordinates.

    Parameters
    ----------
    gamma : float, "median" or None, default=None
        Inverse width. None means 1 / n_features, which suits columns of variance 1. "median" means 1 / m, where m is
        the median distance of two different training rows: it suits data in any units.

    Attributes
    ----------
    gamma_ : float
        The inverse width that was learned; only for ``gamma="median"``.

    See Also
    --------
    RBF : The Gaussian kernel, which is smooth at equal points and less robust to outliers.

    Notes
    -----
    The characteristic function of the Cauchy distribution is :math:`e^{-\gamma|x|}`, so that the kernel is a product
    over the coordinates of positive definite functions (MM-1).

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Laplace(gamma=0.5)([[0.0, 0.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> mc.Laplace(gamma="median").fit([[0.0], [1000.0], [2000.0]]).gamma_
    0.001
    """

    psd = Verdict("always", "a product of Fourier transforms of Cauchy distributions (Bochner)")

    @staticmethod
    def _distances(a: Rows, b: Rows) -> Array:
        return a.absolute_distances(b)
