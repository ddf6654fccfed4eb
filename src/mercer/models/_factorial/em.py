"""EM of factorial hidden Markov models: expected statistics, exact or by mean field, and the refit to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import normalized
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.bound import Field
from mercer.models._factorial.joint import ByChain, joint_states
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Runs, expectations

MOST_SWEEPS = 20
"""Most sweeps over all chains in one E-step."""


class Sums(NamedTuple):
    """Expected statistics: of states and transitions, of observations with states, and of pairs of states."""

    first: Floats
    transitions: Floats
    crossed: Floats
    """Sum of eta x', ``(C n, d)``, with eta the indicators of all states."""
    states: Floats
    """Sum of eta eta', ``(C n, C n)``."""
    squares: Floats
    """Sum of x x', ``(d, d)``."""
    size: float

    def plus(self, other: Sums, weight: float) -> Sums:
        """Add other statistics, with a weight."""
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(a + weight * b for a, b in pairs))


class MeanFieldStep(NamedTuple):
    """The result of an E-step by mean field."""

    bound: float
    """Lower bound of the log probability."""
    sums: Sums
    posteriors: list[Floats]
    """Of each chain, where the next step starts."""


class Parameters(NamedTuple):
    """One model: ``(C, n)``, ``(C, n, n)``, ``(C, n, d)`` and ``(d, d)``."""

    initial: Floats
    transition: Floats
    mean: Floats
    covariance: Floats

    @property
    def effects(self) -> Floats:
        """Effects of all states, ``(C n, d)``."""
        return self.mean.reshape(-1, self.mean.shape[-1])

    def expect(self, x: Floats, offsets: Indices) -> tuple[float, Sums]:
        """Return the log probability and the expected statistics, from the posteriors of all joint states."""
        chains, n = self.initial.shape
        shown = joint_states(n, chains)
        means, covariance = shown @ self.effects, self.covariance
        covariances = np.broadcast_to(covariance, (1, len(means), *covariance.shape))
        chain = zip(self.initial, self.transition, strict=True)
        initial, step = reduce(lambda a, b: (np.kron(a[0], b[0]), np.kron(a[1], b[1])), chain)
        evidence = evidence_of(Gaussians(means[None], covariances), x, np.zeros(len(x), dtype=int))
        found = expectations(initial[None], step[None], evidence, Runs.shared(offsets), states=True)
        assert found.states is not None
        by_chain = ByChain.of(found, n, chains)

        def pairs(rows: Indices) -> Floats:
            assert found.states is not None
            return np.asarray(shown.T @ (found.states[rows].sum(axis=0)[:, None] * shown))

        sums = self.completed(x, found.states @ shown, pairs)
        first, steps = by_chain.first.sum(axis=0), by_chain.transitions.sum(axis=0)
        return float(found.log_prob.sum()), sums._replace(first=first, transitions=steps)

    def expect_mean_field(self, x: Floats, offsets: Indices, guess: list[Floats] | None) -> MeanFieldStep:
        """Return a lower bound of the log probability, the statistics that the chains expect, and the posteriors.

        The posteriors are independent between chains. Continued from those of the last step, the bound never decreases.
        """
        chains, n = self.initial.shape
        field = Field.of_data(self.initial, self.transition, self.mean, self.covariance, x, offsets)
        found = field.maximize(field.start(None) if guess is None else guess, MOST_SWEEPS)
        states = np.concatenate([field.rows(part) for part in found.posteriors], axis=1)
        inside = np.kron(np.eye(chains, dtype=bool), np.ones((n, n), dtype=bool))

        def pairs(rows: Indices) -> Floats:
            own = states[rows]
            return np.where(inside, np.diag(own.sum(axis=0)), own.T @ own)

        sums = self.completed(x, states, pairs)
        first, steps = (np.stack([part.sum(axis=0) for part in parts]) for parts in (found.first, found.transitions))
        sums = sums._replace(first=first, transitions=steps)
        return MeanFieldStep(float(found.bound.sum()), sums, found.posteriors)

    def completed(self, x: Floats, states: Floats, pairs: Callable[[Indices], Floats]) -> Sums:
        """Return the statistics of observations with posteriors ``states (T, C n)`` of the states of all chains.

        A missing coordinate is replaced by its expectation given the states and the other coordinates. ``pairs(rows)``
        returns the expected number of times that two states occur together, ``(C n, C n)``.
        """
        effects, covariance = self.effects, self.covariance
        crossed, together = np.zeros_like(effects), np.zeros((len(effects), len(effects)))
        squares = np.zeros_like(covariance)
        kinds, kind = np.unique(np.isnan(x), axis=0, return_inverse=True)
        for k, missing in enumerate(kinds):
            rows, seen = np.flatnonzero(kind.reshape(-1) == k), np.flatnonzero(~missing)
            # E[x | states] = gain (what is seen) + the effects of the states on given, with the covariance spread
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen]).T
            gain[seen] = np.eye(len(seen))
            given, spread = effects - effects[:, seen] @ gain.T, covariance - gain @ covariance[seen]
            y, count = x[np.ix_(rows, seen)] @ gain.T, pairs(rows)
            own, more = states[rows].T @ y, count @ given
            both = own.T @ given
            crossed += own + more
            squares += y.T @ y + both + both.T + given.T @ more + len(rows) * spread
            together += count
        nothing = np.zeros_like(self.initial), np.zeros_like(self.transition)
        return Sums(*nothing, crossed, together, squares, float(len(x)))

    def maximized(self, sums: Sums, floor: Floats) -> Parameters:
        """Refit a model to expected statistics; ``floor`` is added to the variances."""
        if sums.size <= 0:
            return self
        # One state per chain is redundant: the least squares solution of smallest norm.
        mean = np.linalg.pinv(sums.states, rcond=1e-10, hermitian=True) @ sums.crossed
        covariance = _residual(mean, sums) / sums.size
        covariance = (covariance + covariance.T) / 2 + np.diag(floor)
        first, steps = normalized(sums.first, self.initial), normalized(sums.transitions, self.transition)
        return Parameters(first, steps, mean.reshape(self.mean.shape), covariance)

    def penalty(self, count: float, floor: Floats) -> float:
        """Return the penalty of the floor on the objective."""
        return float(count * (np.diag(np.linalg.inv(self.covariance)) @ floor) / 2)

    def log_prior(self, expected: Sums, strength: float) -> float:
        """Return the expected log probability of ``strength`` observations of the prior, up to a constant."""
        _, log_det = np.linalg.slogdet(self.covariance)
        value = -np.sum(np.linalg.inv(self.covariance) * _residual(self.effects, expected)) / 2
        value -= expected.size * log_det / 2
        return float(strength * (value + sum(map(_log_of, expected[:2], self))))

    def prior_sums(self) -> Sums:
        """Return the expectations of a given model for one observation, if all states are equally probable."""
        chains, n = self.initial.shape
        states = np.full((chains * n, chains * n), 1 / n**2)
        for c in range(chains):
            states[c * n : (c + 1) * n, c * n : (c + 1) * n] = np.eye(n) / n
        squares = self.effects.T @ states @ self.effects + self.covariance
        return Sums(self.initial, self.transition, states @ self.effects, states, squares, 1.0)


def _residual(mean: Floats, sums: Sums) -> Floats:
    """Sum of squares of what the effects of the states leave, ``(d, d)``."""
    explained = mean.T @ sums.crossed
    return np.asarray(sums.squares - explained - explained.T + mean.T @ sums.states @ mean)


def _log_of(counts: Floats, p: Floats) -> float:
    """Return the log probability of counts, up to a constant."""
    seen = counts > 0
    return float(np.sum(counts[seen] * np.log(np.maximum(p[seen], 1e-300))))
