"""Figures of reproduced results. Requires matplotlib, which the extra ``cli`` installs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.papers._results import Cell, Curve, Place
from mercer.plot.style import COLORS, MARKERS


def draw(part: Any, results: Sequence[Any]) -> Any:
    """Plot a table (our errors over the paper's), curves or a map, and return the matplotlib figure.

    Parameters
    ----------
    part : object with a caption
        The table or figure of the paper.
    results : sequence of Cell, Curve or Place
        Results of the reproduction.
    """
    painters: dict[type, Callable[..., Any]] = {Cell: _draw_cells, Curve: _draw_curves, Place: _draw_places}
    figure = painters[type(results[0])](part, results)
    figure.suptitle(part.caption, fontsize="medium")
    figure.tight_layout()
    return figure


def _panels(results: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """Return a figure and the axes of every panel with a shared y-axis, in two rows if there are more than three."""
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
    return figure, dict(zip(names, axes.flat, strict=False))


def _style(place: int) -> dict[str, Any]:
    """Return the color and marker of a curve or group, the same in all panels."""
    return {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)]}


def _label(part: Any, axes: dict[str, Any], names: Sequence[str]) -> None:
    """Label the axes, and add a legend of all panels next to the first row."""
    drawn: dict[str, Any] = {}
    for ax in axes.values():
        ax.set_xlabel(part.x_label)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(part.y_label)
        handles, labels = ax.get_legend_handles_labels()
        drawn |= dict(zip(labels, handles, strict=True))
    right = next(ax for ax in axes.values() if ax.get_subplotspec().is_last_col())
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}  # outside the axes
    right.legend([drawn[name] for name in names], names, fontsize="small", **place)


def _draw_curves(part: Any, curves: Sequence[Curve]) -> Any:
    figure, axes = _panels(curves)
    methods = list(dict.fromkeys(curve.method for curve in curves))
    for curve in curves:
        place = methods.index(curve.method)
        dashes = "-" if place < len(COLORS) else "--"  # repeated colors are dashed
        style = {**_style(place), "markersize": 4, "linestyle": dashes, "capsize": 2}
        axes[curve.panel].errorbar(curve.x, curve.error, curve.sd, label=curve.method, **style)
    for ax in axes.values():
        ax.set_xscale("log" if part.log_x else "linear")
        ax.set_yscale("log" if part.log_y else "linear")
        ax.grid(alpha=0.3)
    _label(part, axes, methods)
    return figure


def _draw_places(part: Any, places: Sequence[Place]) -> Any:
    figure, axes = _panels(places)
    groups = sorted({place.group for place in places})
    for panel, ax in axes.items():
        for number, group in enumerate(groups):
            inside = [(p.x, p.y) for p in places if p.panel == panel and p.group == group]
            if inside:
                ax.scatter(*np.transpose(inside), label=group, alpha=0.8, s=18, **_style(number))
    _label(part, axes, groups)
    return figure


def _draw_cells(part: Any, cells: Sequence[Cell]) -> Any:
    """Plot our errors over the paper's; below the diagonal, ours are smaller."""
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 4.6))
    known = [(cell.method, cell.paper, cell.chosen) for cell in cells if cell.paper is not None]
    if not known:
        raise ValueError("The paper has no numbers to compare with; omit --figure.")
    for number, method in enumerate(dict.fromkeys(name for name, *_ in known)):
        points = [errors for name, *errors in known if name == method]
        ax.scatter(*np.transpose(points), label=method, s=22, **_style(number))
    top = 1.05 * max(max(errors) for _, *errors in known)
    ax.plot([0, top], [0, top], color="0.7", linewidth=1, zorder=0)
    ax.set(xlim=(0, top), ylim=(0, top), xlabel="test error of the paper", ylabel="ours, chosen by cross-validation")
    ax.legend(fontsize="small")
    return figure
