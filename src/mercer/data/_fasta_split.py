"""Split FASTA text into records, without a loop over lines or characters, and report what is wrong with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.data import ragged as _ragged
from mercer.data.ragged import offsets_of
from mercer.data.text import Text, decoded

_NEWLINE, _HEADER, _COMMENT, _STOP = (ord(c) for c in "\n>;*")
_BLANKS = b" \t\n\v\f"


class Report:
    """Problems of records: the first one raises, or all are kept."""

    def __init__(self, text: Text, invalid: str) -> None:
        self.text, self.invalid = text, invalid
        self.problems: dict[int, str] = {}
        self.lines: dict[int, int] = {}

    def fail(self, record: int, line: int, sentence: str) -> None:
        """Raise, or keep the first problem of a record."""
        error = self.text.error(line, sentence)
        if self.invalid == "raise":
            raise error
        self.problems.setdefault(int(record), str(error))
        self.lines.setdefault(int(record), line)

    def check_some(self, n: int) -> None:
        """Raise if all of the n records have problems, unless they are a later part of a file."""
        if len(self.problems) == n and not self.text.later:
            raise ValueError(f"All records are invalid: {self.problems[min(self.problems)]}")


class Split(NamedTuple):
    """Records of a file: the lines of their headers, and their concatenated symbols."""

    raw: NDArray[np.uint8]
    line_starts: NDArray[np.int64]
    headers: NDArray[np.int64]
    """Lines of the headers, counted from 0."""
    kept: NDArray[np.bool_]
    """Which bytes of the file are symbols."""
    values: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def line(self, record: int) -> int:
        """Return the line of a record's header, counted from 1."""
        return int(self.headers[record]) + 1

    def line_of_value(self, i: int) -> int:
        """Return the line of the i-th symbol in the file, counted from 1."""
        (owner, *_), (position, *_) = _ragged.locate(self.offsets, np.array([i]))
        return self.line_of_symbol(owner, position)

    def line_of_symbol(self, record: int, position: int) -> int:
        """Return the line of a symbol of a record, counted from 1."""
        start = self.line_starts[self.headers[record]]
        end = self.line_starts[self.headers[record + 1]] if record + 1 < len(self.headers) else len(self.kept)
        byte = start + np.flatnonzero(self.kept[start:end])[position]
        return int(np.searchsorted(self.line_starts, byte, side="right"))


def split(text: Text, drop: str, keep_stop: bool, report: Report) -> Split:
    """Split a file into records without a loop over lines or characters."""
    raw = np.frombuffer(text.raw, dtype=np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE)
    starts = np.concatenate([[0], ends + 1])
    ends = np.append(ends, len(raw))
    first = np.zeros(len(starts), dtype=np.uint8)
    filled = starts < ends
    first[filled] = raw[starts[filled]]
    headers = np.flatnonzero(first == _HEADER)
    skipped = np.flatnonzero((first == _HEADER) | (first == _COMMENT))
    # +1 where a skipped line begins, -1 at its newline: the cumulative sum is 1 inside.
    edges = np.zeros(len(raw) + 1, dtype=np.int8)
    edges[starts[skipped]] = 1
    edges[ends[skipped]] = -1
    kept = np.cumsum(edges, dtype=np.int8)[:-1] == 0
    ignored = np.zeros(256, dtype=bool)
    ignored[list(_BLANKS + drop.encode("ascii"))] = True
    kept &= ~ignored[raw]
    _check_beginning(text, raw, starts, headers, kept)
    values = raw[kept]
    lengths = np.add.reduceat(kept, starts[headers], dtype=np.int64)
    out = Split(raw, starts, headers, kept, values, offsets_of(lengths))
    _check_symbols(out, report)
    if not keep_stop:
        out = _without_stops(out)
    for i in np.flatnonzero(np.diff(out.offsets) == 0).tolist():
        name = header_of(text, out, i).split(" ")[0]
        report.fail(
            i, out.line(i), f"sequence {name!r} has no symbols; remove it from the file, or pass invalid='mask'."
        )
    return out


def _check_beginning(
    text: Text,
    raw: NDArray[np.uint8],
    starts: NDArray[np.int64],
    headers: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> None:
    end = starts[headers[0]] if len(headers) else len(raw)
    at = int(np.argmax(kept[:end])) if end else 0
    if end and kept[at]:
        line = int(np.searchsorted(starts, at, side="right"))
        shown = text.raw[at : at + 20].split(b"\n")[0]
        raise text.error(line, f"{decoded(shown)!r} occurs before the first header; begin every sequence with >name.")
    if not len(headers):
        raise ValueError(f"{text.name} has no header line; begin every sequence with >name.")


def _check_symbols(records: Split, report: Report) -> None:
    """Report bytes that are not ASCII, and headers within sequences, once per record."""
    for bad, sentence in (
        (records.values > 127, "the byte {byte:#x} at position {position} of the sequence is not ASCII; remove it."),
        (records.values == _HEADER, "'>' occurs within a sequence; begin every header on a new line."),
    ):
        found = np.flatnonzero(bad)
        owners, positions = _ragged.locate(records.offsets, found)
        for first in np.unique(owners, return_index=True)[1].tolist():
            byte, position = records.values[found[first]], positions[first]
            line = records.line_of_symbol(owners[first], position)
            report.fail(owners[first], line, sentence.format(byte=byte, position=position))


def _without_stops(records: Split) -> Split:
    """Remove the ``*`` at the end of sequences."""
    last = records.offsets[1:][np.diff(records.offsets) > 0] - 1
    stops = last[records.values[last] == _STOP]
    if not len(stops):
        return records
    lengths = np.diff(records.offsets)
    lengths[np.searchsorted(records.offsets, stops, side="right") - 1] -= 1
    return records._replace(values=np.delete(records.values, stops), offsets=offsets_of(lengths))


def header_of(text: Text, records: Split, i: int) -> str:
    start = records.line_starts[records.headers[i]] + 1
    end = text.raw.find(b"\n", start)
    return decoded(text.raw[start : end if end >= 0 else None]).strip()
