"""Which reader a file or folder needs: by its extension, and a look at its first line."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from mercer.data.recordings import TABLES, is_collection
from mercer.data.text import suffix_of
from mercer.data.timeseries import looks_like_ucr

FASTA = (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn", ".fas", ".fastq", ".fq")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_TEXT_TABLES = (".csv", ".tsv", ".tab", ".dat", ".txt")


def reader_of(path: Path) -> str:
    """Return the name of the reader for a file, folder or pattern: "fasta", "table", "ts", "ucr" or "svmlight"."""
    if is_collection(path):
        return "table"
    if not path.exists():
        raise ValueError(f"{path} does not exist; pass the path of a file or folder.")
    suffix = suffix_of(path)
    if suffix in FASTA:
        return "fasta"
    if suffix in SVMLIGHT:
        return "svmlight"
    if suffix == ".ts":
        return "ts"
    if _start(path).startswith(b">"):
        raise ValueError(f"{path} looks like FASTA, but has another extension; rename it to end in .fasta.")
    if suffix in _SPREADSHEETS:
        raise ValueError(f"{path} is a spreadsheet; save it as CSV.")
    if suffix not in TABLES:
        endings = ", ".join((*FASTA, ".ts", *TABLES, *SVMLIGHT))
        raise ValueError(f"The extension of {path} must be one of {endings}; got {suffix!r}. Rename the file.")
    first = _start(path).partition(b"\n")[0].decode("utf-8", "replace")
    return "ucr" if suffix in _TEXT_TABLES and looks_like_ucr(first) else "table"


def _start(path: Path) -> bytes:
    """Return the first bytes of a file, plain or gzipped; none if it cannot be read."""
    try:
        with path.open("rb") as plain:
            start = plain.read(4096)
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                start = packed.read(4096)
    except (OSError, EOFError, zlib.error):
        return b""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")
