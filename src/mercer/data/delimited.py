"""Reader of text tables: CSV, TSV and their relatives, with the line of everything that is wrong."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._wording import option, passing
from mercer.data.columns import Column, Columns
from mercer.data.text import MISSING, Source, Text, decoded, is_numeric, read_text

_PIECE = 20_000
"""Rows that are kept as text at a time."""
_NOT_ONLY_A_NUMBER = re.compile(r"^\s*(?:[+-]?0\d|\+|-?\d{16,}\s*$)|_", re.MULTILINE)
_LIMIT = Lock()  # the limit of the csv module belongs to the process


def read_delimited(source: Source, separator: str | None = None, decimal: str = ".", invalid: str = "raise") -> Columns:
    """Read a text table; a first line of numbers only is data, and the columns have no names."""
    text = read_text(source, "CSV or TSV", "row")
    content = decoded(text.raw)
    if content.lstrip().startswith((">", "@")):
        raise ValueError(
            f"{text.name} is not a table; read FASTA and FASTQ with mc.read_fasta, .ts files with mc.read_ts."
        )
    if not isinstance(decimal, str) or len(decimal) != 1 or decimal.isalnum():
        raise ValueError(f"decimal must be one character, '.' or ','; got {decimal!r}.")
    if separator:
        _check_separator(text.name, content, separator)
    separator = separator or _separator(content, decimal)
    rows = _records(text, content, separator)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{text.name} contains only comments; pass a table with a header line and at least one row.")
    header = not all(is_numeric(x, decimal) for x in first[1])
    names = _names(text, *first) if header else [f"column {i + 1}" for i in range(len(first[1]))]
    table = _Pieces(len(names), decimal)
    if not header:
        table.add(*first)
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
        table.add(line, row)
    if not table.lines:
        raise ValueError(f"{text.name} has a header line, but no rows; pass a table with at least one.")
    columns = {name: Column(name, raw, decimal) for name, raw in zip(names, table.columns(), strict=True)}
    return Columns(text.name, columns, np.array(table.lines, dtype=np.int64), header, problems)


class _Pieces:
    """Columns that grow piece by piece: numbers take eight bytes each, and equal strings are kept once."""

    def __init__(self, n: int, decimal: str) -> None:
        self.decimal = decimal
        self.lines: list[int] = []
        self._rows: list[list[str]] = []
        self._pieces: list[list[NDArray[Any]]] = [[] for _ in range(n)]
        self._strings: dict[str, str] = {}

    def add(self, line: int, row: list[str]) -> None:
        """Add a row."""
        self.lines.append(line)
        self._rows.append(row)
        if len(self._rows) == _PIECE:
            self._pack()

    def _pack(self) -> None:
        for pieces, texts in zip(self._pieces, zip(*self._rows, strict=True), strict=True):
            pieces.append(self._packed(texts))
        self._rows = []

    def _packed(self, texts: tuple[str, ...]) -> NDArray[Any]:
        # What another text could mean, such as the id 007 or a long integer, stays text.
        if self.decimal == "." and not _NOT_ONLY_A_NUMBER.search("\n".join(texts)):
            with suppress(ValueError):
                return np.array(list(map(float, texts)))
            with suppress(ValueError):
                return np.array([float("nan" if x.strip().lower() in MISSING else x) for x in texts])
        out = np.empty(len(texts), dtype=object)
        out[:] = [self._strings.setdefault(x, x) for x in texts]
        return out

    def columns(self) -> Iterator[NDArray[Any]]:
        """Yield the columns: numbers, or objects if a piece is text."""
        if self._rows:
            self._pack()
        for pieces in self._pieces:
            if all(piece.dtype != object for piece in pieces) or len(pieces) == 1:
                yield np.concatenate(pieces)
                continue
            parts = [piece if piece.dtype == object else np.array(Column("", piece).text, object) for piece in pieces]
            yield np.concatenate(parts)


def _separator(content: str, decimal: str) -> str:
    """Return the separator of the first line that is no comment; "" for white space."""
    first = next((x for x in _lines(content) if x.strip() and not x.startswith("#")), "")
    if "\t" in first:
        return "\t"
    if first.count(";") > first.count(",") or (decimal == "," and ";" in first):
        return ";"
    return "," if "," in first else "" if " " in first.strip() else ","


def _check_separator(name: str, content: str, separator: str) -> None:
    """Raise if a separator does not occur in the header, and another one occurs there and in the next row."""
    rows = (x for x in _lines(content) if x.strip() and not x.startswith("#"))
    header, row = next(rows, ""), next(rows, "")
    other = next((x for x in "\t,;| " if x in header.strip() and x in row.strip()), None)
    if separator not in header and other is not None:
        raise ValueError(
            f"{name}: {option('separator', separator)} does not occur in the header, {header.strip()[:40]!r}; "
            f"{passing('separator', other)}, or leave it out."
        )


def _records(text: Text, content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of every row."""
    if '"' not in content or not separator:
        for line, whole in enumerate(_lines(content), start=1):
            if whole.strip() and not whole.startswith("#"):
                yield line, whole.split(separator) if separator else whole.split()
        return
    with _LIMIT:
        before = csv.field_size_limit(sys.maxsize)  # a field may be a long sequence
        try:
            lines = (f"{line}\n" for line in _lines(content))  # a break inside of quotes belongs to the field
            rows, start = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True), 1
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


def _lines(content: str) -> Iterator[str]:
    """Yield the lines one by one: a list of all of them takes more memory than the file."""
    start = 0
    while (end := content.find("\n", start)) >= 0:
        yield content[start:end]
        start = end + 1
    if start < len(content):
        yield content[start:]


def _names(text: Text, line: int, fields: list[str]) -> list[str]:
    """Return the names of the columns; a column without a name is named by its position."""
    names: list[str] = []
    for i, field in enumerate(fields):
        name = re.sub(r"\s*\n\s*", " ", field.strip()) or f"column {i + 1}"
        if name in names:
            raise text.error(line, f"the column {name!r} occurs twice in the header; rename one of them.")
        names.append(name)
    return names
