"""Products of gamma distributions: vectors of independent positive numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, to_numpy
from mercer._checks import check_rho, checked_positive
from mercer._coupling import Coupling, Operand, Product
from mercer._parameters import NONE, Rules, nonnegative, positive
from mercer._random import random_generator
from mercer._special import gammaln
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import point_name, segments
from mercer.families._gamma_functions import (
    HALF_LOG_TWO_PI,
    binet,
    digamma,
    excess,
    gamma_dual,
    gap,
    shape_divergence,
    solve_shape,
    trigamma,
)
from mercer.families.base import ExponentialFamily, observed_scores
from mercer.families.estimator import Context, FamilyEstimator
from mercer.families.exponential import SMALLEST, check_nonnegative, check_summable, joined_rates, log_mean_gap


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
    >>> p = mc.Gammas([[1.0], [4.0]], [[2.0], [0.5]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8787],
           [0.8787, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"concentration": 1, "scale": 1}
    tile_hint = 128

    concentration: Array
    scale: Array

    def __init__(self, concentration: Any, scale: Any) -> None:
        a, b = checked_positive(concentration, "concentration"), checked_positive(scale, "scale")
        if tuple(a.shape) != tuple(b.shape):
            raise ValueError(
                f"concentration has shape {tuple(a.shape)} and scale {tuple(b.shape)}: give two arrays of one shape"
            )
        self._freeze(concentration=a, scale=b)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.scale.shape[-1])

    def estimator(self) -> Gamma:
        """Return the estimator of this family."""
        return Gamma()

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return log x and x, one after the other."""
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
        """Return the shapes and -1 / scale, one after the other."""
        return namespace(self.scale).concat([self.concentration, -1 / self.scale], axis=-1)

    def log_partition(self, theta: Array) -> Array:
        """Return the sum of log-gamma(a) + a log b."""
        xp = namespace(theta)
        a, rate = theta[..., : self.dimension], -theta[..., self.dimension :]
        return xp.sum(gammaln(a) - a * xp.log(rate), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Mean logarithms, digamma(a) + log b, and means, ab, one after the other."""
        xp = namespace(self.scale)
        a, b = self.concentration, self.scale
        return xp.concat([digamma(a) + xp.log(b), a * b], axis=-1)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean logarithms and means: Newton's method (DJS-4)."""
        a, mean = self._solved(mu)
        return self._make(concentration=frozen(a), scale=frozen(mean / a))

    def dual(self, mu: Array) -> Array:
        """Return a digamma(a) - a - log-gamma(a), summed (DJS-4)."""
        return namespace(mu).sum(gamma_dual(self._solved(mu)[0]), axis=-1)

    def _solved(self, mu: Array) -> tuple[Array, Array]:
        log_mean, mean = mu[..., : self.dimension], mu[..., self.dimension :]
        return solve_shape(namespace(mu).log(mean) - log_mean), mean

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Say that the dual divergence of Gammas was found conditionally negative definite, without a proof."""
        return Verdict(
            "conditional",
            "nobody has proved it, and no counterexample is known: the shape as a function of log E x - E log x is "
            "completely monotone up to order 30, and would be of every order for a positive semi-definite kernel at "
            "every t (DJS-5)",
        )

    # -- capabilities -----------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log density of every point, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN is marginalised."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            a, b = single.concentration[..., :, None, i], single.scale[..., :, None, i]
            xp = namespace(a, x)
            seen = ~xp.isnan(x[..., None, :, i])
            point = xp.where(seen, x[..., None, :, i], xp.ones_like(x[..., None, :, i]))
            log_x = xp.log(point)
            # (a - 1) log x - x/b - a log b - log-gamma(a), about the mean ab, where the large terms cancel
            term = 0.5 * xp.log(a) - HALF_LOG_TWO_PI - binet(a) - excess(point / b, a, log_x - xp.log(b)) - log_x
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        check_positive(x, type(self).__name__)

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; a probability product that is infinite is refused here, where indices are known."""
        if isinstance(coupling, Product):
            check_finite_product(self.concentration, coupling.rho, type(self).__name__)
        return super().couple(coupling, lengths)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.4), with the large terms taken out by hand."""
        check_rho(rho)
        self._check_pair(other)
        for side in (self, other):
            check_finite_product(side.concentration, rho, type(self).__name__)
        value: Any = 0.0
        for i in range(self.dimension):
            value = value + _log_product(
                self.concentration[..., :, None, i],
                self.scale[..., :, None, i],
                other.concentration[..., None, :, i],
                other.scale[..., None, :, i],
                float(rho),
            )
        return value

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the law g of p q = c g, member by member: shapes less 1 and rates add up."""
        log_constant = self._log_overlap(other)
        a = self.concentration + (other.concentration - 1)
        return log_constant, self._make(concentration=a, scale=joined_rates(self.scale, other.scale)[0])

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence: a sum over coordinates (DJS-4)."""
        self._check_pair(other)
        value: Any = 0.0
        for i in range(self.dimension):
            a, b = self.concentration[..., i], other.concentration[..., i]
            mean, mean_other = a * self.scale[..., i], b * other.scale[..., i]
            s = (gap(a)[..., :, None] + gap(b)[..., None, :]) / 2
            s = s + log_mean_gap(mean[..., :, None], mean_other[..., None, :])
            ends = gamma_dual(a)[..., :, None] + gamma_dual(b)[..., None, :]
            value = value + ends / 2 - gamma_dual(solve_shape(s))
        return namespace(value).where(value > 0, value, 0 * value)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence: of shapes at the same mean, and of means (DJS-1)."""
        self._check_pair(other)
        value: Any = 0.0
        for i in range(self.dimension):
            a, b = self.concentration[..., :, None, i], other.concentration[..., None, :, i]
            scale, scale_other = self.scale[..., :, None, i], other.scale[..., None, :, i]
            xp = namespace(a, b)
            log_ratio = xp.log(a) + xp.log(scale) - xp.log(scale_other)
            value = value + shape_divergence(a, b) + excess(a * (scale / scale_other), b, log_ratio)
        return value

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the shapes and of -1 / scale: statistics minus their means, ``(*B, n, T, 2d)``; zero where NaN."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        names = ("concentration", "negative_rate")
        return [f"{name}[{i}]" for name in names for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Information of shapes and -1 / scale: trigamma(a), b, and a b^2 (FK-3)."""
        a, b = self.concentration, self.scale
        xp = namespace(a, b)
        eye = identity(b, self.dimension)
        square, mixed, flat = ((v[..., :, None] * eye) for v in (trigamma(a), b, a * b * b))
        return xp.concat([xp.concat([square, mixed], axis=-1), xp.concat([mixed, flat], axis=-1)], axis=-2)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        a, b = (to_numpy(v)[..., None, :] for v in (self.concentration, self.scale))
        draws = random_generator(random_state).standard_gamma(
            np.broadcast_to(a, (*self.shape, size, self.dimension)).astype(float)
        )
        return np.maximum(draws * b, np.finfo(float).tiny)  # small shapes underflow to zero, where nothing is


class Gamma(FamilyEstimator):
    """Fit products of gamma distributions, one to every datum (a positive row or a set of rows) or one to all.

    Parameters
    ----------
    smallest : float or None, default=None
        What smaller numbers are raised to, zeros above all, whose logarithm is infinite: the least that could be
        measured, say. None takes positive data only.
    floor : float, default=1e-3
        Added to the logarithm of the mean minus the mean logarithm, about half of the squared coefficient of variation,
        so that one point, or equal points, have a law too, of shape 1 / (2 floor).
    prior : None, "pooled" or Gammas of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Gammas of shape (1,)
        What ``fit`` learned.
    context_ : Context
        What ``fit`` learned of the data as a whole.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.array([[1.0], [2.0], [4.0]]), np.array([[3.0]])]
    >>> p = mc.Gamma().fit_each(sets)
    >>> p.concentration.round(1), (p.concentration * p.scale).round(4)
    (array([[  3.4],
           [500.2]]), array([[2.3333],
           [3.    ]]))
    """

    _parameters: ClassVar[Rules] = {
        "smallest": positive("Give None for positive data.") | NONE,
        "floor": nonnegative(),
    }

    def __init__(
        self, smallest: float | None = None, floor: float = 1e-3, prior: Any = None, prior_strength: float = 1.0
    ) -> None:
        self.smallest = smallest
        self.floor = floor
        self.prior = prior
        self.prior_strength = prior_strength

    def _missing_allowed(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def template(self, context: Context) -> Gammas:
        """Return unit exponential laws."""
        return Gammas._make(concentration=np.ones(context.dimension), scale=np.ones(context.dimension))

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each of which varies by itself a little: the floor comes into every estimate once."""
        found = super().statistics(x, context)
        found[..., : context.dimension] -= self.floor
        return found

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` of positive numbers."""
        self._check_parameters()
        X = super().accept(X, **options)
        check_nonnegative(segments(X)[0], type(self).__name__, X)
        if self.smallest is not None:
            X = X.mapped(self._raised) if isinstance(X, Sequences) else self._raised(X)
        x = segments(X)[0]
        check_positive(x, type(self).__name__, X)
        check_summable(x, type(self).__name__, X)
        if np.any(x < SMALLEST):
            row, column = (int(i) for i in np.argwhere(x < SMALLEST)[0])
            raise ValueError(
                f"{point_name(X, row)} holds {x[row, column]:.6g} in column {column}, and 1 / scale would be infinite: "
                f"multiply the data by a constant, or give smallest={SMALLEST:g}"
            )
        return X

    def _raised(self, x: Floats) -> Floats:
        return np.maximum(x, np.asarray(self.smallest, dtype=x.dtype))


def check_positive(x: Array, who: str, X: Any = None) -> None:
    """Raise where a number is zero, negative or infinite; ``X`` are the data of the points ``x``."""
    check_nonnegative(x, who, X)
    if not bool(namespace(x).any(x == 0)):
        return
    *_, row, column = (int(i) for i in np.argwhere(to_numpy(x) == 0)[0])
    raise ValueError(
        f"{point_name(X, row)} holds 0 in column {column}, and the data of {who} are positive, since their logarithms "
        "count: give the estimator smallest=1e-3, say, the least that could be measured"
    )


def check_finite_product(concentration: Array, rho: float, who: str) -> None:
    """Raise where the probability product of a member with itself is infinite: 2 rho (a - 1) + 1 <= 0."""
    infinite = 2 * rho * concentration + (1 - 2 * rho) <= 0
    if not bool(namespace(concentration).any(infinite)):
        return
    where = tuple(int(i) for i in np.argwhere(to_numpy(infinite))[0])
    law = where[0] if len(where) == 2 else where[:-1]
    raise ValueError(
        f"the law at index {law} has a concentration of {float(to_numpy(concentration)[where]):.6g}, and at "
        f"rho = {rho:g} the probability product of {who} is infinite up to {1 - 1 / (2 * rho):.6g}: use rho = 0.5, "
        "which takes all (with power='joint', where variables are hidden)"
    )


def _log_product(a: Array, b: Array, c: Array, d: Array, rho: float) -> Array:
    """Log of the integral of (p q)^rho, for shapes a, c and scales b, d (PPK-3.4).

    Stirling's formula is taken out, and all is written in means: what is left vanishes where p = q and rho = 1/2.
    """
    xp = namespace(a, c)
    shape = rho * (a + c) + (1 - 2 * rho)  # which does not cancel at rho = 1/2
    joined, *shares = joined_rates(b, d)
    log_shape = xp.log(shape)
    log_mean = log_shape + (xp.log(joined) - math.log(rho))
    value = (1 - 2 * rho) * (HALF_LOG_TWO_PI + log_mean) - 0.5 * log_shape + binet(shape)
    for own, scale, share in zip((a, c), (b, d), shares, strict=True):
        lost = excess(shape * (share / rho), own, log_mean - xp.log(scale))  # of the mean, in scales
        value = value + (rho * (0.5 * xp.log(own) - binet(own)) - rho * lost)
    return value
