"""``mercer compare``: kernels against plain baselines, by nested cross-validation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mercer._version import __version__
from mercer.cli import _data_options as data
from mercer.cli._terminal import (
    FAILED,
    INTERRUPTED,
    STDOUT,
    UNUSABLE,
    WIDE,
    Csv,
    Json,
    Quiet,
    Seed,
    check_outputs,
    console,
    fail,
    one_sentence,
    print_text,
    progress,
    say,
    warn,
    write_csv,
    write_json,
)

Budget = Annotated[str, typer.Option(help="Time for everything: 90s, 10m or 2h.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of contenders at the same time, at most one per core.")]
Folds = Annotated[int, typer.Option(min=2, max=10, help="Folds of the outer cross-validation.")]
ReportPath = Annotated[
    Path | None, typer.Option("--report", help="Write a page with tables and pictures, such as report.html.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Do not use results of earlier runs; replace them.")]


@data.with_reading
def compare(
    reading: data.Reading,
    source: data.OptionalSource = None,
    limit: data.Limit = None,
    task: Annotated[list[str] | None, typer.Option(help="Use only this built-in task; may be repeated.")] = None,
    folds: Folds = 5,
    budget: Budget = "30m",
    jobs: Jobs = 1,
    fresh: Fresh = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    json_path: Json = None,
    csv_path: Csv = None,
    report_path: ReportPath = None,
) -> None:
    """Compare kernels with plain baselines, on your data or on built-in data.

    DATA is a FASTA or FASTQ file, a table of series (CSV, TSV, Parquet; one row per time step or one row per series),
    a .ts file, or a folder with one file per recording. Labels are compared by accuracy, numeric targets by R2. All
    parameters are chosen within the training folds.
    """
    check_outputs(json_path, csv_path, report_path, inputs=(source, reading.label_table))
    seconds = parse_duration(budget)
    if source is not None:
        if task:
            fail("--task selects built-in data; pass data or --task, not both.")
        tasks = _own_task(source, reading, limit or data.LIMIT, folds, seed)
    else:
        given = [*reading.given(), *(["limit"] if limit else [])]
        if given:
            fail(f"--{given[0]} applies to your own data only; pass a file or folder, or omit the option.")
        tasks = _built_in(task, seed)
    shown = console(to_stderr=json_path == STDOUT)
    if not quiet:
        for name, one in tasks.items():
            print_text(shown, f"{name}: {one.about}")
    warn(text for one in tasks.values() for text in one.warnings)
    ended = run_comparison(tasks, folds, seed, seconds, jobs, fresh=fresh, quiet=quiet)
    from mercer._comparison.summary import Summary

    report = _Report(Summary(tasks, ended.results, folds, seed), ended)
    report.print(shown, quiet=quiet)
    write_json(report.as_json(), json_path)
    write_csv(report.rows, csv_path)
    if report_path is not None and report.rows:
        with one_sentence():
            from mercer._report.page import render
            from mercer._report.report import Report

            title = f"mercer compare: {source.name}" if source is not None else "mercer compare"
            known = [path for path in (source, reading.label_table, report_path, json_path, csv_path) if path]
            shared = {
                name: replace(
                    task,
                    about=without_folders(task.shared or task.about, known),
                    reading=without_folders(task.reading, known),
                )
                for name, task in tasks.items()
            }
            made = render(Summary(shared, ended.results, folds, seed), title, without_folders(data.command(), known))
            Report(made, "", report.rows).save(report_path)
        say(f"Report: {report_path}", quiet=quiet, to_stderr=STDOUT in (json_path, csv_path))
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not report.rows:
        raise typer.Exit(FAILED)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as ``"90s"``, ``"10m"`` or ``"2h"``."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)?\s*", text)
    if found is None or float(found[1]) == 0:
        fail(f"--budget must be a time such as 90s, 10m or 2h; got {text!r}.")
    return float(found[1]) * {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}[found[2] or "s"]


def _built_in(names: list[str] | None, seed: int) -> dict[str, Any]:
    from mercer.cli import _demonstration  # scikit-learn's classifiers take a second to import

    names = names or list(_demonstration.SHOWN)
    unknown = [name for name in names if name not in _demonstration.TASKS]
    if unknown:
        fail(f"--task must be one of {', '.join(_demonstration.TASKS)}; got {unknown[0]!r}.")
    return {name: _demonstration.TASKS[name](seed) for name in names}


def _own_task(source: Path, reading: data.Reading, limit: int, folds: int, seed: int) -> dict[str, Any]:
    with one_sentence(code=UNUSABLE):
        from mercer.cli import _own_data

        return {source.name: _own_data.task_of(source, reading, limit=limit, folds=folds, seed=seed)}


def run_comparison(
    tasks: dict[str, Any], folds: int, seed: int, budget: float, jobs: int, *, fresh: bool, quiet: bool
) -> Any:
    """Run the contenders with a progress bar; return the comparison."""
    from mercer._comparison.runner import Comparison, FoldCache, default_folder
    from mercer._parallel import usable_cores

    with progress(quiet=quiet) as bar:
        steps = {
            (name, contender.name): bar.add_task(f"{name}: {contender.name}", total=folds, visible=False)
            for name, task in tasks.items()
            for contender in task.contenders
        }
        whole = bar.add_task("all contenders", total=folds * len(steps))
        counted: dict[tuple[str, str], int] = {}

        def report(task: str, method: str, done: int) -> None:
            counted[task, method] = done
            bar.update(steps[task, method], completed=done, visible=done < folds)
            bar.update(whole, completed=sum(counted.values()))

        jobs = min(jobs, usable_cores())
        cache = FoldCache(default_folder(), folds, seed, fresh=fresh)
        comparison = Comparison(tasks, folds, seed, budget, jobs, cache, report)
        comparison.run()
    return comparison


TITLE = "Kernels and baselines by cross-validation"
HEADINGS = ("method", "score", "against baseline", "fit", "predict")


class _Cells(NamedTuple):
    """What a table shows of one method."""

    method: str
    chosen: str
    numbers: tuple[str, ...]
    style: str

    @classmethod
    def of(cls, row: dict[str, Any]) -> _Cells:
        """Return the cells of a row of numbers."""
        from mercer._comparison.results import signed

        against = ""
        if row["difference"] is not None:
            against = "{} [{}, {}]".format(*(signed(row[name]) for name in ("difference", "low", "high")))
        score = f"{row['score']:.3f} [{row['score_low']:.3f}, {row['score_high']:.3f}]"
        numbers = (
            f"{score} {'*' if row['recommended'] else ' '}",
            against,
            f"{row['fit_seconds']:.2f} s",
            f"{1000 * row['predict_seconds']:.2f} ms",
        )
        return cls(row["method"], row["chosen"], numbers, "bold green" if row["recommended"] else "")


class _Advice(NamedTuple):
    """A text that follows the table; code keeps its lines."""

    text: str
    is_code: bool = False


class _Report:
    """The results of a comparison as a table, sentences, rows and JSON."""

    def __init__(self, summary: Any, comparison: Any) -> None:
        self.summary, self.comparison = summary, comparison
        self.tasks, self.rows, self.verdicts = summary.tasks, summary.rows, summary.verdicts
        self.folds = summary.folds

    def print(self, shown: Any, *, quiet: bool) -> None:
        """Print the table, the contenders that did not finish, the verdicts, and what to do next."""
        shown.print(self._table() if shown.width >= WIDE else self._list(), crop=False)
        for result in self.summary.unfinished:
            print_text(shown, f"{result.task}: {result.contender.name} {result.reason}.")
        if self.comparison.interrupted:
            print_text(shown, "Interrupted: this table is partial. Run the same command again to resume.")
        for name, (sentence, _) in self.verdicts.items():
            print_text(shown, f"{name}: {sentence}")
        if quiet:
            return
        if self.comparison.cache.found:
            total = self.folds * len(self.comparison.results)
            print_text(
                shown,
                f"{self.comparison.cache.found} of {total} folds come from earlier runs; --fresh computes them again.",
            )
        print_text(
            shown,
            f"\nScore: mean over {self.folds} folds [95 % interval]; parameters were chosen within the training folds."
            "\nAgainst baseline: difference of a kernel of mercer from the baseline with the best score in the table."
            "\nBelow a method: the values of parameters that were chosen most often. *: what is recommended above.",
        )
        for line in self._advice():
            print_text(shown, line.text, wrap=not line.is_code)

    def _blocks(self) -> Iterator[tuple[str, list[_Cells]]]:
        """Yield the tasks, unnamed if there is one, with the cells of their methods."""
        tasks = list(dict.fromkeys(row["task"] for row in self.rows))
        for task in tasks:
            yield task if len(self.tasks) > 1 else "", [_Cells.of(row) for row in self.rows if row["task"] == task]

    def _list(self) -> Group:
        """Return the numbers of each method below its name, so that 80 columns hold a row."""
        blocks = list(self._blocks())
        every = [HEADINGS[1:], *(cells.numbers for _, rows in blocks for cells in rows)]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]

        def line(numbers: tuple[str, ...]) -> str:
            score, against, *times = (
                text.rjust(width) if i > 1 else text.ljust(width)
                for i, (text, width) in enumerate(zip(numbers, widths, strict=True))
            )
            return "  " + "  ".join((score, against, *times))

        lines = [Text(TITLE, style="italic"), Text(f"{HEADINGS[0]}\n{line(HEADINGS[1:])}", style="bold")]
        for task, rows in blocks:
            lines.append(Text(f"\n{task}" if task else "", style="bold"))
            for cells in rows:
                name = f"{cells.method} ({cells.chosen})" if cells.chosen else cells.method
                lines.append(Text(name, style=cells.style))
                lines.append(Text(line(cells.numbers), style=cells.style, no_wrap=True, overflow="ignore"))
        return Group(*lines, "")

    def _table(self) -> Table:
        """Return the table; what was chosen stands below the method, so that 100 columns hold a row."""
        table = Table(box=box.SIMPLE_HEAD, title=TITLE, title_justify="left", padding=(0, 1, 0, 0))
        for i, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="right" if i > 1 else "left", no_wrap=i > 0, overflow="fold")
        for i, (task, rows) in enumerate(self._blocks()):
            if task:
                if i > 0:
                    table.add_section()
                table.add_row(task, style="bold")
            for cells in rows:
                below = [Padding.indent(cells.chosen, 2)] if cells.chosen else []
                table.add_row(Group(cells.method, *below), *cells.numbers, style=cells.style)
        return table

    def _advice(self) -> list[_Advice]:
        """Return the chosen parameters, code, the next command and the page to read, for the best kernel."""
        chosen = self.summary.recommended()
        if chosen is None:
            more = any(task.left_out for task in self.tasks.values())
            following = " Next: mercer compare with more data (--limit)." if more else ""
            text = f"\nNo kernel is recommended.{following} docs/which_kernel.md says what each kernel is good for."
            return [_Advice(text)]
        task, following = self.tasks[chosen.task], "YOUR_DATA --label COLUMN"
        if task.arguments:
            from mercer._comparison.recipes import slug

            following = f"{task.arguments} --kernel {slug(chosen.contender.name)} -o model.mercer"
        return [
            _Advice(f"\n{chosen.contender.name} on {chosen.task}{'' if task.reading else ', for your X and y'}:\n"),
            _Advice(self.summary.code(chosen), is_code=True),
            _Advice(f"\nNext: mercer {'fit' if task.arguments else 'compare'} {following}"),
            _Advice(f"Read:  docs/{page_of(chosen.contender.kernel)}"),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        chosen = self.summary.recommended()
        best = chosen or max(self.summary.done, key=lambda result: result.score, default=None)
        return {
            "version": __version__,
            "command": data.command(),
            "seed": self.summary.seed,
            "folds": self.folds,
            "data": {name: task.about for name, task in self.tasks.items()},
            "complete": not self.comparison.interrupted and not self.summary.unfinished,
            "results": self.rows,
            "unfinished": [
                {
                    "task": r.task,
                    "method": r.contender.name,
                    "reason": f"{r.failure}; {r.cure}" if r.cure else r.failure,
                    "folds": len(r.folds),
                }
                for r in self.summary.unfinished
            ],
            "verdicts": {name: sentence for name, (sentence, _) in self.verdicts.items()},
            "recommended": None if chosen is None else {"task": chosen.task, "method": chosen.contender.name},
            "code_of": None if best is None else {"task": best.task, "method": best.contender.name},
            "code": None if best is None else self.summary.code(best),
        }


def without_folders(text: str, paths: Iterable[str | Path]) -> str:
    """Return text without the folders of absolute paths, which are the user's and not for those who get a report."""
    for path in map(Path, paths):
        if path.is_absolute() and path.parent != path.parent.parent:
            text = text.replace(f"{path.parent}{os.sep}", "")
    return text


def page_of(kernel: Any) -> str:
    """Return the page of the documentation on a kernel, or on the one inside a wrapper."""
    while hasattr(kernel, "kernel"):
        kernel = kernel.kernel
    return "kernels/" + re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", type(kernel).__name__).lower() + ".md"
