"""Readers of the user's data, chosen by the kind of the file; new data are read as the training data were."""

from __future__ import annotations

import gzip
import re
import shlex
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._notices import Notice, collected, described
from mercer._wording import worded
from mercer.cli._confounds import Categories, categories_of, code_of, numbers_of, table_of
from mercer.cli._data_options import Reading, Shell
from mercer.data.fasta import read_fasta
from mercer.data.recordings import TABLES, is_collection
from mercer.data.roles import UnknownColumn
from mercer.data.svmlight import read_svmlight
from mercer.data.table import read_table
from mercer.data.text import Records, suffix_of
from mercer.data.text import answers as answers_of
from mercer.data.timeseries import looks_like_ucr, read_ts, read_ucr
from mercer.kernels.confounds import Confounded

if TYPE_CHECKING:
    from mercer.cli._own_data import Known

_KINDS = {"fasta": "FASTA or FASTQ", "svmlight": "svmlight counts"}
"""Formats whose models do not predict other formats."""
_STRINGS_ONLY = ("drop",)
_ANSWERS = ("label", "target", "group")
_TABLES_ONLY = (
    *("id", "time", "values", "ignore", "label_table", "confounds", "weight", "form", "kind"),
    *("resample", "time_channel", "separator", "decimal"),
)
_SIZE = re.compile(
    r"\b(?P<form>form|format|archive): \d+ (?:series of \d+ channels?(?: \((?P<channels>.*?)\)(?=[;,.]|$))?|strings?|"
    r"documents? of \d+ different words?)(?:[;,] |$)"
)
"""The number of samples and channels in what data were taken for."""


@dataclass(frozen=True)
class Read:
    """Data that were read: the records, the code and the kind of reader that read them, and warnings."""

    path: Path
    records: Records
    code: str
    reader: str
    reading: Reading
    categories: Categories
    warnings: tuple[str, ...] = ()

    @property
    def data(self) -> Any:
        """The samples, with their confounds as numbers if there are any."""
        numbers = numbers_of(self.records, _columns(self.reading.confounds or ""), self.categories)
        return self.X if numbers is None else Confounded(self.X, numbers)

    @property
    def confounds(self) -> Any:
        """The confounds as they are, numbers or text, one row per sample; None without confounds."""
        return table_of(self.records, _columns(self.reading.confounds or ""))

    @property
    def X(self) -> Any:
        """The samples."""
        return self.records.X

    @property
    def ids(self) -> list[str]:
        """Names of the samples, or their numbers from 0."""
        return list(self.records.ids) if self.records.ids else [str(i) for i in range(self.X.shape[0])]

    @property
    def about_new(self) -> str:
        """Description of new data, without correcting options, labels and copies, which predictions do not use."""
        return _joined(describe(self.X), self._taken_for, self.skipped)

    @property
    def _taken_for(self) -> str:
        """What the data were taken for, without their name and size, which come before it."""
        said = self.records.taken_for.rstrip(".").removeprefix(f"{self.path}, ")
        return _SIZE.sub(_channels, said, count=1)

    @property
    def about_test(self) -> str:
        """Description of the data of a test; it has no folds, and counts copies as independent samples."""
        said = "and a test counts copies as independent samples; remove them unless they were drawn independently"
        return _joined(describe(self.X), self.taken_for(said), self.skipped)

    @property
    def skipped(self) -> str:
        """Which records were left out, because they could not be read; how to correct them comes after a semicolon."""
        problems = self.records.problems
        if not problems:
            return ""
        count = "1 record was" if len(problems) == 1 else f"{len(problems)} records were"
        reason = next(iter(problems.values()))
        why = (reason.rpartition("; ")[0] or reason).removesuffix(".")
        return f"{count} skipped: {described(problems)}; {'reason' if len(problems) == 1 else 'first reason'}: {why}"

    def taken_for(self, copies: str, *, cures: bool = True) -> str:
        """Return what the data were taken for, and what identical samples are; with options that correct it, or none.

        Parameters
        ----------
        copies : str
            What is wrong with identical samples.
        cures : bool
            Whether the reader has the command line; others see no options.
        """
        records, reading = self.records, self.reading
        said = [self._taken_for, records.correction.rstrip(".")]
        if self.reader == "fasta" and records.y is not None:
            rules = ", ".join(f"--{name} {shlex.quote(rule)}" for name in _ANSWERS if (rule := getattr(reading, name)))
            answers = f"{self.path}: {answers_of(records.y)}"
            how = "To correct it, pass --label, --target, --group or --alphabet"
            said = [f"{answers} by {rules}", how, said[0]] if cures else [answers]
        elif not cures:
            said = [_without_hyphens(said[0])]
        if records.n_copies:
            group = "--group" if records.groups is None else "a --group that keeps them together"
            cure = f"; remove them, or pass {group}" if cures and copies is LEAK else ""
            said.append(f"{records.n_copies} of {self.X.shape[0]} samples are identical to another one, {copies}{cure}")
        return ". ".join(sentence for sentence in said if sentence)


