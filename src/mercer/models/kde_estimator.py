"""The estimator of kernel density estimates: it chooses a bandwidth for each set of points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from mercer._array import Floats
from mercer._batch import Batch
from mercer._parallel import n_threads, thread_map
from mercer._parameters import Rules, nonnegative, one_of, positive
from mercer.data import Sequences
from mercer.data.segments import in_digest_order, sample_name, segment_sum, segments
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._ragged_points import Points, two_sums
from mercer.models.kde import KDEs

if TYPE_CHECKING:
    from mercer._native.points import PointSets

RULES = ("silverman", "lscv")


@dataclass(eq=False, repr=False)
class KDE(Estimator):
    r"""Fit kernel density estimates: one per sample (a set of points), or one to the points of all samples.

    Parameters
    ----------
    bandwidth : "silverman", "lscv" or float, default="silverman"
        The variance of each coordinate around a point: chosen by Silverman's rule, by least-squares cross-validation
        (EST-6), or given.
    floor : float, default=1e-3
        Lower bound of chosen bandwidths, as a fraction of the pooled variance (rounded to a power of two; 1 if the data
        do not vary), so that a single point, or equal points, have a density. It does not apply to a given bandwidth.
    prior : None, "pooled" or KDEs of shape (1,), default=None
        The scale that chosen bandwidths are shrunk to: one scale for all training data, or that of a given estimate.
    prior_strength : float, default=1.0
        Weight of the prior, in points.

    Attributes
    ----------
    model_ : KDEs of shape (1,)
        The estimate learned by ``fit``: all points, and one bandwidth.
    context_ : Context
        Properties of the training data that all estimates share, learned by ``fit``.

    Notes
    -----
    Silverman's rule :math:`h = s\,(4/((d+2)m))^{2/(d+4)}`, with :math:`s` the average variance of the coordinates, is
    optimal for isotropic Gaussian data and oversmooths clusters. Cross-validation (EST-6) minimizes

    .. math:: \frac1{m^2}\sum_{ij} \mathcal N(x_i-x_j; 0, 2hI) - \frac2{m(m-1)}\sum_{i\ne j}\mathcal N(x_i-x_j; 0, hI),

    the integrated squared error up to a constant, between the floor and four times Silverman's variance. It is noisy
    for few points. With a prior, the scale :math:`b = h\,m^{2/(d+4)}`, which does not depend on the size of a set,
    becomes :math:`\log b = (m \log b + n_0 \log b_0)/(m + n_0)`, where :math:`n_0` is the strength of the prior. With
    "pooled", :math:`\log b_0` is the average of :math:`\log b` over the training data. A set with a single point gets
    the scale of the prior.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(rng.choice([-3.0, 3.0], (n, 1)), 0.5) for n in (100, 200)]
    >>> mc.KDE().fit_each(sets).bandwidth.round(2)
    array([1.64, 1.25])
    >>> mc.KDE(bandwidth="lscv").fit_each(sets).bandwidth.round(2)
    array([0.11, 0.06])
    """

    _parameters: ClassVar[Rules] = {
        "bandwidth": one_of(*RULES) | positive("A number is a variance."),
        "floor": nonnegative("It is a fraction of the pooled variance."),
    }

    bandwidth: str | float = "silverman"
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.prior, Batch) and not isinstance(self.prior, KDEs):
            kind = type(self.prior).__name__
            raise TypeError(f"prior must be KDEs; got {kind}. Use None, 'pooled' or KDEs of shape (1,).")

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Convert ``X`` to a matrix (each row is a sample of one point) or `Sequences`, without missing values."""
        X = super().accept(X, owner=owner, reset=reset, context=context)
        if isinstance(X, Sequences):
            self._check_observed(X)
        return X

    def _check_data(self, X: Any, offsets: Floats) -> None:
        empty = np.flatnonzero(np.diff(offsets) == 0)
        if len(empty):
            raise ValueError(f"{sample_name(X, empty[0])} is empty; a density needs at least one point. Leave it out.")

    def context(self, X: Any) -> Context:
        """Learn the dimension, the smallest bandwidth (as `Gaussian` learns its floor) and the pooled scale."""
        found = Gaussian("diagonal", floor=self.floor).context(X)
        bare = Context(dimension=found.dimension, floor=float(found.floor))
        if not isinstance(self.prior, str):
            return bare
        points = Points(*segments(in_digest_order(X)))
        scale = pooled_scale(self._alone(points, bare), points.sizes, bare.dimension)
        origin = Points(np.zeros((1, bare.dimension)), [0, 1])
        return replace(bare, pooled=KDEs(origin, scale if scale > 0 else max(bare.floor, np.finfo(float).tiny)))

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> NoReturn:
        """Raise TypeError: points have no weights, so kernel density estimates cannot be components."""
        raise TypeError(
            "Kernel density estimates cannot be components of other models, because their points have no weights. Use "
            "mc.Gaussian()."
        )

    def _fit_named(self, X: Any, context: Context, name: Any) -> KDEs:
        return self._estimates(*segments(X), context, name)

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> KDEs:
        return self._estimates(x, offsets, context, lambda _: "the set of all points")

    def _estimates(self, x: Any, offsets: Floats, context: Context, name: Any) -> KDEs:
        points, prior = Points(x, offsets), self._prior_batch(context)
        if prior is not None and prior.dimension != context.dimension:
            raise ValueError(
                f"prior must have the dimension of the data, {context.dimension}; got {prior.dimension}. Use KDEs of "
                "shape (1,) of the same dimension, or 'pooled'."
            )
        if not isinstance(self.bandwidth, str):
            return KDEs(points, float(self.bandwidth))
        widths = self._alone(points, context)
        if prior is not None:
            scale = float(prior.bandwidth[0] * scale_factor(prior.n_points, prior.dimension)[0])
            widths = shrunk(widths, points.sizes, scale, self.prior_strength, context.dimension)
        widths = np.maximum(widths, context.floor)
        lost = np.flatnonzero(~(widths > 0))
        if len(lost):
            raise ValueError(
                f"{name(lost[0])} has a single point, or only equal points, and floor is 0. Use floor > 0, "
                "prior='pooled', or a number as the bandwidth."
            )
        return KDEs(points, widths)

    def _alone(self, points: Points, context: Context) -> Floats:
        """Choose each bandwidth from the points of its set; 0 if these do not vary."""
        if not isinstance(self.bandwidth, str):
            return np.full(len(points), float(self.bandwidth))
        rule = silverman(points.data, points.indptr)
        if self.bandwidth == "silverman":
            return rule
        floor = np.full(len(points), context.floor)
        return np.where(rule > 0, cross_validated(points.data, points.indptr, floor), 0.0)


