"""Estimators of exponential families: ``class Poisson(FamilyEstimator, of=Poissons)`` fits what `Poissons` declares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats
from mercer._parameters import NONE, one_of
from mercer._parameters import nonnegative as nonnegative_number
from mercer._parameters import positive as positive_number
from mercer.data.segments import check_coordinates, in_digest_order, mapped, point_name, segment_sum, segments
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.sets import LARGEST, check_summable, nonnegative, positive

SMALLEST = 1e-300
"""Positive numbers below this have inverses that may overflow."""
DOCUMENTED = {
    "smallest": """smallest : float or None, default=None
        Smaller numbers, such as zeros, are replaced by it: the smallest value that could be measured, for example.
        None takes positive data only.""",
    "floor": """floor : float, default=1e-3
        How far the statistics of every point are moved into the interior of their range, so that one point, or equal
        points, have a distribution too.""",
    "weak floor": """floor : float, default=1e-3
        Weight of the standard member, in observations, so that one point, or equal points, have a distribution too.""",
    "prior": """prior : None, "pooled" or {family} of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).""",
    "prior_strength": """prior_strength : float, default=1.0
        Weight of the prior, in observations.""",
    "estimate": """estimate : {{"point", "predictive"}}, default="point"
        The member at the MAP estimate, or the predictive distribution: the average of the members over the posterior
        (PPK-2a), which needs a prior.""",
}
ATTRIBUTES = """
    Attributes
    ----------
    model_ : {family} of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.
    """


class FamilyEstimator(Estimator):
    """An exponential family fitted by moments: maximum likelihood, or conjugate MAP with a prior (DJS-6).

    mu = (n0 mu0 + sum of statistics) / (n0 + n), with n0 = ``prior_strength`` and mu0 the mean parameters of the prior:
    the posterior mean of mu, and the MAP of theta, under the conjugate prior.

    A subclass names its family: ``class Poisson(FamilyEstimator, of=Poissons)``. Constants and known parameters of the
    family become parameters of the estimator, and so do ``smallest`` where data must be positive, ``floor`` where one
    point has no estimate, and ``estimate`` where the family has a predictive distribution. Without ``of``, a subclass
    writes `template`.

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
    family: ClassVar[Any] = None
    """The plural."""
    largest: ClassVar[float] = LARGEST
    """Data beyond this are refused, since sums could overflow."""
    _weak: ClassVar[bool] = False
    """Whether estimates have a weak prior, the standard member, since those on the boundary do not exist."""

    if TYPE_CHECKING:  # the parameters of subclasses follow from their families

        def __init__(self, *args: Any, **parameters: Any) -> None: ...

    else:

        def __init__(self, prior: Any = None, prior_strength: float = 1.0) -> None:
            self.prior = prior
            self.prior_strength = prior_strength

    def __init_subclass__(cls, of: Any = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if of is None:  # the name of earlier versions
            of = vars(cls).get("family")
        if of is None:
            return
        cls.family = of
        if "_singular" not in vars(of):
            of._singular = cls
        _declare(cls, of)

    # -- what the declaration says -----------------------------------------------------------------------------

    def template(self, context: Context) -> Any:
        """Return the standard member of the family, of shape ``()``: it makes statistics, and members from means."""
        if self.family is None:
            raise NotImplementedError(f"{type(self).__name__} must implement template(context)")
        constants = {name: getattr(self, name) for name in self.family._shared if hasattr(self, name)}
        standard = self.family.standard(context.dimension, **constants)
        known = {n: p for n, p in self.family._declared.items() if p.known and getattr(self, n) is not None}
        checked = {n: p.known_value(getattr(self, n), context.dimension) for n, p in known.items()}
        if not checked:
            return standard
        return standard._replaced(**{n: np.broadcast_to(v, getattr(standard, n).shape) for n, v in checked.items()})

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix or `Sequences` with values in the support of the family."""
        if self.family is None or self.takes == "symbols":
            return super().accept(X, **options)
        self._check_parameters()
        X = self._converted(super().accept(X, **options))
        self._check_support(segments(X)[0], X)
        return X

    def _check_support(self, x: Any, X: Any) -> None:
        """Raise if a point lies outside of the support, or is so large that sums could overflow."""
        who = type(self).__name__
        self.family.support.check(x, who, X)
        check_summable(x, who, X, self.largest)
        tiny = np.argwhere(x < SMALLEST) if self.family.support is positive else np.empty((0, 2), dtype=int)
        if len(tiny):
            row, column = tiny[0].tolist()
            raise ValueError(
                f"The data of {who} must be at least {SMALLEST:g}, so that their inverses are finite; got "
                f"{x[row, column]:.6g} at {point_name(X, row)}, column {column}. Multiply the data by a constant, or "
                f"use smallest={SMALLEST:g}."
            )

    def _converted(self, X: Any) -> Any:
        """Move data into the support, if a parameter requests it."""
        smallest = getattr(self, "smallest", None)
        if smallest is None:
            return X
        nonnegative.check(segments(X)[0], type(self).__name__, X)
        return mapped(X, lambda x: np.maximum(x, np.asarray(smallest, dtype=x.dtype)))

    def statistics(self, x: Any, context: Context) -> Floats:
        """Sufficient statistics of points, ``(T, D)``, NaN where missing; moved inside where there is a floor."""
        member = self.template(context)
        found = member.statistics(x)
        if getattr(member, "inward", None) is not None:
            found = member._joined(member.inward(member._split(found), float(self.floor)))
        return np.asarray(found)

    def from_mean(self, mu: Floats, context: Context) -> Any:
        """Turn mean parameters ``(..., D)`` into a batch of shape ``(...)``."""
        return self.template(context).with_mean_parameters(mu)

    def _missing_allowed(self) -> bool:
        return self.family is not None and self.family.independent

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.family is not None and self.takes == "vectors":
            tags.input_tags.positive_only = self.family.support.positive_only and self.family.support.name != "binary"
        return tags

    # -- estimates by moments ------------------------------------------------------------------------------------

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
        if self._weak:
            weight = float(self.floor) * (mass > 0)
            total, mass = total + weight * np.asarray(self.template(context).mean_parameters), mass + weight
        batch = self.from_mean(self._shrink(total, mass, mu0, begin), context)
        return self._predicted(batch, mass + self.prior_strength)

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

    # -- the predictive distribution -----------------------------------------------------------------------------

    @property
    def _is_predictive(self) -> bool:
        return getattr(self, "estimate", "point") == "predictive"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._is_predictive and (self.prior is None or not self.prior_strength > 0):
            raise ValueError(
                "estimate='predictive' averages over a posterior and needs a prior of positive strength; got "
                f"prior={self.prior!r}, prior_strength={self.prior_strength!r}. Use prior='pooled'."
            )

    def _predicted(self, batch: Any, counts: Floats) -> Any:
        """Return a fitted batch, or what it predicts after ``counts (..., 1)`` observations in all."""
        if not self._is_predictive or self.prior is None:  # the pooled model is a point estimate
            return batch
        if counts.ndim == 3 and counts.shape[1] > 1:
            self.require_point()
        return batch.predictive(counts)

    def require_point(self) -> None:
        """Raise if estimates are predictive distributions, which components and emissions cannot be."""
        if self._is_predictive:
            raise ValueError(
                "estimate='predictive' is the distribution of a whole sample; components of mixtures and emissions are "
                "point estimates. Use estimate='point'."
            )


CoordinatewiseEstimator = FamilyEstimator
"""The name of earlier versions, whose subclasses say ``family = Poissons``."""


def _declare(cls: Any, of: Any) -> None:
    """Give an estimator the parameters, their checks and their documentation that follow from its family."""
    own: dict[str, Any] = {name: constant.default for name, constant in of._constants.items()}
    rules: dict[str, Any] = {name: constant.rule for name, constant in of._constants.items()}
    own |= {name: None for name, parameter in of._declared.items() if parameter.known}
    if of.support is positive:
        own["smallest"], rules["smallest"] = None, positive_number("Use None for positive data.") | NONE
    closed = any(p.moment for p in of._declared.values()) or not issubclass(of, ExponentialFamily)
    cls._weak = of._declared and of.inward is None and not (closed or of._declares("from_moments"))
    if of._declared and (of.inward is not None or cls._weak):
        own["floor"], rules["floor"] = 1e-3, nonnegative_number()
    if of._declared and of._declares("predictive"):
        own["estimate"], rules["estimate"] = "point", one_of("point", "predictive")
    own |= {"prior": None, "prior_strength": 1.0}
    if "__init__" not in vars(cls):
        given = vars(cls).get("__annotations__", {})
        cls.__annotations__ = {n: a for n, a in given.items() if n not in own} | dict.fromkeys(own, Any)
        for name, default in own.items():
            if name not in vars(cls):
                setattr(cls, name, field(default=default))
        dataclass(eq=False, repr=False)(cls)
    cls._parameters = rules | vars(cls).get("_parameters", {})
    _document(cls, of.__name__, list(own))


def _document(cls: Any, family: str, names: list[str]) -> None:
    """Add the section of parameters to a docstring that has none."""
    text = cls.__doc__ if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(") else f"Fit {family}."
    if "Parameters\n    ---" in text:
        return
    entries = ["weak floor" if name == "floor" and cls._weak else name for name in names]
    unknown = "{name} : object\n        The {name} of all members, which is not estimated."
    sections = "\n    ".join(
        DOCUMENTED.get(name, unknown.replace("{name}", name)).format(family=family) for name in entries
    )
    own = f"Parameters\n    ----------\n    {sections}\n" + ATTRIBUTES.format(family=family)
    summary, mark, examples = text.rstrip().partition("\n\n    Examples\n")
    cls.__doc__ = f"{summary}\n\n    {own}" + (f"\n    Examples\n{examples}\n    " if mark else "")


def moments(statistics: Floats, weights: Floats, offsets: Floats) -> tuple[Floats, Floats]:
    """Weighted sums of statistics ``(T, D)`` over every sample, and the weight in them; NaN is left out."""
    seen = ~np.isnan(statistics)
    if seen.all():
        return segment_sum(weights * statistics, offsets), segment_sum(weights, offsets)
    filled = np.where(seen, statistics, 0.0)
    return segment_sum(weights * filled, offsets), segment_sum(weights * seen, offsets)


def predictive(prior: ExponentialFamily, strength: Any, totals: Any, counts: Any) -> Any:
    """Return the posterior predictive distributions of a conjugate prior (PPK-2a).

    Parameters
    ----------
    prior : batch of an exponential family
        Its mean parameters are those of the conjugate prior.
    strength : float
        Weight of the prior, in observations.
    totals : array of shape (..., D)
        Sums of the sufficient statistics of each sample.
    counts : array of shape (...)
        Number of observations in each sample.

    Returns
    -------
    Family of shape (...)

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.predictive(mc.Poissons([[2.0]]), 3.0, [[4.0], [0.0]], [2, 0])
    >>> p, p.rate
    (NegativeBinomials(shape=(2,)), array([[2.],
           [2.]]))
    """
    n = strength + np.asarray(counts, dtype=float)[..., None]
    mu = (strength * np.asarray(prior.mean_parameters) + np.asarray(totals)) / n
    return prior.with_mean_parameters(mu).predictive(n)
