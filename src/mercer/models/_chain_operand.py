"""Coupled chains as operands of the Gram engine: powered weights, coupled emissions, and their tiles."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, namespace, safe_log
from mercer._batch import take_rows
from mercer.families._coupling import InnerLeaf, power
from mercer.models._chain import chain_tile, coupled_chains, coupled_chains_inner, coupled_chains_log, coupled_pairs


def chain_operand(
    initial: Array, transition: Array, leaf: Any, n_states: Floats, exponent: float, lengths: tuple[int, ...]
) -> ChainOperand:
    """Raise the hidden weights to a power and couple them with their emissions; as logarithms where powers underflow.

    Parameters
    ----------
    initial, transition : array of shape (N, n) and (N, n, n)
        Probabilities.
    leaf : operand of shape (N, n)
        The coupled emissions.
    n_states : ndarray of int of shape (N,)
        Numbers of states before the padding.
    exponent : float
        The coupling's power on hidden weights.
    lengths : tuple of int
        Numbers of observations.
    """
    first, step = power(initial, exponent), power(transition, exponent)
    underflows = isinstance(leaf, InnerLeaf) and leaf.underflows
    if underflows or _lost(initial, first) or _lost(transition, step):
        return LogChainOperand(exponent * safe_log(initial), exponent * safe_log(transition), leaf, n_states, lengths)
    return ChainOperand(first, step, leaf, n_states, lengths)


class ChainOperand:
    """Powered chains and their coupled emissions: answers tiles by the contraction PPK-4.2."""

    def __init__(
        self, initial: Array, transition: Array, leaf: Any, n_states: Floats, lengths: tuple[int, ...]
    ) -> None:
        self.initial = initial
        self.transition = transition
        self.leaf = leaf
        self.n_states = n_states
        self.lengths = lengths

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (int(self.initial.shape[0]),)

    @property
    def order(self) -> Floats | None:
        """Sort by number of states, so that tiles waste no work on padding."""
        if len(self.n_states) == 0 or self.n_states.min() == self.n_states.max():
            return None
        return np.argsort(self.n_states, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""
        return chain_tile(int(self.initial.shape[-1]))

    def __len__(self) -> int:
        return int(self.initial.shape[0])

    def __getitem__(self, key: Any) -> Self:
        """Take some models, trimmed to the largest among them."""
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
        """Log kernels of every pair, ``(H, I, J)`` with H lengths."""
        if isinstance(other, LogChainOperand):
            return LogChainOperand(*self._logs(), self.leaf, self.n_states, self.lengths).pair(other)
        a, b = self.leaf, other.leaf
        if self._inner() and other._inner() and is_numpy_array(self.initial):
            return coupled_chains_inner(
                self.initial,
                self.transition,
                a.features,
                other.initial,
                other.transition,
                b.features,
                self.lengths,
            )
        (i, n), (j, m) = a.shape, b.shape
        psi, log_scale = _scaled(a.reshape(i * n).pair(b.reshape(j * m)), (i, n, j, m), (1, 3))
        return coupled_chains(
            self.initial, self.transition, other.initial, other.transition, psi, log_scale, self.lengths
        )

    def _logs(self) -> tuple[Array, Array]:
        """Return the weights as logarithms."""
        return safe_log(self.initial), safe_log(self.transition)

    def _inner(self) -> bool:
        """Whether the leaves are plain inner products."""
        return isinstance(self.leaf, InnerLeaf) and self.leaf.trials == 1 and not self.leaf.underflows

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``."""
        log_psi = self.leaf.pair(self.leaf)
        psi, log_scale = _scaled(log_psi, tuple(log_psi.shape), (1, 2))
        return coupled_pairs(self.initial, self.transition, psi, log_scale, self.lengths)


class LogChainOperand(ChainOperand):
    """Chains as logarithms, for powers of probabilities that leave the range of floats: slow, and right."""

    def _logs(self) -> tuple[Array, Array]:
        return self.initial, self.transition

    def pair(self, other: ChainOperand) -> Array:
        """Log kernels of every pair, ``(H, I, J)``."""
        (i, n), (j, m) = self.leaf.shape, other.leaf.shape
        log_psi = self.leaf.reshape(i * n).pair(other.leaf.reshape(j * m))
        return coupled_chains_log(self.initial, self.transition, *other._logs(), log_psi, self.lengths)

    def alone(self) -> Array:
        """Log kernel of every model with itself, ``(H, N)``."""
        xp = namespace(self.initial)
        values = [self[i : i + 1].pair(self[i : i + 1])[:, 0] for i in range(len(self))]
        return xp.concat(values, axis=-1)


def _lost(before: Array, after: Array) -> bool:
    """Whether a power turned a positive probability into zero."""
    xp = namespace(before)
    return bool(xp.any((before > 0) & (after == 0)))


def _scaled(log_psi: Array, shape: tuple[int, ...], state_axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Turn log leaf kernels into values with one scale per pair of models."""
    xp = namespace(log_psi)
    blocks = xp.reshape(log_psi, shape)
    top = xp.max(blocks, axis=state_axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    psi = xp.reshape(xp.exp(blocks - top), log_psi.shape)
    kept = tuple(n for axis, n in enumerate(shape) if axis not in state_axes)
    return psi, xp.reshape(top, kept)
