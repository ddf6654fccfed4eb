"""Networks of several structures in one batch, for one Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from mercer._array import Array, Indices, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import is_whole
from mercer._coupling import Coupling, FieldOperand
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians


class MixedNets(Batch):
    """Networks of several structures over the same observed variables, as `BayesNets.together` returns them."""

    _arrays: ClassVar[dict[str, int]] = {"place": 0}
    _shared: ClassVar[tuple[str, ...]] = ("groups",)

    place: Array
    """Places of the members among all networks of the groups, one group after the other."""
    groups: tuple[Any, ...]

    def __init__(self, groups: Sequence[Any]) -> None:
        for group in groups:
            group._require_axis()
            groups[0]._check_alike(group)
        self._freeze(place=np.arange(sum(map(len, groups))), groups=tuple(groups))

    @property
    def dimension(self) -> int:
        """Number of observed nodes."""
        return int(self.groups[0].dimension)

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the observed nodes."""
        found: tuple[str, ...] = self.groups[0].observed
        return found

    def __repr__(self) -> str:
        return f"MixedNets(shape={self.shape}, n_structures={len(self.groups)})"

    def _ends(self) -> Indices:
        return np.cumsum([0, *map(len, self.groups)])

    def _check_alike(self, other: Batch) -> None:
        """Raise if the observed variables differ."""
        self.groups[0]._check_alike(getattr(other, "groups", (other,))[0])

    def adapted(self, other: Batch) -> Self:
        """Return these networks."""
        return self

    @classmethod
    def concat(cls, batches: Sequence[Any]) -> Any:
        """Concatenate batches of networks."""
        groups, places, start = [], [], 0
        for batch in batches:
            for group, begin, where in batch._members():
                groups.append(group[batch.place[where] - begin])
                places.append(start + where)
            start += len(batch)
        return cls(groups)[np.argsort(np.concatenate(places))]

    def _members(self) -> list[tuple[Any, int, Indices]]:
        """Return each group with members, where it starts, and which members belong to it."""
        ends, found = self._ends(), []
        for k, group in enumerate(self.groups):
            where = np.flatnonzero((self.place >= ends[k]) & (self.place < ends[k + 1]))
            if len(where):
                found.append((group, int(ends[k]), where))
        return found

    def digests(self) -> list[bytes]:
        """Return one digest per member; it depends on the content only."""
        every = [digest for group in self.groups for digest in group.digests()]
        return [every[i] for i in self.place]

    def save(self, path: Any) -> NoReturn:
        """Raise: networks of several structures are saved one structure at a time."""
        raise TypeError("Networks of several structures cannot be saved together. Save each batch of BayesNets.")

    def couple(self, coupling: Coupling, lengths: Any = None) -> MixedOperand:
        """Prepare for a coupling; ``lengths`` is ignored."""
        return self._operand(lambda group: group.couple(coupling, lengths))

    def couple_mean_field(self, rho: float, length: Any, n_init: int, seed: int) -> MixedOperand:
        """Prepare for the mean field bound of the probability product (PPK-6); ``length`` is ignored."""
        return self._operand(lambda group: group.couple_mean_field(rho, length, n_init, seed))

    def _operand(self, couple: Callable[[Any], Any]) -> MixedOperand:
        parts, which, place = [], np.empty(len(self), dtype=int), np.empty(len(self), dtype=int)
        for k, (group, start, where) in enumerate(self._members()):
            parts.append(couple(group))
            which[where], place[where] = k, self.place[where] - start
        return MixedOperand(parts, which, place)


@dataclass(eq=False)
class MixedOperand(FieldOperand):
    """Operands of several structures; each pair of structures has its own block."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("parts",)

    tile_hint: ClassVar[int] = 64

    parts: list[Any]
    which: Indices
    place: Indices

    def _blocks(self) -> tuple[list[Any], Indices]:
        """Return the operand of each structure, and where its members belong."""
        kinds = np.unique(self.which)
        where = [np.flatnonzero(self.which == k) for k in kinds]
        return [self.parts[k][self.place[w]] for k, w in zip(kinds, where, strict=True)], np.argsort(
            np.concatenate([*where, np.empty(0, int)])
        )

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(I, J)``."""
        (rows, up), (columns, across) = self._blocks(), other._blocks()
        blocks = [[a.pair(b) for b in columns] for a in rows]
        xp = namespace(blocks[0][0])
        value = xp.concat([xp.concat(row, axis=1) for row in blocks], axis=0)
        return _taken(_taken(value, up, 0), across, 1)

    def alone(self) -> Array:
        """Compute the self-kernel of each member."""
        rows, order = self._blocks()
        found = [a.alone() for a in rows]
        return _taken(namespace(found[0]).concat(found, axis=0), order, 0)


def _taken(value: Array, order: Indices, axis: int) -> Array:
    return namespace(value).take(value, beside(value, order), axis=axis)


# Networks from other models: hidden Markov models of a fixed length, hidden trees, and networks of pgmpy.


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
