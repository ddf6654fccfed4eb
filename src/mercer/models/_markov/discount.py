"""Discounted probability products of Markov chains: sums over all lengths, in logarithms (PPK-4.2a, PPK-4.2b)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, logsumexp, namespace, to_numpy
from mercer._coupling import Coupling, Operand
from mercer.families.categorical import Categoricals
from mercer.models._chains.operand import chain_operand
from mercer.models._chains.sweep import without_gradient
from mercer.models._markov.operand import ProductOperand
from mercer.models.discount import MOST_STEPS, TAIL, infinite, too_slow

_LOG_TINY = -745.0
_HOPELESS = 300.0


class DiscountedProductOperand(ProductOperand):
    """Markov chains under a discounted probability product: ``lengths`` is a `Discounted`."""

    lengths: Any

    def pair(self, other: ProductOperand) -> Array:
        """Log kernels of every pair, ``(1, I, J)``."""
        i, j = len(self), len(other)
        values = self._aligned(other, np.repeat(np.arange(i), j), np.tile(np.arange(j), i), named=False)
        return namespace(values).reshape(values, (1, i, j))

    def alone(self) -> Array:
        """Log kernel of every chain with itself, ``(1, N)``; raises if it is infinite."""
        everyone = np.arange(len(self))
        return self._aligned(self, everyone, everyone, named=True)[None, :]

    def _aligned(self, other: ProductOperand, rows: Floats, columns: Floats, named: bool) -> Array:
        """Compute the pairs (rows[p], columns[p]), a few at a time."""
        xp, d, order = namespace(self.logs.first), self.lengths.d, self.chains.order
        parts, done = [], 0
        for both in self._products_in_logs(other, rows, columns):
            total, growth = _all_steps(*both[:3], d, order == 0)
            bad = np.flatnonzero(~np.isnan(growth))
            if len(bad):
                self._refuse(int(rows[done + bad[0]]) if named else None, float(growth[bad[0]]))
            terms = [total + order * math.log(d)]
            for length in range(1, order):
                terms.append(logsumexp(both.short[length], axis=-1) + length * math.log(d))
            parts.append(logsumexp(xp.stack(terms), axis=0) + (math.log1p(-d) - math.log(d)))
            done += len(growth)
        return xp.concat(parts)

    def _refuse(self, index: int | None, growth: float) -> None:
        d = self.lengths.d
        raise too_slow(d, MOST_STEPS) if index is None or d * growth < 1 else infinite(index, growth, d)


def _all_steps(first: Array, step: Array, stop: Array, d: float, skip: bool) -> tuple[Array, Floats]:
    """Compute log sum_t d^t first M^t stop of P pairs from logarithms, and the growth of infinite sums (else NaN).

    ``skip`` leaves out t = 0: chains of order 0 begin with a step. The running weights w_t = (d M)^t 1 bound
    the remainder.
    """
    xp = namespace(first)
    pairs, contexts, k = step.shape
    log_d = math.log(d)

    def moved(x: Array) -> Array:
        if contexts == 1:  # order 0 has no context
            after = xp.concat([x[:, :, None]] * k, axis=-1)
        else:  # drop the oldest symbol
            after = xp.concat([xp.reshape(x, (pairs, contexts // k, k))] * k, axis=1)
        return logsumexp(step + after, axis=-1) + log_d

    ends, mass = stop, xp.zeros_like(first)
    total = xp.full_like(first[:, 0], -xp.inf) if skip else logsumexp(first + ends, axis=-1)
    worth = np.zeros(pairs)  # sum of the logs of the largest running weights so far
    for count in range(1, MOST_STEPS + 1):  # noqa: B007
        ends, mass = moved(ends), moved(mass)
        total = xp.logaddexp(total, logsumexp(first + ends, axis=-1))
        largest = to_numpy(without_gradient(xp.max(mass, axis=-1)))
        worth = np.logaddexp(worth, largest)
        left = to_numpy(without_gradient(logsumexp(first + mass, axis=-1)))
        with np.errstate(invalid="ignore"):
            rest = left + worth + math.log(2.0)  # largest <= 1/2, so the remainder is at most twice the last term
            done = (rest <= to_numpy(without_gradient(total)) + math.log(TAIL)) | (largest <= _LOG_TINY)
        done &= largest <= math.log(0.5)
        if done.all() or (largest > _HOPELESS).any():
            break
    return total, np.where(done, np.nan, np.exp(largest / count) / d)


# A Markov chain as a hidden Markov model on its last symbols: for mean maps (GMMK-5).

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
