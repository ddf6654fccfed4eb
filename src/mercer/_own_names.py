"""The names of methods in Python's errors: those of public classes, also where a base class that is not has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from types import CellType, FunctionType
from typing import Any


def name_methods(module: Mapping[str, Any], names: Iterable[str]) -> None:
    """Let methods that public classes inherit from others say so: ``HMM.fit() got an unexpected keyword argument``.

    Python takes this name from the function, so each class gets a function of its own.

    Parameters
    ----------
    module : mapping
        What the names stand for.
    names : iterable of str
        The public names; those that are not classes are left out.
    """
    for cls in (module[name] for name in names if isinstance(module[name], type)):
        inherited = {name: (base, found) for base in reversed(cls.__mro__) for name, found in vars(base).items()}
        for name, (base, found) in inherited.items():
            of_others = base is cls or not base.__module__.startswith("mercer.")
            if of_others or (name.startswith("_") and name != "__init__"):
                continue
            if isinstance(found, FunctionType):
                setattr(cls, name, _renamed(found, cls))
            elif isinstance(found, classmethod | staticmethod) and isinstance(found.__func__, FunctionType):
                setattr(cls, name, type(found)(_renamed(found.__func__, cls)))
            elif isinstance(getattr(found, "fn", None), FunctionType):  # sklearn.utils.metaestimators.available_if
                own: Any = copy(found)
                own.fn = _renamed(own.fn, cls)
                setattr(cls, name, own)


def _renamed(function: FunctionType, owner: type) -> FunctionType:
    """Copy a function under the name of a method of ``owner``, and with it the function that it decorates."""
    closure, wrapped = function.__closure__, getattr(function, "__wrapped__", None)
    copy_of_wrapped = _renamed(wrapped, owner) if isinstance(wrapped, FunctionType) else wrapped
    if closure is not None and wrapped is not None:
        closure = tuple(CellType(copy_of_wrapped) if cell.cell_contents is wrapped else cell for cell in closure)
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__dict__.update(function.__dict__)
    if wrapped is not None:
        made.__dict__["__wrapped__"] = copy_of_wrapped
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__module__, made.__doc__ = function.__module__, function.__doc__
    made.__qualname__ = f"{owner.__qualname__}.{function.__name__}"
    return made