LEAK = "which is a leak if the two are in different folds"


def _channels(size: re.Match[str]) -> str:
    """Return the form of the data, and the names of their channels."""
    names = size["channels"]
    channels = f"channel{'s' if ', ' in names else ''} {names}; " if names else ""
    return f"{size['form']}: {channels}"


def _joined(*clauses: str) -> str:
    return "; ".join(clause for clause in clauses if clause)


def _without_hyphens(text: str) -> str:
    """Return text with names of options as words."""
    for name in Reading.__dataclass_fields__:
        text = text.replace(f"--{name.replace('_', '-')} ", f"{name} ")
    return text


def read(path: Path, reading: Reading, *, with_answers: bool = True, known: Known | None = None) -> Read:
    """Read data by the kind of a file.

    Parameters
    ----------
    path : Path
        A file, folder or pattern.
    reading : Reading
        How to read it.
    with_answers : bool
        Whether labels or targets are required where an option must tell them.
    known : Known, optional
        What the training data had, for new data, whose labels are not read.
    """
    reader = reader_of(path)
    if known is not None and known.reader and _KINDS.get(reader) != _KINDS.get(known.reader):
        kind = _KINDS.get(known.reader, "a table or series")
        raise ValueError(f"{path} cannot be predicted: the model was fitted to {kind}; pass data of the same kind.")
    if reader != "fasta":
        _refuse(reading, _STRINGS_ONLY, "FASTA and FASTQ files")
    if reader not in ("fasta", "table"):
        _refuse(reading, (*_TABLES_ONLY, *_ANSWERS), "tables with a header line")
    words = Shell(is_table=reader == "table", weight=reading.weight, is_new=known is not None)
    with collected() as notices, worded(words):
        try:
            records, code = _READERS[reader](path, reading, with_answers and known is None, known)
        except UnknownColumn as error:
            if known is None or getattr(reading, error.role, None):  # the user names it, and not the model
                raise
            raise ValueError(_required(error, words.name(error.role))) from error
    if known is not None:
        _check_new(path, reader, records, reading, known)
    warnings = tuple(dict.fromkeys(one.message for one in notices if isinstance(one, Notice)))
    categories = categories_of(records) if known is None else known.categories
    return Read(path, records, code, reader, reading, categories, warnings)


def _required(error: UnknownColumn, option: str) -> str:
    """Return what is wrong with new data that lack a column of the training data."""
    cures = {
        "confounds": f" Or pass --label-table with the id and {str(error.column)!r}.",
        "id": " Pass --id with the column that names the series, or a folder with one file per series.",
        "time": " Pass --time with the column of the time.",
    }
    return f"The model requires {str(error.column)!r} ({option}), which {error.reason}{cures.get(option, '')}"


