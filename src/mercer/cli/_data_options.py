"""Options that say how to read the data; several commands share them."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from mercer._wording import Wording

LIMIT = 300
OWN = ("id", "time", "label-table", "skip-bad")
"""Options of a prediction that say how to read new data; it takes all others from the model."""

_SOURCE = "FASTA, FASTQ, CSV, TSV, Parquet, .ts or svmlight file; or a folder or 'pattern*.csv' of recordings."
OptionalSource = Annotated[Path | None, typer.Argument(metavar="DATA", help=_SOURCE)]
Source = Annotated[Path, typer.Argument(metavar="DATA", help=_SOURCE)]
Limit = Annotated[
    int | None, typer.Option(min=10, help=f"Maximum number of samples, drawn at random; {LIMIT} for compare, else all.")
]

NewId = Annotated[
    str | None,
    typer.Option("--id", help="Tables: column that tells which series a row belongs to; by default as in training."),
]
NewTime = Annotated[str | None, typer.Option("--time", help="Tables: column of the time; by default as in training.")]


def _option(*names: str, help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"option": typer.Option(*names, help=help)})


@dataclass(frozen=True)
class Reading:
    """How to read the data, as the options of the command line say it; None leaves it to the reader."""

    label: str | None = _option(
        "--label",
        "--labels",
        help="Column of the classes; FASTA: header field, from 0, key (class=), auto, or regular expression.",
    )
    target: str | None = _option("--target", help="Column of the numbers to predict; FASTA: as --label.")
    group: str | None = _option(
        "--group", "--groups", help="Groups (subjects, genes) that stay in one fold; as --label."
    )
    id: str | None = _option("--id", help="Tables: column that tells which series a row belongs to.")
    time: str | None = _option("--time", help="Tables: column of the time.")
    values: str | None = _option(
        "--values", help="Tables: columns of the values, separated by commas; patterns (t*) and ranges (t0:t59), too."
    )
    ignore: str | None = _option("--ignore", help="Tables: columns to leave out, as --values.")
    label_table: str | None = _option(
        "--label-table", help="Tables: a second table, with the id and the label or target."
    )
    confounds: str | None = _option(
        "--confounds", help="Tables: columns of numbers or text to regress out, separated by commas."
    )
    weight: str | None = _option("--weight", "--weights", help="Tables: column of sample weights.")
    form: str | None = _option("--form", help="Tables: long (a row is a time step) or wide (a row is a sample).")
    kind: str | None = _option("--kind", help="Tables: series, symbols, words or counts.")
    resample: str | None = _option(
        "--resample", help="Tables: interpolate at this time step, such as 0.1, 5min or auto."
    )
    time_channel: bool = _option("--time-channel", default=False, help="Tables: append the time as a channel.")
    separator: str | None = _option("--separator", help="Tables: separator of the fields.")
    decimal: str | None = _option("--decimal", help="Tables: decimal mark.")
    alphabet: str | None = _option("--alphabet", help="Strings: dna, rna, protein, or the symbols.")
    unknown: str | None = _option(
        "--unknown", help="Strings: missing reads other letters as unknown; raise is the default."
    )
    drop: str | None = _option("--drop", help="FASTA: symbols to remove, such as '-.*'.")
    skip_bad: bool = _option("--skip-bad", default=False, help="Skip records that cannot be read, and say which.")

    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [one.name.replace("_", "-") for one in fields(self) if getattr(self, one.name)]

    def arguments(self, source: Path) -> str:
        """Return the data and the options as they are typed."""
        parts = [shlex.quote(str(source))]
        for name in self.given():
            value = getattr(self, name.replace("-", "_"))
            parts.append(f"--{name}" if value is True else f"--{name} {shlex.quote(value)}")
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the options that were given, for a file."""
        return {name: value for name, value in asdict(self).items() if value}


