"""Columns of a table, from files and from the tables of other libraries, in one form for `read_table`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing
from mercer._wording import passing
from mercer.data._forms import is_null
from mercer.data.text import MISSING, check_size, has_thousands, number

Kind: TypeAlias = Literal["number", "date", "text", "list", "empty"]


class Column:
    """One column: numbers, dates, text or lists, with missing values.

    Parameters
    ----------
    name : str
        Name in the header.
    raw : ndarray of shape (n,)
        Numbers, booleans or dates; or objects: strings as they are in a file, lists, and None for missing values.
    decimal : str, default="."
        Decimal mark of numbers that are strings.
    """

    def __init__(self, name: str, raw: NDArray[Any], decimal: str = ".") -> None:
        self.name, self.raw, self.decimal = name, raw, decimal

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which entries are missing, ``(n,)``."""
        if self.raw.dtype.kind == "M":
            return np.isnat(self.raw)
        if self.raw.dtype == object and self._plain_numbers is None:
            return np.array([gone for gone, _ in self._entries], dtype=bool)
        return np.isnan(self.numbers) if self.raw.dtype.kind in "fO" else np.zeros(len(self.raw), dtype=bool)

    @cached_property
    def _plain_numbers(self) -> NDArray[np.float64] | None:
        """Entries that are all strings of numbers (or "nan"), parsed at once; None for any other column."""
        if self.decimal != "." or not all(isinstance(x, str) and "_" not in x for x in self.raw):
            return None
        try:
            return np.array(list(map(float, self.raw)))
        except ValueError:
            return None

    @cached_property
    def _entries(self) -> list[tuple[bool, float | None]]:
        """Whether every entry is missing, and its number (None if it is not one); equal strings are read once."""
        known: dict[str, tuple[bool, float | None]] = {}
        out = []
        for x in self.raw:
            if isinstance(x, str):
                entry = known.get(x)
                if entry is None:
                    entry = known[x] = self._entry(x)
                out.append(entry)
            else:
                out.append(self._entry(x))
        return out

    def _entry(self, x: Any) -> tuple[bool, float | None]:
        if _is_missing(x):
            return True, float("nan")
        try:
            return False, self._number(x)
        except (TypeError, ValueError):
            return False, None

    @cached_property
    def kind(self) -> Kind:
        """Kind of the column; mostly numbers is "number", and `bad` marks the other entries."""
        if self.raw.dtype.kind in "iufb":
            return "empty" if self.missing.all() else "number"
        if self.raw.dtype.kind == "M":
            return "date"
        seen = self.raw[~self.missing]
        if not len(seen):
            return "empty"
        if isinstance(seen[0], list | tuple | np.ndarray):
            return "list"
        return "number" if 2 * self.bad.sum() < len(seen) else "text"

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Entries as numbers, NaN where they are missing or not numbers, ``(n,)``."""
        return self._parsed[0]

    @cached_property
    def bad(self) -> NDArray[np.bool_]:
        """Which entries are neither missing nor numbers, ``(n,)``."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        none = np.zeros(len(self.raw), dtype=bool)
        if self.raw.dtype.kind in "iufb":
            return self.raw.astype(np.float64), none
        out = np.full(len(self.raw), np.nan)
        if self.raw.dtype.kind == "M":
            return out, ~self.missing
        if self._plain_numbers is not None:
            return self._plain_numbers, none
        values = [value for _, value in self._entries]
        bad = np.array([value is None for value in values], dtype=bool)
        return np.array([np.nan if value is None else value for value in values]), bad

    def _number(self, x: Any) -> float:
        if not isinstance(x, str):
            return float(x)
        return number(x, self.decimal)

    @cached_property
    def mark_cure(self) -> str:
        """What to do about the commas and points in numbers that cannot be read, a clause; "" if there is nothing."""
        odd = list(dict.fromkeys(x for x, bad in zip(self.text, self.bad, strict=True) if bad and x is not None))
        points = self.decimal == "."
        commas = [x for x in odd if points and re.fullmatch(r"[+-]?\d+,\d+", x)]
        european = [x for x in odd if has_thousands(x, ",")]
        either_way = {*commas, *european}
        marked = [x for x in odd if x in either_way or has_thousands(x, self.decimal)]
        if 2 * len(marked) <= len(odd):
            return ""
        fraction = next((x for x in commas if not has_thousands(x, ".")), None)
        if fraction is not None and len(commas) == len(marked):
            return f"contains {fraction!r}; {passing('decimal', ',')} to read it as a number"
        mark, first = (".", european[0]) if european else (",", marked[0])
        bare = first.replace(mark, "")
        cure = f"write {bare!r}" + (f" and {passing('decimal', ',')}" if points and "," in bare else "")
        if len(commas) == len(marked) and not any("." in x for x in self.text if x is not None):
            cure += f", or {passing('decimal', ',')} if the comma is the decimal mark"
        return f"contains {first!r}, where {mark!r} may separate thousands; {cure}"

    @cached_property
    def text(self) -> list[str | None]:
        """Entries as they are written; None where they are missing."""
        if self.raw.dtype.kind == "f":  # whole numbers without a point: the ids 1.0, 2.0 of a column with gaps
            shown = [
                str(int(x)) if abs(x) < 2**53 and x == np.floor(x) else repr(float(x))
                for x in np.where(np.isnan(self.raw), 0.0, self.raw)
            ]
        elif self.raw.dtype == object:
            shown = [x.strip() if isinstance(x, str) else str(x) for x in self.raw]
        else:
            shown = [str(x) for x in self.raw.tolist()] if self.raw.dtype.kind != "M" else self.raw.astype(str).tolist()
        return [None if gone else x for x, gone in zip(shown, self.missing, strict=True)]


