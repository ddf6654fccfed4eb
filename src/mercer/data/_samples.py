"""Samples of a table before they become `Sequences`: their rows, what is wrong with them, and their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._wording import SEVERAL, option, passing
from mercer.data._container import naming
from mercer.data._forms import Problem
from mercer.data.columns import Column, Columns
from mercer.data.ragged import offsets_of
from mercer.data.roles import Roles
from mercer.data.text import number, whole_or_text


def counted(n: float, what: str) -> str:
    """Return a number and its unit: "1 class", "2 classes"."""
    plural = what + ("es" if what.endswith("s") else "s") if n != 1 and what != "series" else what
    return f"{n:g} {plural}"


@dataclass
class Samples:
    """Rows of every sample: sample i has the rows ``order[offsets[i]:offsets[i + 1]]`` of the table."""

    table: Columns
    names: tuple[str, ...] | None
    order: NDArray[np.int64]
    offsets: NDArray[np.int64]
    problems: dict[int, Problem] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """Clauses of the description that say what was done."""
    unused: tuple[str, ...] = ()
    """Columns that were guessed to be values, but are constant in every sample."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def fail(self, rows: NDArray[Any], text: Callable[[int], str]) -> None:
        """Add a problem for the samples of some rows of the table; ``text`` is a function of the row."""
        if not len(rows):
            return
        owners = np.full(len(self.table), -1, dtype=np.int64)
        owners[self.order] = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        for row in rows[owners[rows] >= 0].tolist():
            self.wrong(int(owners[row]), f"({self.table.place(row)}) {text(row)}")

    def wrong(self, i: int, text: str) -> None:
        """Add a problem for sample i, unless it has one."""
        self.problems.setdefault(i, Problem(ValueError, text))

    def lost(self, rows: Any, what: str) -> None:
        """Add a problem for the samples of rows without content."""
        self.fail(np.flatnonzero(rows), lambda row: f"{what}; remove it, or {passing('invalid', 'mask')}.")

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the numbers of a column of values; entries that are not numbers are problems."""
        column = self.table.columns[name]
        if column.kind not in ("number", "empty"):
            cure = column.mark_cure or f"has no numbers; leave it out of {option('values', SEVERAL)}"
            raise ValueError(f"{self.table.name}: the column {name!r} {cure}.")
        cure = column.mark_cure or "is not a number; leave the field empty if the value is missing"
        self.fail(
            np.flatnonzero(column.bad),
            lambda row: f"has {str(column.raw[row])[:20]!r} in the column {name!r}, which {cure}.",
        )
        return column.numbers


def rows_as_samples(table: Columns, ids: tuple[str, ...]) -> Samples:
    """Return samples of one row each; ids must be distinct."""
    n = len(table)
    names = ids_of(table, ids) if ids else None
    if names is not None:
        seen: dict[str, int] = {}
        for row, name in enumerate(names):
            if name is None:
                raise table.error(row, f"the id, column {ids[0]!r}, is missing; add it, or {passing('id', False)}.")
            if name in seen:
                raise table.error(
                    row,
                    f"the id {name!r} occurs also in {table.place(seen[name])}; make the ids distinct, "
                    f"{passing('id', False)}, or {passing('form', 'long')} if every row is one time step.",
                )
            seen[name] = row
    return Samples(table, None if names is None else tuple(map(str, names)), np.arange(n), np.arange(n + 1))


def ids_of(table: Columns, ids: tuple[str, ...]) -> list[str | None]:
    """Return the id of every row, several columns joined by a slash; None where one is missing."""
    columns = [table.columns[name].text for name in ids]
    if len(columns) == 1:
        return columns[0]
    return [None if None in parts else "/".join(map(str, parts)) for parts in zip(*columns, strict=True)]


def rows_of_ids(table: Columns, ids: tuple[str, ...], invalid: str) -> Samples:
    """Return samples of all rows with the same id, in the order in which the ids first occur."""
    names = ids_of(table, ids)
    gone = np.array([name is None for name in names])
    if gone.any():
        row = int(np.flatnonzero(gone)[0])
        if invalid == "raise":
            raise table.error(row, f"the id, column {ids[0]!r}, is missing; add it, or {passing('invalid', 'mask')}.")
        for row in np.flatnonzero(gone).tolist():
            table.problems[table.place(row)] = f"{table.name}, {table.place(row)}: the id is missing."
    kept = np.flatnonzero(~gone)
    if not len(kept):
        raise ValueError(f"{table.name}: the id, column {ids[0]!r}, is missing in all rows; {passing('id')}.")
    found: dict[str, int] = {}
    codes = np.array([found.setdefault(str(names[row]), len(found)) for row in kept.tolist()])
    order = np.argsort(codes, kind="stable")
    offsets = offsets_of(np.bincount(codes, minlength=len(found)))
    samples = Samples(table, tuple(found), kept[order], offsets)
    spellings: dict[str, str] = {}
    for raw in (table.columns[name].raw for name in ids if table.columns[name].raw.dtype == object):
        for text in dict.fromkeys(x for x in raw if isinstance(x, str)):  # blanks after the commas of a file
            other = spellings.setdefault(text.strip(), text)
            if other != text and text.strip():
                samples.said.append(f"the ids {other!r} and {text!r} are one: blanks around them are ignored")
                return samples
    return samples


def labels_of(samples: Samples, roles: Roles) -> tuple[NDArray[Any] | None, NDArray[Any] | None, str]:
    """Return y and groups of all samples, and whether y is "label", "target" or ""; problems are added."""
    y, kind = None, ""
    name = roles.label or roles.target
    if name is not None:
        column = samples.table.columns[name]
        kind = "label" if roles.label or (is_text(column) and "target" in roles.guessed) else "target"
        _check_guess(samples.table, column, kind, roles)
        y = numbers_of(samples, column, "target") if kind == "target" else _classes(samples, column, "label")
    groups = _classes(samples, samples.table.columns[roles.group], "group") if roles.group else None
    return y, groups, kind


def is_text(column: Column) -> bool:
    """Whether a column is text, rather than numbers with commas or points that cannot be read."""
    return column.kind == "text" and not column.mark_cure


def _check_guess(table: Columns, column: Column, kind: str, roles: Roles) -> None:
    """Raise if a column was guessed to hold classes, but holds numbers with fractions."""
    if kind == "label" and "label" in roles.guessed and column.kind == "number" and not column.bad.any():
        numbers = column.numbers[~column.missing]
        odd = numbers[numbers != np.round(numbers)]
        if len(odd) and len(np.unique(numbers)) > 10:
            raise ValueError(
                f"{table.name}: the column {column.name!r} is named like a class, but has numbers such as {odd[0]:g}; "
                f"{passing('target', column.name)} for regression, or {option('label', column.name)} for classes."
            )


def _constant(samples: Samples, column: Column, what: str) -> list[str]:
    """Return the one value of a column in every sample; several or none of them are problems."""
    is_role = what in ("label", "target", "group")
    without = passing(what, False) if is_role else f"leave {column.name!r} out of {option('covariates')}"
    codes_of: dict[str, int] = {}
    codes = np.array([-1 if x is None else codes_of.setdefault(x, len(codes_of)) for x in column.text])[samples.order]
    names, starts = list(codes_of), samples.offsets[:-1]
    given = codes >= 0
    high = np.maximum.reduceat(codes, starts)
    low = np.minimum.reduceat(np.where(given, codes, len(names)), starts)
    if not given.any():
        raise ValueError(
            f"{samples.table.name}: the {what}, column {column.name!r}, is missing in all rows"
            f"{read_as_missing(column, samples.order)}; {without}."
        )
    for i in np.flatnonzero(high < 0).tolist():
        rows = samples.order[samples.offsets[i] : samples.offsets[i + 1]]
        place, why = samples.table.place(rows[0]), read_as_missing(column, rows)
        cure = f"add it, or {passing('invalid', 'mask')} to leave it out."
        text = f"({place}) has no {what}, column {column.name!r}{why}; {cure}"
        samples.wrong(i, text)
    for i in np.flatnonzero((high >= 0) & (low != high)).tolist():
        part = slice(samples.offsets[i], samples.offsets[i + 1])
        a, b = names[low[i]], names[high[i]]
        firsts = [samples.order[part][np.flatnonzero(codes[part] == code)[0]] for code in (low[i], high[i])]
        places = [samples.table.place(row) for row in firsts]
        cure = f"{passing('id', SEVERAL)} with all columns that name a series, or {without}."
        samples.wrong(i, f"has the {what}s {a!r} ({places[0]}) and {b!r} ({places[1]}), but needs one; {cure}")
    return [names[c] if c >= 0 else "" for c in high.tolist()]


def read_as_missing(column: Column, rows: NDArray[np.int64]) -> str:
    """Return a clause on the text, such as NA, that stands for a missing value in some rows; "" without one."""
    if column.raw.dtype != object:  # a column of numbers does not keep the text
        return " ('NA' and empty fields are read as missing)"
    texts = [x.strip() for x in column.raw[rows] if isinstance(x, str) and x.strip()]
    return f" ({texts[0]!r} is read as missing)" if texts else ""


def _classes(samples: Samples, column: Column, what: str) -> NDArray[Any]:
    values = _constant(samples, column, what)
    good = [x for i, x in enumerate(values) if i not in samples.problems]
    out = whole_or_text(good)
    whole = np.zeros(len(values), dtype=out.dtype)
    whole[[i for i in range(len(values)) if i not in samples.problems]] = out
    return whole


def numbers_of(samples: Samples, column: Column, what: str) -> NDArray[np.float64]:
    """Return one finite number per sample, such as its target; problems are added."""
    values = _constant(samples, column, what)
    column_of = "" if what == "target" else f" in the column {column.name!r}"
    out = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        if i in samples.problems:
            continue
        try:
            out[i] = number(value, column.decimal)
        except ValueError:
            cure = f"; {passing('label', column.name)} for classes." if what == "target" else "."
            cure = f"; the column {column.mark_cure}." if column.mark_cure else cure
            text = f"has the {what} {value!r}{column_of}, which is not a number{cure}"
            samples.wrong(i, text)
            continue
        if not np.isfinite(out[i]):
            samples.wrong(i, f"has the {what} {value!r}{column_of}, which is not finite.")
    return out


def first_error(samples: Samples, invalid: str) -> None:
    """Raise the first problem, unless invalid samples are left out."""
    if samples.problems and invalid == "raise":
        i = min(samples.problems)
        problem = samples.problems[i]
        raise problem.error(f"{samples.table.name}: {naming(samples.names, i)} {problem.text}")
