"""EM of factorial hidden Markov models: of vectors, exact or by structured mean field, and of symbols (PPK-6.1)."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer._probability import normalized, shared_out
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.joint import ByChain, joint_states
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Densities, Expectations, Runs, expectations

LOG_2PI = float(np.log(2 * np.pi))


def log_density(away: Floats, covariance: Floats) -> Floats:
    """Log density of a centered Gaussian, ``(..., d) -> (...)``."""
    root = np.linalg.cholesky(covariance)
    scaled = away @ np.linalg.inv(root).T
    constant = len(covariance) * LOG_2PI + 2 * np.log(np.diag(root)).sum()
    return np.asarray(-(np.einsum("...d,...d->...", scaled, scaled) + constant) / 2)


class Patterns:
    """Observations ``(T, d)``, grouped by their missing coordinates."""

    def __init__(self, x: Floats) -> None:
        self.x = x
        missing = np.isnan(x)
        if missing.any():
            unseen, kind = np.unique(missing, axis=0, return_inverse=True)
            self.seen: Mask = ~unseen
            self.kind: Indices = kind.reshape(-1)
            self.filled = np.where(missing, 0.0, x)
        else:
            self.seen, self.kind, self.filled = np.ones((1, x.shape[1]), dtype=bool), np.zeros(len(x), dtype=int), x

    @property
    def n_kinds(self) -> int:
        """Number of different patterns."""
        return len(self.seen)

    @cached_property
    def rows(self) -> list[Indices]:
        """Observations with each pattern."""
        if self.n_kinds == 1:
            return [np.arange(len(self.x))]
        return [np.flatnonzero(self.kind == k) for k in range(self.n_kinds)]

    def precisions(self, covariance: Floats) -> Floats:
        """Inverses of the covariances of what is seen in each pattern, zero elsewhere, ``(K, d, d)``."""
        found = np.zeros((self.n_kinds, *covariance.shape))
        for k, seen in enumerate(self.seen):
            at = np.ix_(seen, seen)
            found[k][at] = np.linalg.inv(covariance[at])
        return found

    def residual_logs(self, away: Floats, covariance: Floats) -> Floats:
        """Log densities of residuals ``(T, d)`` in the coordinates that are seen, ``(T,)``."""
        logs = np.zeros(len(away))
        for rows, seen in zip(self.rows, self.seen, strict=True):
            logs[rows] = log_density(away[rows][:, seen], covariance[np.ix_(seen, seen)])
        return logs


class CompletedMoments(NamedTuple):
    """Expected sums over observations: eta x' ``(C n, d)``, eta eta' ``(C n, C n)`` and x x' ``(d, d)``."""

    crossed: Floats
    states: Floats
    squares: Floats


def completed(patterns: Patterns, mean: Floats, covariance: Floats, eta: Floats, pairs: Floats) -> CompletedMoments:
    """Return expected sums, with missing coordinates replaced by their expectations given the rest and the states.

    Parameters
    ----------
    patterns : Patterns
        The observations.
    mean, covariance : array of shape (C n, d) and (d, d)
        Effects of all states, and the noise.
    eta : array of shape (T, C n)
        Posteriors of the states.
    pairs : array of shape (K, C n, C n)
        Sums of the posteriors of pairs of states over the observations of each pattern.
    """
    d = len(covariance)
    crossed, squares = np.zeros((eta.shape[1], d)), np.zeros((d, d))
    for rows, seen, own in zip(patterns.rows, patterns.seen, pairs, strict=True):
        x, states = patterns.filled[rows], eta[rows]
        if seen.all():
            crossed += states.T @ x
            squares += x.T @ x
            continue
        o, m = np.flatnonzero(seen), np.flatnonzero(~seen)
        gain = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, m)]).T
        given, spread = np.zeros((d, d)), np.zeros((d, d))  # missing = gain x + given (effects) + noise
        given[np.ix_(m, m)], given[np.ix_(m, o)] = np.eye(len(m)), -gain
        spread[np.ix_(m, m)] = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
        x = x.copy()
        x[:, m] = x[:, o] @ gain.T
        effects = mean @ given.T
        cross = states.T @ x
        crossed += cross + own @ effects
        both = cross.T @ effects
        squares += x.T @ x + both + both.T + effects.T @ own @ effects + len(rows) * spread
    return CompletedMoments(crossed, pairs.sum(axis=0), squares)


INNER = 1e-6
"""Growth of the bound per observation at which sweeps over the chains end."""
SWEEPS = 30
"""Most sweeps over all chains in one iteration."""


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


class TableSums(NamedTuple):
    """Expected statistics: of states and transitions, and of symbols in all joint states."""

    first: Floats
    transitions: Floats
    counts: Floats
    """``(J, k)``."""
    size: float


def plus(sums: Any, other: Any, weight: float) -> Any:
    """Add other statistics, with a weight."""
    return type(sums)(*(a + weight * b for a, b in zip(sums, other, strict=True)))


def joint_expectations(model: Any, emission: Any, x: Any, offsets: Indices) -> Expectations:
    """Return the expectations of the hidden Markov model of all joint states, with emissions of shape ``(1, J)``."""
    chains = zip(model.initial, model.transition, strict=True)
    first, step = reduce(lambda a, b: (np.kron(a[0], b[0]), np.kron(a[1], b[1])), chains)
    evidence = evidence_of(emission, x, np.zeros(len(x), dtype=int))
    return expectations(first[None], step[None], evidence, Runs.shared(offsets), states=True)


