"""Colors, markers and axes that all plots share."""

from __future__ import annotations

from typing import Any

__all__ = ["COLORS", "MARKERS", "axes", "legend_above", "texts"]

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#000000")
"""Colors of Okabe and Ito, which are safe for color-blind readers."""
MARKERS = "os^DvPX*"
"""Markers used along with the colors, for grayscale printing and for more than eight classes."""


def axes(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """Return ``ax``, or the axes of a new figure, of this width and height in inches, if it is None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("mercer.plot requires matplotlib; run pip install matplotlib.") from error
    return plt.subplots(layout="constrained", figsize=size)[1]


def texts(given: Any, n: int, name: str, things: str) -> list[str]:
    """Return the parameter ``name`` as texts, one for each of ``n`` things; raise if there are more or fewer."""
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != n:
        raise ValueError(f"{name} must have one entry for each of the {n} {things}; got {given!r}.")
    return [str(text) for text in given]


def legend_above(ax: Any, **given: Any) -> None:
    """Add a legend above the axes, where it hides no part of the picture, and below the title."""
    style = {"frameon": False, "fontsize": "small", "columnspacing": 1.2, "loc": "lower left", "bbox_to_anchor": (0, 1)}
    legend = ax.legend(**given, **style)
    texts = legend.get_texts()
    em = texts[0].get_fontsize() * ax.figure.dpi / 72
    longest = max(len(text.get_text()) for text in texts)
    columns = int(ax.get_window_extent().width / (em * (4 + 0.55 * longest)))  # a handle, its text, and spaces
    legend = ax.legend(**given, **style, ncols=min(max(columns, 1), len(texts)))
    # Matplotlib puts the title above all axes inside ``ax``, but not above a legend: these cover it.
    cover = ax.inset_axes((0, 1, 1, 0.1))
    cover.set_axis_off()
    cover.set_in_layout(False)
    cover.set_axes_locator(_Place(legend))


class _Place:
    """Where a legend is drawn, for axes of the same size; in a class so that figures can be pickled."""

    def __init__(self, legend: Any) -> None:
        self.legend = legend

    def __call__(self, ax: Any, renderer: Any) -> Any:
        """Return the place in fractions of the figure."""
        figure = self.legend.axes.figure
        return self.legend.get_window_extent(renderer).transformed(figure.transSubfigure.inverted())
