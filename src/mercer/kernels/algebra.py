"""Sums, products and multiples of kernels."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, logsumexp, namespace
from mercer._parameters import Rules, number
from mercer._verdict import Verdict, weakest
from mercer.kernels.base.compound import Several, Views, Wrapper
from mercer.kernels.base.transformer import WIDE, Bounds


class _Flat(Several):
    """A sum or product of any number of kernels."""

    _transparent = True

    def __init__(self, kernels: Any) -> None:
        self.kernels = kernels

    @classmethod
    def of(cls, *terms: Any) -> Self:
        """Combine kernels, and the parts of those that are of this class: ``a + b + c`` is one sum of three."""
        return cls([part for term in terms for part in (term.kernels if type(term) is cls else [term])])


class Sum(_Flat):
    """The sum of kernels, written ``a + b + c``.

    Parameters
    ----------
    kernels : list of Kernel
        The parts; their parameters are ``k0__...``, ``k1__...`` in a search.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF(gamma=1.0) + 0.5 * mc.Linear())([[1.0], [2.0]]).round(4)
    array([[1.5   , 0.8679],
           [0.8679, 1.5   ]])
    >>> widths = mc.kernels.Sum([mc.RBF(gamma=g) for g in (0.1, 1.0, 10.0)])
    >>> widths.get_params()["k2__gamma"]
    10.0
    """

    def _tile(self, a: Views, b: Views) -> Array:
        return added(self._tiles(a, b), self.domain)

    def _self(self, a: Views) -> Array:
        return added(self._diagonals(a), self.domain)

    @property
    def psd(self) -> Verdict:
        """The verdict of its weakest part."""
        return weakest([part.psd for part in self._parts()], "a sum of kernels")


class Product(_Flat):
    """The product of kernels, written ``a * b * c``.

    Parameters
    ----------
    kernels : list of Kernel
        The parts; their parameters are ``k0__...``, ``k1__...`` in a search.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF(gamma=1.0) * mc.Linear(normalize=False))([[1.0], [2.0]]).round(4)
    array([[1.    , 0.7358],
           [0.7358, 4.    ]])
    """

    def _tile(self, a: Views, b: Views) -> Array:
        values = self._tiles(a, b)
        for part, tile in zip(self._parts(), values, strict=True):
            mixed = part.domain == "log" and self.domain == "linear" and not part.normalize
            if mixed and not bool(namespace(tile).any(tile > 0)):
                raise FloatingPointError(
                    f"All values of {type(part).__name__} underflow in a product with a kernel that can be negative. "
                    "Normalize it with normalize=True or mc.kernels.Normalized."
                )
        return self._multiplied(values)

    def _self(self, a: Views) -> Array:
        return self._multiplied(self._diagonals(a))

    def _multiplied(self, values: list[Array]) -> Array:
        return reduce(operator.add if self.domain == "log" else operator.mul, values)

    @property
    def psd(self) -> Verdict:
        """The verdict of its weakest part (Schur)."""
        return weakest([part.psd for part in self._parts()], "a product of kernels (Schur)")


@dataclass(eq=False, repr=False)
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

    kernel: Any
    weight: float = 1.0

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The log domain if the kernel is in it and the weight is positive."""
        self._check_parameter("weight")
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
        self._check_parameter("weight")
        if self.weight < 0:
            return Verdict("no", f"the weight is {self.weight}: minus a positive semi-definite matrix")
        return self._inner.psd


def added(values: list[Array], domain: str) -> Array:
    """Return the sum of values, or of what they are logarithms of."""
    if domain == "linear":
        return reduce(operator.add, values)
    return logsumexp(namespace(*values).stack(values, axis=0), axis=0)
