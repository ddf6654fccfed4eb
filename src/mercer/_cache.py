"""A process-wide cache bounded in bytes, least recently used out first, and the keys of estimators in it."""

from __future__ import annotations

import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import joblib


def parameter_key(estimator: Any, *more: Any) -> Hashable | None:
    """Return a key of an estimator's class, its parameters and ``more``; None where something has no digest.

    Classes count as themselves, not by their names: one that is written anew, as in a notebook, is another one.
    Functions have names only, so that nothing is remembered where a parameter holds one.
    """
    parameters = estimator.get_params()
    if _holds_function(list(parameters.values())):
        return None
    try:
        digest = joblib.hash((parameters, more))
    except Exception:  # what cannot be pickled, such as a lambda: a cache is an optimisation only
        return None
    return type(estimator), tuple(type(value) for value in parameters.values() if value is not None), digest


def _holds_function(value: Any) -> bool:
    """Whether a parameter is a function, or a container or partial call of one."""
    if isinstance(value, dict):
        return any(_holds_function(part) for part in value.values())
    if isinstance(value, list | tuple | set):
        return any(_holds_function(part) for part in value)
    return isinstance(value, types.FunctionType | types.MethodType | functools.partial)


class ByteCache:
    """Keep values until their bytes exceed the budget given at `put`.

    Examples
    --------
    >>> cache = ByteCache()
    >>> cache.put("a", 1, size=10, budget=15)
    >>> cache.put("b", 2, size=10, budget=15)
    >>> cache.get("a") is None, cache.get("b")
    (True, 2)
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    def get(self, key: Hashable) -> Any:
        """Return the value of ``key``, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: Any, *, size: int, budget: int) -> None:
        """Keep ``value``, which takes ``size`` bytes; drop the oldest until all fit in ``budget``."""
        with self._lock:
            if key in self._entries:
                self._bytes -= self._entries.pop(key)[1]
            if size > budget:
                return
            self._entries[key] = (value, size)
            self._bytes += size
            while self._bytes > budget:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)
