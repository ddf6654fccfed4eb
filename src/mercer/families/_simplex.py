"""Common parts of categorical and multinomial distributions: points of the probability simplex."""

from __future__ import annotations

from typing import Any, Self

from mercer._array import Array, Floats, identity, inner_logs, namespace, safe_log, xlogx
from mercer._verdict import Verdict
from mercer.families._gaps import jensen_gap
from mercer.families.base import Parameter
from mercer.families.characteristic import averages, log_power
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.sets import simplex
from mercer.families.special import logsumexp


class Simplex(ExponentialFamily):
    """Probabilities of k outcomes, compared as the distribution of ``n_draws`` independent draws."""

    probability: Any = Parameter(simplex)
    labels = ("probability",)
    tile_hint = 512
    dual_verdict = Verdict("always", "the Jensen-Shannon divergence is CND (Fuglede and Topsoe; DJS-5)")
    _least_divergence = 1e-24

    @property
    def n_draws(self) -> int:
        """Number of independent draws that make one observation."""
        return 1

    def dense(self) -> Self:
        """Return the same distributions with dense probabilities."""
        return self

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: one less than outcomes."""
        return self.dimension - 1

    def natural(self) -> Array:
        return safe_log(self.dense().probability)

    def from_natural(self, theta: Array) -> Array:
        return namespace(theta).exp(theta - logsumexp(theta)[..., None])

    def partition(self, theta: Array) -> Array:
        return self.n_draws * logsumexp(theta)

    def moments(self) -> Array:
        return self.n_draws * self.dense().probability

    def from_moments(self, mu: Array) -> Array:
        return mu / self.n_draws

    def legendre(self, mu: Array) -> Array:
        return namespace(mu).sum(self.n_draws * xlogx(mu / self.n_draws), axis=-1)

    def information(self) -> Array:
        p = self.dense().probability
        return self.n_draws * (p[..., :, None] * identity(p, self.dimension) - p[..., :, None] * p[..., None, :])

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        alphabet = getattr(self, "alphabet", None)
        outcomes = range(self.dimension) if alphabet is None else alphabet.symbols
        return [f"probability[{outcome}]" for outcome in outcomes]

    # -- speed: products of matrices, and one outcome at a time ----------------------------------------------

    def dual_divergence(self, other: Self) -> Array:
        """Return s times the Jensen-Shannon divergence of the probabilities (DJS-2)."""
        self._check_pair(other)
        p, q = self.probability, other.probability
        # One column at a time: planes of pairs instead of an array of pairs by outcomes. Every term is positive, so
        # that distributions which are nearly equal have a divergence with all its digits.
        value = sum(jensen_gap(p[..., :, None, i], q[..., None, :, i]) for i in range(self.dimension))
        return self.n_draws * namespace(value).clip(value, 0.0, None)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence; +inf where p has an outcome that q lacks."""
        self._check_pair(other)
        p, q = self.dense().probability, other.dense().probability
        own = namespace(p).sum(xlogx(p), axis=-1)[..., :, None]
        return self.n_draws * (own - inner_logs(p, safe_log(q)))

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>), x the counts, at every row w of ``frequencies (F, k)``.

        Each is ``(*B, F)``; the count vector of one draw is one-hot.
        """
        return log_power(*averages(self.probability, frequencies), self.n_draws)
