"""Coupled chains as operands of the Gram engine: powered weights, coupled emissions, and their tiles."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, Indices, namespace, safe_log
from mercer._batch import take_rows
from mercer._coupling import InnerLeaf, OneAxis, power
from mercer.models._chains import fused
from mercer.models._chains.coupled import careful_kernels, chain_tile, coupled_chains, coupled_features, states_last
from mercer.models._chains.sweep import Side, crossed
from mercer.models.discount import Discounted, Lengths, sum_of_pairs, sum_of_selves


def chain_operand(
    initial: Array, transition: Array, leaf: Any, n_states: Floats, exponent: float, lengths: Lengths
) -> ChainOperand:
    """Raise the hidden weights to a power and couple them with their emissions; as logarithms if powers underflow.

    Parameters
    ----------
    initial, transition : array of shape (N, n) and (N, n, n)
        Probabilities.
    leaf : operand of shape (N, n)
        The coupled emissions.
    n_states : ndarray of int of shape (N,)
        Numbers of states without padding.
    exponent : float
        Exponent of the hidden weights.
    lengths : tuple of int, or Discounted
        Numbers of observations, strictly increasing; or all of them, discounted.
    """
    first, step = power(initial, exponent), power(transition, exponent)
    underflows = isinstance(leaf, InnerLeaf) and leaf.underflows
    if underflows or _lost(initial, first) or _lost(transition, step):
        first, step = exponent * safe_log(initial), exponent * safe_log(transition)
        return ChainOperand(first, step, leaf, n_states, lengths, True)
    return ChainOperand(first, step, leaf, n_states, lengths)


class ChainOperand(OneAxis):
    """Powered chains and their coupled emissions: computes tiles by the contraction PPK-4.2.

    With ``logarithms``, ``initial`` and ``transition`` are logarithms, for powers of probabilities that underflow.
    """

    by_length: ClassVar[bool] = True
    """Results have a first axis of lengths."""

    def __init__(
        self,
        initial: Array,
        transition: Array,
        leaf: Any,
        n_states: Floats,
        lengths: Lengths,
        logarithms: bool = False,
    ) -> None:
        self.initial = initial
        self.transition = transition
        self.leaf = leaf
        self.n_states = n_states
        self.lengths = lengths
        self.logarithms = logarithms

    @property
    def order(self) -> Floats | None:
        """Sort by number of states, to avoid work on padding within tiles."""
        if len(self.n_states) == 0 or self.n_states.min() == self.n_states.max():
            return None
        return np.argsort(self.n_states, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that suits the caches."""
        tile = chain_tile(int(self.initial.shape[-1]))
        return min(tile, 64) if isinstance(self.lengths, Discounted) else tile

    def __len__(self) -> int:
        return int(self.initial.shape[0])

    def __getitem__(self, key: Any) -> Self:
        """Select models, trimmed to the largest number of states among them."""
        sizes = self.n_states[key]
        n = int(sizes.max()) if len(sizes) else 1
        return type(self)(
            take_rows(self.initial, (key,))[:, :n],
            take_rows(self.transition, (key,))[:, :n, :n],
            self.leaf[key][:, :n],
            sizes,
            self.lengths,
            self.logarithms,
        )

    def pair(self, other: ChainOperand) -> Array:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones.

        What computes a tile is decided here, in this order:

        ==============================================  =======================
        operands                                        function
        ==============================================  =======================
        logarithms                                      `careful_kernels`
        float64 on a GPU, few states, few features      `fused.fused_features`
        float64 on a GPU, few states, other leaves      `fused.fused_table`
        NumPy, features of symbols                      `coupled_features`
        all other arrays, with or without gradients     `coupled_chains`
        ==============================================  =======================

        The last two compute float64 of up to 40 states in SIMD lanes, others by matrix products. All but the first are
        followed by `coupled.repaired`: pairs that may be inaccurate are repeated in numbers of unlimited range.
        """
        if isinstance(self.lengths, Discounted):
            return sum_of_pairs(self, other)
        if self.logarithms != other.logarithms:
            return self._in_logarithms().pair(other._in_logarithms())
        lengths, (i, n), (j, m) = self.lengths, self.leaf.shape, other.leaf.shape
        left, right = self._side, self._side if other is self else other._side
        sizes, on_gpu = (self.n_states, other.n_states), fused.fits(self, other)
        if on_gpu and fused.in_features(self.leaf) and fused.in_features(other.leaf):
            first = (*left, self.leaf.features)
            second = first if other is self else (*right, other.leaf.features)
            return fused.fused_features(first, second, sizes, lengths)
        inner = fused.is_inner(self.leaf) and fused.is_inner(other.leaf) and is_numpy_array(self.initial)
        if inner and not self.logarithms:
            return coupled_features((*left, self.leaf.features), (*right, other.leaf.features), lengths)
        rows = self.leaf.reshape(i * n)
        log_psi = rows.pair(rows if other is self else other.leaf.reshape(j * m))
        log_psi = namespace(log_psi).reshape(log_psi, (i, n, j, m))
        if on_gpu and fused.usable(log_psi):
            return fused.fused_table(left, right, log_psi, sizes, lengths)
        return self._kernels(*crossed(left, right), states_last(log_psi), lengths)

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``; raises if a discounted one is infinite."""
        if isinstance(self.lengths, Discounted):
            return sum_of_selves(self)
        return self._kernels(self._side, self._side, self.leaf.pair(self.leaf), self.lengths)

    def _kernels(self, left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
        """Compute pairs with given leaf kernels by array code or the native library."""
        kernels = careful_kernels if self.logarithms else coupled_chains
        return kernels(left, right, log_psi, lengths)

    def at(self, lengths: Indices) -> ChainOperand:
        """Return the same chains with other lengths."""
        whole = tuple(lengths.tolist())
        return ChainOperand(self.initial, self.transition, self.leaf, self.n_states, whole, self.logarithms)

    @property
    def _side(self) -> Side:
        return self.initial, self.transition

    def _in_logarithms(self) -> ChainOperand:
        """Return the operand with its weights as logarithms."""
        if self.logarithms:
            return self
        first, step = safe_log(self.initial), safe_log(self.transition)
        return ChainOperand(first, step, self.leaf, self.n_states, self.lengths, True)


def _lost(before: Array, after: Array) -> bool:
    """Whether a power turned a positive probability into zero."""
    xp = namespace(before)
    return bool(xp.any((before > 0) & (after == 0)))
