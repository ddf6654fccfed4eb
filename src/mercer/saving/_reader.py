"""Make an object from a table of JSON nodes and plain arrays; nothing in the table is trusted.

No code of the file runs: classes come from the list of trusted types, their instances are made without ``__init__``,
and containers whose content compiled loops trust are checked. All memory is bounded by the size of the arrays and of
the table, which `mercer._files.read` has checked.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer._batch import Batch
from mercer.saving import _trusted
from mercer.saving._checks import REBUILT, build_tree, check, generator, sparse_matrix

LISTINGS: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
LONGEST_DTYPE = 32
KEY_DEPTH = 3
"""Tuples in keys are nested at most this deep: the hash of a crafted one could take forever."""


class Untrusted(Exception):
    """A type in a file that is not on the list."""


class Reader:
    """The objects of one file: its table of nodes, its arrays by name, and further trusted classes by name."""

    def __init__(self, nodes: Any, arrays: dict[str, Any], allowed: dict[str, type]) -> None:
        if not isinstance(nodes, list):
            raise ValueError("its table of objects is not a list")
        self.nodes, self.arrays, self.allowed = nodes, arrays, allowed
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()
        self._stated: list[Any] = []
        self._kinds: dict[str, Callable[..., Any]] = {
            "array": self._array,
            "batch": lambda header, prefix: Batch._from_parts(header, arrays, prefix),
            "bytes": lambda kind, name: (bytearray if kind == "bytearray" else bytes)(arrays[name].tobytes()),
            "complex": complex,
            "dtype": _dtype,
            "ellipsis": lambda: Ellipsis,
            "function": self._function,
            "made": self._rebuilt,
            "mapping": self._mapping,
            "masked": self._masked,
            "named": self._named,
            "numbers": self._numbers,
            "objects": self._objects,
            "random": lambda kind, state: generator(kind, self.value(state)),
            "range": range,
            "scalar": lambda name: arrays[name][()],
            "slice": lambda *parts: slice(*map(self.value, parts)),
            "sparse": lambda name, shape, *parts: sparse_matrix(name, shape, *(arrays[part] for part in parts)),
            "strings": self._strings,
            "type": lambda name: _trusted.PLAIN_TYPES.get(name) or self._class(name),
        }
        self._circular: dict[str, Callable[..., Any]] = {
            "dict": self._dict,
            "list": self._list,
            "object": self._object,
            "stated": self._stated_object,
        }

    def whole(self, given: Any) -> Any:
        """Return the object of a JSON value, after a check of everything in it."""
        made = self.value(given)
        for part in self._stated:
            check(part)
            build_tree(part)
        return made

    def value(self, given: Any) -> Any:
        """Return the object of a JSON value."""
        if not isinstance(given, dict | list):
            return given
        if not isinstance(given, dict) or given.keys() != {"ref"} or type(given["ref"]) is not int:
            raise ValueError("a value is neither an atom nor a reference")
        at = given["ref"]
        if at in self._made:
            return self._made[at]
        if at in self._open:
            raise ValueError("an immutable object contains itself")
        self._open.add(at)
        kind, *rest = self.nodes[at] if 0 <= at < len(self.nodes) else ["a missing node"]
        if kind in self._circular:  # these may contain themselves
            return self._circular[kind](at, *rest)
        if kind in LISTINGS:
            return self._keep(at, self._listing(kind, [self.value(item) for item in rest[0]]))
        if kind not in self._kinds:
            raise ValueError(f"{kind!r} is not a kind of objects")
        return self._keep(at, self._kinds[kind](*rest))

    def _keep(self, at: int, made: Any) -> Any:
        self._made[at] = made
        return made

    # -- Python's own ----------------------------------------------------------------------------------

    def _list(self, at: int, items: list[Any]) -> Any:
        made: list[Any] = self._keep(at, [])
        made.extend(self.value(item) for item in items)
        return made

    def _dict(self, at: int, keys: Any, entries: Any) -> Any:
        made: dict[Any, Any] = self._keep(at, {})
        names = keys if isinstance(keys, list) else self.value(keys)
        values = [self.value(entry) for entry in entries] if isinstance(entries, list) else self.value(entries)
        _check_keys(names)
        made.update(zip(names, values, strict=True))
        return made

    def _numbers(self, kind: str, name: str) -> Any:
        array = self.arrays[name]
        if array.ndim != 1 or array.dtype.kind not in "if":
            raise ValueError("a list of numbers is not an array of numbers")
        return self._listing(kind, array.tolist())

    def _strings(self, kind: str, name: str, lengths: str) -> Any:
        content, counts = self.arrays[name], self.arrays[lengths]
        if counts.dtype.kind != "i" or content.dtype != np.uint8 or (counts < 0).any() or counts.sum() != len(content):
            raise ValueError("the lengths of strings do not fit to their content")
        ends = np.concatenate([[0], np.cumsum(counts)]).tolist()
        text = content.tobytes()
        return self._listing(kind, [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)])

    def _listing(self, kind: str, items: list[Any]) -> Any:
        if kind in ("set", "frozenset"):
            _check_keys(items)
        return LISTINGS[kind](items)

    # -- NumPy and SciPy -------------------------------------------------------------------------------

    def _array(self, name: str, writeable: bool) -> Any:
        array = self.arrays[name]
        array.setflags(write=bool(writeable))
        return array

    def _objects(self, shape: list[int], items: Any) -> Any:
        content = self.value(items)
        if len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
            raise ValueError("the shape of an array of objects is not a shape")
        if math.prod(shape) != len(content):
            raise ValueError(f"an array of {len(content)} objects does not have the shape {shape}")
        made = np.empty(len(content), dtype=object)
        for i, item in enumerate(content):  # an assignment of the whole would look into sequences
            made[i] = item
        return made.reshape(shape)

    def _masked(self, *parts: Any) -> Any:
        data, mask, fill = map(self.value, parts)
        return np.ma.MaskedArray(data, mask=mask, fill_value=fill)

    # -- types and objects -----------------------------------------------------------------------------

    def _function(self, name: str) -> Any:
        found = _trusted.function_of(name)
        if found is None:
            raise Untrusted(str(name))
        return found

    def _rebuilt(self, name: str, arguments: Any) -> Any:
        cls = self._class(name)
        if cls not in REBUILT:
            raise Untrusted(name)
        return REBUILT[cls](*self.value(arguments))

    def _named(self, name: str, items: list[Any]) -> Any:
        cls = self._class(name)
        if not issubclass(cls, tuple) or len(items) != len(cls._fields):
            raise ValueError(f"{name} is not a tuple of {len(items)} values")
        return tuple.__new__(cls, [self.value(item) for item in items])

    def _mapping(self, name: str, content: Any) -> Any:
        cls = self._class(name)
        if not issubclass(cls, dict):
            raise ValueError(f"{name} is not a dictionary")
        made = dict.__new__(cls)
        made.update(self.value(content))
        return made

    def _object(self, at: int, name: str, keys: list[str], values: list[Any]) -> Any:
        made = self._empty(at, name)
        _check_names(keys)
        return self._with_state(made, dict(zip(keys, (self.value(value) for value in values), strict=True)))

    def _stated_object(self, at: int, name: str, state: Any) -> Any:
        made = self._empty(at, name)
        return self._with_state(made, self.value(state))

    def _empty(self, at: int, name: str) -> Any:
        cls = self._class(name)
        if issubclass(cls, Batch) or cls in REBUILT:
            raise Untrusted(name)  # these are made by their own kind of node
        return self._keep(at, object.__new__(cls))

    def _with_state(self, made: Any, content: Any) -> Any:
        if isinstance(content, dict):
            content.pop("_settings", None)  # a file does not change the settings of the process
        if hasattr(type(made), "__setstate__"):
            made.__setstate__(content)
        elif content is not None:
            _set_state(made, content)
        _add_parameters(made)
        self._stated.append(made)
        return made

    def _class(self, name: Any) -> Any:
        cls = _trusted.type_of(name, self.allowed)
        if cls is None:
            raise Untrusted(str(name))
        return cls


def _dtype(name: Any) -> Any:
    if not isinstance(name, str) or len(name) > LONGEST_DTYPE:
        raise ValueError("the name of a dtype is too long")
    return np.dtype(name)


def _set_state(made: Any, state: Any) -> None:
    """Set attributes as ``object.__getstate__`` gives them: a dictionary, or one and the values of slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for content in (attributes or {}, slots or {}):
        if not isinstance(content, dict):
            raise ValueError("the state of an object is not a dictionary")
        _check_names(content)
    if attributes:
        made.__dict__.update(attributes)
    for key, value in (slots or {}).items():
        object.__setattr__(made, key, value)


def _add_parameters(made: Any) -> None:
    """Set parameters that the class did not have when the file was written to their defaults."""
    if isinstance(made, BaseEstimator):
        for name, parameter in inspect.signature(type(made).__init__).parameters.items():
            if parameter.default is not parameter.empty and name not in vars(made):
                vars(made)[name] = parameter.default


def _check_names(keys: Any) -> None:
    """Raise unless the names of attributes are plain strings."""
    if not all(isinstance(key, str) and not key.startswith("__") for key in keys):
        raise ValueError("the name of an attribute is not a name")


def _check_keys(keys: Any, depth: int = KEY_DEPTH) -> None:
    """Raise unless keys are atoms, or tuples and sets of them that are not nested deeply."""
    for key in keys:
        if isinstance(key, tuple | frozenset):
            if depth == 0:
                raise ValueError("keys are nested too deeply")
            _check_keys(key, depth - 1)
        elif not isinstance(key, str | bytes | int | float | complex | np.generic | None):
            raise ValueError(f"a key is of the type {type(key).__name__}")
