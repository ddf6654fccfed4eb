"""Regressions of features on confounds: means, parabolas, jumps and curves, chosen by leave-one-out residuals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import linalg, stats

from mercer._array import Floats

LANDMARKS = 80
"""Number of values, spread over the ranks, that span the curves of one number, and of directions that are kept."""
PENALTIES = np.geomspace(1e-6, 1e-1, 6)
"""Penalties of curves, in units of the trace of their kernel."""
UNDERSMOOTHING = 30.0
"""What the penalty with the least error is divided by: a bias that both sides share is worse than noise."""
LARGEST_SHARE = 0.5
"""Share of the objects that the directions of curves count together at most."""
MOST_JUMPS = 3
"""Number of jumps of a regression."""
JUMP = 3.0
"""Decrease of n times the logarithm of the error that makes a jump worth its place."""


@dataclass(frozen=True)
class Smoother:
    """Linear regression of features: directions in the space of objects, and the explained share of each.

    Parameters
    ----------
    basis : ndarray of shape (N, r)
        Orthonormal directions.
    shares : ndarray of shape (r,)
        Explained share of each direction, at most 1.
    """

    basis: Floats
    shares: Floats

    def residuals(self, features: Floats) -> Floats:
        """Return what the regression leaves of features, ``(N, ...)``."""
        return np.asarray(features - (self.basis * self.shares) @ (self.basis.T @ features))

    def residual_gram(self, K: Floats) -> Floats:
        """Return the inner products of the residuals of the features of a Gram matrix (KK-3)."""
        found = self.residuals(self.residuals(K).T)
        return found if np.abs(found).max() > 1e-13 * np.abs(K).max() else np.zeros_like(found)  # rounding only

    def covariance(self) -> Floats:
        """Return the covariance of the residuals of independent errors of variance 1, ``(N, N)``."""
        kept = (1 - self.shares) ** 2 - 1
        return np.asarray(np.eye(len(self.basis)) + (self.basis * kept) @ self.basis.T)


@dataclass(frozen=True)
class Smoothers:
    """Regressions among which every side of a test chooses.

    Parameters
    ----------
    fixed : ndarray of shape (N, s)
        Orthonormal directions that are removed completely: means of strata, lines, parabolas, jumps.
    features : tuple of ndarray of shape (N, f)
        Features of every family of curves.
    numbers : ndarray of shape (N, c)
        Where jumps may be.
    """

    fixed: Floats
    features: tuple[Floats, ...]
    numbers: Floats

    @classmethod
    def of(cls, strata: Floats, numbers: Floats) -> Self:
        """Return the regressions on strata, numbered from 0, and on numbers, ``(N, c)``."""
        indicators = np.eye(int(strata.max()) + 1)[strata]
        if not numbers.shape[1]:
            return cls(indicators / np.sqrt(indicators.sum(axis=0)), (), numbers)
        values = (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-300)
        return cls(_orthonormal(indicators, values, values**2), tuple(_families(values, indicators)), values)

    def fit(self, grams: Iterable[Floats]) -> Smoother:
        """Return the regression of the features of Gram matrices with the least error, made less smooth."""
        if not self.features:
            return Smoother(self.fixed, np.ones(self.fixed.shape[1]))
        kernels = list(grams)
        made, (error, chosen) = self, self._best(kernels)
        for _ in range(MOST_JUMPS):
            more = made._with_jump(kernels)
            less, other = more._best(kernels)
            if len(self.fixed) * (error - less) < JUMP:
                break
            made, error, chosen = more, less, other
        return chosen

    def smooth(self, values: Floats) -> Smoother:
        """Return the regression of one column, ``(N,)``, with the least error, which has no jump."""
        best = self._best([np.outer(values, values)], 1.0)[1] if self.features else None
        return best or Smoother(self.fixed, np.ones(self.fixed.shape[1]))

    def _best(self, kernels: list[Floats], divisor: float = UNDERSMOOTHING) -> tuple[float, Smoother]:
        """Return the least error, a mean logarithm over kernels, and the regression, its penalty divided.

        A penalized least squares fit without object i misses it by :math:`e_i / (1 - h_i)`, with the residual and the
        leverage of the fit to all objects.
        """
        chosen = Smoother(self.fixed, np.ones(self.fixed.shape[1]))
        left = [chosen.residual_gram(K) for K in kernels]
        n, best = len(self.fixed), np.inf
        free = 1 - (self.fixed**2).sum(axis=1)[:, None]
        for features in self.features:
            basis, variances = _directions(chosen.residuals(features))
            shares = variances[:, None] / (variances[:, None] + PENALTIES)
            kept = np.maximum(free - basis**2 @ shares, 1e-9)
            squares = [np.maximum((_squares(K, basis, shares) / kept**2).mean(axis=0), 1e-300) for K in left]
            missed = np.mean(np.log(squares), axis=0)
            missed[shares.sum(axis=0) > LARGEST_SHARE * n] = np.inf
            if missed.min() < best:
                best, rough = float(missed.min()), _rougher(variances, PENALTIES[missed.argmin()], divisor, n)
                every = np.concatenate([np.ones(self.fixed.shape[1]), rough])
                found = Smoother(np.column_stack([self.fixed, basis]), every)
        return best, found

    def _with_jump(self, kernels: list[Floats]) -> Smoothers:
        """Return the regressions with one more jump, that which explains most of what smooth curves leave."""
        fixed = np.ones(self.fixed.shape[1])
        basis, variances = _directions(Smoother(self.fixed, fixed).residuals(self.features[0]))
        shares = variances / (variances + PENALTIES[-1])
        smooth = Smoother(np.column_stack([self.fixed, basis]), np.concatenate([fixed, shares]))
        left = [smooth.residual_gram(K) for K in kernels]

        def gains(jumps: Floats) -> Floats:
            """Return the decrease of the logarithms of squared residuals by each jump, an indicator of objects."""
            sides = smooth.residuals(jumps.astype(float))
            size = np.maximum((sides**2).sum(axis=0), 1e-9)
            share = [(sides * (K @ sides)).sum(axis=0) / size / max(float(np.trace(K)), 1e-300) for K in left]
            return np.asarray(-np.log(np.maximum(1 - np.array(share), 1e-9)).sum(axis=0))

        best, place = -np.inf, self.fixed[:, :0]
        for column in self.numbers.T:
            values = np.sort(column)[1:-2]
            at = np.unique(np.linspace(0, len(values) - 1, LANDMARKS).astype(int))  # some, then all near the best
            i = int(gains(column[:, None] > values[at]).argmax())
            near = column[:, None] > values[at[max(i - 1, 0)] : at[min(i + 1, len(at) - 1)] + 1]
            found = gains(near)
            if found.max() > best:
                best, place = found.max(), near[:, [found.argmax()]]
        return Smoothers(_orthonormal(self.fixed, place), self.features, self.numbers)


def _squares(K: Floats, basis: Floats, shares: Floats) -> Floats:
    """Return the squared residuals of features, ``(N, P)``, for shares of P penalties."""
    towards = K @ basis
    inner = basis.T @ towards
    fitted = np.column_stack([((basis * s) @ inner * (basis * s)).sum(axis=1) for s in shares.T])
    return np.asarray(np.diag(K)[:, None] - 2 * (basis * towards) @ shares + fitted)


def _rougher(variances: Floats, penalty: float, divisor: float, n: int) -> Floats:
    """Return the shares of a penalty that is divided, but not so much that curves explain too many directions."""
    for by in np.geomspace(divisor, 1, 10):
        shares = variances / (variances + penalty / by)
        if shares.sum() <= LARGEST_SHARE * n:
            break
    return shares


def _families(values: Floats, indicators: Floats) -> Iterator[Floats]:
    """Yield features of the families of curves of standardized numbers, and of their ranks.

    Curves of several numbers are sums of curves of one, a curve of one of them, a function of all, and a sum of curves
    for every stratum.
    """
    ranks = np.sqrt(12) * stats.rankdata(values, axis=0) / len(values)
    for points in (values, ranks):
        each = [_features(column[:, None]) for column in points.T]
        sums = np.column_stack(each)
        yield sums
        if len(each) > 1:
            yield from each
            yield _features(points)
        if indicators.shape[1] > 1:
            yield np.column_stack([sums * one[:, None] for one in indicators.T])


def _features(points: Floats) -> Floats:
    """Return features of the kernel exp(-sum |x - y|) of points, by landmarks: its functions have kinks."""
    order = np.argsort(points[:, 0], kind="stable")
    chosen = points[order[np.unique(np.linspace(0, len(points) - 1, LANDMARKS).astype(int))]]

    def kernel(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.exp(-np.abs(a[:, None] - b).sum(axis=-1)))

    variances, directions = linalg.eigh(kernel(chosen, chosen))
    kept = variances > 1e-8 * variances[-1]
    return np.asarray(kernel(points, chosen) @ (directions[:, kept] / np.sqrt(variances[kept])))


def _directions(features: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal principal directions of features and their variances, which sum to 1."""
    basis, singular = linalg.svd(features, full_matrices=False)[:2]
    kept = (singular > 1e-4 * singular[:1]) & (np.arange(len(singular)) < LANDMARKS)
    return basis[:, kept], singular[kept] ** 2 / (singular[kept] ** 2).sum()


def _orthonormal(*columns: Floats) -> Floats:
    return np.asarray(linalg.orth(np.column_stack(columns), rcond=1e-10))
