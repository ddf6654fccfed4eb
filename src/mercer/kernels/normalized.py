"""Normalized kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer._array import Array
from mercer.kernels.base.compound import Views, Wrapper


@dataclass(eq=False, repr=False)
class Normalized(Wrapper):
    r"""Kernel divided by the norms in feature space: :math:`k(x,y)/\sqrt{k(x,x)\,k(y,y)}`.

    Parameters
    ----------
    kernel : Kernel
        The kernel to normalize.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    C-5. Most kernels can normalize themselves (``normalize=True``); sums and products of kernels cannot.

    Examples
    --------
    >>> import mercer as mc
    >>> kernel = mc.kernels.Normalized(mc.Linear(normalize=False) + mc.RBF(gamma=1.0))
    >>> kernel([[1.0], [2.0]]).round(4)
    array([[1.    , 0.7488],
           [0.7488, 1.    ]])
    """

    _transparent = True
    normalize = True
    _preserved_by = "normalization preserves it (C-5)"

    kernel: Any
    on_zero: str = "raise"

    def _tile(self, a: Views, b: Views) -> Array:
        return self._tiles(a, b)[0]

    def _self(self, a: Views) -> Array:
        return self._diagonals(a)[0]
