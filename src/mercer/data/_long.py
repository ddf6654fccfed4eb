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
from mercer._wording import SEVERAL, option, passing, wording
from mercer.data._container import naming
from mercer.data._forms import Flat, Kind
from mercer.data._samples import Samples, counted, is_text, rows_of_ids
from mercer.data.columns import Column, Columns
from mercer.data.ragged import offsets_of
from mercer.data.roles import Roles

_TOLERANCE = 0.05
"""Largest distance of a stamp from the grid, in steps, for a grid to be called regular."""
_LARGEST_FILL = 20
"""Largest factor by which absent steps may lengthen the series; more is a wrong stamp or a wrong column."""


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
    import pandas as pd

    texts = pd.Series(column.text if column.kind != "date" else column.raw)
    zoned = texts.astype(str).str.contains(r":\d\d.*(?:Z|[+-]\d\d:?\d*)$")  # apart: pandas 2.2 lends a zone to others
    parts = [pd.to_datetime(texts[which], format="ISO8601", utc=True, errors="coerce") for which in (zoned, ~zoned)]
    dates = pd.concat(parts).sort_index().dt.tz_localize(None)
    moments = dates.to_numpy(dtype="datetime64[ns]")
    known = ~np.isnat(moments)
    seconds = (dates - dates.min()).dt.total_seconds().to_numpy()
    return Stamps(seconds, ~known & ~column.missing, True, _months(moments[known], known))


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
    if isinstance(resample, str) and resample == "auto":
        if not len(gaps):
            raise ValueError(f"{option('resample', 'auto')} needs a series with two time stamps; pass a number.")
        return float(np.median(gaps))
    step = resample
    if isinstance(resample, str) and stamps.dates and resample.strip()[-1:].isalpha():
        import pandas as pd

        with suppress(ValueError):
            step = pd.Timedelta(resample).total_seconds()
    if not is_number(step) or not 0 < step < np.inf:
        kinds = "a positive number, 'auto', or for dates a duration such as '10s', '5min', '1h' or '1d'"
        raise ValueError(f"{wording().must_be('resample', kinds)}; got {resample!r}.")
    return float(step)


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


_MONTH = 28 * 86400.0


@dataclass
class Series:
    """Content of a table: flat values or a matrix of counts, the names of their channels, and the step of the grid."""

    flat: Any
    channels: tuple[str, ...]
    step: float | None = None


def long_series(
    table: Columns, roles: Roles, kind: str | None, resample: Any, time_channel: bool, invalid: str
) -> tuple[Samples, Series]:
    """Read a table with one row per time step."""
    samples = rows_of_ids(table, roles.id, invalid)
    if "values" in roles.guessed:
        roles = _varying(samples, roles)
    symbols = kind == "symbols" or (kind is None and [is_text(table.columns[x]) for x in roles.values] == [True])
    if roles.time is None:
        samples.said.append("steps in the order of the rows")
        values = _values(samples, roles.values, symbols)
        return samples, _series(values, samples.offsets, symbols, roles.values)
    stamps = _sorted(samples, roles.time)
    values = _values(samples, roles.values, symbols)
    if symbols and (resample is not None or time_channel):
        raise ValueError("resample and time_channel need numbers; the values are symbols. Leave them out.")
    return samples, _on_time(samples, roles, stamps, values, symbols, resample, time_channel)


def _varying(samples: Samples, roles: Roles) -> Roles:
    """Leave out columns that are constant in every series and differ between them: the age is not a channel."""
    fixed = []
    for name in roles.values:
        column = samples.table.columns[name]
        numbers, starts = column.numbers[samples.order], samples.offsets[:-1]
        low, high = np.fmin.reduceat(numbers, starts), np.fmax.reduceat(numbers, starts)
        if column.kind == "number" and not (low < high).any() and len(np.unique(low[~np.isnan(low)])) > 1:
            fixed.append(name)
    if not fixed or len(fixed) == len(roles.values):  # without another column, it is the series
        return roles
    shown = ", ".join(map(repr, fixed[:6])) + (", ..." if len(fixed) > 6 else "")
    one = len(fixed) == 1
    how = "is constant in every series and not a channel" if one else "are constant in every series and not channels"
    samples.said.append(
        f"{shown} {how}; {option('values')} or {option('covariates')} would use {'it' if one else 'them'}"
    )
    samples.unused = tuple(fixed)
    return replace(roles, values=tuple(name for name in roles.values if name not in fixed))


