"""FASTA and FASTQ files block by block, for files larger than memory."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mercer._files import check_path
from mercer._parameters import check, whole
from mercer.data.fasta import read_fasta
from mercer.data.text import Records, Text


def fasta_blocks(path: str | os.PathLike[str], *, block_size: int = 10_000, **options: Any) -> Iterator[Records]:
    r"""Read a FASTA or FASTQ file in blocks of records, so that only one block is in memory.

    Parameters
    ----------
    path : str or path
        A plain or gzipped file.
    block_size : int, default=10000
        Number of records of a block; the last one may have fewer.
    **options
        As for `read_fasta`. Without ``alphabet``, that of the first block is used for all. Ids are checked within
        blocks only. With ``invalid="mask"``, ``X.kept`` says which records of a block could be read; if none of the
        first block can, it raises, as a file does.

    Returns
    -------
    iterator of Records
        ``X, y`` of each block.

    See Also
    --------
    read_fasta : Read the whole file at once.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mercer as mc
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "reads.fasta")
    ...     size = path.write_text(">a\nACGT\n>b\nGG\n>c\nTTA\n")
    ...     [list(X) for X, y in mc.data.fasta_blocks(path, block_size=2)]
    [['ACGT', 'GG'], ['TTA']]
    """
    check_path(path)
    check(whole(1, cure="It is a number of records."), block_size=block_size)
    name = os.fspath(path)
    if not name or not Path(path).exists():
        raise FileNotFoundError(f"The file {name!r} does not exist.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{name!r} is a folder. Pass the path of a FASTA file.")
    return _blocks(name, int(block_size), options)


def _blocks(name: str, size: int, options: dict[str, Any]) -> Iterator[Records]:
    options = dict(options)
    for piece in _pieces(name, size):
        records = read_fasta(piece, **options)  # type: ignore[arg-type]
        if options.get("alphabet") is None:
            options["alphabet"] = records.X.alphabet
        yield records


def _pieces(name: str, size: int) -> Iterator[Text]:
    """Yield the text of ``size`` records at a time."""
    lines: list[str] = []
    records = before = 0
    fastq: bool | None = None
    with _opened(name) as file:
        for line in _checked(name, file):
            if fastq is None and line.strip():
                fastq = line.startswith("@")
            begins = bool(line.strip()) if fastq else line.startswith(">")
            records += begins
            # of a FASTQ file, every line that is not blank counts, four per record
            if begins and records > (4 * size if fastq else size):
                yield Text(name, "".join(lines).encode("latin-1"), before)
                before += len(lines)
                lines, records = [], 1
            lines.append(line)
    if fastq is None:
        raise ValueError(f"{name} is empty; pass a FASTA file with at least one sequence.")
    yield Text(name, "".join(lines).encode("latin-1"), before)


def _opened(name: str) -> io.TextIOWrapper:
    """Open a plain or gzipped file; Latin-1 keeps every byte, and all line ends become one."""
    try:
        raw: Any = open(name, "rb")  # noqa: SIM115 - the wrapper closes it
    except PermissionError as error:
        raise PermissionError(f"The file {name!r} cannot be read; check its permissions.") from error
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if packed else raw, encoding="latin-1", newline=None)


def _checked(name: str, file: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file; raise if it is not plain text."""
    first = True
    try:
        for line in file:
            if "\0" in line:
                raise ValueError(f"{name} is a binary file or UTF-16; pass a FASTA file, plain or gzipped.")
            yield line.removeprefix("\xef\xbb\xbf") if first else line
            first = False
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is not a valid gzip file ({error}); download or copy it again.") from error
