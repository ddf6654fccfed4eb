"""Fits of Gaussians: by moments about a centre, with a floor on variances, perhaps shrunk to a prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices, Mask
from mercer._hints import HintedParameters
from mercer._parameters import Rules, nonnegative, one_of
from mercer.data.segments import check_some_points, in_digest_order, segment_sum, segments
from mercer.families.base import FamilyEstimator, moments
from mercer.families.estimator import Context
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_step import fit_gaussians

MOST_STEPS, SMALL = 1000, 1e-10
"""EM of points with missing coordinates: largest number of steps, and smallest change as a fraction of the spread."""


@dataclass(eq=False, repr=False)
class Gaussian(HintedParameters, FamilyEstimator):
    """Fit Gaussians: one to every sample (a point or a set of points), or one to all.

    Parameters
    ----------
    covariance : {"full", "diagonal", "isotropic", "tied"}, default="full"
        Structure of the covariance. With "tied", all states of an `HMM`, or all components of a `Mixture`, share one
        full covariance; elsewhere it is "full".
    floor : float, default=1e-3
        Fraction of the pooled variance (rounded to a power of two; of 1, where the data do not vary) that is added to
        every variance (EST-1), so that one point has a Gaussian too.
    prior : None, "pooled" or Gaussians of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Gaussians of shape (1,)
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
    }

    covariance: str = "full"
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    @property
    def _structure(self) -> str:
        """Structure of the covariance of one Gaussian."""
        return "full" if self.covariance == "tied" else self.covariance

    def _missing_allowed(self) -> bool:
        return True

    def context(self, X: Any) -> Context:
        """Learn the dimension, where the data lie and how they spread, and the pooled model where it is the prior.

        Folds of a cross-validation differ a little in mean and variance. Both are rounded, so that the folds have the
        same context and share their fits: the variance to a power of two, the centre to a coarse grid.
        """
        check_some_points(X)
        x, _ = segments(in_digest_order(X))
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
        return self._with_pooled(x, bare)

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> Any:
        batch: Gaussians = super()._fit_alone(x, offsets, context)
        return self._run_em(batch, x, offsets, context)

    def _gaps(self, x: Floats, offsets: Floats) -> Mask:
        """Whether each sample lacks coordinates that its other ones tell something of, ``(N,)``."""
        if self._structure == "diagonal":
            return np.zeros(len(offsets) - 1, dtype=bool)
        return np.asarray(segment_sum(np.isnan(x).any(axis=1).astype(int), offsets) > 0)

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
