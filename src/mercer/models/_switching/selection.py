"""Which regime paths go on: the best ones, or a random choice that leaves every sum of weights unbiased."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._array import Floats, Indices

__all__ = ["best", "unbiased"]


def best(regimes: int) -> Callable[..., tuple[Indices, Floats]]:
    """Return a selection of the paths of largest weight, among them the best one of every present regime."""

    def select(weights: Floats, most: int, t: int, runs: Indices) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        key = weights.copy()
        if most >= regimes:
            each = weights.reshape(len(weights), -1, regimes)
            leaders = each.argmax(axis=1) * regimes + np.arange(regimes)
            key[rows, leaders] = np.where(weights[rows, leaders] > -np.inf, np.inf, -np.inf)
        picked = np.argpartition(-key, most - 1, axis=1)[:, :most]
        return picked, weights[rows, picked]

    return select


def unbiased(uniform: Floats, group: Indices) -> Callable[..., tuple[Indices, Floats]]:
    """Return the random selection of Fearnhead and Clifford (2003), in which no path occurs twice.

    Paths above a threshold are kept; of the others some are drawn by systematic sampling and get the threshold as
    their weight. Of all unbiased selections it has the smallest variance of the weights.

    Parameters
    ----------
    uniform : array of shape (steps, G)
        Uniform numbers of every step and group.
    group : array of int of shape (S,)
        Group of every run.
    """

    def select(weights: Floats, most: int, t: int, runs: Indices) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        order = np.argsort(-weights, axis=1, kind="stable")
        logs = weights[rows, order]
        top = np.where(logs[:, :1] > -np.inf, logs[:, :1], 0.0)
        w = np.exp(logs - top)
        tail = np.cumsum(w[:, ::-1], axis=1)[:, ::-1][:, :most]  # the sum of this weight and all smaller ones
        level = tail / (most - np.arange(most))
        kept = np.argmax(w[:, :most] <= level * (1 + 1e-15), axis=1)[:, None]  # number of weights above the threshold
        threshold = level[rows, kept]
        open_ = (np.arange(w.shape[1]) >= kept) & (threshold > 0)
        share = np.divide(w, threshold, out=np.zeros_like(w), where=open_)
        drawn = most - kept
        reached = np.minimum(np.cumsum(share, axis=1), drawn)
        reached[:, -1:] = drawn
        passed = np.floor(reached - uniform[t, group[runs]][:, None] + 1)
        chosen = np.diff(passed, axis=1, prepend=0.0) > 0
        chosen |= np.arange(w.shape[1]) < kept
        few = threshold[:, 0] <= 0  # nothing is left to choose from: the first ones, some of weight zero
        chosen[few] = np.arange(w.shape[1]) < most
        places = np.argsort(~chosen, axis=1, kind="stable")[:, :most]  # as many, also where a sum was rounded
        raised = (places >= kept) & ~few[:, None]
        with np.errstate(divide="ignore"):
            flat = np.log(threshold) + top
        return order[rows, places], np.where(raised, flat, logs[rows, places])

    return select
