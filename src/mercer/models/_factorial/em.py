"""EM of factorial hidden Markov models with additive Gaussians, exact or by structured mean field (PPK-6.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import normalized
from mercer.models._factorial.joint import Joint, expected_joint, joint_states
from mercer.models._factorial.missing import GaussianEvidence, Patterns, completed
from mercer.models._forward.interface import Densities, Runs, expectations

INNER = 1e-6
"""Growth of the bound per observation at which sweeps over the chains end."""
SWEEPS = 30
"""Most sweeps over all chains in one iteration."""


class Parameters(NamedTuple):
    """One model: ``(C, n)``, ``(C, n, n)``, ``(C, n, d)`` and ``(d, d)``."""

    initial: Floats
    transition: Floats
    mean: Floats
    covariance: Floats


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
        parts: list[Any] = [a + weight * b for a, b in zip(list[Any](self), list[Any](other), strict=True)]
        return Sums(*parts)

    def per_observation(self) -> Sums:
        """Return averages over the observations."""
        parts: list[Any] = [part / self.size for part in self]
        return Sums(*parts)


def exact(model: Parameters, x: Floats, offsets: Indices) -> tuple[float, Sums]:
    """Return the log probability and the expected statistics, through all joint states."""
    evidence = GaussianEvidence(model.mean, model.covariance, x)
    found = expected_joint(model.initial, model.transition, evidence, offsets)
    return float(found.log_prob.sum()), sums_of(model, evidence, found, found.kinds[0])


def sums_of(model: Parameters, patterns: Patterns, found: Joint, kinds: Floats) -> Sums:
    """Return the expected statistics of posteriors, where ``kinds (K, J)`` are sums over each pattern."""
    chains, n, d = model.mean.shape
    shown = joint_states(n, chains)
    pairs = np.stack([shown.T @ (row[:, None] * shown) for row in kinds])
    eta = found.states.reshape(-1, chains * n)
    moments = completed(patterns, model.mean.reshape(-1, d), model.covariance, eta, pairs)
    return Sums(found.first.sum(axis=0), found.transitions.sum(axis=0), *moments, float(len(eta)))


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
    moments = completed(patterns, model.mean.reshape(chains * n, -1), model.covariance, flat, pairs)
    return bound, Sums(first, steps, *moments, float(len(x))), states


def _independent(flat: Floats, chains: int, n: int) -> Floats:
    """Sum posteriors of pairs of states ``(C n, C n)`` of independent chains."""
    pairs = flat.T @ flat
    for c in range(chains):
        own = slice(c * n, (c + 1) * n)
        pairs[own, own] = np.diag(flat[:, own].sum(axis=0))
    return pairs


def maximized(sums: Sums, old: Parameters, floor: Floats) -> Parameters:
    """Refit a model to expected statistics; ``floor`` is added to the variances."""
    chains, n = old.initial.shape
    # One state per chain is redundant: the least squares solution of smallest norm.
    mean = np.linalg.pinv(sums.states, rcond=1e-10, hermitian=True) @ sums.crossed
    explained = mean.T @ sums.crossed
    covariance = (sums.squares - explained - explained.T + mean.T @ sums.states @ mean) / sums.size
    covariance = (covariance + covariance.T) / 2 + np.diag(floor)
    return Parameters(
        normalized(sums.first, old.initial),
        normalized(sums.transitions, old.transition),
        mean.reshape(chains, n, -1),
        covariance,
    )


def penalty(model: Parameters, count: float, floor: Floats) -> float:
    """Return the penalty of the floor on the objective."""
    return float(count * (np.diag(np.linalg.inv(model.covariance)) @ floor) / 2)


def log_prior(model: Parameters, expected: Sums, strength: float) -> float:
    """Return the expected log probability of ``strength`` observations of the prior, up to a constant."""
    precision = np.linalg.inv(model.covariance)
    mean = model.mean.reshape(-1, model.mean.shape[-1])
    explained = mean.T @ expected.crossed
    residual = expected.squares - explained - explained.T + mean.T @ expected.states @ mean
    _, log_det = np.linalg.slogdet(model.covariance)
    value = -(np.sum(precision * residual) + expected.size * log_det) / 2
    value += log_of(expected.first, model.initial) + log_of(expected.transitions, model.transition)
    return float(strength * value)


def log_of(counts: Floats, p: Floats) -> float:
    """Return the log probability of counts, up to a constant."""
    seen = counts > 0
    return float(np.sum(counts[seen] * np.log(np.maximum(p[seen], 1e-300))))


def prior_sums(model: Parameters) -> Sums:
    """Return the expectations of a given model for one observation, if all states are equally probable."""
    chains, n = model.initial.shape
    states = np.full((chains * n, chains * n), 1 / n**2)
    for c in range(chains):
        states[c * n : (c + 1) * n, c * n : (c + 1) * n] = np.eye(n) / n
    mean = model.mean.reshape(chains * n, -1)
    squares = mean.T @ states @ mean + model.covariance
    return Sums(model.initial, model.transition, states @ mean, states, squares, 1.0)
