"""Families of vectors with independent coordinates: a subclass writes the formulas of one coordinate.

`Coordinatewise` is the base of a batch (the plural), `CoordinatewiseEstimator` that of its estimator (the singular).
Both are public: a family outside of this library inherits them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, as_float, frozen, identity, namespace
from mercer.data.segments import segments
from mercer.families.base import ExponentialFamily, FamilyEstimator, observed_scores
from mercer.families.domains import DOMAINS, LARGEST, check_summable
from mercer.families.estimator import Context

TOGETHER = 65_536
"""Number of terms, of pairs and coordinates, that are computed in one array."""
Term = Callable[..., Array]
"""A formula of one coordinate, written for arrays of any shape that broadcast."""


class Coordinatewise(ExponentialFamily):
    r"""An exponential family of vectors with independent coordinates.

    A subclass declares ``_arrays`` and ``domain`` and writes formulas of *one* coordinate, for arrays of any shape.
    ``*parameters`` are its parameter arrays in the order of ``_arrays``; where a coordinate has several statistics,
    a formula returns a tuple of them.

    =================================  =============================================================================
    ``term_natural(*parameters)``      natural parameters :math:`\theta`
    ``term_partition(*theta)``         log partition function :math:`K(\theta)`
    ``term_mean(*parameters)``         mean parameters :math:`\mu`, expectations of the statistics
    ``term_from_mean(*mu)``            parameters of the distribution with these mean parameters
    ``term_dual(*mu)``                 Legendre dual :math:`F(\mu)`
    ``term_variance(*parameters)``     variance of the statistic; rows of the covariance matrix where there are several
    ``term_statistics(x)``             optional, sufficient statistics; x by default
    ``term_log_base(x)``               optional, log base measure; 0 by default
    ``term_log_prob(x, *parameters)``  optional, log density, where the generic formula would lose digits
    ``term_product(*p, *q, rho)``      optional, log of the integral of :math:`p^\rho q^\rho`; else rho = 1/2 only
    ``term_divergence(*p, *q)``        optional, dual Jensen-Shannon divergence without cancellation
    ``term_kl(*p, *q)``                optional, Kullback-Leibler divergence, where theta can be infinite
    =================================  =============================================================================

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
    """Values of a coordinate: "real", "nonnegative", "positive", "counts" or "binary"."""
    tile_hint = 192

    score_labels: ClassVar[tuple[str, ...]] = ()
    """Names of the natural parameters of a coordinate, for `score_names`."""

    _estimator: ClassVar[type[CoordinatewiseEstimator] | None] = None

    term_natural: Term
    term_partition: Term
    term_mean: Term
    term_from_mean: Term
    term_dual: Term
    term_variance: Term
    term_log_prob: Term | None = None
    term_product: Term | None = None
    term_divergence: Term | None = None
    term_kl: Term | None = None

    def _freeze_alike(self, **parameters: Array) -> None:
        """Store checked parameters, or raise if their shapes differ."""
        (first, a), *others = parameters.items()
        for name, b in others:
            if tuple(a.shape) != tuple(b.shape):
                raise ValueError(
                    f"{first} and {name} must have the same shape; got {tuple(a.shape)} and {tuple(b.shape)}."
                )
        self._freeze(**parameters)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self._parameter_arrays[0].shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        return len(self._arrays) * self.dimension

    @property
    def _parameter_arrays(self) -> tuple[Array, ...]:
        return tuple(getattr(self, name) for name in self._arrays)

    def log_prob(self, x: Any) -> Array:
        """Log density or log probability of every point; missing coordinates (NaN) are marginalized.

        ``(*B, n) x (*B, T, d) -> (*B, n, T)``.
        """
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            point = x[..., None, :, i]
            parameters = [p[..., :, None, i] for p in single._parameter_arrays]
            xp = namespace(point, *parameters)
            seen = ~xp.isnan(point)
            term = self._log_prob_term(xp.where(seen, point, DOMAINS[self.domain].inside), *parameters)
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        DOMAINS[self.domain].check(x, type(self).__name__)

    def _coordinates(self, other: Self, term: Term, crossed: bool = True) -> Array:
        """Sum ``term(*parameters of self, *parameters of other)`` over coordinates, ``(*B, n, m)``.

        Parameters arrive as planes, ``(*B, n, 1)`` and ``(*B, 1, m)``, or as ``(*B, n)`` and ``(*B, m)`` where the term
        crosses them itself (``crossed=False``).
        """
        self._check_pair(other)
        value: Any = 0.0
        if not crossed:
            for i in range(self.dimension):
                value = value + term(*(p[..., i] for p in (*self._parameter_arrays, *other._parameter_arrays)))
            return value
        # Few pairs have the terms of several coordinates at once, which are then added one after the other: the same
        # bits for any number of pairs.
        step = max(1, TOGETHER // max(1, len(self) * len(other)))
        xp = namespace(*self._parameter_arrays)
        for i in range(0, self.dimension, step):
            part = slice(i, min(i + step, self.dimension))
            own = (xp.moveaxis(p[..., :, None, part], -1, 0) for p in self._parameter_arrays)
            theirs = (xp.moveaxis(q[..., None, :, part], -1, 0) for q in other._parameter_arrays)
            terms = term(*own, *theirs)
            for k in range(terms.shape[0]):
                value = value + terms[k, ...]
        return value

    def term_statistics(self, x: Array) -> Any:
        """Sufficient statistics of one coordinate."""
        return x

    def term_log_base(self, x: Array) -> Array:
        """Log base measure of one coordinate."""
        return namespace(x).zeros_like(x)

    def _log_prob_term(self, x: Array, *parameters: Array) -> Array:
        """Log density of one coordinate, by the formula of exponential families unless there is ``term_log_prob``."""
        if self.term_log_prob is not None:
            return self.term_log_prob(x, *parameters)
        theta = _tuple(self.term_natural(*parameters))
        inner: Any = sum(t * s for t, s in zip(theta, _tuple(self.term_statistics(x)), strict=True))
        return self.term_log_base(x) + inner - self.term_partition(*theta)

    def estimator(self) -> Any:
        """Return the estimator whose ``family`` this is."""
        return super().estimator() if self._estimator is None else self._estimator()

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Sufficient statistics, ``(..., T, d) -> (..., T, D)``: of all coordinates, one statistic after the other."""
        return _joined(self.term_statistics(as_float(x)))

    def log_base(self, x: Array) -> Array:
        """Log base measure, ``(..., T, d) -> (..., T)``."""
        terms = self.term_log_base(as_float(x))
        return namespace(terms).sum(terms, axis=-1)

    @property
    def natural_parameters(self) -> Array:
        """Natural parameters theta, ``(*B, D)``."""
        return _joined(self.term_natural(*self._parameter_arrays))

    def log_partition(self, theta: Array) -> Array:
        """Log partition function, ``(..., D) -> (...)``."""
        return namespace(theta).sum(self.term_partition(*self._split(theta)), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Mean parameters mu = E[statistics], ``(*B, D)``."""
        return _joined(self.term_mean(*self._parameter_arrays))

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean parameters, ``(..., D)`` -> batch of shape ``(...)``."""
        parameters = _tuple(self.term_from_mean(*self._split(mu)))
        return self._make(**{name: frozen(p) for name, p in zip(self._arrays, parameters, strict=True)})

    def dual(self, mu: Array) -> Array:
        """Legendre dual of the log partition, ``(..., D) -> (...)`` (DJS-4)."""
        return namespace(mu).sum(self.term_dual(*self._split(mu)), axis=-1)

    def _split(self, flat: Array) -> list[Array]:
        """Split ``(..., D)`` into the statistics of a coordinate, each ``(..., d)``."""
        d = self.dimension
        return [flat[..., i : i + d] for i in range(0, int(flat.shape[-1]), d)]

    # -- pairs -----------------------------------------------------------------------------------------

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho of every pair, ``(*B, n, m)`` (PPK-1)."""
        self._check_products(other, rho)
        term = self.term_product
        if term is None:
            return super().log_product(other, rho)
        return self._coordinates(other, lambda *pair: term(*pair, rho=float(rho)))

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
        """Scores of the natural parameters: statistics minus their means, ``(*B, n, T, D)``; 0 where NaN (FK-3)."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        names = [f"{label}[{i}]" for label in self.score_labels for i in range(self.dimension)]
        return names or super().score_names()

    def fisher_information(self) -> Array:
        """Information of the natural parameters, ``(*B, D, D)``: a diagonal block for every pair of statistics."""
        variance = self.term_variance(*self._parameter_arrays)
        rows = variance if isinstance(variance, tuple) else ((variance,),)
        eye = identity(self._parameter_arrays[0], self.dimension)
        blocks = [_joined(tuple(entry[..., :, None] * eye for entry in row)) for row in rows]
        return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=-2)


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
        DOMAINS[self.family.domain].check(x, who, X)
        check_summable(x, who, X, self.largest)
        return X

    def _converted(self, X: Any) -> Any:
        """Move data into the domain, if a parameter requests it."""
        return X

    def _missing_allowed(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = DOMAINS[self.family.domain].nonnegative
        return tags


def _tuple(terms: Any) -> tuple[Array, ...]:
    return terms if isinstance(terms, tuple) else (terms,)


def _joined(terms: Any) -> Array:
    """Concatenate the statistics of all coordinates, ``(..., d)`` each."""
    return namespace(terms[0]).concat(list(terms), axis=-1) if isinstance(terms, tuple) else terms
