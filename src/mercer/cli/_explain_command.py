"""``mercer explain``: what the positions of new samples contribute to the decisions of a saved model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.cli import _data_options as data
from mercer.cli._model_commands import Model
from mercer.cli._terminal import (
    STDOUT,
    UNUSABLE,
    Json,
    Quiet,
    check_outputs,
    fail,
    one_sentence,
    say,
    warn,
    write_csv,
    write_figure,
    write_json,
)

Top = Annotated[int, typer.Option(min=1, help="Number of positions that are printed for each sample.")]
Output = Annotated[
    str | None, typer.Option("--class", help="The class or target to explain; by default the predicted class.")
]
Method = Annotated[
    str, typer.Option(help="additive: exact shares; marginal: change if a position is not observed; auto chooses.")
]
Window = Annotated[int, typer.Option(min=1, help="Number of neighboring positions that marginal leaves out together.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the contributions into this file: .png, .svg or .pdf.")]
PICTURES = (".pdf", ".png", ".svg")
LETTERS = 80
"""Up to this number of symbols, a single sample is drawn as a logo."""


def explain(
    model: Model,
    source: data.Source,
    top: Top = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all contributions to a CSV file.")
    ] = None,
    plot: Plot = None,
    one: Output = None,
    method: Method = "auto",
    window: Window = 1,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip records that cannot be read.")] = False,
    label_table: Annotated[
        Path | None, typer.Option("--label-table", help="A second table, with the id and the confounds of the model.")
    ] = None,
    id: data.NewId = None,
    quiet: Quiet = False,
    json_path: Json = None,
) -> None:
    """Tell which positions of new samples made the decisions of a saved model: symbols, time steps, or words.

    Positions are counted from 0. Positive contributions speak for the class that is named.
    """
    check_outputs(output, json_path, plot, inputs=(model, source, label_table))
    if plot is not None and plot.suffix.lower() not in PICTURES:
        fail(f"{plot} must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")
    with one_sentence(code=UNUSABLE):
        import mercer as mc
        from mercer.cli import _fitting

        pipeline, records = _fitting.opened(model, source, skip_bad=skip_bad, label_table=label_table, id=id)
        found = mc.explain(pipeline, records.data, method=method, window=window, output=one)
        ids = [str(name) for name in records.ids]
        shown = _shown(found, pipeline, records.data)
        rows = [_row(found, i, name, top, at) for i, (name, at) in enumerate(zip(ids, shown, strict=True))]
        if plot is not None:
            _draw(found, ids, rows, plot)
    say(f"{source}: {records.about_new}", quiet=quiet, to_stderr=True)
    warn(records.warnings)
    if output is not None:
        write_csv(_long(found, ids), output)
    write_json({"method": found.method, "outputs": list(found.outputs), "samples": rows}, json_path)
    if json_path == STDOUT or output == STDOUT:
        return
    for row in rows:
        say(_sentence(row, found.kind))


def _shown(found: Any, pipeline: Any, X: Any) -> list[int]:
    """Return the output to show for each sample: that of the predicted class, or else the largest one.

    With several classes, SVC counts votes: the class with the largest decision need not be the predicted one.
    """
    decisions = found.decision.reshape(len(found), -1)
    classes = [] if found.classes is None else list(map(str, found.classes))
    if found.n_outputs > 1 and list(found.outputs) == classes:
        return [classes.index(str(label)) for label in pipeline.predict(X)]
    return [int(at) for at in decisions.argmax(axis=1)]


def _row(found: Any, i: int, name: str, top: int, at: int) -> dict[str, Any]:
    """Return the decision of one sample, and its largest contributions to output number ``at``."""
    decisions = found.decision[i].reshape(-1)
    own = found if found.decision.ndim == 1 else found.of_output(found.outputs[at])
    places: list[dict[str, Any]] = []
    for c in own[i].top(top)[0]:
        channel = {} if c.channel is None else {"channel": c.channel}
        places.append({"position": c.position, "name": c.name, **channel, "contribution": c.value})
    bias = float(found.bias[i].reshape(-1)[at])
    return {"id": name, "output": found.outputs[at], "decision": float(decisions[at]), "bias": bias, "top": places}


def _sentence(row: dict[str, Any], kind: str) -> str:
    """Describe one sample in one line."""
    places = [f"{_place(place, kind)} {place['contribution']:+.3g}" for place in row["top"]]
    return f"{row['id']}: {row['output']} {row['decision']:+.4g} (bias {row['bias']:+.3g}); {', '.join(places)}"


def _place(place: dict[str, Any], kind: str) -> str:
    """Return the name of a position: "17 G", "17 speed", or a word."""
    if kind == "columns":
        return str(place["name"])
    return f"{place['position']} {place.get('channel', place['name'])}"


def _long(found: Any, ids: list[str]) -> list[dict[str, Any]]:
    """Return one row per contribution."""
    columns = replace(found, ids=tuple(ids)).columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _draw(found: Any, ids: list[str], rows: list[dict[str, Any]], path: Path) -> None:
    """Draw a logo or heat map of a single sample, and tracks of several."""
    import mercer as mc

    plot: Any = mc.plot
    output = None if found.n_outputs == 1 else rows[0]["output"]
    if len(ids) == 1 and found.kind == "series":
        ax = plot.heatmap(found, 0, output=output)
    elif len(ids) == 1 and found.kind == "symbols" and len(found.names[0]) <= LETTERS:
        ax = plot.logo(found, 0, output=output)
    else:
        ax = plot.track(found, output=output)
    write_figure(ax.figure, path, bbox_inches="tight")
