"""The objective of mixtures: a mixture is the emission of an HMM with a single state, whose points have no order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import DensityStep
from mercer.models._forward.interface import Densities, Expectations
from mercer.models.mixture import Mixtures


class MixtureGoal(NamedTuple):
    """The objective: the log density of weighted points plus a log prior (EST-2b)."""

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
