"""Figures of a report: SVG by matplotlib in colors that follow the page's light or dark theme, and images as PNG."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
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
SPLITS = 200
"""Number of random halves on which the coverage of intervals is checked."""
INTERVALS = np.linspace(0.1, 0.9, 9)
"""Stated coverages of these intervals."""
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


def coverages(task: Task, found: Details) -> Floats:
    """Return how often targets lie in intervals, ``(splits, levels)``, for random halves of the samples or groups.

    The width of an interval is that of the errors of one half, and is checked on the other one.
    """
    errors = np.abs(np.asarray(task.y) - found.predicted)
    names = np.arange(len(errors)) if task.groups is None else np.asarray(task.groups)
    groups, of_sample = np.unique(names, return_inverse=True)
    rng, shares = np.random.default_rng(0), []
    for _ in range(SPLITS):
        is_first = np.zeros(len(groups), dtype=bool)
        is_first[rng.permutation(len(groups))[: len(groups) // 2]] = True
        known = is_first[of_sample]
        shares.append([(errors[~known] <= np.quantile(errors[known], level)).mean() for level in INTERVALS])
    return np.array(shares)


def coverage(shares: Floats) -> Markup:
    """Return the mean coverage of intervals over all splits, with its standard deviation."""
    mean, deviation = shares.mean(axis=0), shares.std(axis=0)
    ax = _axes("stated coverage", "share inside")
    _diagonal(ax, 0.0, 1.0)
    low, high = np.maximum(mean - deviation, 0), np.minimum(mean + deviation, 1)
    ax.fill_between(INTERVALS, low, high, color=_COLOR["c0"], alpha=0.16, linewidth=0)
    ax.plot(INTERVALS, mean, "o-", color=_COLOR["c0"])
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


def series(values: Floats, levels: Floats | None, names: Sequence[str] = ()) -> Markup:
    """Return a series as lines, gaps where values are missing, each channel on an axis of its own.

    Behind them are the levels (-3 to 3) of what steps contribute, ``(T,)`` or ``(T, d)``. Several channels are named,
    with their ranges.
    """
    T = len(values)
    kept = np.unique(np.linspace(0, T - 1, min(T, STEPS)).astype(int))
    shown = values[kept][:, :CHANNELS]
    count = shown.shape[1]
    figure = Figure(figsize=(5, 1.25 if count == 1 else 0.85 * count))
    for channel, column in enumerate(shown.T):
        name = f"{names[channel] if names else f'channel {channel}'}{_range(column)}" if count > 1 else ""
        part = 1 / count
        ax = figure.add_axes((0, 1 - (channel + 1) * part, 1, part * (0.72 if name else 1)), xlim=(-0.5, T - 0.5))
        ax.set_axis_off()
        if name:
            ax.text(0, 1.02, name, transform=ax.transAxes, va="bottom", fontsize=11, parse_math=False)
        _levels(ax, levels if levels is None or levels.ndim == 1 else levels[:, channel])
        known = np.isfinite(np.pad(column, 1, constant_values=np.nan))
        isolated = known[1:-1] & ~known[:-2] & ~known[2:]
        ax.plot(
            kept, np.where(known[1:-1], column, np.nan), color=_COLOR[f"c{channel}"], linewidth=1.4,
            marker="o", markersize=3, markevery=isolated,
        )  # fmt: skip
    ends = "" if count > 1 else _range(shown[:, 0])
    return _svg(ax, f"series of {T} steps{f' and {count} channels' if count > 1 else ends}")


def _range(column: Floats) -> str:
    finite = column[np.isfinite(column)]
    return f", values {finite.min():.3g} to {finite.max():.3g}" if len(finite) else ""


def _levels(ax: Any, levels: Floats | None) -> None:
    """Color the steps by their levels."""
    for level in (-3, -2, -1, 1, 2, 3) if levels is not None else ():
        ax.broken_barh(
            [(t - 0.5, 1) for t in np.flatnonzero(levels == level)], (0, 1), transform=ax.get_xaxis_transform(),
            color=_COLOR["for" if level > 0 else "against"], alpha=0.02 + 0.16 * abs(level), linewidth=0,
        )  # fmt: skip


def limits(K: Floats) -> tuple[float, float]:
    """Return the smallest and the largest similarity of two different samples, without the 1 % at each end."""
    others = K[~np.eye(len(K), dtype=bool)] if len(K) > 1 else K.ravel()
    low, high = np.quantile(others, (0.01, 0.99)) if others.size > 100 else (others.min(), others.max())
    return float(low), float(high)


def heat_map(K: Floats, title: str, ends: tuple[float, float], largest: int = 400) -> Markup:
    """Return a matrix as an image of at most ``largest`` pixels a side; larger ones are averaged over blocks.

    Values at or beyond ``ends`` have the darkest and the brightest color.
    """
    n = len(K)
    if n > largest:
        edges = np.linspace(0, n, largest + 1).astype(int)[:-1]
        sizes = np.diff(np.append(edges, n))
        K = np.add.reduceat(np.add.reduceat(K, edges, axis=0), edges, axis=1) / np.outer(sizes, sizes)
    low, high = ends
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
    for artist in ax.figure.findobj():
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
