"""Forward-backward over many sequences and many models at once (ALG-FB): one interface for fits and inference.

A *run* is a segment of observations evaluated under one model. The *evidence* is the likelihood of each observation
under each state: `Symbols` (codes and one table of probabilities per model) or `Densities` (a row of log densities per
observation). Every result of a run depends on that run and its model only, not on other runs or the number of threads.

Scaled recursions in SIMD lanes do the work (`mercer.models._forward.scaled`). They detect when a result may be
inaccurate; such runs are repeated with numbers of a wider range (`mercer.compiled.forward_ranged`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mercer._array import Floats, safe_log
from mercer._cached import cached_property
from mercer.models._forward.work import share


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
    def plans(self) -> dict[Any, Any]:
        """Partitions into groups, kept for the next iteration of EM."""
        return {}

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
    from mercer.compiled.forward_ranged import ranged_likelihood
    from mercer.models._forward import scaled

    runs = runs.plain
    log_prob, sound = scaled.scaled_log_likelihoods(_problem(initial, transition, evidence), runs)

    def again(s: int) -> None:
        log_prob[s] = ranged_likelihood(*tables(s))

    if not sound.all():
        tables = _ranged(initial, transition, evidence, runs)
        _redo(again, sound, runs, initial.shape[1])
    return log_prob


def expectations(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs, *, states: bool = False
) -> Expectations:
    """Log probabilities, expected transitions and visits of every run; with ``states``, all posteriors.

    Parameters are those of `log_likelihoods`.
    """
    from mercer.compiled.forward_ranged import ranged_posteriors
    from mercer.models._forward import scaled

    size, n = len(runs.start), initial.shape[1]
    symbols = evidence.probability.shape[-1] if isinstance(evidence, Symbols) else 0
    total = len(evidence.codes if isinstance(evidence, Symbols) else evidence.log_density)
    targets = scaled.Targets(
        first=np.zeros(size * n),
        transitions=np.zeros(size * n * n),
        visits=np.zeros(size * n),
        states=np.zeros(total * n if states else 0),
        symbols=np.zeros(size * n * symbols),
    )
    runs = runs.plain
    log_prob, sound = scaled.scaled_expectations(_problem(initial, transition, evidence), runs, targets)
    found = Expectations(
        log_prob,
        targets.first.reshape(size, n),
        targets.transitions.reshape(size, n, n),
        targets.visits.reshape(size, n),
        targets.states.reshape(total, n) if states else None,
        targets.symbols.reshape(size, n, symbols) if isinstance(evidence, Symbols) else None,
    )

    def again(s: int) -> None:
        rows = slice(int(runs.start[s]), int(runs.start[s] + runs.length[s]))
        posterior = np.empty((int(runs.length[s]), n))
        cells = np.zeros(len(posterior), np.int64)  # one cell for all steps
        log_prob[s] = ranged_posteriors(*tables(s), cells, found.transitions[s : s + 1], posterior, np.empty(0), False)
        found.first[s], found.visits[s] = posterior[0], posterior.sum(axis=0)
        if found.states is not None:
            found.states[rows] = posterior
        if found.symbols is not None and isinstance(evidence, Symbols):
            found.symbols[s] = 0.0
            np.add.at(found.symbols[s].T, evidence.codes[rows], posterior)

    if not sound.all():
        tables = _ranged(initial, transition, evidence, runs)
        _redo(again, sound, runs, n)
    return found


def steps(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs, cell: Floats, ends: Floats
) -> tuple[Floats, Floats]:
    """Mean posteriors of the steps of every cell, ``(cells, n, n)``, and the log probability of every run, ``(S,)``.

    The posterior of a step is that of the state before and the state after it. Run s has the cells
    ``ends[s]:ends[s + 1]``, and its step into observation t belongs to the ``cell[t]``-th of them. The other parameters
    are those of `log_likelihoods`.
    """
    from mercer.compiled.forward_ranged import ranged_posteriors
    from mercer.models._forward import scaled

    runs, n = runs.plain, initial.shape[1]
    out = np.zeros((int(ends[-1]), n, n))
    log_prob, sound = scaled.scaled_steps(_problem(initial, transition, evidence), runs, cell, ends, out)

    def again(s: int) -> None:
        rows, mine = slice(int(runs.start[s]), int(runs.start[s] + runs.length[s])), out[ends[s] : ends[s + 1]]
        log_prob[s] = ranged_posteriors(*tables(s), cell[rows], mine, np.empty((0, n)), np.empty(0), False)
        mine /= max(runs.length[s] - 1, 1)

    if not sound.all():
        tables = _ranged(initial, transition, evidence, runs)
        _redo(again, sound, runs, n)
    return out, log_prob


def paths(initial: Floats, transition: Floats, evidence: Evidence, runs: Runs) -> tuple[Floats, Floats]:
    """Find the most probable states (Viterbi), ``(T,)`` with -1 outside all runs, and their log probabilities."""
    from mercer.compiled.best_path import log_path

    runs = runs.plain
    total = len(evidence.codes if isinstance(evidence, Symbols) else evidence.log_density)
    states, value = np.full(total, -1, dtype=np.int32), np.zeros(len(runs.start))
    tables = _logs(initial, transition, evidence, runs)

    def find(s: int) -> None:
        value[s] = log_path(*tables(s), states[runs.start[s] : runs.start[s] + runs.length[s]])

    _redo(find, runs.length == 0, runs, initial.shape[1])
    return states, value


def _problem(initial: Floats, transition: Floats, evidence: Evidence) -> Any:
    from mercer.models._forward.scaled import Problem

    if isinstance(evidence, Symbols):
        return Problem.of(initial, transition, None, evidence.codes, evidence.probability)
    return Problem.of(initial, transition, evidence.log_density, None, None)


def _ranged(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs
) -> Callable[[int], tuple[Floats, Floats, Floats, Floats]]:
    """Return a function of a run: initial, transition, significands and exponents of its evidence ``(length, n)``."""
    from mercer.compiled.ranged import from_logs, split

    first, step = (np.array(x, dtype=np.float64) for x in (initial, transition))
    if isinstance(evidence, Symbols):
        by_code, powers = split(np.array(np.swapaxes(evidence.probability, 1, 2), dtype=np.float64, order="C"))

    def tables(s: int) -> tuple[Floats, Floats, Floats, Floats]:
        model, rows = runs.model[s], slice(int(runs.start[s]), int(runs.start[s] + runs.length[s]))
        if isinstance(evidence, Symbols):
            codes = evidence.codes[rows]
            return first[model], step[model], by_code[model][codes], powers[model][codes]
        return first[model], step[model], *from_logs(_log_densities(evidence, rows, s))

    return tables


def _logs(
    initial: Floats, transition: Floats, evidence: Evidence, runs: Runs
) -> Callable[[int], tuple[Floats, Floats, Floats]]:
    """Return a function of a run: logarithms of initial, transition and its evidence ``(length, n)``."""
    first, step = safe_log(np.asarray(initial, np.float64)), safe_log(np.asarray(transition, np.float64))
    if isinstance(evidence, Symbols):
        by_code = np.ascontiguousarray(safe_log(np.asarray(evidence.probability, np.float64)).swapaxes(1, 2))

    def tables(s: int) -> tuple[Floats, Floats, Floats]:
        model, rows = runs.model[s], slice(int(runs.start[s]), int(runs.start[s] + runs.length[s]))
        if isinstance(evidence, Symbols):
            return first[model], step[model], by_code[model][evidence.codes[rows]]
        return first[model], step[model], _log_densities(evidence, rows, s)

    return tables


def _log_densities(evidence: Densities, rows: slice, s: int) -> Floats:
    """Return log densities of one run, or raise for NaN or +inf, which the scaled recursions report as unsound."""
    table = np.require(evidence.log_density[rows], np.float64, ["C", "W"])
    if not np.all(table < np.inf):
        raise ValueError(
            f"A log density of sequence {s} is NaN or +inf, so its probability is undefined. Check the data and the "
            "parameters for NaN, and for variances of zero."
        )
    return table


def _redo(work: Callable[[int], None], done: Floats, runs: Runs, n: int) -> None:
    """Process the runs that are not done, one by one."""
    left = np.flatnonzero(~done & (runs.length > 0))
    share(work, left.tolist(), float(runs.length[left].sum()) * n * n * 2e-8)
