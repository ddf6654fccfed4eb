"""Results of a reproduction: cells of a table, curves of a figure, positions on a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

Progress = Callable[[str, int], None]
"""``progress(what, steps)`` is called before every step, with the total number of steps, or 0 if unknown."""


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
    """Errors of one method along the x-axis of a panel.

    Parameters
    ----------
    panel, method : str
        Panel of the curve, and its name.
    x, error, sd : tuple of float
        Values on the x-axis, mean errors and their standard deviations over the runs.
    chosen : float or None, default=None
        The error with x chosen within the training data.
    paper : str, default=""
        What the paper says about the curve, in a few words, as its figures have no numbers.
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
class Figure:
    """A figure of a paper: curves or a map.

    Parameters
    ----------
    caption, differs : str
        What the figure shows, and how it differs from the paper.
    x_label, y_label : str
        Labels of the axes.
    log_x, log_y : bool, default=False
        Whether an axis is logarithmic.
    """

    caption: str
    differs: str
    x_label: str
    y_label: str = "test error"
    log_x: bool = False
    log_y: bool = False


def flat(result: Cell | Curve | Place) -> list[dict[str, Any]]:
    """Return the rows of a result in a file: one per point for a curve, else one."""
    row = asdict(result)
    if not isinstance(result, Curve):
        return [row]
    points = zip(result.x, result.error, result.sd, strict=True)
    return [row | {"x": x, "error": error, "sd": sd} for x, error, sd in points]
