"""Parameters of trees, given and learned: the root, the edges (free, tied, or by rates), emissions and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_number
from mercer._notices import described
from mercer._probability import checked_probability
from mercer.models._tree.newick import Layout
from mercer.models._tree.rates import as_numbers, changes, checked_rate, stationary_of

SCALES = 4.0 ** np.arange(-4, 5)
"""Expected numbers of changes from the root to a leaf that a fit of rates tries as starts."""
DEFAULT_STAY = 0.9
"""Default probability that the state does not change along an edge."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a model with one or several topologies."""

    layouts: tuple[Layout, ...]
    weights: Floats
    """Probabilities of the topologies, ``(K,)``."""
    root: Floats
    """Probabilities of the state of the root, ``(S,)``."""
    emission: Floats
    """Probabilities of the symbols of a leaf given its state, ``(S, A)``."""
    kind: str
    """Parametrization of the edges: "rate", "tied" or "free"."""
    edges: tuple[Floats, ...]
    """Rates or the tied matrix, ``(S, S)``; for free edges, one array ``(E, S, S)`` per topology."""

    def matrices(self, k: int) -> Floats:
        """Return probabilities of change along the edges of topology k, ``(E, S, S)``."""
        layout = self.layouts[k]
        if self.kind == "rate":
            return changes(self.edges[0], layout.lengths)
        if self.kind == "tied":
            return np.broadcast_to(self.edges[0], (len(layout.lengths), *self.edges[0].shape))
        return self.edges[k]

    def n_free(self, learn: tuple[str, ...]) -> int:
        """Return the number of free parameters that are learned; zeros stay zero and are not counted."""
        total = sum(_freedom(getattr(self, name)) for name in ("root", "emission", "weights") if name in learn)
        if "edges" in learn:
            # The positive rates are free; the diagonal, which is not positive, follows from them.
            total += int(np.sum(self.edges[0] > 0)) if self.kind == "rate" else sum(map(_freedom, self.edges))
        return total


def _freedom(probability: Floats) -> int:
    """Return the number of free probabilities: in each row, the number of possible outcomes minus one."""
    return int(np.sum(np.sum(probability > 0, axis=-1) - 1))


def starts_of(
    estimator: Any, layouts: tuple[Layout, ...], learn: tuple[str, ...]
) -> tuple[Parameters, list[Parameters]]:
    """Return the prior of a fit, and its possible starts.

    The starts are multiples of the rates, and the prior of default rates has one expected change from the root to a
    leaf, so the result does not depend on the unit of branch lengths.
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
    """Return the checked parameters of an estimator; rates are multiplied by ``scale``."""
    n = int(estimator.n_states)
    rate, transition, tied = estimator.rate, estimator.transition, estimator.tied
    if rate is not None and transition is not None:
        raise ValueError("Only one of rate and transition can be given; got both. Pass a rate matrix or probabilities.")
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
            raise ValueError(
                f"transition must be one matrix for all edges with tied=True; got a dictionary of {len(transition)}."
            )
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
    """Return probabilities of symbols given the state of a leaf, ``(S, A)``: identity, noise, or a given matrix."""
    if emission is None:
        return np.eye(n)
    if is_number(emission) and np.ndim(emission) == 0:
        noise = float(emission)
        if not 0 <= noise < 1 or (n == 1 and noise > 0):
            raise ValueError(
                f"emission must be a probability of showing another state, 0 or more and below 1; got {emission!r}."
            )
        return np.eye(n) if n == 1 else (1 - noise) * np.eye(n) + noise * (1 - np.eye(n)) / (n - 1)
    cure = f"None, the probability of showing another state, or probabilities of shape {(n, 'A')}, for A symbols"
    table = np.asarray(checked_probability(as_numbers(emission, "emission", cure), "emission"))
    if table.ndim != 2 or len(table) != n:
        raise ValueError(
            f"emission must have shape {(n, 'A')} for n_states = {n} and A symbols; got shape {table.shape}."
        )
    return table


def _default(n: int) -> Floats:
    if n == 1:
        return np.ones((1, 1))
    return DEFAULT_STAY * np.eye(n) + (1 - DEFAULT_STAY) * (1 - np.eye(n)) / (n - 1)


def _probabilities(values: Any, shape: tuple[int, ...], what: str, wanted: str, other: str = "") -> Floats:
    """Check given probabilities; for messages, the ``wanted`` shape and what else the parameter may be."""
    table = as_numbers(values, what, f"{other}probabilities of shape {shape}")
    found = np.asarray(checked_probability(table, what))
    if found.shape != shape:
        raise ValueError(f"{what} must have {wanted}; got shape {found.shape}.")
    return found


def _matrix(values: Any, n: int, what: str) -> Floats:
    return _probabilities(values, (n, n), what, f"shape {(n, n)} for n_states = {n}")


def _by_child(given: Mapping[Any, Any], layout: Layout, n: int) -> Floats:
    """Return the matrix of each edge by the name of its child; the entry None is for all other edges."""
    unknown = [name for name in given if name is not None and name not in layout.names]
    if unknown:
        raise ValueError(
            f"transition has entries for {described(unknown)}, which are not nodes of the tree. Use names of its nodes."
        )
    twice = [name for name in given if layout.names.count(name) > 1]
    if twice:
        raise ValueError(
            f"transition has an entry for {twice[0]!r}, the name of several nodes of the tree. Use distinct names."
        )
    if None not in given:
        missing = [name for name in layout.names if name not in given]
        if missing:
            raise ValueError(
                f"transition has no matrix for {len(missing)} edges of the tree, the first above {missing[0]!r}. Add "
                "one per child, or one for all other edges as transition[None]."
            )
    table = {name: _matrix(matrix, n, f"transition[{name!r}]") for name, matrix in given.items()}
    return np.stack([table[name] if name in table else table[None] for name in layout.names])


def _check_lengths(layouts: tuple[Layout, ...]) -> None:
    for layout in layouts:
        bare = np.flatnonzero(np.isnan(layout.lengths))
        if len(bare):
            name = layout.names[bare[0]]
            where = f"The branch above {name!r}" if name else "The branch above a node without a name"
            raise ValueError(
                f"{where} has no length, which rates need. Add lengths to all branches, or use transition=."
            )


def _root(root: Any, n: int, rate: Floats | None) -> Floats:
    if root is None:
        return np.full(n, 1.0 / n) if rate is None else stationary_of(rate)
    return _probabilities(root, (n,), "root", f"shape {(n,)} for n_states = {n}", "None, or ")


def _weights(weights: Any, n: int) -> Floats:
    if weights is None:
        return np.full(n, 1.0 / n)
    return _probabilities(
        weights, (n,), "weights", f"one probability per tree, shape {(n,)}", "None, for equal weights, or "
    )
