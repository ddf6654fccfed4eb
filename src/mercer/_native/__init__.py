"""The compiled library: C++ recursions (native/), loaded with ctypes on first use.

Each function takes one struct of arguments. Its members are described where C++ declares them, and the library carries
the description: `call` checks arrays against it and packs them. ctypes releases the GIL during a call.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._native.library import loaded

MORE = 1
"""What a call returns that did not finish: the next one goes on."""
_FIELD = re.compile(r"([\w.]+): (const )?(\w+?)(?:_t)?(?:\[(.*)\](\??))?$")


class Field(NamedTuple):
    """One argument: a number if ``dtype`` is None, else an array."""

    name: str
    written: bool
    code: str
    dtype: Any
    sizes: tuple[str | tuple[str, ...], ...]
    """For every axis the name of its size, or the names and numbers whose product it is."""
    optional: bool


@functools.cache
def signatures() -> dict[str, list[Field]]:
    """Return the arguments of every function, which the library describes; those of a group have its name and a dot."""
    parts = (function.partition(" ") for function in loaded().mercer_signatures().decode().split("|"))
    return {name: [_field(text) for text in fields.split("; ")] for name, _, fields in parts}


def _field(text: str) -> Field:
    """Read one argument of a description, see `mercer._native.library.signatures`."""
    match = _FIELD.match(text)
    assert match is not None
    name, const, dtype, sizes, optional = match.groups()
    if sizes is None:
        return Field(name, False, {"int64": "q", "double": "d"}[dtype], None, (), False)
    axes = tuple(axis if axis.isidentifier() else tuple(axis.split("*")) for axis in sizes.split())
    return Field(name, not const, "P" + "q" * len(axes), np.dtype(dtype), axes, bool(optional))


def flat(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function with the parts of groups by their names."""
    found = dict(arguments)
    for group, names in _function(name).groups.items():
        if group in found:
            found |= zip(names, found.pop(group), strict=True)
    return found


class _Function(NamedTuple):
    call: Callable[[bytes], int]
    fields: list[Field]
    groups: dict[str, list[str]]
    packing: struct.Struct


@functools.cache
def _function(name: str) -> _Function:
    function = getattr(loaded(), name)
    function.argtypes, function.restype = [ctypes.c_char_p], ctypes.c_int64
    known = signatures()[name]
    groups: dict[str, list[str]] = {}
    for field in known:
        if "." in field.name:
            groups.setdefault(field.name.partition(".")[0], []).append(field.name)
    return _Function(function, known, groups, struct.Struct("".join(field.code for field in known)))


class Prepared:
    """A function with its arguments, checked once: each call works on the present values of the arrays.

    Arrays of another dtype or layout are copied, except those that are written.

    Raises
    ------
    ValueError
        If an array does not match the signature: an error in mercer, not of its user.
    """

    def __init__(self, name: str, **arguments: Any) -> None:
        self._name = name
        self._function, known, groups, packing = _function(name)
        self._kept = []  # arrays must live as long as their addresses
        packed: list[Any] = []
        sizes: dict[str, int] = {}
        if groups:
            arguments = flat(name, arguments)
        if len(arguments) != len(known):
            raise ValueError(f"{name} takes {[field.name for field in known]}; got {list(arguments)}.")
        for field in known:
            value = arguments[field.name]
            if field.dtype is None:
                packed.append(value)
            elif value is None and field.optional:
                packed += [0] * (1 + len(field.sizes))
            else:
                array = value if field.written else np.ascontiguousarray(value, field.dtype)
                _check(name, field, array, sizes)
                self._kept.append(array)
                packed += [_address(array), *array.shape]
        self._packed = packing.pack(*packed)

    def __call__(self) -> int:
        """Call the function; return its status."""
        status = self._function(self._packed)
        if status == -1:
            raise MemoryError(f"There is not enough memory for {self._name}. Compute fewer samples at a time.")
        return status


def call(name: str, **arguments: Any) -> int:
    """Call a function of the library; arrays of another dtype or layout are copied, except those that are written."""
    return Prepared(name, **arguments)()


def _address(array: Any) -> int:
    """Return the address of the memory of an array, five times as fast as by its interface if it can be written."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # read-only, or empty; the flag of a broadcast array of NumPy 1 says otherwise
        return int(array.__array_interface__["data"][0])


def _check(name: str, field: Field, array: Any, sizes: dict[str, int]) -> None:
    """Check dtype, layout, writability and sizes of one array; names of sizes get their values where they are new."""
    flags = array.flags
    good = array.dtype == field.dtype and flags.c_contiguous and array.ndim == len(field.sizes)
    if not good or (field.written and not flags.writeable):
        raise ValueError(f"{name}: {field.name} must be a contiguous {field.dtype} array with {len(field.sizes)} axes.")
    for axis, size in zip(field.sizes, array.shape, strict=True):
        if isinstance(axis, str):
            wanted = sizes.setdefault(axis, size)
        else:
            wanted = math.prod(int(part) if part.isdigit() else sizes[part] for part in axis)
        if wanted != size:
            raise ValueError(f"{name}: {field.name} has shape {array.shape}; {''.join(axis)} must be {wanted}.")
