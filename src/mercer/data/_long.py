"""Long tables, one row per time step: rows become series on the grid of their time stamps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats
from mercer._checks import is_number
from mercer._notices import notify
from mercer._wording import SEVERAL, counted, option, passing, wording
from mercer.data._container import naming
from mercer.data._forms import Flat
from mercer.data._samples import Samples, rows_of_ids
from mercer.data.columns import Column, Table
from mercer.data.ragged import offsets_of
from mercer.data.roles import Roles

_TOLERANCE = 0.05
"""Largest distance of a stamp from the grid, in steps, for a grid to be called regular."""
_LARGEST_FILL = 20
"""Largest factor by which absent steps may lengthen the series; more is a wrong stamp or a wrong column."""


@dataclass
class Series:
    """Content of a table: flat values or a matrix of counts, the names of their channels, and the step of the grid."""

    flat: Any
    channels: tuple[str, ...]
    step: float | None = None


@dataclass(frozen=True)
class _Stamps:
    """Time stamps of rows: numbers, seconds since the first date, or calendar months; NaN where they are missing."""

    values: Floats
    unit: str = ""
    """"s" of dates, "month" of dates on the same day of the month at the same time, or "" of numbers."""

    def shown(self, size: float) -> str:
        """Return a time difference in words."""
        if self.unit == "month":
            return counted(size, "month")
        for unit, seconds in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)) if self.unit else ():
            if size >= seconds:
                return f"{size / seconds:.6g} {unit}"
        return f"{size:.6g} {self.unit}".strip()


def _stamps_of(column: Column, by_month: bool) -> _Stamps:
    """Read a column as time stamps, numbers or ISO dates; NaN where it is neither."""
    if column.kind == "number":
        return _Stamps(column.numbers)
    import pandas as pd

    texts = pd.Series(column.text)
    zoned = texts.astype(str).str.contains(r":\d\d.*(?:Z|[+-]\d\d:?\d*)$")  # apart: pandas 2.2 lends a zone to others
    parts = [pd.to_datetime(texts[which], format="ISO8601", utc=True, errors="coerce") for which in (zoned, ~zoned)]
    dates = pd.concat(parts).sort_index().dt.tz_localize(None)
    months = dates.dt.to_period("M")
    if by_month and (dates - months.dt.to_timestamp()).nunique() == 1 and months.nunique() > 1:
        return _Stamps((12.0 * dates.dt.year + dates.dt.month).to_numpy(dtype=np.float64), "month")
    return _Stamps((dates - dates.min()).dt.total_seconds().to_numpy(), "s")


def step_of(gaps: Floats) -> float | None:
    """Return the step of the grid on which all positive time differences lie, or None if there is none."""
    if not len(gaps) or not np.isfinite(gaps.sum()):
        return None
    step = float(gaps[gaps < 1.5 * gaps.min()].mean())
    for _ in range(2):  # the number of steps in every gap, and the step again from all of them
        step = float(gaps.sum() / np.round(gaps / step).sum())
    if (np.abs(gaps - np.round(gaps / step) * step) > _TOLERANCE * step).any():
        return None
    digits = float(f"{step:.6g}")  # 0.0999999 of stamps such as 0.1, 0.2, 0.3
    return digits if abs(digits - step) < 1e-6 * step else step


def _interval(resample: Any, stamps: _Stamps, gaps: Floats) -> float:
    """Return the step of ``resample``: a number, a duration such as "10s", or "auto" for the median time difference."""
    if isinstance(resample, str) and resample == "auto":
        if not len(gaps):
            raise ValueError(f"{option('resample', 'auto')} needs a series with two time stamps; pass a number.")
        return float(np.median(gaps))
    step = resample
    if isinstance(resample, str) and stamps.unit and resample.strip()[-1:].isalpha():
        import pandas as pd

        with suppress(ValueError):
            step = pd.Timedelta(resample).total_seconds()
    if not is_number(step) or not 0 < step < np.inf:
        kinds = "a positive number, 'auto', or for dates a duration such as '10s', '5min', '1h' or '1d'"
        raise ValueError(f"{wording().must_be('resample', kinds)}; got {resample!r}.")
    return float(step)


def _too_many(old: int, new: float) -> bool:
    """Whether absent steps would lengthen the series by too much."""
    return new > max(_LARGEST_FILL * old, 10_000)


def _interpolated(time: Floats, values: Floats, step: float) -> Floats:
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


def long_series(
    table: Table, roles: Roles, kind: str | None, resample: Any, time_channel: bool, invalid: str
) -> tuple[Samples, Series]:
    """Read a table with one row per time step."""
    return series_of(rows_of_ids(table, roles.id, invalid), roles, kind, resample, time_channel)


def series_of(
    samples: Samples, roles: Roles, kind: str | None, resample: Any, time_channel: bool
) -> tuple[Samples, Series]:
    """Read samples with one row per time step."""
    table = samples.table
    if "values" in roles.guessed:
        roles = _varying(samples, roles)
    symbols = kind == "symbols" or (kind is None and [table.columns[x].is_text for x in roles.values] == [True])
    channels = () if symbols else roles.values
    by_month = resample is None and not time_channel
    stamps = None if roles.time is None else _sorted(samples, roles.time, by_month)
    values = _values(samples, roles.values, symbols)
    if stamps is None:
        samples.said.append("steps in the order of the rows")
        return samples, Series(Flat("tokens" if symbols else "vectors", values, samples.offsets), channels)
    if symbols and (resample is not None or time_channel):
        raise ValueError("resample and time_channel need numbers; the values are symbols. Leave them out.")
    values, offsets, step = _on_time(samples, str(roles.time), stamps, values, resample, time_channel)
    channels = (*channels, str(roles.time)) if time_channel else channels
    return samples, Series(Flat("tokens" if symbols else "vectors", values, offsets), channels, step)


def _varying(samples: Samples, roles: Roles) -> Roles:
    """Leave out columns that are constant in every series and differ between them: the age is not a channel."""
    fixed: dict[str, None] = {}  # in their order
    for name in roles.values:
        column = samples.table.columns[name]
        numbers, starts = column.numbers[samples.order], samples.offsets[:-1]
        low, high = np.fmin.reduceat(numbers, starts), np.fmax.reduceat(numbers, starts)
        if column.kind == "number" and not (low < high).any() and len(np.unique(low[~np.isnan(low)])) > 1:
            fixed[name] = None
    if not fixed or len(fixed) == len(roles.values):  # without another column, it is the series
        return roles
    shown = ", ".join(map(repr, list(fixed)[:6])) + (", ..." if len(fixed) > 6 else "")
    one = len(fixed) == 1
    how = "is constant in every series and not a channel" if one else "are constant in every series and not channels"
    samples.said.append(
        f"{shown} {how}; {option('values')} or {option('covariates')} would use {'it' if one else 'them'}"
    )
    samples.unused = tuple(fixed)
    return replace(roles, values=tuple(name for name in roles.values if name not in fixed))


def _values(samples: Samples, names: tuple[str, ...], symbols: bool) -> NDArray[Any]:
    """Return the values of all rows in the order of the samples, ``(T, d)``, or ``(T,)`` objects for symbols."""
    if not symbols:
        return np.stack([samples.numbers(name) for name in names], axis=1)[samples.order]
    if len(names) > 1:
        raise ValueError(f"Symbols come from one column; got {option('values', list(names))}. Pass one of them.")
    column = samples.table.columns[names[0]]
    tokens = column.text
    if column.kind == "number" and not column.bad.any() and not (column.numbers % 1 > 0).any():
        tokens = np.array([None if np.isnan(x) else int(x) for x in column.numbers], dtype=object)
    return tokens[samples.order]


def _sorted(samples: Samples, name: str, by_month: bool) -> _Stamps:
    """Sort the rows of every sample by time; missing, unreadable, infinite and equal stamps become problems."""
    table, column = samples.table, samples.table.columns[name]
    stamps = _stamps_of(column, by_month)
    infinite = np.isinf(stamps.values)
    samples.fail(
        infinite, lambda row: f"has the time {column.text[row]}, column {name!r}, which is not finite; correct it."
    )
    samples.fail(
        np.isnan(stamps.values) & ~column.missing,
        lambda row: (
            f"has the time {column.text[row][:30]!r}, which is neither a number nor an ISO date such as "
            f"2024-01-31T10:00; convert it{_unless_in_order()}."
        ),
    )
    samples.fail(column.missing, lambda row: f"has no time, column {name!r}; add it{_unless_in_order()}.")
    stamps = replace(stamps, values=np.where(infinite, np.nan, stamps.values))
    order = np.lexsort((stamps.values[samples.order], samples.owner))
    if (np.diff(order) != 1).any():
        samples.said.append("rows sorted by time")
    samples.order = samples.order[order]
    seconds, owner = stamps.values[samples.order], samples.owner
    for at in np.flatnonzero((np.diff(seconds) == 0) & (np.diff(owner) == 0)).tolist():
        a, b = samples.order[at], samples.order[at + 1]
        text = (
            f"has two rows at the time {column.text[a]} ({table.place(a)} and {table.place(b)}); remove one"
            + wording().phrase("two rows", f", or {passing('id', SEVERAL)} with all columns that name a series")
            + "."
        )
        samples.wrong(int(owner[at]), text)
    return stamps


def _to_interpolate() -> str:
    """Return the cure of irregular stamps."""
    auto = f"{passing('resample', 'auto', start=True)} (or a step) to interpolate"
    return wording().phrase("interpolate", f"{auto}, or {option('time_channel', True)} to keep the times as a channel")


def _unless_in_order() -> str:
    """Return the clause on rows that need no time."""
    return wording().phrase("in order", f", or if the rows are already in order, {passing('time', False)}")


def _on_time(
    samples: Samples, name: str, stamps: _Stamps, values: NDArray[Any], resample: Any, time_channel: bool
) -> tuple[NDArray[Any], NDArray[np.int64], float | None]:
    """Return the values on the grid of their time stamps, with their offsets and its step."""
    offsets, owner, seconds = samples.offsets, samples.owner, stamps.values[samples.order]
    bad = np.isin(owner, list(samples.problems))  # left out later
    inside = (np.diff(owner) == 0) & ~bad[1:]
    with np.errstate(over="ignore"):  # of stamps of 1e308 and -1e308
        differences = np.diff(seconds)
    gaps = differences[inside]
    if resample is not None:
        return _resampled(samples, stamps, values, _interval(resample, stamps, gaps), time_channel)
    size = step_of(gaps)
    step = None if stamps.unit == "month" else size  # months differ in their days
    if time_channel:
        samples.said.append("the time since the start of each series is the last channel")
        return np.column_stack([values, seconds - seconds[offsets[:-1]][owner]]), offsets, step
    if size is None and len(gaps):
        few, many = stamps.shown(float(gaps.min())), stamps.shown(float(gaps.max()))
        samples.said.append(f"time stamps irregular ({few} to {many} apart), taken as equal steps")
        notify(
            f"{samples.table.name}: the time stamps, column {name!r}, are irregular, {few} to {many} apart, and are "
            f"taken as equal steps. {_to_interpolate()}."
        )
    if size is None:
        return values, offsets, None
    # Each gap is rounded by itself, so that small errors do not add up.
    rounded = np.append(0.0, np.round(np.nan_to_num(differences) / size))
    rounded[bad] = 1.0
    rounded[offsets[:-1]] = 0.0
    spans = np.add.reduceat(rounded, offsets[:-1]) + 1
    shown = stamps.shown(size)
    if _too_many(len(seconds), spans.sum()):  # before they are converted to integers, which may not hold them
        i = int(np.argmax(spans - np.diff(offsets)))
        raise ValueError(
            f"{samples.table.name}: {naming(samples.names, i)} has {offsets[i + 1] - offsets[i]} rows, but its time "
            f"stamps, column {name!r}, span {spans[i]:.15g} steps of {shown}; check them"
            + wording().phrase("long", f", or {passing('resample')} with a larger step")
            + f"{_unless_in_order()}."
        )
    total = np.cumsum(rounded.astype(np.int64))
    places = total - total[offsets[:-1]][owner]
    lengths = places[offsets[1:] - 1] + 1
    new = offsets_of(lengths)
    absent = int(new[-1]) - len(seconds)
    samples.said.append(
        f"regular steps of {shown}" + (f", missing values at {counted(absent, 'absent step')}" if absent else "")
    )
    out = np.full((int(new[-1]), *values.shape[1:]), None if values.dtype == object else np.nan, dtype=values.dtype)
    out[places + new[:-1][owner]] = values
    return out, new, step


def _resampled(
    samples: Samples, stamps: _Stamps, values: Floats, step: float, time_channel: bool
) -> tuple[Floats, NDArray[np.int64], float]:
    """Interpolate all series on a grid of the given step."""
    offsets, seconds, pieces = samples.offsets, stamps.values[samples.order], []
    total = np.nan_to_num(seconds[offsets[1:] - 1] - seconds[offsets[:-1]]).sum() / step
    if _too_many(len(seconds), total):
        raise ValueError(
            f"{option('resample', float(step))} would make {total:.15g} steps of {len(seconds)} rows; pass a larger "
            "step."
        )
    for i, (a, b) in enumerate(pairwise(offsets.tolist())):
        piece = values[a:b] if i in samples.problems else _interpolated(seconds[a:b], values[a:b], step)
        pieces.append(np.column_stack([piece, step * np.arange(len(piece))]) if time_channel else piece)
    samples.said.append(f"interpolated linearly at steps of {stamps.shown(step)}")
    return np.concatenate(pieces), offsets_of([len(x) for x in pieces]), step
