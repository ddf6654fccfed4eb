"""Forward-backward over many sequences and many models at once (ALG-FB): one interface for fits and inference.

A *run* is a segment of observations evaluated under one model. The *evidence* is the likelihood of each observation
under each state: `Symbols` (codes and one table of probabilities per model) or `Densities` (a row of log densities per
observation). Every result of a run depends on that run and its model only, not on other runs or the number of threads.

The recursions are those of native/forward.hpp, which repeats runs whose results may be inaccurate with numbers of
unlimited range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mercer._array import Floats, safe_log
from mercer._immutable import cached_property
from mercer._native.forward import best_paths, sweep
from mercer._parallel import n_threads, thread_map

PIECES, LONGEST_SECONDS = 32, 0.1
"""Work is done in this number of pieces, or more if they took longer than this."""
TOGETHER = 64
"""The number of runs in a piece of work is a multiple of this, which is a multiple of the number of lanes."""


class _Stretches(NamedTuple):
    start: Floats
    """First observation of each run, ``(S,)`` int."""
    length: Floats
    """Number of observations, ``(S,)`` int; 0 is allowed."""
    model: Floats
    """Index of the model, ``(S,)`` int."""


class Runs(_Stretches):
    """Segments of observations, each under one model."""

    @cached_property
    def plain(self) -> Runs:
        """The same as contiguous, writable int64 arrays, so that loops are compiled once."""
        start, length, model = (np.require(x, np.int64, ["C", "W"]) for x in self)
        return Runs(start, length, model)

    @classmethod
    def own(cls, offsets: Floats) -> Runs:
        """Evaluate sequence i under model i."""
        return cls(offsets[:-1], np.diff(offsets), np.arange(len(offsets) - 1))

    @classmethod
    def shared(cls, offsets: Floats) -> Runs:
        """Evaluate every sequence under model 0."""
        return cls(offsets[:-1], np.diff(offsets), np.zeros(len(offsets) - 1, dtype=int))

    @classmethod
    def crossed(cls, offsets: Floats, n_models: int) -> Runs:
        """Evaluate every sequence under every model, model by model."""
        m = len(offsets) - 1
        return cls(
            np.tile(offsets[:-1], n_models), np.tile(np.diff(offsets), n_models), np.repeat(np.arange(n_models), m)
        )


class Symbols(NamedTuple):
    """Evidence of symbols: the probability of every code in every state."""

    codes: Floats
    """``(T,)`` int."""
    probability: Floats
    """``(N, n, n_codes)``: an ambiguity code has the sum of its symbols, the missing code 1."""


class Densities(NamedTuple):
    """Evidence of any kind: log densities of the observations in the states of the run that they belong to."""

    log_density: Floats
    """``(T, n)``; every observation belongs to one run at most."""


Evidence: TypeAlias = Symbols | Densities


class Expectations(NamedTuple):
    """Expected statistics of the hidden states given the observations; zero for impossible or empty runs."""

    log_prob: Floats
    """``(S,)``: -inf for impossible runs, 0 for empty ones."""
    first: Floats
    """Posterior of the first state, ``(S, n)``."""
    transitions: Floats
    """Expected numbers of transitions, ``(S, n, n)``."""
    visits: Floats
    """Expected numbers of visits, ``(S, n)``."""
    states: Floats | None
    """Posteriors of the states at every observation, ``(T, n)``, zero outside all runs; None unless requested."""
    symbols: Floats | None
    """Expected numbers of every code in every state, ``(S, n, n_codes)``; None for `Densities`."""


def log_likelihoods(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> Floats:
    """Log probability of every run, ``(S,)``.

    Parameters
    ----------
    initial, transition : ndarray of shape (N, n) and (N, n, n)
        Probabilities of N models.
    evidence : Symbols or Densities
        Likelihoods of the observations under the states.
    runs : Runs
        Segments of observations and their models.
    """
    log_prob = np.zeros(len(runs.start))
    _swept(initial, transition, evidence, runs, log_prob)
    return log_prob


def expectations(
    initial: Floats,
    transition: Floats,
    evidence: Evidence,
    runs: Runs,
    *,
    states: bool = False,
    ratios: bool = False,
) -> Expectations:
    """Log probabilities, expected transitions and visits of every run; with ``states``, all posteriors.

    With ``ratios``, the posteriors of first states, transitions and symbols are divided by their own factors: initial
    and transition probabilities, and likelihoods (FK-8). The other parameters are those of `log_likelihoods`.
    """
    size, n = len(runs.start), initial.shape[1]
    found = Expectations(
        log_prob=np.zeros(size),
        first=np.zeros((size, n)),
        transitions=np.zeros((size, n, n)),
        visits=np.zeros((size, n)),
        states=np.zeros((_observations(evidence), n)) if states else None,
        symbols=np.zeros((size, n, evidence.probability.shape[-1])) if isinstance(evidence, Symbols) else None,
    )
    _swept(initial, transition, evidence, runs, ratios=ratios, **found._asdict())
    return found


def steps(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> tuple[Floats, Floats]:
    """Posteriors of the states before and after every step, ``(T, n, n)``, and log probabilities of the runs, ``(S,)``.

    A step belongs to the observation that it leads to; those to the first observations of runs are zero. Parameters are
    those of `log_likelihoods`.
    """
    out = np.zeros((_observations(evidence), *transition.shape[1:]))
    log_prob = np.zeros(len(runs.start))
    _swept(initial, transition, evidence, runs, log_prob, steps=out)
    return out, log_prob


def paths(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> tuple[Floats, Floats]:
    """Find the most probable states (Viterbi), ``(T,)`` with -1 outside all runs, and their log probabilities."""
    states, value = np.full(_observations(evidence), -1, dtype=np.int32), np.zeros(len(runs.start))
    log_density, codes, probability = _likelihoods(evidence)
    tables = log_density, codes, None if probability is None else safe_log(np.asarray(probability, np.float64))
    models = safe_log(np.asarray(initial, np.float64)), safe_log(np.asarray(transition, np.float64))
    order = _longest_first(runs)
    _in_pieces(best_paths(models, tables, runs, order, states, value), runs.length[order], initial.shape[1])
    return states, value


def _swept(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs, log_prob: Floats, **targets: Any
) -> None:
    order = _longest_first(runs)
    work = sweep((initial, transition), _likelihoods(evidence), runs, order, log_prob, **targets)
    _in_pieces(work, runs.length[order], initial.shape[1])


def _observations(evidence: Evidence) -> int:
    return len(evidence.codes if isinstance(evidence, Symbols) else evidence.log_density)


def _likelihoods(evidence: Evidence) -> tuple[Any, Any, Any]:
    """Return log densities, codes, and the probabilities of codes ``(N, n_codes, n)``; None for what there is not."""
    if isinstance(evidence, Symbols):
        return None, evidence.codes, evidence.probability.swapaxes(1, 2)
    return evidence.log_density, None, None


def _longest_first(runs: Runs) -> Floats:
    """Return the runs that are not empty; a group of them takes as long as the longest."""
    order = np.argsort(-np.asarray(runs.length, np.int64), kind="stable")
    return order[: np.count_nonzero(runs.length)]


def _in_pieces(work: Callable[[slice], int], length: Floats, n: int) -> None:
    """Process runs of these lengths on threads, a millisecond or more at a time. The pieces depend on the runs only."""
    if not len(length):
        return
    seconds = np.cumsum(length) * (10e-9 + n * n * 1e-9)
    piece, ends = min(max(CHUNK_SECONDS, seconds[-1] / PIECES), LONGEST_SECONDS), [0, len(length)]
    if seconds[-1] > piece:
        inner = np.searchsorted(seconds, np.arange(piece, seconds[-1], piece)) // TOGETHER * TOGETHER
        ends = np.unique(np.append(inner, ends)).tolist()

    def checked(part: slice) -> None:
        undefined = work(part)
        if undefined:
            raise ValueError(
                f"A log density of sequence {undefined - 1} is NaN or +inf, so its probability is undefined. Check the "
                "data and the parameters for NaN, and for variances of zero."
            )

    share(checked, [slice(*ends) for ends in itertools.pairwise(ends)], float(seconds[-1]))


# Threads for the loops over sequences: pieces of a millisecond, and no threads for less than two of them.

CHUNK_SECONDS = 1e-3
"""Work that one thread takes at a time; less than two of these stay on one thread."""

Item = TypeVar("Item")


def share(work: Callable[[Item], None], items: list[Item], seconds: float) -> None:
    """Process the items, on threads if they take long enough together."""
    if seconds < 2 * CHUNK_SECONDS:  # less than the overhead of the thread map
        for item in items:
            work(item)
        return
    thread_map(work, items, threads=min(n_threads(), len(items)), label="forward-backward")
