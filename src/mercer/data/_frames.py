"""What a DataFrame holds: one row per series, one recording, or several of them, and which columns are the time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

_DATES = re.compile(r"date|timestamp|period", re.IGNORECASE)
_NUMBERS = re.compile(r"u?int|float|double|halffloat|bool|duration|timedelta", re.IGNORECASE)
"""How the types of numbers begin, in pandas, polars and Arrow."""


def is_frame(data: Any) -> bool:
    """Whether an object is a table with named columns of pandas, polars or Arrow."""
    library = type(data).__module__.partition(".")[0]
    if library == "pyarrow":
        return hasattr(data, "column_names")
    return hasattr(data, "columns") and (
        hasattr(data, "iloc") or (library == "polars" and hasattr(data, "get_columns"))
    )


def is_panel(data: Any) -> bool:
    """Whether the rows of a DataFrame of pandas have several keys, which may be the series and the time."""
    return is_frame(data) and hasattr(data, "iloc") and data.index.nlevels > 1


def is_nested(data: Any) -> bool:
    """Whether every cell of a DataFrame of pandas is a series, judged by its first row."""
    if not is_frame(data) or not hasattr(data, "iloc") or not len(data) or set(data.dtypes) != {np.dtype(object)}:
        return False
    return all(isinstance(cell, list | tuple | np.ndarray) or hasattr(cell, "iloc") for cell in data.iloc[0])


def dtypes_of(frame: Any) -> dict[Any, str]:
    """Return the types of the columns of a table of pandas, polars or Arrow."""
    if hasattr(frame, "column_names"):
        return dict(zip(frame.column_names, map(str, frame.schema.types), strict=True))
    return dict(zip(frame.columns, map(str, frame.dtypes), strict=True))


def is_plain(frame: Any) -> bool:
    """Whether a recording has neither text, nor a time."""
    numbers = all(_NUMBERS.match(dtype) for dtype in dtypes_of(frame).values())
    return numbers and not index_is_time(frame) and not time_columns(frame)


def time_columns(frame: Any) -> list[Any]:
    """Return the columns of a recording that are named like a time, and those of dates."""
    dtypes = dtypes_of(frame)
    named = _named_times(tuple(map(str, dtypes)))
    return [x for x, dtype in dtypes.items() if str(x) in named or _is_date(frame, x, dtype)]


def channels_of(frame: Any) -> list[Any]:
    """Return the columns of a recording that are not the time."""
    times = time_columns(frame)
    return [x for x in dtypes_of(frame) if x not in times]


def index_is_time(frame: Any) -> bool:
    """Whether the index of a DataFrame has dates, periods or durations, or the name of a time."""
    if not hasattr(frame, "iloc"):  # only pandas has an index
        return False
    index = frame.index
    if index.nlevels > 1:
        return True
    named = index.name is not None and _named_times((str(index.name),))
    return bool(named) or hasattr(index, "to_timestamp") or getattr(index.dtype, "kind", "") in "mM"


@lru_cache
def _named_times(names: tuple[str, ...]) -> frozenset[str]:
    from mercer.data.roles import STRONG_TIMES, plain

    return frozenset(name for name in names if plain(name) in STRONG_TIMES)


def _is_date(frame: Any, name: Any, dtype: str) -> bool:
    if _NUMBERS.match(dtype):
        return False
    if _DATES.match(dtype):
        return True
    from mercer.data.columns import Column, frame_of

    column = frame_of(frame)[name]
    return column.ndim == 1 and Column(column).kind == "date"
