"""Baum-Welch for many models at once (EST-2), shrunk to a prior where there is one (EST-2b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.families._estimator import segment_sum
from mercer.models._fitting.emission_steps import Data, EmissionStep, expected_log, shares_of
from mercer.models._forward.interface import Expectations, expectations
from mercer.models.hmm import HMMs

__all__ = ["Climbed", "Collapsed", "Goal", "Impossible", "better_of", "climb"]

UNVISITED = 1e-8
"""Expected visits below which nobody visits a state."""


class Impossible(Exception):
    """A sequence has probability zero where the climb starts: its position, and that of its model."""


class Collapsed(Exception):
    """A model has no density any more, such as a Gaussian without variance: its position, and what is wrong."""


class Goal(NamedTuple):
    """What is maximised: the log probability of the sequences plus a log prior."""

    emission: EmissionStep
    prior: HMMs | None
    """Of shape (1,)."""
    strength: float
    """Weight of the prior, in observations."""

    def log_prior(self, models: HMMs) -> Floats:
        """Log prior of every model, up to a constant: n0 E_prior[log p] of every row and of every emission."""
        value = self.emission.log_prior(models.emission)
        if self.prior is None:
            return value
        first = expected_log(to_numpy(self.prior.initial), to_numpy(models.initial))
        step = expected_log(to_numpy(self.prior.transition), to_numpy(models.transition)).sum(axis=-1)
        return value + self.strength * (first + step)

    def expect(self, models: HMMs, data: Data) -> tuple[Expectations, Any]:
        """Return expected visits and transitions of every sequence, and what the emissions remember."""
        evidence, memory = self.emission.evidence(models.emission, data)
        states = memory is not None or not hasattr(evidence, "codes")
        initial, transition = to_numpy(models.initial), to_numpy(models.transition)
        return expectations(initial, transition, evidence, data.runs, states=states), memory

    def maximise(self, models: HMMs, data: Data, found: Expectations, memory: Any) -> HMMs:
        """Fit again to expected counts; rows that nobody visits stay what they were, or what the prior says."""
        ends = data.sequence_offsets
        first, step = segment_sum(found.first, ends), segment_sum(found.transitions, ends)
        if self.prior is not None:
            first = first + self.strength * to_numpy(self.prior.initial)
            step = step + self.strength * to_numpy(self.prior.transition)
        return HMMs._make(
            initial=shares_of(first, to_numpy(models.initial)),
            transition=shares_of(step, to_numpy(models.transition)),
            n_states=models.n_states,
            emission=self.emission.maximise(models.emission, data, found, memory),
        )


class Climbed(NamedTuple):
    """Where several climbs ended."""

    models: HMMs
    objective: Floats
    steps: Floats
    """Iterations of every model."""
    converged: Floats
    visits: Floats
    """Expected visits of every state in the last iteration, ``(N, n)``."""


def climb(goal: Goal, data: Data, models: HMMs, n_iter: int, tol: float) -> Climbed:
    """Iterate until the objective of every model grows by ``tol`` per observation at most.

    A model that has converged leaves, so that its fit does not depend on its neighbours. Raises `Impossible` where a
    sequence has probability zero under its start.
    """
    n = data.size
    objective, steps = np.full(n, -np.inf), np.zeros(n, dtype=int)
    converged, visits = np.zeros(n, dtype=bool), np.zeros((n, models.initial.shape[-1]))
    finished, places, active = [], [], np.arange(n)
    length = np.diff(data.point_offsets)
    for iteration in range(1, n_iter + 1):
        try:
            found, memory = goal.expect(models, data)
        except ValueError as error:
            place, reason = _first_collapsed(goal, models, data, error)
            raise Collapsed(int(active[place]), reason) from None
        if not np.isfinite(found.log_prob).all():
            sequence = int(np.flatnonzero(~np.isfinite(found.log_prob))[0])
            raise Impossible(sequence, int(active[data.model[sequence]]))
        ends = data.sequence_offsets
        reached = segment_sum(found.log_prob, ends) + goal.log_prior(models)
        gained = reached - objective[active]
        objective[active], steps[active] = reached, iteration
        visits[active] = segment_sum(found.visits, ends)
        models = goal.maximise(models, data, found, memory)
        done = gained <= tol * length
        converged[active] = done
        if iteration == n_iter:
            done[:] = True
        if done.any():
            finished.append(models[np.flatnonzero(done)])
            places.append(active[done])
            kept = np.flatnonzero(~done)
            if len(kept) == 0:
                break
            active, length, models, data = active[kept], length[kept], models[kept], data.some(kept)
    joined = HMMs.concat(finished)
    if len(finished) > 1:
        joined = joined[np.argsort(np.concatenate(places))]
    return Climbed(joined, objective, steps, converged, visits)


def _first_collapsed(goal: Goal, models: HMMs, data: Data, error: ValueError) -> tuple[int, str]:
    """Find the first model that has no density, and what is wrong with it alone."""
    for i in range(data.size):
        try:
            goal.expect(models[i : i + 1], data.some(np.array([i])))
        except ValueError as alone:
            return i, str(alone)
    return 0, str(error)


def better_of(best: Climbed, other: Climbed) -> Climbed:
    """Keep the higher of two climbs for every model."""
    better = other.objective > best.objective
    if not better.any():
        return best
    rows = np.arange(len(better)) + np.where(better, len(better), 0)
    fields = [
        np.where(better.reshape(-1, *(1,) * (mine.ndim - 1)), theirs, mine)
        for mine, theirs in zip(best[1:], other[1:], strict=True)
    ]
    return Climbed(HMMs.concat([best.models, other.models])[rows], *fields)
