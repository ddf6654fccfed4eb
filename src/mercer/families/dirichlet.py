"""Dirichlet distributions: k proportions that sum to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, to_numpy
from mercer._checks import checked_positive
from mercer._parameters import NONE, Rules, boolean, nonnegative, positive
from mercer._random import random_generator, whole_size
from mercer._special import digamma, gammaln, trigamma
from mercer._verdict import Verdict
from mercer.data.segments import mapped, point_name, segments
from mercer.families._gamma_functions import (
    HALF_LOG_TWO_PI,
    binet,
    excess,
    gamma_dual,
    shape_divergence,
    solve_concentration,
)
from mercer.families.base import ExponentialFamily, FamilyEstimator, observed_scores
from mercer.families.domains import check_nonnegative, check_positive, check_summable
from mercer.families.estimator import Context
from mercer.families.gamma import check_finite_product

ROUNDING = 1e-5
"""How far from one the sum of proportions may be: they may come from float32, or from a table."""
OPEN = (
    "it has not been proved: with 2 proportions no counterexample is known, with 3 or more there are some for "
    "centering, for exp at small t and for the inverse form at large t"
)


class Dirichlets(ExponentialFamily):
    r"""A batch of Dirichlet distributions of k proportions that sum to one.

    Parameters
    ----------
    concentration : array of shape (..., k)
        Positive; their sum says how narrow a distribution is, their proportions are its mean.

    Notes
    -----
    Densities are with respect to the first k - 1 proportions. Probability product (PPK-3.7), with the multivariate beta
    function B: :math:`B(\rho(a+a'-2)+1)/(B(a)B(a'))^\rho`. It exists where :math:`2\rho(a_i-1)+1>0` for every member:
    always at rho = 1/2, and for a_i > 1/2 at rho = 1. The mean map has no closed form.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.Dirichlets([[1.0, 1.0, 1.0], [6.0, 2.0, 2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7051],
           [0.7051, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"concentration": 1}
    tile_hint = 128

    concentration: Array

    def __init__(self, concentration: Any) -> None:
        a = checked_positive(concentration, "concentration")
        if a.shape[-1] < 2:
            raise ValueError(
                f"concentration must have k >= 2 proportions in its last axis; got shape {tuple(a.shape)}."
            )
        self._freeze(concentration=a)

    @property
    def dimension(self) -> int:
        """Number of proportions."""
        return int(self.concentration.shape[-1])

    def estimator(self) -> Dirichlet:
        """Return the estimator of this family."""
        return Dirichlet()

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return log x."""
        x = as_float(x)
        return namespace(x).log(x)

    def log_base(self, x: Array) -> Array:
        """Return -log x, summed."""
        x = as_float(x)
        xp = namespace(x)
        return -xp.sum(xp.log(x), axis=-1)

    @property
    def natural_parameters(self) -> Array:
        """Return the concentrations."""
        return self.concentration

    def log_partition(self, theta: Array) -> Array:
        """Return the log of the multivariate beta function."""
        xp = namespace(theta)
        return xp.sum(gammaln(theta), axis=-1) - gammaln(xp.sum(theta, axis=-1))

    @property
    def mean_parameters(self) -> Array:
        """Mean logarithms: digamma of the concentrations minus digamma of their sum."""
        return mean_logs(self.concentration)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean logarithms: Newton's method."""
        return self._make(concentration=frozen(solve_concentration(mu)))

    def dual(self, mu: Array) -> Array:
        """Return the sum of a digamma(a) - a - log-gamma(a) over the proportions, minus that of the total (DJS-4)."""
        return concentration_dual(solve_concentration(mu))

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Whether JensenShannon is positive semi-definite: with 3 or more proportions not for every form and t."""
        if self.dimension > 2 and (form == "centering" or (t <= 0.03 if form == "exp" else t >= 100)):
            return Verdict(
                "no",
                "the 2^k members whose k >= 3 concentrations are 1e-4 or 1 each have negative eigenvalues; for k = 3, "
                "-0.0062 at t = .01, -0.008 at t = .03, and centering and the inverse form at t = 100 have them too",
            )
        return Verdict("conditional", OPEN)

    # -- capabilities -----------------------------------------------------------------------------------

    def _check_values(self, x: Array) -> None:
        check_proportions(x, type(self).__name__)

    def log_prob(self, x: Any) -> Array:
        """Log density of every point, ``(*B, n) x (*B, T, k) -> (*B, n, T)``; 0 where all of a point is NaN."""
        points = self._checked_points(as_float(x))
        xp = namespace(points)
        seen = ~xp.isnan(points[..., 0])
        points = xp.where(seen[..., None], points, xp.full_like(points, 1 / self.dimension))
        value = super().log_prob(points)
        xp = namespace(value)
        narrow = xp.sum(self.concentration, axis=-1) > float(xp.finfo(value.dtype).eps) ** -0.25
        if bool(xp.any(narrow)):
            single, points = self._crossable(points)
            careful = narrow_log_prob(single.concentration, points)
            value = xp.where(narrow[..., None], careful if self.shape else careful[..., 0, :], value)
        return xp.where(seen[..., None, :] if self.shape else seen, value, xp.zeros_like(value))

    def _check_product(self, rho: float) -> None:
        check_finite_product(self.concentration, rho, type(self).__name__)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.7), with the large terms taken out by hand."""
        self._check_products(other, rho)
        return pair_log_product(self.concentration, other.concentration, float(rho))

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the distribution g of p q = c g, member by member: exponents add up."""
        log_constant = self._log_overlap(other)
        return log_constant, self._make(concentration=self.concentration + (other.concentration - 1))

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence (DJS-2)."""
        self._check_pair(other)
        return pair_divergence(self.concentration, other.concentration)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence (DJS-1)."""
        self._check_pair(other)
        return pair_kl(self.concentration, other.concentration)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the concentrations: log x minus mean logarithms, ``(*B, n, T, k)`` (FK-3); zero where NaN."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"concentration[{i}]" for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Information of the concentrations: a diagonal of trigamma(a) minus trigamma of their sum (FK-3)."""
        return _information(self.concentration)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, k)``."""
        size = whole_size(size)
        a = to_numpy(self.concentration)[..., None, :]
        return draws(np.broadcast_to(a, (*self.shape, size, self.dimension)), random_state)


@dataclass(eq=False, repr=False)
class Dirichlet(FamilyEstimator):
    """Fit Dirichlet distributions, one to every sample (a row of proportions or a set of rows) or one to all.

    Parameters
    ----------
    divide_by_sum : bool, default=False
        Whether to divide every row by its sum. False takes rows that sum to one.
    smallest : float or None, default=None
        What smaller proportions are raised to before rows are divided by their sums again, zeros above all, whose
        logarithm is infinite. None takes positive proportions only.
    floor : float, default=1e-3
        Subtracted from mean logarithms, so that one point, or equal points, have one too: of the total concentration
        (k - 1) / (2 floor), about.
    prior : None, "pooled" or Dirichlets of shape (1,), default=None
        What estimates are shrunk to, in mean logarithms (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Dirichlets of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> rows = [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4]]
    >>> mc.families.Dirichlet().fit(rows).model_.concentration.round(1)
    array([[ 7.4, 11.9, 19.2]])
    """

    _parameters: ClassVar[Rules] = {
        "divide_by_sum": boolean(),
        "smallest": positive("Use None for positive data.") | NONE,
        "floor": nonnegative(),
    }

    divide_by_sum: bool = False
    smallest: float | None = None
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def template(self, context: Context) -> Dirichlets:
        """Return the even distribution."""
        return Dirichlets._make(concentration=np.ones(context.dimension))

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each of which varies by itself a little: the floor comes into every estimate once."""
        return super().statistics(x, context) - self.floor

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` of positive proportions that sum to one."""
        self._check_parameters()
        X = super().accept(X, **options)
        x = segments(X)[0]
        if x.ndim == 2 and x.shape[1] < 2:
            raise ValueError(f"Dirichlet data must have 2 or more proportions; got {x.shape[1]} feature(s).")
        self._check_observed(X)
        check_nonnegative(x, type(self).__name__, X)
        check_summable(x, type(self).__name__, X)
        if self.divide_by_sum or self.smallest is not None:
            self._check_sums(X, x)
            X = mapped(X, self._closed)
        check_proportions(segments(X)[0], type(self).__name__, X)
        return X

    def _check_sums(self, X: Any, x: Floats) -> None:
        """Raise if a row cannot be normalized to a distribution."""
        if not self.divide_by_sum:
            check_sums(x, type(self).__name__, X)
        rows = np.flatnonzero(x.sum(axis=1) == 0)
        if len(rows) and self.smallest is None:
            raise ValueError(
                f"{point_name(X, rows[0])} contains only zeros, so its proportions are undefined. Leave it out, or use "
                "smallest=1e-3, for example."
            )

    def _closed(self, x: Floats) -> Floats:
        """Divide rows by their sums, raise small proportions, and divide again."""
        total = x.sum(axis=1, keepdims=True)
        x = x / np.where(total > 0, total, 1)
        if self.smallest is not None:
            x = np.maximum(x, np.asarray(self.smallest, dtype=x.dtype))
            x = x / x.sum(axis=1, keepdims=True)
        return x


def check_sums(x: Array, who: str, X: Any = None) -> None:
    """Raise if a row does not sum to one; ``X`` are the data of the points ``x``."""
    xp = namespace(x)
    far = xp.abs(xp.sum(x, axis=-1) - 1) > ROUNDING
    if not bool(xp.any(far)):
        return
    where = tuple(int(i) for i in np.argwhere(to_numpy(far))[0])
    raise ValueError(
        f"The data of {who} must sum to 1; got {to_numpy(x)[where].sum():.6g} for {point_name(X, where[-1])}. Use "
        "divide_by_sum=True, or divide every row by its sum."
    )


def check_proportions(x: Array, who: str, X: Any = None) -> None:
    """Raise if proportions are not positive, do not sum to one, or are observed (not NaN) in part."""
    xp = namespace(x)
    missing = xp.isnan(x)
    part = xp.any(missing, axis=-1) & ~xp.all(missing, axis=-1)
    if bool(xp.any(part)):
        row = int(np.argwhere(to_numpy(part))[0][-1])
        raise ValueError(
            f"{point_name(X, row)} has missing (NaN) and observed proportions. {who} take all or none of a point; fill "
            "it in, or leave the point out."
        )
    check_sums(x, who, X)
    check_positive(x, who, X)


# -- pairs of distributions of k proportions: concentrations (*B, n, k) and (*B, m, k) -------------------------------


def mean_logs(a: Array) -> Array:
    """Mean logarithms of proportions with these concentrations."""
    return digamma(a) - digamma(namespace(a).sum(a, axis=-1, keepdims=True))


def concentration_dual(a: Array) -> Array:
    """Legendre dual at the mean logarithms of these concentrations (DJS-4)."""
    xp = namespace(a)
    return xp.sum(gamma_dual(a), axis=-1) - gamma_dual(xp.sum(a, axis=-1))


def narrow_log_prob(a: Array, x: Array) -> Array:
    """Log density of points ``(*B, T, k)``, with Stirling's formula taken out: nothing large is left to cancel.

    With m = a / A, the sum of a log(x / m) is that of -a (x/m - 1 - log(x/m)), plus A times what x sums to beyond 1.
    """
    xp = namespace(a, x)
    total = xp.sum(a, axis=-1)[..., :, None]
    value = remainder(total) - xp.sum(remainder(a), axis=-1)[..., :, None] - (a.shape[-1] - 1) * HALF_LOG_TWO_PI
    for i in range(a.shape[-1]):
        own, point = a[..., :, None, i], x[..., None, :, i]
        log_x = xp.log(point)
        value = value - excess(point * total, own, log_x + xp.log(total)) - log_x
    return value + total * _beyond_one(x)[..., None, :]


def _beyond_one(x: Array) -> Array:
    """Sum along the last axis, less 1, with the rounding errors of the sum in a sum of their own."""
    xp = namespace(x)
    total, lost = -xp.ones_like(x[..., 0]), xp.zeros_like(x[..., 0])
    for i in range(x.shape[-1]):
        new = total + x[..., i]
        part = new - total
        lost = lost + (total - (new - part)) + (x[..., i] - part)
        total = new
    return total + lost


def pair_divergence(a: Array, b: Array) -> Array:
    """Dual Jensen-Shannon divergence of every pair (DJS-2)."""
    middle = (mean_logs(a)[..., :, None, :] + mean_logs(b)[..., None, :, :]) / 2
    value = (concentration_dual(a)[..., :, None] + concentration_dual(b)[..., None, :]) / 2 - concentration_dual(
        solve_concentration(middle)
    )
    return namespace(value).where(value > 0, value, 0 * value)


def pair_kl(a: Array, b: Array) -> Array:
    """Kullback-Leibler divergence, with Stirling's formula taken out: nothing large is left to cancel."""
    xp = namespace(a, b)
    total, other = xp.sum(a, axis=-1)[..., :, None], xp.sum(b, axis=-1)[..., None, :]
    value = -shape_divergence(total, other)
    for i in range(a.shape[-1]):
        own, theirs = a[..., :, None, i], b[..., None, :, i]
        log_ratio = xp.log(own) + xp.log(other) - xp.log(total)
        value = value + shape_divergence(own, theirs) + excess(own * (other / total), theirs, log_ratio)
    return value


def pair_log_product(a: Array, b: Array, rho: float) -> Array:
    """Log of the integral of (p q)^rho (PPK-3.7), with Stirling's formula taken out."""
    xp = namespace(a, b)
    k = a.shape[-1]
    totals = xp.sum(a, axis=-1)[..., :, None], xp.sum(b, axis=-1)[..., None, :]
    middle = rho * (totals[0] + totals[1]) + (1 - 2 * rho) * k
    value = (1 - 2 * rho) * (k - 1) * HALF_LOG_TWO_PI - remainder(middle)
    value = value + rho * (remainder(totals[0]) + remainder(totals[1]))
    for i in range(k):
        sides = a[..., :, None, i], b[..., None, :, i]
        own = rho * (sides[0] + sides[1]) + (1 - 2 * rho)
        log_share = xp.log(own) - xp.log(middle)
        value = value + remainder(own) + (1 - 2 * rho) * log_share
        for side, total in zip(sides, totals, strict=True):
            lost = excess(own * (total / middle), side, log_share + xp.log(total))
            value = value - rho * (remainder(side) + lost)
    return value


def remainder(a: Array) -> Array:
    """Log-gamma less what cancels in a beta function: a log a - a, and (1/2) log 2 pi."""
    return binet(a) - 0.5 * namespace(a).log(a)


def _information(a: Array) -> Array:
    xp = namespace(a)
    shared = trigamma(xp.sum(a, axis=-1))[..., None, None]
    return trigamma(a)[..., :, None] * identity(a, a.shape[-1]) - shared


def draws(a: Floats, random_state: Any) -> Floats:
    """Draw proportions ``(..., k)``, by logarithms of gammas: of small concentrations the gammas would underflow."""
    rng = random_generator(random_state)
    a = a.astype(float)
    logs = np.log(rng.standard_gamma(a + 1)) + np.log(rng.random(a.shape)) / a
    x = np.exp(logs - logs.max(axis=-1, keepdims=True))
    x = np.maximum(x / x.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(x)
