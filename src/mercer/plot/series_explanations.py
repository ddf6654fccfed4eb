"""Plots of explanations of series: heat maps, and the series themselves over their contributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_whole
from mercer.data import Sequences
from mercer.data.channels import inside
from mercer.plot._contributions import (
    Shown,
    chosen_samples,
    colors_of,
    draw_image,
    mark_regions,
    shown_of,
    to_numbers,
)
from mercer.plot.style import axes, texts

__all__ = ["explained_series", "heatmap"]

CARDS = 12
"""Series that are drawn at most, unless they are chosen."""


def explained_series(
    found: Any,
    X: Any,
    samples: Any = None,
    ax: Any = None,
    *,
    output: Any = None,
    channels: Any = None,
    regions: Any = None,
) -> Any:
    """Plot series over the contributions of their time steps, with a panel for each channel.

    Parameters
    ----------
    found : Explanation
        Result of `mercer.explain` for series.
    X : Sequences or list of arrays
        The series that were explained, all of them.
    samples : int, str or list of these, default=None
        Series to draw, by number or id; None draws the first 12.
    ax : matplotlib Axes, or list of these, default=None
        Axes to draw a single series on, one for each channel; None creates a new figure.
    output : int, str or class, default=None
        The output, if the explanation has several; None is the class that is predicted for each series.
    channels : list of int or str, default=None
        Channels to draw, by number or name; None draws all of them.
    regions : dict, default=None
        Maps names to ranges of time steps (first, last + 1), which are marked and labeled.

    Returns
    -------
    array of matplotlib Axes, of shape (n_samples, n_channels)
        Each panel has one channel of one series as a line, on its own scale. Blue steps increase the decision,
        vermilion ones decrease it, on one scale for all panels. If contributions are of whole steps, all channels have
        the same colors.

    See Also
    --------
    heatmap : The contributions only, with their numbers.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(20, 2)) + [i % 2, 0] for i in range(30)]
    >>> kernel = mc.Fisher(mc.Gaussian("diagonal"))
    >>> pipeline = make_pipeline(kernel, SVC(kernel="precomputed"))
    >>> found = mc.explain(pipeline.fit(X, np.arange(30) % 2), X)
    >>> axes = mc.plot.explained_series(found, X, samples=[0, 1])
    >>> axes.shape, axes[1, 0].get_title(loc="left")
    ((2, 2), '1: predicted 1')
    """
    if getattr(found, "kind", None) != "series":
        raise TypeError(f"found must be the result of mc.explain for series; got {found!r:.60}.")
    X = Sequences(inside(X))
    if [len(row) for row in found.names] != X.lengths.tolist():
        raise ValueError(
            f"X must be the {len(found)} series that were explained, with the same lengths; got {len(X)} series of "
            f"{X.lengths.tolist()!r:.40} steps."
        )
    chosen = chosen_samples(found, range(min(CARDS, len(found))) if samples is None else samples)
    if not chosen:
        raise ValueError("samples must name at least one series; there is none.")
    known = found.channels or X.channels or tuple(f"x{i}" for i in range(X.dimension or 1))
    columns = _columns(channels, known)
    one = found.of_output(output)
    panels, figure = _panels(ax, len(chosen), len(columns))
    values = [one.contributions[i].reshape(len(found.names[i]), -1) for i in chosen]
    colors = colors_of([each[:, columns] if each.shape[1] > 1 else each for each in values])
    shown = None
    order = [X.channels.index(name) for name in known] if set(X.channels or ()) >= set(known) else range(len(known))
    for row, i, shares in zip(panels, chosen, values, strict=True):
        time = found.first + np.arange(len(shares))
        own = np.asarray(X[i], dtype=float).reshape(len(shares), -1)[:, list(order)]
        for at, panel in zip(columns, row, strict=True):
            shown = _panel(panel, time, own[:, at], shares[:, at if shares.shape[1] > 1 else 0], colors)
            mark_regions(panel, regions, len(time), shaded=False, start=found.first, named=panel is row[0])
            if len(known) > 1:
                panel.set_ylabel(known[at], fontsize="small", parse_math=False)
        title = found.ids[i] if found.predicted is None else f"{found.ids[i]}: predicted {found.predicted[i]}"
        row[0].set_title(title, loc="left", fontsize="medium", pad=16 if regions else None, parse_math=False)
    for row in panels[-_shape(len(chosen))[1] :]:
        row[-1].set_xlabel("time step")
    figure.align_ylabels(list(panels.ravel()))
    figure.colorbar(
        shown, ax=list(panels.ravel()), label=f"contribution to {one.outputs[0]}", fraction=0.03, aspect=30, pad=0.02
    )
    return panels


def _columns(channels: Any, known: tuple[str, ...]) -> list[int]:
    """Return the numbers of channels that are given by number or name."""
    chosen = []
    for channel in range(len(known)) if channels is None else np.atleast_1d(np.asarray(channels, dtype=object)):
        if str(channel) in known:
            chosen.append(known.index(str(channel)))
        elif is_whole(channel, 0) and channel < len(known):
            chosen.append(int(channel))
        else:
            raise ValueError(f"channels must be numbers from 0 or names among {', '.join(known)}; got {channel!r}.")
    return chosen


def _shape(n: int) -> tuple[int, int]:
    """Return the number of rows and columns of n cards."""
    columns = 1 if n == 1 else 2 if n <= 4 else 3
    return -(-n // columns), columns


def _panels(ax: Any, n: int, channels: int) -> tuple[Any, Any]:
    """Return axes for n series with some channels each, and their figure."""
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if n != 1 or len(given) != channels:
            raise ValueError(
                f"ax must be the axes of one series, one for each of its {channels} channels; got {len(given)} for {n} "
                "series. Omit ax, or choose one of the samples."
            )
        return given[None], given[0].figure
    rows, columns = _shape(n)
    size = (1 + (7 if columns == 1 else 4) * columns, rows * (0.7 + (1.1 if columns == 1 else 0.8) * channels))
    figure = axes(None, size).figure
    figure.clear()
    figure.get_layout_engine().set(h_pad=0.02)
    cells = figure.add_gridspec(rows * channels, columns)
    panels: Any = np.empty((n, channels), dtype=object)
    for i, k in np.ndindex(n, channels):
        place = cells[i // columns * channels + k, i % columns]
        panels[i, k] = figure.add_subplot(place, sharex=panels[i, 0] if k else None)
        panels[i, k].tick_params(labelbottom=k == channels - 1)
    return panels, figure


def _panel(ax: Any, time: Floats, values: Floats, shares: Floats, colors: dict[str, Any]) -> Any:
    """Draw one channel as a line over the colors of its contributions."""
    seen = np.isfinite(np.pad(values, 1, constant_values=np.nan))
    isolated = seen[1:-1] & ~seen[:-2] & ~seen[2:]
    ax.plot(time, values, color="0.1", linewidth=1.1, marker="o", markersize=2.5, markevery=isolated)
    finite = values[seen[1:-1]]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    margin = 0.08 * (high - low or 1.0)
    ends = (time[0] - 0.5, time[-1] + 0.5, low - margin, high + margin)
    shown = ax.imshow(shares[None], **colors, extent=ends, aspect="auto", interpolation="nearest", zorder=0)
    ax.set(xlim=ends[:2], ylim=ends[2:])
    return shown


def heatmap(found: Any, sample: Any = 0, ax: Any = None, *, output: Any = None, channels: Any = None) -> Any:
    """Plot the contributions of the time steps and channels of one series.

    Parameters
    ----------
    found : Explanation, or array of shape (T, d)
        Result of `mercer.explain` for series, or contributions.
    sample : int or str, default=0
        The series of an Explanation, by number or id.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    output : int, str or class, default=None
        The output, if the explanation has several; None is the class that is predicted.
    channels : list of d str, default=None
        Names of the channels; None uses those of the explanation, or numbers.

    Returns
    -------
    matplotlib Axes
        Axes with time from left to right and a row per channel. Blue increases the decision, vermilion decreases it.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> ax = mc.plot.heatmap(
    ...     np.outer(np.sin(np.arange(20)), [1.0, -0.5]), channels=["x", "y"]
    ... )
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['x', 'y']
    """
    if hasattr(found, "contributions"):
        shown = shown_of(found, sample, output)
        values, known = shown.values[0], found.channels
    else:
        values, known = to_numbers(found), None
        shown = Shown([values], None, [], "contribution", "time step")
    if values.ndim != 2:
        raise ValueError(
            f"A heat map needs a value per time step and channel; got shape {values.shape}. Use track, or "
            "explained_series."
        )
    count = values.shape[1]
    names = texts(channels or known or range(count), count, "channels", "channels")
    ax = axes(ax)
    draw_image(ax, values.T, shown.label, shown.first)
    ax.set_yticks(np.arange(len(names)), names, parse_math=False)
    ax.set(xlabel="time step", ylabel="channel")
    return ax
