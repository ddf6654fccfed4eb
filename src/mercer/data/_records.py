"""FASTQ files and Biopython's records in the form of FASTA, line by line, so that errors name the right line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from mercer._checks import is_listing
from mercer.data.text import Text, read_text


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
        raise ValueError(f"{text.name} is an alignment in Stockholm format; use mc.read_alignment.")
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
