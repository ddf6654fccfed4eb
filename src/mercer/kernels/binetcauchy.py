"""Trace form of the Binet-Cauchy kernel between linear dynamical systems (Vishwanathan, Smola and Vidal 2007)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array
from mercer._coupling import required
from mercer._parameters import Rules, boolean, instance_of, whole
from mercer._verdict import Verdict
from mercer.kernels.base.model import LONGEST, ModelKernel
from mercer.models.discount import Discounted


@dataclass(eq=False, repr=False)
class BinetCauchy(ModelKernel):
    r"""Trace form of the Binet-Cauchy kernel: the expected inner product of two series, summed over time.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a linear dynamical system to each series: `LDS`. None compares batches of systems.
    length : int or Discounted, default=Discounted(0.9)
        Number of steps, or a sum over all steps in which step t has the weight ``d^(t - 1)``.
    shared_noise : bool, default=True
        Whether both systems are driven by the same random variables, as in the source. Otherwise they are independent,
        and only expected observations are compared.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: k(p, q) = \sum_t d^{t-1}\, E\, \langle x_t, y_t \rangle

    with series x of p and y of q (CMP-4). With shared noise, start, state noise and observation noise of both
    systems are the same standard normal variables times the symmetric square roots of their covariances. The kernel
    depends on the basis of the state then: use systems whose states mean the same, as those of ``fit_each`` with a
    pooled prior do. It is an inner product of random series, so always positive semi-definite; it can be negative.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> models = mc.LDSs(
    ...     transition=[[[0.9]], [[0.5]], [[0.9]]],
    ...     emission=[[[1.0]], [[1.0]], [[-1.0]]],
    ...     process_covariance=np.ones((3, 1, 1)),
    ...     observation_covariance=np.full((3, 1, 1), 0.1),
    ...     initial_mean=np.zeros((3, 1)),
    ...     initial_covariance=np.ones((3, 1, 1)),
    ... )
    >>> mc.kernels.BinetCauchy()(models).round(3)
    array([[ 1.   ,  0.776, -0.947],
           [ 0.776,  1.   , -0.689],
           [-0.947, -0.689,  1.   ]])
    """

    domain = "linear"
    _parameters: ClassVar[Rules] = {
        "length": whole(1, LONGEST) | instance_of(Discounted),
        "shared_noise": boolean(),
    }
    _why_zero = " (its expected observations are all zero)"

    model: Any = None
    length: int | Discounted = Discounted(0.9)  # noqa: RUF009
    shared_noise: bool = True
    normalize: bool = True
    on_zero: str = "raise"

    def _prepare(self, source: Any) -> Any:
        able = "linear dynamical systems, such as mc.LDS()"
        return required(source, "couple_moments", type(self).__name__, able)(self.length, bool(self.shared_noise))

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "a weighted sum over time of inner products of random vectors (CMP-4)")
