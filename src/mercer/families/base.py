"""Base classes of families of distributions, and what exponential families inherit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from mercer._array import Array, Floats, cross_shape, namespace
from mercer._batch import Batch
from mercer._checks import check_rho
from mercer._coupling import Coupling, Leaf, Operand
from mercer._verdict import Verdict
from mercer.data.segments import check_coordinates, in_digest_order, segment_sum, segments
from mercer.families.estimator import Context, Estimator


class Family(Batch):
    """A batch of distributions of one family. Capabilities are optional methods with one shape rule.

    Leading batch axes align and the last axis of each side crosses, as in ``matmul``:
    ``(*B, n) x (*B, m) -> (*B, n, m)``.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0], [9.0]])
    >>> isinstance(p, mc.families.Family), p.shape, p.log_product(p[:2]).shape
    (True, (3,), (3, 2))
    """

    tile_hint: int = 256

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare this batch for a coupling; ``lengths`` is ignored, since families are not models of sequences."""
        return Leaf(self, coupling)

    def estimator(self) -> Any:
        """Return the singular of this plural: the estimator that knows what its data look like."""
        raise NotImplementedError(f"{type(self).__name__} must implement estimator()")

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        raise NotImplementedError(f"{type(self).__name__} must implement n_parameters")

    def _check_pair(self, other: Any) -> None:
        if not isinstance(other, Batch):
            raise TypeError(f"Expected {type(self).__name__} on the other side; got {type(other).__name__}.")
        self._check_alike(other)
        cross_shape(self.shape, other.shape)

    def _crossable(self, x: Array) -> tuple[Self, Array]:
        return (self if self.shape else self.reshape(1)), x

    def _checked_points(self, x: Array) -> Array:
        """Return points of ``dimension`` coordinates unchanged, or raise if shape or values are wrong."""
        d = int(self.dimension)  # type: ignore[attr-defined]
        if len(x.shape) < 2 or x.shape[-1] != d:
            raise ValueError(f"Points must have shape (T, {d}), one row per point; got {tuple(x.shape)}.")
        self._check_values(x)
        return x

    def _check_values(self, x: Array) -> None:
        """Raise if a point lies outside the support; real vectors are not checked."""


