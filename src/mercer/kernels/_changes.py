"""Detect parameters that were changed after ``fit``."""

from __future__ import annotations

import copy
from typing import Any

import joblib
import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.exceptions import NotFittedError

from mercer._array import to_numpy
from mercer._batch import Batch
from mercer._checks import is_number


def values_of(kernel: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named parameters of a kernel and their own parameters; an estimator by class and parameters."""
    if not names:
        return {}
    found = kernel.get_params(deep=True).items()
    return {name: _by_class(value) for name, value in found if name.partition("__")[0] in names}


def _by_class(value: Any) -> Any:
    """Replace an estimator, and each in a list, by its class: its parameters are compared under their own names."""
    if isinstance(value, list | tuple) and any(hasattr(part, "get_params") for part in value):
        return tuple(map(_by_class, value))
    return type(value) if hasattr(value, "get_params") else value


def kept_values(kernel: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return `values_of` as they are now: arrays and lists, which can be changed in place, are copied."""
    found = values_of(kernel, names)
    return {k: copy.deepcopy(v) if isinstance(v, np.ndarray | list) else v for k, v in found.items()}


def check_unchanged(kernel: Any, then: dict[str, Any], names: tuple[str, ...]) -> None:
    """Raise if the value of a parameter differs from its value ``then``."""
    now, known = values_of(kernel, names), kernel.get_params(deep=True)
    for name in sorted({*then, *now} & {*known}):  # a class comes before its parameters; an old file may have others
        old, new = then.get(name), now.get(name)
        if not same(old, new):
            raise NotFittedError(
                f"This {type(kernel).__name__} was fitted with {name} = {_shown(old)}, which is {_shown(new)} now. "
                "Call fit again."
            )


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal: the same object (the fast case), equal numbers, or equal content."""
    if old is new:
        return True
    if is_number(old) and is_number(new):
        return bool(old == new)
    if type(old) is tuple and type(new) is tuple:
        return len(old) == len(new) and all(map(same, old, new))
    if type(old) is np.ndarray and type(new) is np.ndarray and old.dtype.kind in "biuf":
        return old.dtype == new.dtype and np.array_equal(old, new, equal_nan=True)
    try:
        return type(old) is type(new) and bool(joblib.hash(_content(old)) == joblib.hash(_content(new)))
    except Exception:  # values that cannot be pickled, such as two lambdas
        return False


def _content(value: Any) -> Any:
    """Convert arrays of any library to NumPy: joblib gives equal torch tensors different hashes."""
    if isinstance(value, Batch):
        return value._pack()
    return to_numpy(value) if is_array_api_obj(value) else value


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
