"""Columns of text of unknown role: an error with advice, which never drops what orders or groups the rows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from mercer._wording import option, passing, wording
from mercer.data.columns import Column, Table

_DATED = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T,]+\d{1,2}[:.]\d\d.*)?|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?"
)
"""A date, or a time of day, in a form that need not be ISO."""
_CATEGORIES = 10
"""Largest number of values of a column of text that may become one channel each."""


def varies(table: Table, ids: tuple[str, ...], name: str) -> bool:
    """Return whether a column has several values within a sample; without ids, within the table."""
    seen = [x for x in zip(_samples_of(table, ids), table.columns[name].text, strict=True) if x[1] is not None]
    return len(set(seen)) > len({sample for sample, _ in seen})


def _samples_of(table: Table, ids: tuple[str, ...]) -> list[Any]:
    """Return the sample of every row, a tuple of ids; the same for all rows without ids."""
    return list(zip(*(table.columns[id].text for id in ids), strict=True)) if ids else [()] * len(table)


def unknown_role(
    table: Table,
    names: list[str],
    *,
    ids: tuple[str, ...],
    time: str | None,
    ignored: tuple[str, ...],
    guessed: bool,
    needed: list[str],
    numbered: bool,
) -> ValueError:
    """Return the error of columns of text whose names do not tell their role, with a cure for all of them.

    Parameters
    ----------
    table : Table
        The table.
    names : list of str
        The columns of text.
    ids, time, ignored
        The columns that are known.
    guessed : bool
        Whether the ids were found by their names.
    needed : list of {"label", "group"}
        The roles without a column.
    numbered : bool
        Whether the columns of numbers are numbered like time steps.
    """
    shown = [f"{name!r} ({next(filter(None, table.columns[name].text), '')[:20]!r})" for name in names]
    what = f"the column {shown[0]} contains" if len(names) == 1 else f"the columns {', '.join(shown)} contain"
    start = f"{table.name}: {what} text, and no name among them tells a role"
    dated = [x for x in names if time is None and _is_dated(table.columns[x]) and varies(table, ids, x)]
    if dated:
        how = f", as pd.to_datetime(df[{dated[0]!r}], dayfirst=True) does where the day comes first"
        cure = f"write ISO dates such as 2024-01-31T10:00{wording().phrase('convert dates', how)}"
        return ValueError(f"{start}; if {dated[0]!r} is the time, {cure}.")
    options: dict[str, Any] = {}
    repeated = [name for name in names if 2 * _n_values(table, name) <= len(table)]
    parts = [name for name in names if guessed and time and _is_part(table, ids, time, name)]
    if parts:
        both = f"change within {' and '.join(map(repr, ids))}, so they may name the series together with it"
        return _open(start, parts, both, ["id"], names, ignored)
    if time and not ids:
        id = max(repeated, key=lambda name: _n_values(table, name), default=None)
        if id and any(varies(table, (id,), name) for name in repeated):
            return _open(start, repeated, "repeat, so they may name the series", ["id"], names, ignored)
        options["id"] = id
    elif not ids and repeated and not numbered:
        return _open(
            start, repeated, "repeat, so they may name the series or be labels", ["id", "label"], names, ignored
        )
    elif not ids:
        options["id"] = next((name for name in names if _is_key(table, name)), None)
    ids = ids or ((options["id"],) if options["id"] else ())
    rest = [name for name in names if name not in ids]
    classes = [name for name in rest if needed and _may_be_classes(table, ids, name)]
    if len(classes) > 1:
        why = f"are constant in every sample, so they may be {'s or '.join(needed)}s"
        return _open(start, classes, why, needed, names, ignored)
    if classes:
        options[needed[0]] = classes[0]
    others = [name for name in rest if name not in classes]
    options["ignore"] = [*ignored, *others]
    words = wording()
    example = words.phrase("between options", ", ").join(option(role, x) for role, x in options.items() if x)
    return ValueError(
        f"{start}{_as_channels(table, ids, others)}; {passing('id')}, {option('time')}, {option('label')} or "
        f"{option('group')} for what is used and {option('ignore')} for the others, for example: "
        f"{words.phrase('example', f'{example}.')}"
    )


def _open(
    start: str, names: list[str], why: str, roles: list[str], all_names: list[str], ignored: tuple[str, ...]
) -> ValueError:
    """Return the error of columns whose role only the user can tell."""
    shown = " and ".join(map(repr, names))
    others = [name for name in all_names if name not in names]
    rest = f", such as {option('ignore', [*ignored, *others])}" if others else ""
    verb = " or ".join([passing(roles[0]), *map(option, roles[1:])])
    return ValueError(
        f"{start}; the values of {shown} {why}: {verb} for what is used, and {option('ignore')} for what is not{rest}."
    )


def _is_part(table: Table, ids: tuple[str, ...], time: str, name: str) -> bool:
    """Whether a column seems to name parts of the samples: blocks in the order of the time, or rows at equal times."""
    parts = Counter(zip(_samples_of(table, ids), table.columns[name].text, strict=True))
    if min(parts.values()) == 1 or not varies(table, ids, name):
        return False
    (_, sample), (_, value), (_, stamp) = (
        np.unique(np.array(column, dtype=str), return_inverse=True)
        for column in (
            ["/".join(map(str, key)) for key in _samples_of(table, ids)],
            table.columns[name].text,
            table.columns[time].text,
        )
    )
    if table.columns[time].kind == "number":
        stamp = table.columns[time].numbers
    if len(set(zip(sample, stamp, strict=True))) < len(table):
        return True
    order = np.lexsort((stamp, sample))
    blocks = np.stack([sample, value])[:, order]
    ends = np.flatnonzero((np.diff(blocks) != 0).any(axis=0)) + 1
    return len(ends) + 1 == len(parts)


def _n_values(table: Table, name: str) -> int:
    return len(set(table.columns[name].text) - {None})


def _is_key(table: Table, name: str) -> bool:
    """Whether a column has another word in every row."""
    texts = table.columns[name].text
    return len(set(texts)) == len(texts) and not any(x is None or " " in x for x in texts)


def _is_dated(column: Column) -> bool:
    """Whether most values are dates or times of day."""
    texts = set(column.text) - {None}
    return 2 * sum(_DATED.fullmatch(x) is not None for x in texts) > len(texts)


def _may_be_classes(table: Table, ids: tuple[str, ...], name: str) -> bool:
    """Whether a column has one value per sample, and several samples of each value."""
    samples = _samples_of(table, ids) if ids else range(len(table))
    pairs = {pair for pair in zip(samples, table.columns[name].text, strict=True) if pair[1] is not None}
    n = len(set(samples))
    return len(pairs) == len({sample for sample, _ in pairs}) == n and 1 < len({x for _, x in pairs}) <= n / 2


def _as_channels(table: Table, ids: tuple[str, ...], names: list[str]) -> str:
    """Return a clause on columns of few values that vary within samples; "" without one."""
    few = [x for x in names if ids and 1 < _n_values(table, x) <= min(_CATEGORIES, len(table) / 4)]
    few = [name for name in few if varies(table, ids, name)]
    clause = f"; pd.get_dummies(df, columns={few!r}) makes channels of what varies within samples"
    return wording().phrase("dummies", clause) if few else ""