class ExponentialFamily(Family):
    """A family p(x) = exp(log_base(x) + <theta, statistics(x)> - log_partition(theta)).

    A subclass writes `statistics`, `log_base`, `natural_parameters`, `log_partition`, `mean_parameters`,
    `with_mean_parameters` and `dual`. It gets `log_prob`, `kl`, `log_product` at rho = 1/2, `dual_divergence`,
    `fisher_scores` and `pooled` from them, and may replace any by a faster or more general closed form.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0]])
    >>> p.natural_parameters.round(4)
    array([[0.    ],
           [1.3863]])
    >>> p.mean_parameters
    array([[1.],
           [4.]])
    """

    # -- methods of subclasses -------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Sufficient statistics, ``(..., T, *event) -> (..., T, D)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement statistics(x)")

    def log_base(self, x: Array) -> Array:
        """Log base measure, ``(..., T, *event) -> (..., T)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement log_base(x)")

    @property
    def natural_parameters(self) -> Array:
        """Natural parameters theta, ``(*B, D)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement natural_parameters")

    def log_partition(self, theta: Array) -> Array:
        """Log partition function, ``(..., D) -> (...)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement log_partition(theta)")

    @property
    def mean_parameters(self) -> Array:
        """Mean parameters mu = E[statistics], ``(*B, D)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement mean_parameters")

    def dual(self, mu: Array) -> Array:
        """Legendre dual of the log partition, with its boundary values (DJS-4), ``(..., D) -> (...)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement dual(mu)")

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return members of this family with other mean parameters, ``(..., D)`` -> batch of shape ``(...)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement with_mean_parameters(mu)")

    dual_verdict: ClassVar[Verdict | None] = None
    """What `dual_psd` says, where it is the same for every form and t."""

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Whether JensenShannon of this family is positive semi-definite (DJS-5)."""
        return self.dual_verdict or Verdict(
            "conditional",
            f"it is not known when the dual divergence of {type(self).__name__} is conditionally negative "
            "definite (DJS-5)",
        )

    # -- derived methods -------------------------------------------------------------------------------

    def log_prob(self, x: Array) -> Array:
        """Log density or log probability of every point, ``(*B, n) x (*B, T, *event) -> (*B, n, T)``."""
        single, x = self._crossable(x)
        xp = namespace(x, single.natural_parameters)
        theta = single.natural_parameters
        value = theta @ xp.matrix_transpose(single.statistics(x))
        value = value + single.log_base(x)[..., None, :] - single.log_partition(theta)[..., :, None]
        return value if self.shape else value[..., 0, :]

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence KL(p || q) of every pair, ``(*B, n, m)`` (DJS-1)."""
        self._check_pair(other)
        theta, mu, phi = self.natural_parameters, self.mean_parameters, other.natural_parameters
        xp = namespace(mu, phi)
        own = xp.sum(theta * mu, axis=-1) - self.log_partition(theta)
        return own[..., :, None] - mu @ xp.matrix_transpose(phi) + other.log_partition(phi)[..., None, :]

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho, for rho = 1/2 (PPK-3.0).

        K((theta + theta')/2) - K(theta)/2 - K(theta')/2, for any exponential family.
        """
        check_rho(rho)
        self._check_pair(other)
        if rho != 0.5:
            raise ValueError(
                f"{type(self).__name__} has a probability product at rho = 0.5 only (the generic formula of "
                f"exponential families); got rho = {rho}."
            )
        theta, phi = self.natural_parameters, other.natural_parameters
        middle = (theta[..., :, None, :] + phi[..., None, :, :]) / 2
        ends = self.log_partition(theta)[..., :, None] + other.log_partition(phi)[..., None, :]
        return self.log_partition(middle) - ends / 2

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence of every pair (DJS-2): (F(mu) + F(mu'))/2 - F((mu + mu')/2)."""
        self._check_pair(other)
        mu, nu = self.mean_parameters, other.mean_parameters
        middle = (mu[..., :, None, :] + nu[..., None, :, :]) / 2
        ends = self.dual(mu)[..., :, None] + other.dual(nu)[..., None, :]
        return ends / 2 - self.dual(middle)

    _least_divergence: float = 1e-14
    """Dual divergences below this are rounding: of differences, here, and much less where a formula does not cancel."""

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"parameter[{i}]" for i in range(int(self.natural_parameters.shape[-1]))]

    def fisher_scores(self, x: Array) -> Array:
        """Gradient of the log density in the parameters at every point, ``(*B, n, T, P)`` (FK-3).

        Here in natural parameters; families whose usual parametrization is another (FK-0) replace it.
        """
        single, x = self._crossable(x)
        mu = single.mean_parameters
        value = single.statistics(x)[..., None, :, :] - mu[..., :, None, :]
        return value if self.shape else value[..., 0, :, :]

    def pooled(self) -> Self:
        """Return the member with the average mean parameters, as a batch of shape ``(1,)``."""
        self._require_members()
        mu = self.mean_parameters
        return self.with_mean_parameters(namespace(mu).mean(mu, axis=0, keepdims=True))

    def _require_members(self) -> None:
        if 0 in self.shape:
            raise ValueError(f"This batch of {type(self).__name__} is empty; there is nothing to pool.")

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        return int(self.natural_parameters.shape[-1])

    def sample(self, size: int = 1, random_state: Any = None) -> np.ndarray[Any, Any]:
        """Draw ``size`` points from every member, ``(*B, size, *event)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement sample(size, random_state)")


def observed_scores(scores: Array) -> Array:
    """Set the scores of missing coordinates (NaN) to zero."""
    xp = namespace(scores)
    return xp.where(xp.isnan(scores), xp.zeros_like(scores), scores)


