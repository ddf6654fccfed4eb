"""One file per recording or document, joined to one table, and labels in a table of their own."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from mercer._wording import option, passing
from mercer.data._samples import ids_of
from mercer.data.columns import Column, Table, table_of
from mercer.data.roles import Choice, Roles, looks_like, roles_of
from mercer.data.text import decoded, is_numeric, read_text, suffix_of

TABLES = (".csv", ".tsv", ".tab", ".dat", ".txt", ".parquet", ".pq", ".feather", ".arrow")
_LABELS = ("labels", "label", "metadata", "targets", "annotations")
_BY_THE_WAY = ("readme", "license", "licence", "citation", "changelog")
FILE, FOLDER, TEXT = "file", "folder", "text"
"""Names of the columns that a folder adds: the id, the sub-folder, and the text of a document."""


def is_collection(source: Any) -> bool:
    """Whether a source is several files: a folder, a pattern or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(x, str | os.PathLike) for x in source)
    if not isinstance(source, str | os.PathLike):
        return False
    return Path(source).is_dir() or (glob.has_magic(os.fspath(source)) and not Path(source).exists())


def collection(
    source: Any, kind: str | None, separator: str | None, decimal: str, invalid: str, labels: Any
) -> tuple[Table, Any]:
    """Read all files as one table with the columns "file" and, for sub-folders, "folder"; return it and the labels."""
    name, root, paths = _paths(source)
    if labels is None:
        labels = next((path for path in paths if path.parent == root and _stem(path) in _LABELS), None)
        paths = [path for path in paths if path != labels]
    _check_kinds(name, paths)
    documents = kind in ("words", "counts", "symbols") if kind else _is_prose(paths[0])
    problems: dict[str | int, str] = {}
    tables: dict[Path, Table] = {}
    for path in paths:
        try:
            table = _document(path) if documents else table_of(path, separator, decimal, invalid)
            _check_columns(path, table, tables)
            tables[path] = table
        except (ValueError, OSError) as error:
            if invalid == "raise":
                raise
            problems[_id(path, root)] = str(error)
    if not tables:
        raise ValueError(f"{name}: no file can be read; the first problem is: {next(iter(problems.values()))}")
    return _stacked(name, root, tables, problems), labels


def _paths(source: Any) -> tuple[str, Path, list[Path]]:
    """Return the name of a collection, its folder, and its files in their natural order."""
    if isinstance(source, list | tuple):
        paths = [Path(x).absolute() for x in source]
        lost = next((given for given, path in zip(source, paths, strict=True) if not path.is_file()), None)
        if lost is not None:
            raise FileNotFoundError(f"The file {os.fspath(lost)!r} does not exist.")
        name = "1 file" if len(paths) == 1 else f"{len(paths)} files"
        return name, Path(os.path.commonpath([path.parent for path in paths])), paths
    text = os.fspath(source)
    if Path(text).is_dir():
        root = Path(text)
        paths = [Path(folder) / file for folder, _, files in os.walk(root, onerror=_unreadable) for file in files]
    else:
        paths = [Path(x) for x in glob.glob(text, recursive=True) if Path(x).is_file()]
        root = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    paths = [path for path in paths if not path.name.startswith(".") and _stem(path) not in _BY_THE_WAY]
    if not paths:
        what = f"The folder {text!r} has no files" if Path(text).is_dir() else f"No file matches {text!r}"
        raise FileNotFoundError(f"{what}; pass a folder or a pattern with one file per recording.")
    # run2 before run10
    key = {path: [int(x) if x.isdecimal() else x for x in re.split(r"([0-9]+)", str(path))] for path in paths}
    return text, root, sorted(paths, key=key.__getitem__)


def _unreadable(error: OSError) -> None:
    raise type(error)(f"The folder {error.filename!r} cannot be read; check its permissions.") from error


def _stem(path: Path) -> str:
    return path.name.partition(".")[0].lower()


