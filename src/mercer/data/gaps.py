"""Gaps in series, filled by conditional means."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._native.mixtures import windows
from mercer.data.ragged import evenly, neighbors
from mercer.data.segments import in_digest_order
from mercer.data.sequences import Sequences
from mercer.data.standardize import interpolated
from mercer.data.transformers import _Transformer

NEAR = 9
"""Steps of the windows that gaps are filled from."""
POINTS = 10_000
"""About the number of windows that moments, and mixtures, are learned from."""


class FillGaps(_Transformer):
    r"""Replace missing values in short gaps of series by what the values around them tell.

    A missing value becomes its conditional mean, given the observed ones of the nine steps around it in the same
    channel, if there are three or more. Other gaps of at most 17 steps between observed values are interpolated.
    Elsewhere values stay missing.

    Attributes
    ----------
    mean_, covariance_ : arrays of shape (d, 9) and (d, 9, 9)
        Of the windows of nine steps, for every channel.
    n_features_in_ : int
        Dimension of the training data.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    With the mean :math:`\mu` and the covariance :math:`\Sigma` of a window, the missing values m are, given the
    observed values o,

    .. math:: x_m = \mu_m + \Sigma_{mo} \Sigma_{oo}^{-1} (x_o - \mu_o).

    The moments are those of about 10,000 windows of the training series, whose gaps are interpolated. Smooth series are
    continued smoothly, and noise is averaged: errors are smaller than those of linear interpolation. At the ends,
    series are reflected. Use it after `Standardize`.

    See Also
    --------
    Resample : Fill gaps by interpolation, and change the number of steps.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> X = [np.sin(0.7 * np.arange(30) + c) for c in rng.uniform(0, 6, size=20)]
    >>> gappy = np.where(np.arange(30) % 4 == 2, np.nan, X[0])
    >>> found = mc.data.FillGaps().fit(X).transform([gappy])[0].ravel()
    >>> bool(np.abs(found - X[0])[3:-3].max() < 1e-2)
    True
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the means and covariances of windows.

        Parameters
        ----------
        X : Sequences or array-like
            Training series, in any form that `Sequences` accepts.
        y : ignored
            Present for API consistency.
        """
        super().fit(X)
        some = in_digest_order(self._vectors(X))
        near = windows(interpolated(some), some.offsets, some_steps(some.offsets), NEAR, 1, None)
        parts = [moments(near[:, start : start + NEAR]) for start in range(0, near.shape[1], NEAR)]
        self.mean_: Floats = np.array([mean for mean, _ in parts])
        self.covariance_: Floats = np.array([covariance for _, covariance in parts])
        return self

    def _transformed(self, X: Sequences) -> Sequences:
        check_is_fitted(self, "mean_")
        gone = np.isnan(X.values)
        if not gone.any():
            return X
        before, after = neighbors(~gone, X.offsets)
        steps = np.arange(len(gone))[:, None]
        part = (steps - before) / np.maximum(after - before, 1)
        left, right = (np.take_along_axis(X.values, place, axis=0) for place in (before, after))
        values = np.where(gone & (after - before <= 2 * NEAR), left + part * (right - left), X.values)
        for channel, (mean, covariance) in enumerate(zip(self.mean_, self.covariance_, strict=True)):
            steps = np.flatnonzero(gone[:, channel])
            near = windows(X.values[:, [channel]], X.offsets, steps, NEAR, 1, None)
            enough = 3 * (~np.isnan(near)).sum(axis=1) >= NEAR
            values[steps[enough], channel] = conditional_means(near[enough], mean, covariance)[:, NEAR // 2]
        return X.mapped(lambda _: values.astype(X.values.dtype, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def some_steps(offsets: Indices) -> Indices:
    """Return the same number of steps of every sequence, evenly spaced, about `POINTS` in all."""
    lengths = np.diff(offsets)
    return evenly(offsets, np.minimum(lengths, max(1, POINTS // max(len(lengths), 1))))


def moments(rows: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the covariance of windows."""
    center = rows.sum(axis=0) / max(len(rows), 1)
    deviation = rows - center
    return center, deviation.T @ deviation / max(len(rows), 1)


def conditional_means(rows: Floats, center: Floats, covariance: Floats) -> Floats:
    """Replace missing values of windows of a channel by conditional means, by one linear map per pattern."""
    seen, places = ~np.isnan(rows), np.arange(rows.shape[1])
    filled = np.where(seen, rows, center)
    patterns, owner = np.unique(seen @ (1 << places), return_inverse=True)
    for i, pattern in enumerate(patterns.tolist()):
        known = (pattern >> places) & 1 == 1
        if known.all() or not known.any():
            continue
        inner = covariance[np.ix_(known, known)]
        inner = inner + (1e-9 * np.trace(inner) / len(inner) + np.finfo(float).tiny) * np.eye(len(inner))
        map_of_gap = np.linalg.solve(inner, covariance[np.ix_(known, ~known)])
        same = np.flatnonzero(owner == i)
        filled[np.ix_(same, ~known)] += (rows[np.ix_(same, known)] - center[known]) @ map_of_gap
    return filled
