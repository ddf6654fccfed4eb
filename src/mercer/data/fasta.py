"""FASTA reader, vectorized over the bytes of the file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._parameters import check, one_of
from mercer.data import ragged as _ragged
from mercer.data._header_labels import Labels, rule_of
from mercer.data._symbols import NAMED
from mercer.data.alphabet import Alphabet
from mercer.data.ragged import offsets_of
from mercer.data.sequences import Sequences
from mercer.data.text import Records, Source, Text, decoded, read_text

_NEWLINE, _HEADER, _COMMENT, _STOP = (ord(c) for c in "\n>;*")
_BLANKS = b" \t\n\v\f"


def read_fasta(
    path: Source,
    *,
    labels: Labels | None = None,
    groups: Labels | None = None,
    alphabet: Any = None,
    unknown: str = "raise",
    drop: str = "",
    duplicates: str = "raise",
) -> Records:
    r"""Read a FASTA file: sequences with ids, and optionally labels from the header lines.

    A sequence may span several lines, including blank ones; lines that begin with ``;`` are comments. All common line
    ends and gzipped files are supported. The id is the first word of the header.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped.
    labels : str, int, callable or mapping, optional
        How to extract the label from a header line (without ``>``). A str is a regular expression with one group,
        searched in the line; an int is a field number, counted from 0 or from the end, where ``|`` and white space
        separate fields; a callable receives the line; a mapping is indexed by the id.
    groups : str, int, callable or mapping, optional
        How to extract the group, such as a gene or family, in the same forms; for scikit-learn's GroupKFold.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, optional
        By default inferred from the file: DNA or RNA if at least 90 % of the letters are A, C, G, T or U, or N, and
        the rest are IUPAC codes, else protein. Set it if training and test data are in two files, or if symbols other
        than letters, ``*``, ``-`` and ``.`` occur. A file with both T and U raises an error without it.
    unknown : {"raise", "missing"}
        What to do with a symbol that is not in the alphabet.
    drop : str, default=""
        Characters to remove, such as ``"-."`` for the gaps of an alignment. White space is always removed, and so is
        a ``*`` at the end of a sequence (the stop codon of a protein), unless the alphabet contains it.
    duplicates : {"raise", "number"}
        What to do if several sequences have the same id: raise, or rename the second one to ``id.2``, and so on.

    Returns
    -------
    Records
        Unpacks as ``X, y = read_fasta(path, labels=...)``; header lines are in the attribute ``descriptions``, groups
        in ``groups``.

    See Also
    --------
    read_ts : Read time series of the aeon and UEA archives.
    read_ucr : Read time series of the UCR archive.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> text = ">s1|exon first\nACGT\nACG\n>s2|intron\nggtnn\n"
    >>> X, y = mc.read_fasta(io.StringIO(text), labels=1)
    >>> X
    Sequences(2 sequences of symbols from ACGT (dna), lengths 5 to 7)
    >>> X.ids, list(X), y
    (('s1|exon', 's2|intron'), ['ACGTACG', 'GGTNN'], array(['exon', 'intron'], dtype='<U6'))
    >>> mc.read_fasta(io.StringIO(text), labels=r"\|(\w+)").y.tolist()
    ['exon', 'intron']
    """
    check(one_of("raise", "number"), duplicates=duplicates)
    check(one_of("raise", "missing"), unknown=unknown)
    _check_drop(drop)
    text = read_text(path, "FASTA")
    known = None if alphabet is None else Alphabet.of(alphabet)
    records = _split(text, drop, keep_stop=known is not None and "*" in known.symbols)
    descriptions = tuple(_description(text, records, i) for i in range(len(records.headers)))
    ids = _ids(text, records, descriptions, duplicates)
    y, group = (
        None if rule is None else _labels(text, records, descriptions, ids, rule, what)
        for rule, what in ((labels, "labels"), (groups, "groups"))
    )
    known = known or _guess(text, records)
    codes = known._lookup("characters", records.values, f"sequence {ids[0]!r}")
    bad = np.flatnonzero(codes < 0)
    if len(bad) and unknown == "raise":
        (owner, *_), (position, *_) = _ragged.locate(records.offsets, bad[:1])
        symbol = records.values[bad[0]]
        problem = known._unknown("characters", symbol, int(position))
        problem = problem.replace("remove it", f"pass drop={chr(symbol)!r} to remove it")
        raise text.error(records.line_of_symbol(owner, position), f"sequence {ids[owner]!r} {problem}")
    codes[bad] = known.missing
    return Records(Sequences._make(codes, records.offsets, known, ids), y, descriptions, group)


class _Split(NamedTuple):
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
        byte = start + np.flatnonzero(self.kept[start:])[position]
        return int(np.searchsorted(self.line_starts, byte, side="right"))


def _split(text: Text, drop: str, keep_stop: bool) -> _Split:
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
    out = _Split(raw, starts, headers, kept, values, offsets_of(lengths))
    _check_ascii(text, out)
    if len(merged := np.flatnonzero(values == _HEADER)):
        raise text.error(
            out.line_of_value(merged[0]),
            "'>' occurs within a sequence; begin every header on a new line.",
        )
    if not keep_stop:
        out = _without_stops(out)
    empty = np.flatnonzero(np.diff(out.offsets) == 0)
    if len(empty):
        i = int(empty[0])
        name = _description(text, out, i).split(" ")[0]
        raise text.error(out.line(i), f"sequence {name!r} has no symbols; remove it from the file.")
    return out


def _check_drop(drop: Any) -> None:
    if not isinstance(drop, str):
        raise TypeError(f"drop must be a string of characters to remove, such as '-.' or ''; got {drop!r}.")
    if not drop.isascii():
        character = next(c for c in drop if not c.isascii())
        raise ValueError(f"drop must contain ASCII characters only; got {drop!r}. Remove {character!r}.")


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


def _check_ascii(text: Text, records: _Split) -> None:
    if len(records.values) and records.values.max() > 127:
        (owner, *_), (position, *_) = _ragged.locate(records.offsets, np.flatnonzero(records.values > 127)[:1])
        byte = records.values[records.offsets[owner] + position]
        raise text.error(
            records.line_of_symbol(owner, position),
            f"the byte {byte:#x} at position {position} of the sequence is not ASCII; remove it.",
        )


def _without_stops(records: _Split) -> _Split:
    """Remove the ``*`` at the end of sequences."""
    last = records.offsets[1:][np.diff(records.offsets) > 0] - 1
    stops = last[records.values[last] == _STOP]
    if not len(stops):
        return records
    lengths = np.diff(records.offsets)
    lengths[np.searchsorted(records.offsets, stops, side="right") - 1] -= 1
    return records._replace(values=np.delete(records.values, stops), offsets=offsets_of(lengths))


def _description(text: Text, records: _Split, i: int) -> str:
    start = records.line_starts[records.headers[i]] + 1
    end = text.raw.find(b"\n", start)
    return decoded(text.raw[start : end if end >= 0 else None]).strip()


def _ids(text: Text, records: _Split, descriptions: tuple[str, ...], duplicates: str) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    ids = []
    for i, description in enumerate(descriptions):
        if not description:
            raise text.error(records.line(i), "the header has no name; write one after >.")
        name = description.split(None, 1)[0]
        if name in seen and duplicates == "raise":
            raise text.error(
                records.line(i),
                f"the id {name!r} already occurs in line {records.line(seen[name])}; "
                "make the ids distinct, or pass duplicates='number'.",
            )
        ids.append(name)
        seen.setdefault(name, i)
    return numbered(ids) if len(seen) < len(ids) else tuple(ids)


def numbered(ids: list[str]) -> tuple[str, ...]:
    """Make ids distinct: the second ``name`` becomes ``name.2``, or the next number that is not taken."""
    taken, count, out = set(ids), dict[str, int](), []
    for name in ids:
        count[name] = count.get(name, 0) + 1
        new = name
        while count[name] > 1 and (new := f"{name}.{count[name]}") in taken:
            count[name] += 1
        taken.add(new)
        out.append(new)
    return tuple(out)


def _labels(
    text: Text, records: _Split, descriptions: tuple[str, ...], ids: tuple[str, ...], labels: Labels, what: str
) -> NDArray[Any]:
    label = rule_of(labels, what)
    out = []
    for i, (description, name) in enumerate(zip(descriptions, ids, strict=True)):
        try:
            found = label(description, name)
            if found is None or (isinstance(found, Iterable) and not isinstance(found, str | bytes)):
                raise LookupError(f"gets {found!r} from {what}=, which must return a single string or number.")
            out.append(found)
        except LookupError as error:
            raise text.error(records.line(i), f"the header {description!r} {error.args[0]}") from None
    return np.array(out)


def _guess(text: Text, records: _Split) -> Alphabet:
    """Infer the alphabet of the symbols; see `read_fasta`."""
    values = records.values
    counts = np.bincount(values, minlength=256)
    upper = {c: int(counts[ord(c)] + counts[ord(c.lower())]) for c in map(chr, range(ord("A"), ord("Z") + 1))}
    found, total = {c for c, n in upper.items() if n}, sum(upper.values())
    gaps = sum(int(counts[ord(c)]) for c in "-.*")
    if total + gaps < len(values) or not found:
        plain = np.array([chr(c).isalpha() or (bool(found) and chr(c) in "-.*") for c in range(256)])
        i = int(np.flatnonzero(~plain[values])[0])
        symbol = chr(values[i])
        raise text.error(
            records.line_of_value(i),
            f"{symbol!r} in a sequence is not a letter; pass drop={symbol!r} to remove it, or alphabet= if it is a "
            "symbol.",
        )
    for name in ("dna", "rna"):
        symbols, ambiguous = NAMED[name]
        if found <= {*symbols, *ambiguous} and _mostly((*symbols, "N"), upper):
            return Alphabet.of(name)
    if found >= {"T", "U"} and found <= {*"ACGTU", *NAMED["dna"][1]} and _mostly("ACGTUN", upper):
        rare = min("TU", key=upper.__getitem__)
        i = int(np.flatnonzero((values == ord(rare)) | (values == ord(rare.lower())))[0])
        raise text.error(
            records.line_of_value(i),
            f"the sequences contain both T (DNA) and U (RNA), here {rare}; replace one by the other, or pass "
            "alphabet='ACGTU' or 'protein'.",
        )
    return Alphabet.of("protein")  # its symbols and codes cover all letters


def _mostly(symbols: Iterable[str], counts: dict[str, int]) -> bool:
    return 10 * sum(counts[c] for c in symbols) >= 9 * sum(counts.values())
