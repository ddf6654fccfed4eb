"""Samples of a table before they become `Sequences`: their rows, what is wrong with them, and their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats
from mercer._wording import SEVERAL, option, passing
from mercer.data._container import naming
from mercer.data._forms import Problem
from mercer.data.columns import Column, Table
from mercer.data.ragged import offsets_of
from mercer.data.roles import Roles
from mercer.data.text import whole_or_text


@dataclass
class Samples:
    """Rows of every sample: sample i has the rows ``order[offsets[i]:offsets[i + 1]]`` of the table."""

    table: Table
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

    @property
    def owner(self) -> NDArray[np.int64]:
        """The sample of every row in ``order``."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def fail(self, wrong: Any, text: Callable[[int], str]) -> None:
        """Add a problem for the samples of rows of the table that are marked; ``text`` is a function of the row."""
        for at in np.flatnonzero(np.asarray(wrong)[self.order]).tolist():
            row = int(self.order[at])
            self.wrong(int(self.owner[at]), f"({self.table.place(row)}) {text(row)}")

    def wrong(self, i: int, text: str) -> None:
        """Add a problem for sample i, unless it has one."""
        self.problems.setdefault(i, Problem(ValueError, text))

    def lost(self, rows: Any, what: str) -> None:
        """Add a problem for the samples of rows without content."""
        self.fail(rows, lambda row: f"{what}; remove it, or {passing('invalid', 'mask')}.")

    def numbers(self, name: str) -> Floats:
        """Return the numbers of a column of values; entries that are not numbers are problems."""
        column = self.table.columns[name]
        if column.kind not in ("number", "empty"):
            cure = column.cure or f"has no numbers; leave it out of {option('values', SEVERAL)}"
            raise ValueError(f"{self.table.name}: the column {name!r} {cure}.")
        if not column.bad.any():  # the text of many columns takes long
            return column.numbers
        cure = column.cure or "is not a number; leave the field empty if the value is missing"
        self.fail(column.bad, lambda row: f"has {column.text[row][:20]!r} in the column {name!r}, which {cure}.")
        return column.numbers


def rows_of_ids(table: Table, ids: tuple[str, ...], invalid: str, *, distinct: bool = False) -> Samples:
    """Return samples of all rows with the same id, in the order in which the ids first occur; all rows without ids."""
    if not ids:
        return Samples(table, None, np.arange(len(table)), np.arange(len(table) + 1))
    names = ids_of(table, ids)
    known: dict[str, int] = {}
    codes = np.array([-1 if name is None else known.setdefault(name, row) for row, name in enumerate(names)])
    for row in np.flatnonzero(codes < 0).tolist():
        missing = f"the id, column {ids[0]!r}, is missing"
        if distinct or invalid == "raise":
            cure = passing("id", False) if distinct else passing("invalid", "mask")
            raise table.error(row, f"{missing}; add it, or {cure}.")
        table.problems[table.place(row)] = f"{table.name}, {table.place(row)}: {missing}."
    if not known:
        raise ValueError(f"{table.name}: the id, column {ids[0]!r}, is missing in all rows; {passing('id')}.")
    for row in np.flatnonzero((codes >= 0) & (codes != np.arange(len(codes)))).tolist() if distinct else ():
        raise table.error(
            row,
            f"the id {names[row]!r} occurs also in {table.place(codes[row])}; make the ids distinct, "
            f"{passing('id', False)}, or {passing('form', 'long')} if every row is one time step.",
        )
    order = np.argsort(codes, kind="stable")[np.sum(codes < 0) :]  # a code is the first row of an id
    return Samples(table, tuple(known), order, offsets_of(np.unique(codes[order], return_counts=True)[1]))


def ids_of(table: Table, ids: tuple[str, ...]) -> list[str | None]:
    """Return the id of every row, several columns joined by a slash; None where one is missing."""
    rows = zip(*(table.columns[name].text for name in ids), strict=True)
    return [None if None in parts else "/".join(parts) for parts in rows]


