"""Wide tables, one row per sample: columns are time steps, or hold sequences, documents or lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats
from mercer._notices import notify
from mercer.data._forms import Flat, Problem, flatten
from mercer.data._long import Series
from mercer.data._samples import Samples, counted, not_a_number
from mercer.data.ragged import offsets_of
from mercer.data.stamps import step_of
from mercer.data.text import number

_NUMBERED = re.compile(r"(.*?)[\s_.\-\[(]*(\d+)[\])]?")


def wide_series(samples: Samples, names: tuple[str, ...], *, guessed: bool = False) -> Series:
    """Read columns of numbers as the time steps of one series per row.

    Columns such as ``x0, x1, ..., y0, y1, ...`` are channels x and y. Numbers in the names are time stamps. Missing
    values at the end of a row are padding and are removed. Of columns that are guessed to be values, those that are not
    numbered like the others are left out.
    """
    table = samples.table
    channels, layout, step = _layout(samples, names, guessed)
    for name in (name for name in names if name not in samples.unused):
        column = table.columns[name]
        if column.kind not in ("number", "empty"):
            cure = column.mark_cure or "has no numbers; leave it out of values=[...]"
            raise ValueError(f"{table.name}: the column {name!r} {cure}.")
        samples.fail(np.flatnonzero(column.bad), not_a_number(column))
    cube = np.full((len(samples), layout.shape[0], layout.shape[1]), np.nan)
    for (t, channel), name in np.ndenumerate(layout):
        if name is not None:
            cube[:, t, channel] = table.columns[name].numbers
    seen = ~np.isnan(cube).all(axis=2)
    lengths = np.where(seen.any(axis=1), cube.shape[1] - np.argmax(seen[:, ::-1], axis=1), 0)
    for i in np.flatnonzero(lengths == 0).tolist():
        text = f"({table.place(samples.order[i])}) has no values; remove it, or pass invalid='mask'."
        samples.problems.setdefault(i, Problem(ValueError, text))
    inside = np.arange(cube.shape[1]) < lengths[:, None]
    return Series(Flat("vectors", cube[inside], offsets_of(lengths)), channels, step)


def _layout(
    samples: Samples, names: tuple[str, ...], guessed: bool
) -> tuple[tuple[str, ...], NDArray[Any], float | None]:
    """Return the channels, the column of every time step and channel (None if absent), and the step of the grid."""
    numbered = numbered_columns(names)
    if guessed and numbered:  # dose1 and dose2 next to t0, ..., t59 are not measured at every step either
        most = max(map(len, numbered.values()))
        numbered = {channel: times for channel, times in numbered.items() if 2 * len(times) >= most}
        used = {column for columns in numbered.values() for column in columns}
        samples.unused = tuple(name for name in names if name not in used)
    elif sum(map(len, numbered.values())) < len(names):
        _say_steps(samples, names, guessed)
        return ("value",), np.array(names, dtype=object)[:, None], None
    columns = [tuple(found) for found in numbered.values()]
    layout, step = _in_time(samples, columns, [np.array(list(found.values())) for found in numbered.values()])
    return tuple(stem or "value" for stem in numbered), layout, step


def numbered_columns(names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the columns that are time steps by their names: the time of each, by channel.

    Names are numbers, or a channel and a number, such as ``x0, x1, ..., y0, y1, ...``.
    """
    stamps = {name: time for name in names if (time := _stamp(name)) is not None}
    found: dict[str, dict[str, float]] = {"": stamps}
    if len(stamps) < 2:
        found = {}
        for name in names:
            part = _NUMBERED.fullmatch(name)
            if part is not None:
                found.setdefault(part[1], {})[name] = float(part[2])
    return {stem: times for stem, times in found.items() if len(set(times.values())) == len(times) > 1}


def _say_steps(samples: Samples, names: tuple[str, ...], guessed: bool) -> None:
    """Name the columns that are time steps in their order, and warn if nothing but a guess says so."""
    if len(names) == 1:
        samples.said.append(f"the column {names[0]!r} is the only time step")
        return
    shown = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    samples.said.append(f"the {len(names)} columns {shown} are time steps, in their order")
    if guessed:
        notify(
            f"{samples.table.name}: {counted(len(names), 'column')} ({shown}) taken as time steps, but not numbered. "
            "Pass values=[...] with the time steps only, or ignore=[...] with the others."
        )


def _stamp(name: str) -> float | None:
    """Return a name as a finite number, or None."""
    try:
        time = number(name)
    except ValueError:
        return None
    return time if np.isfinite(time) else None


def _in_time(
    samples: Samples, columns: list[tuple[str, ...]], stamps: list[Floats]
) -> tuple[NDArray[Any], float | None]:
    """Return the columns on the grid of their time stamps, ``(T, d)``, and its step."""
    times = np.unique(np.concatenate(stamps))
    step = step_of(np.diff(times))
    n = 1 if step is None else round((times[-1] - times[0]) / step) + 1
    if step is None or n > 20 * len(times):
        if len(times) > 1:
            notify(
                f"{samples.table.name}: the numbers in the names of the columns, {times[0]:g} to {times[-1]:g}, are "
                "irregular, and are taken as equal steps. Use the long form, with resample= or time_channel=True."
            )
        step, n, places = None, len(times), [np.searchsorted(times, t) for t in stamps]
    else:
        places = [np.round((t - times[0]) / step).astype(np.int64) for t in stamps]
    layout = np.full((n, len(columns)), None, dtype=object)
    for channel, (names, where) in enumerate(zip(columns, places, strict=True)):
        layout[where, channel] = names
    absent = sum(x is None for x in layout.flat)
    grid = "time steps" if step is None else f"time steps {times[0]:g} to {times[-1]:g}, {step:g} apart"
    samples.said.append(
        f"columns are {grid}" + (f", missing values at {counted(absent, 'absent step')}" if absent else "")
    )
    return layout, step


def list_series(samples: Samples, names: tuple[str, ...]) -> Series:
    """Read columns of lists: one channel per column, one series per row."""
    columns = [samples.table.columns[name] for name in names]
    if any(column.kind != "list" for column in columns):
        raise ValueError(f"{samples.table.name}: values={list(names)!r} mixes lists with other columns; pass one kind.")
    items: list[Any] = []
    for i, rows in enumerate(zip(*(column.raw for column in columns), strict=True)):
        sizes = {len(x) for x in rows if x is not None}
        if any(x is None for x in rows) or sizes == {0}:
            samples.problems[i] = Problem(
                ValueError, f"({samples.table.place(i)}) has no values; remove it, or pass invalid='mask'."
            )
        elif len(sizes) > 1:
            samples.problems[i] = Problem(
                ValueError, f"({samples.table.place(i)}) has lists of the lengths {sorted(sizes)}; they must be equal."
            )
        elif len(rows) > 1:
            items.append(np.stack([np.array(x, dtype=np.float64) for x in rows], axis=1))
            continue
        items.append([] if i in samples.problems else rows[0])
    samples.said.append("every row has a list")
    flat = flatten(items)
    samples.problems |= {i: p for i, p in flat.problems.items() if i not in samples.problems}
    return Series(flat, names if flat.kind == "vectors" and len(names) == (flat.values.shape[1:] or (0,))[0] else ())
