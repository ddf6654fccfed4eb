"""``mercer fit``, ``mercer predict`` and ``mercer explain``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.cli import _data_options as data
from mercer.cli._compare_command import Budget, Fresh, Jobs, parse_duration, run_comparison
from mercer.cli._terminal import (
    FAILED,
    INTERRUPTED,
    STDOUT,
    UNUSABLE,
    Json,
    Quiet,
    Seed,
    check_outputs,
    fail,
    one_sentence,
    say,
    warn,
    write_csv,
    write_figure,
    write_json,
)

Kernel = Annotated[
    str | None,
    typer.Option("--kernel", "-k", help="Name from mercer compare, such as fisher-hmm, or code: 'Spectrum(k=4)'."),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that mercer fit or mc.save wrote.")]
Proba = Annotated[bool, typer.Option("--proba", help="Probabilities of the classes.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip records that cannot be read.")]
LabelTable = Annotated[
    Path | None, typer.Option("--label-table", help="A second table, with the id and the confounds of the model.")
]


@data.with_reading
def fit(
    source: data.Source,
    reading: data.Reading,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, such as model.mercer.")],
    kernel: Kernel = None,
    best: Annotated[bool, typer.Option("--best", help="Compare all recipes, and fit the best one.")] = False,
    proba: Annotated[bool, typer.Option("--proba", help="Calibrate, so that it can predict probabilities.")] = False,
    limit: data.Limit = None,
    budget: Budget = "30m",
    jobs: Jobs = 1,
    fresh: Fresh = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a predictor to your data and save it. Its parameters are chosen by cross-validation."""
    if best == (kernel is not None):
        fail("Pass --kernel with a name or code, or --best to compare all recipes; exactly one of them.")
    if output == STDOUT:
        fail("A model is not text, so that it is not printed; pass the name of a file, such as -o model.mercer.")
    check_outputs(output, inputs=(source, reading.label_table))
    seconds = parse_duration(budget)
    with one_sentence(code=UNUSABLE):
        from mercer._comparison.recipes import ContenderFactory
        from mercer.cli import _fitting, _own_data

        task = _own_data.task_of(source, reading, limit=limit or sys.maxsize, folds=_fitting.FOLDS, seed=seed)
        factory = ContenderFactory(task.is_regression, task.is_confounded, bool(reading.weight))
        contenders = task.contenders if best else [_fitting.chosen(kernel or "", factory, lambda: task.contenders)]
        if proba and task.is_regression:
            fail("--proba applies to classes, and the targets are numbers; omit it.")
        if proba and reading.weight:
            fail("--proba cannot be combined with --weight, because calibration takes no weights here; omit one.")
    say(f"{source}: {task.about}", quiet=quiet)
    warn(task.warnings)
    if best:
        comparison = run_comparison({source.name: task}, _fitting.FOLDS, seed, seconds, jobs, fresh=fresh, quiet=quiet)
        for result in comparison.results:
            if result.failure:
                say(f"{result.contender.name} {result.reason}.", quiet=quiet)
        if comparison.interrupted:
            raise typer.Exit(INTERRUPTED)
        done = [result for result in comparison.results if not result.failure]
        if not done:
            fail("No contender finished; increase --budget, or decrease --limit.", FAILED)
        contenders = [max(done, key=lambda result: result.score).contender]
        say(f"The best of {len(done)} recipes is {contenders[0].name}.", quiet=quiet)
    with one_sentence():
        import mercer as mc

        found = _fitting.fitted(task, contenders[0], proba=proba, seed=seed)
        metadata: dict[str, Any] = {"reading": reading.as_dict(), "known": asdict(task.known), "about": task.about}
        from mercer._comparison.results import chosen_inside, joined, short

        score, how = found.score, "cross-validation inside the search (optimistic)"
        if best:
            score, how = joined(chosen_inside(done)).score, "cross-validation that chooses the recipe in each fold, too"
        elif not found.parameters:
            how = "cross-validation"
        metadata |= {"measure": task.measure, "score": score}
        mc.save(found.model, output, metadata=metadata)
    chosen = short({name: repr(value) for name, value in found.parameters.items()})
    text = f"{contenders[0].name}: {task.measure} {score:.3f} by {how}"
    say(f"{text}, with {chosen}" if chosen else text, quiet=quiet)
    next_command = f"mercer predict {shlex.quote(str(output))} NEW{' --proba' if proba else ''}"
    say(f"Saved to {output}. Next: {next_command}", quiet=quiet)


