"""Kernels of pairs estimated from draws of both distributions (PPK-5a)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp, to_numpy
from mercer.families import Bernoullis, Categoricals, Exponentials, Gammas, Gaussians, Multinomials
from mercer.kernels._draws import Objects, densities, draw, joined
from mercer.kernels._windows.random import FEWEST


def powered(batch: Any, rho: float) -> tuple[Any, Floats] | None:
    """Return the distributions p^rho / Z and log Z of a family that is closed under powers; None for others.

    Z is the integral of p^rho, which is the kernel of p with itself at half the power.
    """
    found: Any = None
    if rho == 1:
        found = batch
    elif isinstance(batch, Gaussians):
        found = Gaussians(to_numpy(batch.mean), to_numpy(batch.covariance) / rho)
    elif isinstance(batch, Categoricals) or (isinstance(batch, Multinomials) and batch.trials == 1):
        if not hasattr(batch.probability, "indptr"):
            weights = to_numpy(batch.probability) ** rho
            found = batch._replaced(probability=weights / weights.sum(axis=-1, keepdims=True))
    elif isinstance(batch, Bernoullis):
        ones, zeros = to_numpy(batch.probability) ** rho, (1 - to_numpy(batch.probability)) ** rho
        found = Bernoullis(ones / (ones + zeros))
    elif isinstance(batch, Exponentials):
        found = Exponentials(to_numpy(batch.scale) / rho)
    elif isinstance(batch, Gammas) and np.all(rho * (to_numpy(batch.concentration) - 1) + 1 > 0):
        found = Gammas(rho * (to_numpy(batch.concentration) - 1) + 1, to_numpy(batch.scale) / rho)
    if found is None:
        return None
    one = batch.reshape(-1, 1)  # each crossed with itself
    return found, np.zeros(len(batch)) if rho == 1 else to_numpy(one.log_product(one, rho=rho / 2))[:, 0, 0]


@dataclass
class PairDraws:
    """Distributions with draws of their own, from which kernels of pairs are estimated.

    Parameters
    ----------
    source : Batch or Objects
        N distributions.
    draws : list of N arrays or Sequences
        T points of each.
    log_weights : array of shape (N, T)
        Logarithm of p^rho over the density that the points were drawn from.
    own : array of shape (N, T)
        Log densities of the points under their own distribution.
    place : array of shape (N,)
        Positions among the objects of the side.
    side : object
        What the objects of one side have in common.
    rho, beta : float
        The power, and the share of the draws of the first distribution of a pair.
    """

    source: Any
    draws: list[Any]
    log_weights: Floats
    own: Floats
    place: Floats
    side: object
    rho: float
    beta: float

    order = None
    tile_hint = 64

    @classmethod
    def of(cls, source: Any, seeds: list[int], size: int, length: int, rho: float, beta: float) -> PairDraws:
        """Draw ``size`` points from each distribution: from p^rho / Z of a family that has it, else from p."""
        found = None if isinstance(source, Objects) else powered(source, rho)
        proposal = source if found is None else found[0]
        draws = [draw(proposal, i, size, length, seeds[i]) for i in range(len(source))]
        own = np.concatenate([densities(source[i : i + 1], points) for i, points in enumerate(draws)])
        bad = np.flatnonzero(~np.isfinite(own).all(axis=1))
        if len(bad):
            raise ValueError(
                f"object {bad[0]} has the density 0 at a point that it has drawn itself. Its log_prob and sample must "
                "belong to the same distribution."
            )
        log_weights = (rho - 1) * own if found is None else np.repeat(found[1][:, None], size, axis=1)
        return cls(source, draws, log_weights, own, np.arange(len(source)), object(), rho, beta)

    def __len__(self) -> int:
        return len(self.draws)

    def __getitem__(self, key: Any) -> PairDraws:
        index = np.arange(len(self))[key]
        draws = [self.draws[i] for i in index]
        parts = self.log_weights[index], self.own[index], self.place[index]
        return PairDraws(self.source[index], draws, *parts, self.side, self.rho, self.beta)

    def _log_terms(self, other: PairDraws) -> Floats:
        """Log terms of the estimates from the draws of this side, ``(I, J, T)``."""
        n, size = self.log_weights.shape
        logs = densities(other.source, joined(self.draws)).reshape(len(other), n, size)
        return np.asarray(self.log_weights[:, None] + self.rho * logs.swapaxes(0, 1))

    def _shares(self, other: PairDraws) -> Floats:
        """Share of the draws of the left object of every pair, ``(I, J)``.

        It is ``beta`` for a left object that comes after the right one, or is on another side, as in the lower triangle
        of a Gram matrix, which is mirrored.
        """
        first = (self.place[:, None] >= other.place) if self.side is other.side else np.ones((len(self), len(other)))
        return np.where(first, self.beta, 1 - self.beta)

    def log_terms(self, other: PairDraws) -> tuple[Floats, Floats]:
        """Log terms of both sides, ``(I, J, T)``, with the shares; their sum over T is the kernel."""
        share, count = self._shares(other)[..., None], self.log_weights.shape[1]
        with np.errstate(divide="ignore"):  # a share can be zero
            left = np.log(share / count) + self._log_terms(other)
            return left, np.log((1 - share) / count) + other._log_terms(self).swapaxes(0, 1)

    def pair(self, other: PairDraws) -> Floats:
        """Log estimates of every pair."""
        return np.asarray(logsumexp(np.concatenate(self.log_terms(other), axis=-1), axis=-1))

    def alone(self) -> Floats:
        """Log estimates of the self-kernels, ``(N,)``."""
        return np.asarray(logsumexp(self.log_weights + self.rho * self.own, axis=1) - np.log(self.own.shape[1]))

    def standard_errors(self, other: PairDraws, normalize: bool) -> Floats:
        """Return the standard errors of every pair, from the spread of the terms over the draws.

        If the kernel is normalized, the self-kernels vary with the draws, too (delta method). Infinite if fewer than
        about 20 draws contribute to an entry.
        """
        logs, count = self.log_terms(other), self.own.shape[1]
        selves = self.alone(), other.alone()
        scale = (selves[0][:, None] + selves[1]) / 2 if normalize else np.zeros((len(self), len(other)))
        terms = [count * np.exp(part - scale[..., None]) for part in logs]
        total = sum(part.sum(axis=-1) for part in terms)
        squares = sum((part**2).sum(axis=-1) for part in terms)
        enough = (squares > 0) & (total**2 >= FEWEST * squares)
        if normalize:
            value = total / count
            for k, (side, log_self) in enumerate(zip((self, other), selves, strict=True)):
                ratio = np.exp(side.log_weights + side.rho * side.own - log_self[:, None])
                terms[k] = terms[k] - value[..., None] / 2 * (ratio[:, None] if k == 0 else ratio[None])
        variance = sum(part.var(axis=-1, ddof=1) for part in terms) / count
        return np.where(enough, np.sqrt(variance), np.inf)
