"""Operators on kernels: sums, products, multiples, and conversion for Gaussian processes."""

from __future__ import annotations

from typing import Any

from mercer._checks import is_number


class Arithmetic:
    """Sums, products and multiples of kernels: ``k0 + k1``, ``k0 * k1``, ``0.5 * k``."""

    def __add__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Sum  # not at import time: it imports kernels

        return Sum.of(self, other) if isinstance(other, Arithmetic) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Arithmetic):
            return Product.of(self, other)
        return Scaled(self, other) if is_number(other) else NotImplemented

    __rmul__ = __mul__


class GaussianProcess:
    """The kernel of a Gaussian process."""

    def as_gp(self, bounds: Any = None) -> Any:
        """Return this kernel for scikit-learn's Gaussian processes, which tune its parameters.

        Parameters
        ----------
        bounds : dict, pair, "fixed" or None, default=None
            Search interval of each parameter: ``{"k0__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair or
            "fixed" for all; with None, the intervals are wide.

        Returns
        -------
        mercer.kernels.gp.GPKernel
            A copy: later changes of this kernel do not affect it. A kernel that learns from data must be fitted
            first, and is not fitted again.

        Examples
        --------
        >>> import mercer as mc
        >>> kernel = 1.0 * mc.RBF(gamma=0.5) + mc.Linear()
        >>> kernel.as_gp({"k0__weight": "fixed"}).theta.round(3)
        array([-0.693])
        """
        from mercer.kernels.gp import gp_kernel  # not at import time: few programs need it

        return gp_kernel(self, bounds)
