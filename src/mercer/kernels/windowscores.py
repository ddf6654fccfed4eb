"""Fisher vectors of series: scores of Gaussian mixtures of their dilated windows, the windows of `FisherEnsemble`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native.mixtures import mixture_sums, window_points, windows
from mercer._random import generator, seeds
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.gaps import conditional_means, moments, some_steps
from mercer.data.segments import digest_order
from mercer.data.standardize import interpolated
from mercer.families.gaussian import Gaussians
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.kernel import Kernel
from mercer.models.mixture import Mixtures

DIRECTIONS = 32
"""Most principal directions of windows."""
SMALLEST = 1e-4
"""Directions whose variance is a smaller fraction of the largest are left out, such as those without the mean."""
FLOOR = 1e-3
"""Added to the variances of components; windows have variance 1."""
ROUNDING = 1e-8
"""Shapes have sizes of about 1; directions with a smaller variance are rounding errors."""
RARE = 0.05
"""Added to the size of every score, relative to the root mean square of all: scores that are nearly zero in all
training series must not become large in others."""
CONTRAST = 0.3
"""Added to the sizes of windows that shapes are divided by, relative to the root of their mean square."""
CELLS = 2
"""Parts of a series that have scores of their own, besides the whole series."""
BLOCK = 1 << 15
"""About the number of windows that are scored in one call."""


@dataclass(eq=False, repr=False)
class WindowScores(InnerProducts, Kernel):
    r"""The mean of the Fisher kernels of Gaussian mixtures over the windows of a series at every scale.

    A window is made of ``length`` steps, 1, 2, 4, ... apart (while it is shorter than a series of median length),
    around every step; series are reflected at their ends. Shapes have no mean and nearly one size: every channel x of
    a window becomes :math:`(x - \bar x) / (s + 0.3 \sqrt{E\,s^2})` with its standard deviation s. Windows are whitened,
    and get the time in the series as one more coordinate. For every scale, the scores of the mixture (FK-5, with the
    complete-data information) are averaged over the whole series and over each of its halves, divided by their root
    mean square over the training series (plus a twentieth of that of all), raised to a power with their sign, and have
    norm 1 in each part.

    Windows overlap: the mean of their scores is that of a composite likelihood, in which every step counts several
    times, not the score of a model of the series. It compares series, but nothing follows from it about their
    probability.

    Missing values are replaced by their conditional means, given the rest of the channel in a window, under the
    Gaussian of all windows; short gaps should be filled before (`FillGaps`). Windows with fewer than half of their
    values are left out; a series without a window has the zero vector.

    Parameters
    ----------
    view : {"shape", "level"}
        Windows without their means and sizes, or windows as they are.
    length : int
        Number of steps of a window.
    n_components : int, default=32
        Number of components, at most a quarter of the number of windows.
    power : float, default=0.5
        Power of the scores.
    n_iter : int, default=12
        Iterations of the fits.
    random_state : int, default=0
        Seed of the starts.

    Attributes
    ----------
    dilations_ : tuple of int
        The scales: numbers of steps between two values of a window.
    model_ : Mixtures of shape (n_scales,)
        The mixtures, of whitened windows and their time.
    """

    psd = Verdict("always", "an inner product of (whitened) scores (FK-1)")

    view: str
    length: int
    n_components: int = 32
    power: float = 0.5
    n_iter: int = 12
    random_state: int = 0

    _needs_fit = "it learns mixtures of the windows of the training series"

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        return Sequences(X).require("vectors", self)

    def _accepts_empty(self) -> bool:
        return True  # a series without a window has the zero vector

    def _cheap_pairs(self, source: Any) -> bool:
        return True

    # -- the mixtures --------------------------------------------------------------------------------------

    def _learn(self, X: Sequences, y: Any = None) -> None:
        order = digest_order(X)
        some = X[order]
        steps, channels = some_steps(some.offsets), some.values.shape[1]
        # With gaps, covariances of pairs of values are too rough for smooth series; those of interpolated ones are not.
        whole = interpolated(some)
        typical, span = int(np.median(X.lengths)), self.length - 1
        self.dilations_ = (1, *(2**j for j in range(1, 31) if span * 2**j < typical))
        scales = [windows(whole, some.offsets, steps, self.length, d, None) for d in self.dilations_]
        self.floor_ = None
        if self.view == "shape":
            cubes = [part.reshape(len(part), channels, -1) for part in scales]
            squares = [cube.var(axis=2).mean(axis=0) + 1e-8 * cube.var(axis=(0, 2)) for cube in cubes]
            self.floor_ = CONTRAST * np.sqrt(np.stack(squares))
            cut = zip(self.dilations_, self.floor_, strict=True)
            scales = [windows(whole, some.offsets, steps, self.length, d, floor) for d, floor in cut]
        self.center_, self.covariance_ = (np.stack(part) for part in zip(*map(moments, scales), strict=True))
        self.whitening_ = self._directions()
        self.model_ = self._mixtures(some, steps)
        scores = self._scores(X)
        size = np.sqrt((scores[order] ** 2).mean(axis=0))
        components = self.model_.weights.shape[1]
        missing = np.pad(~self.whitening_.any(axis=1), ((0, 0), (0, 1)))  # directions; the time is always there
        missing = np.pad(np.repeat(np.tile(missing, 2), components, axis=1), ((0, 0), (components, 0)))
        usual = np.sqrt((size**2).mean(axis=-1, keepdims=True, where=~missing))
        self.scale_ = np.where(missing | (usual == 0), np.inf, size + RARE * usual)
        self._train_side.keep("scores", scores)

    def _directions(self) -> Floats:
        """Return what whitens the windows, ``(M, d length, p)``; scales with fewer directions have zeros."""
        variances, axes = np.linalg.eigh(self.covariance_)
        variances, axes = variances[:, : -DIRECTIONS - 1 : -1], axes[:, :, : -DIRECTIONS - 1 : -1]
        kept = variances > np.maximum(SMALLEST * variances[:, :1], 0.0 if self.floor_ is None else ROUNDING)
        sign = np.where(np.einsum("mvp,v->mp", axes, 1.0 / np.arange(1, axes.shape[1] + 1)) < 0, -1.0, 1.0)
        scale = np.where(kept, sign / np.sqrt(np.where(kept, variances, 1.0)), 0.0)  # the sign is arbitrary
        most = max(1, int(kept.any(axis=0).sum()))
        return np.asarray((axes * scale[:, None, :])[:, :, :most])

    def _mixtures(self, some: Sequences, steps: Indices) -> Mixtures:
        """Fit the mixtures by EM."""
        points = self._points(some, steps)
        width, size = points.shape[2], max(1, min(int(self.n_components), len(steps) // 4))
        kept, places = (~np.isnan(points[:, :, 0])).astype(float), np.nan_to_num(points)
        mean = np.stack(
            [
                own[seeds(own, weights, size, generator(int(self.random_state), at))]
                for at, (own, weights) in enumerate(zip(places, kept, strict=True))
            ]
        )
        weights, variance = np.full(mean.shape[:2], 1 / size), np.full(mean.shape, 0.5)
        for _ in range(int(self.n_iter)):
            factors = _Mixture.of(weights, mean, variance).factors
            sums = np.swapaxes(mixture_sums(points, factors, np.array([0, len(steps)]))[:, 0], 1, 2)
            mass = sums[:, :, -1:] + 1e-3
            mean = sums[:, :, :width] / mass
            variance = np.maximum(sums[:, :, width:-1] / mass - mean**2, 0.0) + FLOOR
            weights = mass[:, :, 0] / mass.sum(axis=1)
        return Mixtures(weights, Gaussians(mean=mean, covariance=variance))

    # -- windows -------------------------------------------------------------------------------------------

    def _points(self, X: Sequences, steps: Indices) -> Floats:
        """Return whitened windows and their time, ``(M, n, p + 1)``; NaN if fewer than half of the values are seen."""
        values, floor = X.values, self.floor_
        points = window_points(values, X.offsets, steps, self.dilations_, floor, self.center_, self.whitening_)
        for at, own in enumerate(points if np.isnan(values).any() else ()):
            gappy = np.flatnonzero(np.isnan(own[:, 0]))
            own_floor = None if floor is None else floor[at]
            cut = windows(values, X.offsets, steps[gappy], self.length, self.dilations_[at], own_floor)
            kept = 2 * (~np.isnan(cut)).sum(axis=1) >= cut.shape[1]
            center, covariance = self.center_[at], self.covariance_[at]
            for start in range(0, cut.shape[1], self.length):  # given the rest of the channel
                part = slice(start, start + self.length)
                cut[:, part] = conditional_means(cut[:, part], center[part], covariance[part, part])
            away = (cut - center) @ self.whitening_[at]
            own[gappy, :-1] = np.where(kept[:, None], away, np.nan)
        return points

    # -- scores --------------------------------------------------------------------------------------------

    @property
    def _mixture(self) -> _Mixture:
        """The mixtures of all scales, ready for scores."""
        parts = self.model_.components
        return _Mixture.of(self.model_.weights, parts.mean, parts.covariance)

    def _scores(self, X: Sequences) -> Floats:
        """Return the mean scores of the whole series and each part at all scales, ``(N, 1 + CELLS, M, P)``."""
        mixture = self._mixture
        scales, *shape = mixture.factors.shape
        found = np.empty((len(X), 1 + CELLS, scales, shape[0] * shape[1]))
        starts = np.flatnonzero(np.diff(X.offsets[:-1] // BLOCK, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(X)]):
            block = X[start:stop]
            cells = block.offsets[:-1, None] + np.arange(CELLS) * block.lengths[:, None] // CELLS
            points = self._points(block, np.arange(len(block.values)))
            sums = mixture_sums(points, mixture.factors, np.append(cells, block.offsets[-1]))
            sums = np.moveaxis(sums.reshape(scales, len(block), CELLS, *shape), 0, 2)
            found[start:stop] = mixture.scores(np.concatenate([sums.sum(axis=1, keepdims=True), sums], axis=1))
        return found

    def _prepare(self, source: Sequences) -> Rows:
        found = self._kept(source, "scores")
        if found is None:
            found = self._scores(source)
        return Rows(self._featured(found).reshape(len(found), -1))

    def _featured(self, scores: Floats) -> Floats:
        """Turn scores into features, in place: those of thousands of series are large."""
        scores /= self.scale_
        negative = scores < 0
        np.abs(scores, out=scores)
        scores **= float(self.power)
        norm = np.sqrt(np.einsum("...p,...p->...", scores, scores))
        weight = np.array([0.5] + [0.5 / CELLS] * CELLS) / len(self.dilations_)  # the whole series has half of all
        scores *= np.divide(np.sqrt(weight)[:, None], norm, out=np.zeros_like(norm), where=norm > 0)[..., None]
        return np.negative(scores, out=scores, where=negative)

    def worth(self, one: Sequences, vector: Floats) -> Iterator[tuple[int, Floats]]:
        """Yield every dilation, and what each of its windows adds to weighted sums of features, ``(T, R)``."""
        scores, steps, mixture = self._scores(one), len(one.values), self._mixture
        score, feature = scores[0], self._featured(scores.copy())[0]
        each = vector.reshape(-1, *score.shape) * np.divide(feature, score, out=np.zeros_like(score), where=score != 0)
        cells = [slice(None), *(slice(*ends) for ends in pairwise(np.arange(CELLS + 1) * steps // CELLS))]
        points = self._points(one, np.arange(steps))
        shares = np.empty((*points.shape[:2], mixture.root.shape[2]))
        mixture_sums(points, mixture.factors, np.array([0, steps]), shares)
        for at, (dilation, place) in enumerate(zip(self.dilations_, points, strict=True)):
            kept = ~np.isnan(place[:, 0])
            wide = np.nan_to_num(np.concatenate([place, place**2, np.ones((steps, 1))], axis=1))
            rows = _Mixture(*(part[at] for part in mixture)).scores(wide[:, :, None] * shares[at, :, None, :])
            found = np.zeros((steps, len(vector)))
            for cell, own in zip(cells, each[:, :, at].swapaxes(0, 1), strict=True):
                found[cell] += rows[cell] @ own.T / max(int(kept[cell].sum()), 1)
            yield dilation, found

    def _learned(self) -> Any:
        return self.model_.digests(), self.dilations_, self.center_, self.covariance_, self.scale_


class _Mixture(NamedTuple):
    """Mixtures of diagonal Gaussians, with components last."""

    factors: Floats
    """Of points y, of y^2, and of 1, in logarithms of joint densities, ``(..., 2 p + 1, K)``."""
    root: Floats
    """Of the weights, ``(..., 1, K)``."""
    mean: Floats
    """``(..., p, K)``."""
    variance: Floats

    @classmethod
    def of(cls, weights: Floats, mean: Floats, variance: Floats) -> _Mixture:
        """Return mixtures with weights ``(..., K)``, means and variances ``(..., K, p)``."""
        weights = weights[..., None, :]
        mean, variance = (np.ascontiguousarray(np.swapaxes(part, -1, -2)) for part in (mean, variance))
        own = np.log(weights) - 0.5 * (mean**2 / variance + np.log(variance)).sum(axis=-2, keepdims=True)
        factors = np.concatenate([mean / variance, -0.5 / variance, own], axis=-2)
        return cls(factors, np.sqrt(weights), mean, variance)

    def scores(self, sums: Floats) -> Floats:
        """Return the mean scores from sums of shares times (y, y^2, 1), ``(..., 2 p + 1, K)``; 0 without a window."""
        width = self.mean.shape[-2]
        first, second, zeroth = sums[..., :width, :], sums[..., width:-1, :], sums[..., -1:, :]
        n = np.maximum(zeroth.sum(axis=-1, keepdims=True), 1e-9)
        of_mean = (first - zeroth * self.mean) / (np.sqrt(self.variance) * self.root)
        of_variance = (second - 2 * self.mean * first + zeroth * self.mean**2) / self.variance - zeroth
        of_variance /= np.sqrt(2) * self.root
        found = np.concatenate([zeroth / self.root - self.root * n, of_mean, of_variance], axis=-2) / n
        found = np.where(n > 1e-6, found, 0.0)
        return np.asarray(found.reshape(*sums.shape[:-2], -1))
