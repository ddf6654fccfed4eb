"""Checks of values that several rooms share."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy

LARGEST = 10**12
"""Largest size that a user may ask for. What exceeds the memory below it, NumPy refuses with the number of bytes."""


def checked_parameter(value: Any, name: str, good: Callable[[Floats], Floats], must: str) -> Array:
    """Return one parameter per coordinate, ``(..., d)``; raise if one is not ``good``: it ``must`` ..."""
    try:
        array = as_float(value, name)
    except TypeError:
        raise TypeError(f"{name} must be numbers; got an array of dtype {np.asarray(value).dtype}.") from None
    if len(array.shape) == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have the d >= 1 coordinates on its last axis; got shape {tuple(array.shape)}.")
    values = to_numpy(array)
    bad = np.argwhere(~good(values))
    if len(bad):
        where = tuple(map(int, bad[0]))
        raise ValueError(f"{name} must {must}; got {values[where]} at index {where}.")
    return array


def checked_positive(value: Any, name: str) -> Array:
    """Return a positive parameter per coordinate, ``(..., d)``; raise if one is not positive."""
    return checked_parameter(value, name, lambda x: (x > 0) & np.isfinite(x), "be positive and finite")


def is_number(value: Any) -> bool:
    """Whether ``value`` is a finite number, or an array of one."""
    try:
        return bool(np.isfinite(float(value))) and not isinstance(value, str | bool)
    except (TypeError, ValueError, OverflowError):
        return False


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether ``value`` is a whole number, ``least`` or more."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def is_missing(value: Any) -> bool:
    """Whether ``value`` is None, NaN, or pandas.NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def is_choice(value: Any, choices: Container[str]) -> bool:
    """Whether ``value`` is one of several strings; arrays, which ``in`` compares entry by entry, are not."""
    return isinstance(value, str) and value in choices


def is_listing(value: Any) -> bool:
    """Whether ``value`` can be iterated over; an array without axes has the method and raises."""
    return isinstance(value, Iterable) and getattr(value, "shape", None) != ()


def check_rho(rho: float, name: str = "rho") -> None:
    """Raise unless ``rho``, the power of a probability product, is a positive finite number."""
    _check_constant(name, rho)
    if not is_number(rho) or float(rho) <= 0:
        raise ValueError(f"{name} must be a positive number; got {rho!r}. Use 0.5 or 1, for example.")


def check_gamma(gamma: float, name: str = "gamma") -> None:
    """Raise unless ``gamma``, of the base kernel exp(-gamma |x - y|^2), is a nonnegative finite number."""
    _check_constant(name, gamma)
    if not is_number(gamma) or float(gamma) < 0:
        raise ValueError(
            f"{name} must be a number, 0 or more; got {gamma!r}. The base kernel is exp(-{name} |x - y|^2): try "
            "1 / (number of channels) after mc.PerStep(StandardScaler())."
        )


def _check_constant(name: str, value: Any) -> None:
    """Raise if ``value`` is a tensor that requires a gradient, which it would silently not get."""
    if getattr(value, "requires_grad", False):
        raise TypeError(
            f"{name} must be a plain number; got a tensor that requires a gradient, and kernels have gradients only in "
            f"the parameters of models. Pass {name}.item() and choose it by cross-validation."
        )


def kind_of_target(y: Any) -> str:
    """Return scikit-learn's ``type_of_target``; "continuous" for floats too large for int64."""
    from sklearn.utils.multiclass import type_of_target  # not for a command line that only prints its help

    array = np.asarray(y)
    if array.dtype.kind == "f" and (np.abs(array) >= 2.0**63).any():  # it would cast them, with a warning of NumPy
        return "continuous"
    return str(type_of_target(y))


class NotAdditive(TypeError):
    """A kernel is not a sum over positions."""


class NotRead(TypeError):
    """A pipeline has a step that explanations cannot read."""


class NoKernel(NotRead, ValueError):
    """A pipeline has no kernel of mercer."""