class TableParameters(NamedTuple):
    """One model: ``(C, n)``, ``(C, n, n)``, and the probabilities of symbols in all joint states, ``(J, k)``."""

    initial: Floats
    transition: Floats
    probability: Floats

    def exact(self, codes: Indices, offsets: Indices, alphabet: Any) -> tuple[float, TableSums]:
        """Return the log probability and the expected statistics.

        Ambiguity codes count as their symbols, by their probabilities; missing symbols do not count.
        """
        p, sets = self.probability, alphabet.ambiguity
        found = joint_expectations(self, Categoricals(p[None], alphabet), codes, offsets)
        assert found.symbols is not None
        own, coded = ByChain.of(found, *self.initial.shape[::-1]), found.symbols.sum(axis=0)
        k = p.shape[1]
        counts = coded[:, :k] + shared_out(coded[:, k:-1], p @ sets.T, p, sets) if len(sets) else coded[:, :k]
        sums = TableSums(own.first.sum(axis=0), own.transitions.sum(axis=0), counts, float(len(codes)))
        return float(found.log_prob.sum()), sums

    def maximized(self, sums: TableSums) -> TableParameters:
        """Refit a model to expected statistics."""
        return TableParameters(*map(normalized, sums[:3], self))

    def log_prior(self, expected: TableSums, strength: float) -> float:
        """Return the log density of the Dirichlet prior, up to a constant."""
        return strength * sum(map(_log_of, expected[:3], self))

    def prior_sums(self) -> TableSums:
        """Return the prior of a model: one observation in each row of each table (EST-2b)."""
        return TableSums(*self, 1.0)

    def even_sums(self) -> TableSums:
        """Return one observation in each joint state, spread evenly over the symbols."""
        counts = np.full_like(self.probability, 1 / self.probability.shape[1])
        return TableSums(np.zeros_like(self.initial), np.zeros_like(self.transition), counts, 0.0)


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

    def exact(self, x: Floats, offsets: Indices) -> tuple[float, Sums]:
        """Return the log probability and the expected statistics, through all joint states."""
        chains, n = self.initial.shape
        shown, patterns = joint_states(n, chains), Patterns(x)
        means = (shown @ self.effects)[None]
        covariance = np.broadcast_to(self.covariance, (*means.shape, means.shape[-1]))
        found = joint_expectations(self, Gaussians(means, covariance), x, offsets)
        assert found.states is not None
        pairs = np.stack([shown.T @ (found.states[rows].sum(axis=0)[:, None] * shown) for rows in patterns.rows])
        moments = completed(patterns, self.effects, self.covariance, found.states @ shown, pairs)
        own = ByChain.of(found, n, chains)
        sums = Sums(own.first.sum(axis=0), own.transitions.sum(axis=0), *moments, float(len(x)))
        return float(found.log_prob.sum()), sums

    def maximized(self, sums: Sums, floor: Floats) -> Parameters:
        """Refit a model to expected statistics; ``floor`` is added to the variances."""
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


def variational(model: Parameters, x: Floats, offsets: Indices, start: Floats | None) -> tuple[float, Sums, Floats]:
    """Return the structured bound, its expected statistics, and the posteriors of the states ``(T, C, n)``."""
    chains, n = model.initial.shape
    patterns, runs = Patterns(x), Runs.shared(offsets)
    precision = patterns.precisions(model.covariance)
    pulled = np.einsum("cid,kde->kcie", model.mean, precision)
    square = np.einsum("kcid,cid->kci", pulled, model.mean)
    states = np.full((len(x), chains, n), 1 / n) if start is None else start.copy()
    first, steps, energies = np.zeros((chains, n)), np.zeros((chains, n, n)), np.zeros(chains)
    means = np.einsum("tci,cid->tcd", states, model.mean)
    local, before = np.empty((len(x), n)), -np.inf
    for _ in range(SWEEPS):
        for c in range(chains):
            rest = patterns.filled - means.sum(axis=1) + means[:, c]
            for k, rows in enumerate(patterns.rows):
                local[rows] = rest[rows] @ pulled[k, c].T - square[k, c] / 2
            found = expectations(model.initial[c][None], model.transition[c][None], Densities(local), runs, states=True)
            assert found.states is not None
            states[:, c] = found.states
            first[c], steps[c] = found.first.sum(axis=0), found.transitions.sum(axis=0)
            energies[c] = found.log_prob.sum() - (found.states * local).sum()
            means[:, c] = found.states @ model.mean[c]
        logs = patterns.residual_logs(patterns.filled - means.sum(axis=1), model.covariance)
        spread = 0.0
        for k, rows in enumerate(patterns.rows):
            spread += np.einsum("tci,ci->", states[rows], square[k])
            spread -= np.einsum("tcd,de,tce->", means[rows], precision[k], means[rows])
        bound = float(energies.sum() + logs.sum() - spread / 2)
        if bound - before <= INNER * len(x):
            break
        before = bound
    flat = states.reshape(len(x), -1)
    pairs = np.stack([_independent(flat[rows], chains, n) for rows in patterns.rows])
    moments = completed(patterns, model.effects, model.covariance, flat, pairs)
    return bound, Sums(first, steps, *moments, float(len(x))), states


def _independent(flat: Floats, chains: int, n: int) -> Floats:
    """Sum posteriors of pairs of states ``(C n, C n)`` of independent chains."""
    pairs = flat.T @ flat
    for c in range(chains):
        own = slice(c * n, (c + 1) * n)
        pairs[own, own] = np.diag(flat[:, own].sum(axis=0))
    return pairs