def _id(path: Path, root: Path) -> str:
    """Return the path of a file below the folder, without its extensions."""
    return _without_extension(path.relative_to(root).as_posix())


def _without_extension(name: str) -> str:
    """Return the path of a table without its extension, and without ``.gz``."""
    path = PurePath(name)
    path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return (path.with_suffix("") if path.suffix.lower() in TABLES else path).as_posix()


def _check_kinds(name: str, paths: list[Path]) -> None:
    """Raise unless all files are tables of one kind."""
    if not paths:
        raise FileNotFoundError(f"{name} has labels, but no recordings; pass a folder with one file per recording.")
    first: dict[str, Path] = {}
    for path in paths:
        first.setdefault(suffix_of(path), path)
    other = next((suffix for suffix in first if suffix not in TABLES), None)
    if other is not None:
        raise ValueError(
            f"{name} contains {first[other].name!r}, which is not a table ({', '.join(TABLES)}); pass a pattern such "
            f"as {os.path.join(name, '*.csv')!r} to choose the files."
        )
    if len(first) > 1:
        shown = " and ".join(repr(path.name) for path in list(first.values())[:2])
        raise ValueError(
            f"{name} mixes kinds of files, such as {shown}; pass a pattern such as '*{next(iter(first))}'."
        )


def _is_prose(path: Path) -> bool:
    """Whether a file is a text rather than a table: neither of its first two lines is numbers."""
    if suffix_of(path) != ".txt":
        return False
    rows = [line.replace(",", " ").replace(";", " ").split() for _, line in read_text(path, "text").lines()][:2]
    return not any(all(is_numeric(x) for x in row) for row in rows)


def _document(path: Path) -> Table:
    import pandas as pd

    text = read_text(path, "text", "word")
    return Table(text.name, {TEXT: Column(pd.Series([decoded(text.raw)], dtype=object))}, np.array([1]))


def _check_columns(path: Path, table: Table, tables: dict[Path, Table]) -> None:
    """Raise unless a table has the columns of the first one."""
    first = next(iter(tables), path)
    names = set(tables.get(first, table).columns)
    if odd := sorted(names ^ set(table.columns)):
        where = "not in" if odd[0] in names else "only in"
        raise ValueError(
            f"The column {odd[0]!r} is {where} {path.name!r}, compared with {first.name!r}; all files need the same "
            "columns."
        )


def _stacked(name: str, root: Path, tables: dict[Path, Table], problems: dict[str | int, str]) -> Table:
    """Return the rows of all tables as one, with the columns "file" and "folder"."""
    import pandas as pd

    first, sizes = next(iter(tables.values())), [len(table) for table in tables.values()]

    def repeated(values: list[str]) -> Any:
        return pd.Series(np.repeat(np.array(values, dtype=object), sizes))

    added = {FILE: repeated([_id(path, root) for path in tables])}
    depths = {len(path.relative_to(root).parts) for path in tables}
    if depths == {2} and len({path.parent for path in tables}) > 1:
        added[FOLDER] = repeated([path.parent.name for path in tables])
    elif max(depths) > 1:
        deep = max(tables, key=lambda path: len(path.parts)).relative_to(root)
        raise ValueError(
            f"{name}: labels come from sub-folders, one per class, but {deep.as_posix()!r} is "
            f"{'in the only one' if depths == {2} else 'at another depth'}; pass the folder that contains those of the "
            "classes, or a pattern."
        )
    twice = next((key for key in added if key in first.columns), None)
    if twice is not None:
        raise ValueError(f"{name}: a column is named {twice!r}, as that of the files' names is; rename it.")
    columns = {key: Column(raw) for key, raw in added.items()}
    for key, column in first.columns.items():
        raw = pd.concat([table.columns[key].raw for table in tables.values()], ignore_index=True)
        columns[key] = Column(raw, column.decimal)
    lines = [np.arange(len(table)) if table.lines is None else table.lines for table in tables.values()]
    for path, table in tables.items():
        problems |= {f"{path.name}, {key}": text for key, text in table.problems.items()}
    files = repeated([path.relative_to(root).as_posix() for path in tables]).to_numpy()
    return Table(name, columns, np.concatenate(lines), first.header, problems, files)


