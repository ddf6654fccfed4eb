"""The compiled library: C++ recursions (native/), loaded with ctypes on first use.

Each function takes one struct of arguments, described in `mercer._native.signatures`; `call` checks arrays against it
and packs them. ctypes releases the GIL during a call.
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
from mercer._native.signatures import GROUPS, SIGNATURES

MORE = 1
"""What a call returns that did not finish: the next one goes on."""
_GROUP = re.compile(r"(\w+): ([A-Z]\w+)(?:\[(.*)\])?$")
_FIELD = re.compile(r"([\w.]+): (out )?(?:(int|real)|(\w+)\[([^\]]*)\](\?)?)$")
_DTYPES = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "u8": np.dtype(np.uint8),
}


class Field(NamedTuple):
    """One argument: a number if ``dtype`` is None, else an array."""

    name: str
    written: bool
    code: str
    dtype: Any
    sizes: tuple[str | tuple[str, ...], ...]
    """For every axis the name of its size, or the names and numbers whose product it is."""
    optional: bool


def fields(name: str) -> list[Field]:
    """Parse the signature of a function; the fields of a group have its name before a dot."""
    found = []
    for line in _lines(SIGNATURES[name]):
        group = _GROUP.match(line)
        if group is None:
            found.append(_field(line, {}))
        else:
            sizes = dict(size.split("=") for size in (group[3] or "").split())
            found += [_field(f"{group[1]}.{part}", sizes) for part in _lines(GROUPS[group[2]])]
    return found


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _field(line: str, renamed: dict[str, str]) -> Field:
    match = _FIELD.match(line)
    if match is None:
        raise ValueError(f"A signature has a line that cannot be read: {line!r}.")
    name, out, number, dtype, sizes, optional = match.groups()
    names = [renamed.get(axis, axis) for axis in (sizes or "").split()]
    axes = tuple(axis if axis.isidentifier() else tuple(axis.split("*")) for axis in names)
    code = {"int": "q", "real": "d"}.get(number) or "P" + "q" * len(axes)
    return Field(name, bool(out), code, _DTYPES[dtype] if dtype else None, axes, bool(optional))


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
    known = fields(name)
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
