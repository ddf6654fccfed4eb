"""Dirichlet-multinomial distributions: counts of draws whose probabilities have a Dirichlet distribution."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer._array import Array, namespace
from mercer._checks import check_rho
from mercer._parameters import whole
from mercer.families.base import Constant, Family, Parameter
from mercer.families.counting import log_count_sum
from mercer.families.sets import counts, positive
from mercer.families.special import gammaln, total


class DirichletMultinomials(Family):
    r"""A batch of Dirichlet-multinomial distributions: what multinomial distributions predict.

    Parameters
    ----------
    concentration : array of shape (..., k)
        Parameters a of the Dirichlet distribution, positive.
    trials : int, default=1
        Number s of draws.

    Notes
    -----
    Probability :math:`\frac{s!\,\Gamma(A)}{\Gamma(s+A)}\prod_d\frac{\Gamma(x_d+a_d)}{x_d!\,\Gamma(a_d)}`,
    :math:`A=\sum_d a_d`. The probability product is a sum over all vectors of counts, by convolution, for any rho; its
    time grows with the square of the trials (PPK-2a).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.families.DirichletMultinomials([[1.0, 1.0], [5.0, 1.0]], trials=2)
    >>> np.exp(p.log_prob([[2, 0], [1, 1], [0, 2]])).round(4)
    array([[0.3333, 0.3333, 0.3333],
           [0.7143, 0.2381, 0.0476]])
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8957],
           [0.8957, 1.    ]])
    """

    concentration = Parameter(positive)
    trials: Any = Constant(whole(1, cure="Pass the number of draws as an int."), default=1)
    support = counts

    def log_density(self, x: Array) -> Array:
        a, n = self.concentration, total(x)
        ends = gammaln(n + 1) + gammaln(total(a)) - gammaln(n + total(a))
        return ends + total(gammaln(x + a) - gammaln(x + 1) - gammaln(a))

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all vectors of counts, for any rho (PPK-2a)."""
        check_rho(rho)
        self._check_pair(other)
        return log_count_sum(self._count_table(rho), other._count_table(rho))

    def _count_table(self, rho: float) -> Array:
        """Rho times the log probabilities of every outcome and count from 0 to s, the constant shared out."""
        a, xp = self.concentration[..., None], namespace(self.concentration)
        n, s = xp.arange(self.trials + 1, dtype=a.dtype, device=a.device), self.trials
        ends = gammaln(n[-1:] + 1) + gammaln(total(self.concentration)) - gammaln(total(self.concentration) + s)
        return rho * (gammaln(n + a) - gammaln(n + 1) - gammaln(a) + ends[..., None, None] / self.dimension)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        p = rng.standard_gamma(self.concentration, (*shape, self.dimension)) + 1e-300
        return rng.multinomial(self.trials, p / p.sum(axis=-1, keepdims=True))
