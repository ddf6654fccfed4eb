"""Exponential of the symmetric Kullback-Leibler divergence (Moreno, Ho and Vasconcelos 2003), for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array, namespace
from mercer._batch import Batch
from mercer._coupling import Leaf
from mercer._parameters import Rules, number, positive
from mercer._verdict import Verdict
from mercer.kernels.base.model import ModelKernel
from mercer.kernels.base.transformer import WIDE, Bounds


@dataclass(eq=False, repr=False)
class SymmetricKL(ModelKernel):
    r"""Exponential of the negative symmetric Kullback-Leibler divergence between distributions.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample. None compares batches of distributions.
    alpha : float, default=1.0
        Rate at which the kernel decreases with the divergence.
    beta : float, default=0.0
        Logarithm of k(p, p).

    Notes
    -----
    .. math:: k(p, q) = e^{-\alpha J(p, q) + \beta}, \qquad J = \mathrm{KL}(p \| q) + \mathrm{KL}(q \| p)

    (CMP-2). If the supports differ, the divergence is infinite and the kernel is 0.

    It is not positive semi-definite for any alpha. Gaussians of variance :math:`e^s` about 0 have
    :math:`J = \cosh(s-s') - 1`, and the Fourier transform of :math:`e^{-\alpha\cosh u}`, the Bessel function
    :math:`2 K_{i\omega}(\alpha)`, changes sign (Bochner). For Gaussians with a common covariance, it is
    a Gaussian kernel of the means.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians([[0.0], [1.0], [1.0]], [1.0, 1.0, 4.0])
    >>> mc.SymmetricKL(alpha=0.5)(p).round(4)
    array([[1.    , 0.6065, 0.4169],
           [0.6065, 1.    , 0.5698],
           [0.4169, 0.5698, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {"alpha": positive(), "beta": number("With 0, k(p, p) = 1.")}
    _smooth: ClassVar[Bounds] = {"alpha": WIDE, "beta": WIDE}

    psd = Verdict(
        "no",
        "Gaussians about 0 with 13 log variances from -3 to 3, alpha = 0.1: smallest eigenvalue -0.31; for every "
        "alpha some Gaussians about 0 are a counterexample, since K_{i w}(alpha) changes sign (CMP-2)",
    )

    model: Any = None
    alpha: float = 1.0
    beta: float = 0.0

    def _source(self, X: Any) -> Any:
        batch = super()._source(X)
        _check_kl(batch)
        return batch

    def _prepare(self, source: Any) -> Any:
        return Leaf(source.dense() if getattr(source, "sparse", False) else source, _BothWays())

    def _tile(self, a: Any, b: Any) -> Array:
        divergence = a.pair(b)
        xp = namespace(divergence)
        return -self.alpha * xp.clip(divergence, 0.0, None) + self.beta  # rounding can give values below 0

    def _self(self, a: Any) -> Array:
        own = a.alone()
        return namespace(own).zeros_like(own) + self.beta


def _check_kl(batch: Batch) -> None:
    if not hasattr(batch, "kl"):
        raise TypeError(
            f"SymmetricKL needs `kl`, which {type(batch).__name__} do not have, because it has no closed form. Use a "
            "family such as Gaussians or Multinomials, or another kernel."
        )


class _BothWays:
    """Sum of the divergences in both directions, for each pair."""

    power = 1.0  # power of hidden weights, which families do not have

    def leaf(self, p: Any, q: Any) -> Array:
        """Return KL(p, q) + KL(q, p)."""
        there, back = p.kl(q), q.kl(p)
        return there + namespace(back).matrix_transpose(back)
