"""Discounted probability products of Markov chains: sums over all lengths, in logarithms (PPK-4.2a, PPK-4.2b)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, logsumexp, namespace, to_numpy
from mercer.models._chains.sweep import without_gradient
from mercer.models._markov.operand import PAIR_CELLS, ProductOperand
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
        a, b, d = self.logs, other.logs, self.lengths.d
        xp = namespace(a.first, b.first)
        size = max(1, PAIR_CELLS // (self.chains.n_contexts * len(self.chains.alphabet)))
        parts = []
        for begin in range(0, len(rows), size):
            i, j = (beside(a.first, index[begin : begin + size]) for index in (rows, columns))

            def both(x: Array, y: Array, i: Array = i, j: Array = j) -> Array:
                return xp.take(x, i, axis=0) + xp.take(y, j, axis=0)

            first, step, stop = (both(x, y) for x, y in zip(a[:3], b[:3], strict=True))
            total, growth = _all_steps(first, step, stop, d, self.chains.order == 0)
            bad = np.flatnonzero(~np.isnan(growth))
            if len(bad):
                self._refuse(int(rows[begin + bad[0]]) if named else None, float(growth[bad[0]]))
            terms = [total + self.chains.order * math.log(d)]
            for length in range(1, self.chains.order):
                terms.append(logsumexp(both(a.short[length], b.short[length]), axis=-1) + length * math.log(d))
            parts.append(logsumexp(xp.stack(terms), axis=0) + (math.log1p(-d) - math.log(d)))
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
