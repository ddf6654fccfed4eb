"""Structured mean field bounds of factorial hidden Markov models: each chain keeps its own Markov chain (PPK-6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats, safe_log
from mercer._coupling import FieldOperand, power
from mercer.families.gaussian import Gaussians

TOLERANCE = 1e-9
"""Sweeps over a pair end if its bound grows by no more than this."""
SWEEPS = 500
"""Most sweeps over all chains."""


@dataclass
class ChainBound(FieldOperand):
    """A batch of factorial hidden Markov models whose probability products are bounded from below."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("rho", "length", "n_init", "seed")

    initial: Floats
    transition: Floats
    mean: Floats
    covariance: Floats
    rho: float
    length: int
    n_init: int
    seed: int
    tile_hint: ClassVar[int] = 32

    def pair(self, other: Self) -> Floats:
        """Compute the log bounds of all pairs, ``(I, J)``."""
        rows, columns = np.indices((len(self), len(other))).reshape(2, -1)
        return self._bounds(self[rows], other[columns]).reshape(len(self), len(other))

    def alone(self) -> Floats:
        """Compute the log bound of each member with itself."""
        return self._bounds(self, self)

    def _bounds(self, p: Self, q: Self) -> Floats:
        """Compute the log bounds of aligned pairs, the best of several starts."""
        field = _Field.of(p, q, self.rho, self.length)
        best = np.full(len(p), -np.inf)
        for k in range(self.n_init):
            rng = None if k == 0 else np.random.default_rng([self.seed, k])
            best = np.maximum(best, field.maximize(rng))
        return best


@dataclass
class _Chain:
    """One chain of every pair: powers of its probabilities, and its signed effects ``u (P, n, d)``."""

    initial: Floats
    transition: Floats
    effect: Floats
    square: Floats
    """u' B u, ``(P, n)``."""


@dataclass
class _Field:
    chains: list[_Chain]
    precision: Floats
    """B = (R + R')^-1 of every pair, ``(P, d, d)``."""
    constant: Floats
    """Log kernel of the noises, ``(P,)``."""
    rho: float
    length: int

    @classmethod
    def of(cls, p: ChainBound, q: ChainBound, rho: float, length: int) -> _Field:
        precision = np.linalg.inv(p.covariance + q.covariance)
        zero = np.zeros((len(p), 1, p.mean.shape[-1]))
        left, right = Gaussians(zero, p.covariance[:, None]), Gaussians(zero, q.covariance[:, None])
        constant = np.asarray(left.log_product(right, rho=rho))[:, 0, 0]
        chains = []
        for side, sign in ((p, 1.0), (q, -1.0)):
            for c in range(side.initial.shape[1]):
                effect = sign * side.mean[:, c]
                square = np.einsum("pid,pde,pie->pi", effect, precision, effect)
                powers = power(side.initial[:, c], rho), power(side.transition[:, c], rho)
                chains.append(_Chain(*powers, effect, square))
        return cls(chains, precision, constant, rho, length)

    def maximize(self, rng: np.random.Generator | None) -> Floats:
        """Sweep over the chains until no bound grows; each update is the best for its chain."""
        posteriors: list[Floats] = []
        energies: list[Floats] = []
        for chain in self.chains:
            count, n = chain.initial.shape
            local = np.zeros((self.length, count, n))
            if rng is not None:
                local += 2 * rng.standard_normal((self.length, 1, n))  # the same start for every pair
            states, log_z = smoothed(chain.initial, chain.transition, local)
            posteriors.append(states)
            energies.append(log_z - np.einsum("lpi,lpi->p", states, local))
        found, grows = np.full(len(self.constant), -np.inf), np.ones(len(self.constant), dtype=bool)
        for _ in range(SWEEPS):
            means = [np.einsum("lpi,pid->lpd", s, c.effect) for s, c in zip(posteriors, self.chains, strict=True)]
            total: Any = sum(means)
            for k, chain in enumerate(self.chains):
                others = total - means[k]
                pull = np.einsum("pid,pde,lpe->lpi", chain.effect, self.precision, others)
                local = -self.rho * (pull + chain.square / 2)
                posteriors[k], log_z = smoothed(chain.initial, chain.transition, local)
                energies[k] = log_z - np.einsum("lpi,lpi->p", posteriors[k], local)
                means[k] = np.einsum("lpi,pid->lpd", posteriors[k], chain.effect)
                total = others + means[k]
            bound = self._bound(posteriors, energies, means, total)
            increase = bound - found
            found = np.where(grows, bound, found)  # a pair ends where it would end without the others
            grows &= increase > TOLERANCE
            if not grows.any():
                break
        return found

    def _bound(self, posteriors: list[Floats], energies: list[Floats], means: list[Floats], total: Any) -> Floats:
        spread = self._form(total)
        for chain, states, mean in zip(self.chains, posteriors, means, strict=True):
            spread = spread + np.einsum("lpi,pi->p", states, chain.square) - self._form(mean)
        return np.asarray(sum(energies) + self.length * self.constant - self.rho / 2 * spread)

    def _form(self, vector: Floats) -> Floats:
        return np.einsum("lpd,pde,lpe->p", vector, self.precision, vector)


def smoothed(initial: Floats, transition: Floats, local: Floats) -> tuple[Floats, Floats]:
    """Return posteriors ``(L, P, n)`` and log normalizers ``(P,)`` of chains with log potentials ``(L, P, n)``."""
    length = len(local)
    top = local.max(axis=-1, keepdims=True)
    weight = np.exp(local - top)
    log_z = top.sum(axis=(0, 2))
    forward, scales = np.empty_like(local), np.empty((length, local.shape[1], 1))
    state = initial * weight[0]
    for t in range(length):
        if t:
            state = (forward[t - 1][:, None, :] @ transition)[:, 0] * weight[t]
        scales[t] = state.sum(axis=-1, keepdims=True)
        forward[t] = state / np.where(scales[t] > 0, scales[t], 1.0)
    log_z = log_z + safe_log(scales).sum(axis=(0, 2))
    posterior = np.empty_like(local)
    backward = np.ones_like(initial)
    for t in reversed(range(length)):
        joint = forward[t] * backward
        posterior[t] = joint / np.maximum(joint.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        if t:
            backward = (transition @ (weight[t] * backward)[..., None])[..., 0] / scales[t]
    return posterior, log_z
