"""Base class of immutable objects: attributes are set once, and a copy returns the object itself."""

from __future__ import annotations

from typing import Any, Self


class Immutable:
    """Base class whose attributes are set once, by the constructor through `_fill`."""

    __slots__ = ()

    def _fill(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} objects are immutable; create a new one to set {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} objects are immutable; {name} cannot be deleted.")

    def __setstate__(self, state: Any) -> None:
        """Restore the attributes, for libraries such as skops that do not call what ``__reduce__`` returns."""
        parts = state if isinstance(state, tuple) else (state,)
        self._fill(**{name: value for part in parts if part for name, value in part.items()})

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self