def predict(
    model: Model,
    source: data.Source,
    proba: Proba = False,
    skip_bad: SkipBad = False,
    label_table: LabelTable = None,
    id: data.NewId = None,
    time: data.NewTime = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write a CSV file instead of printing.")] = None,
    quiet: Quiet = False,
    json_path: Json = None,
) -> None:
    """Predict new data with a saved model: one line per sample, with its id.

    New data are read as the training data were: from the same columns, with the same confounds, but without labels.
    One line on the error stream says what they were taken for, and which records were skipped.
    """
    check_outputs(output, json_path, inputs=(model, source, label_table))
    with one_sentence(code=UNUSABLE):
        from mercer.cli import _fitting

        options: dict[str, Any] = {"skip_bad": skip_bad, "label_table": label_table, "id": id, "time": time}
        rows, records = _fitting.predicted(model, source, proba=proba, **options)
    say(f"{source}: {records.about_new}", quiet=quiet, to_stderr=True)
    warn(records.warnings)
    write_json(rows, json_path)
    if output is not None or json_path != STDOUT:
        write_csv(rows, output or STDOUT)


def explain(
    model: Model,
    source: data.Source,
    top: Annotated[int, typer.Option(min=1, help="Number of positions that are printed for each sample.")] = 5,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all contributions as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the contributions into this file: .png, .svg, .pdf.")] = None,
    one: Annotated[
        str | None, typer.Option("--class", help="Class or target; by default the class predicted for each sample.")
    ] = None,
    method: Annotated[str, typer.Option(help="additive, marginal, or auto, as in mc.explain.")] = "auto",
    window: Annotated[
        int | None, typer.Option(min=1, help="Number of positions that marginal leaves out together.")
    ] = None,
    skip_bad: SkipBad = False,
    label_table: LabelTable = None,
    id: data.NewId = None,
    time: data.NewTime = None,
    quiet: Quiet = False,
    json_path: Json = None,
) -> None:
    """Tell which positions of new samples made the decisions of a saved model: symbols, time steps, or words.

    Positions are counted from 1, in the tables and the plot, too. Positive contributions speak for the class that is
    named: the predicted one, unless --class names another.
    """
    check_outputs(output, json_path, plot, inputs=(model, source, label_table))
    with one_sentence(code=UNUSABLE):
        import mercer as mc
        from mercer.cli import _fitting
        from mercer.plot.series_explanations import CARDS

        pipeline, records = _fitting.opened(model, source, skip_bad=skip_bad, label_table=label_table, id=id, time=time)
        found = mc.explain(pipeline, records.data, method=method, window=window, output=one)
        found = replace(found, ids=tuple(map(str, records.ids))).counted_from(1)
        rows = _fitting.explained(found, one, top)
        if plot is not None:
            write_figure(_fitting.drawn(found, one, records.data), plot)
            if found.kind == "series" and len(found) > CARDS:
                say(f"{plot} shows the first {CARDS} of {len(found)} series.", quiet=quiet, to_stderr=True)
    say(f"{source}: {records.about_new}", quiet=quiet, to_stderr=True)
    warn(records.warnings)
    if output is not None:
        write_csv(_fitting.table(found), output)
    write_json({"method": found.method, "outputs": list(found.outputs), "samples": rows}, json_path)
    if STDOUT in (json_path, output):
        return
    for row in rows:
        first = "{id}: {output} {decision:+.4g} (bias {bias:+.3g}); ".format_map(row)
        where = "{name} {contribution:+.3g}" if found.kind == "columns" else "{position} {name} {contribution:+.3g}"
        say(
            first
            + ", ".join(where.format_map({**place, "name": place["channel"] or place["name"]}) for place in row["top"])
        )
