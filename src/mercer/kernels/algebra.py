"""Sums, products and multiples of kernels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, logsumexp, namespace
from mercer._parameters import Rules, number
from mercer._verdict import Verdict, weakest
from mercer.kernels.base.compound import Compound, Views, Wrapper
from mercer.kernels.base.hooks import WIDE, Bounds


class _Pair(Compound):
    """Two kernels; in the log domain if both are."""

    _transparent = True

    def __init__(self, k1: Any, k2: Any) -> None:
        self.k1 = k1
        self.k2 = k2

    def _names(self) -> tuple[str, ...]:
        return ("k1", "k2")


class Sum(_Pair):
    """The sum of two kernels, written ``k1 + k2``.

    Parameters
    ----------
    k1, k2 : Kernel
        The parts; their parameters are ``k1__...`` and ``k2__...`` in a search.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF(gamma=1.0) + 0.5 * mc.Linear())([[1.0], [2.0]]).round(4)
    array([[1.5   , 0.8679],
           [0.8679, 1.5   ]])
    """

    def _tile(self, a: Views, b: Views) -> Array:
        return _added(self._tiles(a, b), self.domain)

    def _self(self, a: Views) -> Array:
        return _added(self._diagonals(a), self.domain)

    @property
    def psd(self) -> Verdict:
        """The verdict of its weakest part."""
        return weakest([part.psd for part in self._parts()], "a sum of kernels")


class Product(_Pair):
    """The product of two kernels, written ``k1 * k2``.

    Parameters
    ----------
    k1, k2 : Kernel
        The parts; their parameters are ``k1__...`` and ``k2__...`` in a search.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF(gamma=1.0) * mc.Linear(normalize=False))([[1.0], [2.0]]).round(4)
    array([[1.    , 0.7358],
           [0.7358, 4.    ]])
    """

    def _tile(self, a: Views, b: Views) -> Array:
        left, right = self._tiles(a, b)
        if self.domain == "log":
            return left + right
        for part, values in zip(self._parts(), (left, right), strict=True):
            if part.domain == "log" and not part.normalize and not bool(namespace(values).any(values > 0)):
                raise FloatingPointError(
                    f"All values of {type(part).__name__} underflow in a product with a kernel that can be negative. "
                    "Normalize it with normalize=True or mc.Normalized."
                )
        return left * right

    def _self(self, a: Views) -> Array:
        left, right = self._diagonals(a)
        return left + right if self.domain == "log" else left * right

    @property
    def psd(self) -> Verdict:
        """The verdict of its weakest part (Schur)."""
        return weakest([part.psd for part in self._parts()], "a product of kernels (Schur)")


class Scaled(Wrapper):
    """A multiple of a kernel, written ``0.5 * k``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    weight : float, default=1.0
        The factor; with a negative one, matrices are not positive semi-definite.

    Examples
    --------
    >>> import mercer as mc
    >>> (2.0 * mc.RBF(gamma=1.0))([[0.0], [1.0]]).round(4)
    array([[2.    , 0.7358],
           [0.7358, 2.    ]])
    """

    _parameters: ClassVar[Rules] = {"weight": number()}
    _smooth: ClassVar[Bounds] = {"weight": WIDE}
    _transparent = True

    def __init__(self, kernel: Any, weight: float = 1.0) -> None:
        self.kernel = kernel
        self.weight = weight

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The log domain if the kernel is in it and the weight is positive."""
        return super().domain if self.weight > 0 else "linear"

    def _weighted(self, values: Array) -> Array:
        return values + float(np.log(self.weight)) if self.domain == "log" else values * self.weight

    def _tile(self, a: Views, b: Views) -> Array:
        return self._weighted(self._tiles(a, b)[0])

    def _self(self, a: Views) -> Array:
        return self._weighted(self._diagonals(a)[0])

    @property
    def psd(self) -> Verdict:
        """The verdict of the kernel, for a positive weight."""
        if self.weight < 0:
            return Verdict("no", f"the weight is {self.weight}: minus a positive semi-definite matrix")
        return self._inner.psd


def _added(values: list[Array], domain: str) -> Array:
    if domain == "linear":
        return values[0] + values[1]
    return logsumexp(namespace(*values).stack(values, axis=0), axis=0)
