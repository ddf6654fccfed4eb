"""Two samples with confounds: the difference of mean embeddings in a regression, and permutations of residuals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.stats._assignments import Design, Orders, Signs
from mercer.stats._confounds import Confounds
from mercer.stats._discrepancy import Effect
from mercer.stats._input import Indices, means_of_units
from mercer.stats._smoothers import Smoother

LEAST_SHARE = 1e-3
"""Share of the variance of the assignments that confounds must leave."""


@dataclass(frozen=True)
class Regression:
    """Assignments to the first sample, minus what confounds explain of them, and the orders of residuals.

    Parameters
    ----------
    labels : ndarray of shape (U,)
        Residual assignments of objects, or of groups.
    smoother : Smoother
        Regression of the features on the confounds of objects, or of groups.
    orders : Orders or Signs
        Permutations of the residuals within strata; with confounds that are numbers, their signs.
    units : ndarray of int, shape (N,)
        The unit of every object that is permuted as a whole.
    permuted : str
        What is permuted, for a sentence.
    """

    labels: Floats
    smoother: Smoother
    orders: Orders | Signs
    units: Indices
    permuted: str

    @classmethod
    def of(cls, design: Design, confounds: Confounds, grams: Iterable[Floats]) -> Self:
        """Return the assignments of a design, given confounds of its objects and their Gram matrices."""
        if design.crossed:
            confounds, units, what = confounds.within(design.units), np.arange(len(design.units)), "objects"
        else:
            confounds, units, what = confounds.of_groups(design.units), design.units, design.permuted
        first = np.zeros(units.max() + 1)
        first[units] = design.first
        smoothers = confounds.smoothers(what)
        labels = smoothers.smooth(first).residuals(first)  # a common bias needs two regressions that are too smooth
        if labels @ labels <= LEAST_SHARE * len(first) * np.var(first):
            raise ValueError(
                "The confounds determine which sample an object is in, so that no difference is left to test. Use "
                "confounds whose values occur in both samples."
            )
        smoother = smoothers.fit(means_of_units(K, units) for K in grams)
        return cls(labels, smoother, confounds.orders(), units, confounds.permuted(what))

    @property
    def smaller(self) -> int:
        """The size of the smaller of two samples with the same precision and no confounds."""
        return max(2, round(2 * float(self.labels @ self.labels)))

    def count(self) -> int:
        """Return the number of permutations."""
        return self.orders.count()

    def every(self) -> Floats:
        """Return all orders, ``(U, count)``."""
        return self.orders.every().T

    def drawn(self, size: int, rng: np.random.Generator) -> Floats:
        """Return random orders, ``(U, size)``."""
        return self.orders.drawn(size, rng).T

    def moved(self, Z: Floats) -> Floats:
        """Return the labels in other orders, or with other signs, ``(U, B)``."""
        return np.asarray(self.labels[:, None] * Z if isinstance(self.orders, Signs) else self.labels[Z])

    def weights(self) -> Floats:
        """Return the weight of every object in the difference of mean embeddings, ``(N,)``."""
        share = self.labels / (self.labels @ self.labels)
        return np.asarray((share / np.bincount(self.units))[self.units])

    @property
    def exchangeable(self) -> Regression:
        """The design of the statistic."""
        return self


@dataclass(frozen=True)
class Adjusted:
    r"""The squared difference of mean embeddings of two samples, with confounds regressed out.

    With residuals u of the labels and :math:`e_i` of the features, each of its own regression, the difference is
    :math:`\tau = \sum_i u_i e_i / u'u`, a sum of terms of mean zero without a difference. Their signs are drawn; within
    strata, the residuals are permuted. Residuals of the data are correlated, since a regression was fitted to them, and
    terms with drawn signs are not: these are scaled to the same mean square.

    Parameters
    ----------
    K : ndarray of shape (U, U)
        Residual Gram matrix.
    covariance : ndarray of shape (U, U)
        That of the residuals of independent errors, :math:`R R'`.
    objects : ndarray of shape (N, N)
        Gram matrix of the objects.
    design : Regression
        The labels.
    """

    K: Floats
    covariance: Floats
    objects: Floats
    design: Regression

    @classmethod
    def of(cls, K: Floats, design: Regression) -> Self:
        """Return the sums over a Gram matrix; groups are compared by the means of their kernels."""
        left = design.smoother.residual_gram(means_of_units(K, design.units))
        return cls(left, design.smoother.covariance(), K, design)

    @property
    def scale(self) -> float:
        """Largest absolute value of the kernel, to tell differences from rounding."""
        return float(np.abs(self.objects).max())

    @property
    def spread(self) -> float:
        """Root mean square of the residual kernel of different units."""
        return float(np.sqrt(np.mean(self.K[~np.eye(len(self.K), dtype=bool)] ** 2)))

    @property
    def _freedom(self) -> float:
        return float(np.trace(self.covariance))

    @property
    def _noise(self) -> float:
        """The mean squared difference, by the residual variance, if there is none."""
        u = self.design.labels
        return float(u @ self.covariance @ u) / float(u @ u) ** 2

    @property
    def _drawn(self) -> tuple[float, float]:
        """The factor that scales what is drawn, and its mean."""
        u = self.design.labels
        if isinstance(self.design.orders, Orders):
            return 1.0, self._noise * float(np.trace(self.K)) / self._freedom
        of_data, of_errors = (float(np.diag(matrix) @ u**2) / float(u @ u) ** 2 for matrix in (self.K, self.covariance))
        return self._noise / of_errors, of_data

    def observed(self) -> float:
        """Return the squared difference of the data minus its mean under the hypothesis."""
        u, (factor, mean) = self.design.labels, self._drawn
        return float(u @ self.K @ u) / float(u @ u) ** 2 - factor * mean

    def squared(self, Z: Floats) -> Floats:
        """Return the same for residuals in other orders or with other signs, ``(B,)``."""
        moved, size, (factor, mean) = self.design.moved(Z), float(self.design.labels @ self.design.labels), self._drawn
        return np.asarray(factor * (np.einsum("nb,nb->b", moved, self.K @ moved) / size**2 - mean))

    def witness(self) -> Floats:
        """Return the kernel of every object with the difference of mean embeddings, its own unit left out, ``(N,)``."""
        units = self.design.units
        return np.where(units[:, None] == units, 0.0, self.objects) @ self.design.weights()

    def effect(self) -> Effect:
        """Return the squared difference by the residual variance, and its variance by the infinitesimal jackknife."""
        u, freedom = self.design.labels, round(self._freedom)
        size, own = float(u @ u), np.diag(self.K)
        towards = self.K @ u / size
        difference = float(u @ towards) / size
        within = (own.sum() - size * difference) / (self._freedom - 1)
        if within <= 1e-14 * self.scale:
            return Effect(0.0 if difference <= 1e-14 * self.scale else np.inf, np.nan, np.nan, freedom - 1)
        square = difference / within - self._noise
        spread = own - 2 * u * towards + u**2 * difference  # squared residuals of the whole regression
        influence = 2 * (towards - u * difference) * u / size - square * (spread - spread.mean()) / len(u)
        return Effect(square, float(influence @ influence) / within**2, within, freedom - 1)


def adjusted(design: Design, confounds: Any, grams: Iterable[Floats]) -> Design | Regression:
    """Return a design with its confounds, if there are any."""
    if confounds is None:
        return design
    return Regression.of(design, Confounds.read(confounds, len(design.units)), grams)
