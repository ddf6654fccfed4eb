"""The objectives of HMMs and mixtures, and the steps of EM (EST-2), optionally with a prior (EST-2b)."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Floats, Mask, to_numpy
from mercer._batch import Batch
from mercer._checks import is_number
from mercer._probability import normalized
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import DensityStep, EmissionStep, expected_log
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


# Parts of a hidden Markov model that are not learned, and Dirichlet priors of the probabilities of states.

PARTS = ("initial", "transition")
FIXABLE = (*PARTS, "emission")


def is_fixed(value: Any) -> bool:
    """Whether ``fixed`` names parts of a hidden Markov model."""
    return isinstance(value, dict) and set(value) <= set(FIXABLE)


def is_smoothing(value: Any) -> bool:
    """Whether ``smoothing`` is a number, or names parts of a hidden Markov model."""
    return (is_number(value) and value >= 0) or (isinstance(value, dict) and set(value) <= set(PARTS))


class Limits(NamedTuple):
    """What `HMM` does not learn, and pseudo-counts of what it does."""

    initial: Floats
    """``(n,)``; NaN where it is learned."""
    transition: Floats
    """``(n, n)``; NaN where it is learned."""
    emission: Any
    """A batch of shape (n,), or None."""
    first: Floats
    """Pseudo-counts of initial states, ``(n,)``."""
    steps: Floats
    """Pseudo-counts of transitions, ``(n, n)``."""

    @classmethod
    def of(cls, fixed: Any, smoothing: Any, mask: tuple[Mask, Mask]) -> Self | None:
        """Return the limits of models of n states; None if there are none. Raises if they are impossible."""
        if not fixed and is_number(smoothing) and smoothing == 0:
            return None
        fixed = fixed or {}
        counts = smoothing if isinstance(smoothing, dict) else dict.fromkeys(PARTS, smoothing)
        rows, pseudo = [], []
        for name, allowed in zip(PARTS, mask, strict=True):
            rows.append(_checked_rows(name, fixed.get(name), allowed))
            pseudo.append(_checked_counts(name, counts.get(name, 0.0), allowed))
        return cls(rows[0], rows[1], _checked_emission(fixed.get("emission"), len(mask[0])), *pseudo)

    def applied(self, models: HMMs) -> HMMs:
        """Return models with these parts fixed; the others keep their proportions."""
        emission = models.emission
        if self.emission is not None:
            emission = self.emission.reshape(1, -1)[np.zeros(len(models), dtype=int)]
        return HMMs._make(
            initial=fixed_rows(to_numpy(models.initial), self.initial),
            transition=fixed_rows(to_numpy(models.transition), self.transition),
            n_states=models.n_states,
            emission=emission,
        )


def fixed_rows(p: Floats, fixed: Floats) -> Floats:
    """Put fixed entries into rows of probabilities; the others share the rest in their proportions, or evenly."""
    free = np.isnan(fixed)
    rest = 1.0 - np.where(free, 0.0, fixed).sum(axis=-1, keepdims=True)
    mass = np.where(free, p, 0.0).sum(axis=-1, keepdims=True)
    even = free / np.maximum(free.sum(axis=-1, keepdims=True), 1)
    shares = np.where(mass > 0, np.where(free, p, 0.0) / np.where(mass > 0, mass, 1.0), even)
    return np.where(free, np.maximum(rest, 0.0) * shares, fixed)


def _checked_rows(name: str, value: Any, allowed: Mask) -> Floats:
    """Return fixed probabilities; transitions that the topology does not allow are fixed to zero."""
    if value is None:
        return np.where(allowed, np.nan, 0.0)
    try:
        rows = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"fixed[{name!r}] must be an array of numbers; got {value!r}.") from None
    if rows.shape != allowed.shape:
        raise ValueError(f"fixed[{name!r}] must have shape {allowed.shape}; got shape {rows.shape}.")
    seen = ~np.isnan(rows)
    if np.any(rows[seen] < 0) or np.any(rows[seen] > 1):
        raise ValueError(f"fixed[{name!r}] must be probabilities, or NaN where they are learned; got {value!r}.")
    if np.any(rows[seen & ~allowed] > 0):
        raise ValueError(f"fixed[{name!r}] has a positive probability that the topology does not allow.")
    rows = np.where(allowed, rows, 0.0)
    total, free = np.nansum(rows, axis=-1), np.isnan(rows).any(axis=-1)
    if np.any(total > 1 + 1e-6) or np.any((np.abs(total - 1) > 1e-6) & ~free):
        raise ValueError(
            f"fixed[{name!r}] must have rows that sum to one, or to less with NaN for the rest; got {value!r}."
        )
    return np.where(free[..., None], rows, rows / np.where(total > 0, total, 1.0)[..., None])


def _checked_counts(name: str, value: Any, allowed: Mask) -> Floats:
    """Return pseudo-counts of allowed entries."""
    try:
        counts = np.broadcast_to(np.asarray(value, dtype=float), allowed.shape)
    except (TypeError, ValueError):
        raise ValueError(f"smoothing[{name!r}] must be a number or an array of shape {allowed.shape}.") from None
    if not np.all(np.isfinite(counts)) or np.any(counts < 0):
        raise ValueError(f"smoothing[{name!r}] must be numbers, 0 or more; got {value!r}.")
    return np.where(allowed, counts, 0.0)


def _checked_emission(value: Any, n: int) -> Any:
    if value is None:
        return None
    if not isinstance(value, Batch) or value.shape not in ((n,), (1, n)):
        shown = f"shape {value.shape}" if isinstance(value, Batch) else repr(value)
        raise ValueError(f"fixed['emission'] must be a batch with one member per state, shape ({n},); got {shown}.")
    return value.reshape(-1)
