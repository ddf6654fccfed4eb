"""Figures of a report: SVG by matplotlib in colors that follow the page's light or dark theme, and images as PNG."""

from __future__ import annotations

import base64
import re
from io import BytesIO, StringIO
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import colormaps
from matplotlib.figure import Figure
from PIL import Image

from mercer._array import Floats
from mercer._comparison.evaluation import Task
from mercer._comparison.results import wilson
from mercer._report.details import Curve, Details
from mercer.plot.style import MARKERS

N_COLORS = len(MARKERS)
"""Number of colors, and of markers, of classes; later classes pair them differently."""
N_LEVELS = 5
"""Number of shades of targets."""
CHANNELS = 4
"""Channels of a series that are drawn at most."""
STEPS = 300
"""Steps of a series that are drawn at most."""
NEGLIGIBLE = 1e-12
"""Eigenvalues that are smaller than this fraction of the largest one are rounding errors."""
SAME = 1e-9
"""Errors that differ by less are equal."""

_VARIABLES = (
    "fg", "soft", "rule", "for", "against", *(f"c{i}" for i in range(N_COLORS)), *(f"q{i}" for i in range(N_LEVELS)),
)  # fmt: skip
_COLOR = {name: f"#fe00{i:02x}" for i, name in enumerate(_VARIABLES)}
"""Stand-ins for the color variables of the style sheet, which matplotlib does not know."""

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mercer",  # the same figure has the same ids
    "font.size": 12,
    "text.color": _COLOR["fg"],
    "axes.labelcolor": _COLOR["fg"],
    "axes.edgecolor": _COLOR["rule"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _COLOR["rule"],
    "grid.linewidth": 0.6,
    "xtick.color": _COLOR["rule"],
    "ytick.color": _COLOR["rule"],
    "xtick.labelcolor": _COLOR["fg"],
    "ytick.labelcolor": _COLOR["fg"],
}
"""Settings of matplotlib on top of its defaults."""


