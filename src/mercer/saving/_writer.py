"""Turn an object into a table of JSON nodes and plain arrays.

A value is a JSON atom (None, a boolean, a number, a string) or ``{"ref": i}``, the i-th node of the table. A node is a
list whose first entry is its kind. Objects that are referenced twice have one node, so that they are one object again
after loading. Long lists of numbers or strings become arrays, which keeps the JSON part small.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from mercer._batch import Batch, is_registered
from mercer.saving import _trusted
from mercer.saving._checks import BIT_GENERATORS, REBUILT, plain_state

LONG = 32
"""Lists from this length on are stored as arrays if all of their entries are numbers or strings of one type."""
ATOMS = (type(None), bool, int, float, str)


class Writer:
    """The nodes and arrays of one file; ``allowed`` are further trusted classes by name."""

    def __init__(self, allowed: dict[str, type]) -> None:
        self.allowed = allowed
        self.nodes: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []  # ids stay unique as long as the objects live

    def value(self, given: Any, where: str) -> Any:
        """Return the JSON value of an object; ``where`` is its place, for messages."""
        if type(given) in ATOMS:
            return given
        at = self._known.get(id(given))
        if at is None:
            at = self._known[id(given)] = len(self.nodes)
            self.nodes.append(None)
            self._alive.append(given)
            self.nodes[at] = self._node(given, where)
        return {"ref": at}

    def _node(self, given: Any, where: str) -> list[Any]:
        kind = type(given)
        if kind in (list, tuple, set, frozenset):
            return self._listing(kind.__name__, list(given), where)
        if kind is dict:
            return self._dict(given, where)
        if isinstance(given, np.ndarray | np.generic):
            return self._array(given, where)
        if isinstance(given, Batch):
            return self._batch(given, where)
        if kind in REBUILT:
            return ["made", self._class(given, where), self.value(given.__reduce__()[1], where)]
        if isinstance(given, type):
            return self._type(given, where)
        return self._plain(given, where) or self._object(given, where)

    def _listing(self, kind: str, items: list[Any], where: str) -> list[Any]:
        kinds = {type(item) for item in items} if len(items) >= LONG else set()
        if kinds == {float} or (kinds == {int} and all(-(2**63) <= item < 2**63 for item in items)):
            return ["numbers", kind, self._keep(np.array(items, dtype=np.float64 if kinds == {float} else np.int64))]
        if kinds == {str}:
            parts = [item.encode("utf-8", "surrogatepass") for item in items]
            text = np.frombuffer(b"".join(parts), dtype=np.uint8)
            return ["strings", kind, self._keep(text), self._keep(np.array([len(part) for part in parts]))]
        return [kind, [self.value(item, f"{where}[{i}]") for i, item in enumerate(items)]]

    def _dict(self, given: dict[Any, Any], where: str) -> list[Any]:
        keys = list(given)
        short = len(keys) < LONG
        entries = [self.value(value, f"{where}[{key!r}]") for key, value in given.items()] if short else None
        if entries is not None and all(type(key) is str for key in keys):
            return ["dict", keys, entries]
        return ["dict", self.value(keys, where), self.value(list(given.values()), where) if not short else entries]

    def _array(self, given: Any, where: str) -> list[Any]:
        if isinstance(given, np.ma.MaskedArray):
            parts = [self.value(part, where) for part in (given.data, np.ma.getmaskarray(given))]
            return ["masked", *parts, self.value(given.fill_value, where)]
        if type(given) not in (np.ndarray, np.memmap) and not isinstance(given, np.generic):
            raise self._refusal(given, where)
        if isinstance(given, np.generic):
            if given.dtype.hasobject:
                raise self._refusal(given, where)
            return ["scalar", self._keep(np.asarray(given))]
        if given.dtype == object:
            return ["objects", list(given.shape), self.value(list(given.ravel()), where)]
        if given.dtype.hasobject or given.dtype.kind not in "biufcSUmMV":
            raise self._refusal(given, where)
        return ["array", self._keep(given), bool(given.flags.writeable)]

    def _batch(self, given: Batch, where: str) -> list[Any]:
        if not is_registered(type(given)):
            raise self._refusal(given, where)
        prefix = f"b{len(self.arrays)}."
        header, arrays = given._pack(prefix)
        self.arrays |= arrays
        return ["batch", header, prefix]

    def _type(self, given: type, where: str) -> list[Any]:
        name = next((name for name, known in _trusted.PLAIN_TYPES.items() if known is given), None)
        name = name or _trusted.name_of(given, self.allowed)  # a kernel remembers the classes of its parts
        if name is None:
            raise self._refusal(given, where)
        return ["type", name]

    def _plain(self, given: Any, where: str) -> list[Any] | None:
        """Return the node of an object of Python, NumPy or SciPy; None for one that has a state."""
        if type(given) in (bytes, bytearray):
            return ["bytes", type(given).__name__, self._keep(np.frombuffer(given, dtype=np.uint8))]
        if isinstance(given, complex):
            return ["complex", given.real, given.imag]
        if isinstance(given, slice):
            return ["slice", *(self.value(part, where) for part in (given.start, given.stop, given.step))]
        if isinstance(given, range):
            return ["range", given.start, given.stop, given.step]
        if given is Ellipsis:
            return ["ellipsis"]
        if isinstance(given, np.dtype):
            if given.kind not in "biufcSUOmM" or given.fields is not None:
                raise self._refusal(given, where)
            return ["dtype", given.str]
        if sparse.issparse(given) and given.format in ("csr", "csc"):
            name = f"{given.format}_{'matrix' if isinstance(given, sparse.spmatrix) else 'array'}"
            parts = [self._keep(part) for part in (given.data, given.indices, given.indptr)]
            return ["sparse", name, [int(n) for n in given.shape], *parts]
        if isinstance(given, np.random.Generator | np.random.RandomState):
            old, source = isinstance(given, np.random.RandomState), cast(Any, given)
            state = source.get_state(legacy=False) if old else source.bit_generator.state
            if state["bit_generator"] not in BIT_GENERATORS:
                raise self._refusal(given, where)
            return ["random", "RandomState" if old else "Generator", self.value(state, where)]
        function = _trusted.function_name(given) if callable(given) else None
        return None if function is None else ["function", function]

    def _object(self, given: Any, where: str) -> list[Any]:
        """Return the node of an object of a trusted class: its state, as pickle sees it."""
        name = self._class(given, where)
        if isinstance(given, tuple):  # a named tuple
            return ["named", name, [self.value(item, f"{where}[{i}]") for i, item in enumerate(given)]]
        if isinstance(given, dict):  # scikit-learn's Bunch
            return ["mapping", name, self.value(dict(given), where)]
        state = plain_state(given)
        if not isinstance(state, dict):
            return ["stated", name, self.value(state, where)]
        return ["object", name, list(state), [self.value(value, f"{where}.{key}") for key, value in state.items()]]

    def _class(self, given: Any, where: str) -> str:
        name = _trusted.name_of(type(given), self.allowed)
        if name is None:
            raise self._refusal(given, where)
        return name

    def _keep(self, array: Any) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.asarray(array)
        return name

    @staticmethod
    def _refusal(given: Any, where: str) -> TypeError:
        kind = given if isinstance(given, type) else type(given)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if callable(given) and hasattr(given, "__qualname__") and not isinstance(given, type):
            return TypeError(
                f"{where} is the function {given.__qualname__}, and mc.save writes no code. Use a function on the list "
                "of docs/saving.md, or joblib.dump."
            )
        if name.startswith("sklearn."):
            return TypeError(
                f"{where} is of the type {name}, which mc.save does not write. It writes pipelines, searches, "
                "transformers, linear models, support vector machines, nearest neighbors, Gaussian processes and the "
                "others on the list of docs/saving.md; use joblib.dump for this one."
            )
        return TypeError(
            f"{where} is of the type {name}, which is not on the list of types that mc.save trusts. Pass trusted=["
            f"{kind.__qualname__}] to mc.save and mc.load if it is your own class, or use joblib.dump."
        )