def _check_new(path: Path, reader: str, records: Records, reading: Reading, known: Known) -> None:
    """Raise if new series have another time step than the training data, or lost their first value."""
    new, old = records.step, known.step
    if new and old and not reading.time_channel and abs(new - old) > 0.05 * old:  # as much as a regular grid may vary
        raise ValueError(
            f"{path} has time steps of {new:g}, and the model was fitted to steps of {old:g}; pass data with steps of "
            f"{old:g}, or fit the model again with --resample {old:g}, which predict then uses, too."
        )
    if reader == "ucr" and known.length and (records.X.lengths == known.length - 1).all():
        raise ValueError(
            f"{path} has {known.length} numbers in a line, and the first of them would be taken for a label; add a "
            f"first column, such as 0, to the {known.length} values. Predictions do not use it."
        )


def describe(X: Any, whole: int | None = None) -> str:
    """Return one line on the samples, such as ``"20 of 30 series of dimension 1, length 8"``."""
    n = X.shape[0]
    size = str(n) if whole in (None, n) else f"{n} of {whole}"
    if sparse.issparse(X):
        return f"{size} document{'' if size == '1' else 's'}, counts of {X.shape[1]} words"
    strings = "string" if size == "1" else "strings"
    kind = f"{strings} of {X.alphabet.describe()}" if X.alphabet is not None else f"series of dimension {X.dimension}"
    few, many = (X.lengths.min(), X.lengths.max()) if n else (0, 0)
    return f"{size} {kind}, length {few if few == many else f'{few} to {many}'}"


# -- one function per kind of file ---------------------------------------------------------------------------


