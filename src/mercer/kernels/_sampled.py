"""Operands of `Sampled` kernels, and the standard errors of their entries (PPK-5a, PPK-5b, MM-1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp
from mercer.kernels._draws import densities, joined
from mercer.kernels._operands import LogFeatures, squared_distances
from mercer.kernels._windows.points import WindowSets
from mercer.kernels._windows.random import FEWEST, spread

__all__ = ["TwoSided", "common_effective", "common_errors", "mean_map_errors"]


class TwoSided:
    """Objects, draws from each and the weights of these draws (PPK-5a).

    Parameters
    ----------
    source : batch or Objects
        The distributions.
    points : list of N draws
        n draws from each.
    weights : array of shape (N, n)
        Log weights of the draws: an integral of p^rho f is the mean of weight times f.
    own : array of shape (N, n)
        Terms of the self-kernels, as logarithms.
    rho, beta : float
        The power, and the share of the draws of the first side.
    matrix : object
        A mark that all parts of one side share: within one side beta is 1/2, because the matrix is symmetric.
    """

    order = None
    tile_hint = 16

    def __init__(
        self, source: Any, points: list[Any], weights: Floats, own: Floats, rho: float, beta: float, matrix: Any
    ) -> None:
        self.source = source
        self.points = points
        self.weights = weights
        self.own = own
        self.rho = rho
        self.beta = beta
        self.matrix = matrix

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, key: Any) -> TwoSided:
        picked = range(len(self))[key] if isinstance(key, slice) else np.arange(len(self))[key]
        points = [self.points[i] for i in picked]
        parts = self.source[key], points, self.weights[key], self.own[key]
        return TwoSided(*parts, self.rho, self.beta, self.matrix)

    def _at(self, other: TwoSided) -> Floats:
        """Return the log terms of the draws of this side under the objects of the other, ``(I, J, n)``."""
        values = densities(other.source, joined(self.points)).reshape(len(other), len(self), -1)
        return np.asarray(self.weights[:, None] + self.rho * values.swapaxes(0, 1))

    def terms(self, other: TwoSided) -> Floats:
        """Return log terms whose mean is the kernel, ``(I, J, 2 n)``: draws of this side, then of the other."""
        beta = 0.5 if self.matrix is other.matrix else self.beta
        with np.errstate(divide="ignore"):
            shares = np.log(2 * beta), np.log(2 * (1 - beta))
        return np.concatenate([shares[0] + self._at(other), shares[1] + other._at(self).swapaxes(0, 1)], axis=-1)

    def pair(self, other: TwoSided) -> Floats:
        """Return the log kernel of every pair."""
        terms = self.terms(other)
        return np.asarray(logsumexp(terms, axis=-1) - np.log(terms.shape[-1]))

    def alone(self) -> Floats:
        """Return the log self-kernel of every object."""
        return np.asarray(logsumexp(self.own, axis=-1) - np.log(self.own.shape[-1]))

    def errors(self, other: TwoSided, normalize: bool) -> Floats:
        """Return the standard error of every pair, ``(I, J)``, in blocks of rows."""
        n, found = self.own.shape[-1], np.empty((len(self), len(other)))
        selves = [np.exp(side.own - side.alone()[:, None]) for side in (self, other)]
        step = self.tile_hint
        for at in range(0, len(self), step):
            part = self[at : at + step]
            logs = part.terms(other)
            level = logsumexp(logs, axis=-1) - np.log(2 * n)
            share = np.exp(logs - np.where(level > -np.inf, level, 0.0)[..., None])
            # Draws number i of both sides form one term: it does not matter whether they are independent.
            influence = (share[..., :n] + share[..., n:]) / 2
            if normalize:  # the self-kernels vary with the kernel (delta method)
                influence = influence - (selves[0][at : at + step, None] + selves[1]) / 2
                level = level - (part.alone()[:, None] + other.alone()) / 2
            found[at : at + step] = np.exp(level) * np.std(influence, axis=-1, ddof=1) / np.sqrt(n)
        return found

    def effective(self, other: TwoSided) -> Floats:
        """Return (sum t)^2 / sum t^2 over the terms of every pair."""
        return effective_number(self.terms(other))


def effective_number(logs: Floats) -> Floats:
    """Return (sum t)^2 / sum t^2 along the last axis, from logarithms; 0 if all terms are zero."""
    top = logs.max(axis=-1, keepdims=True)
    terms = np.exp(logs - np.where(top > -np.inf, top, 0.0))
    squares = (terms**2).sum(axis=-1)
    return np.asarray(terms.sum(axis=-1) ** 2 / np.where(squares > 0, squares, 1.0))


def common_effective(a: LogFeatures, b: LogFeatures) -> Floats:
    """Return (sum t)^2 / sum t^2 over the terms t of every pair, products of features."""
    squares = np.exp(2 * (a.values - a.log_scale[:, None])) @ np.exp(2 * (b.values - b.log_scale[:, None])).T
    return np.asarray((a.scaled @ b.scaled.T) ** 2 / np.where(squares > 0, squares, 1.0))


def common_errors(a: LogFeatures, b: LogFeatures, normalize: bool) -> Floats:
    """Return the standard error of every pair under a common proposal."""
    # `spread` takes cosines and sines: the features, and zeros.
    left, right = (np.concatenate([side.scaled, np.zeros_like(side.scaled)], axis=1) for side in (a, b))
    errors = spread(left, right, normalize)
    return errors if normalize else errors * np.exp(a.log_scale[:, None] + b.log_scale)


def mean_map_errors(a: WindowSets, b: WindowSets, normalize: bool) -> Floats:
    """Return the standard error of every pair of sampled mean maps.

    Infinite if the kernels of samples with themselves, which are 1, make up more than 1/20 of a self-kernel.
    """
    left, right = ([np.asarray(side.sequences[i]) for i in range(len(side))] for side in (a, b))
    n = len(left[0])

    def means(x: Floats, y: Floats) -> tuple[Floats, Floats]:
        values = np.exp(-a.gamma * squared_distances(x, y))
        return values.mean(axis=1), values.mean(axis=0)

    own, theirs = ([means(x, x)[0] for x in side] for side in (left, right))
    found = np.empty((len(left), len(right)))
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            rows, columns = means(x, y)
            level = rows.mean()
            influence = rows + columns
            if normalize:
                scale = np.sqrt(own[i].mean() * theirs[j].mean())
                slope = own[i] / own[i].mean() + theirs[j] / theirs[j].mean()
                influence = influence / scale - level / scale * slope
            found[i, j] = np.std(influence, ddof=1) / np.sqrt(n)
    for side, at in ((own, np.s_[:, None]), (theirs, np.s_[None, :])):
        found[np.broadcast_to(np.array([np.mean(h) * n < FEWEST for h in side])[at], found.shape)] = np.inf
    return found
