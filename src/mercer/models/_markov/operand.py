"""Coupled Markov chains as operands of the Gram engine: probability products on contexts (PPK-4.2a)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, Indices, beside, identity, logsumexp, namespace, safe_log
from mercer._coupling import Coupling, FieldOperand, Operand, power
from mercer._immutable import cached_property
from mercer._native.chains import context_products
from mercer._sizes import human
from mercer.families.categorical import Categoricals
from mercer.models._chains import fused
from mercer.models._chains.operand import chain_operand
from mercer.models.discount import Discounted, sum_of_pairs, sum_of_selves

PAIR_CELLS = 1 << 22
"""Number of entries of the pairs that the log-domain recursion processes at once."""
MOST_CELLS = 1 << 20
"""Numbers of the table of one chain beyond which a product is refused: it needs several such tables for each row of a
tile, and a pass over one for every pair and symbol."""
LEAST_ROWS = 8
"""Rows of a tile of large tables: fewer would leave SIMD lanes idle."""
TINY = 1e-150
"""Products of two powers below this underflow."""


def check_cells(chains: Any) -> None:
    """Raise if the table of all contexts of a chain is too large, though most of them were never observed."""
    k, contexts = len(chains.alphabet), chains.n_contexts
    if contexts * k > MOST_CELLS:
        raise ValueError(
            f"the product of Markov chains of order {chains.order} over {k} symbols sums over {contexts:,} contexts, "
            f"observed or not: {contexts * k:,} numbers or {human(8 * contexts * k)} per chain, of at most "
            f"{MOST_CELLS:,}. Use a lower order, a smaller alphabet, or mc.Spectrum(k={chains.order + 1}), "
            "which counts observed words only."
        )


class Tables(NamedTuple):
    """Tables of the recursion: powers of probabilities, or their logarithms."""

    first: Array
    """Distribution of the contexts after the first ``order`` symbols, ``(N, C)``."""
    step: Array
    """``(N, C, k)``."""
    stop: Array
    """Weight of a context at the end, ``(N, C)``."""
    short: tuple[Array, ...]
    """Distributions of the sequences of every length below the order, ``(N, k^L)``."""


def fits_gpu(chains: Any) -> bool:
    """Whether chains are hidden Markov models of few states, their contexts, for the Triton kernel."""
    return bool(chains.order >= 1 and not chains.end and chains.n_contexts <= fused.MOST_STATES)


@dataclass(eq=False)
class ProductOperand(FieldOperand):
    """Markov chains under a probability product: one vector of contexts per pair, length by length.

    Parameters
    ----------
    chains : MarkovChains of shape (N,)
        The chains.
    rho : float
        The exponent.
    lengths : tuple of int, or Discounted
        Lengths of the sequences.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("rho", "lengths")

    by_length: ClassVar[bool] = True
    """Results have a first axis of lengths."""

    chains: Any
    rho: float
    lengths: Any

    def at(self, lengths: Indices) -> Self:
        """Return the same chains with other lengths."""
        return replace(self, lengths=tuple(lengths.tolist()))

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile, such that the tables of both sides fit into the cache if possible."""
        cells = self.chains.n_contexts * len(self.chains.alphabet)
        return min(max((1 << 17) // cells, 16 if cells <= 1 << 18 else LEAST_ROWS), 256)

    @property
    def _at_once(self) -> int:
        """Chains whose dense tables are made at once, where each is used by itself."""
        return max(LEAST_ROWS, PAIR_CELLS // (self.chains.n_contexts * len(self.chains.alphabet)))

    @property
    def _steps(self) -> Floats:
        """Numbers of steps after the first ``order`` symbols, ascending, for lengths of at least ``order``."""
        order = self.chains.order
        return np.array(sorted({n - order for n in self.lengths if n >= order}), dtype=int)

    @cached_property
    def probabilities(self) -> Tables:
        """Dense tables of the chains."""
        chains, k = self.chains, len(self.chains.alphabet)
        xp = namespace(chains.initial)
        n, contexts = len(chains), chains.n_contexts
        first, step = chains.initial[:, :contexts], chains.transition[:, :, :k]
        stop = chains.transition[:, :, k] if chains.end else xp.ones_like(first)
        short = []
        for length in range(chains.order):
            if chains.end:
                begin = contexts + sum(k**j for j in range(length))
                short.append(chains.initial[:, begin : begin + k**length])
            else:
                short.append(xp.sum(xp.reshape(first, (n, k**length, -1)), axis=-1))
        return Tables(first, step, stop, tuple(short))

    @cached_property
    def powers(self) -> Tables:
        """Powers of the probabilities, in float64: for NumPy."""
        p = self.probabilities

        def raised(x: Array) -> Floats:
            return np.ascontiguousarray(power(x, self.rho), dtype=np.float64)

        return Tables(raised(p.first), raised(p.step), raised(p.stop), tuple(map(raised, p.short)))

    @cached_property
    def logs(self) -> Tables:
        """Logarithms of the powers."""
        p, rho = self.probabilities, self.rho
        first, step, stop = (rho * safe_log(x) for x in (p.first, p.step, p.stop))
        return Tables(first, step, stop, tuple(rho * safe_log(x) for x in p.short))

    @cached_property
    def underflows(self) -> bool:
        """Whether products of powers may leave the range of floats, so that only logarithms are right."""
        p = self.probabilities
        tables = [p.first, p.step, p.stop, *p.short]
        least = min(float(np.min(x, where=x > 0, initial=1.0)) for x in tables)
        return bool(self.rho * np.log(least) < np.log(TINY))

    @cached_property
    def as_chains(self) -> tuple[Array, ...] | None:
        """The chains as hidden Markov models that emit their context, for the Triton kernel; None if it has no use.

        Initial weights ``(N, C)``, transition weights ``(N, C, C)`` and features ``(N, C, C)``.
        """
        chains, contexts = self.chains, self.chains.n_contexts
        if isinstance(self.lengths, Discounted) or not fits_gpu(chains):
            return None
        if min(self.lengths) < chains.order:
            return None
        if not fused.usable(chains.initial, chains.transition):
            return None
        p = self.probabilities
        xp, k = namespace(p.first), len(chains.alphabet)
        first, step = power(p.first, self.rho), power(p.step, self.rho)
        if bool(xp.any((p.first > 0) & (first == 0))) or bool(xp.any((p.step > 0) & (step == 0))):
            return None  # only logarithms are right
        after = (np.arange(contexts)[:, None] * k + np.arange(k)) % contexts
        goes = beside(p.first, (after[:, :, None] == np.arange(contexts)).astype(np.float64))
        transition = xp.matrix_transpose(goes) @ step[..., None]
        same = xp.ones_like(step[:, :1, :1]) * identity(p.first, contexts)
        return first, transition[..., 0], same

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""
        if isinstance(self.lengths, Discounted):
            return sum_of_pairs(self, other)
        if self.as_chains is not None and other.as_chains is not None:
            sizes = [np.full(len(side), self.chains.n_contexts) for side in (self, other)]
            lengths = tuple(length - self.chains.order + 1 for length in self.lengths)
            return fused.fused_features(self.as_chains, other.as_chains, (sizes[0], sizes[1]), lengths)
        if not is_numpy_array(self.probabilities.first) or self.underflows or other.underflows:
            return self._pair_in_logs(other)
        a, b = self.powers, other.powers
        wanted = self._steps
        long = context_products(a[:3], b[:3], wanted)
        rows, columns = np.nonzero(np.isnan(long).any(axis=0))
        long[:, rows, columns] = self._aligned_logs(other, rows, columns, wanted)
        short = [safe_log(p @ q.T) for p, q in zip(a.short, b.short, strict=True)]
        return self._by_length(long, short, wanted, np.stack)

    def alone(self) -> Array:
        """Log kernel of every chain with itself, ``(H, N)``; raises if a discounted one is infinite."""
        if isinstance(self.lengths, Discounted):
            return sum_of_selves(self)
        step = self._at_once
        if len(self) > step:
            parts = [self[begin : begin + step].alone() for begin in range(0, len(self), step)]
            return namespace(parts[0]).concat(parts, axis=-1)
        everyone, wanted = np.arange(len(self)), self._steps
        if not is_numpy_array(self.probabilities.first) or self.underflows:
            short = [logsumexp(2 * p, axis=-1) for p in self.logs.short]
            long = self._aligned_logs(self, everyone, everyone, wanted)
            return self._by_length(long, short, wanted, namespace(self.logs.first).stack)
        p = self.powers
        nobody = tuple(np.ones_like(x[:1]) for x in p[:3])  # a neutral chain, which leaves products unchanged
        long = context_products(nobody, tuple(x * x for x in p[:3]), wanted)[:, 0]
        lost = np.flatnonzero(np.isnan(long).any(axis=0))
        long[:, lost] = self._aligned_logs(self, lost, lost, wanted)
        return self._by_length(long, [safe_log(np.sum(x * x, axis=-1)) for x in p.short], wanted, np.stack)

    def _by_length(self, long: Array, short: list[Array], wanted: Floats, stack: Any) -> Array:
        """Arrange the results of every number of steps in the order of the lengths."""
        order, steps = self.chains.order, wanted.tolist()
        return stack([short[n] if n < order else long[steps.index(n - order), ...] for n in self.lengths])

    def _pair_in_logs(self, other: Self) -> Array:
        """Compute every pair in logarithms: slower, for any array library, and accurate for any probabilities."""
        i, j, wanted = len(self), len(other), self._steps
        xp = namespace(self.logs.first, other.logs.first)
        rows, columns = np.repeat(np.arange(i), j), np.tile(np.arange(j), i)
        long = xp.reshape(self._aligned_logs(other, rows, columns, wanted), (len(wanted), i, j))
        short = [
            logsumexp(p[:, None, :] + q[None, :, :], axis=-1)
            for p, q in zip(self.logs.short, other.logs.short, strict=True)
        ]
        return self._by_length(long, short, wanted, xp.stack)

    def _aligned_logs(self, other: Self, rows: Floats, columns: Floats, wanted: Floats) -> Array:
        """Compute the pairs (rows[p], columns[p]) in logarithms, ``(H, P)``, a few at a time."""
        found = [_log_products(*both[:3], wanted) for both in self._products_in_logs(other, rows, columns)]
        first = self.logs.first
        return namespace(first).concat(found, axis=-1) if found else beside(first, np.empty((len(wanted), 0)))

    def _products_in_logs(self, other: ProductOperand, rows: Floats, columns: Floats) -> Iterator[Tables]:
        """Multiply the tables of the pairs (rows[p], columns[p]), a few pairs at a time."""
        a, b = self.logs, other.logs
        xp = namespace(a.first, b.first)
        at_once = max(1, PAIR_CELLS // (self.chains.n_contexts * len(self.chains.alphabet)))
        for begin in range(0, len(rows), at_once):
            i, j = (beside(a.first, index[begin : begin + at_once]) for index in (rows, columns))
            first, step, stop, *short = (
                xp.take(x, i, axis=0) + xp.take(y, j, axis=0)
                for x, y in zip((*a[:3], *a.short), (*b[:3], *b.short), strict=True)
            )
            yield Tables(first, step, stop, tuple(short))


def _log_products(first: Array, step: Array, stop: Array, wanted: Floats) -> Array:
    """Log of v M^n stop of P pairs for ascending numbers n of steps, ``(H, P)`` (PPK-4.2a)."""
    xp = namespace(first)
    pairs, contexts, k = step.shape
    now, done, found = first, 0, []
    for steps in wanted.tolist():
        for _ in range(done, steps):
            moved = now[..., None] + step
            if contexts == 1:  # order 0 has no context
                now = logsumexp(moved, axis=-1)
            else:  # drop the oldest symbol
                now = logsumexp(xp.reshape(moved, (pairs, k, contexts // k, k)), axis=1)
                now = xp.reshape(now, (pairs, contexts))
        done = steps
        found.append(logsumexp(now + stop, axis=-1))
    return xp.stack(found) if found else xp.reshape(first[:0, 0], (0, 0)) + xp.zeros_like(first[:, 0])[None, :][:0]


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
