"""Probability product kernels (Jebara, Kondor and Howard 2004)."""

from __future__ import annotations

from typing import Any

from mercer._verdict import Verdict
from mercer.families._coupling import Product
from mercer.families._family import check_rho
from mercer.kernels._model import CoupledKernel
from mercer.models._discount import Discounted


class ProbabilityProduct(CoupledKernel):
    r"""The probability product kernel: the integral of :math:`p^\rho q^\rho`.

    Parameters
    ----------
    model : estimator or None, default=None
        Turns every datum into a distribution, as ``model.fit_each``; None compares batches that are given.
    rho : float, default=0.5
        The power: 1/2 is the Bhattacharyya kernel, 1 the expected likelihood.
    length : int, Discounted or None, default=10
        Number of observations of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for all numbers
        at once; families ignore it. `path` gives many lengths in one sweep.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    .. math:: k_\rho(p, q) = \int p(x)^\rho\, q(x)^\rho\, dx

    (PPK-1, definition 1 of the source). Models with hidden variables use the power of the joint probability (PPK-4.0).
    Positive semi-definite wherever the self-kernels are finite; at rho = 1/2 they always are.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Poissons(rate=[[1.0], [4.0]])
    >>> mc.ProbabilityProduct(rho=0.5)(p).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> mc.ProbabilityProduct(mc.Categorical(alphabet="dna"), rho=1.0)(["ACGT", "AACC"]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    def __init__(
        self,
        model: Any = None,
        rho: float = 0.5,
        length: int | Discounted | None = 10,
        normalize: bool = True,
        zero: str = "raise",
    ) -> None:
        self.model = model
        self.rho = rho
        self.length = length
        self.normalize = normalize
        self.zero = zero

    def _coupling(self) -> Product:
        return Product(float(self.rho))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_rho(self.rho)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite where the self-kernels are finite (PPK-1)."""
        return Verdict("always", "an inner product of p^rho in L2, where its norm is finite (PPK-1)")
