"""Coupled chains as operands of the Gram engine: powered weights, coupled emissions, and their tiles."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, namespace, safe_log, to_numpy
from mercer._batch import take_rows
from mercer._coupling import InnerLeaf, OneAxis, power
from mercer.models._chains import fused
from mercer.models._chains.coupled import (
    chain_tile,
    coupled_chains,
    coupled_chains_inner,
    coupled_chains_log,
    coupled_pairs,
    wide_chains,
)
from mercer.models._chains.rescue import pieces, restore_lost, take_from_tile, take_pairs
from mercer.models._chains.resolvent import (
    discounted_chains,
    discounted_log,
    discounted_pairs,
    diverging,
    lost_leaves,
    scaled_leaves,
)
from mercer.models.discount import Discounted, Lengths

_FAR = 1e-100  # smaller leaf kernels, relative to the largest, may still determine the result


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
        return LogChainOperand(exponent * safe_log(initial), exponent * safe_log(transition), leaf, n_states, lengths)
    return ChainOperand(first, step, leaf, n_states, lengths)


class ChainOperand(OneAxis):
    """Powered chains and their coupled emissions: computes tiles by the contraction PPK-4.2."""

    by_length: ClassVar[bool] = True
    """Results have a first axis of lengths."""

    def __init__(self, initial: Array, transition: Array, leaf: Any, n_states: Floats, lengths: Lengths) -> None:
        self.initial = initial
        self.transition = transition
        self.leaf = leaf
        self.n_states = n_states
        self.lengths = lengths

    @property
    def order(self) -> Floats | None:
        """Sort by number of states, to avoid work on padding within tiles."""
        if len(self.n_states) == 0 or self.n_states.min() == self.n_states.max():
            return None
        return np.argsort(self.n_states, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that suits the caches."""
        return chain_tile(int(self.initial.shape[-1]))

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
        )

    def pair(self, other: ChainOperand) -> Array:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""
        if isinstance(other, LogChainOperand):
            return LogChainOperand(*self._logs(), self.leaf, self.n_states, self.lengths).pair(other)
        a, b = self.leaf, other.leaf
        left, right, lengths = (self.initial, self.transition), (other.initial, other.transition), self.lengths
        sizes = self.n_states, other.n_states
        on_gpu = fused.fits(self, other)
        if on_gpu and isinstance(lengths, Discounted):
            return self._discounted_there(other, lengths.d)[None, ...]
        steps = lengths if not isinstance(lengths, Discounted) and on_gpu else None
        if steps is not None and fused.in_features(a) and fused.in_features(b):
            first = (*left, a.features)
            second = first if other is self else (*right, b.features)
            return fused.fused_features(first, second, sizes, steps)
        inner = self._inner() and other._inner() and is_numpy_array(self.initial)
        if inner and not isinstance(lengths, Discounted):
            return coupled_chains_inner((*left, a.features), (*right, b.features), lengths)
        (i, n), (j, m) = a.shape, b.shape
        rows = a.reshape(i * n)
        log_psi = rows.pair(rows if other is self else b.reshape(j * m))
        if steps is not None and fused.usable(log_psi):
            return fused.fused_table(left, left if other is self else right, log_psi, sizes, steps)
        if isinstance(lengths, Discounted):
            return discounted_chains(left, right, log_psi, lengths.d)[None, ...]
        psi, log_scale = scaled_leaves(log_psi, (i, n, j, m), (1, 3))
        if _far_apart(psi):
            return wide_chains(left, right, psi, log_scale, log_psi, lengths)
        values = coupled_chains(left, right, psi, log_scale, lengths)
        lost = lost_leaves(psi, log_psi)
        if lost is None:
            return values
        xp = namespace(log_psi)

        marked = xp.reshape(xp.any(xp.reshape(lost, (i, n, j, m)), axis=(1, 3)), (i * j,))
        take = functools.partial(take_from_tile, left, right, log_psi)
        redone = restore_lost(xp.reshape(values, (-1, i * j)), marked, take, lengths, pieces(left, right))
        return xp.reshape(redone, values.shape)

    def _discounted_there(self, other: ChainOperand, d: float) -> Array:
        """Log discounted kernels of every pair, ``(I, J)``, on a GPU; pairs that converge slowly by array code."""
        a, b, (i, n), (j, m) = self.leaf, other.leaf, self.leaf.shape, other.leaf.shape
        left, right = (self.initial, self.transition), (other.initial, other.transition)

        features = fused.in_features(a) and fused.in_features(b)
        log_psi = None if features else a.reshape(i * n).pair(b.reshape(j * m))
        if log_psi is not None and not fused.usable(log_psi):
            return discounted_chains(left, right, log_psi, d)
        first: tuple[Array, ...] = (*left, a.features) if features else left
        second: tuple[Array, ...] = (*right, b.features) if features else right
        sizes = self.n_states, other.n_states
        values = fused.fused_discounted(first, first if other is self else second, log_psi, sizes, d)
        xp = namespace(values)
        slow = np.flatnonzero(to_numpy(xp.any(xp.isnan(values), axis=1)))
        for row in slow.tolist():
            columns = np.flatnonzero(to_numpy(xp.isnan(values[row, :])))
            mine, theirs = self[row : row + 1], other[columns]
            psi = mine.leaf.reshape(-1).pair(theirs.leaf.reshape(-1))
            sides = (mine.initial, mine.transition), (theirs.initial, theirs.transition)
            values[row, columns] = discounted_chains(*sides, psi, d)[0, :]
        return values

    def _logs(self) -> tuple[Array, Array]:
        """Return the weights as logarithms."""
        return safe_log(self.initial), safe_log(self.transition)

    def _inner(self) -> bool:
        """Whether the leaves are plain inner products."""
        return isinstance(self.leaf, InnerLeaf) and self.leaf.trials == 1 and not self.leaf.underflows

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``; raises if a discounted one is infinite."""
        log_psi = self.leaf.pair(self.leaf)
        side, lengths = (self.initial, self.transition), self.lengths
        if isinstance(lengths, Discounted):
            return discounted_pairs(side, log_psi, lengths.d)[None, ...]
        psi, log_scale = scaled_leaves(log_psi, tuple(log_psi.shape), (1, 2))
        if _far_apart(psi):
            from mercer._native.chains import ranged_pairs

            return ranged_pairs(side, side, np.arange(len(self)), np.arange(len(self)), log_psi, lengths)
        values = coupled_pairs(side, side, psi, log_scale, lengths)
        lost = lost_leaves(psi, log_psi)
        if lost is None:
            return values
        marked = namespace(lost).any(lost, axis=(1, 2))
        take = functools.partial(take_pairs, side, side, log_psi)
        return restore_lost(values, marked, take, lengths, pieces(side, side))


class LogChainOperand(ChainOperand):
    """Chains in the log domain, for powers of probabilities that underflow: slow, and accurate."""

    def _logs(self) -> tuple[Array, Array]:
        return self.initial, self.transition

    def pair(self, other: ChainOperand) -> Array:
        """Log kernels of every pair, ``(H, I, J)``."""
        (i, n), (j, m) = self.leaf.shape, other.leaf.shape
        log_psi = self.leaf.reshape(i * n).pair(other.leaf.reshape(j * m))
        lengths, right = self.lengths, other._logs()
        if not isinstance(lengths, Discounted):
            if all(is_numpy_array(x) and x.dtype == np.float64 for x in (*self._logs(), *right, log_psi)):
                from mercer._native.chains import ranged_log_chains

                return ranged_log_chains(self._logs(), right, log_psi, lengths)
            return coupled_chains_log(self._logs(), right, log_psi, lengths)
        xp = namespace(log_psi)
        table = xp.permute_dims(xp.reshape(log_psi, (i, n, j, m)), (0, 2, 1, 3))
        left = self.initial[:, None, :], self.transition[:, None, :, :]
        return discounted_log(left, (right[0][None, ...], right[1][None, ...]), table, lengths.d)[None, ...]

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``; raises if a discounted one is infinite."""
        xp, lengths = namespace(self.initial), self.lengths
        if not isinstance(lengths, Discounted):
            values = [self[i : i + 1].pair(self[i : i + 1])[:, 0] for i in range(len(self))]
            return xp.concat(values, axis=-1)
        log_psi, side = self.leaf.pair(self.leaf), self._logs()
        weights = xp.exp(side[0]), xp.exp(side[1])
        d = lengths.d
        return discounted_log(side, side, log_psi, d, lambda: diverging(weights, log_psi, d))[None, ...]


def _lost(before: Array, after: Array) -> bool:
    """Whether a power turned a positive probability into zero."""
    xp = namespace(before)
    return bool(xp.any((before > 0) & (after == 0)))


def _far_apart(psi: Array) -> bool:
    """Whether compiled code handles leaf kernels that are tiny relative to others of their pair of chains."""
    return bool(is_numpy_array(psi) and psi.dtype == np.float64 and psi.size and psi.min() < _FAR)
