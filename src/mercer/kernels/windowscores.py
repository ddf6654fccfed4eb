"""Fisher vectors of series: scores of a Gaussian mixture of their dilated windows, the shapes of `FisherEnsemble`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer._random import generator, seeds
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.ragged import window_steps
from mercer.data.segments import digest_order
from mercer.families.gaussian import Gaussians
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.kernel import Kernel
from mercer.models.mixture import Mixtures

POINTS = 10_000
"""About the number of windows that a mixture is fitted to."""
DIRECTIONS = 16
"""Most principal directions of windows."""
SMALLEST = 1e-4
"""Directions whose variance is a smaller fraction of the largest are left out, such as those without the mean."""
FLOOR = 1e-3
"""Added to the variances of components; windows have variance 1."""
NEAR = 9
"""Steps of the windows that gaps are filled from."""
FAR = 1e6
"""Standard deviations from the mean beyond which a value is no farther: its square would be too large."""
CELLS = 2
"""Parts of a series that have scores of their own, besides the whole series."""


@dataclass(eq=False, repr=False)
class WindowScores(InnerProducts, Kernel):
    r"""The Fisher kernel of a mixture of diagonal Gaussians over the dilated windows of a series.

    A window is made of ``length`` steps, ``dilation`` apart, around every step; series are reflected at their ends.
    Windows are whitened, and get the time in the series as one more coordinate. The scores of the mixture (FK-5, with
    the complete-data information) are averaged over the whole series and over each of its halves, divided by their
    root mean square over the training series, raised to a power with their sign, and have norm 1 in each part.

    Windows overlap: the mean of their scores is that of a composite likelihood, in which every step counts several
    times, not the score of a model of the series. It compares series, but nothing follows from it about their
    probability.

    Values that are missing are replaced by their conditional means, given three or more of the nine steps around them
    in the same channel, under the Gaussian of all windows of nine steps; in longer gaps, given the rest of each window,
    under the Gaussian of these. Windows with fewer than half of their values are left out; a series without a window
    has the zero vector.

    Parameters
    ----------
    view : {"shape", "change", "level"}
        Windows without their means, windows of differences, or windows as they are.
    length, dilation : int
        Number of steps of a window, and their distance.
    n_components : int, default=32
        Number of components, at most a quarter of the number of windows.
    power : float, default=0.5
        Power of the scores.
    n_iter : int, default=12
        Iterations of the fit.
    random_state : int, default=0
        Seed of the start.

    Attributes
    ----------
    model_ : Mixtures of shape (1,)
        The mixture, of whitened windows and their time.
    """

    domain = "linear"
    psd = Verdict("always", "an inner product of (whitened) scores (FK-1)")

    view: str
    length: int
    dilation: int
    n_components: int = 32
    power: float = 0.5
    n_iter: int = 12
    random_state: int = 0

    _needs_fit = "it learns a mixture of the windows of the training series"

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        return Sequences(X).require("vectors", self)

    def _accepts_empty(self) -> bool:
        return True  # a series without a window has the zero vector

    def _cheap_pairs(self, source: Any) -> bool:
        return True

    # -- the mixture ---------------------------------------------------------------------------------------

    def _learn(self, X: Sequences, y: Any = None) -> None:
        order = digest_order(X)
        some = X[order]
        steps = _evenly(some.offsets, max(1, POINTS // max(len(some), 1)))
        # With gaps, covariances of pairs of values are too rough for smooth series; those of interpolated ones are not.
        whole = _interpolated(some)
        near = whole.values[window_steps(whole.offsets, steps, NEAR, 1)]
        self.near_ = [_moments(near[:, :, channel]) for channel in range(near.shape[2])]
        self.center_, self.covariance_ = _moments(self._windows(whole, steps)[0])
        windows, time = self._windows(some, steps)
        self.whitening_ = self._directions()
        filled, kept = self._filled(windows, {})
        self.model_ = self._mixture(self._points(filled, time)[kept])
        scores = self._scores(X)
        self.scale_ = np.sqrt((scores[order] ** 2).mean(axis=0)) + 1e-9
        self._train_side.keep("scores", scores)

    def _directions(self) -> Floats:
        """Return the matrix that whitens the windows."""
        width, channels = self.length, len(self.center_) // self.length
        # Shapes are without the mean of each channel.
        change: Floats = np.eye(width) - (1.0 / width if self.view == "shape" else 0.0)
        change = np.kron(np.eye(channels), change)
        variances, axes = np.linalg.eigh(change @ self.covariance_ @ change)
        kept = np.flatnonzero((variances > SMALLEST * variances[-1]) & (variances > 0))[: -DIRECTIONS - 1 : -1]
        chosen: Floats = axes[:, kept]
        chosen = chosen * np.where(
            chosen.T @ (1.0 / np.arange(1, len(axes) + 1)) < 0, -1.0, 1.0
        )  # the sign is arbitrary
        return np.asarray(change @ chosen / np.sqrt(variances[kept]))

    def _mixture(self, points: Floats) -> Mixtures:
        """Fit a mixture by EM; matrix products and exponentials dominate."""
        n, width = points.shape
        if n == 0:
            points, n = np.zeros((1, width)), 1
        size = max(1, min(int(self.n_components), n // 4))
        chosen = seeds(points, np.ones(n), size, generator(int(self.random_state), 0))
        model = _Diagonal(np.full(size, 1 / size), points[chosen], np.full((size, width), 0.5))
        wide = _wide(points)
        for _ in range(int(self.n_iter)):
            sums = model.shares(wide).T @ wide
            mass = sums[:, -1:] + 1e-3
            mean = sums[:, :width] / mass
            variance = np.maximum(sums[:, width:-1] / mass - mean**2, 0.0) + FLOOR
            model = _Diagonal(mass[:, 0] / mass.sum(), mean, variance)
        components = Gaussians(mean=model.mean[None], covariance=model.variance[None])
        return Mixtures(model.weights[None], components)

    def _diagonal(self) -> _Diagonal:
        found: _Diagonal | None = self._computed.get("diagonal")
        if found is None:
            components = self.model_.components
            found = _Diagonal(self.model_.weights[0], components.mean[0], components.covariance[0])
            self._computed["diagonal"] = found
        return found

    # -- windows -------------------------------------------------------------------------------------------

    def _windows(self, X: Sequences, steps: Indices) -> tuple[Floats, Floats]:
        """Return the windows around some steps, ``(n, d length)``, and the time, from -sqrt(3) to sqrt(3)."""
        values, offsets = self._completed(X), X.offsets
        if self.view == "change":
            before = np.arange(len(values)) - 1
            before[offsets[:-1][X.lengths > 0]] += 1
            values = values - values[before]
        windows = values[window_steps(offsets, steps, self.length, self.dilation)]  # (n, length, d)
        owner = np.searchsorted(offsets, steps, side="right") - 1
        last = X.lengths[owner] - 1
        time = np.sqrt(3.0) * (2 * (steps - offsets[owner]) - last) / np.maximum(last, 1)
        return np.swapaxes(windows, 1, 2).reshape(len(steps), -1), time

    def _points(self, filled: Floats, time: Floats) -> Floats:
        """Return whitened windows with their time."""
        reach = FAR * np.sqrt(np.trace(self.covariance_))
        white = np.clip(filled - self.center_, -reach, reach) @ self.whitening_
        return np.concatenate([white, time[:, None]], axis=1)

    def _completed(self, X: Sequences) -> Floats:
        """Return the values, where missing ones that are among enough others have their conditional means."""
        gone = np.isnan(X.values)
        if not gone.any():
            return X.values
        values = X.values.copy()
        for channel, (center, covariance) in enumerate(self.near_):
            steps = np.flatnonzero(gone[:, channel])
            windows = X.values[window_steps(X.offsets, steps, NEAR, 1), channel]
            enough = 3 * (~np.isnan(windows)).sum(axis=1) >= NEAR
            values[steps[enough], channel] = _filled(windows[enough], center, covariance, {})[:, NEAR // 2]
        return values

    def _filled(self, windows: Floats, maps: dict[int, dict[int, Floats]]) -> tuple[Floats, Mask]:
        """Replace missing values by conditional means, given the rest of the channel; also return what is sound.

        Windows without half of their values are not.
        """
        seen = ~np.isnan(windows)
        if seen.all():
            return windows, np.ones(len(windows), dtype=bool)
        kept = 2 * seen.sum(axis=1) >= windows.shape[1]
        filled = windows.copy()
        for start in range(0, windows.shape[1], self.length):
            own = slice(start, start + self.length)
            filled[:, own] = _filled(
                windows[:, own], self.center_[own], self.covariance_[own, own], maps.setdefault(start, {})
            )
        return filled, kept

    # -- scores --------------------------------------------------------------------------------------------

    def _shared(self, one: Sequences, model: _Diagonal, maps: dict[int, dict[int, Floats]]) -> tuple[Floats, Floats]:
        """Return the `_wide` windows of one series and their shares of components, 0 for windows that are left out."""
        windows, time = self._windows(one, np.arange(len(one.values)))
        filled, kept = self._filled(windows, maps)
        wide = _wide(self._points(filled, time))
        return wide, model.shares(wide) * kept[:, None]

    def _scores(self, X: Sequences) -> Floats:
        """Return the mean scores in the whole series and in each of its parts, ``(N, (1 + CELLS) P)``."""
        model = self._diagonal()
        maps: dict[int, dict[int, Floats]] = {}
        sums = np.zeros((len(X), CELLS, len(model.weights), 2 * model.mean.shape[1] + 1))
        for i in range(len(X)):  # each by itself: its bits do not depend on its neighbors
            wide, shares = self._shared(X[i : i + 1] if len(X) > 1 else X, model, maps)
            ends = np.arange(CELLS + 1) * len(wide) // CELLS
            for cell, (start, stop) in enumerate(pairwise(ends)):
                sums[i, cell] = shares[start:stop].T @ wide[start:stop]
        return model.scores(np.concatenate([sums.sum(axis=1, keepdims=True), sums], axis=1)).reshape(len(X), -1)

    def _prepare(self, source: Sequences) -> Rows:
        scores = self._kept(source, "scores")
        if scores is None:
            scores = self._scores(source)
        features = np.sign(scores) * np.abs(scores / self.scale_) ** float(self.power)
        parts = features.reshape(len(features), 1 + CELLS, -1)
        norm = np.linalg.norm(parts, axis=2)  # the whole series has half of all
        weight = np.sqrt(np.array([0.5] + [0.5 / CELLS] * CELLS))
        parts *= np.divide(weight, norm, out=np.zeros_like(norm), where=norm > 0)[:, :, None]
        return Rows(features)

    def worth(self, one: Sequences, vector: Floats) -> tuple[Floats, Floats]:
        """Return what each window of a series adds to weighted sums of features, ``(T, R)``, and the sums ``(R,)``."""
        model = self._diagonal()
        wide, shares = self._shared(one, model, {})
        rows = model.scores(shares[:, :, None] * wide[:, None, :])
        score, feature = self._scores(one)[0], self._prepare(one).values[0]
        each = vector * np.divide(feature, score, out=np.zeros_like(score), where=score != 0)
        kept, ends = shares.sum(axis=1) > 0, np.arange(CELLS + 1) * len(rows) // CELLS
        cells = [slice(None), *(slice(start, stop) for start, stop in pairwise(ends))]
        found = np.zeros((len(rows), len(vector)))
        for cell, own in zip(cells, np.split(each, 1 + CELLS, axis=1), strict=True):
            found[cell] += rows[cell] @ own.T / max(int(kept[cell].sum()), 1)
        return found, vector @ feature

    def _learned(self) -> Any:
        return self.model_.digests(), self.center_, self.covariance_, self.scale_


@dataclass(frozen=True)
class _Diagonal:
    """A mixture of diagonal Gaussians, as matrices: weights ``(K,)``, means and variances ``(K, p)``."""

    weights: Floats
    mean: Floats
    variance: Floats

    @cached_property
    def factors(self) -> Floats:
        """Factors of `_wide` rows in the logarithms of joint densities, ``(K, 2 p + 1)``."""
        own = np.log(self.weights) - 0.5 * (self.mean**2 / self.variance + np.log(self.variance)).sum(axis=1)
        return np.concatenate([self.mean / self.variance, -0.5 / self.variance, own[:, None]], axis=1)

    def shares(self, wide: Floats) -> Floats:
        """Return the posterior probabilities of the components, ``(n, K)``."""
        logs: Floats = self.factors @ wide.T  # NumPy reduces the first axis faster
        logs -= logs.max(axis=0)
        np.exp(logs, out=logs)
        logs /= logs.sum(axis=0)
        return logs.T

    def scores(self, sums: Floats) -> Floats:
        """Return the mean scores from sums of shares times `_wide` rows, ``(..., K, 2 p + 1)``; 0 without a window."""
        width = self.mean.shape[1]
        zeroth, first, second = sums[..., -1:], sums[..., :width], sums[..., width:-1]
        n = np.maximum(zeroth.sum(axis=-2, keepdims=True), 1e-9)
        root = np.sqrt(self.weights)[:, None]
        mean = (first - zeroth * self.mean) / (np.sqrt(self.variance) * root)
        variance = (second - 2 * self.mean * first + zeroth * self.mean**2) / self.variance - zeroth
        weights = zeroth / root - root * n
        found = np.concatenate([weights, mean, variance / (np.sqrt(2) * root)], axis=-1) / n
        found = np.where(n > 1e-6, found, 0.0)
        return np.asarray(found.reshape(*sums.shape[:-2], -1))


def _wide(points: Floats) -> Floats:
    """Return points, their squares and 1: sums of these are all that a diagonal Gaussian needs."""
    return np.concatenate([points, points * points, np.ones((len(points), 1))], axis=1)


def _evenly(offsets: Indices, each: int) -> Indices:
    """Return at most ``each`` steps of every sequence, evenly spaced."""
    lengths = np.diff(offsets)
    counts = np.minimum(lengths, each)
    local = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place = (2 * local + 1) * np.repeat(lengths, counts) // (2 * np.repeat(counts, counts))
    return np.asarray(np.repeat(offsets[:-1], counts) + place)


def _interpolated(X: Sequences) -> Sequences:
    """Return series without gaps, by linear interpolation; a channel without a value is 0."""
    if not np.isnan(X.values).any():
        return X
    values = X.values.copy()
    for start, stop in pairwise(X.offsets.tolist()):
        for column in values[start:stop].T:
            seen = ~np.isnan(column)
            column[~seen] = np.interp(np.flatnonzero(~seen), np.flatnonzero(seen), column[seen]) if seen.any() else 0.0
    return X.mapped(lambda _: values)


def _filled(windows: Floats, center: Floats, covariance: Floats, maps: dict[int, Floats]) -> Floats:
    """Replace missing values of a channel by conditional means: one linear map per pattern, kept in ``maps``."""
    seen, places = ~np.isnan(windows), np.arange(windows.shape[1])
    filled = np.where(seen, windows, center)
    patterns, owner = np.unique(seen @ (1 << places), return_inverse=True)
    for i, pattern in enumerate(patterns.tolist()):
        known = (pattern >> places) & 1 == 1
        if known.all() or not known.any():
            continue
        if pattern not in maps:
            inner = covariance[np.ix_(known, known)]
            inner = inner + (1e-9 * np.trace(inner) / len(inner) + 1e-12) * np.eye(len(inner))
            maps[pattern] = np.linalg.solve(inner, covariance[np.ix_(known, ~known)])
        rows = np.flatnonzero(owner == i)
        filled[np.ix_(rows, ~known)] += (windows[np.ix_(rows, known)] - center[known]) @ maps[pattern]
    return filled


def _moments(windows: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the covariance of windows."""
    center = windows.sum(axis=0) / max(len(windows), 1)
    deviation = windows - center
    return center, deviation.T @ deviation / max(len(windows), 1)
