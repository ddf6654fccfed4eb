"""Tables of any source as one frame of pandas, which parses its columns, for `read_table`."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats, Mask
from mercer._checks import is_listing
from mercer._wording import option, passing
from mercer.data.text import MISSING, Source, check_size, decoded, is_numeric, read_text

_NUMBERED = re.compile(r"(.*?)[\s_.\-\[(]*(\d+)[\])]?")
_STAMP = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LIMIT = Lock()  # the limit of the csv module belongs to the process
_ISO = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8}(?=T))(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)? ?(?:Z|[+-]\d\d:?(?:\d\d)?)?)?"
)
"""A full ISO date, with or without the time of day."""


@dataclass(frozen=True)
class Column:
    """One column of a frame: as numbers, and as text."""

    raw: Any
    """A Series of pandas."""
    decimal: str = "."

    @cached_property
    def _parsed(self) -> tuple[Floats, Mask, Mask]:
        """Entries as numbers, which of them are missing, and which are neither missing nor numbers."""
        import pandas as pd

        raw = self.raw.dt.total_seconds() if self.raw.dtype.kind == "m" else self.raw
        if pd.api.types.is_numeric_dtype(raw):
            numbers = raw.to_numpy(dtype=np.float64, na_value=np.nan)
            return numbers, np.isnan(numbers), np.zeros(len(numbers), dtype=bool)
        if self.decimal == ".":
            with suppress(ValueError, TypeError):  # fast, where all entries are numbers or empty
                numbers = _as_numbers(raw, "raise")
                return numbers, np.isnan(numbers), np.zeros(len(numbers), dtype=bool)
        strings = raw.astype(object).map(_stripped, na_action="ignore")
        missing = strings.isna().to_numpy()
        if raw.dtype.kind == "M" or self._holds_lists(strings[~missing]):
            return np.full(len(raw), np.nan), missing, ~missing
        if self.decimal != ".":  # a point separates thousands then, which are refused
            strings = strings.map(lambda x: x.replace(".", "_").replace(self.decimal, "."), na_action="ignore")
        numbers = _as_numbers(strings, "coerce")
        return numbers, missing, np.isnan(numbers) & ~missing

    @staticmethod
    def _holds_lists(seen: Any) -> bool:
        import pandas as pd

        return len(seen) > 0 and isinstance(seen.iloc[0], list | tuple | np.ndarray | pd.Series)

    @property
    def numbers(self) -> Floats:
        """Entries as numbers, NaN where they are missing or not numbers, ``(n,)``."""
        return self._parsed[0]

    @property
    def missing(self) -> Mask:
        """Which entries are missing, ``(n,)``."""
        return self._parsed[1]

    @property
    def bad(self) -> Mask:
        """Which entries are neither missing nor numbers, ``(n,)``."""
        return self._parsed[2]

    @cached_property
    def kind(self) -> str:
        """The kind: "number" or "date" (both mostly: other entries may be errors), "text", "list" or "empty"."""
        seen = self.raw[~self.missing]
        if not len(seen) or self.raw.dtype.kind == "M":
            return "date" if self.raw.dtype.kind == "M" else "empty"
        if self._holds_lists(seen):
            return "list"
        if 2 * self.bad.sum() < len(seen):
            return "number"
        texts = set(self.text[~self.missing])
        return "date" if 2 * sum(_ISO.fullmatch(x) is not None for x in texts) > len(texts) else "text"

    @property
    def is_text(self) -> bool:
        """Whether the column is text, rather than numbers with commas or points that cannot be read."""
        return self.kind == "text" and not self.cure

    @cached_property
    def cure(self) -> str:
        """What to do about the commas and points in numbers that cannot be read, a clause; "" if there is nothing."""
        odd = dict.fromkeys(self.text[self.bad])
        marked = [x for x in odd if re.fullmatch(r"[+-]?\d[\d.,]*", x)]
        if 2 * len(marked) <= len(odd):
            return ""
        comma = f", or {passing('decimal', ',')} if the comma is the decimal mark" if self.decimal == "." else ""
        return f"contains {marked[0]!r}; write numbers without separators of thousands{comma}"

    @cached_property
    def text(self) -> NDArray[Any]:
        """Entries as they are written, without blanks around them; None where they are missing."""
        if self.raw.dtype.kind == "f":  # whole numbers without a point: the ids 1.0, 2.0 of a column with gaps
            shown = np.array([repr(x).removesuffix(".0") for x in self.raw.astype(float)], dtype=object)
        else:
            shown = self.raw.astype(str).str.strip().to_numpy(dtype=object, copy=True)
        shown[self.missing] = None
        return shown


def _as_numbers(strings: Any, errors: Literal["raise", "coerce"]) -> Floats:
    """Parse a Series as pandas does, but to the last digit, which pandas before version 3 can lose."""
    import pandas as pd

    numbers = pd.to_numeric(strings, errors=errors).to_numpy(dtype=np.float64, copy=True)
    seen = ~np.isnan(numbers)
    numbers[seen] = strings.to_numpy(dtype=object)[seen].astype(np.float64)
    return numbers


def _stripped(x: Any) -> Any:
    text = x.strip() if isinstance(x, str) else x
    return None if isinstance(text, str) and text.lower() in MISSING else text


@dataclass
class Table:
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
    index: tuple[str, ...] = ()
    """Columns that were the levels of a MultiIndex, whose two levels are the series and the time."""
    unit: str = "line"
    """What ``lines`` counts."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).raw) if self.columns else 0

    def place(self, row: int) -> str:
        """Return where a row is, for messages: "line 7" of a file, "row 6" of a table."""
        place = f"row {int(row)}" if self.lines is None else f"{self.unit} {int(self.lines[row])}"
        return place if self.files is None else f"{self.files[row]}, {place}"

    def error(self, row: int, sentence: str) -> ValueError:
        """Return a ValueError about a row."""
        return ValueError(f"{self.name}, {self.place(row)}: {sentence}")