def labels_of(samples: Samples, roles: Roles) -> tuple[NDArray[Any] | None, NDArray[Any] | None, str]:
    """Return y and groups of all samples, and whether y is "label", "target" or ""; problems are added."""
    y, kind = None, ""
    columns = samples.table.columns
    name = roles.label or roles.target
    if name is not None:
        column = columns[name]
        kind = "label" if roles.label or (column.is_text and "target" in roles.guessed) else "target"
        odd = column.numbers[np.isfinite(column.numbers) & (column.numbers % 1 != 0)]
        if "label" in roles.guessed and column.kind == "number" and len(odd) and len(np.unique(column.numbers)) > 10:
            raise ValueError(
                f"{samples.table.name}: the column {name!r} is named like a class, but has numbers such as "
                f"{odd[0]:g}; {passing('target', name)} for regression, or {option('label', name)} for classes."
            )
        y = numbers_of(samples, name, "target") if kind == "target" else _classes(samples, name, "label")
    return y, _classes(samples, roles.group, "group") if roles.group else None, kind


def _constant(samples: Samples, name: str, what: str) -> list[str | None]:
    """Return the one value of a column in every sample; several or none of them are problems."""
    column, table = samples.table.columns[name], samples.table
    is_role = what in ("label", "target", "group")
    without = passing(what, False) if is_role else f"leave {name!r} out of {option('covariates')}"
    text = column.text
    if column.missing[samples.order].all():
        why = read_as_missing(column, samples.order)
        raise ValueError(f"{table.name}: the {what}, column {name!r}, is missing in all rows{why}; {without}.")
    found: list[str | None] = []
    for i in range(len(samples)):
        rows = samples.order[samples.offsets[i] : samples.offsets[i + 1]]
        first = {text[row]: row for row in reversed(rows) if text[row] is not None}
        found.append(next(iter(first)) if first else None)
        if not first:
            cure = f"add it, or {passing('invalid', 'mask')} to leave it out."
            why = read_as_missing(column, rows)
            samples.wrong(i, f"({table.place(rows[0])}) has no {what}, column {name!r}{why}; {cure}")
        elif len(first) > 1:
            (a, row), (b, other) = sorted(first.items(), key=lambda item: item[1])[:2]
            cure = f"{passing('id', SEVERAL)} with all columns that name a series, or {without}."
            places = f"{a!r} ({table.place(row)}) and {b!r} ({table.place(other)})"
            samples.wrong(i, f"has the {what}s {places}, but needs one; {cure}")
    return found


def read_as_missing(column: Column, rows: NDArray[np.int64]) -> str:
    """Return a clause on the text, such as NA, that stands for a missing value in some rows; "" without one."""
    texts = [x.strip() for x in column.raw.iloc[rows] if isinstance(x, str) and x.strip()]
    return f" ({texts[0]!r} is read as missing)" if texts else ""


def _classes(samples: Samples, name: str, what: str) -> NDArray[Any]:
    values = _constant(samples, name, what)
    good = [i for i in range(len(values)) if i not in samples.problems]
    out = whole_or_text([str(values[i]) for i in good])
    whole = np.zeros(len(values), dtype=out.dtype)
    whole[good] = out
    return whole


def numbers_of(samples: Samples, name: str, what: str) -> Floats:
    """Return one finite number per sample, such as its target; problems are added."""
    column = samples.table.columns[name]
    values = _constant(samples, name, what)
    column_of = "" if what == "target" else f" in the column {name!r}"
    number = dict(zip(column.text, column.numbers, strict=True))
    out = np.array([np.nan if value is None else number[value] for value in values])
    for i in np.flatnonzero(~np.isfinite(out)).tolist():
        cure = f"the column {column.cure}" if column.cure else passing("label", name) + " for classes"
        cure = f"; {cure}" if what == "target" or column.cure else ""
        wrong = "which is not finite" if np.isinf(out[i]) else f"which is not a number{cure}"
        samples.wrong(i, f"has the {what} {values[i]!r}{column_of}, {wrong}.")
    return out


def covariate_of(samples: Samples, name: str, what: str) -> NDArray[Any]:
    """Return one finite number per sample or, for a column without any number, one text; problems are added."""
    column = samples.table.columns[name]
    if what == "weight" or np.isfinite(column.numbers[samples.order]).any() or column.missing[samples.order].all():
        return numbers_of(samples, name, what)
    return np.array(["" if value is None else value for value in _constant(samples, name, what)])


def first_error(samples: Samples, invalid: str) -> None:
    """Raise the first problem, unless invalid samples are left out."""
    if samples.problems and invalid == "raise":
        i = min(samples.problems)
        problem = samples.problems[i]
        raise problem.error(f"{samples.table.name}: {naming(samples.names, i)} {problem.text}")
