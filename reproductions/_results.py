"""Results of a reproduction, cells of a table, curves of a figure or positions on a map: printed, plotted, written."""

from __future__ import annotations

import json
import sys
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from mercer.plot.style import COLORS, MARKERS

ERRORS = {"ours (CV)": "chosen", "ours (best)": "best", "paper": "paper"}
"""The three errors of a cell, by their names in tables."""


@dataclass(frozen=True)
class Cell:
    """Errors of one method on one task: ours, chosen and best, and the paper's, if any."""

    task: str
    method: str
    chosen: float
    chosen_sd: float
    best: float
    best_setting: str
    paper: float | None


@dataclass(frozen=True)
class Curve:
    """Mean errors of one method along the x-axis of a panel, and their standard deviations over the runs.

    ``chosen`` is the error with x chosen within the training data, ``paper`` what the paper says about the curve.
    """

    panel: str
    method: str
    x: tuple[float, ...]
    error: tuple[float, ...]
    sd: tuple[float, ...]
    chosen: float | None = None
    paper: str = ""


@dataclass(frozen=True)
class Place:
    """Position of one object on a map."""

    panel: str
    group: str
    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Table:
    """A table of a paper: what it shows, how ours differs, and its errors by task, in the order of its methods."""

    caption: str
    differs: str
    errors: dict[Any, tuple[float | None, ...]]
    fetch: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: what it shows, how ours differs, and its axes."""

    caption: str
    differs: str
    x_label: str = ""
    y_label: str = "test error"
    log_x: bool = False
    log_y: bool = False


def main(title: str, parts: dict[str, Any], reproduce: Callable[..., list[Any]], arguments=None) -> None:
    """Reproduce the part that the command line names, and print it next to the paper's."""
    listed = "\n".join(f"  {name:14}{part.caption}" for name, part in parts.items())
    parser = ArgumentParser(description=f"{title}\n\n{listed}", formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts, metavar="part", help="a table or figure of this list")
    parser.add_argument("--quick", action="store_true", help="few tasks and draws, in half a minute")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws (0)")
    accepted = signature(reproduce).parameters
    if "draws" in accepted:
        parser.add_argument("--draws", type=int, help="number of random training sets")
    if "variants" in accepted:
        parser.add_argument("--variants", action="store_true", help="also run methods that explain differences")
    if "balanced" in accepted:
        parser.add_argument("--balanced", action="store_true", help="average the test errors over the classes")
    parser.add_argument("--figure", type=Path, help="plot the result to this file: .png, .svg or .pdf")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = vars(parser.parse_args(arguments))
    name, figure, file = (options.pop(key) for key in ("part", "figure", "json"))
    if options.get("draws") is not None and options["draws"] < 1:
        parser.error(f"--draws must be at least 1; got {options['draws']}")
    warnings.filterwarnings("ignore", category=UserWarning)  # models of single sequences are overfitted on purpose
    results = reproduce(name, **options)
    print(f"{parts[name].caption}\n\n{markdown(results)}\n\n{parts[name].differs}")
    if figure is not None:
        draw(parts[name], results).savefig(figure)
    if file is not None:
        file.write_text(json.dumps({"values": numbers(results)}, indent=1), encoding="utf-8")


def tell(what: str) -> None:
    """Print what is computed next."""
    print(what, file=sys.stderr, flush=True)


def numbers(results: Sequence[Any]) -> dict[str, Any]:
    """Return all numbers by name: task or panel, method, and which of their numbers it is."""
    return {Cell: _cell_numbers, Curve: _curve_numbers, Place: _place_numbers}[type(results[0])](results)


