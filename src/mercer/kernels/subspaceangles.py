"""Kernel of the Martin distance between linear dynamical systems (Martin 2000; De Cock and De Moor 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array
from mercer._coupling import required
from mercer._parameters import NONE, Rules, instance_of, positive, whole
from mercer._verdict import Verdict
from mercer.kernels.base.model import LONGEST, ModelKernel
from mercer.kernels.base.transformer import WIDE
from mercer.models.discount import Discounted


@dataclass(eq=False, repr=False)
class SubspaceAngles(ModelKernel):
    r"""Exponential of the negative squared Martin distance: angles between observability subspaces of systems.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a linear dynamical system to each series: `LDS`. None compares batches of systems.
    t : float, default=1.0
        Rate at which the kernel decreases with the squared distance. The kernel is positive semi-definite if t is a
        whole number.
    length : int, Discounted or None, default=None
        Number of steps of the observability matrices. None means infinitely many, for transitions with eigenvalues
        below 1; ``mc.Discounted(d)`` weights step s by ``d^s``, for eigenvalues below ``1 / sqrt(d)``.

    Notes
    -----
    .. math:: k = e^{-t d^2} = \det(U^\top V)^{2t}, \qquad d^2 = -\log \prod_i \cos^2 \theta_i

    with orthonormal bases U and V of the columns of the observability matrices :math:`(C; CA; CA^2; \dots)`, and the
    principal angles :math:`\theta_i` between them (CMP-3). Only the transition and the emission count; noises, offsets
    and starts do not. All systems must have the same number of state coordinates.

    det(U'V) is an inner product (Binet and Cauchy), so its even powers are kernels. For other t it is not positive
    semi-definite in general: two outputs and one state without memory, C at angles 0, 45, 90 and 135 degrees,
    t = 1/2: the smallest eigenvalue is :math:`1 - \sqrt 2`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> def spiral(angle):
    ...     turn = 0.9 * np.array(
    ...         [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    ...     )
    ...     return mc.LDSs(
    ...         [turn], [[[1.0, 0.0]]], [np.eye(2)], [[[1.0]]], [[0.0, 0.0]], [np.eye(2)]
    ...     )
    >>> models = mc.LDSs.concat([spiral(0.3), spiral(0.35), spiral(1.0)])
    >>> mc.SubspaceAngles()(models).round(3)
    array([[1.   , 0.888, 0.004],
           [0.888, 1.   , 0.006],
           [0.004, 0.006, 1.   ]])
    """

    _parameters: ClassVar[Rules] = {
        "t": positive(),
        "length": whole(1, LONGEST) | instance_of(Discounted) | NONE,
    }
    _smooth = {"t": WIDE}  # noqa: RUF012

    model: Any = None
    t: float = 1.0
    length: int | Discounted | None = None

    def _prepare(self, source: Any) -> Any:
        able = "linear dynamical systems, such as mc.LDS()"
        return required(source, "couple_subspaces", type(self).__name__, able)(self.length)

    def _tile(self, a: Any, b: Any) -> Array:
        return self.t * a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()

    @property
    def psd(self) -> Verdict:
        """Positive semi-definite if t is a whole number."""
        self._check_parameter("t")
        if float(self.t).is_integer():
            return Verdict("always", "an even power of det(U'V), an inner product of exterior products (CMP-3)")
        return Verdict(
            "no",
            "two outputs, one state without memory, C at angles 0, 45, 90 and 135 degrees, t = 1/2: smallest "
            "eigenvalue 1 - sqrt(2) (CMP-3)",
        )
