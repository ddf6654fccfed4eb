"""What plots of explanations share: the contributions that they read, images and marks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._checks import is_whole
from mercer.plot.style import COLORS

FOR, AGAINST = COLORS[0], COLORS[5]
"""Colors of positive and negative contributions: blue and vermilion, which color-blind readers can distinguish."""


class Shown(NamedTuple):
    """What is drawn: contributions of samples, their symbols or None, ids, and the names of the axes."""

    values: list[Floats]
    names: list[tuple[str, ...]] | None
    ids: list[str]
    label: str
    unit: str
    first: int = 0


def to_numbers(values: Any) -> Floats:
    """Return contributions as an array."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"Contributions must be numbers, or an Explanation of mc.explain; got {values!r:.60}."
        ) from None


def shown_of(found: Any, samples: Any, output: Any) -> Shown:
    """Return the contributions of some samples to one output."""
    if not hasattr(found, "contributions"):
        listed = isinstance(found, list | tuple) and len(found) > 0 and np.ndim(found[0]) > 0
        values = [to_numbers(row) for row in (found if listed else [found])]
        if any(row.ndim != 1 or not len(row) for row in values):
            raise ValueError(
                "found must be an Explanation, or the contributions of one sample, shape (T,), or a list of these; got "
                f"{found!r:.60}."
            )
        return Shown(values, None, [str(i) for i in range(len(values))], "contribution", "position")
    one = found.of_output(output)
    chosen = chosen_samples(found, samples)
    ids = found.ids
    if output is None and found.n_outputs > 1:
        ids = [f"{name}: predicted {label}" for name, label in zip(ids, found.predicted, strict=True)]
    named = found.kind == "symbols"
    unit = {"symbols": "position", "series": "time step"}.get(found.kind, "column")
    return Shown(
        [np.asarray(one.contributions[i]) for i in chosen], [found.names[i] for i in chosen] if named else None,
        [ids[i] for i in chosen], f"contribution to {one.outputs[0]}", unit, found.first,
    )  # fmt: skip


def chosen_samples(found: Any, samples: Any) -> list[int]:
    """Return the numbers of samples that are given by number or id."""
    if samples is None:
        return list(range(len(found)))
    listed = isinstance(samples, Iterable) and not isinstance(samples, str)
    chosen = []
    for sample in samples if listed else [samples]:
        if is_whole(sample, 0) and sample < len(found):
            chosen.append(int(sample))
        elif str(sample) in found.ids:
            chosen.append(found.ids.index(str(sample)))
        else:
            raise ValueError(f"samples must be ids, or numbers from 0 to {len(found) - 1}; got {sample!r}.")
    return chosen


def colors_of(values: list[Floats]) -> dict[str, Any]:
    """Return the colors of contributions, symmetric around zero, and their range; missing values are gray."""
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("contribution", [AGAINST, "white", FOR]).with_extremes(bad="0.85")
    most = max((float(np.nanmax(np.abs(each), initial=0.0)) for each in values), default=0.0) or 1.0
    return {"cmap": colors, "vmin": -most, "vmax": most}


def draw_image(ax: Any, values: Floats, label: str, first: int = 0) -> None:
    """Draw an image whose rows are samples or channels, from the position ``first`` on."""
    rows, length = values.shape
    extent = (first - 0.5, first + length - 0.5, rows - 0.5, -0.5)
    shown = ax.imshow(values, **colors_of([values]), extent=extent, interpolation="nearest", aspect="auto")
    ax.figure.colorbar(shown, ax=ax, label=label, fraction=0.03, pad=0.01)
    ax.tick_params(axis="y", length=0)


def mark_regions(ax: Any, regions: Any, length: int, *, shaded: bool, start: int = 0, named: bool = True) -> None:
    """Mark ranges of positions, by a shade or, on an image, by lines; write their names above them."""
    if not (regions is None or isinstance(regions, dict)):
        raise TypeError(f"regions must be a dict, such as {{'box': (3, 8)}}; got {regions!r}.")
    for name, region in (regions or {}).items():
        if np.shape(region) != (2,) or not all(is_whole(edge, 0) for edge in region):
            raise ValueError(f"Region {name!r} must be (first, end), two whole numbers; got {region!r}.")
        first, end = region
        if not start <= first < end <= start + length:
            raise ValueError(
                f"Region {name!r} must be a range within {start} to {start + length}; got {(first, end)!r}."
            )
        if shaded:
            ax.axvspan(first - 0.5, end - 0.5, color="0.5", alpha=0.18, linewidth=0, zorder=0)
        else:
            for edge in (first - 0.5, end - 0.5):
                ax.axvline(edge, color="0.2", linewidth=0.9, linestyle="--")
        top = ax.get_xaxis_transform()
        if named:
            ax.text((first + end - 1) / 2, 1.01, str(name), transform=top, ha="center", va="bottom", fontsize="small")
