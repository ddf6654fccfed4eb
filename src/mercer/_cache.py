"""A process-wide LRU cache with a limit in bytes, and cache keys of estimators."""

from __future__ import annotations

import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import joblib

from mercer._fork import renew_after_fork


def parameter_key(estimator: Any, *more: Any) -> Hashable | None:
    """Return a key of an estimator's class, parameters and ``more``; None if one of them cannot be hashed or is random.

    The key contains the classes themselves, not their names: a class that is redefined, as in a notebook, gets a new
    key. Joblib hashes a function by its name, which does not identify it, so parameters with functions have no key.
    """
    parameters = estimator.get_params()
    if _holds_function(list(parameters.values())) or _is_random(parameters):
        return None
    try:
        digest = joblib.hash((parameters, more))
    except Exception:  # not picklable, such as a lambda; the cache is only an optimization
        return None
    return type(estimator), tuple(type(value) for value in parameters.values() if value is not None), digest


def _is_random(parameters: dict[str, Any]) -> bool:
    """Whether the estimator or a part of it draws other random numbers in every fit: ``random_state`` is None."""
    return any(value is None and name.rpartition("__")[2] == "random_state" for name, value in parameters.items())


def _holds_function(value: Any) -> bool:
    """Whether a parameter is a function, or a container or partial of one."""
    if isinstance(value, dict):
        return any(_holds_function(part) for part in value.values())
    if isinstance(value, list | tuple | set):
        return any(_holds_function(part) for part in value)
    return isinstance(value, types.FunctionType | types.MethodType | functools.partial)


class _Group:
    """Keys of values that share memory."""

    def __init__(self, keys: set[Hashable], size: int) -> None:
        self.keys = keys
        self.size = size


class ByteCache:
    """Cache that drops the least recently used values when their size exceeds the budget passed to `put`.

    Examples
    --------
    >>> cache = ByteCache()
    >>> cache.put("a", 1, size=10, budget=15)
    >>> cache.put("b", 2, size=10, budget=15)
    >>> cache.get("a") is None, cache.get("b")
    (True, 2)
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[Any, _Group]] = {}
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Get a fresh lock in a forked process; start empty if another thread was changing the cache."""
        interrupted = not self._lock.acquire(blocking=False)
        self._lock = threading.RLock()
        if interrupted:
            self.clear()

    def get(self, key: Hashable) -> Any:
        """Return the value of ``key``, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            value, group = self._entries[key]
            self._groups.move_to_end(id(group))
            return value

    def put(self, key: Hashable, value: Any, *, size: int, budget: int) -> None:
        """Store ``value`` of ``size`` bytes; drop the least recently used values until all fit in ``budget``."""
        self.put_together({key: value}, size=size, budget=budget)

    def put_together(self, values: dict[Hashable, Any], *, size: int, budget: int) -> None:
        """Store values that share memory of ``size`` bytes in all, so that none is dropped without the others."""
        with self._lock:
            for key in values:
                self._forget(key)
            if size > budget or not values:
                return
            group = _Group(set(values), size)
            self._entries.update({key: (value, group) for key, value in values.items()})
            self._groups[id(group)] = group
            self._bytes += size
            while self._bytes > budget:
                _, dropped = self._groups.popitem(last=False)
                self._bytes -= dropped.size
                for key in dropped.keys:
                    del self._entries[key]

    def _forget(self, key: Hashable) -> None:
        """Remove one value; the memory of its group is free when all of them are gone."""
        if key not in self._entries:
            return
        group = self._entries.pop(key)[1]
        group.keys.discard(key)
        if not group.keys:
            del self._groups[id(group)]
            self._bytes -= group.size

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._entries.clear()
            self._groups.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)