# Bandwidths of kernel density estimates, as variances: Silverman's rule and least-squares cross-validation.

WIDEST = 4.0
"""The search starts at this multiple of Silverman's variance and halves it repeatedly."""
GOLDEN = (math.sqrt(5) - 1) / 2
STEPS = 26
"""Golden-section steps on an interval of factor 4, for a relative precision of 5e-6."""


def silverman(data: Floats, indptr: Floats) -> Floats:
    """Silverman's rule for every set, ``(N,)``: optimal for points from an isotropic Gaussian.

    h = s (4 / ((d + 2) m))^(2 / (d + 4)), with s the average variance of the coordinates; 0 for one point.
    """
    sizes, d = np.diff(indptr), data.shape[1]
    least = np.maximum(sizes, 1)
    mean = segment_sum(data, indptr) / least[:, None]
    square = segment_sum(np.sum((data - np.repeat(mean, sizes, axis=0)) ** 2, axis=1), indptr)
    spread = square / (d * np.maximum(sizes - 1, 1))
    return np.asarray(spread * (4 / ((d + 2) * least)) ** (2 / (d + 4)))


def shrunk(bandwidth: Floats, sizes: Floats, scale: float, strength: float, dimension: int) -> Floats:
    """Shrink log bandwidths to those that ``scale`` implies for sets of these sizes.

    The best bandwidth of m points from one density falls as m^(-2 / (d + 4)); its scale, h m^(2 / (d + 4)), is
    comparable between sets of different sizes. A bandwidth of 0 is unknown and becomes that of the prior.
    """
    known = bandwidth > 0
    usual = scale / scale_factor(sizes, dimension)
    share = sizes / (sizes + strength)
    ratio = np.where(known, bandwidth, usual) / usual
    return np.asarray(usual * ratio**share)


