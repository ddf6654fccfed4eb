"""Pictures of what was reproduced. Needs matplotlib, which the extra ``cli`` installs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.papers._results import Cell, Curve, Place
from mercer.plot import COLORS, MARKERS


def draw(part: Any, results: Sequence[Any]) -> Any:
    """Draw a table (ours against theirs), curves or a map, and return the matplotlib figure.

    Parameters
    ----------
    part : object with a caption
        The table or figure of the paper.
    results : sequence of Cell, Curve or Place
        What its reproduction returned.
    """
    painters: dict[type, Callable[..., Any]] = {Cell: _draw_cells, Curve: _draw_curves, Place: _draw_places}
    figure = painters[type(results[0])](part, results)
    figure.suptitle(part.caption, fontsize="medium")
    figure.tight_layout()
    return figure


def _panels(results: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """Return a figure and the axes of every panel, side by side and of one scale."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(one.panel for one in results))
    figure, axes = plt.subplots(1, len(names), figsize=(1 + 4.2 * len(names), 4.2), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name, fontsize="medium")
    return figure, dict(zip(names, axes[0], strict=True))


def _draw_curves(part: Any, curves: Sequence[Curve]) -> Any:
    figure, axes = _panels(curves)
    methods = list(dict.fromkeys(curve.method for curve in curves))
    for curve in curves:
        place = methods.index(curve.method)
        style = {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        axes[curve.panel].errorbar(curve.x, curve.error, curve.sd, label=curve.method, capsize=2, **style)
    for ax in axes.values():
        ax.set_xlabel(part.x_label)
        ax.set_xscale("log" if part.log_x else "linear")
        ax.set_yscale("log" if part.log_y else "linear")
        ax.grid(alpha=0.3)
    first, *_ = axes.values()
    first.set_ylabel(part.y_label)
    first.legend(fontsize="small")
    return figure


def _draw_places(part: Any, places: Sequence[Place]) -> Any:
    figure, axes = _panels(places)
    groups = sorted({place.group for place in places})
    for panel, ax in axes.items():
        for number, group in enumerate(groups):
            inside = [(p.x, p.y) for p in places if p.panel == panel and p.group == group]
            if inside:
                style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)], "s": 18}
                ax.scatter(*np.transpose(inside), label=group, alpha=0.8, **style)
        ax.set_xlabel(part.x_label)
        ax.legend(fontsize="small")
    next(iter(axes.values())).set_ylabel(part.y_label)
    return figure


def _draw_cells(part: Any, cells: Sequence[Cell]) -> Any:
    """Draw our errors over the paper's: below the diagonal ours are smaller."""
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 4.6))
    known = [(cell.method, cell.paper, cell.chosen) for cell in cells if cell.paper is not None]
    for number, method in enumerate(dict.fromkeys(name for name, *_ in known)):
        points = [errors for name, *errors in known if name == method]
        style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)], "s": 22}
        ax.scatter(*np.transpose(points), label=method, **style)
    top = 1.05 * max(max(errors) for _, *errors in known)
    ax.plot([0, top], [0, top], color="0.7", linewidth=1, zorder=0)
    ax.set(xlim=(0, top), ylim=(0, top), xlabel="test error of the paper", ylabel="ours, chosen by cross-validation")
    ax.legend(fontsize="small")
    return figure
