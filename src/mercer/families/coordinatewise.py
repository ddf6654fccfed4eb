"""Families of vectors with independent coordinates: a subclass writes the formulas of one coordinate.

`Coordinatewise` is the base of a batch (the plural), `CoordinatewiseEstimator` that of its estimator (the singular).
Both are public: a family outside of this library inherits them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, to_numpy
from mercer._checks import check_rho
from mercer._random import random_generator, whole_size
from mercer.data.segments import segments
from mercer.families.base import ExponentialFamily, FamilyEstimator, observed_scores
from mercer.families.domains import DOMAINS, LARGEST, check_summable
from mercer.families.estimator import Context

TOGETHER = 65_536
"""Number of terms, of pairs and coordinates, that are computed in one array."""
Term = Callable[..., Array]
"""A formula of one coordinate, written for arrays of any shape that broadcast."""


class Coordinatewise(ExponentialFamily):
    r"""An exponential family of vectors with independent coordinates, each with one parameter and one statistic.

    A subclass declares its parameter in ``_arrays``, and ``domain``, and writes formulas of *one* coordinate, for
    arrays of any shape.

    ================================  ==============================================================================
    ``term_natural(parameter)``       natural parameter :math:`\theta`
    ``term_partition(theta)``         log partition function :math:`K(\theta)`
    ``term_mean(parameter)``          mean parameter :math:`\mu`, the expectation of the statistic
    ``term_from_mean(mu)``            parameter of the distribution with this mean parameter
    ``term_dual(mu)``                 Legendre dual :math:`F(\mu)`
    ``term_variance(parameter)``      variance of the statistic
    ``term_sample(rng, parameter)``   one draw for each entry of an array of parameters
    ``term_statistics(x)``            optional, sufficient statistic; x by default
    ``term_log_base(x)``              optional, log base measure; 0 by default
    ``term_log_prob(x, parameter)``   optional, log density, where the generic formula would lose digits
    ``term_product(p, q, rho)``       optional, log of the integral of :math:`p^\rho q^\rho`; else rho = 1/2 only
    ``term_divergence(p, q)``         optional, dual Jensen-Shannon divergence without cancellation
    ``term_kl(p, q)``                 optional, Kullback-Leibler divergence, where theta can be infinite
    ================================  ==============================================================================

    In the last three, the parameters of p and of q broadcast to all pairs. A family with a closed form of
    :math:`E\,e^{-\gamma(x-y)^2}` writes ``log_mean_map(other, gamma)`` with `_coordinates`.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0, 4.0]])
    >>> isinstance(p, mc.families.Coordinatewise)
    True
    >>> p.statistics([[3.0, 2.0]])
    array([[3., 2.]])
    """

    domain: ClassVar[str] = "real"
    """Values of a coordinate: "real", "nonnegative", "counts" or "binary"."""
    tile_hint = 192

    score_label: ClassVar[str] = "parameter"
    """Name of the natural parameter of a coordinate, for `score_names`."""

    _estimator: ClassVar[type[CoordinatewiseEstimator] | None] = None

    term_natural: Term
    term_partition: Term
    term_mean: Term
    term_from_mean: Term
    term_dual: Term
    term_variance: Term
    term_sample: Callable[..., Floats]
    term_log_prob: Term | None = None
    term_product: Term | None = None
    term_divergence: Term | None = None
    term_kl: Term | None = None

    @property
    def _parameter(self) -> Array:
        (name,) = self._arrays
        return getattr(self, name)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self._parameter.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        return self.dimension

    def log_prob(self, x: Any) -> Array:
        """Log density or log probability of every point; missing coordinates (NaN) are marginalized.

        ``(*B, n) x (*B, T, d) -> (*B, n, T)``.
        """
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            point, parameter = x[..., None, :, i], single._parameter[..., :, None, i]
            xp = namespace(point, parameter)
            seen = ~xp.isnan(point)
            term = self._log_prob_term(xp.where(seen, point, xp.zeros_like(point)), parameter)
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        DOMAINS[self.domain](x, type(self).__name__)

    def _coordinates(self, other: Self, term: Term, crossed: bool = True) -> Array:
        """Sum ``term(parameter of self, parameter of other)`` over coordinates, ``(*B, n, m)``.

        Parameters arrive as planes, ``(*B, n, 1)`` and ``(*B, 1, m)``, or as ``(*B, n)`` and ``(*B, m)`` where the term
        crosses them itself (``crossed=False``).
        """
        self._check_pair(other)
        p, q = self._parameter, other._parameter
        if not crossed:
            return sum(term(p[..., i], q[..., i]) for i in range(self.dimension))
        # Few pairs have the terms of several coordinates at once, which are then added one after the other: the same
        # bits for any number of pairs.
        step, xp, value = max(1, TOGETHER // max(1, len(self) * len(other))), namespace(p), 0.0
        for i in range(0, self.dimension, step):
            part = slice(i, min(i + step, self.dimension))
            terms = term(xp.moveaxis(p[..., :, None, part], -1, 0), xp.moveaxis(q[..., None, :, part], -1, 0))
            for k in range(terms.shape[0]):
                value = value + terms[k, ...]
        return value

    def term_statistics(self, x: Array) -> Array:
        """Sufficient statistic of one coordinate."""
        return x

    def term_log_base(self, x: Array) -> Array:
        """Log base measure of one coordinate."""
        return namespace(x).zeros_like(x)

    def _log_prob_term(self, x: Array, parameter: Array) -> Array:
        """Log density of one coordinate, by the formula of exponential families unless there is ``term_log_prob``."""
        if self.term_log_prob is not None:
            return self.term_log_prob(x, parameter)
        theta = self.term_natural(parameter)
        return self.term_log_base(x) + theta * self.term_statistics(x) - self.term_partition(theta)

    def estimator(self) -> Any:
        """Return the estimator whose ``family`` this is."""
        return super().estimator() if self._estimator is None else self._estimator()

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        shape = (*self.shape, whole_size(size), self.dimension)
        parameter = np.broadcast_to(to_numpy(self._parameter)[..., None, :], shape)
        return np.asarray(self.term_sample(random_generator(random_state), parameter), dtype=float)

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Sufficient statistics, ``(..., T, d) -> (..., T, d)``."""
        return self.term_statistics(as_float(x))

    def log_base(self, x: Array) -> Array:
        """Log base measure, ``(..., T, d) -> (..., T)``."""
        terms = self.term_log_base(as_float(x))
        return namespace(terms).sum(terms, axis=-1)

    @property
    def natural_parameters(self) -> Array:
        """Natural parameters theta, ``(*B, d)``."""
        return self.term_natural(self._parameter)

    def log_partition(self, theta: Array) -> Array:
        """Log partition function, ``(..., d) -> (...)``."""
        return namespace(theta).sum(self.term_partition(theta), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Mean parameters mu = E[statistics], ``(*B, d)``."""
        return self.term_mean(self._parameter)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean parameters, ``(..., d)`` -> batch of shape ``(...)``."""
        return self._make(**dict.fromkeys(self._arrays, frozen(self.term_from_mean(mu))))

    def dual(self, mu: Array) -> Array:
        """Legendre dual of the log partition, ``(..., d) -> (...)`` (DJS-4)."""
        return namespace(mu).sum(self.term_dual(mu), axis=-1)

    # -- pairs -----------------------------------------------------------------------------------------

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho of every pair, ``(*B, n, m)`` (PPK-1)."""
        check_rho(rho)
        term = self.term_product
        if term is None:
            return super().log_product(other, rho)
        return self._coordinates(other, lambda p, q: term(p, q, rho=float(rho)))

    @property
    def _least_divergence(self) -> float:  # type: ignore[override]
        return 1e-14 if self.term_divergence is None else 1e-24

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence of every pair, ``(*B, n, m)`` (DJS-2)."""
        if self.term_divergence is None:
            return super().dual_divergence(other)
        return self._coordinates(other, self.term_divergence)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence KL(p || q) of every pair, ``(*B, n, m)``; +inf where q excludes what p allows."""
        return super().kl(other) if self.term_kl is None else self._coordinates(other, self.term_kl)

    # -- Fisher ----------------------------------------------------------------------------------------

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the natural parameters: statistics minus their means, ``(*B, n, T, d)``; 0 where NaN (FK-3)."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"{self.score_label}[{i}]" for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Information of the natural parameters, ``(*B, d, d)``: the variances of the statistics on the diagonal."""
        return self.term_variance(self._parameter)[..., :, None] * identity(self._parameter, self.dimension)


class CoordinatewiseEstimator(FamilyEstimator):
    """Fit a `Coordinatewise` family by moments. A subclass names its ``family``, the plural.

    Examples
    --------
    >>> import mercer as mc
    >>> estimator = mc.families.Exponential()
    >>> (
    ...     isinstance(estimator, mc.families.CoordinatewiseEstimator),
    ...     estimator.family.__name__,
    ... )
    (True, 'Exponentials')
    """

    family: ClassVar[type[Coordinatewise]]
    largest: ClassVar[float] = LARGEST
    """Data beyond this are refused."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "family" in vars(cls) and "_estimator" not in vars(cls.family):
            cls.family._estimator = cls

    def template(self, context: Context) -> Any:
        """Return a member of the family of shape ``()``."""
        return self.family._make(**dict.fromkeys(self.family._arrays, np.full(context.dimension, 0.5)))

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` with values in the domain of the family."""
        self._check_parameters()
        X = self._converted(super().accept(X, **options))
        x, who = segments(X)[0], type(self).__name__
        DOMAINS[self.family.domain](x, who, X)
        check_summable(x, who, X, self.largest)
        return X

    def _converted(self, X: Any) -> Any:
        """Move data into the domain, if a parameter requests it."""
        return X

    def _missing_allowed(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.family.domain in ("nonnegative", "counts")
        return tags
