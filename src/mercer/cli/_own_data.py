"""The user's data as a task: read by the extension of the file, checked, described, with the contenders for it."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer.cli._contenders import ContenderFactory
from mercer.cli._data_options import Reading, with_option_names
from mercer.cli._evaluation import INNER_FOLDS, Task
from mercer.cli._recipes import can_be_aligned, contenders
from mercer.data.fasta import read_fasta
from mercer.data.roles import looks_like
from mercer.data.sequences import Sequences
from mercer.data.svmlight import read_svmlight
from mercer.data.table import read_table
from mercer.data.text import Records
from mercer.data.timeseries import read_ts, read_ucr
from mercer.kernels.confounds import Confounded

FASTA = (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn", ".fas", ".fastq", ".fq")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
TABLES = (".tsv", ".csv", ".txt", ".parquet", ".pq", ".feather")
_STRINGS_ONLY = ("drop",)
_ANSWERS = ("label", "target", "group")
_TABLES_ONLY = (
    "id",
    "time",
    "values",
    "label_table",
    "confounds",
    "weight",
    "form",
    "kind",
    "resample",
    "time_channel",
    "separator",
    "decimal",
)


@dataclass(frozen=True)
class Known:
    """What the training data had, so that new data are read alike."""

    reader: str = ""
    """"fasta", "table", "ts", "ucr" or "svmlight"."""
    is_folder: bool = False
    """Whether there was one file per recording."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """Columns of a table by their role."""
    words: list[str] | None = None
    """Words that are counted in documents, or the number of features of svmlight's format."""

    @classmethod
    def of(cls, path: Path, reader: str, records: Records) -> Known:
        """Return what these records have."""
        words = None if isinstance(records.X, Sequences) else list(records.channels) or [str(records.X.shape[1])]
        return cls(reader, not path.is_file(), records.columns, words)

    @classmethod
    def from_file(cls, saved: Any) -> Known:
        """Return what a saved model says of its training data."""
        given = saved if isinstance(saved, dict) else {}
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})


@dataclass(frozen=True)
class Read:
    """Data that were read: the records, the code that reads them, and one line that says what they were taken for."""

    records: Records
    code: str
    known: Known

    def with_confounds(self, reading: Reading) -> Any:
        """Return the samples, with their confounds if there are any."""
        names = _columns(reading.confounds or "")
        columns = [self.records.covariates[name] for name in names]
        return Confounded(self.X, np.column_stack(columns)) if columns else self.X

    @property
    def X(self) -> Any:
        """The samples."""
        return self.records.X

    @property
    def ids(self) -> list[str]:
        """Names of the samples, or their numbers from 0."""
        return list(self.records.ids) if self.records.ids else [str(i) for i in range(self.X.shape[0])]

    @property
    def about(self) -> str:
        """What the data are."""
        return "; ".join(text for text in (describe(self.X), self.taken_for, self.skipped) if text)

    @property
    def skipped(self) -> str:
        """What was left out because it could not be read."""
        problems = self.records.problems
        if not problems:
            return ""
        who, why = next(iter(problems.items()))
        count = "1 record was" if len(problems) == 1 else f"{len(problems)} records were"
        return f"{count} skipped, first {who!r}: {why}"

    @property
    def taken_for(self) -> str:
        """What a table was taken for, with options of the command line instead of parameters."""
        text = self.records.description.replace(" (a column, or False for none)", "")
        text = text.replace("use GroupKFold with groups=mc.identical_groups(X)", "remove them, or pass --group")
        return with_option_names(text).rstrip(".")


