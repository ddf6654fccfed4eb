"""Reader of text tables: CSV, TSV and their relatives, with the line of everything that is wrong."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from threading import Lock

import numpy as np

from mercer.data.columns import Column, Columns
from mercer.data.text import Source, Text, decoded, is_numeric, read_text

_LIMIT = Lock()  # the limit of the csv module belongs to the process


def read_delimited(source: Source, separator: str | None = None, decimal: str = ".", invalid: str = "raise") -> Columns:
    """Read a text table; a first line of numbers only is data, and the columns have no names."""
    text = read_text(source, "CSV or TSV", "row")
    content = decoded(text.raw)
    if content.lstrip().startswith((">", "@")):
        raise ValueError(
            f"{text.name} is not a table; read FASTA and FASTQ with mc.read_fasta, .ts files with mc.read_ts."
        )
    separator = separator or _separator(content, decimal)
    rows = _records(text, content, separator)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{text.name} contains only comments; pass a table with a header line and at least one row.")
    header = not all(is_numeric(x, decimal) for x in first[1])
    names = _names(text, *first) if header else [f"column {i + 1}" for i in range(len(first[1]))]
    lines, fields = ([], []) if header else ([first[0]], [first[1]])
    problems: dict[str | int, str] = {}
    for line, row in rows:
        if len(row) == len(names) + 1 and not row[-1].strip():
            row = row[:-1]  # a separator at the end of the line
        if len(row) != len(names):
            sentence = (
                f"the line has {len(row)} fields, but the {'header' if header else 'first line'} has {len(names)}; "
                f"write one field per column, and quote fields that contain {separator or ' '!r}."
            )
            if invalid == "raise":
                raise text.error(line, sentence)
            problems[f"line {line}"] = f"{text.name}, line {line}: {sentence}"
            continue
        lines.append(line)
        fields.append(row)
    if not fields:
        raise ValueError(f"{text.name} has a header line, but no rows; pass a table with at least one.")
    columns = {}
    for name, values in zip(names, zip(*fields, strict=True), strict=True):
        raw = np.empty(len(values), dtype=object)
        raw[:] = values
        columns[name] = Column(name, raw, decimal)
    return Columns(text.name, columns, np.array(lines, dtype=np.int64), header, problems)


def _separator(content: str, decimal: str) -> str:
    """Return the separator of the first line that is no comment; "" for white space."""
    first = next((x for x in content.split("\n") if x.strip() and not x.startswith("#")), "")
    if "\t" in first:
        return "\t"
    if first.count(";") > first.count(",") or (decimal == "," and ";" in first):
        return ";"
    return "," if "," in first else "" if " " in first.strip() else ","


def _records(text: Text, content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of every row."""
    if '"' not in content or not separator:
        for line, whole in enumerate(content.split("\n"), start=1):
            if whole.strip() and not whole.startswith("#"):
                yield line, whole.split(separator) if separator else whole.split()
        return
    with _LIMIT:
        before = csv.field_size_limit(sys.maxsize)  # a field may be a long sequence
        try:
            rows, start = csv.reader(content.split("\n"), delimiter=separator, strict=True, skipinitialspace=True), 1
            found = []
            try:
                for row in rows:
                    if any(x.strip() for x in row) and not row[0].startswith("#"):
                        found.append((start, row))
                    start = rows.line_num + 1
            except csv.Error as error:
                raise text.error(
                    start, f"the quotes do not match ({error}); close every quote, and double quotes inside a field."
                ) from None
        finally:
            csv.field_size_limit(before)
    yield from found


def _names(text: Text, line: int, fields: list[str]) -> list[str]:
    """Return the names of the columns; a column without a name is named by its position."""
    names: list[str] = []
    for i, field in enumerate(fields):
        name = field.strip() or f"column {i + 1}"
        if name in names:
            raise text.error(line, f"the column {name!r} occurs twice in the header; rename one of them.")
        names.append(name)
    return names
