"""Common parts of categorical and multinomial distributions: points of the probability simplex."""

from __future__ import annotations

from typing import ClassVar, Self

from mercer._array import Array, Floats, identity, inner_logs, logsumexp, namespace, safe_log, xlogx
from mercer._verdict import Verdict
from mercer.families._gaps import jensen_gap
from mercer.families.base import ExponentialFamily
from mercer.families.characteristic import averages, log_power


class Simplex(ExponentialFamily):
    """Probabilities of k outcomes, compared as the distribution of ``trials`` independent draws."""

    _arrays: ClassVar[dict[str, int]] = {"probability": 1}
    tile_hint = 512
    dual_verdict = Verdict("always", "the Jensen-Shannon divergence is CND (Fuglede and Topsoe; DJS-5)")

    probability: Array

    @property
    def n_draws(self) -> int:
        """Number of independent draws that make one observation."""
        return 1

    def dense(self) -> Self:
        """Return the same distributions with dense probabilities."""
        return self

    @property
    def dimension(self) -> int:
        """Number of outcomes."""
        return int(self.probability.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: one less than outcomes."""
        return self.dimension - 1

    # -- the exponential family ------------------------------------------------------------------------

    @property
    def natural_parameters(self) -> Array:
        """Log probabilities; -inf where an outcome is impossible."""
        return safe_log(self.dense().probability)

    def log_partition(self, theta: Array) -> Array:
        """Return s log sum exp(theta)."""
        return self.n_draws * logsumexp(theta, axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Expected counts s a."""
        return self.n_draws * self.dense().probability

    def dual(self, mu: Array) -> Array:
        """Return sum mu log(mu / s), finite on the boundary (DJS-4)."""
        s = self.n_draws
        return namespace(mu).sum(s * xlogx(mu / s), axis=-1)

    _least_divergence = 1e-24

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

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        alphabet = getattr(self, "alphabet", None)
        outcomes = range(self.dimension) if alphabet is None else alphabet.symbols
        return [f"probability[{outcome}]" for outcome in outcomes]

    def fisher_information(self) -> Array:
        """Information of the logits, s (diag a - a a') (FK-3)."""
        p = self.dense().probability
        eye = identity(p, self.dimension)
        return self.n_draws * (p[..., :, None] * eye - p[..., :, None] * p[..., None, :])
