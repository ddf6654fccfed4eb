"""Read time series: the ``.ts`` files of the aeon and UEA archives, the tables of the UCR archive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.data._forms import offsets_of
from mercer.data._text import Records, Source, Text, number, read_text, whole_or_text
from mercer.data.sequences import Sequences

_MISSING = ("", "?", "na", "nan")


def read_ts(path: Source) -> Records:
    r"""Read a ``.ts`` file of time series: any number of channels, any lengths.

    After its header (lines that begin with ``@``), a line is one series: channels separated by ``:``, values by
    ``,``, and the label last. ``?`` and ``NaN`` mean "not observed" and become NaN. Lines that begin with ``#`` are
    comments. A series of which nothing was observed is refused.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped.

    Returns
    -------
    Records
        ``X, y = read_ts(path)``: `Sequences` of vectors with one coordinate a channel, and their labels. These are
        integers where all of them are whole numbers and no two become one (``01`` and ``1``), else text; numbers for
        ``@targetLabel true``; None for ``@classLabel false``.

    Notes
    -----
    Time stamps, written as ``(0,1.5),(1,2.5)``, are not read: the models here know equal steps only.

    See Also
    --------
    read_ucr : Time series of the UCR archive.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> lines = ["@problemName toy", "@univariate false", "@classLabel true up down", "@data"]
    >>> lines += ["1,2,3:0,0,0:up", "3,?:1,1:down"]
    >>> X, y = mc.read_ts(io.StringIO("\n".join(lines)))
    >>> X[1], y.tolist()
    (array([[ 3.,  1.],
           [nan,  1.]]), ['up', 'down'])
    """
    text = read_text(path, ".ts")
    header, cases = _header(text)
    labels: list[str] = []
    series: list[NDArray[np.float64]] = []
    for line, case in cases:
        channels, label = _channels(text, line, case, header)
        _check_shape(text, line, channels, header, series)
        series.append(np.stack(channels, axis=1))
        labels.append(label)
    y: NDArray[Any] | None = None
    if header.target:
        y = np.array([float(label) for label in labels])
    elif header.classes is not None:
        y = whole_or_text(labels)
    return Records(_joined(series), y)


def read_ucr(path: Source) -> Records:
    r"""Read a table of the UCR archive: one univariate series a line, its label in the first column.

    The columns are separated by tabs, commas or blanks (``.tsv``, ``.csv``, ``.txt``). The archive pads series of
    different lengths with NaN at their end: that is cut off. NaN inside a series, an empty field and ``?`` mean
    "not observed" and stay NaN. A series of which nothing was observed is refused.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped.

    Returns
    -------
    Records
        ``X, y = read_ucr(path)``: `Sequences` of 1-dimensional vectors, and their labels, which are integers where
        all of them are whole numbers and no two become one (``01`` and ``1``), else text.

    See Also
    --------
    read_ts : Series of several channels.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> X, y = mc.read_ucr(io.StringIO("1\t0.5\t0.7\t0.1\n-1\t0.2\t0.3\tNaN\n"))
    >>> X.lengths, y
    (array([3, 2]), array([ 1, -1]))
    """
    text = read_text(path, "UCR")
    labels: list[str] = []
    series: list[NDArray[np.float64]] = []
    separator: str | None = None
    for line, row in text.lines():
        if row.startswith("@"):
            raise text.error(line, "a table has no header, but this line begins with @; read .ts files with read_ts")
        if not labels:
            separator = "\t" if "\t" in row else "," if "," in row else None
        label, *values = row.split(separator)
        if not label.strip():
            raise text.error(line, "the first column, which is the label, is empty; write one")
        numbers = _numbers(text, line, values)
        observed = np.flatnonzero(~np.isnan(numbers))
        if not len(observed):
            raise text.error(line, f"the series with label {label!r} has no value; leave it out of the file")
        series.append(numbers[: observed[-1] + 1, None])
        labels.append(label.strip())
    if not labels:
        raise ValueError(f"{text.name} has comments alone; pass a UCR file with at least one series")
    return Records(_joined(series), whole_or_text(labels))


def _joined(series: list[NDArray[np.float64]]) -> Sequences:
    return Sequences._make(np.concatenate(series), offsets_of([len(x) for x in series]), None, None)


def _numbers(text: Text, line: int, fields: list[str]) -> NDArray[np.float64]:
    """Turn fields into numbers; the quick way first, the careful way where that fails."""
    try:
        numbers = list(map(number if "_" in "".join(fields) else float, fields))
    except ValueError:
        numbers = []
        for i, field in enumerate(fields):
            try:
                numbers.append(float("nan") if field.strip().lower() in _MISSING else number(field))
            except ValueError:
                raise text.error(
                    line, f"{field.strip()!r}, value {i + 1}, is no number; write ? for what was not observed"
                ) from None
    out = np.array(numbers)
    infinite = np.flatnonzero(np.isinf(out))
    if len(infinite):
        i = infinite[0]
        raise text.error(line, f"value {i + 1} is {out[i]}; write ? for what was not observed")
    return out


# -- the header of .ts ---------------------------------------------------------------------------------------


class _Header(NamedTuple):
    """What the lines that begin with @ say; None is not said."""

    classes: frozenset[str] | None
    target: bool
    dimensions: int | None
    equal: bool
    length: int | None


def _header(text: Text) -> tuple[_Header, list[tuple[int, str]]]:
    """Return what the header says, and the lines after ``@data`` with their numbers."""
    said: dict[str, tuple[int, list[str]]] = {}
    lines = list(text.lines())
    for i, (line, content) in enumerate(lines):
        if not content.startswith("@"):
            raise text.error(line, f"{content[:20]!r} stands before @data; begin the data with a line @data")
        key, *words = content[1:].split() or [""]
        if not key:
            raise text.error(line, "the line has nothing after @; write a name, such as @data, or leave it out")
        if key.lower() == "data":
            if i + 1 == len(lines):
                raise text.error(line, "there is no series after @data; pass a file with at least one")
            return _read_header(text, said, line), lines[i + 1 :]
        said[key.lower()] = line, words
    raise ValueError(f"{text.name} has no line @data; pass a .ts file, or read UCR tables with read_ucr")


def _read_header(text: Text, said: dict[str, tuple[int, list[str]]], end: int) -> _Header:
    def is_true(key: str) -> bool:
        line, words = said.get(key, (end, ["false"]))
        if not words or words[0].lower() not in ("true", "false"):
            raise text.error(line, f"@{key} must be followed by true or false")
        return words[0].lower() == "true"

    def whole(key: str) -> int | None:
        if key not in said:
            return None
        line, words = said[key]
        if len(words) != 1 or not words[0].isdecimal():
            raise text.error(line, f"@{key} must be followed by a whole number")
        return int(words[0])

    if is_true("timestamps"):
        raise text.error(said["timestamps"][0], "time stamps are not read; write the values alone, at equal steps")
    if "classlabel" not in said and "targetlabel" not in said:
        raise text.error(
            end, "the header does not say whether series have labels; write @classLabel true a b, or @classLabel false"
        )
    has_classes, target = is_true("classlabel"), is_true("targetlabel")
    classes = frozenset(said["classlabel"][1][1:]) if has_classes else None
    if has_classes and not classes:
        raise text.error(said["classlabel"][0], "@classLabel true must be followed by the classes")
    dimensions = 1 if is_true("univariate") else whole("dimensions")
    equal = is_true("equallength")
    return _Header(classes, target, dimensions, equal, whole("serieslength") if equal else None)


def _channels(text: Text, line: int, case: str, header: _Header) -> tuple[list[NDArray[np.float64]], str]:
    """Return the channels of a line, and its label."""
    if case.startswith("("):
        raise text.error(line, "time stamps are not read; write the values alone, at equal steps")
    *parts, label = case.split(":") if header.classes is not None or header.target else (*case.split(":"), "")
    label = label.strip()
    if not parts or (header.classes is not None and label not in header.classes):
        known = ", ".join(sorted(header.classes or ()))
        shown = repr(label if len(label) <= 20 else label[:17] + "...")
        raise text.error(line, f"{shown}, after the last colon, is no label; write one of {known or 'the targets'}")
    if header.target and np.isnan(_numbers(text, line, [label])[0]):
        raise text.error(line, f"{label!r}, after the last colon, is no target; write a number")
    return [_numbers(text, line, part.split(",") if part.strip() else []) for part in parts], label


def _check_shape(
    text: Text, line: int, channels: list[NDArray[np.float64]], header: _Header, before: list[NDArray[np.float64]]
) -> None:
    expected = before[0].shape[1] if before else header.dimensions
    if expected is not None and len(channels) != expected:
        whose = "those before it have" if before else "the header says"
        raise text.error(line, f"the series has {len(channels)} channels, but {whose} {expected}; give all the same")
    lengths = [len(channel) for channel in channels]
    if min(lengths) != max(lengths):
        i = next(i for i, n in enumerate(lengths) if n != lengths[0])
        raise text.error(
            line, f"channel 1 has {lengths[0]} values, but channel {i + 1} has {lengths[i]}; fill up with ? for missing"
        )
    if all(np.isnan(channel).all() for channel in channels):
        raise text.error(line, "the series has no value; leave it out of the file")
    length = header.length if header.length is not None or not before else len(before[0])
    if header.equal and length is not None and lengths[0] != length:
        whose = "the header says that all have" if header.length else "@equalLength is true, and the first has"
        raise text.error(
            line,
            f"the series has length {lengths[0]}, but {whose} {length}; write @equalLength false, or complete the "
            "series",
        )
