"""Wide tables, one row per sample: columns are time steps, or hold sequences, documents or lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from mercer._array import Floats
from mercer._notices import notify
from mercer._wording import SEVERAL, option, passing, wording
from mercer.data._forms import Flat, flatten
from mercer.data._long import Series, step_of
from mercer.data._samples import Samples, counted
from mercer.data.columns import Columns, columns_of
from mercer.data.ragged import offsets_of
from mercer.data.roles import looks_like, looks_long
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
    for name in names:
        if name not in samples.unused:
            samples.numbers(name)
    cube = np.full((len(samples), layout.shape[0], layout.shape[1]), np.nan)
    for (t, channel), name in np.ndenumerate(layout):
        if name is not None:
            cube[:, t, channel] = table.columns[name].numbers
    seen = ~np.isnan(cube).all(axis=2)
    lengths = np.where(seen.any(axis=1), cube.shape[1] - np.argmax(seen[:, ::-1], axis=1), 0)
    samples.lost(lengths == 0, "has no values")
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
            f"{passing('values', SEVERAL, start=True)} with the time steps only, or {option('ignore', SEVERAL)} with "
            "the others."
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
                f"irregular, and are taken as equal steps. Use the long form, with {option('resample')} or "
                f"{option('time_channel', True)}."
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
        raise ValueError(
            f"{samples.table.name}: {option('values', list(names))} mixes lists with other columns; pass one kind."
        )
    items: list[Any] = []
    for i, rows in enumerate(zip(*(column.raw for column in columns), strict=True)):
        sizes = {len(x) for x in rows if x is not None}
        if len(sizes) > 1:
            samples.wrong(
                i, f"({samples.table.place(i)}) has lists of the lengths {sorted(sizes)}; they must be equal."
            )
        if any(x is None for x in rows) or sizes == {0} or len(sizes) > 1:
            items.append([])
        else:
            items.append(rows[0] if len(rows) == 1 else np.stack([np.array(x, dtype=float) for x in rows], axis=1))
    samples.lost([not len(item) for item in items], "has no values")
    samples.said.append("every row has a list")
    flat = flatten(items)
    samples.problems |= {i: p for i, p in flat.problems.items() if i not in samples.problems}
    return Series(flat, names if flat.kind == "vectors" and len(names) == (flat.values.shape[1:] or (0,))[0] else ())


_WORD = re.compile(r"\w+")


def words_of(samples: Samples, texts: list[str | None]) -> list[list[str]]:
    """Return the words of every document in lower case; a document without words is a problem."""
    out = [_WORD.findall((text or "").lower()) for text in texts]
    samples.lost([not words for words in out], "has no words")
    return out


def word_sequences(documents: list[list[str]]) -> Flat:
    """Return documents as sequences of words."""
    tokens = np.empty(sum(map(len, documents)), dtype=object)
    tokens[:] = [word for words in documents for word in words]
    return Flat("tokens", tokens, offsets_of(np.array([len(words) for words in documents])))


def word_counts(samples: Samples, documents: list[list[str]], vocabulary: Any = None) -> tuple[Any, tuple[str, ...]]:
    """Return counts of words, a CSR matrix of shape (documents, words), and the words.

    Words that are not in a given vocabulary are not counted; a document without any other word is a problem.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if vocabulary is None:
        good = [words for i, words in enumerate(documents) if i not in samples.problems]
        known = tuple(sorted({word for words in good for word in words}))
    else:
        if isinstance(vocabulary, str) or not isinstance(vocabulary, Iterable):
            raise TypeError(
                f"{wording().must_be('alphabet', 'a list of words')} for {option('kind', 'counts')}; got "
                f"{vocabulary!r}."
            )
        known = tuple(vocabulary)
    counts = csr_matrix((len(documents), 0))
    if known:
        counts = CountVectorizer(analyzer=list, vocabulary=known, dtype=np.float64).transform(documents)
    samples.lost(np.diff(counts.indptr) == 0, f"has none of the {len(known)} known words")
    if vocabulary is not None:
        unknown = sum(map(len, documents)) - int(counts.sum())
        samples.said.append(f"{unknown} words outside the vocabulary not counted")
    return counts, known


def is_frame(data: Any) -> bool:
    """Whether an object is a table with named columns of pandas, polars or Arrow."""
    library = type(data).__module__.partition(".")[0]
    if library == "pyarrow":
        return hasattr(data, "column_names")
    return hasattr(data, "columns") and (
        hasattr(data, "iloc") or (library == "polars" and hasattr(data, "get_columns"))
    )


def _telling(table: Columns) -> dict[str, str]:
    """Return the roles that the columns tell; a column that counts within the blocks of another is a time, no id."""
    like = {role: looks_like(role, table.columns) for role in ("id", "time", "label", "target")}
    roles = {role: names[0] for role, names in like.items() if names}
    answers = {roles.get("label"), roles.get("target")}
    found = looks_long(table, [name for name in table.columns if name not in answers])
    if found is None or roles.get("id") not in found:
        return roles
    return roles | {"id": found[0], "time": roles.get("time", found[1])}


def rows_of_frame(data: Any) -> NDArray[Any]:
    """Return the numbers of a table whose columns are time steps, one row per series; raise if they may be others."""
    if 0 in np.shape(data) if hasattr(data, "shape") else data.num_rows == 0:
        return np.empty(tuple(data.shape))
    plain = hasattr(data, "iloc") and data.index.nlevels == 1  # an index of one level is no column of numbers
    table = columns_of(data.reset_index(drop=True) if plain else data)
    roles = _telling(table)
    how = ", ".join(f"{role}={name!r}" for role, name in roles.items()) or "id=..., time=..."
    if roles:
        role, name = next(iter(roles.items()))
        what = "an id" if role == "id" else f"a {role}"
        raise ValueError(
            f"X is a table with the column {name!r}, which looks like {what}, so its rows are not series. Read it with "
            f"mc.read_table(df, {how}), or pass an array if every row is a series."
        )
    for name, column in table.columns.items():
        if column.raw.dtype.kind not in "iufb" and (column.kind != "number" or column.bad.any()):
            raise ValueError(
                f"X is a table, and its column {name!r} is not numbers, so its rows are not series. Read it with "
                f"mc.read_table(df, {how}), or pass a column of sequences itself, such as df[{name!r}]."
            )
    found = looks_long(table, table.columns)
    if found is not None:
        raise ValueError(
            f"X is a table whose columns {found[0]!r} and {found[1]!r} count like an id and a time, so its rows are "
            f"not series. Read it with mc.read_table(df, id={found[0]!r}, time={found[1]!r}), or pass an array if "
            "every row is a series."
        )
    if [len(times) for times in numbered_columns(table.columns).values()] != [len(table.columns)]:
        shown = ", ".join(map(repr, list(table.columns)[:6])) + (", ..." if len(table.columns) > 6 else "")
        raise ValueError(
            f"X is a table whose columns ({shown}) are not the numbered time steps of one channel. Pass [df] if it is "
            "one recording with a channel per column, mc.read_table(df).X if it has other columns next to time steps, "
            "or df.to_numpy() if every row is a series."
        )
    arrays = [c.raw if c.raw.dtype.kind in "iufb" else c.numbers for c in table.columns.values()]
    return np.stack(arrays, axis=1)
