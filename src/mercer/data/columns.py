"""Tables of any source, read by pandas, and their columns as numbers, dates, text or lists, for `read_table`."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing
from mercer._wording import option, passing
from mercer.data._forms import is_null
from mercer.data.text import MISSING, Source, Text, check_size, decoded, has_thousands, is_numeric, number, read_text

_NOT_ONLY_A_NUMBER = re.compile(r"^\s*(?:[+-]?0\d|\+|-?\d{16,}\s*$)|_", re.MULTILINE)
_LIMIT = Lock()  # the limit of the csv module, which pandas uses, belongs to the process


class Column:
    """One column: numbers, booleans or dates; or strings as they are in a file, lists, and None for missing values."""

    def __init__(self, name: str, raw: NDArray[Any], decimal: str = ".") -> None:
        self.name, self.raw, self.decimal = name, raw, decimal

    @cached_property
    def _parsed(self) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Entries as numbers, which of them are missing, and which are neither missing nor numbers."""
        if self.raw.dtype.kind == "M":
            missing = np.isnat(self.raw)
            return np.full(len(missing), np.nan), missing, ~missing
        if self.raw.dtype != object:
            numbers = self.raw.astype(np.float64)
            return numbers, np.isnan(numbers), np.zeros(len(numbers), dtype=bool)
        known: dict[str, tuple[float, bool, bool]] = {}  # equal strings are read once
        entries = []
        for x in self.raw:
            entry = known.get(x) if isinstance(x, str) else self._entry(x)
            if entry is None:
                entry = known[x] = self._entry(x)
            entries.append(entry)
        numbers, missing, bad = np.array(entries, dtype=np.float64).reshape(-1, 3).T
        return numbers, missing.astype(bool), bad.astype(bool)

    def _entry(self, x: Any) -> tuple[float, bool, bool]:
        text = isinstance(x, str)
        if x.strip().lower() in MISSING if text else is_null(x) or (isinstance(x, float) and np.isnan(x)):
            return np.nan, True, False
        try:
            return number(x, self.decimal) if text else float(x), False, False
        except (TypeError, ValueError):
            return np.nan, False, True

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Entries as numbers, NaN where they are missing or not numbers, ``(n,)``."""
        return self._parsed[0]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which entries are missing, ``(n,)``."""
        return self._parsed[1]

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which entries are neither missing nor numbers, ``(n,)``."""
        return self._parsed[2]

    @cached_property
    def kind(self) -> str:
        """The kind: "number" (mostly; `bad` marks the other entries), "date", "text", "list" or "empty"."""
        if self.raw.dtype.kind == "M":
            return "date"
        seen = self.raw[~self.missing]
        if not len(seen):
            return "empty"
        if isinstance(seen[0], list | tuple | np.ndarray):
            return "list"
        return "number" if 2 * self.bad.sum() < len(seen) else "text"

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
            shown = [repr(x).removesuffix(".0") if abs(x) < 2**53 else repr(x) for x in self.raw.tolist()]
        elif self.raw.dtype == object:
            shown = [x.strip() if isinstance(x, str) else str(x) for x in self.raw]
        else:
            shown = [str(x) for x in self.raw.tolist()] if self.raw.dtype.kind != "M" else self.raw.astype(str).tolist()
        return [None if gone else x for x, gone in zip(shown, self.missing, strict=True)]


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
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("Tables need pandas, which is not installed; run pip install 'mercer[cli]'.") from error
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return _from_file(source, separator, decimal, invalid)
    if hasattr(source, "to_table") and not hasattr(source, "columns"):  # a pyarrow dataset
        source = source.to_table()
    if hasattr(source, "collect"):  # a lazy frame of polars
        source = source.collect()
    if isinstance(source, Mapping):
        for name, column in source.items():
            if isinstance(column, str) or not is_listing(column):
                raise TypeError(f"The column {name!r} must be a list or an array; got {column!r}.")
        return _made("the table", list(source), [pd.Series(_listed(column)) for column in source.values()])
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _from_frame("the table", _with_index(source))
    if hasattr(source, "column_names") and hasattr(source, "to_pandas"):  # Arrow
        return _from_frame("the table", source.to_pandas(ignore_metadata=True))
    if hasattr(source, "get_columns"):  # polars
        return _made("the table", source.columns, [pd.Series(_listed(x.to_list())) for x in source.get_columns()])
    raise TypeError(
        "source must be a path, a folder, a pattern such as 'runs/*.csv', a list of paths, an open file, or a table of "
        f"pandas, polars or pyarrow; got an object of type {type(source).__name__}."
    )


def _listed(data: Any) -> Any:
    """Return a column for pandas; lists that are entries stay lists."""
    data = data if isinstance(data, np.ndarray) else list(data)
    if not any(isinstance(x, list | tuple | np.ndarray) for x in data):
        return data
    out = np.empty(len(data), dtype=object)
    out[:] = list(data)
    return out


def _with_index(frame: Any) -> Any:
    """Return a frame of pandas with its index as a column, which is often the id or the time."""
    if any(name is not None for name in frame.index.names):
        return frame.reset_index()
    role = {"M": "time", "O": "id", "U": "id"}.get(getattr(frame.index.dtype, "kind", ""))
    if role is None or role in frame.columns or frame.index.nlevels > 1:
        return frame
    return frame.rename_axis(index=role).reset_index()


def _from_frame(name: str, frame: Any, **more: Any) -> Columns:
    return _made(name, list(frame.columns), [frame.iloc[:, i] for i in range(frame.shape[1])], **more)


def _made(name: str, names: list[Any], series: list[Any], **more: Any) -> Columns:
    """Make columns of Series of pandas, after a check of their names and lengths."""
    columns: dict[str, Column] = {}
    for label, one in zip(names, series, strict=True):
        key = str(label).strip()
        if key in columns:
            raise ValueError(f"{name} has two columns {key!r}; rename one of them.")
        if len(one) != len(series[0]):
            raise ValueError(f"The columns of {name} must have the same length; {key!r} has {len(one)} rows.")
        raw = _array_of(one)
        odd = next((x for x in raw if isinstance(x, complex)), None) if raw.dtype == object else None
        if odd is not None:  # it would be read as text
            raise TypeError(
                f"{name}: the column {key!r} has complex numbers, such as {odd}; pass their real and imaginary parts "
                "as two columns."
            )
        columns[key] = Column(key, raw)
    out = Columns(name, columns, **more)
    if not len(out):
        raise ValueError(f"{name} has no rows; pass a table with at least one.")
    return out


def _array_of(series: Any) -> NDArray[Any]:
    """Return a Series as an array of numbers, booleans, dates (in UTC) or objects; time differences are seconds."""
    kind = getattr(series.dtype, "kind", "O")
    if kind == "M":
        plain = series.dt.tz_convert(None) if getattr(series.dt, "tz", None) is not None else series
        return np.asarray(plain.to_numpy(dtype="datetime64[ns]"))
    if kind == "m":
        series, kind = series.dt.total_seconds(), "f"
    if kind in "iub" and not series.isna().any():
        return np.asarray(series.to_numpy())
    if kind in "iuf":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series.to_numpy(dtype=object))


def _from_file(source: Any, separator: str | None, decimal: str, invalid: str) -> Columns:
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
    return _from_text(source, separator, decimal, invalid)


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
        raise ValueError(f"{path} is damaged ({str(error).splitlines()[0]}); download or copy it again.") from error
    return _from_frame(str(path), table.to_pandas(ignore_metadata=True))


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
    import pandas as pd

    names = [f"column {i + 1}" for i in range(values.shape[1])]
    return _from_frame(str(path), pd.DataFrame(values, columns=names), header=False)


def _from_text(source: Source, separator: str | None, decimal: str, invalid: str) -> Columns:
    """Read CSV, TSV and their relatives; a first line of numbers only is data, and the columns have no names."""
    text = read_text(source, "CSV or TSV", "row")
    content = decoded(text.raw)
    if content.lstrip().startswith((">", "@")):
        raise ValueError(
            f"{text.name} is not a table; read FASTA and FASTQ with mc.read_fasta, .ts files with mc.read_ts."
        )
    if not isinstance(decimal, str) or len(decimal) != 1 or decimal.isalnum():
        raise ValueError(f"decimal must be one character, '.' or ','; got {decimal!r}.")
    frame, lines, mark = _fields(text, content, separator, decimal)
    if not len(frame):
        raise ValueError(f"{text.name} contains only comments; pass a table with a header line and at least one row.")
    sizes = frame.notna().sum(axis=1).to_numpy()  # a field that is not there is NaN, an empty one is ""
    first = frame.iloc[0, : sizes[0]].tolist()
    header = not all(is_numeric(x, decimal) for x in first)
    names = [f"column {i + 1}" for i in range(len(first))]
    if header:
        names = [re.sub(r"\s*\n\s*", " ", x.strip()) or name for x, name in zip(first, names, strict=True)]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise text.error(lines[0], f"the column {twice!r} occurs twice in the header; rename one of them.")
    if len(frame.columns) > len(names):  # a separator at the end of the line
        sizes = sizes - ((sizes == len(names) + 1) & (frame[len(names)].fillna("").str.strip() == "").to_numpy())
    kept = sizes == len(names)
    problems: dict[str | int, str] = {}
    for row in np.flatnonzero(~kept).tolist():
        error = text.error(
            lines[row],
            f"the line has {sizes[row]} fields, but the {'header' if header else 'first line'} has {len(names)}; "
            f"write one field per column, and quote fields that contain {mark!r}.",
        )
        if invalid == "raise":
            raise error
        problems[f"line {lines[row]}"] = str(error)
    kept[0] &= not header
    if not kept.any():
        raise ValueError(f"{text.name} has a header line, but no rows; pass a table with at least one.")
    raws = [_packed(frame[i].to_numpy()[kept], decimal) for i in range(len(names))]
    columns = {name: Column(name, raw, decimal) for name, raw in zip(names, raws, strict=True)}
    return Columns(text.name, columns, lines[kept], header, problems)


def _fields(text: Text, content: str, separator: str | None, decimal: str) -> tuple[Any, NDArray[np.int64], str]:
    """Return the fields of all rows, NaN after the last one of a row, the lines of the rows, and the separator."""
    import pandas as pd

    rows = content.split("\n")
    filled = (x for x in rows if x.strip() and not x.startswith("#"))
    header, row = next(filled, ""), next(filled, "")
    other = next((x for x in "\t,;| " if x in header.strip() and x in row.strip()), None)
    if separator and separator not in header and other is not None:
        raise ValueError(
            f"{text.name}: {option('separator', separator)} does not occur in the header, {header.strip()[:40]!r}; "
            f"{passing('separator', other)}, or leave it out."
        )
    if not separator and "\t" in header:
        separator = "\t"
    elif not separator and (header.count(";") > header.count(",") or (decimal == "," and ";" in header)):
        separator = ";"
    elif not separator and " " in header.strip() and "," not in header:  # white space
        rows, separator = ["\t".join(x.split()) for x in rows], "\t"
    separator = separator or ","
    most = max(x.count(separator) for x in rows) + 1
    with _LIMIT:
        before = csv.field_size_limit(sys.maxsize)  # a field may be a long sequence
        try:
            frame = pd.read_csv(
                io.StringIO("\n".join(rows)),
                sep=separator if len(separator) == 1 else re.escape(separator),
                header=None,
                names=range(most),
                index_col=False,
                dtype=object,
                na_filter=False,
                skip_blank_lines=False,
                skipinitialspace='"' in content,
                engine="python",  # which tells rows that are too short
            )
        except pd.errors.ParserError as error:
            line = next((i for i, x in enumerate(rows, start=1) if x.count('"') % 2), 1)
            raise text.error(
                line, f"the quotes do not match ({error}); close every quote, and double quotes inside a field."
            ) from None
        finally:
            csv.field_size_limit(before)
    lines = np.arange(1, len(frame) + 1)
    if '"' in content:  # a break inside of quotes belongs to the field
        breaks = sum(frame[i].str.count("\n").fillna(0).to_numpy(dtype=np.int64) for i in range(most))
        lines[1:] += np.cumsum(breaks)[:-1]
    kept = np.array([isinstance(x, str) and bool(x.strip()) and not x.startswith("#") for x in frame[0]])
    for i in np.flatnonzero(~kept).tolist():  # the first field of a row may be empty
        fields = frame.iloc[i].dropna().tolist()
        kept[i] = any(x.strip() for x in fields) and not fields[0].startswith("#")
    return frame[kept], lines[kept], separator


def _packed(texts: NDArray[Any], decimal: str) -> NDArray[Any]:
    """Return numbers as such; what another text could mean, such as the id 007 or a long integer, stays text."""
    if decimal == "." and not _NOT_ONLY_A_NUMBER.search("\n".join(texts)):
        with suppress(ValueError):
            return np.array(list(map(float, texts)))
        with suppress(ValueError):
            return np.array([float("nan" if x.strip().lower() in MISSING else x) for x in texts])
    return texts
