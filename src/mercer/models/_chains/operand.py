"""Coupled chains as operands of the Gram engine: powered weights, coupled emissions, and their tiles.

`chain_operand` raises the probabilities of paths to a power, `powered_chain` the observed distribution (PPK-4.0).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, Indices, beside, namespace, safe_log, to_numpy
from mercer._batch import take_rows
from mercer._coupling import InnerLeaf, OneAxis, PowerProduct, power
from mercer.models._chains import fused
from mercer.models._chains.coupled import careful_kernels, chain_tile, coupled_chains, coupled_features
from mercer.models._chains.sweep import Aligned, Layout, Side, Tile
from mercer.models.discount import Discounted, Lengths, sum_of_pairs, sum_of_selves
from mercer.models.mixture import MixtureOperand
from mercer.models.powers import MOST_STATES, multisets, products, transitions, weights


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


def powered_chain(
    initial: Array, transition: Array, emission: Any, n_states: Floats, r: int, lengths: Lengths
) -> ChainOperand:
    """Couple r independent copies of every chain, which emit the same sequence; their order does not matter.

    Parameters
    ----------
    initial, transition : array of shape (N, n) and (N, n, n)
        Probabilities.
    emission : batch of shape (N, n)
        Emission distributions of the states.
    n_states : ndarray of int of shape (N,)
        Numbers of states without padding.
    r : int
        The exponent, 2 or more.
    lengths : tuple of int, or Discounted
        Numbers of observations, strictly increasing; or all of them, discounted.
    """
    components = _components(emission) ** r
    members = multisets(int(initial.shape[-1]), r, MOST_STATES // components, "states")
    leaf = _emissions(emission, members, lengths)
    sizes = np.array([math.comb(int(n) + r - 1, r) for n in n_states.tolist()], dtype=np.int64)
    logs = _underflows(initial, r) or _underflows(transition, r)
    first, step = weights(initial, members, logs=logs), transitions(transition, members, logs=logs)
    if logs:
        return ChainOperand(first, step, leaf, sizes, lengths, True)
    return chain_operand(first, step, leaf, sizes, 1.0, lengths)


def _components(emission: Any) -> int:
    """Return the number of distributions of a family in the emission of a state."""
    inner = getattr(emission, "components", None)
    return 1 if inner is None else int(emission.weights.shape[-1]) * _components(inner)


def _underflows(probability: Array, r: int) -> bool:
    """Whether a product of r positive probabilities underflows."""
    values = to_numpy(probability)
    smallest = float(values.min(initial=1.0, where=values > 0))
    return r * math.log(smallest) < math.log(np.finfo(values.dtype).smallest_normal)


def _emissions(emission: Any, members: Floats, lengths: Lengths) -> Any:
    """Couple the joint emissions of multisets of states: products of their distributions, ``(N, M)``."""
    single, r = emission.couple(PowerProduct(1.0), lengths), members.shape[1]
    symbols = isinstance(single, InnerLeaf) and single.trials == 1
    if symbols and not single.underflows and not _underflows(single.features, r):
        # Probabilities are multiplied directly, not in logarithms, so that zeros have gradients.
        xp, p = namespace(single.features), single.features
        return InnerLeaf.of_power(math.prod(xp.take(p, beside(p, column), axis=-2) for column in members.T), 1.0)
    log_constant, law = products(emission, members)
    leaf = law.couple(PowerProduct(1.0), lengths)
    if isinstance(leaf, InnerLeaf):  # for symbols, constants are factors of the features
        logs = (safe_log(leaf.features) if leaf.logs is None else leaf.logs) + log_constant[..., None]
        return InnerLeaf(namespace(logs).exp(logs), logs=logs)
    return MixtureOperand(log_constant[..., None], leaf.reshape(*leaf.shape, 1))  # mixtures of one component


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
        return self._kernels(Tile, left, right, log_psi, lengths)

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``; raises if a discounted one is infinite."""
        if isinstance(self.lengths, Discounted):
            return sum_of_selves(self)
        return self._kernels(Aligned, self._side, self._side, self.leaf.pair(self.leaf), self.lengths)

    def _kernels(self, layout: Layout, left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
        """Compute pairs with given leaf kernels by array code or the native library."""
        kernels = careful_kernels if self.logarithms else coupled_chains
        return kernels(layout, left, right, log_psi, lengths)

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
