"""Alignments: gapped alphabets, and a reader of Stockholm, aligned FASTA and A3M files."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.data.alphabet import Alphabet
from mercer.data.fasta import read_fasta
from mercer.data.ragged import offsets_of
from mercer.data.sequences import Sequences
from mercer.data.text import Records, Source, Text, decoded, read_text

GAP = "-"
GAPS = ".~_"
"""Other characters for a gap."""


def gapped(alphabet: Any) -> Alphabet:
    """Return the alphabet with one more symbol, the gap ``-``, which is also written ``.``, ``~`` or ``_``.

    Examples
    --------
    >>> from mercer.data.alignment import gapped
    >>> gapped("dna").encode("AC-.")
    array([0, 1, 4, 4], dtype=int32)
    """
    plain = Alphabet.of(alphabet)
    known = {*plain.symbols, *dict(plain.ambiguous)}
    if not plain.is_characters or GAP in known:
        raise ValueError(
            f"Alignments need an alphabet of letters without '{GAP}'; got {plain.describe()}. Use 'protein', 'dna' or "
            "letters."
        )
    codes: dict[Any, Any] = dict(plain.ambiguous) | {character: GAP for character in GAPS if character not in known}
    return Alphabet([*plain.symbols, GAP], codes, plain.fold_case)


def ungapped_codes(alphabet: Alphabet) -> Any:
    """Return, for every code of the gapped alphabet, that of ``alphabet``; -1 for the gap."""
    codes = {set_: code for code, set_ in reversed(list(enumerate(alphabet.sets)))}
    table = [codes.get(set_, -1) for set_ in gapped(alphabet).sets]
    return np.array([*table[:-1], alphabet.missing], dtype=np.int32)


def without_gaps(X: Any, alphabet: Alphabet, unknown: str = "raise") -> Sequences:
    """Convert ``X`` to sequences over ``alphabet``; the gaps of aligned sequences are removed."""
    if isinstance(X, Sequences) and (X.alphabet == alphabet or X.alphabet is None):
        return Sequences(X, alphabet=alphabet)
    letters = alphabet.is_characters and GAP not in alphabet.symbols
    if not letters or (isinstance(X, Sequences) and X.alphabet != gapped(alphabet)):
        return Sequences(X, alphabet=alphabet, unknown=unknown)
    X = Sequences(X, alphabet=gapped(alphabet), unknown=unknown)
    values = ungapped_codes(alphabet)[X.values]
    kept = values >= 0
    lengths = np.bincount(np.repeat(np.arange(len(X)), X.lengths)[kept], minlength=len(X))
    return Sequences._make(values[kept], offsets_of(lengths), alphabet, X.ids)


def read_alignment(path: Source, *, alphabet: Any = None) -> Records:
    r"""Read one alignment from a Stockholm, aligned FASTA or A3M file.

    Parameters
    ----------
    path : str, path or open file
        A plain or gzipped file. ``-`` and ``.`` are gaps. Of a Stockholm file, the rows are read, in one or several
        blocks; annotation is not used. Of an A3M file, whose rows have insertions in lower case, the match columns are
        read: lower-case letters and ``.`` are left out, and the description says so.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of letters, optional
        Alphabet of the letters, without the gap; by default found as `read_fasta` does.

    Returns
    -------
    Records
        ``X`` has the aligned rows, all of one length, over the alphabet and the gap ``-``.

    See Also
    --------
    ProfileHMM : Fits a profile to aligned rows.
    read_fasta : Read sequences that are not aligned.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> text = "# STOCKHOLM 1.0\na  AC-GT\nb  ACGGT\n//\n"
    >>> list(mc.data.read_alignment(io.StringIO(text)).X)
    ['AC-GT', 'ACGGT']
    """
    text = read_text(path, "Stockholm, aligned FASTA or A3M", "row")
    raw = text.raw.lstrip()
    if raw.startswith(b"# STOCKHOLM"):
        rows = _stockholm(text)
        raw = "".join(f">{name}\n{row}\n" for name, row in rows.items()).encode()
    raw = raw.removeprefix(b"#A3M#").lstrip()
    if not raw.startswith(b">"):
        raise text.error(1, "an alignment must begin with '# STOCKHOLM 1.0' or '>'; convert it to one of them.")
    matches = re.sub(rb"^(?!>).*$", lambda line: re.sub(rb"[a-z.]", b"", line[0]), raw, flags=re.MULTILINE)
    is_a3m = len(_lengths(raw)) > 1 and len(found := _lengths(matches)) == 1 and found != {0}
    file = io.BytesIO(matches if is_a3m else raw)
    file.name = text.name
    known = Alphabet.of(alphabet) if alphabet is not None else _guess(file)
    file.seek(0)
    records = read_fasta(file, alphabet=gapped(known))
    lengths = records.X.lengths
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise ValueError(
            f"{text.name} is not an alignment: {records.X.name(odd[0])} has {lengths[odd[0]]} columns, but "
            f"{records.X.name(0)} has {lengths[0]}. Align the sequences first."
        )
    said = f"{text.name}: the match columns of an A3M file; lower-case letters, which are insertions, are left out."
    return replace(records, description=said, taken_for=said) if is_a3m else records


def _lengths(raw: bytes) -> set[int]:
    """Return the lengths of the rows of a FASTA file."""
    rows = re.split(rb"^>", raw, flags=re.MULTILINE)[1:]
    return {len(b"".join(row.partition(b"\n")[2].split())) for row in rows}


def _guess(file: io.BytesIO) -> Alphabet:
    found = read_fasta(file, drop="-" + GAPS).X.alphabet
    assert found is not None
    return found


def _stockholm(text: Text) -> dict[str, str]:
    """Return the rows of a Stockholm file, whose blocks are joined."""
    rows: dict[str, str] = {}
    block: set[str] = set()
    ended = 0
    for number, line in enumerate(decoded(text.raw).split("\n"), start=1):
        words = line.split()
        if not words:
            block = set()
            continue
        if ended:
            raise text.error(
                number, f"a second alignment follows the end in line {ended}; split the file into one per alignment."
            )
        if words[0] == "//":
            ended = number
        elif not words[0].startswith("#"):
            if len(words) != 2:
                raise text.error(number, f"a row must be a name and letters; got {len(words)} words.")
            if words[0] in block:
                raise text.error(number, f"a second row has the name {words[0]!r}; rows need different names.")
            block.add(words[0])
            rows[words[0]] = rows.get(words[0], "") + words[1]
    if not ended:
        raise text.error(len(text.raw.split(b"\n")), "the line '//' is missing; the file is cut short. Copy it again.")
    if not rows:
        raise ValueError(f"{text.name} has no rows; pass an alignment with at least one sequence.")
    return rows