def _is_missing(x: Any) -> bool:
    if isinstance(x, str):
        return x.strip().lower() in MISSING
    return is_null(x) or (isinstance(x, float | np.floating) and bool(np.isnan(x)))


@dataclass
class Columns:
    """Columns of equal length, the name of the table for messages, and the place of every row in its file."""

    name: str
    columns: dict[str, Column]
    lines: NDArray[np.int64] | None = None
    """Line of every row in its file, counted from 1; None for a table in memory."""
    header: bool = True
    """Whether the columns were named; else their names are "column 1", "column 2", ..."""
    problems: dict[str | int, str] = field(default_factory=dict)
    """Rows that were left out, with the reason."""
    files: NDArray[Any] | None = None
    """File of every row, if there are several."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).raw) if self.columns else 0

    def place(self, row: int) -> str:
        """Return where a row is, for messages: "line 7" of a file, "row 6" of a table."""
        place = f"row {int(row)}" if self.lines is None else f"line {int(self.lines[row])}"
        return place if self.files is None else f"{self.files[row]}, {place}"

    def error(self, row: int, sentence: str) -> ValueError:
        """Return a ValueError about a row."""
        return ValueError(f"{self.name}, {self.place(row)}: {sentence}")


def columns_of(source: Any, separator: str | None = None, decimal: str = ".", invalid: str = "raise") -> Columns:
    """Read a table from a path, an open file, pandas, polars, Arrow or a mapping of columns."""
    if isinstance(source, Columns):
        return source
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return _from_file(source, separator, decimal, invalid)
    if hasattr(source, "to_table") and not hasattr(source, "columns"):  # a pyarrow dataset
        source = source.to_table()
    library = type(source).__module__.partition(".")[0]
    if isinstance(source, Mapping):
        for name, column in source.items():
            if isinstance(column, str) or not is_listing(column):
                raise TypeError(f"The column {name!r} must be a list or an array; got {column!r}.")
        return _made("the table", source.keys(), [_plain(x) for x in source.values()])
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _from_pandas(source)
    if library == "polars" and hasattr(source, "collect"):  # a lazy frame
        source = source.collect()
    if library == "pyarrow" and hasattr(source, "column_names"):
        return _made("the table", source.column_names, [_from_arrow(x) for x in source.columns])
    if hasattr(source, "get_columns"):
        return _made("the table", source.columns, [_from_polars(x) for x in source.get_columns()])
    raise TypeError(
        "source must be a path, a folder, a pattern such as 'runs/*.csv', a list of paths, an open file, or a table of "
        f"pandas, polars or pyarrow; got an object of type {type(source).__name__}."
    )


def _made(name: str, names: Iterable[Any], arrays: list[NDArray[Any]], **more: Any) -> Columns:
    """Make columns after a check of their names and lengths."""
    columns: dict[str, Column] = {}
    for label, raw in zip(names, arrays, strict=True):
        key = str(label).strip()
        if key in columns:
            raise ValueError(f"{name} has two columns {key!r}; rename one of them.")
        if columns and len(raw) != len(next(iter(columns.values())).raw):
            raise ValueError(f"The columns of {name} must have the same length; {key!r} has {len(raw)} rows.")
        _check_real(name, key, raw)
        columns[key] = Column(key, raw)
    out = Columns(name, columns, **more)
    if not len(out):
        raise ValueError(f"{name} has no rows; pass a table with at least one.")
    return out


def _check_real(name: str, key: str, raw: NDArray[Any]) -> None:
    """Raise if a column has complex numbers, which would be read as text."""
    odd = next((x for x in raw if isinstance(x, complex | np.complexfloating)), None) if raw.dtype == object else None
    if odd is not None:
        raise TypeError(
            f"{name}: the column {key!r} has complex numbers, such as {odd}; pass their real and imaginary parts as "
            "two columns."
        )


def _plain(data: Any) -> NDArray[Any]:
    """Convert one column to an array of numbers, dates or objects."""
    if not isinstance(data, np.ndarray):
        data = list(data)
        if data and any(isinstance(x, list | tuple | np.ndarray) for x in data):
            out = np.empty(len(data), dtype=object)
            out[:] = data
            return out
        data = np.asarray(data, dtype=object if any(is_null(x) or isinstance(x, str) for x in data) else None)
    if data.dtype.kind in "iufbMO":
        return data if data.dtype.kind != "f" else data.astype(np.float64)
    if data.dtype.kind == "m":
        return np.where(np.isnat(data), np.nan, data / np.timedelta64(1, "s"))
    return np.asarray(data.astype(object))


def _from_pandas(frame: Any) -> Columns:
    name = _index_name(frame)
    if name is not None:  # the id or the time is often the index
        frame = frame.reset_index() if not name else frame.rename_axis(index=name).reset_index()
    arrays = []
    for i in range(frame.shape[1]):
        series = frame.iloc[:, i]
        kind = getattr(series.dtype, "kind", "O")
        if kind == "M":  # time zones: the same instant in UTC
            raw = series.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(series.dt, "tz", None) else series
            arrays.append(raw.to_numpy(dtype="datetime64[ns]"))
        elif kind in "iufb" and not series.isna().any():
            arrays.append(series.to_numpy(dtype=None if kind != "f" else np.float64))
        elif kind in "iuf":
            arrays.append(series.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            arrays.append(_plain(series.to_numpy(dtype=object) if kind != "m" else series.to_numpy()))
    return _made("the table", frame.columns, arrays)


def _index_name(frame: Any) -> str | None:
    """Return "" for an index with a name, the role of an index of dates or text without a name, else None."""
    if any(name is not None for name in frame.index.names):
        return ""
    role = {"M": "time", "O": "id"}.get(getattr(frame.index.dtype, "kind", ""))
    return role if role is not None and role not in frame.columns and frame.index.nlevels == 1 else None


def _from_polars(series: Any) -> NDArray[Any]:
    name = str(series.dtype)
    if name.startswith(("Int", "UInt", "Float", "Decimal")):
        return (
            np.asarray(series.cast(type(series)([0.0]).dtype).to_numpy()) if series.null_count() else series.to_numpy()
        )
    if name.startswith(("Date", "Datetime")):
        return np.array([None if x is None else _utc(x) for x in series.to_list()], dtype="datetime64[ns]")
    return _plain(series.to_list())


def _utc(x: Any) -> Any:
    from datetime import UTC

    return x.astimezone(UTC).replace(tzinfo=None) if getattr(x, "tzinfo", None) else x


def _from_arrow(column: Any) -> NDArray[Any]:
    import pyarrow.types as types

    t = column.type
    if types.is_integer(t) or types.is_floating(t):
        return np.asarray(column.to_numpy())  # a null becomes NaN
    if types.is_temporal(t) and not types.is_duration(t) and not types.is_time(t):
        return np.array([None if x is None else _utc(x) for x in column.to_pylist()], dtype="datetime64[ns]")
    return _plain(column.to_pylist())


def _from_file(source: Any, separator: str | None, decimal: str, invalid: str) -> Columns:
    from mercer.data.delimited import read_delimited

    start = b""
    if isinstance(source, str | os.PathLike) and Path(source).is_file():
        with Path(source).open("rb") as file:
            start = file.read(8)
    if start.startswith((b"PAR1", b"ARROW1")):
        return _from_columnar(Path(source), start.startswith(b"PAR1"))
    if start.startswith(b"PK\x03\x04") or start.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(f"{source} is a spreadsheet or an archive; save it as CSV, or pass pandas.read_excel(...).")
    if start.startswith(b"\x93NUMPY"):
        return _from_npy(Path(source))
    return read_delimited(source, separator, decimal, invalid)


def _from_columnar(path: Path, parquet: bool) -> Columns:
    check_size(path)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow, which is not installed; run pip install pyarrow.") from error
    try:
        if parquet:
            metadata = pq.ParquetFile(path).metadata
            groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
            check_size(path, sum(group.total_byte_size for group in groups))
            table = pq.read_table(path)
        else:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ValueError(f"{path} is damaged ({reason}); download or copy it again.") from error
    return _made(str(path), table.column_names, [_from_arrow(x) for x in table.columns])


def _from_npy(path: Path) -> Columns:
    """Read a matrix with one row per time step from NumPy's own file."""
    check_size(path)
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{path} cannot be read ({str(error).rstrip('.')}); save plain numbers with np.save."
        ) from error
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must contain a matrix of numbers; got shape {values.shape}, dtype {values.dtype}.")
    names = [f"column {i + 1}" for i in range(values.shape[1])]
    return _made(str(path), names, list(values.T), header=False)
