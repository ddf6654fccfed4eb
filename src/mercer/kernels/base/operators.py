"""What kernels can be made into: sums, products, multiples, and kernels of Gaussian processes."""

from __future__ import annotations

from typing import Any

from mercer._checks import is_number


class Arithmetic:
    """Sums, products and multiples of kernels: ``k1 + k2``, ``k1 * k2``, ``0.5 * k``."""

    def __add__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Sum  # not at import: it is made of kernels

        return Sum(self, other) if isinstance(other, Arithmetic) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Arithmetic):
            return Product(self, other)
        return Scaled(self, other) if is_number(other) else NotImplemented

    __rmul__ = __mul__


class GaussianProcess:
    """The kernel of a Gaussian process."""

    def as_gp(self, bounds: Any = None) -> Any:
        """Return this kernel for scikit-learn's Gaussian processes, which choose its parameters by their evidence.

        Parameters
        ----------
        bounds : dict, pair, "fixed" or None, default=None
            Between which values a parameter is searched: ``{"k1__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair
            or "fixed" for all; None takes wide ones.

        Returns
        -------
        mercer.kernels.gp.GPKernel
            A copy: later changes of this kernel do not reach it. A kernel that learns has to be fitted before, and
            stays so.

        Examples
        --------
        >>> import mercer as mc
        >>> (1.0 * mc.RBF(gamma=0.5) + mc.Linear()).as_gp({"k1__weight": "fixed"}).theta.round(3)
        array([-0.693])
        """
        from mercer.kernels.gp import gp_kernel  # not at import: few programs need it

        return gp_kernel(self, bounds)
