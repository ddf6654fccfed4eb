"""Products of beta distributions: vectors of independent fractions between 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, frozen, identity, namespace, to_numpy
from mercer._checks import check_rho, checked_positive
from mercer._coupling import Coupling, Operand, Product
from mercer._parameters import NONE, Rules, between, nonnegative, positive
from mercer._special import gammaln
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import point_name, segments
from mercer.families._gamma_functions import HALF_LOG_TWO_PI, excess, solve_concentration, trigamma
from mercer.families.base import ExponentialFamily, observed_scores
from mercer.families.dirichlet import (
    OPEN,
    concentration_dual,
    draws,
    mean_logs,
    pair_divergence,
    pair_kl,
    pair_log_product,
    remainder,
)
from mercer.families.estimator import Context, FamilyEstimator
from mercer.families.exponential import check_nonnegative
from mercer.families.gamma import check_finite_product


class Betas(ExponentialFamily):
    r"""A batch of products of d independent beta distributions of fractions between 0 and 1.

    One coordinate is a `Dirichlets` of (x, 1 - x); d of them are d such pairs.

    Parameters
    ----------
    a, b : array of shape (..., d)
        Positive: the mean is a / (a + b).

    Notes
    -----
    Probability product (PPK-3.7) :math:`B(\rho(a+a'-2)+1, \rho(b+b'-2)+1)/(B(a,b)B(a',b'))^\rho`, where the arguments
    are positive for every member with itself: always at rho = 1/2. The mean map has no closed form.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Betas([[1.0], [6.0]], [[1.0], [2.0]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.7953],
           [0.7953, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"a": 1, "b": 1}
    tile_hint = 128

    a: Array
    b: Array

    def __init__(self, a: Any, b: Any) -> None:
        first, second = checked_positive(a, "a"), checked_positive(b, "b")
        if tuple(first.shape) != tuple(second.shape):
            raise ValueError(
                f"a has shape {tuple(first.shape)} and b {tuple(second.shape)}: give two arrays of one shape"
            )
        self._freeze(a=first, b=second)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.a.shape[-1])

    def estimator(self) -> Beta:
        """Return the estimator of this family."""
        return Beta()

    @property
    def _pairs(self) -> Array:
        """Concentrations of (x, 1 - x), ``(*B, d, 2)``."""
        return namespace(self.a, self.b).stack([self.a, self.b], axis=-1)

    def _paired(self, flat: Array) -> Array:
        """Parameters ``(..., 2d)``, first of x, then of 1 - x, as ``(..., d, 2)``."""
        return namespace(flat).stack([flat[..., : self.dimension], flat[..., self.dimension :]], axis=-1)

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return log x and log(1 - x), one after the other."""
        x = as_float(x)
        xp = namespace(x)
        return xp.concat([xp.log(x), xp.log1p(-x)], axis=-1)

    def log_base(self, x: Array) -> Array:
        """Return -log x - log(1 - x), summed."""
        return -namespace(x).sum(self.statistics(x), axis=-1)

    @property
    def natural_parameters(self) -> Array:
        """Return a and b, one after the other."""
        return namespace(self.a, self.b).concat([self.a, self.b], axis=-1)

    def log_partition(self, theta: Array) -> Array:
        """Return the log of the beta function, summed."""
        xp, pairs = namespace(theta), self._paired(theta)
        return xp.sum(xp.sum(gammaln(pairs), axis=-1) - gammaln(xp.sum(pairs, axis=-1)), axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Mean logarithms of x and of 1 - x, one after the other."""
        logs = mean_logs(self._pairs)
        return namespace(logs).concat([logs[..., 0], logs[..., 1]], axis=-1)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these mean logarithms: Newton's method."""
        pairs = solve_concentration(self._paired(mu))
        return self._make(a=frozen(pairs[..., 0]), b=frozen(pairs[..., 1]))

    def dual(self, mu: Array) -> Array:
        """Return the dual of every coordinate's pair, summed (DJS-4)."""
        return namespace(mu).sum(concentration_dual(solve_concentration(self._paired(mu))), axis=-1)

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Say that nobody knows whether JensenShannon of Betas is positive semi-definite."""
        return Verdict("conditional", OPEN)

    # -- capabilities -----------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log density of every point, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN is marginalised."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            a, b, point = single.a[..., :, None, i], single.b[..., :, None, i], x[..., None, :, i]
            xp = namespace(a, point)
            seen = ~xp.isnan(point)
            safe = xp.where(seen, point, xp.full_like(point, 0.5))
            # (a - 1) log x + (b - 1) log(1 - x) - log B(a, b), about the mean, where the large terms cancel
            log_x, log_rest, total = xp.log(safe), xp.log1p(-safe), a + b
            term = remainder(total) - remainder(a) - remainder(b) - HALF_LOG_TWO_PI - log_x - log_rest
            term = term - excess(safe * total, a, log_x + xp.log(total))
            term = term - excess((1 - safe) * total, b, log_rest + xp.log(total))
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        check_fractions(x, type(self).__name__)

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; a probability product that is infinite is refused here, where indices are known."""
        if isinstance(coupling, Product):
            self._check_finite(coupling.rho)
        return super().couple(coupling, lengths)

    def _check_finite(self, rho: float) -> None:
        for parameter in (self.a, self.b):
            check_finite_product(parameter, rho, type(self).__name__)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.7), with the large terms taken out by hand."""
        check_rho(rho)
        self._check_pair(other)
        for side in (self, other):
            side._check_finite(rho)
        return self._coordinates(other, lambda p, q: pair_log_product(p, q, float(rho)))

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the law g of p q = c g, member by member: exponents add up."""
        log_constant = self._log_overlap(other)
        return log_constant, self._make(a=self.a + (other.a - 1), b=self.b + (other.b - 1))

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence: a sum over coordinates (DJS-2)."""
        return self._coordinates(other, pair_divergence)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence: a sum over coordinates (DJS-1)."""
        return self._coordinates(other, pair_kl)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of a and b: logarithms of x and 1 - x minus their means, ``(*B, n, T, 2d)``; zero where NaN."""
        return observed_scores(super().fisher_scores(self._checked_points(as_float(x))))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return [f"{name}[{i}]" for name in "ab" for i in range(self.dimension)]

    def fisher_information(self) -> Array:
        """Information of a and b: trigamma(a), trigamma(b), both minus trigamma(a + b), and that off the diagonal."""
        xp = namespace(self.a, self.b)
        eye = identity(self.a, self.dimension)
        shared = trigamma(self.a + self.b)
        first, second, mixed = (
            v[..., :, None] * eye for v in (trigamma(self.a) - shared, trigamma(self.b) - shared, -shared)
        )
        return xp.concat([xp.concat([first, mixed], axis=-1), xp.concat([mixed, second], axis=-1)], axis=-2)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        pairs = to_numpy(self._pairs)[..., None, :, :]
        found = draws(np.broadcast_to(pairs, (*self.shape, size, self.dimension, 2)), random_state)[..., 0]
        return np.minimum(found, 1 - np.finfo(float).epsneg)  # 1 has no density

    def _coordinates(self, other: Self, term: Any) -> Array:
        """Sum a term over coordinates, one plane of pairs at a time."""
        self._check_pair(other)
        p, q = self._pairs, other._pairs
        return sum(term(p[..., i, :], q[..., i, :]) for i in range(self.dimension))


class Beta(FamilyEstimator):
    """Fit products of beta distributions, one to every datum (a row of fractions or a set of rows) or one to all.

    Parameters
    ----------
    whole : float, default=1.0
        What numbers are fractions of: 100 for percentages.
    smallest : float or None, default=None
        What smaller fractions are raised to, and how far below 1 larger ones are put: the logarithms of 0 and of
        1 - 1 are infinite. None takes fractions above 0 and below 1 only.
    floor : float, default=1e-3
        Subtracted from mean logarithms, so that one point, or equal points, have a law too: of a + b = 1 / (2 floor),
        about.
    prior : None, "pooled" or Betas of shape (1,), default=None
        What estimates are shrunk to, in mean logarithms (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Betas of shape (1,)
        What ``fit`` learned.
    context_ : Context
        What ``fit`` learned of the data as a whole.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Beta().fit([[0.2], [0.1], [0.3], [0.5]]).model_
    >>> p.a.round(2), p.b.round(2)
    (array([[2.39]]), array([[6.27]]))
    """

    _parameters: ClassVar[Rules] = {
        "whole": positive("Give the number that the data are fractions of: 100 for percentages."),
        "smallest": between(0, 0.5, "neither", "It is also the least distance from 1.") | NONE,
        "floor": nonnegative(),
    }

    def __init__(
        self,
        whole: float = 1.0,
        smallest: float | None = None,
        floor: float = 1e-3,
        prior: Any = None,
        prior_strength: float = 1.0,
    ) -> None:
        self.whole = whole
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

    def template(self, context: Context) -> Betas:
        """Return even laws."""
        return Betas._make(a=np.ones(context.dimension), b=np.ones(context.dimension))

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each of which varies by itself a little: the floor comes into every estimate once."""
        return super().statistics(x, context) - self.floor

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` of fractions above 0 and below 1."""
        self._check_parameters()
        X = super().accept(X, **options)
        check_nonnegative(segments(X)[0], type(self).__name__, X)
        X = self._each(X, lambda x: x / np.asarray(self.whole, dtype=x.dtype))
        check_fractions(segments(X)[0], type(self).__name__, X, closed=self.smallest is not None)
        return X if self.smallest is None else self._each(X, self._inside)

    def _each(self, X: Any, change: Callable[[Floats], Floats]) -> Any:
        return X.mapped(change) if isinstance(X, Sequences) else change(X)

    def _inside(self, x: Floats) -> Floats:
        assert self.smallest is not None
        most = min(1 - self.smallest, 1 - float(np.finfo(np.float64).epsneg))  # log(1 - 1) would be infinite
        return np.clip(x.astype(np.float64), self.smallest, most)


def check_fractions(x: Array, who: str, X: Any = None, closed: bool = False) -> None:
    """Raise where a fraction is not above 0 and below 1, or, where ``closed``, not from 0 to 1."""
    xp = namespace(x)
    bad = (x < 0) | (x > 1) if closed else (x <= 0) | (x >= 1)
    if not bool(xp.any(bad)):
        return
    *_, row, column = where = tuple(int(i) for i in np.argwhere(to_numpy(bad))[0])
    value = to_numpy(x)[where]
    cure = (
        "give the estimator smallest=1e-3, say"
        if value in (0, 1)
        else "give the estimator whole=100, say, for percentages"
    )
    raise ValueError(
        f"{point_name(X, row)} holds {value} in column {column}, and the data of {who} are fractions above 0 "
        f"and below 1: {cure}"
    )
