"""Checks of parameters that several rooms share: one sentence with the value and the cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy


def checked_parameter(value: Any, name: str, good: Callable[[Floats], Floats], must: str) -> Array:
    """Return one parameter per coordinate, ``(..., d)``, or say which is not ``good`` and what it ``must`` be."""
    try:
        array = as_float(value)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    if len(array.shape) == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} has shape {tuple(array.shape)}: its last axis must hold the d >= 1 coordinates")
    values = to_numpy(array)
    bad = np.argwhere(~good(values))
    if len(bad):
        where = tuple(map(int, bad[0]))
        raise ValueError(f"{name} at index {where} is {values[where]}: it must {must}")
    return array


def checked_positive(value: Any, name: str) -> Array:
    """Return a positive parameter per coordinate, ``(..., d)``, or say which is none."""
    return checked_parameter(value, name, lambda x: (x > 0) & np.isfinite(x), "be positive and finite")


def is_number(value: Any) -> bool:
    """Whether ``value`` is a finite number, or an array of one."""
    try:
        return bool(np.isfinite(float(value))) and not isinstance(value, str | bool)
    except (TypeError, ValueError):
        return False


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether ``value`` is a whole number, ``least`` or more."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def check_rho(rho: float) -> None:
    """Raise unless ``rho`` is a positive finite number."""
    _check_constant("rho", rho)
    if not is_number(rho) or float(rho) <= 0:
        raise ValueError(f"rho = {rho!r}: the power of a probability product kernel must be a positive number")


def check_gamma(gamma: float, name: str = "gamma") -> None:
    """Raise unless ``gamma``, a parameter of this name, is a nonnegative finite number."""
    _check_constant(name, gamma)
    if not is_number(gamma) or float(gamma) < 0:
        such = ", a number such as 1 / (number of channels) after mc.PerStep(StandardScaler())"
        raise ValueError(
            f"{name} = {gamma!r}: the base kernel exp(-{name} |x - y|^2) needs {name} >= 0"
            f"{such if isinstance(gamma, str) else ''}"
        )


def _check_constant(name: str, value: Any) -> None:
    """Raise where ``value`` is a tensor that waits for a gradient, which would silently not come."""
    if getattr(value, "requires_grad", False):
        raise TypeError(
            f"{name} is a tensor that requires a gradient, and kernels have gradients in the parameters of models "
            f"alone: give {name}.item(), and search it by cross-validation"
        )
