"""What the readers of text files share: opening, unpacking, line numbers, and the pair that they return."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer.data.sequences import Sequences

Source: TypeAlias = str | os.PathLike[str] | IO[Any]

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Records:
    """Sequences read from a file; it unpacks as a pair, ``X, y = read_fasta(path)``.

    Attributes
    ----------
    X : Sequences
        The data.
    y : ndarray of shape (N,), or None
        Their labels; None where the file has none, or none were asked for.
    descriptions : tuple of str
        The header lines of a FASTA file without ``>``; empty for other files.
    groups : ndarray of shape (N,), or None
        What belongs together, such as genes or families, where it was asked for.
    """

    X: Sequences
    y: NDArray[Any] | None
    descriptions: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def __getitem__(self, i: int) -> Any:
        return (self.X, self.y)[i]

    def __repr__(self) -> str:
        beside = [
            f"{name}: {len(np.unique(column))} different" if column.dtype.kind != "f" else f"{name}: numbers"
            for name, column in (("y", self.y), ("groups", self.groups))
            if column is not None
        ]
        return f"Records({', '.join([repr(self.X), *beside])})"


@dataclass(frozen=True)
class Text:
    """The bytes of a text file, with the line ends of Unix, and its name for messages."""

    name: str
    raw: bytes

    def error(self, line: int, sentence: str) -> ValueError:
        """Return the error to raise about a line, counted from 1."""
        return ValueError(f"{self.name}, line {line}: {sentence}")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of every line that is neither empty nor a comment (#), without blanks at its ends."""
        for number, line in enumerate(decoded(self.raw).split("\n"), start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                yield number, line.strip(" ")  # tabs stay: they separate columns, and the first may be empty


def read_text(source: Source, what: str) -> Text:
    """Read a whole file, plain or gzipped (told by its first bytes, not its name), or an open one."""
    if isinstance(source, str | os.PathLike):
        name, raw = str(source), Path(source).read_bytes()
    elif hasattr(source, "read"):
        content = source.read()
        name = str(getattr(source, "name", "the file"))
        raw = content.encode() if isinstance(content, str) else bytes(content)
    else:
        raise TypeError(f"{source!r} is no file; pass a path, or a file that is open for reading")
    raw = _unpacked(raw, name)
    if raw.startswith(_UTF16_MARKS):
        raise ValueError(f"{name} is UTF-16 text; save it as UTF-8")
    if b"\0" in raw[:65536]:
        raise ValueError(f"{name} is binary, not text; pass a {what} file, plain or gzipped")
    if not raw.strip():
        raise ValueError(f"{name} is empty; pass a {what} file with at least one sequence")
    raw = raw.removeprefix(_UTF8_MARK)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return Text(name, raw)


def _unpacked(raw: bytes, name: str) -> bytes:
    if not raw.startswith(_GZIP):
        return raw
    try:
        return gzip.decompress(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name} begins like a gzip file but cannot be unpacked ({error}); get it again") from error


def decoded(raw: bytes) -> str:
    """Decode text that is UTF-8, or else the older Latin-1, in which no byte is wrong."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def whole_or_text(labels: list[str]) -> NDArray[Any]:
    """Return labels as integers where all are whole numbers (``1``, ``-1``, ``1.0000e+00``), else as text.

    They stay text too where two that differ (``01`` and ``1``) would become one number.
    """
    text = np.array(labels, dtype=np.str_)
    try:
        number_of = {label: number(label) for label in set(labels)}
    except ValueError:
        return text
    distinct = set(number_of.values())
    # Above 2^53 a float cannot be told from its neighbour.
    if len(distinct) < len(number_of) or not all(abs(n) < 2**53 and n == round(n) for n in distinct):
        return text
    return np.array([int(number_of[label]) for label in labels], dtype=np.int64)


def number(field: str) -> float:
    """Return a number as files write it; Python's own ``1_000`` is none."""
    if "_" in field:
        raise ValueError(f"{field!r} is no number")
    return float(field)
