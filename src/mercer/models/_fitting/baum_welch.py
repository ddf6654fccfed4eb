"""The objective of HMMs and the steps of Baum-Welch (EST-2), optionally with a prior (EST-2b)."""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer._array import Floats, to_numpy
from mercer._probability import normalized
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import EmissionStep, expected_log
from mercer.models._forward.interface import Densities, Expectations, expectations
from mercer.models.hmm import HMMs


class HMMGoal(NamedTuple):
    """The objective: the log probability of the sequences plus a log prior."""

    emission: EmissionStep
    prior: HMMs | None
    """HMMs of shape (1,)."""
    strength: float
    """Weight of the prior, in observations."""

    def log_prior(self, models: HMMs) -> Floats:
        """Log prior of each model, up to a constant: n0 E_prior[log p] for each row and each emission."""
        value = self.emission.log_prior(models.emission)
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
        return HMMs._make(
            initial=normalized(first, to_numpy(models.initial)),
            transition=normalized(step, to_numpy(models.transition)),
            n_states=models.n_states,
            emission=self.emission.maximize(models.emission, data, found, memory),
        )
