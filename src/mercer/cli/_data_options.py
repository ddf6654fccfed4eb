"""Options that say how to read the data; several commands share them."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

LIMIT = 300

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
    confounds: str | None = _option("--confounds", help="Tables: columns to regress out, separated by commas.")
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


_OPTIONS = {"labels": "label", "groups": "group", "time_channel": "time-channel"}
_PARAMETER = re.compile(
    r"\b(id|time|values|ignore|labels?|target|groups?|form|kind|covariates|unknown|drop|alphabet|resample|time_channel"
    r"|separator|decimal)=(True|False|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\w+(?:\.\w+)*|\.\.\.)?"
)
_RULE = re.compile(
    r"^(form|kind|resample|decimal|alphabet|unknown|labels|groups|drop|separator) must be(.*?)(?:, or None)?;"
)
_LARGE = re.compile(r"If there is enough memory, raise the limit: with mc\.config\(max_file_bytes=\d+\)")
_IDENTICAL = re.compile(r"use GroupKFold with groups=mc\.data\.identical_groups\(X(, groups)?\)")


def with_option_names(text: str, *, is_table: bool = False, weight: str | None = None) -> str:
    """Return a message of a reader with options of the command line in place of parameters of Python.

    Parameters
    ----------
    text : str
        The message.
    is_table : bool
        Whether the reader is that of tables, whose ``labels`` are a second table.
    weight : str, optional
        The covariate that is the column of weights; the others are confounds.
    """

    def option(found: re.Match[str]) -> str:
        name, values = found[1], _values(found[2] or "")
        if name == "covariates":
            return _covariates([column for value in values for column in value.split(", ")], weight)
        beside = re.fullmatch(r"(.+) of (\S.*\.\w+)", values[0]) if is_table and values else None
        if name in ("label", "target", "group") and beside:  # a column of the table of labels
            return f"--{name} {_quoted(beside[1])} of {beside[2]}"
        return f"--{named(name)} {_quoted(','.join(values))}" if values else f"--{named(name)}"

    def named(name: str) -> str:
        return "label-table" if is_table and name == "labels" else _OPTIONS.get(name, name)

    def identical(found: re.Match[str]) -> str:
        return "remove them, or pass " + ("a --group that keeps them together" if found[1] else "--group")

    text = text.replace("invalid='mask'", "--skip-bad").replace(" (a column, or False for none)", "")
    text = text.replace("add a header line and use mc.read_table", "add a header line, and pass --label")
    text = text.replace(" left out (see problems)", " left out")
    text = _LARGE.sub("Pass a smaller file, or read it in Python, with mc.config(max_file_bytes=...)", text)
    text = _RULE.sub(lambda found: f"--{named(found[1])} must be{found[2]};", text)
    text = _PARAMETER.sub(option, _IDENTICAL.sub(identical, text))
    text = re.sub(r"for example .*", lambda found: found[0].replace(", --", " --"), text)  # ready to be typed
    if weight and f"column {weight!r}" in text:
        text = text.replace("covariate", "weight")
    return text.replace("covariate", "confound")


_ADVICE = re.compile(
    r"(?:^|(?<=\.) )To correct it, .*?(?:\.(?= |$)|$)"
    r"|; (?:add|check|decrease|drop|increase|make|pass|remove|replace|use|write) .*?(?=\.(?: |$)|;|$)"
    r"| \([^()]*--[a-z][^()]*\)"
    r"| by --[a-z][^.;]*"
)


def without_advice(text: str) -> str:
    """Return what a message says about data, for readers without the command: no cures, no names of options.

    >>> without_advice("2 classes by --label 1. 's' is empty; pass --skip-bad.")
    "2 classes. 's' is empty."
    """
    return re.sub(r"(?<![\w-])--(?=[a-z])", "", _ADVICE.sub("", text)).strip()


def _values(code: str) -> list[str]:
    """Return the values of a parameter, which is written as code; False is the option ``none``."""
    if code in ("", "True", "...", "[...]"):
        return []
    try:
        value = ast.literal_eval(code)
    except (SyntaxError, ValueError):
        return [code]
    return ["none"] if value is False else [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _quoted(value: str) -> str:
    """Return a value as a shell needs it; a mark such as a separator always has quotes."""
    return f"'{value}'" if re.fullmatch(r"[^\w'-]+", value) else shlex.quote(value)


def _covariates(columns: list[str], weight: str | None) -> str:
    confounds = ",".join(column for column in columns if column != weight)
    given = [f"--confounds {_quoted(confounds)}" if confounds else "--confounds"] if confounds or not columns else []
    return ", ".join([*given, *(f"--weight {_quoted(column)}" for column in columns if column == weight)])


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
