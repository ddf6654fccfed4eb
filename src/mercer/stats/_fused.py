"""One test over several kernels: a soft maximum of their statistics, each in units of its own spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from mercer._array import Floats, to_numpy
from mercer.data.csr import CSRRows
from mercer.kernels import RBF, Kernel, Scaled, Sum

WIDTHS = 5
"""Number of widths: between half the 5 % quantile and twice the 95 % quantile of the distances."""


ROUNDING = 1e-12
"""A column whose relative spread is smaller is constant."""


class ColumnRBF(RBF):
    """The Gaussian kernel of columns that are divided by a robust deviation of each, learned in ``fit``.

    Parameters
    ----------
    gamma : float
        Inverse width.
    """

    def _learn(self, X: Any, y: Any = None) -> None:
        self.deviations_ = None if isinstance(X, CSRRows) else deviations(np.asarray(to_numpy(X), dtype=float))

    def _learned(self) -> Any:
        return getattr(self, "deviations_", None)

    @property
    def _learns_from_call(self) -> bool:
        return True

    def _prepare(self, source: Any) -> Any:
        return super()._prepare(source if self.deviations_ is None else np.asarray(source) / self.deviations_)


def deviations(X: Floats) -> Floats:
    """Return a robust deviation of every column, ``(d,)``, that of a normal distribution with the same deciles.

    It is the standard deviation where both deciles are equal, as in a column of rare ones, and 1 for a constant column.
    """
    low, high = np.quantile(X, [0.1, 0.9], axis=0)
    robust = high / 2 - low / 2
    size = np.abs(X).max(axis=0)
    spread = (X / np.where(size > 0, size, 1.0)).std(axis=0)
    spread = np.where(spread > ROUNDING, spread * size, 1.0)
    wide = robust > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return np.asarray(np.where(wide, robust / stats.norm.ppf(0.9), spread))


@dataclass(frozen=True)
class Widths:
    """Gaussian kernels of several widths; one of their Gram matrices at a time is in memory.

    Parameters
    ----------
    squared : ndarray of shape (N, N)
        Squared distances of columns in units of their deviations.
    gammas : ndarray of shape (W,)
        Inverse widths, the widest kernel last.
    """

    squared: Floats
    gammas: Floats

    @classmethod
    def of(cls, X: Any) -> Self:
        """Return the kernels for vectors, with widths from the distances of all different objects."""
        squared = -np.asarray(to_numpy(ColumnRBF(gamma=1.0).log(X)), dtype=float)
        if not np.isfinite(squared).all():
            i, j = np.argwhere(~np.isfinite(squared))[0]
            raise ValueError(
                f"The squared distance of objects {i} and {j} overflows float64. Divide the data by 1e200."
            )
        pairs = squared[np.triu_indices(len(squared), 1)]
        different = pairs[pairs > 1e-14 * pairs.max(initial=0.0)]
        if not len(different):
            return cls(squared, np.ones(1))
        low, high = np.sqrt(np.quantile(different, [0.05, 0.95]))
        if high <= (1 + 1e-9) * low:  # two values, such as classes: all widths are the same kernel up to a factor
            return cls(squared, np.array([0.5 / low**2]))
        return cls(squared, 0.5 / np.geomspace(low / 2, 2 * high, WIDTHS) ** 2)

    def __iter__(self) -> Iterator[Floats]:
        for gamma in self.gammas:
            yield np.exp(-gamma * self.squared)

    def kernel(self, spreads: Floats) -> Kernel:
        """Return the mean of the kernels, each in units of its spread."""
        weights = 1 / (len(spreads) * np.where(spreads > 0, spreads, 1.0))
        return Sum([Scaled(ColumnRBF(float(g)), float(w)) for g, w in zip(self.gammas, weights, strict=True)])


def fused(standard: Floats, n: int) -> Floats:
    r"""Return :math:`\frac1\lambda\log\mathrm{mean}_k\, e^{\lambda s_k}` over the first axis.

    Parameters
    ----------
    standard : ndarray of shape (W, ...)
        Statistics in units of spreads that no permutation changes.
    n : int
        Number of objects of the smaller sample; :math:`\lambda = \sqrt{n(n-1)}`, as the deviation of a standard
        statistic is about its inverse.
    """
    sharpness = np.sqrt(n * (n - 1))
    return np.asarray((logsumexp(sharpness * standard, axis=0) - np.log(len(standard))) / sharpness)
