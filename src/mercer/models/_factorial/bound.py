"""Structured mean field of factorial hidden Markov models: each chain keeps its own Markov chain (PPK-6.1).

The bound of the kernel of two models, and that of the probability of data under one, which takes the place of the
second model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import FieldOperand, power
from mercer.families.gaussian import Gaussians
from mercer.models._forward.interface import Densities, Expectations, Runs, expectations

TOLERANCE = 1e-9
"""Sweeps over a pair of models, or over a sequence, end if its bound grows by no more than this."""
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
        field = Field.of_pairs(p, q, self.rho, self.length)
        best = np.full(len(p), -np.inf)
        for k in range(self.n_init):
            rng = None if k == 0 else np.random.default_rng([self.seed, k])
            best = np.maximum(best, field.maximize(field.start(rng)).bound)
        return best


@dataclass
class _Chain:
    """One chain of P pairs or sequences, or of one model for all of them. Axes along which all is equal have size 1."""

    initial: Floats
    """Powers of probabilities, ``(P, n)``."""
    transition: Floats
    """Powers of probabilities, ``(P, n, n)``."""
    effect: Floats
    """Signed effects u, ``(P, n, d)``."""
    pull: Floats
    """u' B, ``(L, P, n, d)``."""
    square: Floats
    """u' B u, ``(L, P, n)``."""

    @classmethod
    def of(cls, initial: Floats, transition: Floats, effect: Floats, precision: Floats) -> _Chain:
        """Multiply the effects by the precisions."""
        pull = np.einsum("pid,lpde->lpie", effect, precision)
        return cls(initial, transition, effect, pull, np.einsum("lpie,pie->lpi", pull, effect))


class Maximum(NamedTuple):
    """What sweeps over the chains of P pairs or sequences reached."""

    bound: Floats
    """``(P,)``."""
    posteriors: list[Floats]
    """Of each chain, ``(L, P, n)``; zero after the end of a sequence."""
    first: list[Floats]
    """Of each chain, the posteriors of the first states, ``(P, n)``."""
    transitions: list[Floats]
    """Of each chain, expected numbers of transitions, ``(P, n, n)``."""


