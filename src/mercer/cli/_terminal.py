"""What the commands print and write, and how they end.

Exit codes: 0, done; 1, the work failed; 2, an option, a file or data that cannot be used; 130, interrupted.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mercer._atomic import replacing
from mercer._wording import worded
from mercer.cli._data_options import Shell

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130
STDOUT = Path("-")

Json = Annotated[Path | None, typer.Option("--json", help="Write the results to this file as JSON; - is the output.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the numbers to this file as CSV.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the data, folds and random draws.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only: no progress, no advice.")]


WIDE = 100
"""Columns of tables where neither a terminal nor the variable COLUMNS tells the width."""
_COMMAND = re.compile(r"(?<=: )(?=mercer (?:compare|fit|predict|explain|test) )")
"""Where a command begins in a sentence."""


def console(*, to_stderr: bool = False) -> Console:
    """Return the console for tables."""
    made = Console(stderr=to_stderr)
    if not has_width(made):
        made.width = WIDE
    return made


def has_width(shown: Console) -> bool:
    """Whether lines have a width to be wrapped at: that of a terminal, or of the variable COLUMNS."""
    return shown.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def print_text(shown: Console, text: str, *, wrap: bool = True) -> None:
    """Print text: wrapped between words if there is a width, and otherwise, or without ``wrap``, as it is.

    A command that does not fit next to its sentence gets a line of its own, which is never broken: it may be pasted.
    """
    if wrap and has_width(shown):
        text = "\n".join(_wrapped(line, shown.width) for line in text.split("\n"))
    shown.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    sentence, *command = _COMMAND.split(line, maxsplit=1)
    # A long word, such as a path, is not broken.
    return "\n".join([*textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False), *command])


def progress(*, quiet: bool = False) -> Progress:
    """Return a progress bar on the error stream, which vanishes when it is done."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, transient=True, console=Console(stderr=True), disable=quiet)


def fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """End with one sentence on the error stream."""
    say(message, to_stderr=True)
    raise typer.Exit(code)


@contextmanager
def one_sentence(*, code: int = UNUSABLE) -> Iterator[None]:
    """Turn the errors of readers and estimators, which are sentences, into the end of the command."""
    try:
        with worded(Shell()):
            yield
    except (OSError, ImportError, MemoryError, TypeError, ValueError) as error:
        fail(" ".join(str(error).split()) or type(error).__name__, code)


def check_outputs(*paths: Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Fail before the computation if its results cannot be written, or would replace or join what is read."""
    read = [Path(one) for one in inputs if one is not None]
    written: list[Path] = []
    for path in paths:
        if path is None or path == STDOUT:
            continue
        if path.is_dir():
            fail(f"{path} is a folder; pass the name of a file to write.")
        if not path.absolute().parent.is_dir():
            fail(f"{path} cannot be written because its folder does not exist; create the folder first.")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            fail(f"{path} cannot be written because it is read-only; choose another name or folder.")
        if path.resolve() in written:
            fail(f"{path} is the name of two outputs; choose another name for one of them.")
        written.append(path.resolve())
        for one in read:
            _check_apart(path, one)


def _check_apart(path: Path, read: Path) -> None:
    """Fail if a file to write is one that is read, or would be read with a folder or pattern."""
    if path.exists() and read.exists() and path.samefile(read):
        fail(f"{path} is an input of this command, which would be replaced; choose another name.")
    if read.is_dir() and path.resolve().is_relative_to(read.resolve()):
        fail(f"{path} is inside the data folder {read}, and would be read as data; choose another folder.")
    if not read.exists() and path.absolute().match(str(read.absolute())):
        fail(f"{path} matches the pattern {read} of the data, and would be read as data; choose another name.")


def write_json(content: Any, path: Path | None) -> None:
    """Write JSON to a file or to the output; numbers that JSON does not have (NaN) become null."""
    if path is None:
        return
    text = json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"
    if path == STDOUT:
        sys.stdout.write(text)
    else:
        with one_sentence(code=FAILED), replacing(path) as file:
            file.write(text.encode())


def write_csv(rows: list[dict[str, Any]], path: Path | None) -> None:
    """Write rows with the same keys to a CSV file or to the output.

    Lists and tables become JSON, and text that a spreadsheet would run gets an apostrophe.
    """
    if path is not None and rows:
        cells = ([json.dumps(v) if isinstance(v, (list, dict)) else v for v in row.values()] for row in rows)
        safe = ([_not_a_formula(cell) for cell in row] for row in (list(rows[0]), *cells))
        if path == STDOUT:
            _write_rows(sys.stdout, safe)
            return
        with one_sentence(code=FAILED), replacing(path) as file:
            stream = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_rows(stream, safe)
            stream.detach()


def _write_rows(stream: TextIO, rows: Iterable[list[Any]]) -> None:
    plain, quoted = (csv.writer(stream, lineterminator="\n", quoting=q) for q in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:  # Python 3.11 and 3.12 leave a carriage return unquoted, which ends a row
        (quoted if any(isinstance(cell, str) and "\r" in cell for cell in row) else plain).writerow(row)


def _not_a_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, which could start programs or send data."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib in the format that the suffix names."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:] or None, dpi=150, bbox_inches="tight")


def say(text: str, *, quiet: bool = False, to_stderr: bool = False) -> None:
    """Print a sentence, unless only results are wanted."""
    if quiet:
        return
    shown = console(to_stderr=to_stderr)
    if has_width(shown):
        print_text(shown, text)
    else:
        typer.echo(text, err=to_stderr)


def warn(texts: Iterable[str]) -> None:
    """Print warnings about the data on the error stream."""
    for text in texts:
        say(f"Warning: {text}", to_stderr=True)


def plain_warnings() -> None:
    """Print warnings of libraries as `warn` does, each once: the line of code that they point at is not the user's."""
    seen: set[str] = set()

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            warn([text])

    warnings.showwarning = show


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(value) for value in content]
    return None if isinstance(content, float) and content - content != 0 else content
