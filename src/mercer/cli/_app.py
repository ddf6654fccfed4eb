"""Commands, options and output of the command line tool."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mercer._version import __version__
from mercer.cli import _reproduced
from mercer.papers import PAPERS, load
from mercer.papers._results import flat

app = typer.Typer(
    help="Kernels from generative models, for scikit-learn.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the numbers to this file as JSON.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the numbers to this file as CSV.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the data, folds and random draws.")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit()


@app.command()
def compare(
    file: Annotated[
        Path | None,
        typer.Argument(help="FASTA (.fa, .fasta, ...), .ts, or UCR table (.tsv, .csv, .txt); plain or .gz."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="FASTA: header field, from 0, or regular expression with one group.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="FASTA: the same for groups (genes, families) that stay in one fold.")
    ] = None,
    alphabet: Annotated[str | None, typer.Option(help="FASTA: dna, rna, protein, or the symbols.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=10, help="Maximum number of sequences used from a file, 300 by default.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Use only this task; may be repeated.")] = None,
    folds: Annotated[int, typer.Option(min=2, max=10, help="Folds of the outer cross-validation.")] = 5,
    seed: Seed = 0,
    json_path: Json = None,
    csv_path: Csv = None,
) -> None:
    """Compare kernels with plain baselines, on a file of sequences or on built-in data."""
    _check_folders(json_path, csv_path)
    options = {"labels": labels, "groups": groups, "alphabet": alphabet, "limit": limit}
    given = {name: value for name, value in options.items() if value is not None}
    if file is not None:
        if task:
            _fail("--task selects built-in data; pass a file or --task, not both.")
        tasks = _file_task(file, given, folds, seed)
    else:
        if given:
            _fail(f"--{next(iter(given))} applies to files only; pass a file, or omit the option.")
        tasks = _built_in(task, seed)
    outcomes, skipped = _run(tasks, folds, seed, forgiving=file is not None)
    _print_race(tasks, outcomes, skipped, folds)
    _save([asdict(o) for o in outcomes], json_path, csv_path)


def _built_in(names: list[str] | None, seed: int) -> dict[str, Any]:
    from mercer.cli import _compare  # scikit-learn's classifiers take a second to import

    names = names or list(_compare.TASKS)
    unknown = [name for name in names if name not in _compare.TASKS]
    if unknown:
        _fail(f"--task must be one of {', '.join(_compare.TASKS)}; got {unknown[0]!r}.")
    return {name: _compare.TASKS[name](seed) for name in names}


def _file_task(file: Path, options: dict[str, Any], folds: int, seed: int) -> dict[str, Any]:
    from mercer.cli import _files

    if not file.is_file():
        _fail(f"The file {file} does not exist; pass the path of a file.")
    try:
        return {file.name: _files.file_task(file, folds=folds, seed=seed, **options)}
    except (OSError, TypeError, ValueError) as error:  # the readers' messages name the file
        _fail(str(error), code=1)


def _run(tasks: dict[str, Any], folds: int, seed: int, forgiving: bool) -> tuple[list[Any], list[str]]:
    """Return the outcomes and, if ``forgiving``, a message for every contender that cannot handle the data."""
    from mercer.cli import _race

    outcomes, skipped = [], []
    with _progress() as bar:
        step = bar.add_task("", total=sum(len(t.contenders) for t in tasks.values()))
        for name, one in tasks.items():
            for contender in one.contenders:
                bar.update(step, description=f"{name}: {contender.name}")
                try:
                    outcomes.append(_race.race(name, one, contender, folds, seed))
                except (TypeError, ValueError) as error:  # such as a kernel that does not support missing values
                    if not forgiving:
                        raise
                    skipped.append(f"{contender.name} was skipped: {error}")
                bar.advance(step)
    return outcomes, skipped


def _print_race(tasks: dict[str, Any], outcomes: list[Any], skipped: list[str], folds: int) -> None:
    from mercer.cli import _race

    best = _race.winners(outcomes)
    table = Table(box=box.SIMPLE_HEAD, title="Kernels and baselines by cross-validation", title_justify="left")
    for heading, side in (("task", "left"), ("method", "left"), ("accuracy", "right"), ("seconds", "right")):
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for i, o in enumerate(outcomes):
        first = i == 0 or outcomes[i - 1].task != o.task
        last = i + 1 == len(outcomes) or outcomes[i + 1].task != o.task
        marked = (o.task, o.method) in best
        accuracy = f"{o.accuracy:.3f} ± {o.sd:.3f} {'*' if marked else ' '}"
        style = "bold green" if marked else None
        method = f"{o.method} (mercer)" if o.is_kernel else o.method
        table.add_row(o.task if first else "", method, accuracy, f"{o.seconds:.1f}", style=style, end_section=last)
    _console().print(table)
    for name, one in tasks.items():
        typer.echo(f"{name}: {one.about}")
    for message in skipped:
        typer.echo(message)
    typer.echo(
        f"\nAccuracy: mean ± standard deviation over {folds} folds; all parameters were chosen by cross-validation "
        "within the training folds.\n* best on its task; differences below one standard deviation mean little."
    )
    if any(o.is_kernel for o in outcomes):
        name, contender = _showcase(tasks, outcomes)
        reading = tasks[name].reading
        typer.echo(f"\nThe best kernel on {name} ({contender.name}){'' if reading else ', for your X and y'}:\n")
        typer.echo(_race.snippet(contender, reading))


def _showcase(tasks: dict[str, Any], outcomes: list[Any]) -> tuple[str, Any]:
    """Return the task on which a kernel leads the baselines most, and its best kernel."""

    def lead(name: str) -> float:
        own = [o for o in outcomes if o.task == name]
        kernels, plain = ([o.accuracy for o in own if o.is_kernel is which] for which in (True, False))
        return max(kernels, default=-1.0) - max(plain)

    name = max(tasks, key=lead)
    top = max((o for o in outcomes if o.task == name and o.is_kernel), key=lambda o: o.accuracy)
    return name, next(c for c in tasks[name].contenders if c.name == top.method)


@app.command()
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
    json_path: Json = None,
    csv_path: Csv = None,
) -> None:
    """Reproduce a table or figure of a paper next to the published one; without arguments, list them."""
    if paper is None or part is None:
        _list_parts(paper)
        return
    source = _source(paper)
    if part not in source.PARTS:
        _fail(f"The part of {paper} must be one of {', '.join(source.PARTS)}; got {part!r}.")
    _check_folders(json_path, csv_path, figure)
    if data is not None and not data.is_dir():
        _fail(f"--data must be the folder that contains the data sets; {data} is not a folder.")
    options = {"draws": draws, "variants": variants, "balanced": balanced}
    given = {name: value for name, value in options.items() if value}
    for name in given:
        if name not in signature(source.reproduce).parameters:
            _fail(f"--{name} does not apply to {paper}; omit it.")
    try:
        with _data_folder(data):
            results = _with_progress(source, part, {"quick": quick, "seed": seed, **given})
        _print_results(source.PARTS[part], results, " (classes weighted equally)" if balanced else "")
        if figure is not None:
            _draw(source.PARTS[part], results, figure)
    except (OSError, ImportError, ValueError) as error:  # missing, damaged or unavailable data
        _fail(str(error), code=1)
    _save([row for one in results for row in flat(one)], json_path, csv_path)


def _draw(part: Any, results: Sequence[Any], path: Path) -> None:
    from mercer.papers import _figures  # matplotlib takes a second to import

    picture = _figures.draw(part, results)
    picture.savefig(path, dpi=150)


def _source(name: str) -> Any:
    if name not in PAPERS:
        _fail(f"The paper must be one of {', '.join(PAPERS)}; got {name!r}.")
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


def _with_progress(source: Any, part: str, options: dict[str, Any]) -> list[Any]:
    with _progress() as bar:
        step = bar.add_task("data", total=None)
        done = count()

        def show(what: str, steps: int) -> None:
            bar.update(step, description=what, total=steps or None, completed=next(done) if steps else 0)

        results: list[Any] = source.reproduce(part, progress=show, **options)
        return results


def _print_results(part: Any, results: Sequence[Any], remark: str) -> None:
    """Print a table of the results, and the differences from the paper."""
    table = _reproduced.table_of(results)
    table.title, table.title_justify, table.box = part.caption + remark, "left", box.SIMPLE_HEAD
    table.padding = (0, 1, 0, 0)
    _console().print(table)
    typer.echo(part.differs)


def _console() -> Console:
    console = Console()
    if not console.is_terminal:  # the width of a terminal is detected
        console.width = 120
    return console


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, transient=True, console=Console(stderr=True))


def _fail(message: str, code: int = 2) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


def _check_folders(*paths: Path | None) -> None:
    """Fail before the computation if its results cannot be written."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            _fail(f"{path} cannot be written because its folder does not exist; create the folder first.")


def _save(rows: list[dict[str, Any]], json_path: Path | None, csv_path: Path | None) -> None:
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if csv_path is not None:
        with csv_path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
