"""Whole powers of the observed distribution of hidden Markov models, as coupled chains (PPK-4.0)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._coupling import InnerLeaf, PowerProduct
from mercer.models._chains.operand import ChainOperand, chain_operand
from mercer.models.discount import Lengths
from mercer.models.mixture import MixtureOperand
from mercer.models.powers import MOST_STATES, multisets, products, transitions, weights


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
