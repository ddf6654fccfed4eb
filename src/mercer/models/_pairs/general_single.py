"""Single strings under pair HMMs: a hidden Markov model with an end, once silent visits are eliminated (MK-5, FK-7).

The marginal likelihood of one string sums over the other. The end is an additional symbol, emitted by an additional
state, so that the recursions of hidden Markov models apply.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._probability import ratio
from mercer.data import Sequences
from mercer.models._forward.evidence import code_probabilities
from mercer.models._forward.interface import Runs, Symbols, expectations, log_likelihoods
from mercer.models._pairs.elimination import Counts, Eliminated, eliminate
from mercer.models._scores.scores import ratios
from mercer.models._scores.weighted import TINY, code_scores, difference


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
    def of(cls, models: Any, c: int) -> Parameters:
        """Create from member ``c`` of `PairHMMs`."""

        def numbers(x: Any) -> Floats:
            return to_numpy(x)[c].astype(np.float64)

        initial = np.append(numbers(models.initial), numbers(models.empty))
        transition = np.concatenate([numbers(models.transition), numbers(models.stop)[:, None]], axis=1)
        return cls(initial, transition, numbers(models.silent), code_probabilities(models.emission[c]))

    def for_one(self) -> Eliminated:
        """Eliminate visits that emit nothing to one string."""
        return eliminate(self.initial, self.transition, self.silent, 1 - self.silent, 1 - self.silent)

    def for_two(self) -> Eliminated:
        """Eliminate visits that emit nothing to both strings; emissions keep their weights."""
        loud = (1 - self.silent) * (1 + self.silent)
        return eliminate(self.initial, self.transition, self.silent**2, loud, np.ones_like(self.silent))


class PairExpectations(NamedTuple):
    """Expected counts of the trajectories of S strings."""

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


def _chain(model: Parameters, X: Sequences) -> tuple[Eliminated, Floats, Floats, Symbols, Floats]:
    """Convert the model to an HMM with a state for the end, and append an end symbol to every string."""
    found, n = model.for_one(), len(model.silent)
    transition = np.zeros((n + 1, n + 1))
    transition[:n], transition[n, n] = found.step, 1.0
    return found, found.start[None], transition[None], *ended(X, model.letters)


def ended(X: Sequences, letters: Floats) -> tuple[Symbols, Floats]:
    """Append an end symbol to every string, emitted by an additional state; return the evidence and the offsets.

    ``letters (n, n_codes)`` are the probabilities of the codes in the other states.
    """
    n, width = letters.shape
    table = np.zeros((n + 1, width + 1))
    table[:n, :width], table[n, width] = letters, 1.0
    offsets = X.offsets + np.arange(len(X) + 1)
    codes = np.full(offsets[-1], width, dtype=np.int64)
    codes[np.arange(len(X.values)) + np.repeat(np.arange(len(X)), X.lengths)] = X.values
    return Symbols(codes, table[None]), offsets


def sequence_log_prob(model: Parameters, X: Sequences) -> Floats:
    """Log probability of every string, ``(S,)``."""
    _, initial, transition, evidence, offsets = _chain(model, X)
    return log_likelihoods(initial, transition, evidence, Runs.shared(offsets))


def sequence_counts(model: Parameters, X: Sequences) -> PairExpectations:
    """Return expected counts of the trajectories that emit each string."""
    found, initial, transition, evidence, offsets = _chain(model, X)
    posterior = expectations(initial, transition, evidence, Runs.shared(offsets))
    n = len(model.silent)
    start = ratio(posterior.first, found.start)  # a path of weight 0 adds nothing to the expected counts
    step = ratio(posterior.transitions[:, :n], found.step)
    counts = found.unfold(start, step)
    assert posterior.symbols is not None
    return PairExpectations(
        posterior.log_prob,
        model.initial * counts.initial,
        model.transition * counts.transition,
        posterior.symbols[:, :n, :-1],
        counts.silent,
    )


def sequence_scores(models: Any, c: int, X: Sequences, parametrization: str) -> Floats:
    """Scores of every string under member ``c``, ``(S, P)`` (FK-7); see `PairHMMs.sequence_scores`."""
    model = Parameters.of(models, c)
    found = sequence_counts(model, X)
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
    else:
        gradient, symbols = _gradients(model, X)
        first = gradient.initial - found.initial.sum(axis=-1, keepdims=True)
        steps = gradient.transition - found.transition.sum(axis=-1, keepdims=True)
    emitted = code_scores(models.emission[c], found.symbols, parametrization, symbols)
    entered = found.visits
    silent = difference(found.silent, model.silent * entered, entered)
    size = len(X)
    return np.concatenate([first, steps.reshape(size, -1), emitted.reshape(size, -1), silent], axis=1)


def _centred(counts: Floats, p: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return difference(counts, p * total, total)


def _gradients(model: Parameters, X: Sequences) -> tuple[Counts, Floats | None]:
    """Gradients in free weights, including zeros (FK-8), and in the letters, including probabilities near zero."""
    found, initial, transition, evidence, offsets = _chain(model, X)
    n, divided = len(model.silent), ratios(initial, transition, evidence, offsets, X.name)
    assert divided.first is not None
    assert divided.transitions is not None
    assert divided.symbols is not None
    symbols = divided.symbols[:, :n, :-1] if model.letters.min() < TINY else None
    return found.unfold(divided.first, divided.transitions[:, :n]), symbols
