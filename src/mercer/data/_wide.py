"""Wide tables, one row per sample: columns are time steps, or hold sequences, documents or lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from mercer._notices import notify
from mercer._wording import SEVERAL, counted, option, passing, wording
from mercer.data._forms import Flat, code_points, flatten
from mercer.data._long import Series, step_of
from mercer.data._samples import Samples
from mercer.data.columns import numbered_columns
from mercer.data.ragged import offsets_of

_WORD = re.compile(r"\w+")


def wide_series(samples: Samples, names: tuple[str, ...], *, guessed: bool = False) -> Series:
    """Read columns of numbers as the time steps of one series per row.

    Columns such as ``x0, x1, ..., y0, y1, ...`` are channels x and y. Numbers in the names are time stamps. Missing
    values at the end of a row are padding and are removed. Of columns that are guessed to be values, those that are not
    numbered like the others are left out.
    """
    channels = numbered_columns(names)
    if guessed and channels:  # dose1 and dose2 next to t0, ..., t59 are not measured at every step either
        most = max(map(len, channels.values()))
        channels = {channel: times for channel, times in channels.items() if 2 * len(times) >= most}
        steps = {name for times in channels.values() for name in times}
        samples.unused = tuple(name for name in names if name not in steps)
    elif sum(map(len, channels.values())) < len(names):
        _say_steps(samples, names, guessed)
        channels = {"": {name: float(i) for i, name in enumerate(names)}}
    times = np.unique([time for found in channels.values() for time in found.values()])
    step = step_of(np.diff(times))
    n = len(times) if step is None else round((times[-1] - times[0]) / step) + 1
    if step is None or n > 20 * len(times):
        if len(times) > 1:
            notify(
                f"{samples.table.name}: the numbers in the names of the columns, {times[0]:g} to {times[-1]:g}, are "
                f"irregular, and are taken as equal steps. Use the long form, with {option('resample')} or "
                f"{option('time_channel', True)}."
            )
        step, n, places = None, len(times), np.arange(len(times))
    else:
        places = np.round((times - times[0]) / step).astype(np.int64)
    cube = np.full((len(samples), n, len(channels)), np.nan)
    for channel, found in enumerate(channels.values()):
        for name, time in found.items():
            cube[:, places[np.searchsorted(times, time)], channel] = samples.numbers(name)
    if numbered_columns(names):
        absent = n * len(channels) - sum(map(len, channels.values()))
        grid = "time steps" if step is None else f"time steps {times[0]:g} to {times[-1]:g}, {step:g} apart"
        missing = f", missing values at {counted(absent, 'absent step')}" if absent else ""
        samples.said.append(f"columns are {grid}{missing}")
    seen = np.asarray(~np.isnan(cube).all(axis=2))
    lengths = np.where(seen.any(axis=1), n - np.argmax(seen[:, ::-1], axis=1), 0)
    samples.lost(lengths == 0, "has no values")
    flat = Flat("vectors", cube[np.arange(n) < lengths[:, None]], offsets_of(lengths))
    return Series(flat, tuple(stem or "value" for stem in channels), step)


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
            f"{passing('values', SEVERAL, start=True)} with the time steps only, {option('ignore', SEVERAL)} with the "
            f"others, or {option('id')} if a row is one time step."
        )


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
        if any(getattr(getattr(x, "index", None), "dtype", np.dtype(int)).kind in "mM" for x in rows):
            samples.wrong(
                i,
                f"({samples.table.place(i)}) has a Series with its own time stamps; use one row per time step, with a "
                "MultiIndex of the series and the time.",
            )
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


def text_series(samples: Samples, texts: list[str | None], kind: str | None, vocabulary: Any) -> Series:
    """Read a column of strings: as symbols, as sequences of words, or as counts of words."""
    if kind is None:  # documents have blanks, strings of symbols have none
        kind = "counts" if 2 * sum(len((text or "").split()) > 1 for text in texts) > len(texts) else "symbols"
    others = {"symbols": ("words", "counts"), "words": ("counts", "symbols"), "counts": ("words", "symbols")}[kind]
    names = {"symbols": "one symbol per character", "words": "sequences of words", "counts": "counts of words"}
    samples.said.append(f"{names[kind]}; {option('kind', others[0])} or {others[1]!r} reads the text otherwise")
    if kind == "symbols":
        samples.lost([not text for text in texts], "is empty")
        lengths = [len(text or "") for text in texts]
        return Series(Flat("characters", code_points("".join(filter(None, texts))), offsets_of(lengths)), ())
    words = [_WORD.findall((text or "").lower()) for text in texts]
    samples.lost([not some for some in words], "has no words")
    if kind == "words":
        tokens = np.array([word for some in words for word in some], dtype=object)
        return Series(Flat("tokens", tokens, offsets_of([len(some) for some in words])), ())
    return Series(*_word_counts(samples, words, vocabulary))


def _word_counts(samples: Samples, documents: list[list[str]], vocabulary: Any = None) -> tuple[Any, tuple[str, ...]]:
    """Return counts of words, a CSR matrix of shape (documents, words), and the words.

    Words that are not in a given vocabulary are not counted; a document without any other word is a problem.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if isinstance(vocabulary, str) or not isinstance(vocabulary, Iterable | None):
        kind = option("kind", "counts")
        raise TypeError(f"{wording().must_be('alphabet', 'a list of words')} for {kind}; got {vocabulary!r}.")
    good = (words for i, words in enumerate(documents) if i not in samples.problems)
    known = tuple(sorted({word for words in good for word in words}) if vocabulary is None else vocabulary)
    counts = csr_matrix((len(documents), 0))
    if known:
        counts = CountVectorizer(analyzer=list, vocabulary=known, dtype=np.float64).transform(documents)
    samples.lost(np.diff(counts.indptr) == 0, f"has none of the {len(known)} known words")
    if vocabulary is not None:
        unknown = sum(map(len, documents)) - int(counts.sum())
        samples.said.append(f"{unknown} words outside the vocabulary not counted")
    return counts, known
