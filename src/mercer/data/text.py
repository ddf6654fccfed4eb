"""Shared code of the text file readers: opening, decompression, line numbers and the returned records."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer._config import settings
from mercer._files import too_large, unpacked_limit
from mercer._sizes import human
from mercer._wording import wording
from mercer.data.identical import n_copies
from mercer.data.sequences import Sequences

T = TypeVar("T")
Source: TypeAlias = str | os.PathLike[str] | IO[Any]

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MISSING = ("", "?", "na", "n/a", "nan", "null", "<na>")
"""How files write a missing value, in lower case; "none" is a class as often as a missing value."""


@dataclass(frozen=True)
class Records:
    """Sequences and labels read from a file or a table; unpacks as a pair, ``X, y = read_fasta(path)``.

    Attributes
    ----------
    X : Sequences or sparse matrix
        The sequences; a CSR matrix with one row per document for word counts.
    y : ndarray of shape (N,), or None
        The labels (integers or text) or targets (floats); None if there are none or they were not requested.
    descriptions : tuple of str
        The header lines of a FASTA or FASTQ file without ``>``; empty for other files.
    groups : ndarray of shape (N,), or None
        Groups of related sequences, such as genes or subjects; None if there are none or they were not requested.
    ids : tuple of str, or None
        Names of the samples, for messages; None if they have none.
    channels : tuple of str
        Names of the channels of series, in their order, or the words of word counts; empty if they have none.
    description : str
        One line: what the data were taken for and how to correct it, and whether samples are identical; empty if there
        is nothing to say.
    taken_for, correction : str
        The first two parts of the description.
    n_copies : int
        Number of samples that are identical to one of another group, or to any other one if there are no groups.
    problems : dict
        Maps the id, the position or the line of everything that was left out (``invalid="mask"``) to the reason.
    covariates : dict
        Columns of a table with one number or one text per sample, such as confounds or weights, by their names.
    columns : dict
        The columns of a table that were taken for each role: ``"id"``, ``"time"``, ``"values"`` and so on.
    step : float, or None
        Time between two steps of series on a regular grid, in the unit of the time stamps, seconds for dates; None if
        there are no time stamps, or they are irregular or calendar months.

    Examples
    --------
    >>> import mercer as mc
    >>> table = {"x1": [1.0, 2.0], "x2": [3.0, 4.0], "class": ["a", "b"]}
    >>> records = mc.read_table(table, label="class")
    >>> records.y.tolist(), len(records.X)
    (['a', 'b'], 2)
    """

    X: Any
    y: NDArray[Any] | None
    descriptions: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None
    ids: tuple[str, ...] | None = None
    channels: tuple[str, ...] = ()
    description: str = ""
    taken_for: str = ""
    correction: str = ""
    n_copies: int = 0
    problems: dict[str | int, str] = field(default_factory=dict)
    step: float | None = None
    covariates: dict[str, NDArray[Any]] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.X, Sequences):  # frozen: what the sequences know is not written twice by the readers
            object.__setattr__(self, "ids", self.ids or self.X.ids)
            object.__setattr__(self, "problems", self.problems or self.X.problems)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def __getitem__(self, i: int) -> Any:
        return (self.X, self.y)[i]

    def __repr__(self) -> str:
        columns = [
            f"{name}: {len(np.unique(column))} different" if column.dtype.kind != "f" else f"{name}: numbers"
            for name, column in (("y", self.y), ("groups", self.groups))
            if column is not None
        ]
        return f"Records({', '.join([repr(self.X), *columns])})"


def described(taken_for: str, correction: str, X: Any, groups: Any = None) -> dict[str, Any]:
    """Return the description of records, and what it is made of."""
    count, given = n_copies(X, groups), "" if groups is None else ", groups"
    copies = (
        f"{count} of {X.shape[0]} samples are identical to another one, which is a leak if the two are in different "
        f"folds; use GroupKFold with groups=mc.data.identical_groups(X{given})."
    )
    said = " ".join(part for part in (taken_for, correction, copies if count else "") if part)
    return {"description": said, "taken_for": taken_for, "correction": correction, "n_copies": count}


@dataclass(frozen=True)
class Text:
    """The bytes of a text file with Unix line ends, and its name for messages."""

    name: str
    raw: bytes
    before: int = 0
    """Number of lines of the file before these."""

    @property
    def later(self) -> bool:
        """Whether this is not the first part of a file."""
        return self.before > 0

    def error(self, line: int, sentence: str) -> ValueError:
        """Return a ValueError about a line, counted from 1."""
        return ValueError(f"{self.name}, line {self.before + line}: {sentence}")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and stripped text of every line that is neither empty nor a comment (#)."""
        for number, line in enumerate(decoded(self.raw).split("\n"), start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                yield number, line.strip(" ")  # keep tabs: they separate columns, and the first column may be empty


def read_bytes(source: Source, what: str) -> tuple[str, bytes]:
    """Read a path or an open file, plain or gzipped; return its name and content. The first bytes tell which it is."""
    if isinstance(source, str | os.PathLike):
        if "\n" in str(source):
            raise ValueError("path must be the name of a file; got several lines of text. Pass io.StringIO(text).")
        if not os.fspath(source) or not Path(source).exists():
            raise FileNotFoundError(f"The file {os.fspath(source)!r} does not exist.")
        if Path(source).is_dir():
            raise IsADirectoryError(f"{os.fspath(source)!r} is a folder. Pass the path of a {what} file.")
        check_size(source)
        try:
            name, raw = str(source), Path(source).read_bytes()
        except PermissionError as error:
            raise PermissionError(f"The file {os.fspath(source)!r} cannot be read; check its permissions.") from error
    elif hasattr(source, "read"):
        content = source.read()
        name = str(getattr(source, "name", "the file"))
        raw = content.encode() if isinstance(content, str) else bytes(content)
    else:
        raise TypeError(f"path must be a path or a file open for reading; got {source!r}.")
    return name, _unpacked(raw, name)


def check_size(path: str | os.PathLike[str], size: int | None = None) -> None:
    """Raise if a file, or ``size`` bytes that it unpacks to, are over the limit, before any memory is taken."""
    size, limit = Path(path).stat().st_size if size is None else size, settings().max_file_bytes
    if size > limit:
        raise ValueError(
            f"{os.fspath(path)} has {human(size)}, more than the limit of {human(limit)}. "
            + wording().phrase(
                "large file", f"If there is enough memory, raise the limit: with mc.config(max_file_bytes={size})."
            )
        )


def read_text(source: Source, what: str, unit: str = "sequence") -> Text:
    """Read the lines of a path or an open file, plain or gzipped; it must have at least one ``unit``."""
    name, raw = read_bytes(source, what)
    if raw.startswith(_UTF16_MARKS):
        raise ValueError(f"{name} is UTF-16 text; save it as UTF-8.")
    if b"\0" in raw[:65536]:
        raise ValueError(f"{name} is a binary file; pass a {what} file, plain or gzipped.")
    if not decoded(raw[:4096]).strip() and not decoded(raw).strip():  # text has more blanks than bytes, such as 0x1f
        raise ValueError(f"{name} is empty; pass a {what} file with at least one {unit}.")
    raw = raw.removeprefix(_UTF8_MARK)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return Text(name, raw)


def parsed(
    text: Text, lines: Iterable[tuple[int, str]], parse: Callable[[int, str], T], invalid: str
) -> tuple[list[T], dict[str | int, str]]:
    """Return what ``parse`` makes of every line, and why lines were left out, if ``invalid`` is "mask"."""
    found: list[T] = []
    problems: dict[str | int, str] = {}
    for line, content in lines:
        try:
            found.append(parse(line, content))
        except ValueError as error:
            if invalid == "raise":
                raise
            problems[f"line {line}"] = str(error)
    if not found:
        first = next(iter(problems.values()), "it has only comments or a header")
        raise ValueError(f"{text.name} has no line that can be read; the first problem is: {first}")
    return found, problems


def answers(y: NDArray[Any]) -> str:
    """Return a description of y: "the label (2 classes)" or "the target (numbers)"."""
    if y.dtype.kind == "f":
        return "the target (numbers)"
    n = len(np.unique(y))
    return f"the label ({n} {'class' if n == 1 else 'classes'})"


def _unpacked(raw: bytes, name: str) -> bytes:
    if not raw.startswith(_GZIP):
        return raw
    limit = unpacked_limit(len(raw))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            content = packed.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is not a valid gzip file ({error}); download or copy it again.") from error
    if len(content) > limit:
        raise ValueError(too_large(name, limit))
    return content


def decoded(raw: bytes) -> str:
    """Decode UTF-8, or Latin-1 if that fails, in which every byte is valid."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def whole_or_text(labels: list[str]) -> NDArray[Any]:
    """Return labels as integers if all are integral (``1``, ``-1``, ``1.0000e+00``), else as text.

    Labels also stay text if two different ones (``01`` and ``1``) would become the same number.
    """
    text = np.array(labels, dtype=np.str_)
    try:
        number_of = {label: number(label) for label in set(labels)}
    except ValueError:
        return text
    distinct = set(number_of.values())
    # Above 2^53, float64 cannot represent every integer.
    if len(distinct) < len(number_of) or not all(abs(n) < 2**53 and n == round(n) for n in distinct):
        return text
    return np.array([int(number_of[label]) for label in labels], dtype=np.int64)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the extension of a file in lower case, without ``.gz``."""
    return next((x.lower() for x in reversed(Path(path).suffixes) if x.lower() != ".gz"), "")


def is_numeric(field: str, decimal: str = ".") -> bool:
    """Whether a field is a number or a missing value."""
    if field.strip().lower() in MISSING:
        return True
    try:
        number(field.replace(decimal, "."))
    except ValueError:
        return False
    return True


def number(field: str) -> float:
    """Parse a number as written in files; reject Python's underscores (``1_000``)."""
    if "_" in field:
        raise ValueError(f"{field!r} is not a number")
    return float(field)
