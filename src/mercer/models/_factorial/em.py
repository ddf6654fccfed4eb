"""Expectation maximization of factorial hidden Markov models, exact or by structured mean field (PPK-6.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import normalized
from mercer.models._forward.interface import Densities, Runs, expectations

INNER = 1e-6
"""Growth of the bound per observation at which sweeps over the chains end."""
SWEEPS = 30
"""Most sweeps over all chains in one iteration."""
LOG_2PI = float(np.log(2 * np.pi))


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


def joint_states(n: int, chains: int) -> Floats:
    """Return indicators of the states of all chains in each joint state, ``(n^C, C n)``."""
    at = np.indices((n,) * chains).reshape(chains, -1)
    found = np.zeros((at.shape[1], chains * n))
    for c in range(chains):
        found[np.arange(len(found)), c * n + at[c]] = 1.0
    return found


def exact(model: Parameters, x: Floats, offsets: Indices) -> tuple[float, Sums]:
    """Return the log probability and the expected statistics, through all joint states."""
    chains, n = model.initial.shape
    initial, transition = model.initial[0], model.transition[0]
    for c in range(1, chains):
        initial, transition = np.kron(initial, model.initial[c]), np.kron(transition, model.transition[c])
    shown = joint_states(n, chains)
    means = shown @ model.mean.reshape(chains * n, -1)
    logs = _log_density(x[:, None] - means, model.covariance)
    found = expectations(initial[None], transition[None], Densities(logs), Runs.shared(offsets), states=True)
    assert found.states is not None
    first, steps = np.zeros((chains, n)), np.zeros((chains, n, n))
    whole = found.transitions.sum(axis=0)
    for c in range(chains):
        own = shown[:, c * n : (c + 1) * n]
        first[c], steps[c] = found.first.sum(axis=0) @ own, own.T @ whole @ own
    crossed = shown.T @ (found.states.T @ x)
    states = shown.T @ (found.states.sum(axis=0)[:, None] * shown)
    return float(found.log_prob.sum()), Sums(first, steps, crossed, states, x.T @ x, float(len(x)))


def variational(model: Parameters, x: Floats, offsets: Indices, start: Floats | None) -> tuple[float, Sums, Floats]:
    """Return the structured bound, its expected statistics, and the posteriors of the states ``(T, C, n)``."""
    chains, n = model.initial.shape
    precision = np.linalg.inv(model.covariance)
    runs = Runs.shared(offsets)
    pulled = model.mean @ precision  # (C, n, d)
    square = np.einsum("cid,cid->ci", pulled, model.mean)
    states = np.full((len(x), chains, n), 1 / n) if start is None else start.copy()
    first, steps, energies = np.zeros((chains, n)), np.zeros((chains, n, n)), np.zeros(chains)
    means = np.einsum("tci,cid->tcd", states, model.mean)
    before = -np.inf
    for _ in range(SWEEPS):
        for c in range(chains):
            rest = x - means.sum(axis=1) + means[:, c]
            local = rest @ pulled[c].T - square[c] / 2
            found = expectations(model.initial[c][None], model.transition[c][None], Densities(local), runs, states=True)
            assert found.states is not None
            states[:, c] = found.states
            first[c], steps[c] = found.first.sum(axis=0), found.transitions.sum(axis=0)
            energies[c] = found.log_prob.sum() - (found.states * local).sum()
            means[:, c] = found.states @ model.mean[c]
        logs = _log_density(x - means.sum(axis=1), model.covariance)
        spread = np.einsum("tci,ci->", states, square) - np.einsum("tcd,de,tce->", means, precision, means)
        bound = float(energies.sum() + logs.sum() - spread / 2)
        if bound - before <= INNER * len(x):
            break
        before = bound
    flat = states.reshape(len(x), -1)
    pairs = flat.T @ flat
    for c in range(chains):
        own = slice(c * n, (c + 1) * n)
        pairs[own, own] = np.diag(flat[:, own].sum(axis=0))
    return bound, Sums(first, steps, flat.T @ x, pairs, x.T @ x, float(len(x))), states


def _log_density(away: Floats, covariance: Floats) -> Floats:
    """Log density of a centered Gaussian, ``(..., d) -> (...)``."""
    root = np.linalg.cholesky(covariance)
    scaled = away @ np.linalg.inv(root).T
    constant = len(covariance) * LOG_2PI + 2 * np.log(np.diag(root)).sum()
    return np.asarray(-((scaled**2).sum(axis=-1) + constant) / 2)


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
    """Return what the floor subtracts from the objective."""
    return float(count * (np.diag(np.linalg.inv(model.covariance)) @ floor) / 2)


def log_prior(model: Parameters, expected: Sums, strength: float) -> float:
    """Return the expected log probability of ``strength`` observations of the prior, up to a constant."""
    precision = np.linalg.inv(model.covariance)
    mean = model.mean.reshape(-1, model.mean.shape[-1])
    explained = mean.T @ expected.crossed
    residual = expected.squares - explained - explained.T + mean.T @ expected.states @ mean
    _, log_det = np.linalg.slogdet(model.covariance)
    value = -(np.sum(precision * residual) + expected.size * log_det) / 2
    for counts, p in ((expected.first, model.initial), (expected.transitions, model.transition)):
        seen = counts > 0
        value += float(np.sum(counts[seen] * np.log(np.maximum(p[seen], 1e-300))))
    return float(strength * value)
