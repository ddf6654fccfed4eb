"""Kernels made of other kernels; those made of a list call them k0, k1, ..."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, ClassVar, Self

from sklearn.base import clone

from mercer._array import Array
from mercer._parameters import Rule, Rules, instance_of
from mercer._verdict import Verdict
from mercer.data.segments import data_digests
from mercer.kernels._data import n_objects
from mercer.kernels.base.kernel import Kernel

KERNEL = instance_of(Kernel, what="a kernel", cure="Pass an instance, such as mc.RBF().")
"""The rule of a parameter that is a kernel; its own parameters are checked too."""


class Views:
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
        return n_objects(self.parts[0])

    def __getitem__(self, key: Any) -> Views:
        return Views(tuple(part[key] for part in self.parts))

    def digests(self) -> list[bytes]:
        """Return a digest of every object, from all of its views."""
        return [b"".join(row) for row in zip(*(data_digests(part) for part in self.parts), strict=True)]


class Compound(Kernel):
    """A kernel made of others. ``fit`` clones them, so that the parameters stay unchanged."""

    _transparent: ClassVar[bool] = False
    """Whether it learns nothing itself, so that parameters of its parts may change after ``fit`` (``as_gp``)."""

    def _names(self) -> tuple[str, ...]:
        """Return the names of the parameters that are kernels."""
        raise NotImplementedError

    def _parts(self) -> tuple[Kernel, ...]:
        """Return the fitted parts; before ``fit``, the parameters."""
        fitted = getattr(self, "kernels_", None)
        return fitted if fitted is not None else tuple(self._given(name) for name in self._names())

    def _given(self, name: str) -> Kernel:
        """Return the parameter ``name``; raise if it is not a kernel."""
        part = getattr(self, name)
        if not isinstance(part, Kernel):
            raise TypeError(f"{name} must be a kernel; got {part!r}. Give an instance, such as mc.RBF().")
        return part

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._names():
            KERNEL(name, getattr(self, name))

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Domain of the values: logarithms if all parts have logarithms."""
        return "log" if all(part.domain == "log" for part in self._parts()) else "linear"

    @property
    def _takes_confounds(self) -> bool:
        return all(part._takes_confounds for part in self._parts())

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self.kernels_ = tuple(clone(getattr(self, name)) for name in self._names())
        accepted = Views(tuple(part._accept(X, reset=reset) for part in self._parts()))
        if reset:
            self._copy_width()
        return accepted

    def _check_empty(self, X: Any) -> None:
        for part, data in zip(self._parts(), X.parts, strict=False):  # confounds may follow the parts
            part._check_empty(data)

    def _copy_width(self) -> None:
        """Follow scikit-learn's rule: a fitted estimator knows the number of columns of its input."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.kernels_[0], name):
                setattr(self, name, getattr(self.kernels_[0], name))

    def _learn(self, X: Any, y: Any = None) -> None:
        for part, data in zip(self.kernels_, X.parts, strict=True):
            part._fit_accepted(data, y)

    def _training(self, X: Any) -> Any:
        for part, data in zip(self.kernels_, X.parts, strict=True):
            part._keep_training(data)
        return Views(tuple(part.train_ for part in self.kernels_))

    @property
    def _learns_from_values(self) -> bool:
        return any(part._learns_from_values for part in self._parts())

    def _learn_from_values(self, y: Any = None) -> None:
        for part in self.kernels_:
            part._learn_from_values(y)
        # A part may leave out what it does not need of its objects.
        beyond = self.train_.parts[len(self.kernels_) :]
        self.train_ = self._train_side.source = Views((*(part.train_ for part in self.kernels_), *beyond))

    def _source(self, X: Any) -> Any:
        return Views(tuple(part._source(data) for part, data in zip(self._parts(), X.parts, strict=True)))

    def _match(self, source: Any, reference: Any) -> Any:
        sides = zip(self._parts(), source.parts, reference.parts, strict=True)
        return Views(tuple(part._match(s, r) for part, s, r in sides))

    def _prepare(self, source: Any) -> Any:
        return Views(tuple(part._evaluation.prepared(s) for part, s in zip(self._parts(), source.parts, strict=True)))

    @property
    def _needs_fit(self) -> str:
        return next((part._needs_fit for part in self._parts() if part._needs_fit), "")

    def _learned(self) -> Any:
        return [part._setting() for part in self._parts()]

    def _current_parameters(self) -> tuple[tuple[str, Any], ...]:
        own = super()._current_parameters()
        return own + tuple(pair for part in getattr(self, "kernels_", ()) for pair in part._current_parameters())

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

    def _tiles(self, a: Views, b: Views) -> list[Array]:
        """Return the tile of every part: logarithms if this kernel is in the log domain, else values."""
        return [
            part.tile(p, q) if self.domain == "log" else part._evaluation.value_tile(p, q)
            for part, p, q in zip(self._parts(), a.parts, b.parts, strict=True)
        ]

    def _diagonals(self, a: Views) -> list[Array]:
        parts = [(part._evaluation, p) for part, p in zip(self._parts(), a.parts, strict=True)]
        if self.domain == "log":
            return [evaluation.diagonal(p) for evaluation, p in parts]
        return [evaluation.exp(evaluation.diagonal(p)) for evaluation, p in parts]


class Wrapper(Compound):
    """A kernel made from one kernel."""

    kernel: Any

    _preserved_by: ClassVar[str] = ""
    """Why this kernel is positive semi-definite where the wrapped one is."""

    def _names(self) -> tuple[str, ...]:
        return ("kernel",)

    @property
    def psd(self) -> Verdict:
        """The verdict of the wrapped kernel."""
        return Verdict(str(self._inner.psd), f"{self._preserved_by}; {self._inner.psd.reason}")

    @property
    def _inner(self) -> Any:
        return self._parts()[0]


class Several(Compound):
    """A kernel made of a list of kernels."""

    _parameters: ClassVar[Rules] = {
        "kernels": Rule(
            "a list of one or more kernels",
            lambda value: isinstance(value, list | tuple) and len(value) > 0,
            "Use [mc.RBF(), mc.Linear()], for example.",
        )
    }
    kernels: Any

    def _names(self) -> tuple[str, ...]:
        return tuple(f"k{i}" for i in range(len(self.kernels))) if isinstance(self.kernels, list | tuple) else ()

    def _parts(self) -> tuple[Kernel, ...]:
        self._check_parameter("kernels")
        return super()._parts()

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only: the parts are k0, k1, ...
        kernels = self.__dict__.get("kernels")
        if re.fullmatch(r"k\d+", name) and isinstance(kernels, list | tuple) and int(name[1:]) < len(kernels):
            return kernels[int(name[1:])]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; ``deep`` adds the parts, k0, k1, ..., and their parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the parts and their parameters.
        """
        found: dict[str, Any] = super().get_params(deep=False)
        for name in self._names() if deep else ():
            part = getattr(self, name)
            found[name] = part
            if hasattr(part, "get_params"):
                found |= {f"{name}__{key}": value for key, value in part.get_params(deep=True).items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``k0__gamma`` sets a parameter of a part, ``k0`` a whole part.

        Parameters
        ----------
        **params : values
            Parameters by name.
        """
        if "kernels" in params:
            self.kernels = params.pop("kernels")
        whole = {name: params.pop(name) for name in self._names() if name in params}
        if whole:
            kept = [whole.get(name, getattr(self, name)) for name in self._names()]
            self.kernels = type(self.kernels)(kept)
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        sound = bool(self._names()) and all(isinstance(getattr(self, name), Kernel) for name in self._names())
        return super().__sklearn_tags__() if sound else Kernel.__sklearn_tags__(self)  # `fit` raises the error
