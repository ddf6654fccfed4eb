"""Labels, targets and groups in a table of their own, joined to the rows of another table by the id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from mercer.data._names import looks_like
from mercer.data._samples import ids_of
from mercer.data.columns import Column, Columns, columns_of
from mercer.data.recordings import without_extensions
from mercer.data.roles import Choice, Roles, roles_of


def joined(
    table: Columns,
    roles: Roles,
    labels: Any,
    label: Choice,
    target: Choice,
    group: Choice,
    covariates: tuple[str, ...] = (),
) -> Roles:
    """Add the columns of a table of labels to ``table``, and return the roles with them."""
    if not roles.id:
        raise ValueError("labels= needs ids to join the two tables; pass id= with the column of ids.")
    other = _labels_table(labels)
    ids = _id_of(other, roles.id)
    found = roles_of(
        other, id=ids, time=False, values=(), label=label, target=target, group=group, covariates=covariates
    )
    unanswered = label is False and target is False  # the table has groups or covariates only
    if found.label is None and found.target is None and not unanswered:
        rest = [name for name in other.columns if name not in (*found.id, found.group, *found.covariates)]
        if len(rest) != 1:
            raise ValueError(f"{other.name}: no column is named like a label; pass label= or target=.")
        found = replace(found, label=rest[0])
    rows: dict[str, int] = {}
    for row, name in enumerate(ids_of(other, found.id)):
        if name is None:
            raise other.error(row, f"the id, column {found.id[0]!r}, is missing; add it.")
        if name in rows:
            raise other.error(row, f"the id {name!r} occurs also in {other.place(rows[name])}; remove one of the two.")
        rows[name] = row
    find = _finder(rows, files=table.files is not None)
    where = [None if name is None else find(name) for name in ids_of(table, roles.id)]
    if all(row is None for row in where):
        first = next((x for x in ids_of(table, roles.id) if x is not None), "")
        raise ValueError(
            f"No id of {table.name}, such as {first!r}, is in {other.name}, which has {next(iter(rows), '')!r}; make "
            "the ids agree."
        )
    names = {role: name for role in ("label", "target", "group") if (name := getattr(found, role)) is not None}
    added = {name: name for name in found.covariates}  # the table itself has no column of this name
    for role, name in names.items():
        names[role] = f"{name} of {other.name}"
        added[names[role]] = name
    for key, name in added.items():
        raw = np.empty(len(where), dtype=object)
        raw[:] = [None if row is None else other.columns[name].text[row] for row in where]
        table.columns[key] = Column(key, raw, other.columns[name].decimal)
    guessed = (roles.guessed - {"label", "target"}) | (found.guessed & {"label", "target"})
    return replace(
        roles,
        label=names.get("label"),
        target=names.get("target"),
        group=names.get("group", roles.group),
        covariates=(*roles.covariates, *found.covariates),
        guessed=frozenset(guessed),
    )


def _labels_table(labels: Any) -> Columns:
    if isinstance(labels, Mapping) and not any(isinstance(x, list | tuple | np.ndarray) for x in labels.values()):
        labels = {"id": list(labels), "label": list(labels.values())}
    other = columns_of(labels)
    if isinstance(labels, Mapping) or other.name == "the table":
        other.name = "labels"
    return other


def _id_of(other: Columns, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of ids in a table of labels: those of the same name, of a name like an id, or the first."""
    if all(name in other.columns for name in ids):
        return ids
    found = looks_like("id", other.columns)
    return (found[0],) if found else (next(iter(other.columns)),)


def _finder(rows: dict[str, int], files: bool) -> Callable[[str], int | None]:
    """Return a function that finds the row of an id; files are found with or without folder and extension."""
    if not files:
        return rows.get
    found: dict[str, int | None] = {}
    for name, row in rows.items():
        for alias in _aliases(name):
            found[alias] = row if found.get(alias, row) == row else None  # two files of one name: neither

    return lambda name: next((found[alias] for alias in _aliases(name) if found.get(alias) is not None), None)


def _aliases(name: str) -> list[str]:
    bare = without_extensions(PurePath(name))
    return [name, bare.as_posix(), bare.name]
