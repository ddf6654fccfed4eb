"""Time series readers: ``.ts`` files of the aeon and UEA archives, and tables of the UCR archive."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._parameters import check, one_of
from mercer._wording import wording
from mercer.data.ragged import offsets_of
from mercer.data.roles import looks_like
from mercer.data.sequences import Sequences
from mercer.data.text import (
    MISSING,
    Records,
    Source,
    Text,
    answers,
    described,
    is_numeric,
    number,
    parsed,
    read_text,
    whole_or_text,
)

_TIME_STAMPS = "time stamps are not supported; write only the values, at equal time steps."


def read_ts(path: Source, *, invalid: str = "raise") -> Records:
    r"""Read a ``.ts`` file of time series with any number of channels and any lengths.

    After the header (lines that begin with ``@``), each line is one series: channels are separated by ``:``, values
    by ``,``, and the label comes last. ``?`` and ``NaN`` mark missing values and become NaN. Lines that begin with
    ``#`` are comments. A series without any value raises an error.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped.
    invalid : {"raise", "mask"}
        Whether to raise at the first line that cannot be read, or to leave out all such lines and report them in
        ``problems``; an invalid header always raises.

    Returns
    -------
    Records
        Unpacks as ``X, y = read_ts(path)``: `Sequences` of vectors with one coordinate per channel, and the labels.
        Labels are integers if all are integral and remain distinct (unlike ``01`` and ``1``), else text; floats for
        ``@targetLabel true``; None for ``@classLabel false``.

    Notes
    -----
    Time stamps, written as ``(0,1.5),(1,2.5)``, are not supported: the models assume equal time steps.

    See Also
    --------
    read_ucr : Read time series of the UCR archive.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> lines = [
    ...     "@problemName toy",
    ...     "@univariate false",
    ...     "@classLabel true up down",
    ...     "@data",
    ... ]
    >>> lines += ["1,2,3:0,0,0:up", "3,?:1,1:down"]
    >>> X, y = mc.read_ts(io.StringIO("\n".join(lines)))
    >>> X[1], y.tolist()
    (array([[ 3.,  1.],
           [nan,  1.]]), ['up', 'down'])
    """
    check(one_of("raise", "mask"), invalid=invalid)
    text = read_text(path, ".ts")
    classes, target, cases = _header(text)
    series: list[NDArray[np.float64]] = []

    def parse(line: int, case: str) -> str:
        channels, label = _channels(text, line, case, classes, target)
        _check_shape(text, line, channels, series)
        series.append(np.stack(channels, axis=1))
        return label

    labels, problems = parsed(text, cases, parse, invalid)
    y: NDArray[Any] | None = None
    if target:
        y = np.array([float(label) for label in labels])
    elif classes is not None:
        y = whole_or_text(labels)
    what = "no labels" if y is None else f"after the last colon {answers(y)}"
    cure = "To correct it, change @classLabel or @targetLabel in its header."
    return _records(f"{text.name}, .ts format", series, y, what, cure, problems)


def read_ucr(path: Source, *, invalid: str = "raise") -> Records:
    r"""Read a table of the UCR archive: one univariate series per line, with the label in the first column.

    Columns are separated by tabs, commas or spaces (``.tsv``, ``.csv``, ``.txt``). The archive pads series of
    different lengths with NaN at the end; this padding is removed. NaN inside a series, an empty field and ``?`` mark
    missing values and become NaN. A series without any value raises an error.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped.
    invalid : {"raise", "mask"}
        Whether to raise at the first line that cannot be read, or to leave out all such lines and report them in
        ``problems``.

    Returns
    -------
    Records
        Unpacks as ``X, y = read_ucr(path)``: `Sequences` of 1-dimensional vectors, and the labels, which are integers
        if all are integral and remain distinct (unlike ``01`` and ``1``), else text.

    See Also
    --------
    read_ts : Read series with several channels.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> X, y = mc.read_ucr(io.StringIO("1\t0.5\t0.7\t0.1\n-1\t0.2\t0.3\tNaN\n"))
    >>> X.lengths, y
    (array([3, 2]), array([ 1, -1]))
    """
    check(one_of("raise", "mask"), invalid=invalid)
    text = read_text(path, "UCR")
    lines = list(text.lines())
    header = next((line for line, row in lines if row.startswith("@")), None)
    if header is not None:
        raise text.error(header, "a UCR table has no header, but this line begins with @; read .ts files with read_ts.")
    first = lines[0][1] if lines else ""
    separator = "\t" if "\t" in first else "," if "," in first else None

    def parse(line: int, row: str) -> tuple[str, NDArray[np.float64]]:
        label, *values = row.split(separator)
        if not label.strip():
            raise text.error(line, "the first column, the label, is empty; add a label.")
        numbers = _numbers(text, line, values)
        observed = np.flatnonzero(~np.isnan(numbers))
        if not len(observed):
            raise text.error(line, f"the series with label {label!r} has no values; remove it from the file.")
        return label.strip(), numbers[: observed[-1] + 1, None]

    found, problems = parsed(text, lines, parse, invalid)
    y = whole_or_text([label for label, _ in found])
    what = f"in the first column {answers(y)}"
    cure = wording().phrase("ucr", "To correct it, add a header line and use mc.read_table.")
    series = [x for _, x in found]
    return _records(f"{text.name}, no header line, as in the UCR archive", series, y, what, cure, problems)


def looks_like_ucr(line: str) -> bool:
    """Whether a first line is one of a UCR table: all fields but the first, which may be a label, are numbers."""
    fields = re.split(r"[,;\t ]+", line.strip())
    named = any(looks_like(role, fields[:1]) for role in ("id", "label", "target", "group", "time"))
    return len(fields) > 1 and not named and all(map(is_numeric, fields[1:]))


def _records(
    name: str,
    series: list[NDArray[np.float64]],
    y: NDArray[Any] | None,
    what: str,
    cure: str,
    problems: dict[str | int, str],
) -> Records:
    """Return the series with their labels, and one line that says what they were taken for."""
    X = Sequences._make(np.concatenate(series), offsets_of([len(x) for x in series]), None, None)
    channels = "1 channel" if X.dimension == 1 else f"{X.dimension} channels"
    said = f"{name}: {len(X)} series of {channels}, {what}."
    return Records(X, y, problems=problems, **described(said, cure, X))


def _numbers(text: Text, line: int, fields: list[str]) -> NDArray[np.float64]:
    """Parse fields as numbers; handle missing values and errors only if the fast path fails."""
    try:
        numbers = list(map(number if "_" in "".join(fields) else float, fields))
    except ValueError:
        numbers = []
        for i, field in enumerate(fields):
            try:
                numbers.append(float("nan") if field.strip().lower() in MISSING else number(field))
            except ValueError:
                raise text.error(
                    line, f"value {i + 1}, {field.strip()!r}, is not a number; write ? for a missing value."
                ) from None
    out = np.array(numbers)
    infinite = np.flatnonzero(np.isinf(out))
    if len(infinite):
        i = infinite[0]
        raise text.error(line, f"value {i + 1} is {out[i]}; write ? for a missing value.")
    return out


def _header(text: Text) -> tuple[frozenset[str] | None, bool, list[tuple[int, str]]]:
    """Return the classes, whether there are targets, and the lines after ``@data`` with their numbers."""
    classes: frozenset[str] | None = None
    known = {"@timestamps": False}
    lines = list(text.lines())
    for i, (line, content) in enumerate(lines):
        key, *words = content.split()
        key = key.lower()
        if not key.startswith("@"):
            raise text.error(line, f"{content[:20]!r} occurs before @data; begin the data with a line @data.")
        if key == "@data":
            if "@classlabel" not in known and "@targetlabel" not in known:
                raise text.error(
                    line,
                    "the header does not declare labels; write @classLabel true a b, or @classLabel false for none.",
                )
            if i + 1 == len(lines):
                raise text.error(line, "no series follows @data; pass a file with at least one.")
            return classes, known.get("@targetlabel", False), lines[i + 1 :]
        if key in ("@timestamps", "@classlabel", "@targetlabel"):
            if not words or words[0].lower() not in ("true", "false"):
                raise text.error(line, f"{key} must be followed by true or false.")
            known[key] = words[0].lower() == "true"
        if known["@timestamps"]:
            raise text.error(line, _TIME_STAMPS)
        if key == "@classlabel" and known[key]:
            classes = frozenset(words[1:])
            if not classes:
                raise text.error(line, "@classLabel true must be followed by the classes.")
    raise ValueError(f"{text.name} has no line @data; pass a .ts file, or read UCR tables with read_ucr.")


def _channels(
    text: Text, line: int, case: str, classes: frozenset[str] | None, target: bool
) -> tuple[list[NDArray[np.float64]], str]:
    """Return the channels and the label of a line."""
    if case.startswith("("):
        raise text.error(line, _TIME_STAMPS)
    *parts, label = case.split(":") if classes is not None or target else (*case.split(":"), "")
    label = label.strip()
    if not parts or (classes is not None and label not in classes):
        known = ", ".join(sorted(classes or ()))
        shown = repr(label if len(label) <= 20 else label[:17] + "...")
        raise text.error(line, f"{shown}, after the last colon, is not a label; write one of {known or 'the targets'}.")
    if target and np.isnan(_numbers(text, line, [label])[0]):
        raise text.error(line, f"{label!r}, after the last colon, is not a target; write a number.")
    return [_numbers(text, line, part.split(",") if part.strip() else []) for part in parts], label


def _check_shape(text: Text, line: int, channels: list[NDArray[np.float64]], before: list[NDArray[np.float64]]) -> None:
    if before and len(channels) != before[0].shape[1]:
        expected = before[0].shape[1]
        raise text.error(
            line,
            f"the series has {len(channels)} channel(s), but the series before it have {expected}; they must agree.",
        )
    lengths = [len(channel) for channel in channels]
    if min(lengths) != max(lengths):
        i = next(i for i, n in enumerate(lengths) if n != lengths[0])
        raise text.error(
            line,
            f"channel 1 has {lengths[0]} values, but channel {i + 1} has {lengths[i]}; pad with ? for missing values.",
        )
    if all(np.isnan(channel).all() for channel in channels):
        raise text.error(line, "the series has no values; remove it from the file.")
