"""Probability products of switching systems: sums over the regime paths of both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._coupling import PowerProduct
from mercer._parameters import Rules, one_of, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.base.transformer import Bounds
from mercer.models.switching import OverPaths, SwitchingLDSs


@dataclass(eq=False, repr=False)
class SwitchingProduct(CoupledKernel):
    r"""Probability product kernel of switching linear dynamical systems, a sum over pairs of regime paths.

    Parameters
    ----------
    model : SwitchingLDS or None, default=None
        Estimator that fits a switching system to each series. None compares batches of `SwitchingLDSs`.
    rho : float, default=0.5
        The power: 1/2 gives the Bhattacharyya kernel, 1 the expected likelihood kernel.
    length : int, default=10
        Length of the compared series. `path` computes many lengths in one sweep.
    switches : {"joint", "expected"}, default="joint"
        Whether to take powers of the probabilities of regimes too, as of all hidden variables, or to average the
        kernels of pairs of regime paths, as in the source. The two agree at rho = 1.
    n_paths : int, default=50
        Number of regime paths that are drawn from each model. Models with at most this number of paths are exact.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the paths.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: k(p, q) = \sum_{a, b} w(a)\, w'(b) \int p(x \mid a)^\rho\, q(x \mid b)^\rho\, dx

    (PPK-5.1) over the regime paths a of p and b of q, with weights :math:`w(a) = p(a)^\rho` for "joint" and
    :math:`p(a)` for "expected". Powers of the marginal density of a series have no closed form: `Sampled` estimates
    them. Models of different numbers of regimes are compared as they are; ``kernel([p, q])`` is the matrix of all
    members of a list of batches.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> up_down = mc.LDSs(
    ...     transition=np.ones((2, 2, 1, 1)),
    ...     emission=np.ones((2, 2, 1, 1)),
    ...     process_covariance=np.full((2, 2, 1, 1), 0.1),
    ...     observation_covariance=np.ones((2, 2, 1, 1)),
    ...     initial_mean=np.zeros((2, 2, 1)),
    ...     initial_covariance=np.ones((2, 2, 1, 1)),
    ...     state_offset=[[[1.0], [-1.0]], [[2.0], [-2.0]]],
    ... )
    >>> chain = [[0.5, 0.5]] * 2, [[[0.9, 0.1], [0.1, 0.9]]] * 2
    >>> models = mc.models.SwitchingLDSs(*chain, up_down)
    >>> mc.kernels.SwitchingProduct(length=3)(models).round(3)
    array([[1.   , 0.804],
           [0.804, 1.   ]])
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "switches": one_of("joint", "expected"),
        "n_paths": whole(1, cure="It is the number of regime paths that are drawn from each model."),
        "random_state": seed(),
    }
    _smooth: ClassVar[Bounds] = {"rho": (0.05, 5.0)}

    psd = Verdict("always", "a sum over pairs of paths of inner products in L2 (PPK-5.1)")

    model: Any = None
    rho: float = 0.5
    length: int = 10
    switches: str = "joint"
    n_paths: int = 50
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._seed = seed_of(self.random_state)

    def _learned(self) -> Any:
        return self._seed

    def _coupling(self) -> Any:
        rho = float(self.rho)
        return OverPaths(PowerProduct(rho), rho if self.switches == "joint" else 1.0, int(self.n_paths), self._seed)

    def _prepare(self, source: Any) -> Any:
        if not isinstance(source, SwitchingLDSs):
            raise TypeError(
                f"{type(self).__name__} sums over regime paths, which {type(source).__name__} do not have. Use "
                "mc.ProbabilityProduct."
            )
        return super()._prepare(source)
