"""The objectives of HMMs and mixtures, and the steps of EM (EST-2), optionally with a prior (EST-2b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._probability import normalized
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import DensityStep, EmissionStep, expected_log
from mercer.models._fitting.limits import Limits
from mercer.models._forward.interface import Densities, Expectations, expectations
from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixtures


class HMMGoal(NamedTuple):
    """The objective: the log probability of the sequences plus a log prior."""

    emission: EmissionStep
    prior: HMMs | None
    """HMMs of shape (1,)."""
    strength: float
    """Weight of the prior, in observations."""
    limits: Limits | None = None
    """Parts that are not learned, and pseudo-counts."""

    def log_prior(self, models: HMMs) -> Floats:
        """Log prior of each model, up to a constant: n0 E_prior[log p] for each row and each emission."""
        value = self.emission.log_prior(models.emission)
        if self.limits is not None:
            value = value + expected_log(self.limits.first, to_numpy(models.initial))
            value = value + expected_log(self.limits.steps, to_numpy(models.transition)).sum(axis=-1)
        if self.prior is None:
            return value
        first = expected_log(to_numpy(self.prior.initial), to_numpy(models.initial))
        step = expected_log(to_numpy(self.prior.transition), to_numpy(models.transition)).sum(axis=-1)
        return value + self.strength * (first + step)

    def expect(self, models: HMMs, data: Data) -> tuple[Expectations, Any]:
        """Return the expected visits and transitions of each sequence, and data that `maximize` needs."""
        evidence, memory = self.emission.evidence(models.emission, data)
        initial, transition = to_numpy(models.initial), to_numpy(models.transition)
        return expectations(initial, transition, evidence, data.runs, states=isinstance(evidence, Densities)), memory

    def maximize(self, models: HMMs, data: Data, found: Expectations, memory: Any) -> HMMs:
        """Refit to expected counts; rows of unvisited states keep their values, or get those of the prior."""
        ends = data.sequence_offsets
        first, step = segment_sum(found.first, ends), segment_sum(found.transitions, ends)
        if self.prior is not None:
            first = first + self.strength * to_numpy(self.prior.initial)
            step = step + self.strength * to_numpy(self.prior.transition)
        limits = self.limits
        if limits is not None:
            first, step = first + limits.first, step + limits.steps
        emission = models.emission
        if limits is None or limits.emission is None:
            emission = self.emission.maximize(emission, data, found, memory)
        fitted = HMMs._make(
            initial=normalized(first, to_numpy(models.initial)),
            transition=normalized(step, to_numpy(models.transition)),
            n_states=models.n_states,
            emission=emission,
        )
        return fitted if limits is None else limits.applied(fitted)


class MixtureGoal(NamedTuple):
    """The log density of weighted points plus a log prior (EST-2b): an HMM of one state, whose points have no order."""

    step: DensityStep

    def log_prior(self, mixtures: Mixtures) -> Floats:
        """Log prior of each mixture, up to a constant: n0 E_prior[log p(x, component)] (DJS-6)."""
        return self.step.log_prior(mixtures.reshape(-1, 1))

    def expect(self, mixtures: Mixtures, data: Data) -> tuple[Expectations, Any]:
        """Return the log density of each sample, and the posteriors of the components at each point."""
        evidence, memory = self.step.evidence(mixtures.reshape(-1, 1), data)
        assert isinstance(evidence, Densities)
        weights = np.ones(len(data.owner)) if data.weights is None else data.weights
        ends = data.point_offsets
        # A point of weight zero contributes nothing, even if its density is zero.
        terms = np.where(weights > 0, weights * np.where(weights > 0, evidence.log_density[:, 0], 0.0), 0.0)
        nothing = np.empty((data.size, 0))
        found = Expectations(
            log_prob=segment_sum(terms, ends),
            first=nothing,
            transitions=nothing,
            visits=segment_sum(weights[:, None] * memory[:, 0], ends),
            states=weights[:, None],
            symbols=None,
        )
        return found, memory

    def maximize(self, mixtures: Mixtures, data: Data, found: Expectations, memory: Any) -> Mixtures:
        """Refit weights and components to the points, weighted by the posteriors."""
        fitted: Mixtures = self.step.maximize(mixtures.reshape(-1, 1), data, found, memory).reshape(-1)
        return fitted
