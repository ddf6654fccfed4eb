"""The scaled forward algorithm for many models and many sequences at once (ALG-FB)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["forward_log_prob"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]


def forward_log_prob(initial: Floats, transition: Floats, log_likelihood: Floats, offsets: Integers) -> Floats:
    """Compute the log probability of every sequence under every model.

    Parameters
    ----------
    initial : ndarray of shape (N, n)
        Probabilities of the first state.
    transition : ndarray of shape (N, n, n)
        ``transition[:, i, j]`` is the probability of going from i to j.
    log_likelihood : ndarray of shape (N, n, T)
        Log density of every observation in every state; the sequences one after the other.
    offsets : ndarray of int of shape (M + 1,)
        Sequence s holds the observations ``offsets[s]`` to ``offsets[s + 1] - 1``.

    Returns
    -------
    ndarray of shape (N, M)
        Log probabilities: -inf for an impossible sequence, 0 for an empty one.

    Examples
    --------
    >>> table, offsets = np.full((1, 1, 3), -2.0), np.array([0, 2, 2, 3])
    >>> forward_log_prob(np.ones((1, 1)), np.ones((1, 1, 1)), table, offsets)
    array([[-4.,  0., -2.]])
    """
    offsets = np.asarray(offsets)
    lengths = np.diff(offsets)
    # Longest first: the sequences still running at any time are then a prefix.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[:-1][order], lengths[order]
    log_prob = np.zeros((initial.shape[0], lengths.size), dtype=log_likelihood.dtype)
    alpha, weights = np.ones((initial.shape[0], lengths.size, 1), dtype=initial.dtype), initial[:, None, :]
    for time in range(int(lengths[0]) if lengths.size else 0):
        running = int(np.searchsorted(-lengths, -time, side="left"))
        table = np.take(log_likelihood, starts[:running] + time, axis=2).swapaxes(1, 2)
        alpha, log_total = _step(alpha[:, :running], weights, table)
        log_prob[:, :running] += log_total
        weights = transition
    result = np.empty_like(log_prob)
    result[:, order] = log_prob
    return result


def _step(alpha: Floats, weights: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Move every running sequence one observation on; return normalised weights and the log of their sum."""
    top = table.max(axis=2, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    forward = alpha @ weights * np.exp(table - top)
    total = forward.sum(axis=2)
    small = total < np.sqrt(np.finfo(total.dtype).tiny)
    log_total = np.log(np.where(small, 1, total)) + top[:, :, 0]
    forward /= np.where(small, 1, total)[:, :, None]
    if small.any():  # the likely states cannot be reached: their scale hides the others
        model, sequence = np.nonzero(small)
        redone = _log_step(alpha[model, sequence], weights[model], table[model, sequence])
        forward[model, sequence], log_total[model, sequence] = redone
    return forward, log_total


def _log_step(alpha: Floats, weights: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Do the same for single pairs of a model and a sequence in the log domain; all zero stays all zero."""
    with np.errstate(divide="ignore"):
        terms = np.log(alpha)[:, :, None] + np.log(weights) + table[:, None, :]
        top = terms.max(axis=(1, 2), keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        forward = np.exp(terms - top).sum(axis=1)
        total = forward.sum(axis=1)
        return forward / np.where(total > 0, total, 1)[:, None], np.log(total) + top[:, 0, 0]