def task_of(path: Path, reading: Reading, *, limit: int, folds: int, seed: int) -> Task:
    """Read samples with their labels or targets and choose the contenders.

    Parameters
    ----------
    path : Path
        A file, recognized by its extension, or a folder.
    reading : Reading
        How to read it.
    limit : int
        Maximum number of samples, drawn at random.
    folds : int
        Number of outer folds; every class must have enough members.
    seed : int
        Seed of the random draw.
    """
    found = read(path, reading)
    records = found.records
    if records.y is None:
        raise ValueError(f"{path} has neither classes nor targets; pass --label or --target to say where they are.")
    chosen = _subset(len(records.y), limit, seed)
    X, y = records.X[chosen], records.y[chosen]
    groups = None if records.groups is None else records.groups[chosen]
    weights = records.covariates[reading.weight][chosen] if reading.weight else None
    if weights is not None and ((weights < 0).any() or not weights.any()):
        raise ValueError(
            f"Weights must not be negative nor all zero; the least one of {reading.weight!r} is {weights.min():g}."
        )
    regression = y.dtype.kind == "f"
    (_check_targets if regression else _check_classes)(y, groups, folds, records.y)
    about = [describe(X, len(records.y)), _about_answers(y, groups)]
    if isinstance(X, Sequences) and X.is_symbols and not can_be_aligned(X):
        about.append("too long for alignment kernels (decrease --limit, or use mc.AffinePairHMM in code)")
    about += [text for text in (found.taken_for, found.skipped) if text]
    data = found.with_confounds(reading)[chosen]
    return Task(
        "; ".join(about),
        data,
        y,
        contenders(data, ContenderFactory(regression, bool(reading.confounds)), seed),
        groups,
        weights,
        reading=found.code,
        known=found.known,
        arguments=reading.arguments(path),
    )


