"""Products of gamma distributions: vectors of independent positive numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, to_numpy
from mercer._checks import check_rho, checked_positive
from mercer._coupling import Coupling, Operand, PowerProduct
from mercer._parameters import NONE, Rules, nonnegative, positive
from mercer._random import random_generator, whole_size
from mercer._special import digamma, gammaln, trigamma
from mercer._verdict import Verdict
from mercer.data.segments import mapped, point_name, segments
from mercer.families._gamma_functions import (
    HALF_LOG_TWO_PI,
    binet,
    gamma_dual,
    gap,
    shape_divergence,
    solve_shape,
)
from mercer.families._gaps import excess, log_mean_gap, ordered
from mercer.families.base import ExponentialFamily, FamilyEstimator, observed_scores
from mercer.families.domains import check_nonnegative, check_summable
from mercer.families.estimator import Context
from mercer.families.exponential import SMALLEST


class Gammas(ExponentialFamily):
    r"""A batch of products of d independent gamma distributions.

    Parameters
    ----------
    concentration : array of shape (..., d)
        Shapes a, positive. (``shape`` is the shape of a batch.)
    scale : array of shape (..., d)
        Scales b, positive: the mean is ab.

    Notes
    -----
    Density :math:`x^{a-1}e^{-x/b}/(\Gamma(a)b^a)`. Probability product (PPK-3.4), with
    :math:`\tilde a=\rho(a+a'-2)+1` and :math:`1/\tilde b=\rho(1/b+1/b')`:
    :math:`\Gamma(\tilde a)\tilde b^{\tilde a}/[\Gamma(a)b^a\Gamma(a')b'^{a'}]^\rho`. It exists where
    :math:`2\rho(a-1)+1>0` for every member: always at rho = 1/2, and for a > 1/2 at rho = 1. The mean map has no closed
    form.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Gammas([[1.0], [4.0]], [[2.0], [0.5]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8787],
           [0.8787, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"concentration": 1, "scale": 1}
    dual_verdict = Verdict(
        "conditional",
        "it has not been proved, and no counterexample is known: the shape as a function of log E x - E log x is "
        "completely monotone up to order 30, and would be of every order for a positive semi-definite kernel at "
        "every t (DJS-5)",
    )
    tile_hint = 128

    concentration: Array
    scale: Array

    def __init__(self, concentration: Any, scale: Any) -> None:
        a, b = checked_positive(concentration, "concentration"), checked_positive(scale, "scale")
        if a.shape != b.shape:
            raise ValueError(
                f"concentration and scale must have the same shape; got {tuple(a.shape)} and {tuple(b.shape)}."
            )
        self._freeze(concentration=a, scale=b)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.concentration.shape[-1])

    def estimator(self) -> Gamma:
        """Return the estimator of this family."""
        return Gamma()

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return log x, then x, ``(..., T, d) -> (..., T, 2 d)``."""
        x = as_float(x)
        xp = namespace(x)
        return xp.concat([xp.log(x), x], axis=-1)

    def log_base(self, x: Array) -> Array:
        """Return -log x, summed."""
        x = as_float(x)
        xp = namespace(x)
        return -xp.sum(xp.log(x), axis=-1)

    @property
    def natural_parameters(self) -> Array:
        """Return the shapes, then -1 / scale."""
        return namespace(self.scale).concat([self.concentration, -1 / self.scale], axis=-1)

    def log_partition(self, theta: Array) -> Array:
        """Return log-gamma(a) + a log b, summed."""
        a, negative_rate = theta[..., : self.dimension], theta[..., self.dimension :]
        xp = namespace(theta)
        return xp.sum(gammaln(a) - a * xp.log(-negative_rate), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Mean logarithms, digamma(a) + log b, then means, ab."""
        xp = namespace(self.scale)
        logs = digamma(self.concentration) + xp.log(self.scale)
        return xp.concat([logs, self.concentration * self.scale], axis=-1)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean parameters: Newton's method (DJS-4)."""
        a = self._shapes(mu)
        return self._make(concentration=frozen(a), scale=frozen(mu[..., self.dimension :] / a))

    def dual(self, mu: Array) -> Array:
        """Return a digamma(a) - a - log-gamma(a), summed (DJS-4)."""
        return namespace(mu).sum(gamma_dual(self._shapes(mu)), axis=-1)

    def _shapes(self, mu: Array) -> Array:
        return solve_shape(namespace(mu).log(mu[..., self.dimension :]) - mu[..., : self.dimension])

    # -- capabilities -----------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare this batch for a coupling; products that do not exist are refused by the index in this batch."""
        if isinstance(coupling, PowerProduct):
            self._check_finite(coupling.rho)
        return super().couple(coupling, lengths)

    def _check_values(self, x: Array) -> None:
        check_positive(x, type(self).__name__)

    def log_prob(self, x: Any) -> Array:
        """Log density of every point; missing coordinates (NaN) are marginalized.

        ``(*B, n) x (*B, T, d) -> (*B, n, T)``. Computed about the mean ab, where the large terms cancel.
        """
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            a, b, point = single.concentration[..., :, None, i], single.scale[..., :, None, i], x[..., None, :, i]
            xp = namespace(point, a)
            seen = ~xp.isnan(point)
            point = xp.where(seen, point, xp.ones_like(point))
            log_x = xp.log(point)
            term = 0.5 * xp.log(a) - HALF_LOG_TWO_PI - binet(a) - excess(point / b, a, log_x - xp.log(b)) - log_x
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _pairs(self, other: Self, term: Callable[[Array, Array, Array, Array], Array]) -> Array:
        """Sum a term of both shapes and scales over coordinates, ``(*B, n, m)``."""
        self._check_pair(other)
        return sum(
            term(
                self.concentration[..., :, None, i],
                self.scale[..., :, None, i],
                other.concentration[..., None, :, i],
                other.scale[..., None, :, i],
            )
            for i in range(self.dimension)
        )

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of (p q)^rho of every pair (PPK-3.4).

        Stirling's formula is taken out, and all is written in means: what is left vanishes where p = q and rho = 1/2.
        """
        check_rho(rho)
        self._check_pair(other)
        for side in (self, other):
            side._check_finite(rho)

        def term(a: Array, b: Array, c: Array, d: Array) -> Array:
            xp = namespace(a, c)
            shape = rho * (a + c) + (1 - 2 * rho)  # which does not cancel at rho = 1/2
            joined, *shares = _joined_rates(b, d)
            log_shape = xp.log(shape)
            log_mean = log_shape + (xp.log(joined) - math.log(rho))
            value = (1 - 2 * rho) * (HALF_LOG_TWO_PI + log_mean) - 0.5 * log_shape + binet(shape)
            for own, scale, share in zip((a, c), (b, d), shares, strict=True):
                lost = excess(shape * (share / rho), own, log_mean - xp.log(scale))  # of the mean, in scales
                value = value + (rho * (0.5 * xp.log(own) - binet(own)) - rho * lost)
            return value

        return self._pairs(other, term)

    def _check_finite(self, rho: float) -> None:
        """Raise if the probability product of a member with itself is infinite: 2 rho (a - 1) + 1 <= 0."""
        infinite = to_numpy(2 * rho * self.concentration + (1 - 2 * rho) <= 0)
        if infinite.any():
            where = tuple(int(i) for i in np.argwhere(infinite)[0])
            raise ValueError(
                f"The probability product of {type(self).__name__} at rho = {rho:g} is infinite for concentrations up "
                f"to {1 - 1 / (2 * rho):.6g}; got {float(to_numpy(self.concentration)[where]):.6g} for the "
                f"distribution at index {where[0] if len(where) == 2 else where[:-1]}. Use rho = 0.5, which takes all."
            )

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence of every pair: of shapes at the same mean, and of means (DJS-1)."""

        def term(a: Array, b: Array, c: Array, d: Array) -> Array:
            xp = namespace(a, c)
            return shape_divergence(a, c) + excess(a * (b / d), c, xp.log(a) + xp.log(b) - xp.log(d))

        return self._pairs(other, term)

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence of every pair: a sum over coordinates (DJS-4)."""

        def term(a: Array, b: Array, c: Array, d: Array) -> Array:
            s = (gap(a) + gap(c)) / 2 + log_mean_gap(a * b, c * d)
            return (gamma_dual(a) + gamma_dual(c)) / 2 - gamma_dual(solve_shape(s))

        value = self._pairs(other, term)
        return namespace(value).where(value > 0, value, 0 * value)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the natural parameters: statistics minus their means; 0 where NaN (FK-3)."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"{name}[{i}]" for name in ("concentration", "negative_rate") for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Covariances of the statistics, ``(*B, 2 d, 2 d)``: trigamma(a), b and ab^2 for every coordinate (FK-3)."""
        a, b = self.concentration, self.scale
        xp, unit = namespace(a), identity(a, self.dimension)
        first, crossed, second = (v[..., :, None] * unit for v in (trigamma(a), b, a * b * b))
        rows = xp.concat([first, crossed], axis=-1), xp.concat([crossed, second], axis=-1)
        return xp.concat(rows, axis=-2)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        shape = (*self.shape, whole_size(size), self.dimension)
        a, b = (to_numpy(v)[..., None, :] for v in (self.concentration, self.scale))
        draws = random_generator(random_state).standard_gamma(np.broadcast_to(a, shape).astype(float))
        return np.maximum(draws * b, np.finfo(float).tiny)  # small shapes underflow to zero, where nothing is


