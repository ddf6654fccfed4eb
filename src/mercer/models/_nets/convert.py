"""Networks from other models: hidden Markov models of a fixed length, hidden trees, and networks of pgmpy."""

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


def tree_parts(trees: Any) -> Parts:
    """Turn hidden trees of one topology into networks: hidden nodes "node0", ... and the leaves by their names."""
    flat = trees.reshape(-1)
    above, leaf_above = to_numpy(flat.parent), to_numpy(flat.leaf_parent)
    if (above != above[:1]).any() or (leaf_above != leaf_above[:1]).any():
        raise ValueError("A batch of networks has one structure; got trees of several topologies. Convert each alone.")
    above, leaf_above = above[0], leaf_above[0]
    used = [v for v in range(len(above)) if above[v] != -2]
    names = {v: f"node{v}" for v in used}
    probability = {names[v]: trees.root if above[v] < 0 else trees.transition[..., v, :, :] for v in used} | {
        leaf: trees.leaf[..., k, :, :] for k, leaf in enumerate(trees.leaves)
    }
    symbols = range(trees.n_symbols) if trees.alphabet is None else trees.alphabet.symbols
    nodes: dict[str, Any] = dict.fromkeys(names.values(), trees.n_states)
    nodes |= {leaf: [str(symbol) for symbol in symbols] for leaf in trees.leaves}
    parents = {names[v]: [names[int(above[v])]] for v in used if above[v] >= 0}
    parents |= {leaf: [names[int(leaf_above[k])]] for k, leaf in enumerate(trees.leaves)}
    return Parts(probability, nodes, parents, list(names.values()))


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