def read(path: Path, reading: Reading, *, with_answers: bool = True, known: Known | None = None) -> Read:
    """Read data by the extension of a file.

    Parameters
    ----------
    path : Path
        A file or folder.
    reading : Reading
        How to read it.
    with_answers : bool
        Whether labels or targets are required where an option must tell them.
    known : Known, optional
        What the training data had, for new data, whose labels are not read.
    """
    is_pattern = any(sign in str(path) for sign in "*?[") and not path.exists()
    if not path.exists() and not is_pattern:
        raise ValueError(f"{path} does not exist; pass the path of a file or folder.")
    suffix = "" if path.is_dir() else next((s.lower() for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    reader = "table" if is_pattern else _reader(path, suffix)
    if known is not None and known.reader and (reader == "fasta") != (known.reader == "fasta"):
        kind = "FASTA or FASTQ" if known.reader == "fasta" else "a table or series"
        raise ValueError(f"{path} cannot be predicted: the model was fitted to {kind}; pass data of the same kind.")
    if reader != "fasta":
        _refuse(reading, _STRINGS_ONLY, "FASTA and FASTQ files")
    if reader not in ("fasta", "table"):
        _refuse(reading, (*_TABLES_ONLY, *_ANSWERS), "tables with a header line")
    made = _READERS[reader](path, reading, with_answers and known is None, known)
    return Read(*made, Known.of(path, reader, made[0]))


def _reader(path: Path, suffix: str) -> str:
    """Return the name of the reader for a file or folder."""
    if suffix in FASTA:
        return "fasta"
    if suffix in SVMLIGHT:
        return "svmlight"
    if suffix != ".ts" and path.is_file() and _begins_like_fasta(path):
        raise ValueError(f"{path} looks like FASTA, but has another extension; rename it to end in .fasta.")
    if suffix not in (".ts", *TABLES) and not path.is_dir():
        endings = ", ".join((*FASTA, ".ts", *TABLES, *SVMLIGHT))
        raise ValueError(f"The extension of {path} must be one of {endings}; got {suffix!r}. Rename the file.")
    if suffix == ".ts":
        return "ts"
    return "ucr" if suffix in (".tsv", ".csv", ".txt") and _has_no_header(path) else "table"


def describe(X: Any, whole: int | None = None) -> str:
    """Return one line on the samples, such as ``"20 of 30 series of dimension 1, length 8"``."""
    n = X.shape[0]
    size = str(n) if whole in (None, n) else f"{n} of {whole}"
    if sparse.issparse(X):
        return f"{size} documents, counts of {X.shape[1]} words"
    kind = f"strings of {X.alphabet.describe()}" if X.alphabet is not None else f"series of dimension {X.dimension}"
    few, many = (X.lengths.min(), X.lengths.max()) if n else (0, 0)
    return f"{size} {kind}, length {few if few == many else f'{few} to {many}'}"


# -- readers -----------------------------------------------------------------------------------------------


def _read_ts(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    options = {"invalid": "mask"} if reading.skip_bad else {}
    return read_ts(path, **options), f"X, y = mc.read_ts({str(path)!r}{_shown(options)})"


def _read_ucr(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    options = {"invalid": "mask"} if reading.skip_bad else {}
    return read_ucr(path, **options), f"X, y = mc.read_ucr({str(path)!r}{_shown(options)})"


def _read_svmlight(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    options: dict[str, Any] = {"invalid": "mask"} if reading.skip_bad else {}
    if known is not None and known.words:
        options["n_features"] = int(known.words[0])
    return read_svmlight(path, **options), f"X, y = mc.read_svmlight({str(path)!r}{_shown(options)})"


def _read_fasta(path: Path, reading: Reading, with_answers: bool, known: Known | None) -> tuple[Records, str]:
    _refuse(reading, _TABLES_ONLY, "tables")
    answers = reading.label or reading.target
    if reading.label and reading.target:
        raise ValueError("--label and --target cannot both say what to predict; pass one of them.")
    if with_answers and answers is None:
        raise ValueError(
            f"{path} requires --label (classes) or --target (numbers) to find them in the header lines; pass a field "
            "number, counted from 0, where | and white space separate fields, a key such as class=, auto, or a regular "
            "expression with one group."
        )
    options: dict[str, Any] = {}
    if with_answers:
        options["labels"] = _rule(str(answers))
        options |= {"groups": _rule(reading.group)} if reading.group else {}
    options |= {name: value for name in ("alphabet", "unknown", "drop") if (value := getattr(reading, name))}
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
        options["resample"] = float(reading.resample) if _is_number(reading.resample) else reading.resample
    options |= {"invalid": "mask"} if reading.skip_bad else {}
    options |= _columns_given(reading) if known is None else _columns_known(reading, known)
    source: Any = str(path)
    if known is not None and known.is_folder and path.is_file():
        source = [source]  # one recording
    records = read_table(source, **options)
    code = f"read = mc.read_table({str(path)!r}{_shown(options)})"
    return records, _unpacked(code, records, "read.y", _columns(reading.confounds or ""))


def _columns_given(reading: Reading) -> dict[str, Any]:
    """Return the roles of columns that the options tell; ``none`` is a role without a column."""
    options: dict[str, Any] = {}
    for name in ("time", *_ANSWERS):
        if value := getattr(reading, name):
            options[name] = False if value == "none" else value
    for name, text in (("id", reading.id), ("values", reading.values)):
        if text:
            columns = _columns(text)
            options[name] = False if text == "none" else columns if len(columns) > 1 else columns[0]
    if reading.label_table:
        options["labels"] = reading.label_table
    beside = [*_columns(reading.confounds or ""), *([reading.weight] if reading.weight else [])]
    return options | ({"covariates": beside} if beside else {})


def _columns_known(reading: Reading, known: Known) -> dict[str, Any]:
    """Return the roles of columns of new data: those of the training data, without labels."""
    options: dict[str, Any] = {"label": False, "target": False, "group": False}
    if known.columns.get("values"):
        options["values"] = known.columns["values"]
    if not known.is_folder:
        options["id"] = known.columns.get("id") or False
        options["time"] = known.columns["time"][0] if known.columns.get("time") else False
    options |= {"covariates": _columns(reading.confounds)} if reading.confounds else {}
    return options | ({"alphabet": known.words} if known.words else {})


def _shown(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())


_READERS: dict[str, Callable[[Path, Reading, bool, Known | None], tuple[Records, str]]] = {
    "fasta": _read_fasta,
    "table": _read_table,
    "ts": _read_ts,
    "ucr": _read_ucr,
    "svmlight": _read_svmlight,
}


def _unpacked(code: str, records: Records, y: str, confounds: Sequence[str] = ()) -> str:
    columns = ", ".join(f"read.covariates[{name!r}]" for name in confounds)
    X = f"mc.Confounded(read.X, list(zip({columns})))" if confounds else "read.X"
    if records.groups is not None:
        return f"{code}\nX, y, groups = {X}, {y}, read.groups  # groups: for GroupKFold"
    return f"{code}\nX, y = {X}, {y}"


def _with_numbers(path: Path, records: Records) -> Records:
    from dataclasses import replace

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


def _begins_like_fasta(path: Path) -> bool:
    return _start(path).startswith(b">")


def _has_no_header(path: Path) -> bool:
    """Whether all fields of the first line but the first, which may be a label, are numbers, as in UCR's tables."""
    line = re.split(r"[,;\t ]+", _start(path).partition(b"\n")[0].decode("utf-8", "replace").strip())
    named = any(looks_like(role, line[:1]) for role in ("id", "label", "target", "group", "time"))
    return len(line) > 1 and not named and all(_is_number(text) for text in line[1:])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "?")
    return True


# -- checks ------------------------------------------------------------------------------------------------


def _subset(n: int, limit: int, seed: int) -> Any:
    """Return the samples that are used, in their order."""
    return np.arange(n) if n <= limit else np.sort(np.random.default_rng(seed).permutation(n)[:limit])


def _about_answers(y: Any, groups: Any) -> str:
    about = f"targets {y.min():.4g} to {y.max():.4g}" if y.dtype.kind == "f" else f"{len(np.unique(y))} classes"
    return about if groups is None else f"{about}, {len(np.unique(groups))} groups that stay in one fold"


def _check_targets(y: Any, groups: Any, folds: int, whole: Any) -> None:
    if not np.isfinite(y).all():
        raise ValueError(f"The target of sample {int(np.argmin(np.isfinite(y)))} is missing or infinite; remove it.")
    if len(np.unique(y)) == 1:
        raise ValueError(f"All targets are {y[0]:g}; there is nothing to predict. Check --target.")
    if len(y) < 2 * folds:
        raise ValueError(f"{len(y)} samples are too few for {folds} folds; add data, or decrease --folds.")
    _check_groups(groups, folds)


def _check_classes(y: Any, groups: Any, folds: int, whole: Any) -> None:
    """Raise if the classes of the subset of the ``whole`` file are too few or too small for the folds."""
    if len(np.unique(whole)) == len(whole) > 2:
        raise ValueError(
            f"Each of the {len(whole)} samples has a different class; check that --label selects the right field, or "
            "pass --target if these are numbers to predict."
        )
    names, counts = np.unique(y, return_counts=True)
    if len(names) < 2:
        cure = "Increase --limit." if len(np.unique(whole)) > 1 else "Check --label."
        raise ValueError(f"At least two classes are required; got only {str(names[0])!r}. {cure}")
    i = int(np.argmin(counts))
    if _too_few(int(counts[i]), folds):
        enough = not _too_few(int(np.sum(whole == names[i])), folds)
        members = "1 member" if counts[i] == 1 else f"{counts[i]} members"
        raise ValueError(
            f"Class {str(names[i])!r} has {members}, too few for {folds} outer, {INNER_FOLDS} inner folds; "
            + ("increase --limit." if enough else "drop the class, add data, or decrease --folds.")
        )
    _check_groups(groups, folds)


def _too_few(members: int, folds: int) -> bool:
    return members < folds or members - -(-members // folds) < INNER_FOLDS


def _check_groups(groups: Any, folds: int) -> None:
    if groups is not None and len(np.unique(groups)) < max(folds, INNER_FOLDS + 1):
        raise ValueError(
            f"{len(np.unique(groups))} groups are too few for {folds} folds; check --group, or decrease --folds."
        )
