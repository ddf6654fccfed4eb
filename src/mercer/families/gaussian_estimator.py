"""Fits of Gaussians: by moments about a centre, with a floor on variances, perhaps shrunk to a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices, Mask, to_numpy
from mercer._hints import HintedParameters
from mercer._native.moments import moments
from mercer._parameters import Rules, nonnegative, one_of
from mercer.data.segments import check_some_points, in_digest_order, sample_name, segment_sum, segments
from mercer.families.estimator import Context
from mercer.families.fit import FamilyEstimator
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_gaps import gaps_of
from mercer.families.linear_gaussian import LinearGraph

MOST_STEPS, SMALL = 1000, 1e-10
"""EM of points with missing coordinates: largest number of steps, and smallest change as a fraction of the spread."""


@dataclass(eq=False, repr=False)
class Gaussian(HintedParameters, FamilyEstimator):
    r"""Fit Gaussians: one to every sample (a vector, or a point set), or one to all.

    Parameters
    ----------
    covariance : {"full", "diagonal", "isotropic", "tied"}, default="full"
        Structure of the covariance. One Gaussian of all data has enough of them for a full one; `HMM` and `Mixture`,
        which divide the data among states or components, use "diagonal" unless told otherwise. With "tied", all
        states of an `HMM`, or all components of a `Mixture`, share one full covariance; elsewhere it is "full".
    floor : float, default=1e-3
        Fraction of the pooled variance (rounded to a power of two; of 1, where the data do not vary) that is added to
        every variance (EST-1), so that one point has a Gaussian too.
    estimate : {"point", "predictive"}, default="point"
        The member at the MAP estimate, or the predictive distribution: the average of the members over the posterior
        (PPK-2a), a Student t distribution, for which covariances are full or isotropic. It needs a prior.
    parents : dict, default=None
        A linear Gaussian network: the parents of each node, as in ``{"x": [], "y": ["x"]}``. Nodes that are not hidden
        are the columns of the data, in this order; the columns of data frames are found by name. Every node is a key.
    hidden : sequence of nodes, default=()
        Nodes of ``parents`` that are not observed. They are integrated out: the distributions are those of the others.
    prior : None, "pooled" or Gaussians of shape (1,), default=None
        What estimates are shrunk to, in mean parameters (DJS-6).
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : Gaussians of shape (1,)
        What ``fit`` learned.
    network_ : LinearNetwork
        Its offset, coefficients and noise, if there are ``parents`` and no hidden nodes.
    context_ : Context
        Properties of the training data that all models share.

    Notes
    -----
    With ``parents``, moments are replaced by those of the network that is closest to them, in which each node is
    regressed on its parents (PPK-4.4),

    .. math:: p(x_1, \dots, x_N) = \prod_i \mathcal N\Big(x_i;\ b_{i,0} + \sum_{j \in pa(i)} b_{i,j} x_j,\ S_i\Big)

    Hidden nodes are learned by EM, at most 1,000 steps. A prior then is a Gaussian of all nodes, in the order of
    ``parents``.

    Missing coordinates are NaN. Estimates maximize the density of the coordinates that were observed: by EM if
    covariances are full (EST-1b).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.random.default_rng(i).normal(i, 1.0, size=(20 + i, 2)) for i in range(3)]
    >>> mc.Gaussian(prior="pooled").fit_each(sets)
    Gaussians(shape=(3,), structure='full')
    >>> mc.Gaussian(parents={"a": [], "b": ["a"]}).fit(sets).network_.coefficients.shape
    (1, 2, 2)
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
        "estimate": one_of("point", "predictive"),
    }

    covariance: str = "full"
    floor: float = 1e-3
    estimate: str = "point"
    parents: Any = None
    hidden: Any = ()
    prior: Any = None
    prior_strength: float = 1.0

    @property
    def _graph(self) -> LinearGraph | None:
        return None if self.parents is None else LinearGraph.of(self.parents, self.hidden)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._graph is None and len(self.hidden):
            raise ValueError(f"hidden names nodes of parents, which is None; got {self.hidden!r}. Pass parents.")
        if self._graph is not None and self.covariance != "full":
            raise ValueError(f"parents needs covariance='full', whose entries they determine; got {self.covariance!r}.")

    def accept(self, X: Any, **options: Any) -> Any:
        """Validate the data; with ``parents``, columns are put in the order of the nodes."""
        graph = self._graph
        if graph is None:
            return super().accept(X, **options)
        X = super().accept(graph.in_columns(X), **options)
        graph.check_width(segments(X)[0].shape[1])
        return X

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one Gaussian to all data; it becomes ``model_``, a batch of shape ``(1,)``."""
        super().fit(X, y)
        graph = self._graph
        self.__dict__.pop("network_", None)
        if graph is not None and not graph.hidden:
            self.network_ = graph.regressed(self.model_)
        return self

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        graph = self._graph
        if graph is not None and self.prior is None and self.floor == 0:
            graph.check_points(np.diff(offsets), lambda i: sample_name(X, i))

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
        found, graph = self._with_pooled(x, bare), self._graph
        if graph is not None and graph.hidden and isinstance(self.prior, str):  # the prior has hidden nodes
            alone = clone(self).set_params(prior=None)
            found = replace(found, pooled=alone._fit_nodes(graph, x, np.array([0, len(x)]), bare))
        return found

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> Any:
        if self._is_predictive and self.prior is not None and np.isnan(x).any():
            raise ValueError("estimate='predictive' needs points without missing coordinates (NaN). Fill them in.")
        graph = self._graph
        if graph is not None and graph.hidden:
            return self._fit_nodes(graph, x, offsets, context).marginal(list(graph.observed))
        batch: Gaussians = super()._fit_alone(x, offsets, context)
        return self._predicted(
            self._run_em(batch, x, offsets, context), self.prior_strength + np.diff(offsets)[:, None]
        )

    def _fit_nodes(self, graph: LinearGraph, x: Any, offsets: Floats, context: Context) -> Gaussians:
        """Fit the Gaussians of all nodes, hidden ones too, whose values are missing."""
        known = clone(self).set_params(parents=None, hidden=(), prior=None, covariance="diagonal")
        prior = None if self.prior is None else self._prior_batch(context)
        everything = clone(self).set_params(hidden=(), prior=prior)
        wide = replace(context, dimension=len(graph.names), center=np.zeros(len(graph.names)), pooled=None)
        if prior is None:
            start = graph.start(known._fit_alone(x, offsets, context))
        else:
            everything._suited(prior, everything.template(wide))
            start = graph.projected(prior[np.zeros(len(offsets) - 1, dtype=int)])
        return everything._run_em(start, graph.with_hidden(x), offsets, wide)

    def _gaps(self, x: Floats, offsets: Floats) -> Mask:
        """Whether each sample lacks coordinates that its other ones tell something of, ``(N,)``."""
        if self._structure != "full":
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

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Gaussians:
        """Fit to weighted points by moments, each model about its own mean.

        Samples that lack coordinates make one step of EM if covariances are full, from ``start`` or else from
        independent coordinates.
        """
        prior = None
        if self.prior is not None:
            prior = self._suited(self._prior_batch(context), self.template(context))
        if start is None:
            start = self._begin(x, weights, offsets, context, prior)
        return self.structured(
            fit_gaussians(x, weights, offsets, context.floor, start, prior, float(self.prior_strength))
        )

    def structured(self, found: Gaussians) -> Gaussians:
        """Return the distributions of the networks closest to fitted ones; without ``parents``, these themselves."""
        graph = self._graph
        if graph is None or found.structure != "full":
            return found
        if graph.hidden:
            raise TypeError(
                "Gaussian(hidden=...) is fitted to whole samples; it cannot be a component or an emission. Leave the "
                "hidden nodes out of parents."
            )
        return graph.projected(found)

    def _begin(self, x: Any, weights: Floats, offsets: Floats, context: Context, prior: Any) -> Gaussians:
        """Return the prior, or a point near all data; of samples with gaps, every coordinate from points that have it.

        Sums are made about the means of the result, which keeps digits.
        """
        known = self.template(context)._replaced(mean=context.center) if prior is None else prior[0]
        shape = len(offsets) - 1, weights.shape[1]
        mean, covariance = (np.broadcast_to(part, (*shape, *part.shape)) for part in (known.mean, known.covariance))
        gaps = self._gaps(x, offsets)[:, None, None]
        if gaps.any():
            alone = clone(self).set_params(covariance="diagonal", prior=None if prior is None else _diagonal(prior))
            found = alone.fit_weighted(x, weights, offsets, context)._as_full()
            mean = np.where(gaps, found.mean, mean)
            covariance = np.where(gaps[..., None], found.covariance, covariance)
        return Gaussians._make(mean=mean, covariance=covariance, structure=self._structure)

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


def _center_and_scale(x: Floats) -> tuple[Floats, Floats]:
    """Return the means and variances of the coordinates of points; NaN is left out."""
    seen = ~np.isnan(x)
    if seen.all():
        return x.mean(axis=0), x.var(axis=0)
    count = np.maximum(seen.sum(axis=0), 1).astype(x.dtype)  # for an unobserved coordinate both are 0
    center = np.where(seen, x, 0.0).sum(axis=0) / count
    return center, (np.where(seen, x - center, 0.0) ** 2).sum(axis=0) / count


def _varying(variance: float, center: Any, dtype: Any) -> float:
    """Return a variance; 1 where the data vary only by rounding, or not at all."""
    size = float(np.mean(np.square(center)))
    return variance if variance > (8 * float(np.finfo(dtype).eps)) ** 2 * size else 1.0


def _power_of_two(x: float) -> float:
    return float(2.0 ** np.round(np.log2(x)))


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


def fit_gaussians(
    x: Floats,
    weights: Floats,
    offsets: Floats,
    floor: float,
    start: Gaussians,
    prior: Any = None,
    strength: float = 0.0,
) -> Gaussians:
    """Fit Gaussians to weighted points, shrunk to a prior in mean parameters (DJS-6): means, then central moments.

    Missing coordinates are left out if covariances are diagonal or isotropic, which is exact. With full covariances,
    ``start`` says what is expected of them: the fit is one step of EM, which never decreases the density of what was
    observed.

    Parameters
    ----------
    x : ndarray of shape (T, d)
        Points; NaN is missing.
    weights : ndarray of shape (T, k)
        Weight of each point in each of the k Gaussians.
    offsets : ndarray of int of shape (N + 1,)
        Sample i has the points ``offsets[i]:offsets[i + 1]``.
    floor : float
        Variance of each point (EST-1).
    start : Gaussians of shape (N, k)
        The result where all weights are zero; its structure is that of the fit, and it completes points.
    prior : Gaussians of shape (1, k) or (1,), default=None
        The Gaussians that estimates are shrunk to.
    strength : float, default=0.0
        Weight of the prior, in observations.

    Returns
    -------
    Gaussians of shape (N, k)
    """
    x, weights = (np.ascontiguousarray(a, dtype=np.float64) for a in (x, weights))
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    old = np.array(to_numpy(start.mean), dtype=np.float64)
    full, lacking = start.structure == "full", np.asarray(np.isnan(x).any(axis=1))
    incomplete = _expected_sums(x, weights, offsets, floor, start) if full and lacking.any() else None
    if incomplete is not None:
        weights = np.where(lacking[:, None], 0.0, weights)
    mass, total, _, _ = moments(x, weights, offsets, old, first=True)
    noise = floor * mass  # every point varies by itself
    if incomplete is not None:
        mass, total = mass + incomplete.mass[..., None], total + incomplete.first
    if prior is not None:
        single = prior.reshape(1, 1) if prior.ndim == 1 else prior
        m0, s0 = to_numpy(single.mean), to_numpy(single.covariance)
        total, mass = total + strength * (m0 - old), mass + strength
    empty = mass <= 0
    mean = old + total / np.where(empty, 1.0, mass)
    central = moments(x, weights, offsets, mean, second=not full, full=full)
    second = central.full if full else central.second
    covariance = to_numpy(start.covariance)
    if full:
        second += noise[..., None] * np.eye(mean.shape[-1])
        if incomplete is not None:
            second += _moved(incomplete, mean - old)
        if prior is not None:
            difference = m0 - mean
            second += strength * (s0 + difference[..., :, None] * difference[..., None, :])
        found = np.where(empty[..., None], covariance, second / np.where(empty, 1.0, mass)[..., None])
    else:
        second += noise
        if prior is not None:
            spread = s0 if start.structure == "diagonal" else s0[..., None]
            second += strength * (spread + (m0 - mean) ** 2)
        found = second / np.where(empty, 1.0, mass)
        if start.structure == "isotropic":
            found, empty, count = found.mean(axis=-1), np.asarray(empty.all(axis=-1)), mass.sum(axis=-1)
            uneven = (mass != mass[..., :1]).any(axis=-1)  # coordinates count by how often they were observed
            found = np.where(uneven, second.sum(axis=-1) / np.where(uneven, count, 1.0), found)
        found = np.where(empty, covariance, found)
    return Gaussians._make(mean=mean, covariance=found, structure=start.structure)


def _moved(sums: _Sums, change: Floats) -> Floats:
    """Return the second moments about means that are larger by ``change``."""
    cross = sums.first[..., :, None] * change[..., None, :]
    square = change[..., :, None] * change[..., None, :]
    found = sums.second - cross - cross.swapaxes(-2, -1) + sums.mass[..., None, None] * square
    return np.asarray((found + found.swapaxes(-2, -1)) / 2)


class _Sums(NamedTuple):
    """Expected sums over points with missing coordinates, about the means of N x n Gaussians."""

    mass: Floats
    """Sum of the weights, ``(N, n)``."""
    first: Floats
    """Sum of w E[x - mean], ``(N, n, d)``."""
    second: Floats
    """Sum of w E[(x - mean)(x - mean)'], ``(N, n, d, d)``."""


def _expected_sums(x: Floats, weights: Floats, offsets: Indices, floor: float, current: Gaussians) -> _Sums:
    """Sum what current Gaussians with full covariances expect of incomplete points, given the coordinates they have.

    A missing coordinate is ``mean_m + S_mo S_oo^-1 (x_o - mean_o)`` with the covariance ``S_mm - S_mo S_oo^-1 S_om``.
    Each coordinate that is observed has the variance ``floor`` of its own (EST-1). Parameters as in `fit_gaussians`.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=np.float64) for part in (current.mean, current.covariance))
    n, d = mean.shape[1:]
    total = _Sums(np.zeros(mean.shape[:2]), np.zeros(mean.shape), np.zeros(covariance.shape))
    for part in gaps_of(x, np.repeat(np.arange(len(mean)), np.diff(offsets))).blocks(n):
        points, shares, center = x[part.rows], weights[part.rows], mean[part.owner]
        ends = np.ascontiguousarray(part.offsets, dtype=np.int64)
        mass = segment_sum(shares, ends)
        _, first, _, second = moments(points, shares, ends, center, first=True, full=True)
        own, seen = covariance[part.owner], part.seen[:, None, :, None]
        second = np.where(part.both, second + mass[..., None, None] * floor * np.eye(d), 0.0)
        # E[x - mean] = gain (x - mean), of what is seen
        gain = np.where(seen, np.eye(d), own @ part.precisions(covariance))
        unseen = ~seen & ~seen.swapaxes(-2, -1)
        spread = np.where(unseen, own - gain @ own, 0.0)
        np.add.at(total.mass, part.owner, mass)
        np.add.at(total.first, part.owner, (gain @ first[..., None])[..., 0])
        np.add.at(total.second, part.owner, gain @ second @ gain.swapaxes(-2, -1) + mass[..., None, None] * spread)
    return total
