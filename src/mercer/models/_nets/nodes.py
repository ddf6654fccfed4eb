"""Mean field bounds of networks: a distribution that factorizes over all nodes of both networks (PPK-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._coupling import OneAxis
from mercer.models._nets.contraction import contract
from mercer.models._nets.operand import Joined, NetOperand, joined
from mercer.models._nets.order import BATCH, Labels

TOLERANCE = 1e-9
"""Sweeps end if no bound grows by more than this."""
SWEEPS = 1000
"""Most sweeps over all variables."""
LEAST = 1e-300
"""Probabilities below count as this while a bound is raised, so that logarithms are finite."""
NEVER = 1e-30
"""Beliefs below count as 0 when the result is compared with probabilities of 0."""


@dataclass
class NodeBound(OneAxis):
    """A batch of networks whose probability products are bounded from below."""

    nets: NetOperand
    rho: float
    n_init: int
    seed: int
    tile_hint: int = 32

    @classmethod
    def of(cls, nets: NetOperand, rho: float, n_init: int, seed: int) -> Self:
        """Check that all nodes are discrete."""
        if nets.graph.gaussian:
            raise ValueError(
                "MeanField needs networks of discrete nodes; got the Gaussian node "
                f"{nets.graph.names[nets.graph.gaussian[0]]!r}. Use ProbabilityProduct."
            )
        return cls(nets, rho, n_init, seed)

    def __len__(self) -> int:
        return len(self.nets)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.nets[key], self.rho, self.n_init, self.seed)

    def pair(self, other: Self) -> Floats:
        """Compute the log bounds of all pairs, ``(I, J)``."""
        return self._bounds(other, aligned=False)

    def alone(self) -> Floats:
        """Compute the log bound of each member with itself."""
        return self._bounds(self, aligned=True)

    def _bounds(self, other: Self, *, aligned: bool) -> Floats:
        graph = joined(self.nets.graph, other.nets.graph, False, 1, aligned)
        factors, _ = self.nets.factors(other.nets, graph, aligned=aligned)
        tables = [to_numpy(x) for x in factors]
        shape = (len(self),) if aligned else (len(self), len(other))
        best = np.full(shape, -np.inf)
        for k in range(self.n_init):
            rng = None if k == 0 else np.random.default_rng([self.seed, k])
            best = np.maximum(best, _coordinate_ascent(graph, tables, self.rho, shape, rng, decided=False))
        stuck = np.isneginf(best)
        if stuck.any():
            best = np.where(stuck, _coordinate_ascent(graph, tables, self.rho, shape, None, decided=True), best)
        return best


def _coordinate_ascent(
    graph: Joined, tables: list[Floats], rho: float, shape: tuple[int, ...], rng: Any, *, decided: bool
) -> Floats:
    """Update one variable after the other until no bound grows; -inf if the beliefs allow what has probability 0.

    With ``decided``, each variable first takes its best state given the others, which ends ties between states.
    """
    inputs, sizes = graph.inputs, graph.sizes
    logs = [rho * np.log(np.maximum(x, LEAST)) for x in tables]
    batch = tuple(BATCH + k for k in range(len(shape)))
    used = sorted({v for labels in inputs for v in labels if v < BATCH})
    beliefs: dict[int, Floats] = {}
    for v in used:
        rows = np.ones((sizes[v], *shape)) if rng is None else rng.gamma(1.0, size=(sizes[v], *shape)) + 1e-3
        beliefs[v] = rows / rows.sum(axis=0)
    near = {v: [k for k, labels in enumerate(inputs) if v in labels] for v in used}
    before = np.full(shape, -np.inf)
    for sweep in range(SWEEPS):
        for v in used:
            parts: list[Any] = [_expected(inputs[k], logs[k], beliefs, v, batch) for k in near[v]]
            pull = np.broadcast_to(sum(parts), (sizes[v], *shape))
            weight = np.exp(pull - pull.max(axis=0))
            if decided and sweep == 0:
                weight = 1.0 * (np.arange(sizes[v]).reshape(-1, *[1] * len(shape)) == pull.argmax(axis=0))
            beliefs[v] = weight / weight.sum(axis=0)
        bound: Any = sum(_expected(labels, x, beliefs, -1, batch) for labels, x in zip(inputs, logs, strict=True))
        for q in beliefs.values():
            bound = bound - (q * np.log(np.maximum(q, LEAST))).sum(axis=0)
        if np.all(bound - before <= TOLERANCE):
            break
        before = bound
    possible = {v: np.where(q < NEVER, 0.0, q) for v, q in beliefs.items()}
    for labels, x in zip(inputs, tables, strict=True):
        if not (x > 0).all():
            bound = np.where(_expected(labels, 1.0 * (x <= 0), possible, -1, batch) > 0, -np.inf, bound)
    return np.asarray(bound)


def _expected(labels: Labels, x: Floats, beliefs: dict[int, Floats], v: int, batch: Labels) -> Floats:
    """Return the expectation of a log factor, given each state of variable v."""
    for u in labels:
        if u < BATCH and u != v:
            out = tuple(sorted({*labels, *batch} - {u}))
            x, labels = contract(x, labels, beliefs[u], (u, *batch), out), out
    full = ((v,) if v >= 0 else ()) + batch
    size = dict(zip(labels, x.shape, strict=True))
    return x.reshape(tuple(size.get(u, 1) for u in full))
