"""Kernels made of a list of kernels, whose parts are called k0, k1, ..."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from mercer._parameters import Rule, Rules
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.kernel import Kernel


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
