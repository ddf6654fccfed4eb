"""Whole powers of the observed law of hidden Markov models, as coupled chains (PPK-4.0)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, namespace, safe_log, to_numpy
from mercer.families._coupling import InnerLeaf, Product
from mercer.models._chains.operand import ChainOperand, LogChainOperand, chain_operand
from mercer.models._discount import Lengths
from mercer.models._powers import MOST_STATES, log_weights, multisets, products, transitions
from mercer.models.mixture import MixtureOperand


def powered_chain(
    initial: Array, transition: Array, emission: Any, n_states: Floats, r: int, lengths: Lengths
) -> ChainOperand:
    """Couple r independent copies of every chain, which emit the same sequence; their order does not matter.

    Parameters
    ----------
    initial, transition : array of shape (N, n) and (N, n, n)
        Probabilities.
    emission : batch of shape (N, n)
        What the states emit.
    n_states : ndarray of int of shape (N,)
        Numbers of states before the padding.
    r : int
        The power, 2 or more.
    lengths : tuple of int, or Discounted
        Numbers of observations, strictly increasing; or all of them, discounted.
    """
    components = _components(emission) ** r
    members = multisets(int(initial.shape[-1]), r, MOST_STATES // components, "states")
    log_constant, law = products(emission, members)
    leaf = _with_constants(law.couple(Product(1.0), lengths), log_constant)
    sizes = np.array([math.comb(int(n) + r - 1, r) for n in n_states.tolist()], dtype=np.int64)
    log_first = log_weights(safe_log(initial), members)
    if _underflows(initial, r) or _underflows(transition, r):
        return LogChainOperand(log_first, transitions(transition, members, logs=True), leaf, sizes, lengths)
    first, step = namespace(initial).exp(log_first), transitions(transition, members, logs=False)
    return chain_operand(first, step, leaf, sizes, 1.0, lengths)


def _components(emission: Any) -> int:
    """Return how many laws of a family the emission of a state is made of."""
    inner = getattr(emission, "components", None)
    return 1 if inner is None else int(emission.weights.shape[-1]) * _components(inner)


def _underflows(probability: Array, r: int) -> bool:
    """Whether a product of r positive probabilities leaves the range of floats."""
    values = to_numpy(probability)
    smallest = float(values.min(initial=1.0, where=values > 0))
    return r * math.log(smallest) < math.log(np.finfo(values.dtype).smallest_normal)


def _with_constants(leaf: Any, log_constant: Array) -> Any:
    """Multiply coupled emissions by the constants of their states, ``(N, M)``."""
    if isinstance(leaf, InnerLeaf):  # of symbols: constants are factors of their features
        logs = (safe_log(leaf.features) if leaf.logs is None else leaf.logs) + log_constant[..., None]
        scaled = InnerLeaf.of_power(namespace(logs).exp(logs), 1.0)
        return InnerLeaf(scaled.features, logs=logs if leaf.underflows or scaled.underflows else None)
    return MixtureOperand(log_constant[..., None], leaf.reshape(*leaf.shape, 1))  # mixtures of one component
