"""The base class of all batches: an immutable struct of arrays with a leading batch shape."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from mercer import _files
from mercer._array import Array, as_array, beside, frozen, namespace, to_numpy
from mercer._device import checked, moved

_registry: dict[str, type[Batch]] = {}


class _NotAnArray(TypeError, ValueError):
    """A batch where an array is needed. GridSearchCV takes a ValueError for "keep it as an object"."""


class Batch:
    """A batch of distributions: arrays that share their leading axes, the batch shape.

    A subclass lists its arrays in ``arrays`` (field: number of trailing axes of one distribution), the batches it is
    made of in ``_parts`` (field: number of their batch axes that belong to one distribution) and its plain values,
    shared by all members, in ``shared``. Its ``__init__`` checks the values and ends with ``self.freeze(...)``. It
    inherits indexing, reshaping, concatenation, digests and files. (``_arrays``, ``_shared``, ``_freeze`` and ``_make``
    are other names of these.)
    """

    _arrays: ClassVar[dict[str, int]] = {}
    _parts: ClassVar[dict[str, int]] = {}
    _shared: ClassVar[tuple[str, ...]] = ()
    _compound: ClassVar[dict[str, Any]] = {}
    """Classes of fields that may consist of several arrays, whose names are in the ``parts`` of the class."""
    _from_header: ClassVar[dict[str, Callable[[Any], Any]]] = {}
    """How shared values are read from the header of a file, if not as they are."""
    _conversions: ClassVar[dict[str, str]] = {}
    """Other families by name, and a sentence that says how to make these of them."""

    shape: tuple[int, ...]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, kind in (("arrays", dict), ("shared", tuple)):
            if isinstance(vars(cls).get(name), kind):
                setattr(cls, f"_{name}", vars(cls)[name])
        known = _registry.setdefault(cls.__name__, cls)
        if known.__module__ == cls.__module__ or _is_own(cls):  # redefined, as in a notebook; else the first is kept
            _registry[cls.__name__] = cls
        _registry[_full_name(cls)] = cls

    # -- construction --------------------------------------------------------------------------------

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            f"{type(self).__name__} is a base class without parameters. Use a subclass whose __init__ takes them, "
            "such as mc.Poissons."
        )

    def freeze(self, **fields: Any) -> None:
        """Store checked fields, at the end of a constructor; arrays are copied and the copies made read-only."""
        self._freeze(**fields)

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """Build from fields that are known to be valid, without copies and without the checks of the constructor."""
        return cls._make(**fields)

    def _freeze(self, **fields: Any) -> None:
        """Store checked fields; arrays are copied and the copies made read-only."""
        owned = {
            name: frozen(value) if name in self._arrays and not hasattr(value, "indptr") else value
            for name, value in fields.items()
        }
        self.__dict__.update(owned)
        self.__dict__["shape"] = self._batch_shape()

    @classmethod
    def _make(cls, **fields: Any) -> Self:
        """Build from fields that are known to be valid, without copies; NumPy arrays become read-only views."""
        self = object.__new__(cls)
        self.__dict__.update({name: _read_only(value) for name, value in fields.items()})
        self.__dict__["shape"] = self._batch_shape()
        return self

    def _replaced(self, **fields: Any) -> Self:
        """Return the same batch with other values of some fields, known to be valid."""
        names = (*self._arrays, *self._parts, *self._shared)
        return self._make(**{name: getattr(self, name) for name in names} | fields)

    def _event_axes(self, name: str) -> int:
        return self._arrays[name]

    def _batch_shape(self) -> tuple[int, ...]:
        for name in self._arrays:
            value = getattr(self, name)
            return tuple(value.shape[: len(value.shape) - self._event_axes(name)])
        for name, inner in self._parts.items():
            shape = getattr(self, name).shape
            return tuple(shape[: len(shape) - inner])
        raise TypeError(f"{type(self).__name__} must list its arrays in _arrays, or its batches in _parts.")

    def _map(self, array: Callable[[str, Array], Any], part: Callable[[str, Batch], Batch]) -> Self:
        fields = {name: array(name, getattr(self, name)) for name in self._arrays}
        fields |= {name: part(name, getattr(self, name)) for name in self._parts}
        return self._make(**fields, **{name: getattr(self, name) for name in self._shared})

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable. Make a new batch instead of setting {name!r}.")

    # -- shape and indexing ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of batch axes."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"A single distribution has no length; got {type(self).__name__} of shape ().")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Self:
        full = self._batch_key(key)
        try:
            return self._map(lambda _, x: take_rows(x, full), lambda _, p: p[full])
        except (IndexError, TypeError, ValueError) as error:
            raise IndexError(
                f"{key!r} is not an index of a batch of shape {self.shape}. Use integers, slices or masks."
            ) from error

    def _batch_key(self, key: Any) -> tuple[Any, ...]:
        keys = key if isinstance(key, tuple) else (key,)
        keys = tuple((as_array(k, "An index") if k else np.empty(0, int)) if isinstance(k, list) else k for k in keys)
        if any(k is Ellipsis for k in keys):
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            missing = self.ndim - (len(keys) - 1)
            keys = keys[:at] + (slice(None),) * missing + keys[at + 1 :]
            while keys and isinstance(keys[-1], slice) and keys[-1] == slice(None) and len(keys) > 1:
                keys = keys[:-1]
        if len(keys) > self.ndim:
            raise IndexError(f"Too many indices: got {len(keys)} indices for a batch of shape {self.shape}.")
        return keys

    def _require_axis(self) -> None:
        """Raise if the batch does not have exactly one axis."""
        if self.ndim != 1:
            raise ValueError(f"The batch must have shape (N,); got {self.shape}. Use p[3:4] for a single member.")

    def _require_one(self) -> None:
        """Raise if the batch is not a single model, shared by all samples."""
        if self.shape != (1,):
            raise ValueError(f"The shared model must have shape (1,); got {self.shape}. Use p[3:4] or p.reshape(1).")

    def reshape(self, *shape: int) -> Self:
        """Return the same distributions with another batch shape; one entry may be -1."""
        count, wanted = math.prod(self.shape), shape
        if not all(isinstance(n, int | np.integer) and n >= -1 for n in shape) or shape.count(-1) > 1:
            raise TypeError(f"A batch shape must be whole numbers, one of which may be -1; got {shape}.")
        known = math.prod(n for n in shape if n != -1)
        shape = tuple(count // max(known, 1) if n == -1 else int(n) for n in shape)
        if math.prod(shape) != count:
            raise ValueError(f"A batch of shape {self.shape} cannot be reshaped to {wanted}.")

        def array(name: str, x: Array) -> Array:
            if hasattr(x, "indptr"):
                if shape != self.shape:
                    raise ValueError(
                        f"Sparse probabilities have one batch axis; got shape {shape}. Make them dense to reshape them."
                    )
                return x
            event = tuple(x.shape[len(x.shape) - self._event_axes(name) :]) if self._event_axes(name) else ()
            return namespace(x).reshape(x, shape + event)

        return self._map(array, lambda name, p: p.reshape(*shape, *p.shape[p.ndim - self._parts[name] :]))

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """Concatenate batches along their first axis; models of different sizes are padded, which changes no result."""
        cls._check_batches(batches)
        first = batches[0]
        for other in batches[1:]:
            first._check_alike(other)
        batches = cls._of_one_size(batches)
        first = batches[0]
        fields: dict[str, Any] = {name: _concat([getattr(b, name) for b in batches]) for name in first._arrays}
        fields |= {
            name: type(getattr(first, name)).concat([getattr(b, name) for b in batches]) for name in first._parts
        }
        return first._make(**fields, **{name: getattr(first, name) for name in first._shared})

    @classmethod
    def _check_batches(cls, batches: Any) -> None:
        """Raise unless ``batches`` are batches of this class that can be concatenated."""
        if not isinstance(batches, list | tuple) or not all(isinstance(b, Batch) for b in batches):
            raise TypeError(f"{cls.__name__}.concat needs a list of batches; got {batches!r}.")
        if not batches:
            raise ValueError(f"{cls.__name__}.concat needs at least one batch; got none.")
        if not isinstance(batches[0], cls):
            other = type(batches[0]).__name__
            raise TypeError(f"{cls.__name__}.concat needs batches of {cls.__name__}; got {other}. Use {other}.concat.")
        if not all(batch.shape for batch in batches):
            raise ValueError("A single distribution has no axis to concatenate along. Use p.reshape(1) first.")

    @classmethod
    def _of_one_size(cls, batches: Sequence[Self]) -> Sequence[Self]:
        """Bring batches to one size before they are concatenated, if the members of a model have several sizes."""
        return batches

    def _check_alike(self, other: Batch) -> None:
        """Raise if two batches differ in family, alphabet or dimension."""
        if type(self) is not type(other):
            mine, theirs = type(self).__name__, type(other).__name__
            cure = self._conversions.get(theirs) or other._conversions.get(mine, "")
            raise TypeError(
                f"Cannot pair {mine} with {theirs}; both sides must be of the same family.{' ' * bool(cure)}{cure}"
            )
        for name in self._shared:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not theirs and mine != theirs:
                raise ValueError(
                    f"Two batches of {type(self).__name__} differ in {name}: {mine} and {theirs}; "
                    f"make both with the same {name}."
                )
        for name in self._arrays:
            axes = self._event_axes(name)
            mine, theirs = getattr(self, name).shape, getattr(other, name).shape
            if tuple(mine[len(mine) - axes :]) != tuple(theirs[len(theirs) - axes :]):
                raise ValueError(
                    f"Two batches of {type(self).__name__} differ in dimension: {name} has shape "
                    f"{tuple(mine[len(mine) - axes :])} and {tuple(theirs[len(theirs) - axes :])} per distribution."
                )
        for name in self._parts:
            getattr(self, name)._check_alike(getattr(other, name))

    def matched(self, reference: Batch) -> Any:
        """Return this batch in the storage format of ``reference``, to be paired with it; raise if they differ."""
        reference._check_alike(self)
        return self

    # -- conversion, digests and files -------------------------------------------------------------------

    def to(self, device: Any) -> Self:
        """Return the same models as torch tensors on a device, or as NumPy arrays.

        Kernels compute where their arrays are, and leave the result there. Whole numbers (of states) stay in NumPy.

        Parameters
        ----------
        device : str or torch.device
            "cuda", "cuda:1", "cpu" or another device of torch; "numpy" for NumPy arrays.

        Examples
        --------
        >>> import mercer as mc
        >>> p = mc.Poissons([[1.0], [4.0]])
        >>> p.to("numpy").rate
        array([[1.],
               [4.]])
        """
        for name in self._arrays:
            if not is_array_api_obj(getattr(self, name)):
                raise TypeError(
                    f"{name} of {type(self).__name__} is sparse, and stays on the CPU. Make it dense first."
                )

        if str(device) != "numpy":
            checked(device, 'Use to("numpy") for NumPy arrays.')

        def converted(_: str, x: Array) -> Array:
            return moved(x, device) if namespace(x).isdtype(x.dtype, "real floating") else x

        return self._map(converted, lambda _, part: part.to(device))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _NotAnArray(
            f"{type(self).__name__} is a batch of distributions, not an array. Turn it into a Gram matrix with a "
            "kernel first, as in make_pipeline(kernel, SVC(kernel='precomputed'))."
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, so clone(kernel) can share it

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in self._arrays:
            if is_numpy_array(state[name]):
                state[name].setflags(write=False)

    def __repr__(self) -> str:
        parts = [f"shape={self.shape}"]
        parts += [f"{name}={getattr(self, name)!r}" for name in self._shared if getattr(self, name) is not None]
        parts += [f"{name}={type(getattr(self, name)).__name__}" for name in self._parts]
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        own = sum(_nbytes(getattr(self, name)) for name in self._arrays)
        return own + sum(getattr(self, name).nbytes for name in self._parts)

    def digests(self) -> list[bytes]:
        """Return one digest per member along the first axis; it depends on the content only."""
        columns = [row_digests(getattr(self, name)) for name in self._arrays]
        columns += [getattr(self, name).digests() for name in self._parts]
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        shared = json.dumps([kind, self._shared_header()], sort_keys=True).encode()
        key = blake2b(shared, digest_size=16).digest()
        return [blake2b(b"".join(row), key=key, digest_size=16).digest() for row in zip(*columns, strict=True)]

    def _shared_header(self) -> dict[str, Any]:
        """Return the shared values in a form that JSON can represent completely."""
        values = {name: getattr(self, name) for name in self._shared}
        return {name: v.to_header() if hasattr(v, "to_header") else v for name, v in values.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the batch to a file of format 1 (npz with a JSON header, no pickle)."""
        header, arrays = self._pack()
        _files.write(path, {"kind": "batch", "batch": header}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a batch that `save` wrote."""
        batch = cls._from_file(path, *_files.read(path, "batch"))
        if not isinstance(batch, cls):
            raise ValueError(
                f"{os.fspath(path)} contains {type(batch).__name__}, not {cls.__name__}. Use mercer.load(path)."
            )
        return batch

    @staticmethod
    def _from_parts(header: dict[str, Any], arrays: dict[str, Any], prefix: str = "") -> Any:
        """Make a batch from what `_pack` returned."""
        return _unpack(header, arrays, prefix)

    @staticmethod
    def _from_file(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> Any:
        try:
            return _unpack(header["batch"], arrays)
        except KeyError as error:
            raise ValueError(
                f"{os.fspath(path)} has no entry {error}; it is damaged or was not written by mercer."
            ) from error
        except UnknownBatch as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
        except Exception as error:  # the header of a damaged file can have any form
            raise _files.damaged(os.fspath(path), error) from error

    def _pack(self, prefix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        header: dict[str, Any] = {"class": _name_in_files(type(self)), "shared": self._shared_header(), "parts": {}}
        arrays: dict[str, Any] = {}
        for name in self._arrays:
            arrays |= self._pack_array(prefix + name, getattr(self, name))
        for name in self._parts:
            header["parts"][name], inner = getattr(self, name)._pack(f"{prefix}{name}.")
            arrays |= inner
        return header, arrays

    @staticmethod
    def _pack_array(name: str, value: Any) -> dict[str, Any]:
        if hasattr(value, "as_arrays"):  # a field of several arrays, such as sets of points
            return {f"{name}/{part}": array for part, array in value.as_arrays().items()}
        return {name: to_numpy(value)}

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        read = {name: kind(shared[name]) for name, kind in cls._from_header.items() if shared.get(name) is not None}
        fields = {}
        for name in cls._arrays:
            if name in cls._compound and prefix + name not in arrays:
                kind = cls._compound[name]
                fields[name] = kind(**{part: arrays[f"{prefix}{name}/{part}"] for part in kind.parts})
            else:
                fields[name] = arrays[prefix + name]
        return fields | shared | read


def _unpack(header: dict[str, Any], arrays: dict[str, Any], prefix: str = "") -> Any:
    name = header["class"]
    if name not in _registry:
        importlib.import_module("mercer.models")  # the package loads lazily; importing a class registers it
    cls = _registry.get(name) or _namesake(name)
    if cls is None:
        raise UnknownBatch(f"The file contains {name}, a class that is not imported. Import it first.")
    fields = cls._unpack_fields(arrays, header["shared"], prefix)
    for part, inner in header["parts"].items():
        fields[part] = _unpack(inner, arrays, f"{prefix}{part}.")
    wanted = inspect.signature(cls).parameters
    return cls(**{field: value for field, value in fields.items() if field in wanted})


class UnknownBatch(Exception):
    """The class in a file is not imported."""


def is_registered(cls: type[Batch]) -> bool:
    """Whether a file that names the class is read as this class."""
    return _registry.get(_name_in_files(cls)) is cls


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "mercer"


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _name_in_files(cls: type) -> str:
    """Return the name of a class, with its module where a class of another module has the same name."""
    return cls.__name__ if _registry.get(cls.__name__) is cls else _full_name(cls)


def _namesake(name: str) -> type[Batch] | None:
    """Return the only class of that name which is not mercer's: one that has moved to another module."""
    found = {cls for cls in _registry.values() if cls.__name__ == name.rpartition(".")[2] and not _is_own(cls)}
    return found.pop() if len(found) == 1 else None


def _nbytes(x: Any) -> int:
    if hasattr(x, "indptr"):
        return int(x.data.nbytes + x.indices.nbytes + x.indptr.nbytes)
    return int(to_numpy(x).nbytes)


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.setflags(write=False)
    return value


def take_rows(x: Any, key: tuple[Any, ...]) -> Any:
    """Index the leading axes of an array of any library by NumPy's rules."""
    if hasattr(x, "indptr"):  # CSR rows have one batch axis
        return x[key[0]]
    if is_numpy_array(x):
        taken = x[key]
        if taken.base is None and isinstance(taken, np.ndarray):
            taken.setflags(write=False)
        return taken
    xp = namespace(x)
    if len(key) == 1 and isinstance(key[0], np.ndarray):
        index = np.flatnonzero(key[0]) if key[0].dtype == bool else key[0]
        return xp.take(x, beside(x, index), axis=0)
    return x[(*key, ...)]


def _concat(values: list[Any]) -> Any:
    first = values[0]
    if hasattr(first, "indptr"):
        return first.joined(values)
    joined = namespace(*values).concat(values, axis=0)
    if is_numpy_array(joined):
        joined.setflags(write=False)
    return joined


def row_digests(x: Any) -> list[bytes]:
    """Return the digest of each row: equal bytes, dtype and row shape give equal digests."""
    if hasattr(x, "row_digests"):
        return list(x.row_digests())
    rows = np.ascontiguousarray(to_numpy(x))
    salt = blake2b(f"{rows.dtype.str}{rows.shape[1:]}".encode(), digest_size=16).digest()
    flat = rows.reshape(len(rows), -1) if len(rows) else rows
    return [blake2b(row.tobytes(), key=salt, digest_size=16).digest() for row in flat]