def scale_factor(sizes: Floats, dimension: int) -> Floats:
    """Return m^(2 / (d + 4)), the factor that converts a bandwidth to that of a single point."""
    return np.asarray(sizes, dtype=float) ** (2 / (dimension + 4))


def pooled_scale(bandwidth: Floats, sizes: Floats, dimension: int) -> float:
    """Average the log scales of known bandwidths, weighted by the number of points; 0 if none is known."""
    known = bandwidth > 0
    if not known.any():
        return 0.0
    logs = np.log(bandwidth[known] * scale_factor(sizes[known], dimension))
    return float(np.exp(np.average(logs, weights=sizes[known])))


def criterion(packed: PointSets, sizes: Floats, bandwidth: Floats, unit: Floats) -> Floats:
    """Least-squares criterion of every set of two points or more (EST-6), times (4 pi unit)^(d/2)."""
    d, m = packed.points[0].shape[1], sizes.astype(float)
    sums = np.empty((len(sizes), 2))

    def work(part: Floats) -> None:
        sums[part] = two_sums(packed[part], 1 / (4 * bandwidth[part]))

    pieces = np.array_split(np.arange(len(sizes)), min(len(sizes), 8 * n_threads()))
    thread_map(work, pieces, threads=n_threads(), label="bandwidths")
    # N(x; 0, 2h) is exp(-x^2 / 4h) (4 pi h)^(-d/2), and N(x; 0, h) the square of that exponential times 2^(d/2)
    bracket = sums[:, 0] / m**2 - 2 ** (d / 2) * 2 * (sums[:, 1] - m) / (m * (m - 1))
    return np.asarray(bracket * np.exp(np.minimum(-d / 2 * np.log(bandwidth / unit), 600.0)))


def cross_validated(data: Floats, indptr: Floats, floor: Floats) -> Floats:
    """Minimize the least-squares criterion (EST-6) for every set, not below ``floor (N,)``.

    Repeated halving from four times Silverman's variance brackets the lowest minimum; golden-section search refines it.
    """
    from mercer._native.points import PointSets

    best = np.maximum(silverman(data, indptr), floor)
    sizes = np.diff(indptr)
    active = np.flatnonzero((sizes > 1) & (best > floor))
    if not len(active):
        return best
    packed, sizes, floor = PointSets.of(data, indptr)[active], sizes[active], floor[active]
    top = np.log(WIDEST * best[active])
    low = np.log(np.maximum(floor, np.finfo(float).tiny))
    low = np.maximum(low, top - 40 * math.log(2))  # with a floor of 0, down to Silverman's variance times 4e-12
    unit = np.exp(top)

    def at(log_bandwidth: Floats) -> Floats:
        return criterion(packed, sizes, np.exp(log_bandwidth), unit)

    middle, value = _ladder(at, top, low)
    left, right = np.maximum(middle - math.log(2), low), middle + math.log(2)
    a, b = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
    at_a, at_b = at(a), at(b)
    for _ in range(STEPS):
        smaller = at_a < at_b
        left, right = np.where(smaller, left, a), np.where(smaller, b, right)
        a, b = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
        fresh = at(np.where(smaller, a, b))
        at_a, at_b = np.where(smaller, fresh, at_b), np.where(smaller, at_a, fresh)
    found, lowest = np.where(at_a < at_b, a, b), np.minimum(at_a, at_b)
    found = np.where(value < lowest, middle, found)  # the grid point, if its neighborhood has two minima
    best[active] = np.maximum(np.exp(found), floor)
    return best


def _ladder(at: Callable[[Floats], Floats], top: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Return the minimizer of the criterion among top, top / 2, ..., low, and its value."""
    best, value = top, at(top)
    for step in range(1, math.ceil(float(np.max(top - low)) / math.log(2)) + 1):
        here = np.maximum(top - step * math.log(2), low)
        found = at(here)
        best, value = np.where(found < value, here, best), np.where(found < value, found, value)
    return best, value
