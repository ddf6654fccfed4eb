"""Exponential families: a log partition function, or its dual, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, as_float, beside, frozen, namespace, to_numpy
from mercer._checks import check_rho
from mercer._coupling import Coupling, Operand, PowerProduct
from mercer._verdict import Verdict
from mercer.families import _names
from mercer.families.base import Family
from mercer.families.calculus import NoInterior, gradient, jacobian, maximize, quick_gradient, solve
from mercer.families.characteristic import log_characteristic, log_mean_map
from mercer.families.special import total


class ExponentialFamily(Family):
    r"""A family p(x) = exp(base(x) + <theta, statistic(x)> - partition(theta)).

    A subclass declares its parameters and `partition`, the log partition function, and what differs from the defaults
    of `natural` and `from_natural` (the only parameter is the natural one), `statistic` (x) and `base` (zero). Instead
    of `partition` it may declare `moments` and `legendre`, the dual. All else follows, by exact derivatives and
    Newton's method; closed forms may replace this for accuracy, speed or boundary values:

    =========================================  =====================================================================
    ``moments()``, ``from_moments(mu)``        mean parameters, and the parameters with these
    ``legendre(mu)``                           Legendre dual of the log partition function, up to an affine function
    ``information()``                          covariances of the statistics, ``(..., D, D)``
    ``log_density(x)``                         log density at points
    ``product(other, rho)``                    log of the integral of p^rho q^rho
    ``divergence(other)``                      dual Jensen-Shannon divergence
    ``relative_entropy(other)``                Kullback-Leibler divergence
    =========================================  =====================================================================

    A subclass may add what does not follow from the log partition function:

    =========================================  =====================================================================
    ``power_partition(c, eta)``                log of the integral of exp(c base + <eta, statistic>), for rho = c / 2;
                                               with a base measure, products exist at rho = 1/2 only without it
    ``finite(rho)``                            whether the product of a member with itself is finite
    ``mean_map(other, gamma)``                 log of E exp(-gamma \|x - y\|^2)
    ``inward(t, floor)``                       statistics moved inside of their convex hull
    ``predictive(count)``                      what a posterior predicts
    ``draw(rng, shape)``                       points
    =========================================  =====================================================================

    In a formula, ``self`` and ``other`` are batches whose parameters broadcast to whatever is asked: to all pairs, or
    to all members and points. Coordinates are on the last axis.

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

    base: ClassVar[Any] = None
    """Log base measure of points; None is zero."""
    inward: ClassVar[Any] = None
    """``inward(t, floor)`` moves statistics inside of their convex hull, where one point and equal points have an
    estimate; the estimator gets a parameter ``floor``."""
    continued: ClassVar[int | None] = None
    """Position of x among the statistics: the characteristic function of x continues the log partition there."""
    labels: ClassVar[tuple[str, ...]] = ("parameter",)
    """Names of the natural parameters, for the columns of Fisher scores."""
    dual_verdict: ClassVar[Verdict | None] = None
    """What `dual_psd` says, where it is the same for every form and t."""

    def __init_subclass__(cls, adopts: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        if adopts:
            _names.adopt(cls, ExponentialFamily)
        if "mean_map" in vars(cls):
            cls.log_mean_map = log_mean_map  # type: ignore[attr-defined]
        if "partition" in vars(cls):
            if not cls._declares("statistic"):
                cls.continued = 0
            if cls.continued is not None and not hasattr(cls, "log_characteristic"):
                cls.log_characteristic = log_characteristic  # type: ignore[attr-defined]

    @classmethod
    def _declares(cls, name: str) -> bool:
        """Whether a subclass wrote a formula in place of the default."""
        return getattr(cls, name) is not getattr(ExponentialFamily, name)

    # -- the declaration -------------------------------------------------------------------------------------

    def natural(self) -> Any:
        """Natural parameters."""
        if self._declares("legendre") and not self._declares("partition") and self._declared:
            return self._unstacked(gradient(self._flat_dual, self._stacked(self.moments()), self._bounded_dual))
        return getattr(self, self._only("natural"))

    def from_natural(self, theta: Any) -> Any:
        """Return the parameter, or the tuple of parameters, with these natural parameters."""
        if self._declares("natural"):
            raise NotImplementedError(f"{type(self).__name__} must implement from_natural(theta), as it has natural()")
        self._only("from_natural")
        return theta

    def _only(self, what: str) -> str:
        names = self._free_names() or list(self._arrays)
        if len(names) != 1:
            raise NotImplementedError(f"{type(self).__name__} must implement {what}, as it has several parameters")
        return names[0]

    def partition(self, theta: Any) -> Array:
        """Log partition function; with the functions of `mercer.families.special`, its derivatives are exact."""
        if self._declares("legendre"):
            z = self._stacked(theta)
            mu = self._conjugate(self._bounded_dual, self._dual_slope, z, self._center("moments", z))
            return total(z * mu) - self._flat_dual(mu)
        raise NotImplementedError(f"{type(self).__name__} must implement partition(theta)")

    def statistic(self, x: Array) -> Any:
        """Sufficient statistics of a point."""
        return x

    # -- closed forms, each with a default -------------------------------------------------------------------

    def moments(self) -> Any:
        """Mean parameters, by default the gradient of the log partition function."""
        if self._moment is not None:
            return getattr(self, self._moment)
        self._require_partition()
        return self._unstacked(gradient(self._flat_partition, self._stacked(self.natural()), self._bounded))

    def from_moments(self, mu: Any) -> Any:
        """Return the parameters with these mean parameters, by default by Newton's method."""
        return mu if self._moment is not None else self.from_natural(self._unstacked(self._solved(self._stacked(mu))))

    def legendre(self, mu: Any) -> Array:
        """Legendre dual of the log partition function up to an affine function, by default by Newton's method."""
        self._require_partition()
        mu = self._stacked(mu)
        theta = self._solved(mu)
        return total(theta * mu) - self._flat_partition(theta)

    def information(self) -> Array:
        """Covariances of the statistics, ``(..., D, D)``, by default the Hessian of the log partition function."""
        value = jacobian(self._slope, self._stacked(self.natural()), self._bounded)
        return (value + namespace(value).matrix_transpose(value)) / 2

    def log_density(self, x: Array) -> Array:
        """Log density at points, where points and parameters broadcast."""
        theta = self.natural()
        value = total(self._stacked(theta) * self._stacked(self.statistic(x))) - self.partition(theta)
        return value if self.base is None else value + self.base(x)

    def power_partition(self, c: float, eta: Any) -> Array:
        """Log of the integral of exp(c base(x) + <eta, statistic(x)>), for rho = c / 2 (PPK-3.0)."""
        if c == 1 or self.base is None:
            return self.partition(eta)
        raise ValueError(
            f"{type(self).__name__} have a probability product at rho = 0.5 only (the generic formula of exponential "
            f"families); got rho = {c / 2}. Other powers need power_partition(c, eta)."
        )

    def finite(self, rho: float) -> Array:
        """Whether the product of every member with itself is finite: whether 2 rho theta is a natural parameter."""
        values = self.from_natural(self._combined(lambda t: 2 * rho * t, self.natural()))
        return self._within(values)

    def product(self, other: Self, rho: float) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.0)."""
        theta, phi = self.natural(), other.natural()
        eta = self._combined(lambda a, b: rho * (a + b), theta, phi)
        return self.power_partition(2 * rho, eta) - rho * (self.partition(theta) + other.partition(phi))

    def divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence (DJS-2)."""
        mu, nu = self.moments(), other.moments()
        middle = self._combined(lambda a, b: a / 2 + b / 2, mu, nu)
        if self._declares("legendre"):
            return (self.legendre(mu) + other.legendre(nu)) / 2 - self.legendre(middle)
        theta, phi = self._stacked(self.natural()), self._stacked(other.natural())
        center = self._solved(self._stacked(middle), theta / 2 + phi / 2)
        level = self._flat_partition(center)  # half the divergences of both from the center: no dual of either
        lost = total((theta - center) * self._stacked(mu)) - (self._flat_partition(theta) - level)
        return (lost + total((phi - center) * self._stacked(nu)) - (self._flat_partition(phi) - level)) / 2

    def relative_entropy(self, other: Self) -> Array:
        """Kullback-Leibler divergence of p = self from q = other."""
        theta, phi = self.natural(), other.natural()
        gap = self._stacked(theta) - self._stacked(phi)
        return total(gap * self._stacked(self.moments())) - self.partition(theta) + other.partition(phi)

    def predictive(self, count: Any) -> Any:
        """Return the predictive distribution of a posterior with these mean parameters (PPK-2a).

        Observations weigh ``count (..., 1)`` in all, the prior's included. The prediction has the mean parameters of
        the MAP estimate, and is wider.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement predictive(count)")

    # -- what a formula takes and returns, as one array: vectors here, tuples in `Coordinatewise` --------------

    def _stacked(self, form: Any) -> Array:
        """Return statistics, natural or mean parameters of a formula as ``(..., D)``."""
        return form

    def _unstacked(self, z: Array) -> Any:
        return z

    def _combined(self, combine: Callable[..., Array], *forms: Any) -> Any:
        return combine(*forms)

    def _joined(self, form: Any) -> Array:
        """Return them as public arrays have them, ``(..., D)`` with all coordinates."""
        return form

    def _split(self, values: Array) -> Any:
        return values

    def _summed(self, terms: Array) -> Array:
        """Sum over independent coordinates."""
        return terms

    def _continued(self, shift: Array) -> Array:
        """K(theta + shift) - K(theta) of every member and row of shifts ``(F, D)``, ``(*B, F)``."""
        view = self._at(-1)
        theta = view.natural()
        return view.partition(namespace(theta).astype(theta, shift.dtype) + shift) - view.partition(theta)

    # -- conjugate parameters by Newton's method -------------------------------------------------------------

    @property
    def _moment(self) -> str | None:
        return next((name for name, parameter in self._declared.items() if parameter.moment), None)

    def _with(self, values: Any) -> Self:
        """Return a batch with these parameters in place of those that are not known, unchecked."""
        values = values if isinstance(values, tuple) else (values,)
        return self._replaced(**dict(zip(self._free_names(), values, strict=True)))

    def _within(self, values: Any) -> Any:
        """Whether parameters lie in their sets."""
        values = values if isinstance(values, tuple) else (values,)
        found: Any = True
        for value, name in zip(values, self._free_names(), strict=True):
            parameter = self._declared[name]
            found = found & beside(value, parameter.within.contains(value, self._axes_in_formulas(parameter.axes)))
        return found

    def _axes_in_formulas(self, axes: int) -> int:
        return axes

    def _flat_partition(self, z: Array) -> Array:
        return self.partition(self._unstacked(z))

    def _flat_dual(self, z: Array) -> Array:
        return self.legendre(self._unstacked(z))

    def _bounded(self, z: Array) -> Array:
        """Log partition function, infinite outside of the natural domain: where parameters lie outside their sets."""
        value = self._flat_partition(z)
        if self._declares("natural") and not self._declares("from_natural"):
            return value
        return namespace(z).where(self._within(self.from_natural(self._unstacked(z))), value, float("inf"))

    def _bounded_dual(self, z: Array) -> Array:
        """Dual, infinite where no parameters have these mean parameters."""
        inside = self._within(self.from_moments(self._unstacked(z)))
        return namespace(z).where(inside, self._flat_dual(z), float("inf"))

    def _slope(self, z: Array) -> Array:
        """Gradient of the log partition function, ``(..., D)``."""
        if self._declares("moments") or self._moment is not None:
            return self._stacked(self._with(self.from_natural(self._unstacked(z))).moments())
        return gradient(self._flat_partition, z, self._bounded)

    def _quick_slope(self, z: Array) -> Array:
        """Return `_slope` without a check by differences."""
        return self._slope(z) if self._declares("moments") else quick_gradient(self._flat_partition, z)

    def _dual_slope(self, z: Array) -> Array:
        return gradient(self._flat_dual, z, self._bounded_dual)

    def _divided(self, slope: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
        """Return a function that divides by the Hessian whose gradient is ``slope``."""

        def divided(z: Array, gap: Array) -> Array:
            if slope == self._dual_slope:
                return solve(jacobian(slope, z, self._bounded_dual, steps=1), gap)
            if not self._declares("information"):
                return solve(jacobian(slope, z, self._bounded, steps=1), gap)
            return self._with(self.from_natural(self._unstacked(z))).newton_step(gap)

        return divided

    def newton_step(self, gap: Array) -> Array:
        """Divide ``gap (..., D)`` by the information; a subclass may know its structure."""
        value = self.information()
        return solve(value if len(value.shape) > len(gap.shape) else value[..., None, None], gap)

    def _center(self, what: str, z: Array) -> Array:
        """Natural parameters or moments of the standard member, beside ``z (..., D)``."""
        center = self.standard(self._size, **{name: getattr(self, name) for name in self._constants})
        known = {name: getattr(self, name) for name, parameter in self._declared.items() if parameter.known}
        return beside(z, to_numpy(self._stacked(getattr(center._replaced(**known), what)())), z.dtype)

    def _solved(self, mu: Array, start: Array | None = None) -> Array:
        """Return the natural parameters with these mean parameters, ``(..., D)``."""
        if self._moment is not None or self._declares("from_moments"):
            return self._stacked(self._with(self.from_moments(self._unstacked(mu))).natural())
        start = self._center("natural", mu) if start is None else start
        try:
            theta = maximize(self._bounded, self._quick_slope, self._divided(self._quick_slope), mu, start)
            if self._fits(theta, mu):
                return theta
        except (NoInterior, TypeError, np.linalg.LinAlgError):
            pass
        return self._conjugate(self._bounded, self._slope, mu, start)

    def _conjugate(
        self, function: Callable[[Array], Array], slope: Callable[[Array], Array], z: Array, start: Array
    ) -> Array:
        """Return where the gradient of a convex function is ``z``; raise if that is nowhere."""
        try:
            found = maximize(function, slope, self._divided(slope), z, start)
        except NoInterior as error:
            raise ValueError(
                f"No {type(self).__name__} have the mean parameters at index {error.where}: they lie on the boundary, "
                "like those of one point or of equal points. Use prior='pooled', or floor=1e-3, to estimate them."
            ) from None
        if function == self._bounded and not self._fits(found, z):
            raise ValueError(
                f"The log partition function of {type(self).__name__} is not smooth: its gradient cannot be inverted."
            )
        return found

    def _fits(self, theta: Array, mu: Array) -> bool:
        """Whether the gradient of the log partition function is mu, as checked by differences."""
        xp = namespace(mu)
        return bool(xp.all(xp.abs(self._slope(theta) - mu) <= 1e-6 * (1 + xp.abs(mu))))

    def _require_partition(self) -> None:
        if not self._declares("partition") and not self._declares("legendre"):
            raise NotImplementedError(f"{type(self).__name__} must implement partition(theta)")

    @property
    def _size(self) -> int:
        """Dimension of the standard member."""
        return self.dimension

    # -- what follows ----------------------------------------------------------------------------------------

    @property
    def natural_parameters(self) -> Array:
        """Natural parameters theta, ``(*B, D)``."""
        return self._joined(self.natural())

    @property
    def mean_parameters(self) -> Array:
        """Mean parameters mu = E[statistics], ``(*B, D)``."""
        return self._joined(self.moments())

    def statistics(self, x: Any) -> Array:
        """Sufficient statistics, ``(..., T, d) -> (..., T, D)``; NaN stays NaN."""
        return self._joined(self._any_member().statistic(as_float(x)))

    def log_base(self, x: Any) -> Array:
        """Log base measure, ``(..., T, d) -> (..., T)``."""
        x, member = as_float(x), self._any_member()
        return namespace(x).zeros_like(x[..., 0]) if member.base is None else member._summed(member.base(x))

    def _any_member(self) -> Self:
        """Return a batch of shape ``()`` where something is known, which statistics may depend on."""
        known = any(parameter.known for parameter in self._declared.values())
        return self.reshape(-1)[0] if known and self.shape else self

    def log_partition(self, theta: Array) -> Array:
        """Log partition function, ``(..., D) -> (...)``."""
        member = self._any_member()
        return member._summed(member.partition(member._split(theta)))

    def dual(self, mu: Array) -> Array:
        """Legendre dual of the log partition function, ``(..., D) -> (...)`` (DJS-4)."""
        member = self._any_member()
        return member._summed(member.legendre(member._split(mu)))

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return members with these mean parameters, ``(..., D)`` -> batch of shape ``(...)``."""
        values = self._any_member().from_moments(self._split(mu))
        values = values if isinstance(values, tuple) else (values,)
        new = dict(zip(self._free_names(), map(frozen, values), strict=True))
        for name, parameter in self._declared.items():
            if parameter.known:  # one value for all
                value = getattr(self._any_member(), name)
                new[name] = namespace(value).broadcast_to(value, (*mu.shape[:-1], *value.shape))
        return self._replaced(**new)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho of every pair, ``(*B, n) x (*B, m) -> (*B, n, m)`` (PPK-1)."""
        check_rho(rho)
        self._check_known(other)
        for side in (self, other):
            side._check_finite(rho)
        return self._pairs(other, lambda p, q: p.product(q, float(rho)))

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence KL(p || q) of every pair, ``(*B, n, m)``; +inf where q excludes what p allows."""
        self._check_known(other)
        return self._pairs(other, lambda p, q: p.relative_entropy(q))

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence of every pair, ``(*B, n, m)`` (DJS-2)."""
        self._check_known(other)
        value = self._pairs(other, lambda p, q: p.divergence(q))
        return namespace(value).where(value > 0, value, 0 * value + 0.0)

    @property
    def _least_divergence(self) -> float:
        """Dual divergences below this are rounding: of differences, or where a formula does not cancel much less."""
        return 1e-24 if self._declares("divergence") else 1e-14

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; products that do not exist are refused by the index in this batch."""
        if isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            self._check_finite(coupling.rho)
        return super().couple(coupling, lengths)

    def _check_finite(self, rho: float) -> None:
        """Raise if the product of a member with itself is infinite."""
        always = self.base is not None or self._declares("product") or not self._declared
        if rho == 0.5 or (always and not self._declares("finite")):
            return
        fine = np.asarray(to_numpy(self.finite(rho)))
        if fine.all():
            return
        where = tuple(int(i) for i in np.argwhere(~fine)[0])
        index = where[0] if self.ndim == 1 else where[: self.ndim]
        raise ValueError(
            f"The probability product of {type(self).__name__} at rho = {rho:g} is infinite "
            f"{self._infinite(float(rho), where)} for the distribution at index {index}. Use rho = 0.5, which takes "
            "all."
        )

    def _infinite(self, rho: float, where: tuple[int, ...]) -> str:
        """Say for which parameters a product is infinite, and which were given."""
        named = (f"{name} = {to_numpy(getattr(self, name))[where]}" for name in self._free_names())
        return f"{self._limits(rho)}; got {' and '.join(named)}"

    def _limits(self, rho: float) -> str:
        return "where 2 rho times the natural parameters leave their domain"

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the natural parameters: statistics minus their means, ``(*B, n, T, D)`` (FK-3)."""
        single, x = self._members_by_points(x)
        value = single.statistics(x)[..., None, :, :] - single.mean_parameters[..., :, None, :]
        return value if self.shape else value[..., 0, :, :]

    def fisher_information(self) -> Array:
        """Information of the natural parameters, the covariance of the statistics, ``(*B, D, D)``."""
        return self.information()

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        size = int(self.natural_parameters.shape[-1]) // len(self.labels)
        return [f"{label}[{i}]" for label in self.labels for i in range(size)]

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        return int(self.natural_parameters.shape[-1])

    def pooled(self) -> Self:
        """Return the member with the average mean parameters, as a batch of shape ``(1,)``."""
        self._require_members()
        mu = self.mean_parameters
        return self.with_mean_parameters(namespace(mu).mean(mu, axis=0, keepdims=True))

    def _require_members(self) -> None:
        if 0 in self.shape:
            raise ValueError(f"This batch of {type(self).__name__} is empty; there is nothing to pool.")

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Whether JensenShannon of this family is positive semi-definite (DJS-5)."""
        return self.dual_verdict or Verdict(
            "conditional",
            f"it is not known when the dual divergence of {type(self).__name__} is conditionally negative definite "
            "(DJS-5)",
        )
