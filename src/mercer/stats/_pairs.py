"""Sums over pairs of Gram matrices of two sides: of the data, of permutations, and of random signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer._parallel import n_threads, thread_map
from mercer.stats._assignments import Orders, Signs
from mercer.stats._smoothers import Smoothers


@dataclass(frozen=True)
class Side:
    """Gram matrices of one side: centered without their diagonals or, with confounds, those of residuals.

    Parameters
    ----------
    matrices : ndarray of shape (A, n, n)
        The matrices.
    covariance : ndarray of shape (n, n) or None
        Covariance of the residuals of independent errors of variance 1; None without confounds.
    """

    matrices: Floats
    covariance: Floats | None = None

    @classmethod
    def of(cls, matrices: list[Floats], smoothers: Smoothers | None) -> Self:
        """Center matrices, or regress out confounds."""
        if smoothers is None:
            return cls(np.stack([centered(K) for K in matrices]))
        fit = smoothers.fit(matrices)
        return cls(np.stack([fit.residual_gram(K) for K in matrices]), fit.covariance())

    @property
    def own(self) -> Floats:
        """The diagonals, ``(A, n)``."""
        return np.einsum("ann->an", self.matrices)


@dataclass(frozen=True)
class Pairs:
    r"""The sums :math:`\sum_{ij} K_{ij} L_{ij}` of all pairs of matrices of two sides, minus their means.

    A sum is the squared norm of :math:`\sum_i e_i \otimes e'_i`, whose terms have mean zero under independence. With
    numbers as confounds their signs are drawn, else the terms of one side are permuted. Residuals of the data are
    correlated, since a regression was fitted to them, and terms with drawn signs are not: these are scaled to the same
    mean square.

    Parameters
    ----------
    first, second : Side
        Both sides.
    orders : Orders or Signs
        What is drawn.
    """

    first: Side
    second: Side
    orders: Orders | Signs

    @property
    def _share(self) -> float:
        """The mean square of the data by that of terms with drawn signs, for independent errors."""
        a, b = self.first.covariance, self.second.covariance
        if a is None or b is None:
            return 1.0
        return float(np.sum(a * b)) / float(np.diag(a) @ np.diag(b))

    def observed(self) -> Floats:
        """Return the sums of the data, ``(A, B)``."""
        return np.asarray(
            _products(self.first.matrices, self.second.matrices) - self._share * self.first.own @ self.second.own.T
        )

    def drawn(self, orders: Any) -> Floats:
        """Return the same sums with the second side in other orders, or with other signs, ``(P, A, B)``."""
        out = np.empty((len(orders), len(self.first.matrices), len(self.second.matrices)))
        if isinstance(self.orders, Signs):

            def work(at: int) -> None:
                a, b = divmod(at, out.shape[2])
                products = self._signed(a, b)
                out[:, a, b] = self._share * ((orders @ products) * orders).sum(axis=1)

            tasks = out[0].size
        else:
            mean = self._share * self.first.own @ self.second.own.T

            def work(at: int) -> None:
                moved = self.second.matrices[:, orders[at]][:, :, orders[at]]
                out[at] = _products(self.first.matrices, moved) - mean

            tasks = len(orders)
        thread_map(work, list(range(tasks)), threads=n_threads(), label="permutations")
        return out

    def sizes(self) -> Floats:
        """Return the deviations of all sums up to a common factor, which nothing that is drawn changes, ``(A, B)``."""
        if isinstance(self.orders, Signs):
            n = self.first.matrices.shape[1]
            shape = len(self.first.matrices), len(self.second.matrices)
            squares = [np.sum(self._signed(a, b) ** 2) for a, b in np.ndindex(shape)]
            sizes = self._share * n * np.sqrt(np.reshape(squares, shape))
        else:
            sizes = np.outer(*self._norms())
        return np.where(sizes > 0, sizes, 1.0)

    def correlation(self) -> float:
        """Return the correlation of the means of both sides' matrices, each divided by its norm."""
        a, b = (1 / np.where(norms > 0, norms, 1.0) for norms in self._norms())
        first, second = self._with_themselves()
        own = max(float(a @ first.observed() @ a), 0.0) * max(float(b @ second.observed() @ b), 0.0)
        return float(a @ self.observed() @ b) / float(np.sqrt(own)) if own > 0 else 0.0

    def _norms(self) -> list[Floats]:
        return [np.sqrt(np.maximum(np.diag(pairs.observed()), 0.0)) for pairs in self._with_themselves()]

    def _with_themselves(self) -> tuple[Pairs, Pairs]:
        return Pairs(self.first, self.first, self.orders), Pairs(self.second, self.second, self.orders)

    def _signed(self, a: int, b: int) -> Floats:
        """Return the inner products of the terms of different objects."""
        products = self.first.matrices[a] * self.second.matrices[b]
        np.fill_diagonal(products, 0.0)
        return np.asarray(products)


def centered(K: Floats) -> Floats:
    """Return a matrix with zero diagonal whose off-diagonal rows sum to zero."""
    n, size = len(K), float(np.abs(K).max())
    K = K.copy()
    np.fill_diagonal(K, 0.0)
    rows = K.sum(axis=0)
    K -= (rows[:, None] + rows) / (n - 2)
    K += rows.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(K, 0.0)
    return K if np.abs(K).max() > 1e-13 * size else np.zeros_like(K)  # a constant kernel leaves rounding only


def _products(first: Floats, second: Floats) -> Floats:
    """Return the sums of products of the entries of all pairs of matrices, ``(A, B)``."""
    return np.asarray(first.reshape(len(first), -1) @ second.reshape(len(second), -1).T)
