"""Time stamps of series: numbers and ISO dates, regular grids, absent steps and interpolation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats
from mercer.data.columns import Column
from mercer.data.ragged import offsets_of

_TOLERANCE = 0.05
"""Largest distance of a stamp from the grid, in steps, for a grid to be called regular."""
_LARGEST_FILL = 20
"""Largest factor by which absent steps may lengthen the series; more is a wrong stamp or a wrong column."""
_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True)
class Stamps:
    """Time stamps of rows: numbers, or seconds since the first date; NaN where they are missing.

    ``months`` numbers the calendar months if all dates are on the same day of the month at the same time, which is a
    regular grid in months and not in seconds.
    """

    seconds: Floats
    bad: NDArray[np.bool_]
    dates: bool = False
    months: Floats | None = None

    def shown(self, seconds: float) -> str:
        """Return a time difference in words."""
        if not self.dates:
            return f"{seconds:.6g}"
        for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
            if seconds >= size:
                return f"{seconds / size:.6g} {unit}"
        return f"{seconds:.6g} s"


def stamps_of(column: Column) -> Stamps:
    """Read a column as time stamps; ``bad`` marks the entries that are neither numbers nor ISO dates."""
    if column.kind == "number":
        return Stamps(_plain(column), column.bad)
    n = len(column.raw)
    moments = np.full(n, np.datetime64("NaT", "ns"))
    bad = np.zeros(n, dtype=bool)
    if column.kind == "date":
        moments = column.raw.astype("datetime64[ns]")
    else:
        for i in np.flatnonzero(~column.missing):
            try:
                moments[i] = _moment(column.raw[i])
            except (TypeError, ValueError, OverflowError):
                bad[i] = True
    known = ~np.isnat(moments)
    seconds = np.full(n, np.nan)
    if known.any():
        seconds[known] = (moments[known] - moments[known].min()).astype(np.int64) / 1e9
    return Stamps(seconds, bad, True, _months(moments[known], known))


def _plain(column: Column) -> Floats:
    """Return stamps that are numbers; whole ones that a float would round, such as nanoseconds, since the first one."""
    seen = ~np.isnan(column.numbers)
    if column.raw.dtype.kind == "f" or not (np.abs(column.numbers[seen]) >= 2.0**53).any():
        return column.numbers
    try:
        whole = [int(x) for x in column.raw[seen].tolist()]
    except (OverflowError, ValueError):  # strings with fractions
        return column.numbers
    out, first = np.full(len(seen), np.nan), min(whole)
    out[seen] = [x - first for x in whole]
    return out


def _moment(value: Any) -> np.datetime64:
    text = str(value).strip()
    text += "-01" if re.fullmatch(r"[0-9]{4}-[0-9]{2}", text) else ""  # a month
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "ns")


def _months(moments: NDArray[Any], known: NDArray[np.bool_]) -> Floats | None:
    """Return the numbers of the months if all dates are on the same day of the month, else None."""
    months = moments.astype("datetime64[M]")
    if not len(moments) or len(np.unique(moments - months.astype("datetime64[ns]"))) > 1 or len(np.unique(months)) < 2:
        return None
    out = np.full(len(known), np.nan)
    out[known] = months.astype(np.int64)
    return out


def step_of(gaps: Floats) -> float | None:
    """Return the step of the grid on which all positive time differences lie, or None if there is none."""
    if not len(gaps):
        return None
    smallest = float(gaps.min())
    step = float(gaps[gaps < 1.5 * smallest].mean())
    for _ in range(2):  # the number of steps in every gap, and the step again from all of them
        count = np.round(gaps / step)
        step = float(gaps.sum() / count.sum())
    close = np.abs(gaps - np.round(gaps / step) * step) <= _TOLERANCE * step
    if not close.all():
        return None
    digits = float(f"{step:.6g}")  # 0.0999999 of stamps such as 0.1, 0.2, 0.3
    return digits if abs(digits - step) < 1e-6 * step else step


def interval(resample: Any, stamps: Stamps, gaps: Floats) -> float:
    """Return the step of ``resample``: a number, a duration such as "10s", or "auto" for the median time difference."""
    if isinstance(resample, str):
        match = re.fullmatch(r"\s*([0-9.]+(?:[eE][+-]?\d+)?)\s*([a-z]+)\s*", resample)
        if resample == "auto":
            if not len(gaps):
                raise ValueError("resample='auto' needs a series with two time stamps; pass a number.")
            return float(np.median(gaps))
        if match is None or match[2] not in _UNITS or not stamps.dates:
            raise ValueError(
                f"resample must be a positive number, 'auto', or for dates a duration such as '10s', '5min', '1h' or "
                f"'1d'; got {resample!r}."
            )
        resample = float(match[1]) * _UNITS[match[2]]
    if (
        isinstance(resample, bool)
        or not isinstance(resample, int | float | np.integer | np.floating)
        or not (0 < resample < np.inf)
    ):
        raise ValueError(
            f"resample must be a positive number, 'auto', or for dates a duration such as '10s'; got {resample!r}."
        )
    return float(resample)


def filled(places: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of rows on the grid, and the offsets of the lengthened series.

    ``places`` are the steps of every row since the first row of its series.
    """
    lengths = np.diff(offsets)
    last = np.where(lengths > 0, places[np.maximum(offsets[1:] - 1, 0)], -1)
    new = offsets_of(last + 1)
    return places + np.repeat(new[:-1], lengths), new


def too_many(old: int, new: int) -> bool:
    """Whether absent steps would lengthen the series by too much."""
    return new > max(_LARGEST_FILL * old, 10_000)


def interpolated(time: Floats, values: Floats, step: float) -> Floats:
    """Interpolate one series ``(T, d)`` linearly on a grid from its first to its last stamp.

    A channel is missing before its first and after its last observed value.
    """
    n = int(np.floor((time[-1] - time[0]) / step + 1e-9)) + 1
    grid = np.minimum(time[0] + step * np.arange(n), time[-1])  # rounding must not lose the last step
    out = np.full((n, values.shape[1]), np.nan)
    for channel, x in enumerate(values.T):
        seen = ~np.isnan(x)
        if seen.any():
            out[:, channel] = np.interp(grid, time[seen], x[seen], left=np.nan, right=np.nan)
    return out
