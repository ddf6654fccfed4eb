"""Fits of Gaussians: by moments about a centre, with a floor on variances, perhaps shrunk to a prior."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices, Mask
from mercer._hints import HintedParameters
from mercer._parameters import Rules, nonnegative, one_of
from mercer.data.segments import check_some_points, in_digest_order, segment_sum, segments
from mercer.families._predictive import Predictive
from mercer.families.base import FamilyEstimator, moments
from mercer.families.estimator import Context
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_step import fit_gaussians
from mercer.families.student_t import StudentTs

MOST_STEPS, SMALL = 1000, 1e-10
"""EM of points with missing coordinates: largest number of steps, and smallest change as a fraction of the spread."""


@dataclass(frozen=True)
class WithinContext(Context):
    """The context of data with a known covariance: includes the covariance about the mean of each sample."""

    within: Any = None  # in the shape of the covariance structure


@dataclass(eq=False, repr=False)
class Gaussian(HintedParameters, Predictive, FamilyEstimator):
    """Fit Gaussians: one to every sample (a point or a set of points), or one to all.

    Parameters
    ----------
    covariance : {"full", "diagonal", "isotropic", "tied"}, default="full"
        Structure of the covariance. With "tied", all states of an `HMM`, or all components of a `Mixture`, share one
        full covariance; elsewhere it is "full".
    floor : float, default=1e-3
        Fraction of the pooled variance (rounded to a power of two; of 1, where the data do not vary) that is added to
        every variance (EST-1), so that one point has a Gaussian too.
    estimate : {"point", "predictive", "student"}, default="point"
        What a sample becomes: the Gaussian of its moments, or the distribution of its next point (PPK-2a). For the
        second, all samples have one covariance S, that of the training data about the mean of each sample; the mean of
        a sample has the prior N(m, S / s), with s the ``prior_strength`` and m the mean of the prior, which must be
        given. It takes sets of several points. "student" is the distribution of the next point if the covariance is
        unknown too (`StudentTs`), for full covariances: mean and covariance of a sample have a normal-inverse-Wishart
        prior with the mean and the expected covariance of the prior, and s pseudo-observations of both.
    prior : None, "pooled" or Gaussians of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Gaussians or StudentTs of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Notes
    -----
    Missing coordinates are NaN. Estimates maximize the density of the coordinates that were observed: by EM if
    covariances are full (EST-1b).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.random.default_rng(i).normal(i, 1.0, size=(20 + i, 2)) for i in range(3)]
    >>> mc.Gaussian(prior="pooled").fit_each(sets)
    Gaussians(shape=(3,), structure='full')
    >>> predictive = mc.Gaussian(
    ...     "isotropic", floor=0.0, prior="pooled", estimate="predictive"
    ... )
    >>> predictive.fit_each([[[0.0], [2.0]], [[5.0], [7.0]]]).mean.round(3)
    array([[1.833],
           [5.167]])
    """

    _parameters: ClassVar[Rules] = {
        "covariance": one_of(
            "full",
            "diagonal",
            "isotropic",
            "tied",
            cure="'diag' of other libraries is 'diagonal', 'spherical' is 'isotropic'.",
        ),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "estimate": one_of("point", "predictive", "student"),
    }

    covariance: str = "full"
    floor: float = 1e-3
    estimate: str = "point"
    prior: Any = None
    prior_strength: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.estimate == "student" and self._structure != "full":
            raise ValueError(
                f"estimate='student' needs covariance='full', whose predictive distribution is a Student t; got "
                f"covariance={self.covariance!r}."
            )

    @property
    def _structure(self) -> str:
        """Structure of the covariance of one Gaussian."""
        return "full" if self.covariance == "tied" else self.covariance

    def _missing_allowed(self) -> bool:
        return self._structure == "diagonal" or self.estimate == "point"

    def context(self, X: Any) -> Context:
        """Learn the dimension, where the data lie and how they spread, and the pooled model where it is the prior.

        Folds of a cross-validation differ a little in mean and variance. Both are rounded, so that the folds have the
        same context and share their fits: the variance to a power of two, the centre to a coarse grid.
        """
        check_some_points(X)
        x, offsets = segments(in_digest_order(X))
        with np.errstate(over="ignore", invalid="ignore"):  # overflow raises below
            center, scale = _center_and_scale(x)
        if not np.isfinite(scale).all():
            raise ValueError("The squares of the data overflow. Divide the data by a constant.")
        floor = self.floor * _power_of_two(_varying(float(np.mean(scale)), center, scale.dtype))
        grid = 8 * np.sqrt(
            [_power_of_two(_varying(float(v), c, scale.dtype)) for v, c in zip(scale, center, strict=True)]
        )
        near = np.round(center / grid) * grid + 0.0  # -0.0 becomes 0.0: it has other bytes, hence another digest
        bare = Context(dimension=x.shape[1], center=near, floor=floor)
        found = self._with_pooled(x, bare)
        if self.estimate != "predictive":
            return found
        shared = {field.name: getattr(found, field.name) for field in fields(found)}
        return WithinContext(**shared, within=self._within(x, offsets, bare))

    def _within(self, x: Floats, offsets: Floats, context: Context) -> Floats:
        """Estimate the covariance about the means of the data: squares by degrees of freedom, plus the floor."""
        center = np.asarray(context.center)
        total, mass = moments(x - center, np.ones((len(x), 1)), offsets)
        mean = total / np.maximum(mass, 1) + center
        rest = np.where(np.isnan(x), 0.0, x - np.repeat(mean, np.diff(offsets), axis=0))
        freedom = np.maximum(mass - 1, 0).sum(axis=0)  # of each coordinate where NaN is allowed, else one number
        if not np.all(freedom > 0):
            which = f"in coordinate {int(np.argmin(freedom))} " if len(freedom) > 1 else ""
            raise ValueError(
                f"estimate='predictive' needs sets of points, and no sample has several points {which}that could vary "
                "about their mean. Use estimate='point' for single points."
            )
        if self._structure == "full":
            value = np.stack([_ordered_sum(rest[:, i : i + 1] * rest, offsets) for i in range(rest.shape[1])])
            value = value / freedom + context.floor * np.eye(len(value))
            regular = np.linalg.matrix_rank(value, hermitian=True) == len(value)
        else:
            value = _ordered_sum(np.square(rest), offsets) / freedom + context.floor
            value = np.mean(value) if self._structure == "isotropic" else value
            regular = bool(np.all(value > 0))
        if not regular:
            raise ValueError(
                "The points do not vary enough about the means of their samples for estimate='predictive'. Use sets "
                "of points that do, or floor > 0."
            )
        return np.asarray(value)

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if self.estimate != "predictive":
            return
        within: Any = getattr(context, "within", None)
        if within is None or np.shape(within) != self.template(context).covariance.shape:
            raise ValueError("The context was learned with another covariance or estimate. Call fit again.")

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> Any:
        if self.estimate == "student":
            # Moments shrunk to those of the prior are the posterior scale matrix, divided by the weight s + n.
            point, known = clone(self).set_params(estimate="point"), np.diff(offsets) + self.prior_strength
            found = point._fit_alone(x, offsets, context)
            scale = found.covariance * ((known + 1) / (known + 2))[:, None, None]
            return StudentTs._make(location=found.mean, scale=scale, freedom=known + 2.0)
        if not self._is_predictive:
            batch: Gaussians = super()._fit_alone(x, offsets, context)
            return self._run_em(batch, x, offsets, context)
        prior = self._suited(self._prior_batch(context), self.template(context))
        weights = np.ones((len(x), 1))
        known = moments(x, weights, offsets)[1] + self.prior_strength
        within = np.asarray(context.within)  # type: ignore[attr-defined]
        spread = (1 + 1 / known).reshape((-1,) + (1,) * within.ndim if self._structure != "diagonal" else known.shape)
        return Gaussians._make(
            mean=self._means(x, weights, offsets, context, prior, None),
            covariance=within * spread,
            structure=self._structure,
        )

    def _gaps(self, x: Floats, offsets: Floats) -> Mask:
        """Whether each sample lacks coordinates that its other ones tell something of, ``(N,)``."""
        if self._structure == "diagonal":
            return np.zeros(len(offsets) - 1, dtype=bool)
        return np.asarray(segment_sum(np.isnan(x).any(axis=1).astype(int), offsets) > 0)

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        if not self._missing_allowed():
            self._check_observed(X)

    def _missing_cure(self) -> str:
        return f"With estimate={self.estimate!r}, use covariance='diagonal' for such data, or use estimate='point'."

    def template(self, context: Context) -> Gaussians:
        """Return a Gaussian with the estimator's structure."""
        covariance = {"full": (context.dimension,) * 2, "diagonal": (context.dimension,), "isotropic": ()}
        return Gaussians._make(
            mean=np.zeros(context.dimension),
            covariance=np.zeros(covariance[self._structure]),
            structure=self._structure,
        )

    def statistics(self, x: Any, context: Context) -> Floats:
        """Statistics of points, each with the floor as a variance of its own.

        A point that varies by itself brings the floor into every estimate once: with a prior too, which has it already.
        """
        found = super().statistics(x, context)
        d = context.dimension
        if self._structure == "full":
            found[..., d :: d + 1] += context.floor
        else:
            found[..., d:] += context.floor * (d if self._structure == "isotropic" else 1)
        return found

    def from_mean(self, mu: Floats, context: Context) -> Gaussians:
        """Turn moments into Gaussians."""
        found = self.template(context).with_mean_parameters(mu)
        return found if self._structure == "full" else found._replaced(covariance=np.maximum(found.covariance, 0.0))

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Gaussians:
        """Fit to weighted points by moments, each model about its own mean.

        First the means, then the moments about them: a covariance is then no difference of large numbers, however far
        the data (or the components of a mixture) lie apart. Samples with missing coordinates make one step of EM if
        covariances are not diagonal, from ``start`` or else from independent coordinates.
        """
        self._refuse_weights()
        prior = None
        if self.prior is not None:
            prior = self._suited(self._prior_batch(context), self.template(context))
        gaps = self._gaps(x, offsets)
        if not gaps.any():
            return self._by_moments(x, weights, offsets, context, prior, start)
        found, places = [], []
        for which, fit in ((gaps, self._by_expectations), (~gaps, self._by_moments)):
            if which.any():
                places.append(np.flatnonzero(which))
                rows, ends = _of_samples(which, offsets)
                begin = None if start is None else start[places[-1]]
                found.append(fit(x[rows], weights[rows], ends, context, prior, begin))
        return _in_order(found, places)

    def _by_moments(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, prior: Any, start: Any
    ) -> Gaussians:
        columns, lengths = [], np.diff(offsets)
        for j in range(weights.shape[1]):
            begin = None if start is None else start[:, j]
            means = self._means(x, weights[:, j : j + 1], offsets, context, prior, begin)
            points = x - np.repeat(means, lengths, axis=0)
            total, mass = moments(self.statistics(points, context), weights[:, j : j + 1], offsets)
            about = [None if batch is None else _about(batch, means) for batch in (prior, begin)]
            batch = self.from_mean(self._shrink(total, mass, *about), context)
            columns.append(batch._replaced(mean=batch.mean + means))
        return Gaussians._make(
            mean=np.stack([c.mean for c in columns], axis=1),
            covariance=np.stack([c.covariance for c in columns], axis=1),
            structure=self._structure,
        )

    def _by_expectations(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, prior: Any, start: Any
    ) -> Gaussians:
        """Make one step of EM, of samples with missing coordinates."""
        if start is None:  # every coordinate from the points that have it
            alone = clone(self).set_params(covariance="diagonal", prior=None if prior is None else _diagonal(prior))
            start = alone.fit_weighted(x, weights, offsets, context)
            if self._structure == "full":
                start = start._as_full()
            else:
                variance = start.covariance.mean(axis=-1)
                start = Gaussians._make(mean=start.mean, covariance=variance, structure="isotropic")
        return fit_gaussians(x, weights, offsets, context.floor, start, prior, float(self.prior_strength))

    def _run_em(self, current: Gaussians, x: Any, offsets: Floats, context: Context) -> Gaussians:
        """Continue EM of samples with missing coordinates to maxima of the density of what was observed."""
        moving, active = self._gaps(x, offsets), np.arange(len(current))
        finished, places = [], []
        for step in range(MOST_STEPS + 1):
            finished.append(current[np.flatnonzero(~moving)])
            places.append(active[~moving])
            if not moving.any():
                break
            rows, offsets = _of_samples(moving, offsets)
            x, active, current = x[rows], active[moving], current[np.flatnonzero(moving)]
            after = self.fit_weighted(x, np.ones((len(x), 1)), offsets, context, start=current.reshape(-1, 1))[:, 0]
            moving, current = _moves(current, after) & (step + 1 < MOST_STEPS), after
        return _in_order(finished, places)

    def _means(self, x: Any, weights: Floats, offsets: Floats, context: Context, prior: Any, start: Any) -> Floats:
        """Posterior means ``(N, d)``, summed about the centre of all data, which keeps digits."""
        total, mass = moments(x - context.center, weights, offsets)
        mu0 = None if prior is None else np.asarray(prior.mean) - context.center
        begin = None if start is None else np.asarray(start.mean) - context.center
        return np.asarray(self._shrink(total, mass, mu0, begin) + context.center)


