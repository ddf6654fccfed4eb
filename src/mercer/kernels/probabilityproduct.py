"""Probability product kernels (Jebara, Kondor and Howard 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._coupling import PowerProduct
from mercer._parameters import Rules, one_of, rho
from mercer._verdict import Verdict
from mercer.kernels._outcomes import MOST_ANSWERS
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.base.transformer import Bounds
from mercer.models.discount import Discounted


@dataclass(eq=False, repr=False)
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
    time : {"joint", "independent"}, default="joint"
        For models of series: whether to compare the joint distributions over time, or to treat time steps as
        independent and multiply the kernels of the distributions at each step. "independent" is the form of the source
        for `LDSs`, which only they support.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: k_\rho(p, q) = \int p(x)^\rho\, q(x)^\rho\, dx

    (PPK-1, definition 1 of the source). With hidden variables h, powers are taken of the joint distribution (PPK-4.0),
    :math:`\tilde k_\rho(p, q) = \int \sum_h p(x, h)^\rho \sum_{h'} q(x, h')^\rho\, dx`, which is the same at rho = 1;
    `Sampled` estimates the kernel of the observed distributions at any rho. The kernel is positive semi-definite if
    the self-kernels are finite. At rho = 1/2 they always are, but with hidden variables they can differ from 1.

    ``features`` of distributions over few outcomes are the vectors :math:`(p(1)^\rho, p(2)^\rho, \ldots)` (section 2.1
    of the source): of `Categoricals`, `Multinomials` of one trial, and `Bernoullis` of d coordinates (2^d columns, up
    to d = 12).

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
    >>> mc.ProbabilityProduct(rho=0.5).features(mc.Categoricals([[0.64, 0.36]], "ab"))
    array([[0.8, 0.6]])
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "time": one_of("joint", "independent"),
    }
    _smooth: ClassVar[Bounds] = {"rho": (0.05, 5.0)}

    _with_features: ClassVar[str] = (
        f"Categoricals, Multinomials of one trial, and Bernoullis of at most {MOST_ANSWERS} coordinates"
    )

    psd = Verdict("always", "an inner product of p^rho in L2, if its norm is finite (PPK-1)")

    model: Any = None
    rho: float = 0.5
    length: int | Discounted | None = 10
    time: str = "joint"
    normalize: bool = True
    on_zero: str = "raise"

    def _coupling(self) -> PowerProduct:
        return PowerProduct(float(self.rho))