def numbered_columns(names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the columns that are time steps by their names: the time of each, by channel.

    Names are numbers, or a channel and a number, such as ``x0, x1, ..., y0, y1, ...``.
    """
    names = list(names)
    found: dict[str, dict[str, float]] = {
        "": {name: float(name) for name in names if _STAMP.fullmatch(name) and isfinite(float(name))}
    }
    if len(found[""]) < 2:
        found = {}
        for name in names:
            part = _NUMBERED.fullmatch(name)
            if part is not None and isfinite(float(part[2])):
                found.setdefault(part[1], {})[name] = float(part[2])
    return {stem: times for stem, times in found.items() if len(set(times.values())) == len(times) > 1}


def table_of(source: Any, separator: str | None = None, decimal: str = ".", invalid: str = "raise") -> Table:
    """Read a table from a path, an open file, pandas, polars, Arrow or a mapping of columns."""
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        _require_pandas()
        return _from_file(source, separator, decimal, invalid)
    frame = frame_of(source)
    names = frame.index.names
    frame = _with_index(frame)
    return table_from(
        "the table", frame, () if len(names) == 1 else tuple(str(x).strip() for x in frame.columns[: len(names)])
    )


def _require_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Tables need pandas, which is not installed; run pip install pandas.") from error
    return pandas


def frame_of(source: Any) -> Any:
    """Return a table of pandas, polars, Arrow or a mapping of columns as a DataFrame of pandas."""
    pd = _require_pandas()
    if hasattr(source, "collect"):  # a lazy frame of polars
        source = source.collect()
    if hasattr(source, "get_columns"):  # polars
        source = source.to_dict(as_series=False)
    if hasattr(source, "to_table"):  # a dataset of Arrow
        source = source.to_table()
    if hasattr(source, "column_names"):  # Arrow
        source = source.to_pandas(ignore_metadata=True)
    if isinstance(source, Mapping):
        for name, column in source.items():
            if isinstance(column, str) or not is_listing(column):
                raise TypeError(f"The column {name!r} must be a list or an array; got {column!r}.")
        sizes = {name: len(column) for name, column in source.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"The columns of the table must have the same length; got {sizes}.")
        source = pd.DataFrame({name: pd.Series(list(column)) for name, column in source.items()})
    if not hasattr(source, "iloc") or not hasattr(source, "columns"):
        raise TypeError(
            "source must be a path, a folder, a pattern such as 'runs/*.csv', a list of paths, an open file, or a "
            f"table of pandas, polars or pyarrow; got an object of type {type(source).__name__}."
        )
    return source


def _with_index(frame: Any) -> Any:
    """Return a frame with its index as columns, which are often the id or the time."""
    index = frame.index
    several, named = index.nlevels > 1, any(name is not None for name in index.names)
    role = {"M": "time", "m": "time", "O": "id", "U": "id"}.get(getattr(index.dtype, "kind", ""))
    if hasattr(index, "to_timestamp"):  # periods
        role = "time"
    if not several and not named and (role is None or role in frame.columns):
        return frame
    names = [role if name is None and not several else name for name in index.names]
    names = [f"level_{i}" if name is None else name for i, name in enumerate(names)]
    twice = next((name for name in names if name in frame.columns), None)
    if twice is not None:
        raise ValueError(f"The index of the table and a column are both named {twice!r}; rename one of them.")
    return frame.rename_axis(index=names).reset_index()


def table_from(name: str, frame: Any, index: tuple[str, ...] = ()) -> Table:
    """Return a DataFrame of pandas as a table; ``index`` are the columns that were levels of a MultiIndex."""
    columns: dict[str, Column] = {}
    for i, label in enumerate(frame.columns):
        key, raw = str(label).strip(), frame.iloc[:, i].reset_index(drop=True)
        if key in columns:
            raise ValueError(f"{name} has two columns {key!r}; rename one of them.")
        raw = raw.dt.tz_convert(None) if getattr(raw.dtype, "tz", None) is not None else raw
        raw = raw.dt.to_timestamp() if hasattr(raw.dtype, "freq") else raw  # periods
        if raw.dtype.kind == "c" or (raw.dtype == object and raw.map(lambda x: isinstance(x, complex)).any()):
            raise TypeError(
                f"{name}: the column {key!r} has complex numbers; pass their real and imaginary parts as two columns."
            )
        columns[key] = Column(raw)
    if not len(frame) or not columns:
        raise ValueError(f"{name} has no rows; pass a table with at least one.")
    return Table(name, columns, index=index)


def _from_file(source: Any, separator: str | None, decimal: str, invalid: str) -> Table:
    start = b""
    if isinstance(source, str | os.PathLike) and Path(source).is_file():
        with Path(source).open("rb") as file:
            start = file.read(8)
    if start.startswith((b"PAR1", b"ARROW1")):
        return _from_columnar(Path(source), start.startswith(b"PAR1"))
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise ValueError(f"{source} is a spreadsheet or an archive; save it as CSV, or pass pandas.read_excel(...).")
    return _from_text(source, separator, decimal, invalid)


def _from_columnar(path: Path, parquet: bool) -> Table:
    check_size(path)
    try:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow, which is not installed; run pip install pyarrow.") from error
    try:
        if parquet:
            metadata = pq.ParquetFile(path).metadata
            groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
            check_size(path, sum(group.total_byte_size for group in groups))
        found = pq.read_table(path) if parquet else pyarrow.feather.read_table(str(path))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged ({str(error).splitlines()[0]}); download or copy it again.") from error
    return table_from(str(path), found.to_pandas(ignore_metadata=True))


def _from_text(source: Source, separator: str | None, decimal: str, invalid: str) -> Table:
    """Read CSV, TSV and their relatives; a first line of numbers only is data, and the columns have no names."""
    import pandas as pd

    text = read_text(source, "CSV or TSV", "row")
    content = decoded(text.raw)
    if content.lstrip().startswith((">", "@")):
        raise ValueError(
            f"{text.name} is not a table; read FASTA and FASTQ with mc.read_fasta, .ts files with mc.read_ts."
        )
    if not isinstance(decimal, str) or len(decimal) != 1 or decimal.isalnum():
        raise ValueError(f"decimal must be one character, '.' or ','; got {decimal!r}.")
    # lines of comments become empty, so that all others keep their numbers
    raw = ["" if line.startswith("#") else line for line in content.split("\n")]
    first = next((line for line in raw if line.strip()), "")
    marks = [mark for mark in "\t;,| " if mark in first.strip()]
    if separator and separator not in first and marks:
        raise ValueError(
            f"{text.name}: {option('separator', separator)} does not occur in the header, {first.strip()[:40]!r}; "
            f"{passing('separator', marks[0])}, or leave it out."
        )
    separator = separator or (max(marks[:-1] or marks, key=first.count) if marks else ",")
    if separator == " ":
        raw, separator = ["\t".join(line.split()) for line in raw], "\t"
    rows, lines, line = [], [], 1
    with _LIMIT:
        before = csv.field_size_limit(sys.maxsize)  # a field may be a long sequence
        reader = csv.reader(
            (f"{line}\n" for line in raw), delimiter=separator, skipinitialspace='"' in content, strict=True
        )
        try:
            for row in reader:
                if any(x.strip() for x in row):
                    rows.append(row)
                    lines.append(line)
                line = reader.line_num + 1
        except csv.Error as error:
            raise text.error(
                line, f"the quotes do not match ({error}); close every quote, and double quotes inside a field."
            ) from None
        finally:
            csv.field_size_limit(before)
    if not rows:
        raise ValueError(f"{text.name} contains only comments; pass a table with a header line and at least one row.")
    header = not all(is_numeric(x, decimal) for x in rows[0])
    names = [f"column {i + 1}" for i in range(len(rows[0]))]
    if header:
        names = [re.sub(r"\s*\n\s*", " ", x.strip()) or name for x, name in zip(rows[0], names, strict=True)]
        names = names[:-1] if not rows[0][-1].strip() and len(names) > 1 else names  # a separator ends every line
        twice = next((name for name, n in Counter(names).items() if n > 1), None)
        if twice is not None:
            raise text.error(lines[0], f"the column {twice!r} occurs twice in the header; rename one of them.")
    kept, places = [], []
    problems: dict[str | int, str] = {}
    for row, line in zip(rows[header:], lines[header:], strict=True):
        fields = row[: len(names)] if not "".join(row[len(names) :]).strip() else row
        if len(fields) == len(names):
            kept.append(fields)
            places.append(line)
            continue
        wrong = text.error(
            line,
            f"the line has {len(row)} fields, but the {'header' if header else 'first line'} has {len(names)}; write "
            f"one field per column, and quote fields that contain {separator!r}.",
        )
        if invalid == "raise":
            raise wrong
        problems[f"line {line}"] = str(wrong)
    if not kept:
        raise ValueError(f"{text.name} has a header line, but no rows; pass a table with at least one.")
    frame = pd.DataFrame(kept, columns=names, dtype=object)
    columns = {name: Column(frame[name], decimal) for name in names}
    return Table(text.name, columns, np.array(places), header, problems)