def _without_options(read: Callable[..., Records]) -> Callable[..., tuple[Records, str]]:
    """Return the function for a format that says itself where the labels are."""

    def function(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
        options: dict[str, Any] = {"invalid": "mask"} if reading.skip_bad else {}
        if read is read_svmlight and known is not None and known.words:
            options["n_features"] = int(known.words[0])
        return read(path, **options), f"X, y = mc.{read.__name__}({str(path)!r}{_shown(options)})"

    return function


def _read_fasta(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    _refuse(reading, _TABLES_ONLY, "tables")
    answers = reading.label or reading.target
    if reading.label and reading.target:
        raise ValueError("--label and --target cannot both say what to predict; pass one of them.")
    if with_answers and answers is None and path.stat().st_size > 0:
        raise ValueError(
            f"{path} requires --label (classes) or --target (numbers) to find them in the header lines; pass a field "
            "number, counted from 0, where | and white space separate fields, a key such as class=, auto, or a regular "
            "expression with one group."
        )
    options: dict[str, Any] = {}
    if with_answers and answers is not None:
        options["labels"] = _rule(answers)
        options |= {"groups": _rule(reading.group)} if reading.group else {}
    options |= {name: value for name in ("alphabet", "unknown", "drop") if (value := getattr(reading, name))}
    options |= {"alphabet": known.alphabet} if known is not None and known.alphabet else {}
    options |= {"invalid": "mask"} if reading.skip_bad else {}
    records = read_fasta(path, duplicates="number", **options)
    if len({text.split()[0] for text in records.descriptions}) < len(records.X):
        options["duplicates"] = "number"
    numbers = with_answers and reading.target
    records = _with_numbers(path, records) if numbers else records
    code = f"read = mc.read_fasta({str(path)!r}{_shown(options)})"
    return records, _unpacked(code, records, "read.y.astype(float)" if numbers else "read.y")


def _read_table(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    options: dict[str, Any] = {}
    for name in ("form", "kind", "time_channel", "separator", "decimal", "alphabet", "unknown"):
        options |= {name: value} if (value := getattr(reading, name)) else {}
    if reading.resample:
        options["resample"] = reading.resample
        with suppress(ValueError):  # a number is a step, and a text a duration
            options["resample"] = float(reading.resample)
        if known is not None and known.step and reading.resample == "auto":
            options["resample"] = known.step
    options |= {"invalid": "mask"} if reading.skip_bad else {}
    options |= _columns_given(reading) if known is None else _columns_known(reading, known, path)
    source: Any = str(path)
    if known is not None and known.is_folder and path.is_file() and not reading.id:
        source = [source]  # one recording
    records = read_table(source, **options)
    code = f"read = mc.read_table({str(path)!r}{_shown(options)})"
    unpacked = _unpacked(code, records, "read.y", _columns(reading.confounds or ""))
    weights = f"\nweights = read.covariates[{reading.weight!r}]" if reading.weight else ""
    return records, unpacked + weights


def _columns_given(reading: Reading) -> dict[str, Any]:
    """Return the roles of columns that the options tell; ``none`` is a role without a column."""
    options: dict[str, Any] = {}
    for name in ("time", *_ANSWERS):
        if value := getattr(reading, name):
            options[name] = False if value == "none" else value
    for name, text in (("id", reading.id), ("values", reading.values), ("ignore", reading.ignore)):
        if text:
            columns = _columns(text)
            options[name] = False if text == "none" else columns if len(columns) > 1 else columns[0]
    if reading.label_table:
        options["labels"] = reading.label_table
    beside = [*_columns(reading.confounds or ""), *([reading.weight] if reading.weight else [])]
    return options | ({"covariates": beside} if beside else {})


def _columns_known(reading: Reading, known: Known, path: Path) -> dict[str, Any]:
    """Return the roles of columns of new data: those of the training data, without labels.

    Ids are an option of their own, and the names of the files where there is one file per recording.
    """
    options: dict[str, Any] = {"label": False, "target": False, "group": False}
    if known.columns.get("values"):
        options["values"] = known.columns["values"]
    if reading.id:
        options["id"] = _columns(reading.id)
    elif not known.is_folder and path.is_file():
        options["id"] = known.columns.get("id") or False
    if reading.time:
        options["time"] = False if reading.time == "none" else reading.time
    elif not known.is_folder:
        options["time"] = known.columns["time"][0] if known.columns.get("time") else False
    options |= {"covariates": _columns(reading.confounds)} if reading.confounds else {}
    options |= {"labels": reading.label_table} if reading.label_table else {}
    alphabet = known.words or known.alphabet
    return options | ({"alphabet": alphabet} if alphabet else {})


def _shown(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())


_READERS: dict[str, Callable[[Path, Reading, bool, Known | None], tuple[Records, str]]] = {
    "fasta": _read_fasta,
    "table": _read_table,
    "ts": _without_options(read_ts),
    "ucr": _without_options(read_ucr),
    "svmlight": _without_options(read_svmlight),
}


def _unpacked(code: str, records: Records, y: str, confounds: Sequence[str] = ()) -> str:
    X = code_of(confounds, categories_of(records)) if confounds else "read.X"
    if records.groups is not None:
        return f"{code}\nX, y, groups = {X}, {y}, read.groups  # groups: for GroupKFold"
    return f"{code}\nX, y = {X}, {y}"


def _with_numbers(path: Path, records: Records) -> Records:
    numbers = []
    for name, text in zip(records.ids or (), records.y if records.y is not None else (), strict=True):
        try:
            numbers.append(float(text))
        except ValueError:
            raise ValueError(f"{path}: the target of {name!r} must be a number; got {str(text)!r}.") from None
    return replace(records, y=np.array(numbers))


def _refuse(reading: Reading, names: tuple[str, ...], where: str) -> None:
    wrong = [name for name in names if getattr(reading, name)]
    if wrong:
        raise ValueError(f"--{wrong[0].replace('_', '-')} applies to {where} only; omit it.")


def _columns(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _rule(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


# -- which reader a file or folder needs ---------------------------------------------------------------------

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