def color(i: int) -> int:
    """Return the color of class ``i``: another one each time that the markers start again."""
    return (i + i // N_COLORS) % N_COLORS


def codes_of(task: Task) -> Any:
    """Return the number of the class of each sample; for targets, one of five levels of equal numbers."""
    if task.is_regression:
        return np.searchsorted(np.quantile(task.y, np.linspace(0, 1, N_LEVELS + 1)[1:-1]), task.y)
    return np.unique(task.y, return_inverse=True)[1]


def components(task: Task, found: Details) -> Markup:
    """Return the map of the first two kernel principal components."""
    assert found.embedding is not None
    first, second = (f"component {i + 1} ({100 * part:.0f} % of the variance)" for i, part in enumerate(found.share))
    ax = _axes(first, second, height=440)
    x, y = found.embedding.T
    _points(ax, x, y, task)
    return _svg(ax, "kernel principal components", is_live=True)


def residuals(task: Task, found: Details) -> Markup:
    """Return the targets over the predictions."""
    ax = _axes("prediction", "target")
    _diagonal(ax, min(task.y.min(), found.predicted.min()), max(task.y.max(), found.predicted.max()))
    _points(ax, found.predicted, np.asarray(task.y), task)
    return _svg(ax, "targets over predictions", is_live=True)


def coverage(task: Task, found: Details) -> Markup:
    """Return how often targets lie in intervals, whose width is that of the errors of every second sample."""
    errors = np.abs(np.asarray(task.y) - found.predicted)
    levels = np.linspace(0.1, 0.9, 9)
    inside = [float((errors[1::2] <= np.quantile(errors[::2], level)).mean()) for level in levels]
    ax = _axes("stated coverage", "share inside")
    _diagonal(ax, 0.0, 1.0)
    ax.plot(levels, inside, "o-", color=_COLOR["c0"])
    return _svg(ax, "coverage of intervals")


def calibration(task: Task, probabilities: Floats) -> Markup:
    """Return the share of right predictions over their probability, with intervals."""
    confidence = probabilities.max(axis=1)
    right = np.unique(task.y)[probabilities.argmax(axis=1)] == task.y
    bins = np.array_split(np.argsort(confidence, kind="stable"), max(1, min(8, len(confidence) // 15)))
    at, shares = (np.array([values[some].mean() for some in bins]) for values in (confidence, right))
    low, high = np.transpose([wilson(share, len(some)) for share, some in zip(shares, bins, strict=True)])
    ax = _axes("stated probability", "share that is right")
    _diagonal(ax, float(confidence.min()), 1.0)
    ax.vlines(at, low, high, color=_COLOR["c0"])
    ax.plot(at, shares, "o-", color=_COLOR["c0"])
    ax.set(xlim=(min(float(confidence.min()), 0.5) - 0.02, 1.02), ylim=(0, 1.04))
    return _svg(ax, "calibration")


def error_curve(curve: Curve, measure: str) -> Markup | None:
    """Return the error over the values of a parameter; None of an error that is the same everywhere."""
    if np.ptp(curve.means) < SAME:
        return None
    values = np.asarray(curve.values)
    ax = _axes(curve.name, f"1 - {measure}")
    if values.min() > 0 and values.max() / values.min() > 20:
        ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.minorticks_off()
    high = curve.means + curve.deviations
    low = np.maximum(curve.means - curve.deviations, 0)
    if measure == "accuracy":
        high = np.minimum(high, 1)
    ax.fill_between(values, low, high, color=_COLOR["c0"], alpha=0.16, linewidth=0)
    ax.plot(values, curve.means, "o-", color=_COLOR["c0"])
    ax.set_ylim(bottom=max(ax.get_ylim()[0], 0))
    if curve.chosen is not None and values.min() <= curve.chosen <= values.max():
        ax.axvline(curve.chosen, color=_COLOR["soft"], linestyle="--", linewidth=1)
        place = ax.transData.transform((curve.chosen, 0))[0] > ax.bbox.x0 + ax.bbox.width / 2
        ax.annotate(
            "chosen", (curve.chosen, 0.97), (-5 if place else 5, 0), ax.get_xaxis_transform(),
            textcoords="offset points", ha="right" if place else "left", va="top",
        )  # fmt: skip
    return _svg(ax, f"error over {curve.name}")


def spectrum(eigenvalues: Floats) -> Markup:
    """Return the logarithms of the eigenvalues, largest first."""
    logs = np.log10(np.maximum(eigenvalues, eigenvalues[0] * NEGLIGIBLE))
    kept = np.unique(np.geomspace(1, len(logs), min(len(logs), 120)).astype(int))
    ax = _axes("number", "log10 of the eigenvalue")
    ax.plot(kept, logs[kept - 1], color=_COLOR["c0"], linewidth=2)
    return _svg(ax, "eigenvalues")


def series(values: Floats, levels: Floats | None) -> Markup:
    """Return a series as lines, gaps where values are missing, on the levels (-3 to 3) of what steps contribute."""
    T = len(values)
    kept = np.unique(np.linspace(0, T - 1, min(T, STEPS)).astype(int))
    shown = values[kept][:, :CHANNELS]
    ax = Figure(figsize=(5, 1.25)).add_axes((0, 0, 1, 1), xlim=(-0.5, T - 0.5))
    ax.set_axis_off()
    for level in (-3, -2, -1, 1, 2, 3) if levels is not None else ():
        ax.broken_barh(
            [(t - 0.5, 1) for t in np.flatnonzero(levels == level)], (0, 1), transform=ax.get_xaxis_transform(),
            color=_COLOR["for" if level > 0 else "against"], alpha=0.02 + 0.16 * abs(level), linewidth=0,
        )  # fmt: skip
    for channel, column in enumerate(shown.T):
        known = np.isfinite(np.pad(column, 1, constant_values=np.nan))
        isolated = known[1:-1] & ~known[:-2] & ~known[2:]
        ax.plot(
            kept, np.where(known[1:-1], column, np.nan), color=_COLOR[f"c{channel}"], linewidth=1.4,
            marker="o", markersize=3, markevery=isolated,
        )  # fmt: skip
    finite = shown[np.isfinite(shown)]
    ends = f", values {finite.min():.3g} to {finite.max():.3g}" if len(finite) else ""
    return _svg(ax, f"series of {T} steps{ends}")


def heat_map(K: Floats, title: str, largest: int = 400) -> Markup:
    """Return a matrix as an image of at most ``largest`` pixels a side; larger ones are averaged over blocks."""
    n = len(K)
    if n > largest:
        edges = np.linspace(0, n, largest + 1).astype(int)[:-1]
        sizes = np.diff(np.append(edges, n))
        K = np.add.reduceat(np.add.reduceat(K, edges, axis=0), edges, axis=1) / np.outer(sizes, sizes)
    low, high = np.quantile(K, (0.01, 0.99)) if K.size > 100 else (K.min(), K.max())
    levels = np.clip((K - low) / ((high - low) or 1.0), 0, 1)
    image = Image.fromarray(np.rint(255 * levels).astype(np.uint8))
    image.putpalette(colormaps["viridis"](np.arange(256), bytes=True)[:, :3].tobytes())
    file = BytesIO()
    image.save(file, format="PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    return Markup('<img class="gram" alt="{}" src="data:image/png;base64,{}">').format(title, data)


def _axes(x_label: str, y_label: str, height: float = 320) -> Any:
    figure = Figure(figsize=(460 / 72, height / 72), layout="constrained")
    return figure.add_subplot(xlabel=x_label, ylabel=y_label)


def _points(ax: Any, x: Floats, y: Floats, task: Task) -> None:
    """Add the samples in the order of `codes_of`, in which the page has their texts."""
    codes = codes_of(task)
    for code in np.unique(codes):
        own = codes == code
        marker, shade = ("o", f"q{code}") if task.is_regression else (MARKERS[code % N_COLORS], f"c{color(code)}")
        ax.plot(x[own], y[own], marker, color=_COLOR[shade], alpha=0.75, markersize=8, markeredgewidth=0, gid="points")


def _diagonal(ax: Any, low: float, high: float) -> None:
    ax.plot([low, high], [low, high], "--", color=_COLOR["soft"], linewidth=1)


def _svg(ax: Any, title: str, is_live: bool = False) -> Markup:
    """Return the figure of the axes for a page; its points are pointed at if it is live."""
    for artist in ax.findobj():
        artist.set_clip_on(False)
    file = StringIO()
    # Neither a date, which would change every time, nor addresses.
    ax.figure.savefig(
        file, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    body = file.getvalue().partition("<svg")[2].partition(">")[2]
    for name, shade in _COLOR.items():
        body = body.replace(shade, f"var(--{name})")
    body = body.replace('<g id="points"', '<g class="points"')
    body = re.sub(r'<g id="[^"]*"|<style.*?</style>|(?<=\n) +', lambda m: "<g" if m[0].startswith("<g") else "", body)
    width, height = 72 * ax.figure.get_size_inches()
    live = Markup(' data-live tabindex="0"' if is_live else "")
    opening = '<svg class="chart" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}"{}>'
    return Markup(opening).format(width, height, title, live) + Markup(body)