class FamilyEstimator(Estimator):
    """An exponential family fitted by moments: maximum likelihood, or conjugate MAP with a prior (DJS-6).

    mu = (n0 mu0 + sum of statistics) / (n0 + n), with n0 = ``prior_strength`` and mu0 the mean parameters of the prior:
    the posterior mean of mu, and the MAP of theta, under the conjugate prior. A subclass writes `template`.

    Examples
    --------
    >>> import mercer as mc
    >>> estimator = mc.Poisson(prior="pooled", prior_strength=1.0)
    >>> isinstance(estimator, mc.families.FamilyEstimator)
    True
    >>> estimator.fit_each([[3, 0], [1, 2]]).mean_parameters
    array([[2.5, 0.5],
           [1.5, 1.5]])
    """

    quick_scores: ClassVar[bool] = True

    def __init__(self, prior: Any = None, prior_strength: float = 1.0) -> None:
        self.prior = prior
        self.prior_strength = prior_strength

    def template(self, context: Context) -> Any:
        """Return any member of the family, of shape ``()``: it knows statistics and how to make members from means."""
        raise NotImplementedError(f"{type(self).__name__} must implement template(context)")

    def statistics(self, x: Any, context: Context) -> Floats:
        """Sufficient statistics of points, ``(T, D)``; NaN where missing."""
        return np.asarray(self.template(context).statistics(x))

    def from_mean(self, mu: Floats, context: Context) -> Any:
        """Turn mean parameters ``(..., D)`` into a batch of shape ``(...)``."""
        return self.template(context).with_mean_parameters(mu)

    def _check_data(self, X: Any, offsets: Floats) -> None:
        """Raise, too, if a coordinate was never observed in a sample and there is no prior."""
        super()._check_data(X, offsets)
        if self.prior is None and self._missing_allowed():
            check_coordinates(X, offsets)

    def _prior_mean(self, context: Context) -> Floats:
        prior = self._suited(self._prior_batch(context), self.template(context))
        return np.asarray(prior.mean_parameters)

    def context(self, X: Any) -> Context:
        """Learn the dimension and the pooled model."""
        x, _ = segments(in_digest_order(X))
        bare = Context(dimension=x.shape[1])
        return self._with_pooled(x, bare)

    def _with_pooled(self, x: Any, context: Context) -> Context:
        """Add the model of all points, fitted without a prior; where a prior is asked for, it is needed."""
        if not isinstance(self.prior, str):
            return context
        unseen = np.flatnonzero(np.isnan(x).all(axis=0))
        if len(x) and len(unseen):
            raise ValueError(
                f"Column {int(unseen[0])} is missing (NaN) in every sample, so prior='pooled' cannot be estimated for "
                "it. Leave the column out, or pass a batch of shape (1,) as the prior."
            )
        alone = clone(self).set_params(prior=None)
        return replace(context, pooled=alone._fit_alone(x, np.array([0, x.shape[0]]), context))

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Any:
        """Fit to weighted data by moments."""
        statistics = self.statistics(x, context)
        found = [moments(statistics, weights[:, j : j + 1], offsets) for j in range(weights.shape[1])]
        total, mass = (np.stack(columns, axis=1) for columns in zip(*found, strict=True))
        mu0 = None if self.prior is None else self._prior_mean(context)[0]
        begin = None if start is None else np.asarray(start.mean_parameters)
        return self.from_mean(self._shrink(total, mass, mu0, begin), context)

    def _shrink(self, total: Floats, mass: Floats, mu0: Floats | None, start: Floats | None) -> Floats:
        """Divide sums of statistics by their mass, shrunk to the mean parameters ``mu0`` of the prior."""
        if mu0 is not None:
            total = total + self.prior_strength * mu0
            mass = mass + self.prior_strength
        nobody = mass <= 0
        mu = total / np.where(nobody, 1.0, mass)
        if np.any(nobody):
            # An unvisited component keeps its value, and a sample without points gets the prior; without a prior, an
            # unobserved coordinate has no estimate.
            known = start if start is not None else mu0
            if known is None:
                raise ValueError(
                    "A coordinate is missing (NaN) in all points of a sample. Use prior='pooled', or leave the sample "
                    "out."
                )
            mu = np.where(nobody, known, mu)
        return mu


def moments(statistics: Floats, weights: Floats, offsets: Floats) -> tuple[Floats, Floats]:
    """Weighted sums of statistics ``(T, D)`` over every sample, and the weight in them; NaN is left out."""
    seen = ~np.isnan(statistics)
    if seen.all():
        return segment_sum(weights * statistics, offsets), segment_sum(weights, offsets)
    filled = np.where(seen, statistics, 0.0)
    return segment_sum(weights * filled, offsets), segment_sum(weights * seen, offsets)
