"""Stationary distributions of Markov chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from mercer._array import Floats, to_numpy

LARGEST = 2048
"""Largest number of contexts for which the equations are solved."""


def long_run(initial: Floats, transition: Floats) -> Floats:
    """Long-run fraction of time in every state, ``(N, n)``: the Cesaro limit of the chain started from ``initial``.

    Parameters
    ----------
    initial, transition : ndarray of shape (N, n) and (N, n, n)
        Probabilities of N chains.

    Examples
    --------
    >>> long_run(np.array([[1.0, 0.0]]), np.array([[[0.9, 0.1], [0.3, 0.7]]])).round(4)
    array([[0.75, 0.25]])
    """
    found = np.empty(initial.shape)
    regular = (transition > 0).all(axis=(-2, -1))
    if regular.any():
        found[regular] = _eliminated(transition[regular])
    for i in np.flatnonzero(~regular):
        found[i] = _reducible(initial[i], transition[i])
    return found


def long_run_of_contexts(chains: Any) -> Floats:
    """Return the Cesaro limit of the distribution of contexts from the initial one, ``(N, C)``."""
    contexts, k = chains.n_contexts, len(chains.alphabet)
    if contexts > LARGEST:
        raise ValueError(
            f"Chains of order {chains.order} over {k} symbols have {contexts} contexts; the stationary distribution is "
            f"computed for {LARGEST} at most. Lower the order."
        )
    out = np.empty((len(chains), contexts))
    after = (np.arange(contexts)[:, None] * k + np.arange(k)) % contexts
    for i in range(len(chains)):
        one = chains[i : i + 1].dense()
        initial, rows = to_numpy(one.initial)[0].astype(float), to_numpy(one.transition)[0].astype(float)
        step = np.zeros((contexts, contexts))
        for s in range(k):
            step[np.arange(contexts), after[:, s]] += rows[:, s]
        out[i] = long_run(initial[None], step[None])[0]
    return out


def _eliminated(transition: Floats) -> Floats:
    """Stationary distributions of irreducible chains ``(N, n, n)``.

    Eliminates one state after the other without subtraction (Grassmann, Taksar and Heyman), so every entry is accurate
    to a few rounding errors, for sticky chains too.
    """
    a = transition.astype(np.float64)
    n = a.shape[-1]
    for k in range(n - 1, 0, -1):
        leaving = a[:, k, :k].sum(axis=-1)
        a[:, :k, k] /= leaving[:, None]
        a[:, :k, :k] += a[:, :k, k, None] * a[:, k, None, :k]
    weight = np.zeros(a.shape[:2])
    weight[:, 0] = 1.0
    for k in range(1, n):
        weight[:, k] = (weight[:, :k] * a[:, :k, k]).sum(axis=-1)
        weight /= weight.sum(axis=-1, keepdims=True)
    return weight


def _reducible(initial: Floats, transition: Floats) -> Floats:
    """Weight every closed class by the probability of being absorbed there.

    Transient states are eliminated one after the other, without subtraction: their mass is passed on to their
    successors.
    """
    count, label = connected_components(transition > 0, directed=True, connection="strong")
    inside = label == np.arange(count)[:, None]
    closed = [c for c in inside if not np.any(transition[np.ix_(c, ~c)] > 0)]
    a, start = transition.astype(np.float64), initial.astype(np.float64)
    left = np.ones(len(start), dtype=bool)
    for k in np.flatnonzero(~np.any(closed, axis=0)):
        left[k] = False
        onward = a[k, left] / a[k, left].sum()
        start[left] += start[k] * onward
        a[:, left] += a[:, k, None] * onward
    found = np.zeros(len(start))
    for members in closed:
        found[members] = start[members].sum() * _eliminated(transition[np.ix_(members, members)][None])[0]
    return found / found.sum()
