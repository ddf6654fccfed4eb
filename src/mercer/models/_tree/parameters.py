"""Parameters of trees, given and learned: the root, the edges (one matrix, or rates) and the emissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_number
from mercer._probability import checked_probability
from mercer.models._tree.messages import Member
from mercer.models._tree.newick import Layout
from mercer.models._tree.rates import as_numbers, changes, checked_rate, stationary_of

SCALES = 4.0 ** np.arange(-4, 5)
"""Expected numbers of changes from the root to a leaf that a fit of rates tries as starts."""
DEFAULT_NOISE = 0.1
"""Default probability that the state changes along an edge."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of one tree."""

    layout: Layout
    root: Floats
    """Probabilities of the state of the root, ``(S,)``."""
    emission: Floats
    """Probabilities of the symbols of a leaf given its state, ``(S, A)``."""
    continuous: bool
    """Whether edges have rates of change, rather than probabilities."""
    edges: Floats
    """The rates, or the probabilities of all edges, ``(S, S)``."""

    def matrices(self) -> Floats:
        """Return probabilities of change along the edges, ``(E, S, S)``."""
        lengths = self.layout.lengths
        if self.continuous:
            return changes(self.edges, lengths)
        return np.broadcast_to(self.edges, (len(lengths), *self.edges.shape))

    def member(self, sets: Floats) -> Member:
        """Return the tree with its matrices."""
        matrices, layout = self.matrices(), self.layout
        inner = layout.n_internal - 1
        transition = np.concatenate([np.eye(len(self.root))[None], matrices[:inner]])
        return Member(layout.parent, layout.leaf_parent, self.root, transition, matrices[inner:] @ self.emission, sets)

    def n_free(self, learn: tuple[str, ...]) -> int:
        """Return the number of free parameters that are learned; zeros stay zero and are not counted."""
        found = 0
        for name in learn:
            positive = getattr(self, name) > 0
            # The positive rates are free; the diagonal, which is not positive, follows from them.
            rows = 0 if name == "edges" and self.continuous else positive[..., 0].size
            found += int(positive.sum()) - rows
        return found


def starts_of(estimator: Any, layout: Layout, learn: tuple[str, ...]) -> tuple[Parameters, list[Parameters]]:
    """Return the prior of a fit, and its possible starts.

    The starts are multiples of the rates, and the prior of default rates has one expected change from the root to a
    leaf, so the result does not depend on the unit of branch lengths.
    """
    given = start_of(estimator, layout)
    if estimator.transition is not None or "edges" not in learn or not 0 < layout.way < np.inf:
        return given, [given]
    leaving = float(np.mean(-np.diagonal(given.edges)))
    if leaving == 0:
        return given, [given]
    starts = [start_of(estimator, layout, scale / (layout.way * leaving)) for scale in SCALES]
    default = estimator.rate is None or isinstance(estimator.rate, str)
    return (starts[len(SCALES) // 2], starts) if default else (given, [given, *starts])


def start_of(estimator: Any, layout: Layout, scale: float = 1.0) -> Parameters:
    """Return the checked parameters of an estimator; rates are multiplied by ``scale``."""
    n, rate, root = int(estimator.n_states), estimator.rate, estimator.root
    if rate is not None and estimator.transition is not None:
        raise ValueError("Only one of rate and transition can be given; got both. Pass a rate matrix or probabilities.")
    if rate is None and estimator.transition is None and np.isfinite(layout.lengths).any():
        rate = "equal"
    if rate is not None:
        edges = checked_rate(rate, n)
        bare = np.flatnonzero(np.isnan(layout.lengths))
        if len(bare):
            name = layout.names[bare[0]]
            where = f"{name!r}" if name else "a node without a name"
            raise ValueError(
                f"The branch above {where} has no length, which rates need. Add lengths to all branches, or use "
                "transition=."
            )
    elif estimator.transition is None:
        edges = emission_of(None if n == 1 else DEFAULT_NOISE, n)
    else:
        edges = _probabilities(estimator.transition, (n, n), "transition", "")
    if root is None:
        root = np.full(n, 1.0 / n) if rate is None else stationary_of(edges)
    else:
        root = _probabilities(root, (n,), "root", "None, or ")
    return Parameters(layout, root, emission_of(estimator.emission, n), rate is not None, scale * edges)


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
        return (1 - noise) * np.eye(n) + noise * (1 - np.eye(n)) / max(n - 1, 1)
    cure = f"None, the probability of showing another state, or probabilities of shape {(n, 'A')}, for A symbols"
    table = np.asarray(checked_probability(as_numbers(emission, "emission", cure), "emission"))
    if table.ndim != 2 or len(table) != n:
        raise ValueError(
            f"emission must have shape {(n, 'A')} for n_states = {n} and A symbols; got shape {table.shape}."
        )
    return table


def _probabilities(values: Any, shape: tuple[int, ...], what: str, other: str) -> Floats:
    """Check given probabilities; ``other`` is what else the parameter may be, for messages."""
    table = as_numbers(values, what, f"{other}probabilities of shape {shape}")
    found = np.asarray(checked_probability(table, what))
    if found.shape != shape:
        raise ValueError(f"{what} must have shape {shape} for n_states = {shape[0]}; got shape {found.shape}.")
    return found
