"""Gaussians of distances in feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array, namespace
from mercer._parameters import Rules, gamma
from mercer.kernels._operands import WithScalar
from mercer.kernels.base.compound import Wrapper
from mercer.kernels.base.transformer import WIDE, Bounds


@dataclass(eq=False, repr=False)
class Gaussianized(Wrapper):
    r"""A Gaussian of the distance in feature space: :math:`e^{-\gamma (k(x,x) - 2k(x,y) + k(y,y))}`.

    Parameters
    ----------
    kernel : Kernel
        The kernel whose distance is used.
    gamma : float, default=1.0
        Inverse width.

    Notes
    -----
    LMMK-2 (equation 24 of mehta2010); on a Fisher kernel it is the variant of shawetaylor2004, 12.29.

    Examples
    --------
    >>> import mercer as mc
    >>> kernel = mc.kernels.Gaussianized(mc.Linear(normalize=False), gamma=0.5)
    >>> kernel([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {"gamma": gamma()}
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}
    _transparent = True
    domain = "log"
    _preserved_by = "a Gaussian of a Hilbert space distance (LMMK-2)"

    kernel: Any
    gamma: float = 1.0

    def _prepare(self, source: Any) -> Any:
        operand = super()._prepare(source)
        return WithScalar(operand, self._inner._evaluation.diagonal(operand.parts[0]))

    def _tile(self, a: Any, b: Any) -> Array:
        inner, (p,), (q,) = self._inner, a.operand.parts, b.operand.parts
        squared = inner._distance_tile(p, q)
        if squared is None:
            squared = inner._evaluation.squared_distances(inner.tile(p, q), a.numbers, b.numbers)
        return -float(self.gamma) * squared

    def _self(self, a: Any) -> Array:
        return namespace(a.numbers).zeros_like(a.numbers)

    @property
    def infinitely_divisible(self) -> bool:  # type: ignore[override]
        """A power only changes gamma, which is valid if the distance is that of a Hilbert space."""
        return self._inner.psd == "always"
