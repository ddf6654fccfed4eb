"""FASTA and FASTQ readers of our own, over the bytes of a file: no dependency, and errors name the line of a symbol."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._files import check_path
from mercer._parameters import check, one_of, whole
from mercer._wording import option, passing, wording
from mercer.data import ragged as _ragged
from mercer.data._fasta import Labels, Report, Split, fasta_text, guessed, header_of, rule_of, split
from mercer.data._symbols import NAMED
from mercer.data.alphabet import Alphabet
from mercer.data.sequences import Sequences
from mercer.data.text import Records, Source, Text, described


def read_fasta(
    path: Source | Iterable[Any],
    *,
    labels: Labels | None = None,
    groups: Labels | None = None,
    alphabet: Any = None,
    unknown: str = "raise",
    drop: str = "",
    duplicates: str = "raise",
    invalid: str = "raise",
) -> Records:
    r"""Read a FASTA or FASTQ file: sequences with ids, and optionally labels from the header lines.

    A sequence may span several lines, including blank ones; lines that begin with ``;`` are comments. All common line
    ends and gzipped files are supported. The id is the first word of the header. A FASTQ file has four lines per
    record, of which the qualities are not used.

    Parameters
    ----------
    path : str, path, open file or iterable of records
        Plain or gzipped; or Biopython's records, as ``SeqIO.parse`` returns them: objects with ``id``, ``description``
        and ``seq``.
    labels : str, int, callable or mapping, optional
        How to extract the label from a header line (without ``>``). ``"class="`` finds ``class=value``; any other str
        is a regular expression with one group, searched in the line; an int is a field number, counted from 0 or from
        the end, where ``|`` and white space separate fields; a callable receives the line; a mapping is indexed by the
        id; "auto" finds the key or field that repeats like a class, and says so in ``description``.
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
    invalid : {"raise", "mask"}
        Whether to raise at the first record that cannot be read, or to leave out all such records and report them in
        ``problems``.

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
    check(one_of("raise", "mask"), invalid=invalid)
    _check_drop(drop)
    lost: dict[str | int, str] = {}
    text = fasta_text(path, None if invalid == "raise" else lost)
    known = None if alphabet is None else Alphabet.of(alphabet)
    report = Report(text, invalid)
    records = split(text, drop, known is not None and "*" in known.symbols, report)
    descriptions = tuple(header_of(text, records, i) for i in range(len(records.headers)))
    ids = _ids(records, descriptions, duplicates, report)
    report.check_some(len(ids))
    labels, said = _found(text, labels, tuple(d for i, d in enumerate(descriptions) if i not in report.problems))
    y, group = (
        None if rule is None else _labels(records, descriptions, ids, rule, what, report)
        for rule, what in ((labels, "labels"), (groups, "groups"))
    )
    if known is None:
        _check_letters(records, report)
        known = _guess(text, records, report)
    codes = known._lookup("characters", records.values, f"sequence {ids[0]!r}")
    bad = codes < 0
    if unknown == "raise":
        _check_known(records, bad, known, ids, report)
    codes[bad] = known.missing
    X = Sequences._make(codes, records.offsets, known, ids)
    return _records(report, X, y, group, descriptions, said, lost)


def _check_known(records: Split, bad: NDArray[np.bool_], known: Alphabet, ids: tuple[str, ...], report: Report) -> None:
    """Report the first symbol of each record that is not in the alphabet."""
    for record, position, byte, line in records.first_of(bad):
        if record not in report.problems:
            problem = known._unknown("characters", byte, position)
            problem = problem.replace("remove it", f"{passing('drop', chr(byte))} to remove it")
            report.fail(record, line, f"sequence {ids[record]!r} {problem}")


def _found(text: Text, labels: Any, descriptions: tuple[str, ...]) -> tuple[Any, str]:
    """Return the rule of the labels, found in the headers if it is "auto", and the sentence that says it."""
    if labels != "auto":
        return labels, ""
    try:
        rule = guessed(descriptions)
    except ValueError as error:
        raise ValueError(f"{text.name}: {error}") from None
    what = f"the key {rule!r}" if isinstance(rule, str) else f"field {rule}"
    return rule, f"{text.name}: the labels are {what} of the headers; {passing('labels')} to correct it."


