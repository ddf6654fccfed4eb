"""Base class of immutable objects, and attributes that are computed when first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload


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


Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """A property that is computed once per object, like ``functools.cached_property`` of Python 3.12.

    That of Python 3.11 holds a lock while it computes, one for all objects of the class: threads wait for each other,
    and a process that is forked meanwhile waits forever. Here two threads that come first together both compute.

    Examples
    --------
    >>> class Square:
    ...     @cached_property
    ...     def area(self):
    ...         print("computed")
    ...         return 4
    >>> square = Square()
    >>> square.area + square.area
    computed
    8
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Value: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))  # later reads find it there
