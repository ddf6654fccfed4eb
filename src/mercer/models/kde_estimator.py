"""The estimator of kernel density estimates: it chooses a bandwidth for each set of points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from mercer._array import Floats
from mercer._batch import Batch
from mercer._parameters import Rules, nonnegative, one_of, positive
from mercer.data import Sequences
from mercer.data.segments import in_digest_order, sample_name, segments
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._kde.bandwidths import cross_validated, pooled_scale, scale_factor, shrunk, silverman
from mercer.models._kde.points import Points
from mercer.models.kde import KDEs

RULES = ("silverman", "lscv")


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

    has_hidden = True
    _parameters: ClassVar[Rules] = {
        "bandwidth": one_of(*RULES) | positive("A number is a variance."),
        "floor": nonnegative("It is a fraction of the pooled variance."),
    }

    def __init__(
        self,
        bandwidth: str | float = "silverman",
        floor: float = 1e-3,
        prior: Any = None,
        prior_strength: float = 1.0,
    ) -> None:
        self.bandwidth = bandwidth
        self.floor = floor
        self.prior = prior
        self.prior_strength = prior_strength

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
