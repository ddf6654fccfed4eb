"""Sums, products and multiples of kernels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Array, logsumexp, namespace
from mercer._checks import is_number
from mercer._verdict import Verdict, weakest
from mercer.data.segments import data_digests
from mercer.kernels._base import Kernel
from mercer.kernels._data import len_of


class Together:
    """Several views of the same objects, one per part of a compound kernel: sources or operands."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    @property
    def order(self) -> Any:
        """The first part's hint: two parts can prefer different orders."""
        return self.parts[0].order

    @property
    def tile_hint(self) -> int:
        """The smallest of the parts' hints."""
        return min(part.tile_hint for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of objects."""
        return (len(self),)

    def __len__(self) -> int:
        return len_of(self.parts[0])

    def __getitem__(self, key: Any) -> Together:
        return Together(tuple(part[key] for part in self.parts))

    def digests(self) -> list[bytes]:
        """Digest every object by all of its views."""
        return [b"".join(row) for row in zip(*(data_digests(part) for part in self.parts), strict=True)]


class Compound(Kernel):
    """A kernel made of others. They are cloned when it is fitted, so that its parameters stay as they were given."""

    def _names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _parts(self) -> tuple[Kernel, ...]:
        """Return the fitted parts, or the parameters before fitting."""
        fitted = getattr(self, "kernels_", None)
        return fitted if fitted is not None else tuple(getattr(self, name) for name in self._names())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._names():
            part = getattr(self, name)
            if not isinstance(part, Kernel):
                raise TypeError(f"{type(self).__name__}({name}={part!r}): give a kernel, such as mc.RBF()")
            part._check_parameters()

    @property
    def _takes_confounds(self) -> bool:
        return all(part._takes_confounds for part in self._parts())

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self.kernels_ = tuple(clone(getattr(self, name)) for name in self._names())
        accepted = Together(tuple(part._accept(X, reset=reset) for part in self._parts()))
        if reset:
            self._copy_width()
        return accepted

    def _copy_width(self) -> None:
        """Follow scikit-learn's rule: the object that is fitted remembers the width of its input."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.kernels_[0], name):
                setattr(self, name, getattr(self.kernels_[0], name))

    def _learn(self, X: Any, y: Any = None) -> None:
        for part, data in zip(self.kernels_, X.parts, strict=True):
            part._learn(data, y)

    def _training(self, X: Any) -> Any:
        for part, data in zip(self.kernels_, X.parts, strict=True):
            part.train_ = part._training(data)
        return Together(tuple(part.train_ for part in self.kernels_))

    def _source(self, X: Any) -> Any:
        return Together(tuple(part._source(data) for part, data in zip(self._parts(), X.parts, strict=True)))

    def _match(self, source: Any, reference: Any) -> Any:
        sides = zip(self._parts(), source.parts, reference.parts, strict=True)
        return Together(tuple(part._match(s, r) for part, s, r in sides))

    def _prepare(self, source: Any) -> Any:
        return Together(tuple(part._prepared(s) for part, s in zip(self._parts(), source.parts, strict=True)))

    @property
    def _needs_fit(self) -> str:
        return next((part._needs_fit for part in self._parts() if part._needs_fit), "")

    def _learned(self) -> Any:
        return [part._setting() for part in self._parts()]

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return self._names()

    def _setting(self) -> Hashable | None:
        unknown = any(part._setting() is None for part in self._parts())
        return None if unknown else super()._setting()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        parts = [part.__sklearn_tags__().input_tags for part in self._parts()]
        tags.input_tags = parts[0]
        tags.input_tags.sparse = all(part.sparse for part in parts)
        tags.input_tags.allow_nan = all(part.allow_nan for part in parts)
        tags.input_tags.positive_only = any(part.positive_only for part in parts)
        return tags

    def _tiles(self, a: Together, b: Together) -> list[Array]:
        """Answer every part's tile, as logarithms if this kernel is in logarithms, else as values."""
        return [
            part.tile(p, q) if self.domain == "log" else part._exp(part.tile(p, q))
            for part, p, q in zip(self._parts(), a.parts, b.parts, strict=True)
        ]

    def _diagonals(self, a: Together) -> list[Array]:
        values = [part._diagonal(p) for part, p in zip(self._parts(), a.parts, strict=True)]
        return values if self.domain == "log" else [part._exp(v) for part, v in zip(self._parts(), values, strict=True)]


class Wrapper(Compound):
    """A kernel made from one kernel."""

    kernel: Any

    def _names(self) -> tuple[str, ...]:
        return ("kernel",)

    @property
    def _inner(self) -> Any:
        return self._parts()[0]


class _Pair(Compound):
    """Two kernels; in logarithms while both are."""

    def __init__(self, k1: Any, k2: Any) -> None:
        self.k1 = k1
        self.k2 = k2

    def _names(self) -> tuple[str, ...]:
        return ("k1", "k2")

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Logarithms while both parts are."""
        return "log" if all(part.domain == "log" for part in self._parts()) else "linear"


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

    def _tile(self, a: Together, b: Together) -> Array:
        return _added(self._tiles(a, b), self.domain)

    def _self(self, a: Together) -> Array:
        return _added(self._diagonals(a), self.domain)

    @property
    def psd(self) -> Verdict:
        """As its weakest part."""
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

    def _tile(self, a: Together, b: Together) -> Array:
        left, right = self._tiles(a, b)
        if self.domain == "log":
            return left + right
        for part, values in zip(self._parts(), (left, right), strict=True):
            if part.domain == "log" and not part.normalize and not bool(namespace(values).any(values > 0)):
                raise FloatingPointError(
                    f"all values of {type(part).__name__} underflow beside a kernel that can be negative: normalise "
                    "it, with normalize=True or mc.Normalized"
                )
        return left * right

    def _self(self, a: Together) -> Array:
        left, right = self._diagonals(a)
        return left + right if self.domain == "log" else left * right

    @property
    def psd(self) -> Verdict:
        """As its weakest part (Schur)."""
        return weakest([part.psd for part in self._parts()], "a product of kernels (Schur)")


class Scaled(Wrapper):
    """A multiple of a kernel, written ``0.5 * k``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    weight : float, default=1.0
        The factor; a negative one makes a matrix that is not positive semi-definite.

    Examples
    --------
    >>> import mercer as mc
    >>> (2.0 * mc.RBF(gamma=1.0))([[0.0], [1.0]]).round(4)
    array([[2.    , 0.7358],
           [0.7358, 2.    ]])
    """

    def __init__(self, kernel: Any, weight: float = 1.0) -> None:
        self.kernel = kernel
        self.weight = weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_number(self.weight):
            raise ValueError(f"weight = {self.weight!r}: give a finite number")

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Logarithms while the weight is positive."""
        return "log" if self._inner.domain == "log" and self.weight > 0 else "linear"

    def _weighted(self, values: Array) -> Array:
        return values + float(np.log(self.weight)) if self.domain == "log" else values * self.weight

    def _tile(self, a: Together, b: Together) -> Array:
        return self._weighted(self._tiles(a, b)[0])

    def _self(self, a: Together) -> Array:
        return self._weighted(self._diagonals(a)[0])

    @property
    def psd(self) -> Verdict:
        """As the kernel, for a positive weight."""
        if self.weight < 0:
            return Verdict("no", f"the weight is {self.weight}: minus a positive semi-definite matrix")
        return self._inner.psd


def _added(values: list[Array], domain: str) -> Array:
    if domain == "linear":
        return values[0] + values[1]
    return logsumexp(namespace(*values).stack(values, axis=0), axis=0)
