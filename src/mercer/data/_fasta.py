"""Records of FASTA and FASTQ files: their lines, their symbols, and labels from their headers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing
from mercer._wording import option, passing, wording
from mercer.data import ragged as _ragged
from mercer.data.ragged import offsets_of
from mercer.data.roles import looks_like
from mercer.data.text import Text, decoded, read_text


class _RecordText(Text):
    """FASTA text made from records in memory, two lines each: errors name the record."""

    def error(self, line: int, sentence: str) -> ValueError:
        return ValueError(f"record {(line - 1) // 2}: {sentence}")


def fasta_text(source: Any, problems: dict[str | int, str] | None = None) -> Text:
    """Return the text of a FASTA file; FASTQ files and records are converted to it.

    FASTQ records that cannot be read raise, or are left out and added to ``problems``.
    """
    if is_listing(source) and not isinstance(source, str | os.PathLike) and not hasattr(source, "read"):
        return _from_records(source)
    text = source if isinstance(source, Text) else read_text(source, "FASTA")
    if text.raw.lstrip().startswith(b"# STOCKHOLM"):
        raise ValueError(f"{text.name} is an alignment in Stockholm format; use mc.data.read_alignment.")
    return _from_fastq(text, problems) if text.raw.lstrip().startswith(b"@") else text


def _from_records(source: Iterable[Any]) -> Text:
    pieces = []
    for i, record in enumerate(source):
        if not hasattr(record, "seq") or not hasattr(record, "id"):
            raise TypeError(
                "path must be a path, a file open for reading or Biopython's records; got an iterable with a "
                f"{type(record).__name__} at position {i}. Pass strings to mc.Sequences."
            )
        header = str(getattr(record, "description", "") or "")
        if header.partition(" ")[0] != str(record.id):  # Biopython writes "<unknown description>"
            header = str(record.id) if header.startswith("<unknown") else f"{record.id} {header}".strip()
        pieces.append(f">{' '.join(header.split(chr(10)))}\n{str(record.seq).replace(chr(10), '')}\n")
    if not pieces:
        raise ValueError("There are no records; pass at least one.")
    return _RecordText("the records", "".join(pieces).encode())


def _from_fastq(text: Text, problems: dict[str | int, str] | None) -> Text:
    """Turn the two last lines of every record into comments; the numbers of lines stay."""
    lines = text.raw.split(b"\n")
    if not any(line.startswith(b"+") for line in lines[:40]):
        return text  # not FASTQ: the reader of FASTA says what is wrong
    out = list(lines)
    for start, number in _starts(lines):
        if not lines[start].startswith(b"@"):
            raise text.error(number, "a FASTQ record begins with @; write four lines per record.")
        part = lines[start : start + 4]
        if len(part) < 4 or not part[2].startswith(b"+"):
            raise text.error(number, "the FASTQ record has no line + after its sequence; write four lines per record.")
        if len(part[1].strip()) != len(part[3].strip()):
            error = text.error(
                number + 3, f"{len(part[3].strip())} qualities for {len(part[1].strip())} symbols; they must be equal."
            )
            if problems is None:
                raise error
            problems[f"line {number}"] = str(error)
            out[start : start + 4] = [b";"] * 4
            continue
        out[start], out[start + 2], out[start + 3] = b">" + part[0][1:], b";", b";"
    return Text(text.name, b"\n".join(out))


def _starts(lines: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the first line of every record, counted from 0 and from 1; blank lines between records are skipped."""
    i = 0
    while i < len(lines):
        if not lines[i].strip():
            i += 1
            continue
        yield i, i + 1
        i += 4


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

    def first_of(self, marked: NDArray[np.bool_]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the first marked symbol of each record: the record, the position in it, the byte and the line."""
        for record, position in zip(*_ragged.locate(self.offsets, np.flatnonzero(marked)), strict=True):
            byte = int(self.values[self.offsets[record] + position])
            yield int(record), int(position), byte, self.line_of_symbol(record, position)

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
            i,
            out.line(i),
            f"sequence {name!r} has no symbols; remove it from the file, or {passing('invalid', 'mask')}.",
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
        for record, position, byte, line in records.first_of(bad):
            report.fail(record, line, sentence.format(byte=byte, position=position))


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


Labels: TypeAlias = str | int | Callable[[str], Any] | Mapping[str, Any]


_KEY = r"[A-Za-z_][\w.\-]*="


def rule_of(labels: Labels, what: str = "labels") -> Callable[[str, str], Any]:
    """Return a function of header and id that returns the label, or raises LookupError.

    The text of the LookupError continues the sentence "the header '...'". ``what`` is the parameter's name, for
    messages.
    """
    if isinstance(labels, bool) or not (isinstance(labels, str | int | Mapping) or callable(labels)):
        raise TypeError(
            wording().must_be(
                what,
                "a regular expression with one group, a key such as 'class=', a field number, a function of the header "
                "line, or a mapping from ids",
            )
            + f"; got {labels!r}."
        )
    if isinstance(labels, str):
        return _by_key(labels, what) if re.fullmatch(_KEY, labels) else _by_pattern(labels, what)
    if isinstance(labels, int):
        return _by_field(labels, what)
    if isinstance(labels, Mapping):
        return _by_id(labels, what)
    function = labels
    return lambda header, name: function(header)


def _by_pattern(pattern: str, what: str) -> Callable[[str, str], Any]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{wording().must_be(what, 'a regular expression')}; got {pattern!r}: {error}.") from None
    if compiled.groups != 1:
        raise ValueError(
            f"{wording().must_be(what, 'a regular expression with one group')}; {pattern!r} has {compiled.groups} "
            "groups. Put parentheses around the label, and use (?:...) for other groups, or 'key=' for headers with "
            "key=value."
        )

    def label(header: str, name: str) -> Any:
        match = compiled.search(header)
        if match is None or match[1] is None:
            raise LookupError(f"does not match {option(what, pattern)}; change the expression or the header.")
        return match[1]

    return label


def _by_key(key: str, what: str) -> Callable[[str, str], Any]:
    """Find ``key=value``; the value ends at white space, at ``|``, ``;`` or ``,``, or at its closing quote."""
    compiled = re.compile(rf"""(?:^|[\s|;,\[(]){re.escape(key)}(?:"([^"]*)"|'([^']*)'|([^\s|;,\])]+))""")

    def label(header: str, name: str) -> Any:
        match = compiled.search(header)
        if match is None:
            raise LookupError(f"does not have {key}..., which {option(what, key)} looks for; change one of them.")
        return next(value for value in match.groups() if value is not None)

    return label


def _by_field(number: int, what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        fields = re.split(r"[|\s]+", header)
        if not -len(fields) <= number < len(fields):
            raise LookupError(
                f"has {len(fields)} field(s), so {option(what, number)} is out of range; fields are counted from 0."
            )
        return fields[number]

    return label


def _by_id(known: Mapping[str, Any], what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        if name not in known:
            raise LookupError(f"has the id {name!r}, which is not in the mapping {option(what)}; add it.")
        return known[name]

    return label


def guessed(descriptions: tuple[str, ...]) -> str | int:
    """Return the key or the field of the headers that looks like a class: it repeats, and it is in all headers.

    A key named like a label wins; otherwise the key or field must be the only one with few values.
    """
    keys = dict.fromkeys(re.findall(r"(?:^|[\s|;,\[(])([A-Za-z_][\w.\-]*=)", descriptions[0]))
    found: dict[str | int, int] = {}
    for rule in (*keys, *range(1, len(re.split(r"[|\s]+", descriptions[0])))):
        try:
            values = [rule_of(rule)(description, "") for description in descriptions]
        except LookupError:
            continue
        different = len(set(values))
        if 1 < different <= max(2, len(values) // 2) and not ("=" in values[0] and isinstance(rule, int)):
            found[rule] = different
    named: list[str | int] = [rule for rule in found if isinstance(rule, str) and looks_like("label", [rule])]
    if len(named) == 1 or len(found) == 1:
        return (named or list(found))[0]
    if not found:
        raise ValueError(
            f"no key or field of the headers, such as {descriptions[0]!r}, repeats like a class; "
            f"{passing('labels')} with a field number, a key such as 'class=', a regular expression or a mapping from "
            "ids."
        )
    shown = " and ".join(option("labels", rule) for rule in list(found)[:2])
    raise ValueError(
        f"several parts of the headers, such as {descriptions[0]!r}, could be the class: {shown}; pass one."
    )