class Shell(Wording):
    """The words of the command line: messages name options in place of parameters.

    Parameters
    ----------
    is_table : bool
        Whether a table is read, whose ``labels`` are a second table.
    weight : str, optional
        The covariate that is the column of weights; the others are confounds.
    is_new : bool
        Whether the data are for a model, so that most options are those of its fit.
    """

    _NAMES: ClassVar = {"labels": "label", "groups": "group", "covariates": "confounds", "invalid": "skip-bad"}
    _OTHERS: ClassVar = {"output": "class"}
    """Parameters that are options of one command."""
    _PHRASES: ClassVar = {
        "problems": "",
        "none": "",
        "convert dates": "",
        "dummies": "",
        "between options": " ",
        "folds": "--folds",
        "targets": "--target",
        "large file": "Pass a smaller file, or read it in Python, with mc.config(max_file_bytes=...).",
        "ucr": "To correct it, add a header line, and pass --label.",
    }
    _NEW: ClassVar = {
        "no label": "",
        "unknown symbol": "pass --skip-bad to skip such records, or fit the model again with --unknown missing",
    }

    def __init__(self, *, is_table: bool = False, weight: str | None = None, is_new: bool = False) -> None:
        self.is_table, self.weight, self.is_new = is_table, weight, is_new

    def name(self, parameter: str) -> str:
        """Return the option of a parameter, without its hyphens."""
        if self.is_table and parameter == "labels":
            return "label-table"
        return self._NAMES.get(parameter, parameter).replace("_", "-")

    def option(self, name: str, value: Any = ...) -> str:
        """Return an option with its value as it is typed; False is the value ``none``."""
        listed = value if isinstance(value, list) else ["none" if value is False else value]
        values = [str(one) for one in listed if one is not ... and one is not True]
        if name == "invalid":
            values = []
        if name == "covariates":
            columns = [column for one in values for column in one.split(", ")]
            weights = [_typed("weight", column) for column in columns if column == self.weight]
            confounds = ",".join(column for column in columns if column != self.weight)
            return ", ".join([_typed("confounds", confounds), *weights] if confounds or not weights else weights)
        column, _, table = values[0].rpartition(" of ") if values else ("", "", "")
        if self.is_table and name in ("label", "target", "group") and column and Path(table).suffix:
            return f"{_typed(name, column)} of {table}"  # a column of the table of labels
        return _typed(self.name(name), ",".join(values))

    def passing(self, name: str, value: Any = ..., *, start: bool = False) -> str:
        """Return the cure of passing an option, to the fit of a model where it is not one of new data."""
        verb = "fit the model again and pass" if self.is_new and self.name(name) not in OWN else "pass"
        return f"{verb[0].upper() + verb[1:] if start else verb} {self.option(name, value)}"

    def must_be(self, name: str, what: str) -> str:
        """Return the start of a sentence about a value that is not allowed; an option that is omitted is None."""
        if name in self._OTHERS:
            return f"--{self._OTHERS[name]} must be {what}"
        option = self.name(name).replace("-", "_")
        if option not in Reading.__dataclass_fields__:
            return super().must_be(name, what)
        return f"--{self.name(name)} must be {what.removesuffix(', or None')}"

    def covariate(self, column: str) -> str:
        """Return the name of a column of covariates."""
        return "weight" if column == self.weight else "confound"

    def phrase(self, topic: str, text: str) -> str:
        """Return a phrase for users of the command line."""
        if topic == "example":
            return f"{command(without='--ignore')} {text.removesuffix('.')}"
        return (self._PHRASES | (self._NEW if self.is_new else {})).get(topic, text)


def command(without: str = "") -> str:
    """Return the command line as it was typed, without an option and its value where one is named."""
    arguments = sys.argv[1:]
    if without in arguments:
        at = arguments.index(without)
        del arguments[at : at + 2]
    return "mercer " + " ".join(map(shlex.quote, arguments))


def _typed(name: str, value: str) -> str:
    """Return an option as a shell needs it; a mark such as a separator always has quotes."""
    if not value:
        return f"--{name}"
    return f"--{name} {shlex.quote(value) if any(c.isalnum() or c in '_-' for c in value) else repr(value)}"


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``reading`` of a command by the options of `Reading`."""
    kinds = get_type_hints(Reading)
    options = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=Annotated[kinds[one.name], one.metadata["option"]],
        )
        for one in fields(Reading)
    ]
    own = inspect.signature(command, eval_str=True)
    others = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for n, p in own.parameters.items() if n != "reading"]

    @wraps(command)
    def wrapper(**given: Any) -> None:
        reading = Reading(**{option.name: given.pop(option.name) for option in options})
        command(reading=reading, **given)

    first, rest = others[:1], others[1:]
    signature = inspect.Signature([*first, *options, *rest], return_annotation=None)
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return wrapper
