"""Colors, markers and axes that all plots share."""

from __future__ import annotations

from typing import Any

__all__ = ["COLORS", "MARKERS", "axes"]

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#000000")
"""Colors of Okabe and Ito, which are safe for color-blind readers."""
MARKERS = "os^DvPX*"
"""Markers used along with the colors, for grayscale printing and for more than eight classes."""


def axes(ax: Any) -> Any:
    """Return ``ax``, or the axes of a new figure if it is None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("mercer.plot requires matplotlib; run pip install 'mercer[cli]'.") from error
    return plt.subplots(layout="constrained")[1]