def _values(samples: Samples, names: tuple[str, ...], symbols: bool) -> NDArray[Any]:
    """Return the values of all rows in the order of the samples, ``(T, d)``, or ``(T,)`` objects for symbols."""
    columns = [samples.table.columns[name] for name in names]
    if symbols:
        if len(columns) > 1:
            raise ValueError(f"Symbols come from one column; got {option('values', list(names))}. Pass one of them.")
        tokens: list[Any] = list(columns[0].text)
        if columns[0].kind == "number" and not columns[0].bad.any() and not (columns[0].numbers % 1 > 0).any():
            tokens = [None if np.isnan(x) else int(x) for x in columns[0].numbers]
        out = np.empty(len(tokens), dtype=object)
        out[:] = tokens
        return out[samples.order]
    return np.stack([samples.numbers(name) for name in names], axis=1)[samples.order]


def _series(
    values: NDArray[Any], offsets: NDArray[np.int64], symbols: bool, names: tuple[str, ...], step: float | None = None
) -> Series:
    kind: Kind = "tokens" if symbols else "vectors"
    return Series(Flat(kind, values, offsets), () if symbols else names, step)


def _sorted(samples: Samples, name: str) -> Stamps:
    """Sort the rows of every sample by time; missing, unreadable and equal stamps become problems."""
    table, column = samples.table, samples.table.columns[name]
    stamps = stamps_of(column)
    samples.fail(
        np.flatnonzero(stamps.bad),
        lambda row: (
            f"has the time {str(column.raw[row])[:30]!r}, which is neither a number nor an ISO date such as "
            f"2024-01-31T10:00; convert it, or {passing('time', False)} to take the rows in their order."
        ),
    )
    samples.fail(
        np.flatnonzero(np.isnan(stamps.seconds) & ~stamps.bad),
        lambda row: (
            f"has no time, column {name!r}; add it, or {passing('time', False)} to take the rows in their order."
        ),
    )
    seconds = stamps.seconds[samples.order]
    owners = np.repeat(np.arange(len(samples)), np.diff(samples.offsets))
    order = np.lexsort((np.arange(len(owners)), seconds, owners))
    if (np.diff(order) != 1).any():
        samples.said.append("rows sorted by time")
    samples.order, seconds = samples.order[order], seconds[order]
    equal = np.flatnonzero((np.diff(seconds) == 0) & (np.diff(owners) == 0))
    for at in equal.tolist():
        a, b = samples.order[at], samples.order[at + 1]
        text = (
            f"has two rows at the time {column.text[a]} ({table.place(a)} and {table.place(b)}); remove one, or "
            f"{passing('id', SEVERAL)} with all columns that name a series."
        )
        samples.wrong(int(owners[at]), text)
    return stamps


def _on_time(
    samples: Samples,
    roles: Roles,
    stamps: Stamps,
    values: NDArray[Any],
    symbols: bool,
    resample: Any,
    time_channel: bool,
) -> Series:
    """Put the values on the grid of their time stamps."""
    offsets, name = samples.offsets, str(roles.time)
    seconds = stamps.seconds[samples.order]
    good = ~np.isin(np.repeat(np.arange(len(samples)), np.diff(offsets)), list(samples.problems))
    inside = np.ones(max(len(seconds) - 1, 0), dtype=bool)
    inside[offsets[1:-1] - 1] = False
    inside &= good[1:] & good[:-1]
    gaps = np.diff(seconds)[inside]
    if resample is not None:
        return _resampled(samples, roles, stamps, seconds, values, interval(resample, stamps, gaps), time_channel)
    step, ticks = step_of(gaps), seconds
    size = step
    if stamps.months is not None and len(gaps) and gaps.min() >= _MONTH:  # months differ in their days
        step, ticks = None, stamps.months[samples.order]
        size = step_of(np.diff(ticks)[inside])
    if time_channel:
        start = np.repeat(seconds[offsets[:-1]], np.diff(offsets))
        values = np.concatenate([values, (seconds - start)[:, None]], axis=1)
        samples.said.append("the time since the start of each series is the last channel")
        return Series(Flat("vectors", values, offsets), (*roles.values, name), step)
    if size is None and len(gaps):
        few, many = stamps.shown(float(gaps.min())), stamps.shown(float(gaps.max()))
        samples.said.append(f"time stamps irregular ({few} to {many} apart), taken as equal steps")
        notify(
            f"{samples.table.name}: the time stamps, column {name!r}, are irregular, {few} to {many} apart, and are "
            f"taken as equal steps. {passing('resample', 'auto', start=True)} (or a step) to interpolate, or "
            f"{option('time_channel', True)} to keep the times as a channel."
        )
        return _series(values, offsets, symbols, roles.values)
    if size is None:
        return _series(values, offsets, symbols, roles.values)
    return _with_gaps(samples, roles, stamps, ticks, values, symbols, size, step)


