"""Pair HMMs as finite-state machines, of pairs and of single strings, once silent visits are eliminated (MK-5, FK-7).

The marginal likelihood of one string sums over the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._native.pairs import Machine
from mercer.data import Sequences
from mercer.models._forward.evidence import code_probabilities
from mercer.models._pairs.elimination import Counts, Eliminated, eliminate
from mercer.models._pairs.machine import END, Gradients, by_itself, gradients, machine_of
from mercer.models._scores.weighted import TINY, code_scores, difference

Pairs = tuple[Indices, Indices]


class Parameters(NamedTuple):
    """One model in double precision."""

    initial: Floats
    """Probabilities of the first state; last, of an empty trajectory, ``(n + 1,)``."""
    transition: Floats
    """Probabilities of the next state; last, of the end, ``(n, n + 1)``."""
    silent: Floats
    """Probability of emitting nothing, ``(n,)``."""
    letters: Floats
    """Probability of each code given that a symbol is emitted, ``(n, n_codes)``."""

    @classmethod
    def of(cls, models: Any, c: int = 0) -> Parameters:
        """Create from member ``c`` of `PairHMMs`."""

        def numbers(x: Any) -> Floats:
            return to_numpy(x)[c].astype(np.float64)

        initial = np.append(numbers(models.initial), numbers(models.empty))
        transition = np.concatenate([numbers(models.transition), numbers(models.stop)[:, None]], axis=1)
        return cls(initial, transition, numbers(models.silent), code_probabilities(models.emission[c]))


class GeneralMachine(NamedTuple):
    """A model without silent visits as a machine, for pairs or single strings."""

    machine: Machine
    """The first edges are the start and the steps of the eliminated model, of pairs the next n are visits that give a
    symbol to the first string, and n to the second."""
    eliminated: Eliminated
    n_letters: int
    """The table has so many numbers of codes; of pairs, those of pairs of codes follow."""

    @classmethod
    def for_one(cls, model: Parameters) -> GeneralMachine:
        """Return the machine of single strings."""
        n, width = model.letters.shape
        found = eliminate(model.initial, model.transition, model.silent, 1 - model.silent, 1 - model.silent)
        states: dict[Any, Any] = {"begin": (0, None)} | {d: (1, d) for d in range(n)}
        edges, tables = _steps(found, range(n), range(n)), dict(enumerate(model.letters))
        return cls(machine_of(states, edges, tables, width), found, n * width)

    @classmethod
    def for_two(cls, model: Parameters) -> GeneralMachine:
        """Return the machine of pairs: a state is entered, visited with a symbol for one string or both, and left."""
        n, width = model.letters.shape
        loud = (1 - model.silent) * (1 + model.silent)
        found = eliminate(model.initial, model.transition, model.silent**2, loud, np.ones(n))
        letters = (1 - model.silent)[:, None] * model.letters
        tables: dict[Any, Floats] = dict(enumerate(letters)) | {
            ("both", d): np.outer(x, x) for d, x in enumerate(letters)
        }
        states: dict[Any, Any] = {"begin": (0, None)}
        states |= {(name, d): (given, d) for given, name in ((1, "first"), (2, "second")) for d in range(n)}
        states |= {("both", d): (3, ("both", d)) for d in range(n)}
        states |= {(name, d): (0, None) for name in ("left", "entered") for d in range(n)}
        edges = _steps(found, [("left", d) for d in range(n)], [("entered", d) for d in range(n)])
        edges += [(("entered", d), (name, d), model.silent[d]) for name in ("first", "second") for d in range(n)]
        edges += [(("entered", d), ("both", d), 1.0) for d in range(n)]
        edges += [((name, d), ("left", d), 1.0) for name in ("first", "second", "both") for d in range(n)]
        return cls(machine_of(states, edges, tables, width), found, n * width)

    def unfold(self, found: Gradients) -> Counts:
        """Return the gradients of the original model."""
        n = len(self.eliminated.silent)
        start, step = np.split(found.weights[:, : (n + 1) ** 2], [n + 1], axis=1)
        return self.eliminated.unfold(start, step.reshape(-1, n, n + 1))


def _steps(found: Eliminated, left: Any, entered: Any) -> list[tuple[Any, Any, float]]:
    """Return the edges from the begin, and from every state that is left, to all states and the end."""
    rows = zip(["begin", *left], [found.start, *found.step], strict=True)
    return [(source, d, p) for source, row in rows for d, p in zip([*entered, END], row.tolist(), strict=True)]


class PairExpectations(NamedTuple):
    """Expected counts of the trajectories of S strings, or pairs; zero for those that are impossible."""

    log_prob: Floats
    """``(S,)``."""
    initial: Floats
    """Expected initial states, ``(S, n + 1)``."""
    transition: Floats
    """Expected transitions, ``(S, n, n + 1)``."""
    symbols: Floats
    """Expected emissions of each code by each state, ``(S, n, n_codes)``."""
    silent: Floats
    """Expected silent visits of each state, ``(S, n)``."""

    @property
    def visits(self) -> Floats:
        """Expected visits to each state, ``(S, n)``."""
        return np.asarray(self.transition[..., :-1].sum(axis=1) + self.initial[:, :-1])


def expected_counts(model: Parameters, X: Sequences, pairs: Pairs | None = None) -> PairExpectations:
    """Return expected counts of the trajectories that emit each string, or the strings of each pair."""
    (n, width), form = model.letters.shape, GeneralMachine.for_two(model) if pairs else GeneralMachine.for_one(model)
    machine = form.machine
    found = gradients(machine, X, *((X, *pairs) if pairs else by_itself(X)))
    counts, emitted = form.unfold(found), found.table * machine.table
    symbols, silent = emitted[:, : form.n_letters].reshape(-1, n, width), counts.silent
    if pairs:
        both = emitted[:, form.n_letters :].reshape(-1, n, width, width)
        symbols = symbols + both.sum(axis=3) + both.sum(axis=2)
        once = slice((n + 1) ** 2, (n + 1) ** 2 + 2 * n)
        silent = (found.weights * machine.weights)[:, once].reshape(-1, 2, n).sum(axis=1) + 2 * silent
    initial, transition = model.initial * counts.initial, model.transition * counts.transition
    return PairExpectations(found.log_kernel, initial, transition, symbols, silent)


def sequence_scores(models: Any, c: int, X: Sequences, parametrization: str) -> Floats:
    """Scores of every string under member ``c``, ``(S, P)`` (FK-7); see `PairHMMs.sequence_scores`."""
    model = Parameters.of(models, c)
    found = expected_counts(model, X)
    impossible = np.flatnonzero(found.log_prob == -np.inf)
    if len(impossible):
        raise ValueError(
            f"{X.name(impossible[0])} has probability zero under the shared model, so it has no score. Fit the model "
            "with smoothing, or leave the sequence out."
        )
    symbols = None
    if parametrization == "logit":
        first = _centred(found.initial, model.initial)
        steps = _centred(found.transition, model.transition)
    else:  # gradients in free weights, also where they are zero (FK-8)
        form = GeneralMachine.for_one(model)
        divided = gradients(form.machine, X, *by_itself(X), zeros=True)
        counts = form.unfold(divided)
        first = counts.initial - found.initial.sum(axis=-1, keepdims=True)
        steps = counts.transition - found.transition.sum(axis=-1, keepdims=True)
        if model.letters.min() < TINY:
            symbols = divided.table.reshape(found.symbols.shape)
    emitted = code_scores(models.emission[c], found.symbols, parametrization, symbols)
    entered = found.visits
    silent = difference(found.silent, model.silent * entered, entered)
    size = len(X)
    return np.concatenate([first, steps.reshape(size, -1), emitted.reshape(size, -1), silent], axis=1)


def _centred(counts: Floats, p: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return difference(counts, p * total, total)
