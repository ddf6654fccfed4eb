"""Gaussian distributions of which the covariance, or the mean, is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, identity, namespace
from mercer._verdict import Verdict
from mercer.families._covariance import covariance_information
from mercer.families._gaps import determinant_gap
from mercer.families.base import Parameter
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import FamilyEstimator
from mercer.families.gaussian import Gaussians
from mercer.families.sets import definite, reals
from mercer.families.special import total
from mercer.families.symmetric import inverse, matrix, triangle


class GaussianMeans(ExponentialFamily):
    r"""A batch of Gaussian distributions of one known covariance: `mercer.JensenShannon` is the RBF kernel of means.

    Parameters
    ----------
    mean : array of shape (..., d)
        Means m.
    covariance : array of shape (d, d)
        The covariance S of all members, positive definite.

    Notes
    -----
    Dual divergence :math:`\tfrac18(m-m')^\top S^{-1}(m-m')` (DJS-4); probability product
    :math:`(2\rho)^{-d/2}|2\pi S|^{(1-2\rho)/2}e^{-\frac\rho4(m-m')^\top S^{-1}(m-m')}` (PPK-3.1).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.GaussianMeans([[0.0], [1.0]], [[0.5]])
    >>> mc.JensenShannon(form="exp", t=1.0)(p).round(4)
    array([[1.    , 0.7788],
           [0.7788, 1.    ]])
    """

    mean = Parameter(reals, moment=True)
    covariance = Parameter(definite, axes=2, known=True)
    labels = ("mean",)
    dual_verdict = Verdict("always", "the divergence is a squared distance: its exponential is the RBF kernel (DJS-5)")

    def natural(self) -> Array:
        return self._solve(self.mean)

    def from_natural(self, theta: Array) -> Array:
        return (self.covariance @ theta[..., None])[..., 0]

    def partition(self, theta: Array) -> Array:
        return total(theta * self.from_natural(theta)) / 2

    def base(self, x: Array) -> Array:
        return -(total(x * self._solve(x)) + self._log_volume()) / 2

    def legendre(self, mu: Array) -> Array:
        return total(mu * self._solve(mu)) / 2

    def information(self) -> Array:
        return self.covariance

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        root = np.linalg.cholesky(self.covariance)
        return self.mean + (root @ rng.standard_normal((*shape, self.dimension, 1)))[..., 0]

    def predictive(self, count: Any) -> Gaussians:
        return Gaussians(self.mean, self.covariance * (1 + 1 / count[..., None]))

    # -- digits: squared distances of means ------------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        gap = x - self.mean
        return -(total(gap * self._solve(gap)) + self._log_volume()) / 2

    def product(self, other: Any, rho: float) -> Array:
        ends = (1 - 2 * rho) / 2 * self._log_volume() - self.dimension / 2 * math.log(2 * rho)
        return ends - rho / 4 * self._squared(other)

    def divergence(self, other: Any) -> Array:
        return self._squared(other) / 8

    def relative_entropy(self, other: Any) -> Array:
        return self._squared(other) / 2

    def _squared(self, other: Any) -> Array:
        """Squared distances of means in units of the covariance, which is one for all pairs."""
        xp, d = namespace(self.mean), self.dimension
        known = xp.reshape(self.covariance, (-1, d, d))
        root = xp.linalg.cholesky(known[0, ...] if known.shape[0] else identity(self.mean, d))
        gap = (self.mean - other.mean) @ xp.matrix_transpose(xp.linalg.inv(root))
        return total(gap * gap)

    def _solve(self, x: Array) -> Array:
        return namespace(x).linalg.solve(self.covariance, x[..., None])[..., 0]

    def _log_volume(self) -> Array:
        return namespace(self.mean).linalg.slogdet(self.covariance)[1] + self.dimension * math.log(2 * math.pi)


class GaussianCovariances(ExponentialFamily):
    r"""A batch of Gaussian distributions of one known mean.

    Parameters
    ----------
    covariance : array of shape (..., d, d)
        Covariances S, positive definite.
    mean : float or array of shape (d,)
        The mean of all members.

    Notes
    -----
    Dual divergence :math:`\tfrac12\log|\tfrac12(S+S')|-\tfrac14\log|S|-\tfrac14\log|S'|` (DJS-4), which is minus the
    log of the probability product at :math:`\rho=\tfrac12` of the distributions with the inverse covariances.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.GaussianCovariances([[[1.0]], [[4.0]]], mean=0.0)
    >>> p.dual_divergence(p).round(4)
    array([[0.    , 0.1116],
           [0.1116, 0.    ]])
    """

    covariance = Parameter(definite, axes=2)
    mean = Parameter(reals, known=True)
    labels = ("negative_half_precision",)
    structure = "full"

    def natural(self) -> Array:
        return triangle(-namespace(self.covariance).linalg.inv(self.covariance) / 2)

    def from_natural(self, theta: Array) -> Array:
        return inverse(-2 * matrix(theta))

    def partition(self, theta: Array) -> Array:  # with the constant: there is no base measure, and every rho is free
        d = self.dimension
        return d / 2 * math.log(math.pi) - namespace(theta).linalg.slogdet(-matrix(theta))[1] / 2

    def statistic(self, x: Array) -> Array:
        gap = x - self.mean
        return triangle(gap[..., :, None] * gap[..., None, :])

    def inward(self, t: Array, floor: float) -> Array:
        return t + floor * triangle(identity(t, self.dimension))

    def moments(self) -> Array:
        return triangle(self.covariance)

    def from_moments(self, mu: Array) -> Array:
        return matrix(mu)

    def legendre(self, mu: Array) -> Array:
        return -namespace(mu).linalg.slogdet(matrix(mu))[1] / 2

    def information(self) -> Array:
        return 4 * covariance_information(self.covariance)

    def dual_divergence(self, other: Any) -> Array:
        """Return half of log|M| - log|S|/2 - log|S'|/2, M the mean of both, without cancellation."""
        value = super().dual_divergence(other)
        return determinant_gap(self.covariance, other.covariance, 2 * value) / 2 + 0.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        root = np.linalg.cholesky(self.covariance)
        return self.mean + (root @ rng.standard_normal((*shape, self.dimension, 1)))[..., 0]

    dual_psd = Gaussians.dual_psd