@dataclass
class Field:
    """Chains that are independent of each other, and depend on each other's means.

    Their bound is that of the integral, or the value, of exp(-rho/2 v' B v) at each time, where v is the sum of the
    signed effects of the states of all chains, and of a fixed vector.
    """

    chains: list[_Chain]
    fixed: Floats
    """A vector for each time, ``(L, P, d)``."""
    precision: Floats
    """B of each time, ``(L, P, d, d)``."""
    constant: Floats
    """Logarithm of the factor that does not depend on the states, ``(P,)``."""
    rho: float
    lengths: Indices
    """Number of times, ``(P,)``."""

    @classmethod
    def of_pairs(cls, p: ChainBound, q: ChainBound, rho: float, length: int) -> Field:
        """Return the field of the kernel of aligned pairs of models: B = (R + R')^-1."""
        precision = np.linalg.inv(p.covariance + q.covariance)[None]
        zero = np.zeros((len(p), 1, p.mean.shape[-1]))
        left, right = Gaussians(zero, p.covariance[:, None]), Gaussians(zero, q.covariance[:, None])
        constant = length * np.asarray(left.log_product(right, rho=rho))[:, 0, 0]
        chains = []
        for side, sign in ((p, 1.0), (q, -1.0)):
            for c in range(side.initial.shape[1]):
                powers = power(side.initial[:, c], rho), power(side.transition[:, c], rho)
                chains.append(_Chain.of(*powers, sign * side.mean[:, c], precision))
        fixed = np.zeros((length, len(p), p.mean.shape[-1]))
        return cls(chains, fixed, precision, constant, rho, np.full(len(p), length))

    @classmethod
    def of_data(
        cls, initial: Floats, transition: Floats, mean: Floats, covariance: Floats, x: Floats, offsets: Indices
    ) -> Field:
        """Return the field of sequences under one model: B = R^-1, of the coordinates that were observed."""
        lengths = np.diff(offsets)
        inside = np.arange(lengths.max(initial=0))[:, None] < lengths
        padded = np.full((*inside.shape, x.shape[-1]), np.nan)
        padded.swapaxes(0, 1)[inside.T] = x
        kinds, kind = np.unique(np.isnan(padded).reshape(-1, x.shape[-1]), axis=0, return_inverse=True)
        precisions, constants = np.zeros((len(kinds), *covariance.shape)), np.zeros(len(kinds))
        for k, missing in enumerate(kinds):
            seen = np.flatnonzero(~missing)
            own = covariance[np.ix_(seen, seen)]
            precisions[k][np.ix_(seen, seen)] = np.linalg.inv(own)
            constants[k] = -(len(seen) * np.log(2 * np.pi) + np.linalg.slogdet(own)[1]) / 2
        kind = kind.reshape(inside.shape)
        constant = constants[kind].sum(axis=0)
        same = not np.isnan(x).any()  # what is padded does not matter
        precision = np.linalg.inv(covariance)[None, None] if same else precisions[kind]
        parts = zip(initial[:, None], transition[:, None], mean[:, None], strict=True)
        chains = [_Chain.of(*part, precision) for part in parts]
        return cls(chains, -np.nan_to_num(padded), precision, constant, 1.0, lengths)

    def start(self, rng: np.random.Generator | None) -> list[Floats]:
        """Return the posteriors of all chains without observations, or with random ones."""
        found = []
        for chain in self.chains:
            n = chain.initial.shape[-1]
            local = np.zeros((len(self.fixed), len(self.lengths), n))
            if rng is not None:
                local += 2 * rng.standard_normal((len(self.fixed), 1, n))  # the same start for every pair
            found.append(self._smoothed(chain, local)[0])
        return found

    def maximize(self, posteriors: list[Floats], sweeps: int | None = None) -> Maximum:
        """Sweep over the chains until no bound grows; each update is the best for its chain."""
        posteriors = list(posteriors)
        means = [self._mean(s, c) for s, c in zip(posteriors, self.chains, strict=True)]
        found, grows = np.full(len(self.constant), -np.inf), np.ones(len(self.constant), dtype=bool)
        for _ in range(SWEEPS if sweeps is None else sweeps):
            total: Any = sum(means) + self.fixed
            last, energies = [], []
            for k, chain in enumerate(self.chains):
                others = total - means[k]
                local = -self.rho * (np.einsum("lpie,lpe->lpi", chain.pull, others) + chain.square / 2)
                posteriors[k], expected = self._smoothed(chain, local)
                energies.append(expected.log_prob - np.einsum("lpi,lpi->p", posteriors[k], local))
                last.append(expected)
                means[k] = self._mean(posteriors[k], chain)
                total = others + means[k]
            bound = sum(energies) + self.constant - self.rho / 2 * self._spread(posteriors, means, total)
            increase = bound - found
            found = np.where(grows, bound, found)  # a pair ends where it would end without the others
            grows &= increase > TOLERANCE
            if not grows.any():
                break
        return Maximum(found, posteriors, [e.first for e in last], [e.transitions for e in last])

    def rows(self, values: Floats) -> Floats:
        """Return values of all times ``(L, P, n)`` as those of sequences that follow each other, ``(T, n)``."""
        return np.concatenate([values[:length, i] for i, length in enumerate(self.lengths)])

    def _smoothed(self, chain: _Chain, local: Floats) -> tuple[Floats, Expectations]:
        """Return posteriors and expectations of one chain with log potentials ``(L, P, n)``."""
        length, count, n = local.shape
        model = np.arange(count) if len(chain.initial) > 1 else np.zeros(count, dtype=int)
        runs = Runs(np.arange(count) * length, self.lengths, model)
        evidence = Densities(np.ascontiguousarray(local.swapaxes(0, 1)).reshape(-1, n))
        found = expectations(chain.initial, chain.transition, evidence, runs, states=True)
        assert found.states is not None
        return found.states.reshape(count, length, n).swapaxes(0, 1), found

    def _mean(self, states: Floats, chain: _Chain) -> Floats:
        return np.einsum("lpi,pid->lpd", states, chain.effect)

    def _spread(self, posteriors: list[Floats], means: list[Floats], total: Floats) -> Floats:
        spread = self._form(total)
        for chain, states, mean in zip(self.chains, posteriors, means, strict=True):
            spread = spread + np.einsum("lpi,lpi->p", states, chain.square) - self._form(mean)
        return spread

    def _form(self, vector: Floats) -> Floats:
        return np.einsum("lpd,lpd->p", vector, np.einsum("lpde,lpe->lpd", self.precision, vector))
