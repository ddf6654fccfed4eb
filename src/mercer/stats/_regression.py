"""Two samples with confounds: the difference of mean embeddings in a regression, and permutations of residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.stats._assignments import Design
from mercer.stats._confounds import Confounds, residual
from mercer.stats._discrepancy import Effect
from mercer.stats._input import Indices


@dataclass(frozen=True)
class Regression:
    """Assignments to the first sample, minus what confounds explain of them, and the orders of residuals.

    Parameters
    ----------
    labels : ndarray of shape (U,)
        Residual assignments of objects, or of groups.
    basis : ndarray of shape (U, r)
        Orthonormal basis of the confounds.
    confounds : Confounds
        Those of objects, or of groups.
    units : ndarray of int, shape (N,)
        The unit of every object that is permuted as a whole.
    permuted : str
        What is permuted, for a sentence.
    """

    labels: Floats
    basis: Floats
    confounds: Confounds
    units: Indices
    permuted: str

    @classmethod
    def of(cls, design: Design, confounds: Confounds) -> Self:
        """Return the assignments of a design, given confounds of its objects."""
        if design.crossed:
            confounds, units, what = confounds.within(design.units), np.arange(len(design.units)), "objects"
        else:
            confounds, units, what = confounds.of_groups(design.units), design.units, design.permuted
        first = np.zeros(units.max() + 1)
        first[units] = design.first
        basis = confounds.basis()
        labels = first - basis @ (basis.T @ first)
        if labels @ labels <= 1e-9 * len(first):
            raise ValueError(
                "The confounds tell which sample an object is in, so that no difference is left to test. Use confounds "
                "whose values occur in both samples."
            )
        return cls(labels, basis, confounds, units, confounds.permuted(what))

    @property
    def smaller(self) -> int:
        """The size of the smaller of two samples with the same precision and no confounds."""
        return max(2, round(2 * float(self.labels @ self.labels)))

    def observed(self) -> Floats:
        """Return the order of the data."""
        return np.arange(len(self.labels))

    def count(self) -> int:
        """Return the number of permutations."""
        return self.confounds.orders().count()

    def every(self) -> Floats:
        """Return all orders, ``(U, count)``."""
        return self.confounds.orders().every().T

    def drawn(self, size: int, rng: np.random.Generator) -> Floats:
        """Return random orders, ``(U, size)``."""
        return self.confounds.orders().drawn(size, rng).T

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

    With residual labels u, the difference is :math:`\tau = \sum_i u_i \phi_i / u'u`. Freedman and Lane permute the
    residuals :math:`\phi_i` and fit the whole regression again, so that the variance is that of the permuted data, too.

    Parameters
    ----------
    K : ndarray of shape (U, U)
        Residual Gram matrix.
    objects : ndarray of shape (N, N)
        Gram matrix of the objects.
    design : Regression
        The labels.
    """

    K: Floats
    objects: Floats
    design: Regression

    @classmethod
    def of(cls, K: Floats, design: Regression) -> Self:
        """Return the sums over a Gram matrix; groups are compared by the means of their kernels."""
        counts, units = np.bincount(design.units), K
        if len(counts) < len(K):
            share = (design.units == np.arange(len(counts))[:, None]) / counts[:, None]
            units = share @ K @ share.T
        return cls(residual(units, design.basis), K, design)

    @property
    def scale(self) -> float:
        """Largest absolute value of the kernel, to tell differences from rounding."""
        return float(np.abs(self.objects).max())

    @property
    def spread(self) -> float:
        """Root mean square of the residual kernel of different units."""
        return float(np.sqrt(np.mean(self.K[~np.eye(len(self.K), dtype=bool)] ** 2)))

    @property
    def _freedom(self) -> int:
        return len(self.K) - self.design.basis.shape[1]

    @property
    def _variance(self) -> float:
        return float(np.trace(self.K)) / self._freedom

    def squared(self, Z: Floats) -> Floats:
        """Return the squared effect of residuals in other orders, ``(B,)``, in units of the variance of the data."""
        u, basis = self.design.labels, self.design.basis
        size = u @ u
        moved = u[Z]
        explained = np.einsum("nb,nb->b", moved, self.K @ moved) / size
        total = np.full(Z.shape[1], np.trace(self.K))
        if self.design.confounds.numbers.shape[1]:  # else permutations within strata do not change it
            for column in basis.T:
                moved = column[Z]
                total -= np.einsum("nb,nb->b", moved, self.K @ moved)
        within = (total - explained) / (self._freedom - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self._variance * (explained / within - 1) / size
        noise = within <= 1e-14 * self.scale
        return np.where(noise, np.where(explained <= 1e-14 * self.scale, 0.0, np.finfo(float).max), found)

    def witness(self) -> Floats:
        """Return the kernel of every object with the difference of mean embeddings, its own unit left out, ``(N,)``."""
        units = self.design.units
        return np.where(units[:, None] == units, 0.0, self.objects) @ self.design.weights()

    def effect(self) -> Effect:
        """Return the squared difference by the residual variance, and its variance by the infinitesimal jackknife."""
        u = self.design.labels
        size, own = float(u @ u), np.diag(self.K)
        towards = self.K @ u / size
        difference = float(u @ towards) / size
        within = (own.sum() - size * difference) / (self._freedom - 1)
        if within <= 1e-14 * self.scale:
            return Effect(0.0 if difference <= 1e-14 * self.scale else np.inf, np.nan, np.nan, self._freedom - 1)
        square = (difference - within / size) / within
        spread = own - 2 * u * towards + u**2 * difference  # squared residuals of the whole regression
        influence = 2 * (towards - u * difference) * u / size - square * (spread - spread.mean()) / len(u)
        return Effect(square, float(influence @ influence) / within**2, self._variance, self._freedom - 1)


def adjusted(design: Design, confounds: Any) -> Design | Regression:
    """Return a design with its confounds, if there are any."""
    if confounds is None:
        return design
    return Regression.of(design, Confounds.read(confounds, len(design.units)))
