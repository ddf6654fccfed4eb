"""Options that say how to read the data; several commands share them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

LIMIT = 300

_SOURCE = "FASTA, FASTQ, CSV, TSV, Parquet or .ts file, or a folder with one file per recording; plain or .gz."
OptionalSource = Annotated[Path | None, typer.Argument(metavar="[DATA]", help=_SOURCE)]
Source = Annotated[Path, typer.Argument(metavar="DATA", help=_SOURCE)]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        "--labels",
        help="Column of the classes; FASTA: header field, from 0, key, or regular expression with one group.",
    ),
]
Target = Annotated[str | None, typer.Option("--target", help="Column of the numbers to predict; as --label for FASTA.")]
Group = Annotated[
    str | None, typer.Option("--group", "--groups", help="The same for groups (subjects, genes) that stay in one fold.")
]
Id = Annotated[str | None, typer.Option("--id", help="Tables: column that tells which series a row belongs to.")]
Time = Annotated[str | None, typer.Option("--time", help="Tables: column of the time.")]
Values = Annotated[str | None, typer.Option("--values", help="Tables: columns of the values, separated by commas.")]
Confounds = Annotated[
    str | None, typer.Option("--confounds", help="Tables: columns to regress out, separated by commas.")
]
Weight = Annotated[str | None, typer.Option("--weight", "--weights", help="Tables: column of sample weights.")]
AlphabetName = Annotated[str | None, typer.Option("--alphabet", help="Strings: dna, rna, protein, or the symbols.")]
Unknown = Annotated[
    str | None,
    typer.Option(
        "--unknown", help="Strings: missing reads letters outside of the alphabet as unknown; raise is the default."
    ),
]
Drop = Annotated[str | None, typer.Option("--drop", help="Strings: symbols to remove, such as '-.*'.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip records that cannot be read, and say which.")]
Limit = Annotated[
    int | None, typer.Option(min=10, help=f"Maximum number of samples used, drawn at random; {LIMIT} by default.")
]


@dataclass(frozen=True)
class Reading:
    """How to read the data, as the options of the command line say it; None leaves it to the reader."""

    label: str | None = None
    target: str | None = None
    group: str | None = None
    id: str | None = None
    time: str | None = None
    values: str | None = None
    confounds: str | None = None
    weight: str | None = None
    alphabet: str | None = None
    unknown: str | None = None
    drop: str | None = None
    skip_bad: bool = False

    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [f.name.replace("_", "-") for f in fields(self) if getattr(self, f.name) not in (None, False)]

    def arguments(self, source: Path) -> str:
        """Return the data and the options as they are typed."""
        parts = [shlex.quote(str(source))]
        for name in self.given():
            value = getattr(self, name.replace("-", "_"))
            parts.append(f"--{name}" if value is True else f"--{name} {shlex.quote(value)}")
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the options that were given, for a file."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}
