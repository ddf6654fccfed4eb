"""Expectation maximization of switching systems over sets of regime paths.

The E-step takes the posterior over the most probable regime paths of a series in place of all paths: the best ones that
a beam search finds and those of the iteration before. Given a path, states are smoothed exactly. The sum over the set
is a lower bound of the probability of the series, which never decreases; it is the probability where all paths fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, logsumexp
from mercer._probability import normalized
from mercer.models._dynamics.em import NOISES, Averages, Found, LDSGoal, Regression, floor_term
from mercer.models._dynamics.runs import systems_of
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import Chains, best, chains_of, explore, numbers_of_paths
from mercer.models._switching.moments import SwitchingMoments, path_moments, weights_along
from mercer.models.lds import LDSs
from mercer.models.switching import SwitchingLDSs

__all__ = ["OBSERVED", "PathData", "Prior", "SwitchingGoal"]

_NEGLIGIBLE = 1e-6
"""Posterior probability below which a path is left out."""


class Prior(NamedTuple):
    """The prior of the models: a chain of regimes, and the expectations of each regime for one step."""

    initial: Floats
    """``(K,)``."""
    transition: Floats
    """``(K, K)``."""
    expected: Averages
    """Of K systems."""


@dataclass(frozen=True)
class PathData(Data):
    """Series with the regime paths of the last E-step, ``(M, T)``, in a list of one."""

    kept: list[Indices] = field(default_factory=list)

    def some(self, which: Indices) -> PathData:
        """Return the sequences of the models ``which``, ascending."""
        part = super().some(which)
        inside = np.flatnonzero(np.isin(self.owner, which))
        return PathData(part.x, part.offsets, part.model, part.size, None, [paths[:, inside] for paths in self.kept])


OBSERVED = ("emission", "observation_offset", "observation_covariance")
"""Parameters that regimes may share."""


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
    shared: bool
    """Whether all regimes of a model have the same emission and noise of the observations."""
    n_paths: int
    fixed: list[dict[str, Floats]]
    """Values of parameters of each regime that are not learned; NaN entries are."""

    # -- the E-step --------------------------------------------------------------------------------------

    def chains(self, models: SwitchingLDSs) -> Chains:
        """Return the models, with what the floors, as variances of single steps, take off at every step."""
        plain, (n, k) = chains_of(models), models.initial.shape
        bonus = {
            name: np.zeros((n, k)) for name in ("initial_covariance", "process_covariance", "observation_covariance")
        }
        for name, floor in zip(NOISES, self.system.floors, strict=True):
            for j in range(k):
                if name not in self.fixed[j] and np.any(floor > 0):
                    bonus[name][:, j] = -floor_term(floor, getattr(plain.systems, name)[j::k])
        return plain._replace(bonus=np.stack(list(bonus.values())))

    def expect(self, models: SwitchingLDSs, data: Data) -> tuple[Found, SwitchingMoments]:
        """Return the objective of each series without the prior, and expectations that `maximize` needs."""
        assert isinstance(data, PathData)
        chains = self.chains(models)
        paths, weights = self._best_paths(chains, data)
        log_prob = np.asarray(logsumexp(weights, axis=1))
        share = np.exp(weights - log_prob[:, None])
        share = np.where(share > _NEGLIGIBLE, share, 0.0)
        share /= share.sum(axis=1, keepdims=True)
        return Found(log_prob, np.empty((len(share), 0))), path_moments(chains, data, paths, share)

    def _best_paths(self, chains: Chains, data: PathData) -> tuple[Indices, Floats]:
        """Return the best regime paths, ``(M, T)``, and their log weights, ``(S, M)``; they are kept."""
        most = max(self.n_paths, chains.regimes)
        found = explore(chains, data.x, data.runs, most, best(chains.regimes), paths=True)
        assert found.regimes is not None
        paths, weights = found.regimes, found.log_weight
        lengths = np.diff(data.offsets)
        if data.kept and np.any(numbers_of_paths(chains.regimes, lengths) > most):
            old = data.kept[0]
            size = len(lengths)
            every = Runs(*(np.tile(np.asarray(part), most) for part in data.runs))
            before = weights_along(chains, data.x, every, old, np.repeat(np.arange(most), size))
            before = before.reshape(most, size).T
            marks = [_marks(layers, data) for layers in (paths, old)]  # equal for equal paths
            known = (marks[1][:, :, None] == marks[0][:, None, :]).any(axis=2)
            known |= np.tril(marks[1][:, :, None] == marks[1][:, None, :], -1).any(axis=2)
            both = np.concatenate([weights, np.where(known, -np.inf, before)], axis=1)
            order = np.argsort(-both, axis=1, kind="stable")[:, :most]
            weights = np.take_along_axis(both, order, axis=1)
            layer = np.repeat(order.T, lengths, axis=1)  # (M, T)
            paths = np.take_along_axis(np.concatenate([paths, old]), layer, axis=0)
        data.kept[:] = [paths]
        return paths, weights

    # -- the M-step --------------------------------------------------------------------------------------

    def _goal(self, n: int, regime: int) -> LDSGoal:
        """Return the objective of the systems of one regime of n models."""
        expected = self.prior.expected
        prior: Averages = _taken(expected, np.full(n, regime))
        if self.shared:  # the prior of the observations is that of the first regime
            first: Averages = _taken(expected, np.zeros(n, int))
            seen = {name: getattr(first.systems, name) for name in OBSERVED}
            prior = prior._replace(systems=prior.systems._replace(**seen), observation=first.observation)
        return self.system._replace(prior=prior, strength=self.strength, fixed=self.fixed[regime])

    def admitted(self, models: SwitchingLDSs) -> SwitchingLDSs:
        """Return models with the structure of the noise, shared and fixed parameters, to start from."""
        n, k = models.initial.shape
        systems = models.systems
        if self.shared:
            first = systems[:, np.zeros(k, int)]
            systems = systems._replaced(**{name: getattr(first, name) for name in OBSERVED})
        parts = [self._goal(n, j).admitted(systems[:, j]) for j in range(k)]
        return models._replaced(systems=_side_by_side(parts))

    def maximize(self, models: SwitchingLDSs, data: Data, found: Any, memory: SwitchingMoments) -> SwitchingLDSs:
        """Refit the models to the expectations."""
        n, k = models.initial.shape
        own = memory.memory
        if self.shared:  # all regimes have the same regression, so that they learn the same
            sums = (part.reshape(n, k, *part.shape[1:]).sum(axis=1) for part in own.observation)
            own = own._replace(observation=Regression(*(np.repeat(part, k, axis=0) for part in sums)))
        parts = [
            self._goal(n, j).maximize(models.systems[:, j], data, found, _taken(own, np.arange(n) * k + j))
            for j in range(k)
        ]
        initial = normalized(memory.first + self.strength * self.prior.initial, models.initial)
        moves = normalized(memory.moves + self.strength * self.prior.transition, models.transition)
        return SwitchingLDSs._make(
            initial=initial, transition=moves, n_regimes=models.n_regimes, systems=_side_by_side(parts)
        )

    def log_prior(self, models: SwitchingLDSs) -> Floats:
        """Log prior of each model, up to a constant."""
        n, k = models.initial.shape
        total = np.zeros(n)
        for j in range(k):
            goal, own = self._goal(n, j), systems_of(models.systems[:, j])
            which = ["state", "first"] if self.shared and j else ["state", "first", "observation"]
            total += sum(goal.log_prior_of(part, own) for part in which)
        for weight, value in ((self.prior.initial, models.initial), (self.prior.transition, models.transition)):
            logs = np.log(np.where(weight > 0, np.maximum(value, 1e-300), 1.0))
            total += self.strength * (weight * logs).reshape(n, -1).sum(axis=1)
        return total


def _side_by_side(parts: list[LDSs]) -> LDSs:
    """Join the systems of all regimes, ``(N,)`` each, to ``(N, K)``."""
    return LDSs._make(**{name: np.stack([getattr(part, name) for part in parts], axis=1) for name in LDSs._arrays})


def _marks(paths: Indices, data: Data) -> Indices:
    """Return a number for every path of every series, ``(S, M)``, that is the same for equal paths."""
    place = np.arange(paths.shape[1]) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    random = np.random.default_rng(0).integers(1, 2**62, int(place.max(initial=0)) + 1, dtype=np.uint64)
    terms = (paths.astype(np.uint64) + np.uint64(1)) * (random[place] | np.uint64(1))
    sums = np.concatenate([np.zeros((len(paths), 1), np.uint64), np.cumsum(terms, axis=1, dtype=np.uint64)], axis=1)
    return np.asarray(sums[:, data.offsets[1:]] - sums[:, data.offsets[:-1]]).T
