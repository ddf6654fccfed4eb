"""The two kinds of numbers of the recursions of profiles: floats with a power of two per row, and logarithms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

LARGE, SMALL = 2.0**100, 2.0**-100
"""A row whose largest number is outside of this range is scaled by a power of two."""
LOST = 2.0**-850
"""A positive number below this may have lost, or may soon lose, numbers that matter."""
_LOG_2 = math.log(2.0)


class Kind(NamedTuple):
    """Zero and one, and the operations, in one kind of numbers."""

    zero: float
    one: float
    plus: Any
    times: Any
    share: Any
    """``(x, y, z, factor)``: their product, as a float."""
    scaled: Any
    """``(row, ends, watch)``: scale a row; return the exponent, and whether small numbers may be lost."""
    logarithm: Any
    """``(value, exponent)``: the logarithm of a value of a row."""
    factor: Any
    """``(exponent, total, total_exponent)``: the last argument of `share`, to divide by the total."""


@compiled
def _float_plus(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x + y


@compiled
def _float_times(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x * y


@compiled
def _float_share(x: float, y: float, z: float, factor: float) -> float:  # pragma: no cover - compiled
    return x * y * z * factor


@compiled
def _log_plus(x: float, y: float) -> float:  # pragma: no cover - compiled
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log1p(math.exp(y - x))


@compiled
def _log_times(x: float, y: float) -> float:  # pragma: no cover - compiled
    return x + y


@compiled
def _log_share(x: float, y: float, z: float, factor: float) -> float:  # pragma: no cover - compiled
    return math.exp(x + y + z + factor)


@compiled
def _float_scaled(row: Floats, ends: Floats, watch: bool) -> tuple[int, bool]:  # pragma: no cover - compiled
    """Scale a row and its ``ends``; return the exponent, and whether small numbers may be lost."""
    top, low = 0.0, np.inf
    for x in ends:
        top = max(top, x)
    for kind in range(3):
        for k in range(row.shape[1]):
            top = max(top, row[kind, k])
    if watch:
        for kind in range(3):
            for k in range(row.shape[1]):
                low = min(low, row[kind, k] if row[kind, k] > 0.0 else np.inf)
        for x in ends:
            low = min(low, x if x > 0.0 else np.inf)
    exponent = 0
    if top > LARGE or (0.0 < top < SMALL):
        exponent = math.frexp(top)[1]
        # In two steps, since 2^-exponent itself may overflow.
        half = exponent // 2
        first, second = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
        row *= first
        row *= second
        ends *= first
        ends *= second
        low *= first
        low *= second
    return exponent, low < LOST


@compiled
def _log_scaled(row: Floats, ends: Floats, watch: bool) -> tuple[int, bool]:  # pragma: no cover - compiled
    return 0, False


@compiled
def _float_log(value: float, exponent: int) -> float:  # pragma: no cover - compiled
    return math.log(value) + exponent * _LOG_2 if value > 0.0 else -np.inf


@compiled
def _log_log(value: float, exponent: int) -> float:  # pragma: no cover - compiled
    return value


@compiled
def _float_factor(exponent: int, total: float, total_exponent: int) -> float:  # pragma: no cover - compiled
    return math.ldexp(1.0 / total, exponent - total_exponent)


@compiled
def _log_factor(exponent: int, total: float, total_exponent: int) -> float:  # pragma: no cover - compiled
    return -total


FLOATS = Kind(0.0, 1.0, _float_plus, _float_times, _float_share, _float_scaled, _float_log, _float_factor)
LOGS = Kind(-np.inf, 0.0, _log_plus, _log_times, _log_share, _log_scaled, _log_log, _log_factor)