class GaussianMean(FamilyEstimator, of=GaussianMeans):
    """Fit Gaussian distributions of a known covariance, one to every sample (a set of points) or one to all.

    Parameters
    ----------
    covariance : float, array of shape (d, d) or None, default=None
        The covariance of all members; a number is that of every coordinate, and None is 1.
    estimate : {"point", "predictive"}, default="point"
        The member at the MAP estimate, or the predictive distribution: the average of the members over the posterior
        (PPK-2a), which needs a prior.
    prior : None, "pooled" or GaussianMeans of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : GaussianMeans of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.GaussianMean(covariance=0.5).fit_each([[[0.0], [2.0]], [[5.0]]]).mean
    array([[1.],
           [5.]])
    """

    covariance: Any = None


class GaussianCovariance(FamilyEstimator, of=GaussianCovariances):
    """Fit Gaussian distributions of a known mean, one to every sample (a set of points) or one to all.

    Parameters
    ----------
    mean : float, array of shape (d,) or None, default=None
        The mean of all members; None is 0.
    floor : float, default=1e-3
        Added to the variances, so that one point, or equal points, have a distribution too.
    prior : None, "pooled" or GaussianCovariances of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : GaussianCovariances of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> sets = [[[1.0], [3.0]], [[2.0]]]
    >>> mc.families.GaussianCovariance(floor=0.0).fit_each(sets).covariance
    array([[[5.]],
    <BLANKLINE>
           [[4.]]])
    """

    mean: Any = None
