"""DataFrames as sequences: a list with one per recording, a MultiIndex of series and time, or one row per series."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._wording import Wording, worded
from mercer.data._container import difference
from mercer.data._forms import Flat, Problem, from_array, read_item
from mercer.data._frames import channels_of, index_is_time, is_frame, is_nested, is_panel, is_plain, time_columns
from mercer.data._long import series_of
from mercer.data._samples import Samples, rows_of_ids
from mercer.data._wide import list_series
from mercer.data.columns import Table, frame_of, numbered_columns, table_from, table_of
from mercer.data.ragged import offsets_of
from mercer.data.roles import Roles, levels_of, looks_like, time_of_levels


class _InFrames(Wording):
    """Words of messages on the time of frames, which no parameter tells."""

    def phrase(self, topic: str, text: str) -> str:
        cures = {
            "in order": ", or drop the time if the rows are already in order",
            "two rows": "",
            "long": "",
            "interpolate": "Pass mc.read_table(pd.concat(frames, keys=range(len(frames))), resample='auto').X to "
            "interpolate",
        }
        return cures.get(topic, text)


def flat_of_frame(frame: Any) -> Flat:
    """Read a table with one row per series, with a MultiIndex of series and time, or with a series in every cell."""
    if is_panel(frame):
        table = table_of(frame)
        levels = levels_of(table, (), None)
        if levels:
            return _flat_of_panel(table, levels)
    elif is_nested(frame):
        table = table_of(frame.reset_index(drop=True))
        _refuse_roles(table, list(table.columns))
        samples = rows_of_ids(table, (), "raise")
        flat: Flat = list_series(samples, tuple(table.columns)).flat
        flat.problems |= samples.problems
        return flat
    return from_array(_rows_of(frame))


def _flat_of_panel(table: Table, levels: tuple[str, ...]) -> Flat:
    """Read a table with a MultiIndex; series are in the order in which they first occur."""
    rest = [name for name in table.columns if name not in levels]
    time = time_of_levels(table, levels, rest)
    values = tuple(name for name in rest if name != time)
    _refuse_roles(table, list(values))
    samples = rows_of_ids(table, levels[:1], "raise")
    return _on_time(samples, time, values)


def _on_time(samples: Samples, time: str | None, values: tuple[str, ...]) -> Flat:
    """Return the rows of samples as vectors on the grid of their time."""
    for name in values:
        column = samples.table.columns[name]
        if column.kind in ("text", "date", "list"):
            example = next((x for x in column.text if x is not None), "")
            raise ValueError(
                f"X has the column {name!r} ({example[:20]!r}), which is not numbers; drop it, or make channels of its "
                f"values with pd.get_dummies(df, columns=[{name!r}])."
            )
    roles = Roles(("id",), time, None, None, None, values, (), frozenset())
    with worded(_InFrames()):
        samples, series = series_of(samples, roles, "series", None, False)
    flat: Flat = series.flat
    flat.problems |= samples.problems
    return flat


def flat_of_frames(items: list[Any]) -> Flat | None:
    """Read a list of recordings with a time or text; None if there are none, and the items are read by themselves."""
    frames = {i: item for i, item in enumerate(items) if is_frame(item)}
    if all(map(is_plain, frames.values())):
        return None
    problems = {i: _not_a_frame(item) for i, item in enumerate(items) if i not in frames}
    own = {i: _recording(item) for i, item in frames.items()}
    time = _time_of(list(own.values()))
    first = next(iter(own))
    channels = channels_of(own[first])
    parts = {}
    for i, frame in own.items():
        wrong = difference([*map(str, channels_of(frame))], [*map(str, channels)], f"sequence {first}")
        if not wrong and time is not None and time not in frame.columns:
            wrong = f"has no time {time!r}, unlike other sequences; add it."
        if wrong:
            problems[i] = Problem(ValueError, wrong)
        else:
            parts[i] = frame[[*channels, *([] if time is None else [time])]]
    lengths = np.zeros(len(items), dtype=np.int64)
    seen = [i for i, part in parts.items() if len(part)]
    if not seen:
        return Flat("vectors", np.empty((0, len(channels))), offsets_of(lengths), problems)
    flat = _stacked([parts[i] for i in seen], None if time is None else str(time), tuple(map(str, channels)))
    lengths[seen] = np.diff(flat.offsets)
    problems |= {seen[k]: problem for k, problem in flat.problems.items()}
    return Flat("vectors", flat.values, offsets_of(lengths), problems)


def _stacked(parts: list[Any], time: str | None, channels: tuple[str, ...]) -> Flat:
    import pandas as pd

    table = table_from("X", pd.concat(parts, ignore_index=True))
    table.lines, table.unit = np.concatenate([np.arange(len(part)) for part in parts]), "row"
    samples = Samples(table, None, np.arange(len(table)), offsets_of([len(part) for part in parts]))
    return _on_time(samples, time, channels)


def _not_a_frame(item: Any) -> Problem:
    read = read_item(item)
    if isinstance(read, Problem):
        return read
    return Problem(ValueError, "has no names of channels, unlike others. Pass DataFrames only, or arrays only.")


def _recording(item: Any) -> Any:
    """Return a recording as a DataFrame of pandas, whose time is a column."""
    frame = frame_of(item)
    if frame.index.nlevels == 2:  # one group of a table with a MultiIndex
        frame = frame.droplevel(0)
        frame.index.name = frame.index.name or "time"
    if not index_is_time(frame):
        return frame
    name = frame.index.name or "time"
    if name in frame.columns:
        raise ValueError(f"X has the time {name!r} in the index and in a column of a DataFrame; drop one of them.")
    return frame.rename_axis(index=name).reset_index()


def _time_of(frames: list[Any]) -> Any:
    """Return the column that is the time of all recordings; None if none has one."""
    found = list(dict.fromkeys(name for frame in frames for name in time_columns(frame)))
    if len(found) > 1:
        shown = " and ".join(map(repr, found))
        raise ValueError(f"X is a list of DataFrames, whose columns {shown} could all be the time; drop all but one.")
    return found[0] if found else None


def _refuse_roles(table: Table, names: list[str]) -> None:
    """Raise if a column is named like an id, a time or a label."""
    like = {role: looks_like(role, names) for role in ("id", "time", "label", "target")}
    how = ", ".join(f"{role}={found[0]!r}" for role, found in like.items() if found)
    for role, found in like.items():
        if found:
            what = "an id" if role == "id" else f"a {role}"
            raise ValueError(
                f"X is a table with the column {found[0]!r}, which looks like {what}, so its rows are not series. Read "
                f"it with mc.read_table(df, {how}), or pass an array if every row is a series."
            )


def _rows_of(data: Any) -> NDArray[Any]:
    """Return the numbers of a table whose columns are time steps, one row per series; raise if they may be others."""
    if 0 in np.shape(data) if hasattr(data, "shape") else data.num_rows == 0:
        return np.empty(tuple(data.shape))
    plain = hasattr(data, "iloc") and data.index.nlevels == 1  # an index of one level is no column of numbers
    table = table_of(data.reset_index(drop=True) if plain else data)
    _refuse_roles(table, list(table.columns))
    odd = next((name for name, column in table.columns.items() if column.raw.dtype.kind not in "iufb"), None)
    if odd is not None and (table.columns[odd].kind != "number" or table.columns[odd].bad.any()):
        raise ValueError(
            f"X is a table, and its column {odd!r} is not numbers, so its rows are not series. Read it with "
            f"mc.read_table(df, id=..., time=...), or pass a column of sequences itself, such as df[{odd!r}]."
        )
    if [len(times) for times in numbered_columns(table.columns).values()] != [len(table.columns)]:
        shown = ", ".join(map(repr, list(table.columns)[:6])) + (", ..." if len(table.columns) > 6 else "")
        raise ValueError(
            f"X is a table whose columns ({shown}) are not the numbered time steps of one channel. Pass [df] if it is "
            "one recording with a channel per column, mc.read_table(df).X if it has other columns next to time steps, "
            "or df.to_numpy() if every row is a series."
        )
    return np.stack([c.raw.to_numpy() if c.raw.dtype.kind in "iufb" else c.numbers for c in table.columns.values()], 1)