def _records(
    report: Report,
    X: Sequences,
    y: Any,
    groups: Any,
    descriptions: tuple[str, ...],
    said: str,
    lost: dict[str | int, str],
) -> Records:
    """Leave out the records with problems, and say what should be known."""
    problems, kept = dict(lost), list(range(len(X)))
    if report.problems:
        kept = [i for i in kept if i not in report.problems]
        report.check_some(len(X))
        for i, sentence in sorted(report.problems.items()):
            name = str((X.ids or ())[i])
            problems[name if name and name not in problems else f"line {report.lines[i]}"] = sentence
        mask = np.zeros(len(X), dtype=bool)
        mask[kept] = True
        good = X[kept]
        X = Sequences._make(good.values, good.offsets, good.alphabet, good.ids, mask, problems)
    y, groups = (None if values is None else np.array([values[i] for i in kept]) for values in (y, groups))
    headers = tuple(descriptions[i] for i in kept)
    return Records(X, y, headers, groups, problems=problems, **described(said, "", X, groups))


def _check_drop(drop: Any) -> None:
    if not isinstance(drop, str):
        raise TypeError(
            f"{wording().must_be('drop', 'a string of characters to remove')}, such as '-.' or ''; got {drop!r}."
        )
    if not drop.isascii():
        character = next(c for c in drop if not c.isascii())
        raise ValueError(f"drop must contain ASCII characters only; got {drop!r}. Remove {character!r}.")


def _ids(records: Split, descriptions: tuple[str, ...], duplicates: str, report: Report) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    ids = []
    for i, description in enumerate(descriptions):
        if not description:
            report.fail(i, records.line(i), "the header has no name; write one after >.")
        name = description.split(None, 1)[0] if description else ""
        if name and name in seen and duplicates == "raise":
            report.fail(
                i,
                records.line(i),
                f"the id {name!r} already occurs in line {records.line(seen[name])}; "
                "make the ids distinct, or pass duplicates='number'.",
            )
        ids.append(name)
        seen.setdefault(name, i)
    return numbered(ids) if len(seen) < len(ids) and duplicates == "number" else tuple(ids)


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
    records: Split, descriptions: tuple[str, ...], ids: tuple[str, ...], labels: Labels, what: str, report: Report
) -> list[Any]:
    label = rule_of(labels, what)
    out: list[Any] = []
    for i, (description, name) in enumerate(zip(descriptions, ids, strict=True)):
        found = None
        try:
            found = label(description, name)
            if found is None or (isinstance(found, Iterable) and not isinstance(found, str | bytes)):
                raise LookupError(f"gets {found!r} from {option(what)}, which must return a single string or number.")
        except LookupError as error:
            report.fail(i, records.line(i), f"the header {description!r} {error.args[0]}")
        out.append(found)
    return out


def _check_letters(records: Split, report: Report) -> None:
    """Report symbols that no alphabet has which is inferred."""
    letters = np.array([chr(c).isalpha() and c < 128 for c in range(256)])
    plain = letters.copy()
    plain[[ord(c) for c in "-.*"]] = bool(letters[records.values].any())
    for record, _, byte, line in records.first_of(~plain[records.values]):
        if record not in report.problems:
            symbol = chr(byte)
            report.fail(
                record,
                line,
                f"{symbol!r} in a sequence is not a letter; {passing('drop', symbol)} to remove it, or "
                f"{option('alphabet')} if it is a symbol.",
            )


def _guess(text: Text, records: Split, report: Report) -> Alphabet:
    """Infer the alphabet of the valid records; see `read_fasta`."""
    good = np.setdiff1d(np.arange(len(records.headers)), list(report.problems))
    report.check_some(len(records.headers))
    values = _ragged.gather(records.values, records.offsets, good)[0] if report.problems else records.values
    counts = np.bincount(values, minlength=256)
    upper = {c: int(counts[ord(c)] + counts[ord(c.lower())]) for c in map(chr, range(ord("A"), ord("Z") + 1))}
    found = {c for c, n in upper.items() if n}
    for name in ("dna", "rna"):
        symbols, ambiguous = NAMED[name]
        if found <= {*symbols, *ambiguous} and _mostly((*symbols, "N"), upper):
            return Alphabet.of(name)
    if found >= {"T", "U"} and found <= {*"ACGTU", *NAMED["dna"][1]} and _mostly("ACGTUN", upper):
        rare = min("TU", key=upper.__getitem__)
        *_, line = next(records.first_of(np.isin(records.values, [ord(rare), ord(rare.lower())])))
        raise text.error(
            line,
            f"the sequences contain both T (DNA) and U (RNA), here {rare}; replace one by the other, or "
            f"{passing('alphabet', 'ACGTU')} or 'protein'.",
        )
    return Alphabet.of("protein")  # its symbols and codes cover all letters


def _mostly(symbols: Iterable[str], counts: dict[str, int]) -> bool:
    return 10 * sum(counts[c] for c in symbols) >= 9 * sum(counts.values())


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