def _cell_numbers(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return ours and the paper's by task and method, their means, and the mean distance from the paper."""
    found: dict[str, Any] = {}
    for one in cells:
        found.setdefault(one.task, {})[one.method] = {label: getattr(one, key) for label, key in ERRORS.items()}
    far: dict[str, float] = {}
    for method in dict.fromkeys(one.method for one in cells):
        own = [one for one in cells if one.method == method]
        for label, key in ERRORS.items():
            known = [getattr(one, key) for one in own if getattr(one, key) is not None]
            mean = float(np.mean(known)) if known else None
            found.setdefault("mean", {}).setdefault(method, {})[label] = mean
        pairs = [(one.best, one.paper) for one in own if one.paper is not None]
        if pairs:
            far[method] = float(np.mean([abs(ours - paper) for ours, paper in pairs]))
    return found | {"mean distance": far}


def _curve_numbers(curves: Sequence[Curve]) -> dict[str, Any]:
    """Return the errors along the axis, or the smallest and the chosen one if x is chosen, by panel and method.

    What the paper says of a method in all panels alike is also under "paper" only.
    """
    found: dict[str, Any] = {}
    for one in curves:
        names = [f"{x:g}" for x in one.x] if len(one.x) > 1 else ["ours"]
        errors = dict(zip(names, one.error, strict=True))
        if one.chosen is not None:
            errors = {"best": min(one.error), "chosen": one.chosen}
        found.setdefault(one.panel, {})[one.method] = {**errors, "paper": one.paper}
    said: dict[str, set[str]] = {}
    for one in curves:
        said.setdefault(one.method, set()).add(one.paper)
    return found | {"paper": {method: texts.pop() for method, texts in said.items() if len(texts) == 1}}


def _place_numbers(places: Sequence[Place]) -> dict[str, Any]:
    """Return the positions by panel and name."""
    found: dict[str, Any] = {}
    for one in places:
        found.setdefault(one.panel, {})[one.name] = {"x": one.x, "y": one.y}
    return found


def markdown(results: Sequence[Any]) -> str:
    """Return a table of cells, curves or places."""
    header, *rows = {Cell: _cell_rows, Curve: _curve_rows, Place: _place_rows}[type(results[0])](results)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def _cell_rows(cells: Sequence[Cell]) -> list[list[str]]:
    """Return three rows per task: ours with cross-validated parameters, ours with the best ones, the paper's."""
    tasks, methods = (list(dict.fromkeys(getattr(c, name) for c in cells)) for name in ("task", "method"))
    rows = [["task", "", *methods]]
    for task in [*tasks, "mean"]:
        own = [c for c in cells if task in (c.task, "mean")]
        for label, key in ERRORS.items():
            shown = [_average([getattr(c, key) for c in own if c.method == method]) for method in methods]
            rows.append([task if key == "chosen" else "", label, *shown])
    return rows


def _curve_rows(curves: Sequence[Curve]) -> list[list[str]]:
    """Return one row per curve: the errors along the axis, the chosen one, and the paper's."""
    axis = sorted({x for one in curves for x in one.x})
    rows = [["", "method", *(f"{x:g}" for x in axis), "chosen", "paper"]]
    for one in curves:
        errors = dict(zip(one.x, one.error, strict=True))
        numbers = [_average([value]) for value in (*(errors.get(x) for x in axis), one.chosen)]
        rows.append([one.panel, one.method, *numbers, one.paper])
    return rows


def _place_rows(places: Sequence[Place]) -> list[list[str]]:
    """Return one row per group: the number of objects and their mean position."""
    rows = [["", "group", "objects", "x", "y"]]
    for panel, group in dict.fromkeys((p.panel, p.group) for p in places):
        inside = [(p.x, p.y) for p in places if (p.panel, p.group) == (panel, group)]
        rows.append([panel, group, str(len(inside)), *(f"{value:.3f}" for value in np.mean(inside, axis=0))])
    return rows


def _average(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{np.mean(numbers):.3f}".lstrip("0") if numbers else ""


def draw(part: Any, results: Sequence[Any]) -> Any:
    """Plot a table (our errors over the paper's), curves or a map, and return the matplotlib figure."""
    painters: dict[type, Callable[..., Any]] = {Cell: _draw_cells, Curve: _draw_curves, Place: _draw_places}
    figure = painters[type(results[0])](part, results)
    figure.suptitle(part.caption, fontsize="medium")
    figure.tight_layout()
    return figure


def _panels(part: Figure, results: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """Return a figure and the labeled axes of every panel, in two rows if there are more than three."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(one.panel for one in results))
    rows = 1 if len(names) <= 3 else 2
    columns = -(-len(names) // rows)
    size = (1 + 4.2 * columns, 4.2 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharey=True, squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    for ax, name in zip(axes.flat, names, strict=False):
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel(part.x_label)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(part.y_label)
    return figure, dict(zip(names, axes.flat, strict=False))


def _style(place: int) -> dict[str, Any]:
    """Return the color and marker of a curve or group, the same in all panels."""
    return {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)]}


def _legend(axes: dict[str, Any], names: Sequence[str]) -> None:
    """Add a legend of all panels outside the axes, next to the first row."""
    drawn: dict[str, Any] = {}
    for ax in axes.values():
        drawn |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    right = next(ax for ax in axes.values() if ax.get_subplotspec().is_last_col())
    handles = [drawn[name] for name in names]
    right.legend(handles, names, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_curves(part: Figure, curves: Sequence[Curve]) -> Any:
    figure, axes = _panels(part, curves)
    methods = list(dict.fromkeys(one.method for one in curves))
    for one in curves:
        place = methods.index(one.method)
        dashes = "-" if place < len(COLORS) else "--"  # repeated colors are dashed
        style = {**_style(place), "markersize": 4, "linestyle": dashes, "capsize": 2}
        axes[one.panel].errorbar(one.x, one.error, one.sd, label=one.method, **style)
    for ax in axes.values():
        ax.set_xscale("log" if part.log_x else "linear")
        ax.set_yscale("log" if part.log_y else "linear")
        ax.grid(alpha=0.3)
    _legend(axes, methods)
    return figure


def _draw_places(part: Figure, places: Sequence[Place]) -> Any:
    figure, axes = _panels(part, places)
    groups = sorted({place.group for place in places})
    for panel, ax in axes.items():
        for number, group in enumerate(groups):
            inside = [(p.x, p.y) for p in places if p.panel == panel and p.group == group]
            if inside:
                ax.scatter(*np.transpose(inside), label=group, alpha=0.8, s=18, **_style(number))
    _legend(axes, groups)
    return figure


def _draw_cells(part: Table, cells: Sequence[Cell]) -> Any:
    """Plot our errors over the paper's; below the diagonal, ours are smaller."""
    from matplotlib import pyplot as plt

    known = [(cell.method, cell.paper, cell.chosen) for cell in cells if cell.paper is not None]
    if not known:
        raise ValueError("The paper has no numbers to compare with; omit --figure.")
    figure, ax = plt.subplots(figsize=(5, 4.6))
    for number, method in enumerate(dict.fromkeys(name for name, *_ in known)):
        points = [errors for name, *errors in known if name == method]
        ax.scatter(*np.transpose(points), label=method, s=22, **_style(number))
    top = 1.05 * max(max(errors) for _, *errors in known)
    ax.plot([0, top], [0, top], color="0.7", linewidth=1, zorder=0)
    ax.set(xlim=(0, top), ylim=(0, top), xlabel="test error of the paper", ylabel="ours, chosen by cross-validation")
    ax.legend(fontsize="small")
    return figure
