"""Readers of the user's data, chosen by the kind of the file; new data are read as the training data were."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer._notices import Notice, collected, described
from mercer.cli._data_options import Reading, with_option_names, without_advice
from mercer.cli._file_kinds import reader_of
from mercer.cli._new_data import Known, check_new, of_new_data
from mercer.data.fasta import read_fasta
from mercer.data.svmlight import read_svmlight
from mercer.data.table import read_table
from mercer.data.text import Records
from mercer.data.text import answers as answers_of
from mercer.data.timeseries import read_ts, read_ucr
from mercer.kernels.confounds import Confounded

_KINDS = {"fasta": "FASTA or FASTQ", "svmlight": "svmlight counts"}
"""Formats whose models do not predict other formats."""
_STRINGS_ONLY = ("drop",)
_ANSWERS = ("label", "target", "group")
_TABLES_ONLY = (
    *("id", "time", "values", "ignore", "label_table", "confounds", "weight", "form", "kind"),
    *("resample", "time_channel", "separator", "decimal"),
)


@dataclass(frozen=True)
class Read:
    """Data that were read: the records, the code that reads them, what they have, and warnings."""

    records: Records
    code: str
    known: Known
    reading: Reading
    warnings: tuple[str, ...] = ()

    @property
    def data(self) -> Any:
        """The samples, with their confounds if there are any."""
        columns = [self.records.covariates[name] for name in _columns(self.reading.confounds or "")]
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
    def about_new(self) -> str:
        """What new data are; the options that correct it, labels and copies are no matter of a prediction."""
        copies = r"\d+ of \d+ samples are identical"
        taken = re.sub(rf"(^|\.? )(To correct it,|{copies}).*|, no label(?=[,;])", "", self.taken_for)
        return "; ".join(text for text in (describe(self.X), taken, without_advice(self.skipped)) if text)

    @property
    def about_test(self) -> str:
        """What the data of a test are, which has no folds: copies are counted as independent samples."""
        said = "and a test counts copies as independent samples; remove them unless they were drawn independently"
        return re.sub(r", which is a leak if the two are in different folds; [^;.]*(?=[;.]|$)", f", {said}", self.about)

    @property
    def skipped(self) -> str:
        """Which records were left out, because they could not be read."""
        problems = self.records.problems
        if not problems:
            return ""
        count = "1 record was" if len(problems) == 1 else f"{len(problems)} records were"
        why = self._option_names(next(iter(problems.values())))
        why = re.sub(r",? or pass --skip-bad[^.;]*", "", why).removesuffix(".")
        return f"{count} skipped: {described(problems)}; {'reason' if len(problems) == 1 else 'first reason'}: {why}"

    @property
    def taken_for(self) -> str:
        """What the data were taken for, with options of the command line instead of parameters."""
        return self._option_names(self.records.description).rstrip(".")

    def _option_names(self, text: str) -> str:
        return with_option_names(text, is_table=self.known.reader == "table", weight=self.reading.weight)


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
    options: dict[str, Any] = {"is_table": reader == "table", "weight": reading.weight}
    with collected() as notices:
        try:
            records, code = _READERS[reader](path, reading, with_answers and known is None, known)
        except ValueError as error:
            text = with_option_names(str(error), **options)
            raise ValueError(text if known is None else of_new_data(text)) from error
    if known is not None:
        check_new(path, reader, records, reading, known)
    warnings = [with_option_names(one.message, **options) for one in notices if isinstance(one, Notice)]
    if known is not None:
        warnings = [of_new_data(text) for text in warnings]
    return Read(records, code, Known.of(path, reader, records), reading, tuple(dict.fromkeys(warnings)))


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
    if with_answers and records.y is not None:
        rules = ", ".join(f"--{name} {shlex.quote(rule)}" for name in _ANSWERS if (rule := getattr(reading, name)))
        said = (
            f"{path}: {answers_of(records.y)} by {rules}. To correct it, pass --label, --target, --group or --alphabet."
        )
        records = replace(records, description=f"{said} {records.description}".strip())
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
    if not known.is_folder:
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
    columns = ", ".join(f"read.covariates[{name!r}]" for name in confounds)
    X = f"mc.Confounded(read.X, list(zip({columns})))" if confounds else "read.X"
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
