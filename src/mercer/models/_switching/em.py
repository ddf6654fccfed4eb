"""Expectation maximization of switching systems over sets of regime paths.

The E-step takes the posterior over the best regime paths that a beam search finds in place of all paths. Given a path,
states are smoothed exactly. The sum over the set is a lower bound of the probability of the series; it is the
probability where all paths fit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices, logsumexp
from mercer._native import kalman
from mercer._probability import normalized
from mercer.models._dynamics.em import Counts, Found, LDSGoal, Moments, Regression, moments_of
from mercer.models._dynamics.runs import StateExpectations, records, split_sums, sums_size, systems_of
from mercer.models._fitting.data import Data
from mercer.models._switching.hypotheses import Chains, best, chains_of, explore
from mercer.models.lds import LDSs
from mercer.models.switching import SwitchingLDSs

_NEGLIGIBLE = 1e-6
"""Posterior probability below which a path is left out."""
_BLOCK = 2**20
"""Numbers of the sums of all paths that are smoothed at a time."""
OBSERVED = ("emission", "observation_offset", "observation_covariance")
"""Parameters that all regimes share."""


class Prior(NamedTuple):
    """The prior of the models: a chain of regimes, and the expectations of each regime for one step."""

    initial: Floats
    """``(K,)``."""
    transition: Floats
    """``(K, K)``."""
    expected: Moments
    """Of K systems."""


class SwitchingMoments(NamedTuple):
    """Sums over all paths; regime k of model i has row ``i * K + k``."""

    memory: Moments
    first: Floats
    """Expected numbers of series that begin in each regime, ``(N, K)``."""
    moves: Floats
    """Expected numbers of moves between regimes, ``(N, K, K)``."""


def _taken(parts: Any, which: Indices) -> Any:
    """Return some systems of nested tuples of arrays, whose first axis is that of the systems."""
    if isinstance(parts, tuple):
        return type(parts)(*(_taken(part, which) for part in parts))
    return parts[which]


class SwitchingGoal(NamedTuple):
    """The objective of EM, the log probability plus a log prior, and its two steps."""

    system: LDSGoal
    """The objective of single systems, without a prior."""
    prior: Prior
    strength: float
    n_paths: int

    def chains(self, models: SwitchingLDSs) -> Chains:
        """Return the models, with what the floors, as variances of single steps, take off at every step."""
        plain = chains_of(models)
        process, observation, first = (
            -term.reshape(models.initial.shape) for term in self.system.floor_terms(plain.systems)
        )
        return plain._replace(bonus=np.stack([first, process, observation]))

    def expect(self, models: SwitchingLDSs, data: Data) -> tuple[Found, SwitchingMoments]:
        """Return the objective of each series without the prior, and expectations that `maximize` needs."""
        chains = self.chains(models)
        found = explore(chains, data.x, data.runs, max(self.n_paths, chains.regimes), best(chains.regimes), paths=True)
        assert found.regimes is not None
        log_prob = np.asarray(logsumexp(found.log_weight, axis=1))
        share = np.exp(found.log_weight - log_prob[:, None])
        share = np.where(share > _NEGLIGIBLE, share, 0.0)
        share /= share.sum(axis=1, keepdims=True)
        return Found(log_prob, np.empty((len(share), 0))), path_moments(chains, data, found.regimes, share)

    def _goal(self, n: int, regime: int) -> LDSGoal:
        """Return the objective of the systems of one regime of n models."""
        prior: Moments = _taken(self.prior.expected, np.full(n, regime))
        return self.system._replace(prior=prior, strength=self.strength)

    def admitted(self, models: SwitchingLDSs) -> SwitchingLDSs:
        """Return models with the structure of the noise and shared parameters, to start from."""
        n, k = models.initial.shape
        first = models.systems[:, np.zeros(k, int)]
        systems = models.systems._replaced(**{name: getattr(first, name) for name in OBSERVED})
        return models._replaced(systems=_side_by_side([self._goal(n, j).admitted(systems[:, j]) for j in range(k)]))

    def maximize(self, models: SwitchingLDSs, data: Data, found: Any, memory: SwitchingMoments) -> SwitchingLDSs:
        """Refit the models to the expectations."""
        n, k = models.initial.shape
        # All regimes have the same regression of the observations, so that they learn the same.
        sums = (part.reshape(n, k, *part.shape[1:]).sum(axis=1) for part in memory.memory.observation)
        own = memory.memory._replace(observation=Regression(*(np.repeat(part, k, axis=0) for part in sums)))
        parts = [
            self._goal(n, j).maximize(models.systems[:, j], data, found, _taken(own, np.arange(n) * k + j))
            for j in range(k)
        ]
        return models._replaced(
            initial=normalized(memory.first + self.strength * self.prior.initial, models.initial),
            transition=normalized(memory.moves + self.strength * self.prior.transition, models.transition),
            systems=_side_by_side(parts),
        )

    def log_prior(self, models: SwitchingLDSs) -> Floats:
        """Log prior of each model, up to a constant."""
        n, k = models.initial.shape
        total = np.zeros(n)
        for j in range(k):
            goal, own = self._goal(n, j), systems_of(models.systems[:, j])
            which = ["state", "first"] if j else ["state", "first", "observation"]
            total += sum(goal.log_prior_of(part, own) for part in which)
        for weight, value in ((self.prior.initial, models.initial), (self.prior.transition, models.transition)):
            logs = np.log(np.where(weight > 0, np.maximum(value, 1e-300), 1.0))
            total += self.strength * (weight * logs).reshape(n, -1).sum(axis=1)
        return total


def _side_by_side(parts: list[LDSs]) -> LDSs:
    """Join the systems of all regimes, ``(N,)`` each, to ``(N, K)``."""
    return LDSs._make(**{name: np.stack([getattr(part, name) for part in parts], axis=1) for name in LDSs._arrays})


# Expected statistics along given paths.


def path_moments(chains: Chains, data: Data, paths: Indices, share: Floats) -> SwitchingMoments:
    """Return the expectations given regime paths, ``(M, T)``, with the probabilities ``(S, M)``."""
    k, (n, d), count = chains.regimes, chains.systems.size, len(chains.systems.transition)
    series, layer = np.nonzero(share)
    block = np.arange(len(series)) * k * sums_size(n, d) // _BLOCK
    found: Any = StateExpectations(np.empty(0), *np.zeros(8))
    counts, moves = Counts(*np.zeros((3, count))), np.zeros((count, k))
    for which in np.split(np.arange(len(series)), np.flatnonzero(np.diff(block)) + 1):
        weight = share[series[which], layer[which]]
        part = _along_paths(chains, data, paths, series[which], layer[which], weight)
        found = StateExpectations(found.log_prob, *map(np.add, found[1:], part[0][1:]))
        counts, moves = Counts(*map(np.add, counts, part[1])), moves + part[2]
    first = counts.series.reshape(-1, k)
    return SwitchingMoments(moments_of(chains.systems, found, counts), first, moves.reshape(-1, k, k))


def _along_paths(
    chains: Chains, data: Data, paths: Indices, series: Indices, layer: Indices, weight: Floats
) -> tuple[StateExpectations, Counts, Floats]:
    """Sum the gradients and moments of paths of series for every system, weighted, as `expected` does (FK-10).

    ``series``, ``layer`` and ``weight`` are the series, the row of ``paths`` and the weight of each of S paths. The
    last result are the numbers of moves from every system to the regimes of its model, ``(N K, K)``.
    """
    k, (n, d), count = chains.regimes, chains.systems.size, len(chains.systems.transition)
    starts, lengths, models = (np.asarray(part)[series] for part in data.runs)
    # All steps of all paths, one path after the other.
    begin, run = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(run)) - begin[run]
    point = starts[run] + place
    system = models[run] * k + paths[layer[run], point].astype(np.int64)
    sums, gradients = np.zeros((len(series) * k, sums_size(n, d))), np.empty((len(series), n + n * n))
    kalman.infer(
        chains.systems, data.x, (starts, lengths, np.append(system, 0)[begin]), np.argsort(-lengths, kind="stable"),
        by_model=False, block=max(min(int(lengths.max(initial=0)), records(chains.systems)), 1),
        log_prob=np.empty(len(series)), path=(system, begin), regimes=k, sums=sums, gradients=gradients,
    )  # fmt: skip
    some, first = np.flatnonzero(lengths), place == 0
    slope, curve = gradients[some, :n], gradients[some, n:].reshape(-1, n, n)

    def total(system: Indices, weights: Floats, values: Floats) -> Floats:
        matrix = sparse.csr_array((weights, (system, np.arange(len(system)))), shape=(count, len(system)))
        flat = values.reshape(len(system), math.prod(values.shape[1:]))
        return np.asarray(matrix @ flat).reshape(count, *values.shape[1:])

    def number(which: Any) -> Floats:
        return np.bincount(system[which], weight[run[which]], count).astype(float)  # integers, if none

    regime = (models[:, None] * k + np.arange(k)).reshape(-1)
    parts = split_sums(n, d, total(regime, np.repeat(weight, k), sums))
    starting = (
        total(system[first], weight[some], part) for part in (slope, slope[:, :, None] * slope[:, None, :] - curve)
    )
    seen = np.isfinite(data.x[point]).any(axis=1)
    moves = np.bincount((np.roll(system, 1) * k + system % k)[~first], weight[run[~first]], count * k)
    counts = Counts(number(~first), number(seen), number(first))
    return StateExpectations(np.empty(0), *parts, *starting), counts, moves.reshape(count, k)
