"""Probability product kernels (Jebara, Kondor and Howard 2004)."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._coupling import PowerProduct
from mercer._parameters import Rules, boolean, one_of, rho
from mercer._verdict import Verdict
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.base.transformer import Bounds
from mercer.models.discount import Discounted
from mercer.models.powers import require_whole


class ProbabilityProduct(CoupledKernel):
    r"""Probability product kernel: the integral of :math:`p^\rho q^\rho`.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample, as ``model.fit_each``. None compares batches of
        distributions.
    rho : float, default=0.5
        The power: 1/2 gives the Bhattacharyya kernel, 1 the expected likelihood kernel.
    length : int, Discounted or None, default=10
        Length of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for a discounted sum over all
        lengths; families ignore it, and so do `ProfileHMMs`, which end by themselves. `path` computes many lengths in
        one sweep.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.
    marginal : bool, default=False
        For models with hidden variables h: whether to take powers of the marginal p(x), for whole rho, or of the joint
        p(x, h), for any rho. The two agree at rho = 1 and for models without hidden variables.
    time : {"joint", "independent"}, default="joint"
        For models of series: whether to compare the joint distributions over time, or to treat time steps as
        independent and multiply the kernels of the distributions at each step. "independent" is the form of the source
        for `LDSs`, which only they support.

    Notes
    -----
    .. math:: k_\rho(p, q) = \int p(x)^\rho\, q(x)^\rho\, dx

    (PPK-1, definition 1 of the source). With hidden variables (PPK-4.0) this is ``marginal=True``, computed with rho
    copies of the hidden variables; ``marginal=False`` is
    :math:`\tilde k_\rho(p, q) = \int \sum_h p(x, h)^\rho \sum_{h'} q(x, h')^\rho\, dx`.
    The kernel is positive semi-definite if the self-kernels are finite. At rho = 1/2 they always are, but with hidden
    variables and ``marginal=False`` they can differ from 1.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Poissons(rate=[[1.0], [4.0]])
    >>> mc.ProbabilityProduct(rho=0.5)(p).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> kernel = mc.ProbabilityProduct(mc.Categorical(alphabet="dna"), rho=1.0)
    >>> kernel(["ACGT", "AACC"]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])

    Splitting a component in two does not change the density; only the joint power differs:

    >>> bumps = mc.Gaussians(
    ...     mean=[[[0.0], [3.0], [3.0]]] * 2, covariance=[[1.0, 1.0, 1.0]] * 2
    ... )
    >>> p = mc.Mixtures([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]], bumps)
    >>> mc.ProbabilityProduct(rho=2.0)(p).round(3)
    array([[1.  , 0.95],
           [0.95, 1.  ]])
    >>> mc.ProbabilityProduct(rho=2.0, marginal=True)(p).round(3)
    array([[1., 1.],
           [1., 1.]])
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "marginal": boolean("True takes powers of p(x), False of p(x, h), with h hidden."),
        "time": one_of("joint", "independent"),
    }
    _smooth: ClassVar[Bounds] = {"rho": (0.05, 5.0)}

    psd = Verdict("always", "an inner product of p^rho in L2, if its norm is finite (PPK-1)")

    def __init__(
        self,
        model: Any = None,
        rho: float = 0.5,
        length: int | Discounted | None = 10,
        normalize: bool = True,
        on_zero: str = "raise",
        marginal: bool = False,
        time: str = "joint",
    ) -> None:
        self.model = model
        self.rho = rho
        self.length = length
        self.normalize = normalize
        self.on_zero = on_zero
        self.marginal = marginal
        self.time = time

    def _smooth_parameters(self) -> tuple[str, ...]:
        return () if self.marginal else super()._smooth_parameters()  # rho is then a whole number

    def _coupling(self) -> PowerProduct:
        return PowerProduct(float(self.rho), bool(self.marginal))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        # Before all models are fitted.
        if self.marginal and self.model is not None and self.model.has_hidden:
            require_whole(float(self.rho), f"{type(self.model).__name__}s")