def _center_and_scale(x: Floats) -> tuple[Floats, Floats]:
    """Return the means and variances of the coordinates of points; NaN is left out."""
    seen = ~np.isnan(x)
    if seen.all():
        return x.mean(axis=0), x.var(axis=0)
    count = np.maximum(seen.sum(axis=0), 1).astype(x.dtype)  # for an unobserved coordinate both are 0
    center = np.where(seen, x, 0.0).sum(axis=0) / count
    return center, (np.where(seen, x - center, 0.0) ** 2).sum(axis=0) / count


def _ordered_sum(values: Floats, offsets: Floats) -> Floats:
    """Add up the sums over the data, the smallest first: the same bits for any order of the data."""
    return np.asarray(np.sort(segment_sum(values, offsets), axis=0).sum(axis=0))


def _varying(variance: float, center: Any, dtype: Any) -> float:
    """Return a variance; 1 where the data vary only by rounding, or not at all."""
    size = float(np.mean(np.square(center)))
    return variance if variance > (8 * float(np.finfo(dtype).eps)) ** 2 * size else 1.0


def _power_of_two(x: float) -> float:
    return float(2.0 ** np.round(np.log2(x)))


def _about(batch: Gaussians, center: Floats) -> Floats:
    """Moments of a batch of shape (1,) or (N,) about every one of N centres."""
    which = np.zeros(len(center), dtype=int) if len(batch) == 1 else np.arange(len(center))
    batch = batch[which]
    return np.asarray(batch._replaced(mean=np.asarray(batch.mean) - center).mean_parameters)


