"""What a fit of trees starts from and learns: the root, the edges (free, tied, or by rates), leaves and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_number
from mercer._probability import checked_probability
from mercer.models._tree.checks import as_numbers, described
from mercer.models._tree.layout import Layout
from mercer.models._tree.rates import changes, checked_rate, stationary_of

__all__ = ["DEFAULT_STAY", "Parameters", "emission_of", "start_of", "starts_of"]

SCALES = 4.0 ** np.arange(-4, 5)
"""Expected changes on the way from the root to a leaf, with which a fit of rates may begin."""
DEFAULT_STAY = 0.9
"""Probability that an edge changes nothing, where nothing is known of it."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """All that defines the model of several topologies."""

    layouts: tuple[Layout, ...]
    weights: Floats
    """Probabilities of the topologies, ``(K,)``."""
    root: Floats
    """``(S,)``."""
    emission: Floats
    """What a leaf shows in every state, ``(S, A)``."""
    kind: str
    """How edges are parametrised: "rate", "tied" or "free"."""
    edges: tuple[Floats, ...]
    """Rates or the tied matrix, ``(S, S)``; of free edges one array ``(E, S, S)`` for every topology."""

    def matrices(self, k: int) -> Floats:
        """Probabilities of change along the edges of topology k, ``(E, S, S)``."""
        layout = self.layouts[k]
        if self.kind == "rate":
            return changes(self.edges[0], layout.lengths)
        if self.kind == "tied":
            return np.broadcast_to(self.edges[0], (len(layout.lengths), *self.edges[0].shape))
        return self.edges[k]

    def n_free(self, learn: tuple[str, ...]) -> int:
        """Count what is free of all that is learned; what is zero stays zero, and is not."""
        total = sum(_freedom(getattr(self, name)) for name in ("root", "emission", "weights") if name in learn)
        if "edges" in learn:
            # The rates of a row are free but for the diagonal, which is not positive: as many as are positive.
            total += int(np.sum(self.edges[0] > 0)) if self.kind == "rate" else sum(map(_freedom, self.edges))
        return total


def _freedom(probability: Floats) -> int:
    """Count free probabilities: one less in every row than outcomes that are possible."""
    return int(np.sum(np.sum(probability > 0, axis=-1) - 1))


def starts_of(
    estimator: Any, layouts: tuple[Layout, ...], learn: tuple[str, ...]
) -> tuple[Parameters, list[Parameters]]:
    """Return the prior of a fit, and where it may begin.

    A fit may begin at multiples of the rates, and the prior of rates that nobody gave has one change on the way from
    the root to a leaf: so the unit of branch lengths does not matter, and a bad guess of it does no harm.
    """
    given = start_of(estimator, layouts)
    way = float(np.mean([layout.way for layout in layouts]))
    if estimator.transition is not None or "edges" not in learn or not 0 < way < np.inf:
        return given, [given]
    rate = "equal" if estimator.rate is None else estimator.rate
    leaving = float(np.mean(-np.diagonal(checked_rate(rate, len(given.root)))))
    if leaving == 0:
        return given, [given]
    starts = [start_of(estimator, layouts, scale / (way * leaving)) for scale in SCALES]
    return (starts[len(SCALES) // 2], starts) if isinstance(rate, str) else (given, [given, *starts])


def start_of(estimator: Any, layouts: tuple[Layout, ...], scale: float = 1.0) -> Parameters:
    """Read the parameters of an estimator, or raise; rates are multiplied by ``scale``."""
    n = int(estimator.n_states)
    rate, transition, tied = estimator.rate, estimator.transition, estimator.tied
    if rate is not None and transition is not None:
        raise ValueError("both rate and transition are given: give a rate matrix or probabilities, not both")
    if rate is None and transition is None and any(np.isfinite(layout.lengths).any() for layout in layouts):
        rate = "equal"
    edges: tuple[Floats, ...]
    if rate is not None:
        q = scale * checked_rate(rate, n)
        _check_lengths(layouts)
        kind, edges = "rate", (q,)
        if tied is False:
            kind, edges = "free", tuple(changes(q, layout.lengths) for layout in layouts)
    elif isinstance(transition, Mapping):
        if tied:
            raise ValueError("tied=True wants one matrix for all edges, and transition holds several: give one")
        kind, edges = "free", tuple(_by_child(transition, layout, n) for layout in layouts)
    else:
        matrix = _default(n) if transition is None else _matrix(transition, n, "transition")
        kind, edges = "tied", (matrix,)
        if tied is False:
            kind, edges = "free", tuple(np.tile(matrix, (len(layout.lengths), 1, 1)) for layout in layouts)
    root = _root(estimator.root, n, checked_rate(rate, n) if rate is not None else None)
    weights = _weights(estimator.weights, len(layouts))
    return Parameters(layouts, weights, root, emission_of(estimator.emission, n), kind, edges)


def emission_of(emission: Any, n: int) -> Floats:
    """Return what leaves show, ``(S, A)``: their state, their state with noise, or as a matrix says."""
    if emission is None:
        return np.eye(n)
    if is_number(emission) and np.ndim(emission) == 0:
        noise = float(emission)
        if not 0 <= noise < 1 or (n == 1 and noise > 0):
            raise ValueError(f"emission = {emission!r}: the probability of showing another state is 0 or more, below 1")
        return np.eye(n) if n == 1 else (1 - noise) * np.eye(n) + noise * (1 - np.eye(n)) / (n - 1)
    cure = f"None, the probability of showing another state, or probabilities of shape {(n, 'A')}, for A symbols"
    table = np.asarray(checked_probability(as_numbers(emission, "emission", cure), "emission"))
    if table.ndim != 2 or len(table) != n:
        raise ValueError(f"emission has shape {table.shape}: for n_states = {n} give {(n, 'A')}, for A symbols")
    return table


def _default(n: int) -> Floats:
    if n == 1:
        return np.ones((1, 1))
    return DEFAULT_STAY * np.eye(n) + (1 - DEFAULT_STAY) * (1 - np.eye(n)) / (n - 1)


def _matrix(values: Any, n: int, what: str) -> Floats:
    matrix = np.asarray(checked_probability(as_numbers(values, what, f"probabilities of shape {(n, n)}"), what))
    if matrix.shape != (n, n):
        raise ValueError(f"{what} has shape {matrix.shape}: for n_states = {n} give {(n, n)}")
    return matrix


def _by_child(given: Mapping[Any, Any], layout: Layout, n: int) -> Floats:
    """Find the matrix of every edge by the name of its child; the entry None is for all others."""
    unknown = [name for name in given if name is not None and name not in layout.names]
    if unknown:
        raise ValueError(f"transition names {described(unknown)}, which the tree does not have: name its nodes")
    twice = [name for name in given if layout.names.count(name) > 1]
    if twice:
        raise ValueError(f"transition names {twice[0]!r}, which several nodes of the tree are called: name them apart")
    if None not in given:
        missing = [name for name in layout.names if name not in given]
        if missing:
            raise ValueError(
                f"transition has no matrix for {len(missing)} edges of the tree, the first above {missing[0]!r}: give "
                "one for every child, or one for all others as transition[None]"
            )
    table = {name: _matrix(matrix, n, f"transition[{name!r}]") for name, matrix in given.items()}
    return np.stack([table[name] if name in table else table[None] for name in layout.names])


def _check_lengths(layouts: tuple[Layout, ...]) -> None:
    for layout in layouts:
        bare = np.flatnonzero(np.isnan(layout.lengths))
        if len(bare):
            name = layout.names[bare[0]]
            where = f"the branch above {name!r}" if name else "the branch above a node without a name"
            raise ValueError(f"{where} has no length, which a rate needs: give every branch one, or transition=")


def _root(root: Any, n: int, rate: Floats | None) -> Floats:
    if root is None:
        return np.full(n, 1.0 / n) if rate is None else stationary_of(rate)
    cure = f"None, or probabilities of shape {(n,)}"
    found = np.asarray(checked_probability(as_numbers(root, "root", cure), "root"))
    if found.shape != (n,):
        raise ValueError(f"root has shape {found.shape}: for n_states = {n} give {(n,)}")
    return found


def _weights(weights: Any, n: int) -> Floats:
    if weights is None:
        return np.full(n, 1.0 / n)
    cure = f"None, which is evenly, or probabilities of shape {(n,)}"
    found = np.asarray(checked_probability(as_numbers(weights, "weights", cure), "weights"))
    if found.shape != (n,):
        raise ValueError(f"weights has shape {found.shape}: give one for every tree, {(n,)}")
    return found
