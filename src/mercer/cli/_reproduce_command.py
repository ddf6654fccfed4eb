"""``mercer reproduce``: the tables and figures of the papers, next to ours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box

from mercer.cli import _reproduced
from mercer.cli._terminal import (
    FAILED,
    Csv,
    Json,
    Quiet,
    Seed,
    check_outputs,
    console,
    fail,
    progress,
    say,
    write_csv,
    write_figure,
    write_json,
)
from mercer.papers import PAPERS, load
from mercer.papers._results import flat


def reproduce(
    paper: Annotated[str | None, typer.Argument(help="A paper, such as agarwal2011.")] = None,
    part: Annotated[str | None, typer.Argument(help="One of its tables or figures, such as table1.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few tasks and draws, in half a minute.")] = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Number of random training sets, if the paper draws them.")
    ] = None,
    variants: Annotated[bool, typer.Option("--variants", help="Also run methods that explain differences.")] = False,
    balanced: Annotated[bool, typer.Option("--balanced", help="Average the test errors over the classes.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Plot the result to this file: .png, .svg or .pdf.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets, instead of MERCER_DATA.")] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json_path: Json = None,
    csv_path: Csv = None,
) -> None:
    """Reproduce a table or figure of a paper next to the published one; without arguments, list them."""
    if paper is None or part is None:
        _list_parts(paper)
        return
    source = _source(paper)
    if part not in source.PARTS:
        fail(f"The part of {paper} must be one of {', '.join(source.PARTS)}; got {part!r}.")
    check_outputs(json_path, csv_path, figure)
    if data is not None and not data.is_dir():
        fail(f"--data must be the folder that contains the data sets; {data} is not a folder.")
    options = {"draws": draws, "variants": variants, "balanced": balanced}
    given = {name: value for name, value in options.items() if value}
    for name in given:
        if name not in signature(source.reproduce).parameters:
            fail(f"--{name} does not apply to {paper}; omit it.")
    try:
        with _data_folder(data):
            results = _with_progress(source, part, {"quick": quick, "seed": seed, **given}, quiet=quiet)
        _print_results(source.PARTS[part], results, " (classes weighted equally)" if balanced else "", quiet=quiet)
        if figure is not None:
            _draw(source.PARTS[part], results, figure)
    except (OSError, ImportError, ValueError) as error:  # missing, damaged or unavailable data
        fail(str(error), code=FAILED)
    rows = [row for one in results for row in flat(one)]
    write_json(rows, json_path)
    write_csv(rows, csv_path)


def _draw(part: Any, results: Sequence[Any], path: Path) -> None:
    from mercer.papers import _figures  # matplotlib takes a second to import

    write_figure(_figures.draw(part, results), path)


def _source(name: str) -> Any:
    if name not in PAPERS:
        fail(f"The paper must be one of {', '.join(PAPERS)}; got {name!r}.")
    return load(name)


@contextmanager
def _data_folder(folder: Path | None) -> Iterator[None]:
    """Set the folder of the data sets for the loaders."""
    before = os.environ.get("MERCER_DATA")
    if folder is not None:
        os.environ["MERCER_DATA"] = str(folder)
    try:
        yield
    finally:
        if before is not None:
            os.environ["MERCER_DATA"] = before
        elif folder is not None:
            del os.environ["MERCER_DATA"]


def _list_parts(paper: str | None) -> None:
    for name in PAPERS if paper is None else (paper,):
        source = _source(name)
        typer.echo(f"{name}: {source.TITLE}")
        for key, part in source.PARTS.items():
            typer.echo(f"  mercer reproduce {name} {key}    {part.caption}")


def _with_progress(source: Any, part: str, options: dict[str, Any], *, quiet: bool) -> list[Any]:
    with progress(quiet=quiet) as bar:
        step = bar.add_task("data", total=None)
        done = count()

        def show(what: str, steps: int) -> None:
            bar.update(step, description=what, total=steps or None, completed=next(done) if steps else 0)

        results: list[Any] = source.reproduce(part, progress=show, **options)
        return results


def _print_results(part: Any, results: Sequence[Any], remark: str, *, quiet: bool) -> None:
    """Print a table of the results, and the differences from the paper."""
    table = _reproduced.table_of(results)
    table.title, table.title_justify, table.box = part.caption + remark, "left", box.SIMPLE_HEAD
    table.padding = (0, 1, 0, 0)
    console().print(table)
    say(part.differs, quiet=quiet)