def _diagonal(batch: Gaussians) -> Gaussians:
    """Return Gaussians with the same variances of the coordinates, which are independent."""
    variances = np.diagonal(batch._as_full().covariance, axis1=-2, axis2=-1)
    return Gaussians._make(mean=batch.mean, covariance=variances, structure="diagonal")


def _of_samples(which: Mask, offsets: Floats) -> tuple[Mask, Indices]:
    """Return which points some samples have, and their offsets."""
    lengths = np.diff(offsets)
    return np.repeat(which, lengths), np.concatenate([[0], np.cumsum(lengths[which])])


def _in_order(parts: list[Gaussians], places: list[Indices]) -> Gaussians:
    """Join batches whose members have the given places."""
    joined: Gaussians = parts[0] if len(parts) == 1 else Gaussians.concat(parts)[np.argsort(np.concatenate(places))]
    return joined


def _moves(before: Gaussians, after: Gaussians) -> Mask:
    """Whether a mean or a covariance of each of N Gaussians changes by more than a small part of its spread."""
    sd = np.sqrt(_diagonal(after).covariance)
    change = [np.abs(b - a) for a, b in zip(_moments(before), _moments(after), strict=True)]
    mean, spread = change[0] > SMALL * sd, change[1] > SMALL * sd[..., :, None] * sd[..., None, :]
    return np.asarray(mean.any(axis=1) | spread.any(axis=(1, 2)))


def _moments(batch: Gaussians) -> tuple[Floats, Floats]:
    return np.asarray(batch.mean), np.asarray(batch._as_full().covariance)
