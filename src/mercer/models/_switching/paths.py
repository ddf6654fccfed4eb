"""Regime paths of every model, all of them or drawn once, with their weights in a kernel (PPK-5.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask, logsumexp, safe_log, to_numpy
from mercer._probability import drawn
from mercer.models._switching.likelihood import numbers_of_paths

__all__ = ["Paths", "regime_paths"]


class Paths(NamedTuple):
    """Weighted regime paths of N models."""

    regimes: Indices
    """``(N, P, L)``."""
    log_weight: Floats
    """Of the first steps of a path up to each of H lengths, ``(N, H, P)``; -inf where there are fewer paths."""
    exact: Mask
    """Whether these are all paths of a model, ``(N,)``."""


def regime_paths(
    initial: Any, transition: Any, n_regimes: Indices, lengths: Indices, power: float, most: int, seeds: list[int]
) -> Paths:
    """Return all paths of the models that have at most ``most``, and draws for the others.

    Sums over weighted paths are sums over all paths of ``p(path)^power``, or unbiased estimates of them.

    Parameters
    ----------
    initial, transition : array of shape (N, K) and (N, K, K)
        Markov chains of regimes.
    n_regimes : array of int of shape (N,)
        Numbers of regimes that are not padding.
    lengths : array of int of shape (H,)
        Numbers of steps, ascending.
    power : float
        The power of the probabilities.
    most : int
        Number of draws.
    seeds : list of N int
        Seed of each model.
    """
    first, step = (power * safe_log(np.asarray(to_numpy(part), np.float64)) for part in (initial, transition))
    size, length = len(first), int(lengths[-1])
    numbers = numbers_of_paths(n_regimes, length)
    exact = numbers <= most
    counts = np.where(exact, np.minimum(numbers, most), most).astype(int)
    regimes = np.zeros((size, int(counts.max(initial=1)), length), dtype=np.int64)
    weights = np.full((size, len(lengths), regimes.shape[1]), -np.inf)
    for i in np.flatnonzero(exact):
        k, count = int(n_regimes[i]), int(counts[i])
        regimes[i, :count] = np.indices((k,) * length).reshape(length, count).T if k > 1 else 0
        logs = _log_prefixes(first[i], step[i], regimes[i, :count])[:, lengths - 1]
        weights[i, :, :count] = (logs - (length - lengths) * np.log(k)).T  # a prefix occurs so many times
    some = np.flatnonzero(~exact)
    if len(some):
        uniform = np.stack([np.random.default_rng(seeds[i]).random((most, length)) for i in some])
        regimes[some, :most], log_weight = _drawn(first[some], step[some], uniform, lengths)
        weights[some, :, :most] = log_weight
    return Paths(regimes, weights, exact)


def _log_prefixes(first: Floats, step: Floats, paths: Indices) -> Floats:
    """Return the log probabilities of the first steps of every path, ``(P, L)``."""
    moves = step[paths[:, :-1], paths[:, 1:]]
    return np.cumsum(np.concatenate([first[paths[:, :1]], moves], axis=1), axis=1)


def _drawn(first: Floats, step: Floats, uniform: Floats, lengths: Indices) -> tuple[Indices, Floats]:
    """Draw paths from chains to a power; return also log weights ``(N, H, P)``.

    The probability of a path, to the power, is a Markov chain with the weights of all ways to go on. The first steps
    of a path have these weights too, which are divided out.
    """
    size, most, length = uniform.shape
    ahead = np.zeros((length, *first.shape))
    for t in range(length - 2, -1, -1):
        ahead[t] = logsumexp(step + ahead[t + 1][:, None], axis=-1)
    total = logsumexp(first + ahead[0], axis=-1)
    regimes = np.empty((size, most, length), dtype=np.int64)
    models = np.arange(size)[:, None]
    for t in range(length):
        if t:
            before = regimes[..., t - 1]
            logs = step[models, before] + ahead[t][:, None] - ahead[t - 1][models, before][..., None]
        else:
            logs = np.broadcast_to((first + ahead[0] - total[:, None])[:, None], (size, most, first.shape[1]))
        regimes[..., t] = drawn(np.cumsum(np.exp(logs), axis=-1), uniform[..., t])
    ends = [ahead[n - 1][models, regimes[..., n - 1]] for n in lengths]
    return regimes, np.stack([total[:, None] - end - np.log(most) for end in ends], axis=1)
