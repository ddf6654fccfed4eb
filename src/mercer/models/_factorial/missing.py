"""Additive Gaussian observations with missing coordinates: densities, and expectations of what is missing."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask

LOG_2PI = float(np.log(2 * np.pi))


def log_density(away: Floats, covariance: Floats) -> Floats:
    """Log density of a centered Gaussian, ``(..., d) -> (...)``."""
    root = np.linalg.cholesky(covariance)
    scaled = away @ np.linalg.inv(root).T
    constant = len(covariance) * LOG_2PI + 2 * np.log(np.diag(root)).sum()
    return np.asarray(-(np.einsum("...d,...d->...", scaled, scaled) + constant) / 2)


class Patterns:
    """Observations ``(T, d)``, grouped by their missing coordinates."""

    def __init__(self, x: Floats) -> None:
        self.x = x
        missing = np.isnan(x)
        if missing.any():
            unseen, kind = np.unique(missing, axis=0, return_inverse=True)
            self.seen: Mask = ~unseen
            self.kind: Indices = kind.reshape(-1)
            self.filled = np.where(missing, 0.0, x)
        else:
            self.seen, self.kind, self.filled = np.ones((1, x.shape[1]), dtype=bool), np.zeros(len(x), dtype=int), x

    @property
    def n_kinds(self) -> int:
        """Number of different patterns."""
        return len(self.seen)

    @cached_property
    def rows(self) -> list[Indices]:
        """Observations with each pattern."""
        if self.n_kinds == 1:
            return [np.arange(len(self.x))]
        return [np.flatnonzero(self.kind == k) for k in range(self.n_kinds)]

    def precisions(self, covariance: Floats) -> Floats:
        """Inverses of the covariances of what is seen in each pattern, zero elsewhere, ``(K, d, d)``."""
        found = np.zeros((self.n_kinds, *covariance.shape))
        for k, seen in enumerate(self.seen):
            at = np.ix_(seen, seen)
            found[k][at] = np.linalg.inv(covariance[at])
        return found

    def residual_logs(self, away: Floats, covariance: Floats) -> Floats:
        """Log densities of residuals ``(T, d)`` in the coordinates that are seen, ``(T,)``."""
        logs = np.zeros(len(away))
        for rows, seen in zip(self.rows, self.seen, strict=True):
            logs[rows] = log_density(away[rows][:, seen], covariance[np.ix_(seen, seen)])
        return logs


class CompletedMoments(NamedTuple):
    """Expected sums over observations: eta x' ``(C n, d)``, eta eta' ``(C n, C n)`` and x x' ``(d, d)``."""

    crossed: Floats
    states: Floats
    squares: Floats


def completed(patterns: Patterns, mean: Floats, covariance: Floats, eta: Floats, pairs: Floats) -> CompletedMoments:
    """Return expected sums, with missing coordinates replaced by their expectations given the rest and the states.

    Parameters
    ----------
    patterns : Patterns
        The observations.
    mean, covariance : array of shape (C n, d) and (d, d)
        Effects of all states, and the noise.
    eta : array of shape (T, C n)
        Posteriors of the states.
    pairs : array of shape (K, C n, C n)
        Sums of the posteriors of pairs of states over the observations of each pattern.
    """
    d = len(covariance)
    crossed, squares = np.zeros((eta.shape[1], d)), np.zeros((d, d))
    for rows, seen, own in zip(patterns.rows, patterns.seen, pairs, strict=True):
        x, states = patterns.filled[rows], eta[rows]
        if seen.all():
            crossed += states.T @ x
            squares += x.T @ x
            continue
        o, m = np.flatnonzero(seen), np.flatnonzero(~seen)
        gain = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, m)]).T
        given, spread = np.zeros((d, d)), np.zeros((d, d))  # missing = gain x + given (effects) + noise
        given[np.ix_(m, m)], given[np.ix_(m, o)] = np.eye(len(m)), -gain
        spread[np.ix_(m, m)] = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
        x = x.copy()
        x[:, m] = x[:, o] @ gain.T
        effects = mean @ given.T
        cross = states.T @ x
        crossed += cross + own @ effects
        both = cross.T @ effects
        squares += x.T @ x + both + both.T + effects.T @ own @ effects + len(rows) * spread
    return CompletedMoments(crossed, pairs.sum(axis=0), squares)