@dataclass(eq=False, repr=False)
class Gamma(FamilyEstimator):
    """Fit products of gamma distributions, one to every sample (a positive row or a set of rows) or one to all.

    Parameters
    ----------
    smallest : float or None, default=None
        What smaller numbers are raised to, zeros above all, whose logarithm is infinite: the least that could be
        measured, say. None takes positive data only.
    floor : float, default=1e-3
        Added to the logarithm of the mean minus the mean logarithm, about half of the squared coefficient of variation,
        so that one point, or equal points, have a distribution too, of shape 1 / (2 floor).
    prior : None, "pooled" or Gammas of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Gammas of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.array([[1.0], [2.0], [4.0]]), np.array([[3.0]])]
    >>> p = mc.families.Gamma().fit_each(sets)
    >>> p.concentration.round(1), (p.concentration * p.scale).round(4)
    (array([[  3.4],
           [500.2]]), array([[2.3333],
           [3.    ]]))
    """

    _parameters: ClassVar[Rules] = {
        "smallest": positive("Use None for positive data.") | NONE,
        "floor": nonnegative(),
    }

    smallest: float | None = None
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _missing_allowed(self) -> bool:
        return True

    def template(self, context: Context) -> Gammas:
        """Return a member of the family of shape ``()``."""
        return Gammas._make(concentration=np.ones(context.dimension), scale=np.ones(context.dimension))

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each of which varies by itself a little: the floor comes into every estimate once."""
        found = super().statistics(x, context)
        found[..., : context.dimension] -= self.floor
        return found

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` of positive numbers."""
        self._check_parameters()
        X, who = super().accept(X, **options), type(self).__name__
        check_nonnegative(segments(X)[0], who, X)
        if self.smallest is not None:
            X = mapped(X, lambda x: np.maximum(x, np.asarray(self.smallest, dtype=x.dtype)))
        x = segments(X)[0]
        check_positive(x, who, X)
        check_summable(x, who, X)
        tiny = np.argwhere(x < SMALLEST)
        if len(tiny):
            row, column = (int(i) for i in tiny[0])
            raise ValueError(
                f"The data of Gamma must be at least {SMALLEST:g}, so that 1 / scale is finite; got "
                f"{x[row, column]:.6g} at {point_name(X, row)}, column {column}. Multiply the data by a constant, or "
                f"use smallest={SMALLEST:g}."
            )
        return X


def check_positive(x: Array, who: str, X: Any = None) -> None:
    """Raise if a number is zero, negative or infinite."""
    check_nonnegative(x, who, X)
    if bool(namespace(x).any(x == 0)):
        *_, row, column = (int(i) for i in np.argwhere(to_numpy(x) == 0)[0])
        raise ValueError(
            f"The data of {who} must be positive; got 0 at {point_name(X, row)}, column {column}. Replace zeros by the "
            "smallest value that could be measured, as in smallest=1e-3."
        )


def _joined_rates(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the scale whose rate is the sum of the rates 1 / a and 1 / b, and the share of each; nothing overflows."""
    low, high = ordered(a, b)
    ratio, xp = low / high, namespace(a, b)
    more, less = 1 / (1 + ratio), ratio / (1 + ratio)
    return low * more, xp.where(a < b, more, less), xp.where(a < b, less, more)
