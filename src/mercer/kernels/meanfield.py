"""Mean field bounds of probability product kernels (Jebara, Kondor and Howard 2004, section 6)."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import clone

from mercer._array import Array, namespace
from mercer._coupling import required
from mercer._parameters import NONE, Rules, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.kernels.base.model import LONGEST, ModelKernel
from mercer.kernels.probabilityproduct import ProbabilityProduct


class MeanField(ModelKernel):
    r"""Lower bound of the probability product of models that are too large to be summed over.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a network to each sample, as ``model.fit_each``. None compares batches of models.
    rho : float, default=0.5
        The power.
    length : int or None, default=10
        Length of the compared sequences, for `FactorialHMMs`; networks ignore it.
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

    (PPK-6). For `FactorialHMMs`, Q has one Markov chain per chain of both models, and observations are integrated out
    (PPK-6.1); for `BayesNets`, Q factorizes over all nodes. One factor of Q after the other is replaced by the best
    one, so the bound never decreases. `gap` tells how far below the exact value it is, where that can be computed. The
    matrix of bounds is not positive semi-definite in general; wrap the kernel in `Repaired`.

    Examples
    --------
    >>> import mercer as mc
    >>> nets = mc.BayesNets({"a": [[0.2, 0.8], [0.5, 0.5]]}, {"a": 2})
    >>> mc.MeanField(normalize=False)(nets).round(4)  # of one node: exact
    array([[1.    , 0.9487],
           [0.9487, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "length": whole(1, LONGEST) | NONE,
        "n_init": whole(1),
        "random_state": seed(),
    }

    psd = Verdict("no", "a matrix of bounds; seen: smallest eigenvalue -0.08 of 8 models, exact +0.011 (PPK-6)")

    def __init__(
        self,
        model: Any = None,
        rho: float = 0.5,
        length: int | None = 10,
        n_init: int = 3,
        random_state: Any = 0,
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.model = model
        self.rho = rho
        self.length = length
        self.n_init = n_init
        self.random_state = random_state
        self.normalize = normalize
        self.on_zero = on_zero

    def gap(self, X: Any, Y: Any = None) -> Array:
        """Return how far the bounds are below the exact log kernels, before any normalization, ``(N, M)``.

        It is 0 where both kernels are 0, and infinite where the bound is 0 and the kernel is not.

        Parameters
        ----------
        X : data
            Objects to compare, as in ``kernel(X)``.
        Y : data, default=None
            The other side; None compares ``X`` with itself.

        Raises
        ------
        ValueError
            If the exact kernel is too large, with its size.

        Examples
        --------
        >>> import mercer as mc
        >>> nets = mc.BayesNets(
        ...     {"a": [[0.2, 0.8]], "b": [[[0.9, 0.1], [0.2, 0.8]]]},
        ...     {"a": 2, "b": 2},
        ...     {"b": ["a"]},
        ... )
        >>> mc.MeanField(rho=1.0).gap(nets).round(3)
        array([[0.071]])
        """
        kernel, left, right = self.sources(X, Y)
        exact = ProbabilityProduct(rho=float(self.rho), length=self.length, normalize=False)
        bound = clone(kernel).set_params(model=None, normalize=False)
        value, below = exact.log(left, right), bound.log(left, right)
        xp = namespace(value, below)
        zero, same = xp.zeros_like(value), value == below  # both are -inf where the kernel is 0
        return xp.where(same, zero, value) - xp.where(same, zero, below)

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._seed = seed_of(self.random_state)  # one for both sides

    def _learned(self) -> Any:
        return super()._learned(), self._seed

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "random_state")

    def _prepare(self, source: Any) -> Any:
        able = "mc.models.FactorialHMMs or mc.BayesNets"
        couple = required(source, "couple_mean_field", type(self).__name__, able)
        return couple(float(self.rho), self.length, int(self.n_init), self._seed)

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()
