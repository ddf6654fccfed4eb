"""Tables of reproduced results for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from mercer.papers._results import Cell, Curve, Place


def table_of(results: Sequence[Any]) -> Table:
    """Return a table of cells, curves or places."""
    makers: dict[type, Callable[[Sequence[Any]], Table]] = {Cell: _cell_table, Curve: _curve_table, Place: _place_table}
    return makers[type(results[0])](results)


def _cell_table(cells: Sequence[Any]) -> Table:
    """Return three rows per task: ours with cross-validated parameters, ours with the best ones, the paper's."""
    tasks, methods = (list(dict.fromkeys(getattr(c, name) for c in cells)) for name in ("task", "method"))
    table = Table()
    for heading in ("task", ""):
        table.add_column(heading, no_wrap=True)
    for method in methods:
        table.add_column(method, justify="right", overflow="fold")
    lines = (("ours (CV)", "chosen"), ("ours (best)", "best"), ("paper", "paper"))
    for task in [*tasks, "mean"]:
        own = [c for c in cells if task in (c.task, "mean")]
        places = [*task.replace(" vs. ", "\nvs. ").splitlines(), "", ""]  # a pair of classes takes two rows
        for place, (label, key) in zip(places, lines, strict=False):
            shown = [_average([getattr(c, key) for c in own if c.method == method]) for method in methods]
            table.add_row(place, label, *shown, end_section=key == "paper")
    return table


def _curve_table(curves: Sequence[Any]) -> Table:
    """Return one row per curve: the errors along the axis, the chosen one, and the paper's."""
    table = Table()
    table.add_column("")
    table.add_column("method", no_wrap=True)
    axis = sorted({x for curve in curves for x in curve.x})
    for x in axis:
        table.add_column(f"{x:g}", justify="right")
    has_chosen, has_paper = (any(getattr(c, name) not in (None, "") for c in curves) for name in ("chosen", "paper"))
    for heading in ["chosen"] * has_chosen + ["paper"] * has_paper:
        table.add_column(heading, justify="right" if heading == "chosen" else "left")
    for i, curve in enumerate(curves):
        errors = dict(zip(curve.x, curve.error, strict=True))
        more = [_average([curve.chosen])] * has_chosen + [curve.paper] * has_paper
        first = i == 0 or curves[i - 1].panel != curve.panel
        last = i + 1 == len(curves) or curves[i + 1].panel != curve.panel
        shown = [_average([errors.get(x)]) for x in axis]
        table.add_row(curve.panel if first else "", curve.method, *shown, *more, end_section=last)
    return table


def _place_table(places: Sequence[Any]) -> Table:
    """Return one row per group: the number of objects and their mean position."""
    table = Table()
    for heading, side in (("", "left"), ("group", "left"), ("objects", "right"), ("x", "right"), ("y", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for panel, group in dict.fromkeys((p.panel, p.group) for p in places):
        inside = [p for p in places if (p.panel, p.group) == (panel, group)]
        center = (sum(getattr(p, name) for p in inside) / len(inside) for name in ("x", "y"))
        table.add_row(panel, group, str(len(inside)), *(f"{value:.3f}" for value in center))
    return table


def _average(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{sum(numbers) / len(numbers):.3f}".lstrip("0") if numbers else ""
