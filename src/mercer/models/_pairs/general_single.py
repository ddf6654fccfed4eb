"""Single strings under pair HMMs: a hidden Markov model with an end, once silent visits are eliminated (MK-5, FK-7).

The marginal likelihood of one string sums over the other. The end is one more symbol that one more state writes,
so that the recursions of hidden Markov models do the work.
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
    """First state, and last the empty trajectory, ``(n + 1,)``."""
    transition: Floats
    """Next state, and last the end, ``(n, n + 1)``."""
    silent: Floats
    """Probability of writing nothing, ``(n,)``."""
    letters: Floats
    """Probability of every code where a symbol is written, ``(n, n_codes)``."""

    @classmethod
    def of(cls, models: Any, c: int) -> Parameters:
        """Read member ``c`` of `PairHMMs`."""

        def numbers(x: Any) -> Floats:
            return to_numpy(x)[c].astype(np.float64)

        initial = np.append(numbers(models.initial), numbers(models.empty))
        transition = np.concatenate([numbers(models.transition), numbers(models.stop)[:, None]], axis=1)
        return cls(initial, transition, numbers(models.silent), code_probabilities(models.emission[c]))

    def for_one(self) -> Eliminated:
        """Leave the visits out that give nothing to one string."""
        return eliminate(self.initial, self.transition, self.silent, 1 - self.silent, 1 - self.silent)

    def for_two(self) -> Eliminated:
        """Leave the visits out that give nothing to both strings; emissions keep their own weights."""
        loud = (1 - self.silent) * (1 + self.silent)
        return eliminate(self.initial, self.transition, self.silent**2, loud, np.ones_like(self.silent))


class Expected(NamedTuple):
    """Expected counts of the trajectories of S strings."""

    log_prob: Floats
    """``(S,)``."""
    initial: Floats
    """Numbers of beginnings, ``(S, n + 1)``."""
    transition: Floats
    """Numbers of transitions, ``(S, n, n + 1)``."""
    symbols: Floats
    """How often every state writes every code, ``(S, n, n_codes)``."""
    silent: Floats
    """How often every state writes nothing, ``(S, n)``."""

    @property
    def visits(self) -> Floats:
        """How often every state is entered, ``(S, n)``."""
        return np.asarray(self.transition[..., :-1].sum(axis=1) + self.initial[:, :-1])


def _chain(model: Parameters, X: Sequences) -> tuple[Eliminated, Floats, Floats, Symbols, Floats]:
    """Write the model as an HMM with a state for the end, and the end of every string as a symbol."""
    found, n = model.for_one(), len(model.silent)
    transition = np.zeros((n + 1, n + 1))
    transition[:n], transition[n, n] = found.step, 1.0
    width = model.letters.shape[1]
    table = np.zeros((n + 1, width + 1))
    table[:n, :width], table[n, width] = model.letters, 1.0
    offsets = X.offsets + np.arange(len(X) + 1)
    codes = np.full(offsets[-1], width, dtype=np.int64)
    codes[np.arange(len(X.values)) + np.repeat(np.arange(len(X)), X.lengths)] = X.values
    return found, found.start[None], transition[None], Symbols(codes, table[None]), offsets


def sequence_log_prob(model: Parameters, X: Sequences) -> Floats:
    """Log probability of every string, ``(S,)``."""
    _, initial, transition, evidence, offsets = _chain(model, X)
    return log_likelihoods(initial, transition, evidence, Runs.shared(offsets))


def sequence_counts(model: Parameters, X: Sequences) -> Expected:
    """Return expected counts of the trajectories that emit each string."""
    found, initial, transition, evidence, offsets = _chain(model, X)
    posterior = expectations(initial, transition, evidence, Runs.shared(offsets))
    n = len(model.silent)
    start = ratio(posterior.first, found.start)  # a way of weight 0 adds nothing to what is expected
    step = ratio(posterior.transitions[:, :n], found.step)
    counts = found.unfold(start, step)
    assert posterior.symbols is not None
    return Expected(
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
            f"{X.name(impossible[0])} has probability zero under the shared model, so that it has no score: fit the "
            "model with smoothing, or leave the sequence out"
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
    """Gradients in free weights, also where these are zero (FK-8), and in the letters, where these are nearly zero."""
    found, initial, transition, evidence, offsets = _chain(model, X)
    n, divided = len(model.silent), ratios(initial[0], transition[0], evidence, offsets, X.name)
    assert divided.first is not None
    assert divided.transitions is not None
    assert divided.symbols is not None
    symbols = divided.symbols[:, :n, :-1] if model.letters.min() < TINY else None
    return found.unfold(divided.first, divided.transitions[:, :n]), symbols
