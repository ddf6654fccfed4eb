"""Generative mean map kernels (Mehta and Gray 2010)."""

from __future__ import annotations

from typing import Any

from mercer._verdict import Verdict
from mercer.families._coupling import Smoothed
from mercer.families._family import check_gamma
from mercer.kernels._model import CoupledKernel
from mercer.models._discount import Discounted


class MeanMap(CoupledKernel):
    r"""The generative mean map kernel: the expected base kernel between a draw of p and a draw of q.

    Parameters
    ----------
    model : estimator or None, default=None
        Turns every datum into a distribution, as ``model.fit_each``; None compares batches that are given.
    gamma : float, default=1.0
        Of the base kernel ``exp(-gamma |x - y|^2)``; symbols are one-hot, so that a mismatch costs ``exp(-2 gamma)``.
    length : int, Discounted or None, default=10
        Number of observations of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for all numbers
        at once; families ignore it. `path` gives many lengths in one sweep.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    .. math:: k(p, q) = \iint p(x)\, q(y)\, e^{-\gamma\|x-y\|^2}\, dx\, dy

    (GMMK-0). For sequences the base kernel is the product over time. Multinomial counts use the base kernel that
    averages over all alignments of the tokens (GMMK-10c).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians(mean=[[0.0], [2.0]], covariance=[0.0, 0.0])  # two points
    >>> mc.MeanMap(gamma=0.5)(p).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    def __init__(
        self,
        model: Any = None,
        gamma: float = 1.0,
        length: int | Discounted | None = 10,
        normalize: bool = True,
        zero: str = "raise",
    ) -> None:
        self.model = model
        self.gamma = gamma
        self.length = length
        self.normalize = normalize
        self.zero = zero

    def _coupling(self) -> Smoothed:
        return Smoothed(float(self.gamma))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gamma(self.gamma)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of mean embeddings, for every PSD base kernel (MM-1, GMMK-0)")
