"""What a reproduction returns: cells of a table, curves of a figure, places on a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

Progress = Callable[[str, int], None]
"""``progress(what, steps)`` is called before every step, with the number of all steps; 0 while it is not known."""


@dataclass(frozen=True)
class Cell:
    """What one method errs on one task: ours both ways, and the paper's number where it has one."""

    task: str
    method: str
    chosen: float
    chosen_sd: float
    best: float
    best_setting: str
    paper: float | None


@dataclass(frozen=True)
class Curve:
    """What one method errs along the x-axis of a panel.

    Parameters
    ----------
    panel, method : str
        Where the line is drawn, and its name.
    x, error, sd : tuple of float
        The axis, mean errors and their standard deviations over the runs.
    chosen : float or None, default=None
        The error where x is chosen inside the training data.
    paper : str, default=""
        What the paper says about this line, in a few words: figures have no numbers to copy.
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
    """Where one object lies on a map."""

    panel: str
    group: str
    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: of curves, or a map.

    Parameters
    ----------
    caption, differs : str
        What it shows, and what differs from the paper.
    x_label, y_label : str
        Of the axes.
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
    """Return the rows of a file: a curve has one for every point, the others have one."""
    row = asdict(result)
    if not isinstance(result, Curve):
        return [row]
    points = zip(result.x, result.error, result.sd, strict=True)
    return [row | {"x": x, "error": error, "sd": sd} for x, error, sd in points]
