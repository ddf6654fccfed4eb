"""Mean field bounds of probability product kernels (Jebara, Kondor and Howard 2004, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array
from mercer._coupling import required
from mercer._parameters import Rules, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.kernels.base.model import LONGEST, ModelKernel


@dataclass(eq=False, repr=False)
class MeanField(ModelKernel):
    r"""Lower bound of the probability product of models that are too large to be summed over.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a factorial hidden Markov model, or a network, to each sample, as ``model.fit_each``. None
        compares batches of models.
    rho : float, default=0.5
        The power.
    length : int, default=10
        Length of the compared sequences; networks ignore it.
    n_init : int, default=3
        Number of starts; the largest bound is kept.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts after the first one.
    normalize : bool, default=True
        Whether to divide by the square roots of the bounds of the self-kernels. Normalized values are not bounds.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: \log \tilde k(p, q) \ge \rho\, E_Q[\log p(x, h) + \log q(x, h')] + H(Q)

    (PPK-6, PPK-6.1). For factorial hidden Markov models, Q has one Markov chain per chain of both models, and
    observations are integrated out. For networks, all discrete variables of both are independent under Q, and Gaussian
    nodes are integrated out. One factor of Q after the other is replaced by the best one, so the bound never decreases.
    The matrix of bounds is not positive semi-definite in general; wrap the kernel in `Repaired`. `ProbabilityProduct`
    is exact for models of up to 1,024 joint states, and for networks that elimination can sum over.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> initial, transition = np.full((2, 12, 2), 0.5), np.full((2, 12, 2, 2), 0.5)
    >>> mean = np.linspace(0, 1, 48).reshape(2, 12, 2, 1)
    >>> models = mc.models.FactorialHMMs(initial, transition, mean, np.ones((2, 1, 1)))
    >>> models.n_joint
    4096
    >>> mc.kernels.MeanField(length=5)(models).shape
    (2, 2)
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "length": whole(1, LONGEST),
        "n_init": whole(1),
        "random_state": seed(),
    }

    psd = Verdict("no", "a matrix of bounds; seen: smallest eigenvalue -0.08 of 8 models, exact +0.011 (PPK-6)")

    model: Any = None
    rho: float = 0.5
    length: int = 10
    n_init: int = 3
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._seed = seed_of(self.random_state)  # one for both sides

    def _learned(self) -> Any:
        return super()._learned(), self._seed

    def _prepare(self, source: Any) -> Any:
        couple = required(source, "couple_mean_field", type(self).__name__, "mc.models.FactorialHMMs or mc.BayesNets")
        return couple(float(self.rho), int(self.length), int(self.n_init), self._seed)

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()
