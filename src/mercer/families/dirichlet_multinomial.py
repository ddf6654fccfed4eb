"""Dirichlet-multinomial distributions: word counts whose frequencies are known up to a Dirichlet distribution."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._checks import check_gamma, check_rho, checked_parameter
from mercer._coupling import CountSmoothed, Coupling, InnerLeaf, Leaf, Operand, PowerProduct, Smoothed
from mercer._random import random_generator, whole_size
from mercer._special import gammaln
from mercer.data import Alphabet
from mercer.data.csr import CSRRows
from mercer.families._counts.convolution import Terms, log_factorials, log_sum_over_counts
from mercer.families._counts.rows import check_rows, check_trials, checked_words, dense_counts
from mercer.families._gamma_functions import LARGE, binet
from mercer.families.base import Family


class DirichletMultinomials(Family):
    r"""A batch of Dirichlet-multinomial distributions: draws from frequencies that are themselves drawn.

    They are the predictive distributions of ``Multinomial(estimate="predictive")``: the posterior of a document's
    frequencies is a Dirichlet, of concentrations prior plus counts, and the distribution of its next words averages
    over it.

    Parameters
    ----------
    concentration : array of shape (..., k)
        Parameters of the Dirichlet distribution, 0 or more; an outcome of concentration 0 never occurs.
    trials : int, default=1
        Number of draws of the distributions that are compared.
    alphabet : Alphabet, iterable of words or None, default=None
        The vocabulary, one word per column. Batches are compared only where they have the same one, or none.

    Notes
    -----
    With :math:`A=\sum_d a_d` and s draws,
    :math:`P(x)=\frac{s!\,\Gamma(A)}{\Gamma(s+A)}\prod_d\frac{\Gamma(x_d+a_d)}{x_d!\,\Gamma(a_d)}`. The probability
    product (PPK-2a) sums over all counts x by a convolution over the outcomes, for any rho; one draw is the categorical
    distribution of the means a / A, an inner product.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.DirichletMultinomials([[1.0, 1.0], [3.0, 1.0]], trials=2)
    >>> np.exp(p.log_prob([[2, 0], [1, 1], [0, 2]])).round(4)
    array([[0.3333, 0.3333, 0.3333],
           [0.6   , 0.3   , 0.1   ]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.   , 0.946],
           [0.946, 1.   ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"concentration": 1}
    _shared: ClassVar[tuple[str, ...]] = ("trials", "alphabet")
    tile_hint = 128
    is_predictive = True

    concentration: Array
    trials: int
    alphabet: Alphabet | None = None

    def __init__(self, concentration: Any, trials: int = 1, alphabet: Any = None) -> None:
        check_trials(trials)
        if sparse.issparse(concentration) or isinstance(concentration, CSRRows):
            raise TypeError(
                "concentration must be dense, because outcomes with concentration 0 never occur; got a sparse matrix. "
                "Use concentration.toarray()."
            )
        a = checked_parameter(
            concentration, "concentration", lambda x: (x >= 0) & np.isfinite(x), "be 0 or more, and finite"
        )
        total = to_numpy(a).sum(axis=-1)
        bad = np.argwhere(~((total > 0) & np.isfinite(total)))
        if len(bad):
            where = tuple(map(int, bad[0]))
            raise ValueError(
                f"The concentrations at index {where} must have a positive, finite sum; got {total[where]}."
            )
        words = checked_words(alphabet, a.shape[-1], "concentrations")
        self._freeze(concentration=a, trials=int(trials), alphabet=words)

    @property
    def dimension(self) -> int:
        """Number of outcomes."""
        return int(self.concentration.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: the concentrations."""
        return self.dimension

    @property
    def mean(self) -> Array:
        """Mean frequencies a / A, ``(*B, k)``: the distribution of one draw."""
        return self.concentration / namespace(self.concentration).sum(self.concentration, axis=-1, keepdims=True)

    @property
    def mean_parameters(self) -> Array:
        """Expected counts s a / A."""
        return self.trials * self.mean

    # -- coupling ----------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; of one draw, an inner product of features."""
        if self.trials == 1 and isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            return InnerLeaf.of_power(self.mean, coupling.rho)
        if self.trials == 1 and isinstance(coupling, Smoothed | CountSmoothed):  # counts of one draw are one-hot
            check_gamma(coupling.gamma)
            return InnerLeaf.smoothed(self.mean, coupling.gamma)
        return Leaf(self, coupling)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all counts, for any rho and number of trials (PPK-2a)."""
        check_rho(rho)
        self._check_pair(other)
        if self.trials == 1:
            return self.couple(PowerProduct(rho)).pair(other.couple(PowerProduct(rho)))
        rho = float(rho)
        value = log_sum_over_counts(self._terms(rho), other._terms(rho), self.dimension, self.trials, rho)
        return value + rho * (self._log_scale()[..., :, None] + other._log_scale()[..., None, :])

    def _terms(self, rho: float) -> Terms:
        """Return rho log of Gamma(n + a) / (n! Gamma(a) (A + s)^n) for n = 0 .. s, some outcomes at a time."""
        a, s = self.concentration, self.trials
        xp = namespace(a)
        steps = beside(a, np.arange(s), a.dtype)
        most = xp.sum(a, axis=-1)[..., None, None] + s

        def terms(some: slice) -> Array:
            factors = safe_log((a[..., some][..., None] + steps) / (most * (steps + 1)))
            return rho * xp.concat([xp.zeros_like(factors[..., :1]), xp.cumulative_sum(factors, axis=-1)], axis=-1)

        return terms

    def _log_scale(self) -> Array:
        """Compute log of s! (A + s)^s Gamma(A) / Gamma(A + s), what the terms leave out, ``(*B,)``."""
        a, s = self.concentration, self.trials
        xp = namespace(a)
        total = xp.sum(a, axis=-1)[..., None]
        steps = beside(a, np.arange(s), a.dtype)
        return log_factorials(s)[s] + xp.sum(xp.log(total + s) - xp.log(total + steps), axis=-1)

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of (1 - e) <a / A, a' / A'> + e, e = exp(-2 gamma), for one draw (GMMK-1)."""
        check_gamma(gamma)
        self._check_pair(other)
        if self.trials > 1:
            raise ValueError(
                "The mean map of DirichletMultinomials has a closed form for one draw only; got trials = "
                f"{self.trials}. Use trials=1, estimate='point' or ProbabilityProduct."
            )
        return self.couple(Smoothed(gamma)).pair(other.couple(Smoothed(gamma)))

    # -- counts --------------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of every row of counts given its total, ``(*B, n) x (*B, T, k) -> (*B, n, T)``."""
        single, x = self._crossable(self._checked_points(dense_counts(x)))
        a = single.concentration
        xp = namespace(x, a)
        total = xp.sum(x, axis=-1)
        value = gammaln(total + 1)[..., None, :] - log_rising(xp.sum(a, axis=-1)[..., :, None], total[..., None, :])
        value = value - xp.sum(gammaln(x + 1), axis=-1)[..., None, :]
        for d in range(self.dimension):
            value = value + log_rising(a[..., :, None, d], x[..., None, :, d])
        return value if self.shape else value[..., 0, :]

    def _check_values(self, x: Array) -> None:
        check_rows(x, type(self).__name__)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` rows of counts of ``trials`` draws from every member, ``(*B, size, k)``."""
        size = whole_size(size)
        a = to_numpy(self.concentration).astype(float)[..., None, :].repeat(size, axis=-2)
        rng = random_generator(random_state)
        # Gamma(a) as Gamma(a + 1) U^(1/a), in logarithms: draws of tiny concentrations underflow to zero all at once.
        with np.errstate(divide="ignore"):
            logs = np.log(rng.standard_gamma(a + 1)) + np.log(rng.random(a.shape)) / np.where(a > 0, a, 1.0)
        logs = np.where(a > 0, logs, -np.inf)
        p = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return rng.multinomial(self.trials, p / p.sum(axis=-1, keepdims=True)).astype(float)


# Rising factorials, for distributions of counts with an uncertain rate or frequency.


def log_rising(a: Array, x: Array) -> Array:
    """Compute log of Gamma(a + x) / Gamma(a), a >= 0 and x >= 0, without cancellation for large a.

    0 at x = 0 for every a; -inf at a = 0 otherwise.
    """
    xp = namespace(a, x)
    a, x = a + xp.zeros_like(x), x + xp.zeros_like(a)
    possible = (a > 0) & (x > 0)
    a, large = xp.where(possible, a, xp.ones_like(a)), a >= LARGE
    big, small = xp.where(large, a, xp.full_like(a, LARGE)), xp.where(large, xp.ones_like(a), a)
    stirling = (big - 0.5) * xp.log1p(x / big) + x * (xp.log(big + x) - 1) + binet(big + x) - binet(big)
    value = xp.where(large, stirling, gammaln(small + x) - gammaln(small))
    return xp.where(possible, value, xp.where(x > 0, -xp.inf, xp.zeros_like(value)))
