"""What categorical and multinomial distributions share: points of the probability simplex."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, identity, logsumexp, namespace, safe_log, to_numpy, xlogx
from mercer._verdict import Verdict
from mercer.families._characteristic import averages, log_power
from mercer.families._family import ExponentialFamily


class Simplex(ExponentialFamily):
    """Probabilities of k outcomes, compared as the law of ``trials`` independent draws."""

    _arrays: ClassVar[dict[str, int]] = {"probability": 1}
    tile_hint = 512

    probability: Array

    @property
    def _draws(self) -> int:
        return 1

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
        return safe_log(self.probability)

    def log_partition(self, theta: Array) -> Array:
        """Return s log sum exp(theta)."""
        return self._draws * logsumexp(theta, axis=-1)

    @property
    def mean_parameters(self) -> Array:
        """Expected counts s a."""
        return self._draws * self.probability

    def dual(self, mu: Array) -> Array:
        """Return sum mu log(mu / s), finite on the boundary (DJS-4)."""
        s = self._draws
        return namespace(mu).sum(s * xlogx(mu / s), axis=-1)

    def multiplied(self, other: Self) -> tuple[Array, Self]:
        """Return log c and the law g of p q = c g, member by member; of one draw alone is it such a law."""
        self._check_alike(other)
        if self._draws > 1:
            raise ValueError(
                f"products of multinomial laws of {self._draws} trials are no multinomial laws: give trials=1, or the "
                "kernel rho=1 or power='joint'"
            )
        logs = safe_log(self.probability) + safe_log(other.probability)
        xp, total = namespace(logs), logsumexp(logs, axis=-1)
        possible = (total > -xp.inf)[..., None]
        p = xp.exp(logs - xp.where(possible, total[..., None], xp.zeros_like(logs[..., :1])))
        p = xp.where(possible, p, self.probability)  # c = 0: any law will do
        return total, self._make(probability=p, **{name: getattr(self, name) for name in self._shared})

    def dual_divergence(self, other: Self) -> Array:
        """Return s times the Jensen-Shannon divergence of the probabilities (DJS-2)."""
        self._check_pair(other)
        p, q = self.probability, other.probability
        xp = namespace(p, q)
        ends = (xp.sum(xlogx(p), axis=-1)[..., :, None] + xp.sum(xlogx(q), axis=-1)[..., None, :]) / 2
        # One column at a time: planes of pairs instead of an array of pairs by outcomes.
        middle = sum(xlogx((p[..., :, None, i] + q[..., None, :, i]) / 2) for i in range(self.dimension))
        return self._draws * xp.clip(ends - middle, 0.0, None)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence; +inf where p has an outcome that q lacks."""
        self._check_pair(other)
        p, q = self.probability, other.probability
        xp = namespace(p, q)
        logs = safe_log(q)
        finite = xp.where(q > 0, logs, xp.zeros_like(logs))
        value = xp.sum(xlogx(p), axis=-1)[..., :, None] - p @ xp.matrix_transpose(finite)
        outside = p @ xp.matrix_transpose(xp.astype(q == 0, p.dtype))
        return self._draws * xp.where(outside > 0, xp.inf, value)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>), x the counts, at every row w of ``frequencies (F, k)``.

        Each is ``(*B, F)``; the count vector of one draw is one-hot.
        """
        return log_power(*averages(self.probability, frequencies), self._draws)

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        alphabet = getattr(self, "alphabet", None)
        outcomes = range(self.dimension) if alphabet is None else alphabet.symbols
        return [f"probability[{outcome}]" for outcome in outcomes]

    def fisher_information(self) -> Array:
        """Information of the logits, s (diag a - a a') (FK-3)."""
        p = self.probability
        eye = identity(p, self.dimension)
        return self._draws * (p[..., :, None] * eye - p[..., :, None] * p[..., None, :])

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Jensen-Shannon divergence of probabilities is conditionally negative definite."""
        return Verdict("always", "the Jensen-Shannon divergence is CND (Fuglede and Topsoe; DJS-5)")


def checked_probability(values: Any, what: str) -> Array:
    """Return probabilities whose rows are nonnegative and sum to one, within rounding."""
    p = as_float(values)
    if len(p.shape) == 0 or p.shape[-1] == 0:
        raise ValueError(f"{what} has shape {tuple(p.shape)}: its last axis must hold the k >= 1 probabilities")
    rows = to_numpy(p)
    bad = np.argwhere(~(rows >= 0).all(axis=-1))
    if len(bad):
        where = tuple(map(int, bad[0]))
        value = rows[where][~(rows[where] >= 0)][0]
        raise ValueError(f"{what}{_at(where)} holds {value}: probabilities must be nonnegative numbers")
    check_sums(rows.sum(axis=-1), rows.dtype, what)
    return p


def check_sums(total: Floats, dtype: Any, what: str) -> None:
    """Raise where the sum of a row of probabilities is not one, within rounding; the same for dense and sparse rows."""
    bad = np.argwhere(~(np.abs(total - 1) <= (1e-4 if dtype == np.float32 else 1e-6)))
    if len(bad):
        where = tuple(map(int, bad[0]))
        digits = 6 if dtype == np.float32 else 8  # enough to show the excess: never "sums to 1, not to one"
        raise ValueError(
            f"{what}{_at(where)} sums to {float(total[where]):.{digits}g}, not to one: divide counts by their sum first"
        )


def _at(where: tuple[int, ...]) -> str:
    """Say which of several rows it is; nothing where there is one."""
    return f" at index {where}" if where else ""


def normalised(counts: Floats, fallback: Any) -> Floats:
    """Divide every row by its sum; a row of zeros becomes ``fallback``."""
    total = np.einsum("...k->...", counts)[..., None]  # several times the speed of a sum over a short last axis
    visited = total > 0
    if visited.all():
        return np.asarray(counts / total)
    return np.where(visited, counts / np.where(visited, total, 1.0), fallback)


def ratio(numbers: Floats, weights: Floats) -> Floats:
    """Divide; 0 where the weight is 0."""
    shape = np.broadcast_shapes(np.shape(numbers), np.shape(weights))
    return np.divide(numbers, weights, out=np.zeros(shape), where=np.asarray(weights) > 0)


def shared_out(counts: Floats, coded: Floats, probability: Floats, sets: Floats) -> Floats:
    """Share counts of ambiguity codes ``(..., C)`` out to the outcomes that they stand for, ``(..., k)``.

    ``coded`` are the probabilities of the codes, ``(..., C)``, and ``sets (C, k)`` says which outcomes they stand for.
    """
    return probability * (ratio(counts, coded) @ sets)


def drawn(upper: Floats, uniform: Floats) -> Floats:
    """Draw outcomes: ``upper`` are cumulated probabilities ``(..., k)``, ``uniform`` numbers from 0 to 1 ``(...)``."""
    draws = uniform[..., None] * upper[..., -1:]
    return np.sum(draws >= upper, axis=-1).clip(0, upper.shape[-1] - 1)