def joined(
    table: Table,
    roles: Roles,
    labels: Any,
    label: Choice,
    target: Choice,
    group: Choice,
    covariates: tuple[str, ...] = (),
) -> Roles:
    """Add the columns of a table of labels to ``table``, and return the roles with them."""
    import pandas as pd

    if not roles.id:
        raise ValueError(
            f"{option('labels')} needs ids to join the two tables; {passing('id')} with the column of ids."
        )
    if isinstance(labels, Mapping) and not any(isinstance(x, list | tuple | np.ndarray) for x in labels.values()):
        labels = {"id": list(labels), "label": list(labels.values())}
    other = table_of(labels)
    if isinstance(labels, Mapping) or other.name == "the table":
        other.name = "labels"
    ids = roles.id if all(name in other.columns for name in roles.id) else None
    ids = ids or (*looks_like("id", other.columns), *other.columns)[:1]
    given: dict[str, Any] = {"time": False, "label": label, "target": target, "group": group}
    found = roles_of(other, id=ids, values=(), covariates=covariates, **given)
    unanswered = label is False and target is False  # the table has groups or covariates only
    if found.label is None and found.target is None and not unanswered:
        rest = [name for name in other.columns if name not in (*found.id, found.group, *found.covariates)]
        if len(rest) != 1:
            raise ValueError(
                f"{other.name}: no column is named like a label; {passing('label')} or {option('target')}."
            )
        found = replace(found, label=rest[0])
    where = _rows_of(table, roles.id, other, found.id)
    columns = {role: name for role in ("label", "target", "group") if (name := getattr(found, role)) is not None}
    names = {role: f"{name} of {other.name}" for role, name in columns.items()}
    added = {name: name for name in found.covariates}  # the table itself has no column of this name
    added |= {names[role]: name for role, name in columns.items()}
    for key, name in added.items():
        text = other.columns[name].text
        raw = pd.Series([None if row is None else text[row] for row in where], dtype=object)
        table.columns[key] = Column(raw, other.columns[name].decimal)
    guessed = (roles.guessed - {"label", "target"}) | (found.guessed & {"label", "target"})
    return replace(
        roles,
        label=names.get("label"),
        target=names.get("target"),
        group=names.get("group", roles.group),
        covariates=(*roles.covariates, *found.covariates),
        guessed=frozenset(guessed),
    )


def _rows_of(table: Table, ids: tuple[str, ...], other: Table, keys: tuple[str, ...]) -> list[int | None]:
    """Return the row of the other table with the id of each row; files go with or without folder and extension."""
    rows: dict[str, int] = {}
    for row, key in enumerate(ids_of(other, keys)):
        if key is None:
            raise other.error(row, f"the id, column {keys[0]!r}, is missing; add it.")
        if key in rows:
            raise other.error(row, f"the id {key!r} occurs also in {other.place(rows[key])}; remove one of the two.")
        rows[key] = row
    names = ids_of(table, ids)
    aliases: tuple[Callable[[str], str], ...] = (
        str,
        _without_extension,
        lambda name: _without_extension(PurePath(name).name),
    )
    for alias in aliases if table.files is not None else aliases[:1]:
        short = {alias(key): row for key, row in rows.items()}
        where = [None if name is None else short.get(alias(name)) for name in names]
        if len(short) == len(rows) and any(row is not None for row in where):
            return where
    first = next((name for name in names if name is not None), "")
    raise ValueError(
        f"No id of {table.name}, such as {first!r}, is in {other.name}, which has {next(iter(rows), '')!r}; make the "
        "ids agree."
    )
