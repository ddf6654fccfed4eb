"""Probabilities of series under switching systems: sums over all regime paths, or particle filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices, Mask, logsumexp
from mercer._random import random_generator
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains, explore
from mercer.models._switching.selection import best, unbiased

__all__ = ["FEW", "METHODS", "few_paths", "log_likelihoods", "numbers_of_paths", "picked_runs"]

METHODS = ("auto", "exact", "particles")
FEW = 1024
"""Number of regime paths that are summed without being asked for."""
_MOST = 2**18
_FILTERS = 8
"""Independent filters, whose spread gives a standard error."""


def numbers_of_paths(n_regimes: Any, lengths: Any) -> Floats:
    """Return the numbers of regime paths of series, as float; infinite for long ones."""
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(n_regimes, float) ** np.asarray(lengths, float))


def few_paths(numbers: Floats) -> Mask:
    """Whether series have so few regime paths that they are all summed."""
    return numbers <= FEW


def picked_runs(runs: Runs, which: Indices) -> Runs:
    """Return some runs."""
    return Runs(*(np.asarray(part)[which] for part in runs))


def log_likelihoods(
    chains: Chains, n_regimes: Indices, x: Floats, runs: Runs, method: str, n_particles: int, random_state: Any
) -> tuple[Floats, Floats]:
    """Return the log probability of every run and its standard error, ``(S,)``."""
    numbers = numbers_of_paths(n_regimes[runs.model], runs.length)
    exact = np.zeros(len(numbers), bool) if method == "particles" else few_paths(numbers)
    if method == "exact":
        exact[:] = True
        if len(numbers) and numbers.max() > _MOST:
            s = int(numbers.argmax())
            raise ValueError(
                f"A series of {int(runs.length[s])} observations has {numbers[s]:.3g} regime paths, too many to sum "
                "over. Use method='particles'."
            )
    found, errors = np.zeros(len(numbers)), np.zeros(len(numbers))
    for count in np.unique(numbers[exact]):
        which = np.flatnonzero(exact & (numbers == count))
        some = explore(chains, x, picked_runs(runs, which), int(count), best(chains.regimes))
        found[which] = logsumexp(some.log_weight, axis=1)
    rest = np.flatnonzero(~exact)
    if len(rest):
        several = picked_runs(runs, np.repeat(rest, _FILTERS))
        longest = int(np.asarray(several.length).max(initial=0))
        uniform = random_generator(random_state).random((longest, _FILTERS))
        select = unbiased(uniform, np.tile(np.arange(_FILTERS), len(rest)))
        logs = logsumexp(explore(chains, x, several, n_particles, select).log_weight, axis=1).reshape(-1, _FILTERS)
        found[rest] = logsumexp(logs, axis=1) - np.log(_FILTERS)
        ratios = np.exp(logs - found[rest, None])
        errors[rest] = ratios.std(axis=1, ddof=1) / np.sqrt(_FILTERS)
    return found, errors