def _with_gaps(
    samples: Samples,
    roles: Roles,
    stamps: Stamps,
    ticks: Floats,
    values: NDArray[Any],
    symbols: bool,
    size: float,
    step: float | None,
) -> Series:
    """Insert missing values at the absent steps of a regular grid."""
    offsets = samples.offsets
    steps = np.zeros(len(ticks), dtype=np.int64)
    steps[1:] = np.round(np.nan_to_num(np.diff(ticks)) / size)  # each gap by itself: small errors must not add up
    steps[offsets[:-1]] = 0
    bad = np.isin(np.repeat(np.arange(len(samples)), np.diff(offsets)), list(samples.problems))
    steps[bad] = 0
    total = np.cumsum(steps)
    places = total - np.repeat(total[offsets[:-1]], np.diff(offsets))
    if bad.any():  # problems are left out later; their rows keep their places
        places[bad] = (np.arange(len(ticks)) - np.repeat(offsets[:-1], np.diff(offsets)))[bad]
    lengths = np.maximum.reduceat(places, offsets[:-1]) + 1
    shown = stamps.shown(size) if step is not None else counted(size, "month")
    if too_many(len(ticks), int(lengths.sum())):
        i = int(np.argmax(lengths - np.diff(offsets)))
        raise ValueError(
            f"{samples.table.name}: {naming(samples.names, i)} has {offsets[i + 1] - offsets[i]} rows, but its time "
            f"stamps, column {roles.time!r}, span {lengths[i]} steps of {shown}; check them, "
            f"{passing('resample')} with a larger step, or {option('time', False)} to take the rows in their order."
        )
    new = offsets_of(lengths)
    where = places + np.repeat(new[:-1], np.diff(offsets))
    absent = int(new[-1]) - len(ticks)
    samples.said.append(
        f"regular steps of {shown}" + (f", missing values at {counted(absent, 'absent step')}" if absent else "")
    )
    if not absent:
        return _series(values, offsets, symbols, roles.values, step)
    out: NDArray[Any] = (
        np.full(int(new[-1]), None, dtype=object) if symbols else np.full((int(new[-1]), values.shape[1]), np.nan)
    )
    out[where] = values
    return _series(out, new, symbols, roles.values, step)


def _resampled(
    samples: Samples, roles: Roles, stamps: Stamps, seconds: Floats, values: Floats, step: float, time_channel: bool
) -> Series:
    """Interpolate all series on a grid of the given step."""
    offsets, pieces = samples.offsets, []
    spans = (seconds[offsets[1:] - 1] - seconds[offsets[:-1]]) / step
    if too_many(len(seconds), int(np.nan_to_num(spans).sum())):
        raise ValueError(
            f"{option('resample', float(step))} would make {int(np.nan_to_num(spans).sum())} steps of {len(seconds)} "
            "rows; pass a larger step."
        )
    for i, (a, b) in enumerate(pairwise(offsets.tolist())):
        piece = values[a:b] if i in samples.problems else interpolated(seconds[a:b], values[a:b], step)
        if time_channel:
            piece = np.concatenate([piece, step * np.arange(len(piece))[:, None]], axis=1)
        pieces.append(piece)
    samples.said.append(f"interpolated linearly at steps of {stamps.shown(step)}")
    channels = (*roles.values, str(roles.time)) if time_channel else roles.values
    return Series(Flat("vectors", np.concatenate(pieces), offsets_of([len(x) for x in pieces])), channels, step)
