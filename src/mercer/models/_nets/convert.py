"""Networks from other models: hidden Markov models of a fixed length, and networks of pgmpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, namespace, to_numpy
from mercer._checks import is_whole
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians


class Parts(NamedTuple):
    """Arguments of a batch of networks."""

    probability: dict[str, Any]
    nodes: dict[str, Any]
    parents: dict[str, list[str]]
    hidden: list[str]
    mean: dict[str, Any] | None = None
    variance: dict[str, Any] | None = None


def hmm_parts(hmms: Any, length: Any, names: Sequence[str] | None = None) -> Parts:
    """Unroll hidden Markov models: hidden nodes "state0", ... and observed nodes "x0", ... or with other names."""
    if not is_whole(length):
        raise ValueError(f"length must be a whole number of observations, 1 or more; got {length!r}.")
    emission: Any = getattr(hmms, "emission", None)
    gaussian = isinstance(emission, Gaussians) and emission.dimension == 1
    if not gaussian and not isinstance(emission, Categoricals):
        raise TypeError(
            "A network is made of HMMs of symbols or of univariate Gaussians; got "
            f"{type(hmms).__name__} of {type(emission).__name__}."
        )
    seen = [f"x{t}" for t in range(length)] if names is None else list(names)
    if len(seen) != length or len(set(seen)) != length:
        raise ValueError(f"names must be {length} different names, one per observation; got {seen!r}.")
    state = [f"state{t}" for t in range(length)]
    while set(state) & set(seen):
        state = [f"_{name}" for name in state]
    n = int(hmms.initial.shape[-1])
    probability: dict[str, Array] = {state[0]: hmms.initial} | dict.fromkeys(state[1:], hmms.transition)
    parents = {state[t]: [state[t - 1]] for t in range(1, length)} | {x: [s] for x, s in zip(seen, state, strict=True)}
    nodes: dict[str, Any] = dict.fromkeys(state, n)
    if not gaussian:
        symbols = range(emission.probability.shape[-1]) if emission.alphabet is None else emission.alphabet.symbols
        nodes |= {x: [str(symbol) for symbol in symbols] for x in seen}
        return Parts(probability | dict.fromkeys(seen, emission.probability), nodes, parents, state)
    nodes |= dict.fromkeys(seen, "gaussian")
    xp = namespace(emission.mean)
    variance = emission.covariance
    axes = len(variance.shape) - len(emission.shape)
    variance = xp.reshape(variance, emission.shape) if axes else variance
    mean = emission.mean[..., 0]
    return Parts(probability, nodes, parents, state, dict.fromkeys(seen, mean), dict.fromkeys(seen, variance))


def pgmpy_parts(network: Any, hidden: Any) -> Parts:
    """Read a discrete network of pgmpy: its tables have the child first, then the parents."""
    if not hasattr(network, "get_cpds") or not hasattr(network, "nodes"):
        raise TypeError(f"Expected a discrete Bayesian network of pgmpy; got {type(network).__name__}.")
    tables = {cpd.variable: cpd for cpd in network.get_cpds()}
    missing = [name for name in network.nodes() if name not in tables]
    if missing:
        raise ValueError(f"The network has no table for {missing[0]!r}. Use add_cpds, or fit, first.")
    nodes, parents, probability = {}, {}, {}
    for name, cpd in tables.items():
        above = list(cpd.variables)[1:]
        states = (getattr(cpd, "state_names", None) or {}).get(name)
        nodes[str(name)] = [str(s) for s in (range(cpd.values.shape[0]) if states is None else states)]
        parents[str(name)] = [str(u) for u in above]
        table = np.moveaxis(np.asarray(to_numpy(cpd.values), dtype=np.float64), 0, -1)
        for axis, u in enumerate(above):  # a table may list the states of a parent in an order of its own
            mine = (getattr(cpd, "state_names", None) or {}).get(u)
            theirs = (getattr(tables[u], "state_names", None) or {}).get(u)
            if mine is not None and theirs is not None and list(mine) != list(theirs):
                table = np.take(table, [list(mine).index(s) for s in theirs], axis=axis)
        probability[str(name)] = table[None]
    return Parts(probability, nodes, parents, list(hidden))
