"""A Markov chain as a hidden Markov model on its last symbols: for mean maps (GMMK-5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, beside, namespace
from mercer._coupling import Coupling, Operand
from mercer.families.categorical import Categoricals
from mercer.models._chains.operand import chain_operand

GRAM_STATES = 128
"""Largest number of states of such a model."""


def gram_operand(chains: Any, coupling: Coupling, lengths: Any) -> Operand:
    """Couple Markov chains through their states; see `on_grams`.

    States are determined by the symbols, so a power of the hidden weights is a power of the probability of the string.
    """
    initial, transition, emission = on_grams(chains)
    sizes = np.full(len(chains), int(initial.shape[-1]))
    return chain_operand(initial, transition, emission.couple(coupling, lengths), sizes, coupling.power, lengths)


def on_grams(chains: Any) -> tuple[Array, Array, Categoricals]:
    """Return Markov chains as hidden Markov models: initial, transition and emission.

    The states are all strings of 1 to ``order`` symbols, the last of which is emitted. A string of L symbols then has
    exactly L states, even if L is less than the order.
    """
    k, order = len(chains.alphabet), chains.order
    states = sum(k**j for j in range(1, order + 1)) if order else 1
    if chains.end:
        raise ValueError("This kernel compares chains without an end. Fit them with end=False, and pass a length.")
    if states > GRAM_STATES:
        raise ValueError(
            f"This kernel of Markov chains of order {order} over {k} symbols runs over {states}^2 pairs of contexts, "
            f"more than {GRAM_STATES}^2. Lower the order, or use ProbabilityProduct, which does not need such pairs."
        )
    chains = chains.dense()
    if order == 0:
        initial = chains.initial
        transition, emitted = initial[:, None, :], chains.transition
    else:
        initial, transition = _on_grams(chains.initial, chains.transition, k, order)
        newest = np.concatenate([np.tile(np.eye(k), (k ** (j - 1), 1)) for j in range(1, order + 1)])
        shape = (len(chains), states, k)
        emitted = beside(initial, np.broadcast_to(newest, shape).copy(), initial.dtype)
    return initial, transition, Categoricals._make(probability=emitted, alphabet=chains.alphabet)


def _on_grams(initial: Array, transition: Array, k: int, order: int) -> tuple[Array, Array]:
    """Return initial ``(N, n)`` and transition ``(N, n, n)`` on all strings of 1 to ``order`` symbols."""
    xp = namespace(initial, transition)
    n = int(initial.shape[0])
    laws = [xp.sum(xp.reshape(initial, (n, k**j, -1)), axis=-1) for j in range(1, order + 1)]
    rows, targets, base = [], [], 0
    for j in range(1, order):  # append a symbol
        longer, shorter = xp.reshape(laws[j], (n, k**j, k)), laws[j - 1][..., None]
        possible = shorter > 0
        row = longer / xp.where(possible, shorter, xp.ones_like(shorter))
        rows.append(xp.where(possible, row, xp.full_like(row, 1.0 / k)))
        base += k**j
        targets.append(base + np.arange(k ** (j + 1)).reshape(k**j, k))
    rows.append(transition)  # drop the oldest symbol of a context
    targets.append(base + (np.arange(k**order)[:, None] * k + np.arange(k)) % k**order)
    row, target = xp.concat(rows, axis=1), np.concatenate(targets)
    states = len(target)
    moved = xp.zeros_like(row[:, :, :1]) + beside(row, np.zeros((1, 1, states)), row.dtype)
    for s in range(k):
        place = beside(row, np.eye(states)[target[:, s]], row.dtype)
        moved = moved + row[:, :, s][..., None] * place
    first = beside(row, np.zeros((n, states - k)), row.dtype)
    return xp.concat([laws[0], first], axis=1), moved
