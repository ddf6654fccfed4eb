"""One test over several kernels: a soft maximum of their statistics, each in units of its own spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from mercer._array import Floats, to_numpy
from mercer.kernels import RBF, Kernel, Scaled, Sum

WIDTHS = 5
"""Number of widths: between half the 5 % quantile and twice the 95 % quantile of the distances."""


@dataclass(frozen=True)
class Widths:
    """Gaussian kernels of several widths; one of their Gram matrices at a time is in memory.

    Parameters
    ----------
    squared : ndarray of shape (N, N)
        Squared distances.
    gammas : ndarray of shape (W,)
        Inverse widths, the widest kernel last.
    """

    squared: Floats
    gammas: Floats

    @classmethod
    def of(cls, X: Any) -> Self:
        """Return the kernels for vectors, with widths from the distances of all different objects."""
        squared = -np.asarray(to_numpy(RBF(gamma=1.0).log(X)), dtype=float)
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
        return Sum([Scaled(RBF(float(g)), float(w)) for g, w in zip(self.gammas, weights, strict=True)])


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
