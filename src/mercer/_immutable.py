"""A base class of immutable objects: attributes are set once, and a copy is the object itself."""

from __future__ import annotations

from typing import Any, Self


class Immutable:
    """Attributes are set once, by the constructor through `_fill`."""

    __slots__ = ()

    def _fill(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} objects cannot be changed; create a new one to set {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} objects cannot be changed; {name} cannot be deleted.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self
