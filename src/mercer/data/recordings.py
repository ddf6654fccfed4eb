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
from numpy.typing import NDArray

from mercer._wording import option, passing
from mercer.data._samples import ids_of
from mercer.data.columns import Column, Columns, columns_of
from mercer.data.roles import Choice, Roles, looks_like, roles_of
from mercer.data.text import decoded, is_numeric, read_text, suffix_of

TABLES = (".csv", ".tsv", ".tab", ".dat", ".txt", ".parquet", ".pq", ".feather", ".arrow", ".npy")
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
) -> tuple[Columns, Any]:
    """Read all files as one table with the columns "file" and, for sub-folders, "folder"; return it and the labels."""
    name, root, paths = _paths(source)
    if labels is None:
        labels = next((path for path in paths if path.parent == root and _stem(path) in _LABELS), None)
        paths = [path for path in paths if path != labels]
    _check_kinds(name, paths)
    documents = kind in ("words", "counts", "symbols") if kind else _is_prose(paths[0])
    problems: dict[str | int, str] = {}
    tables: list[Columns] = []
    for path in paths:
        try:
            tables.append(_document(path) if documents else columns_of(path, separator, decimal, invalid))
        except (ValueError, OSError) as error:
            if invalid == "raise":
                raise
            problems[_id(path, root)] = str(error)
    good = [path for path in paths if _id(path, root) not in problems]
    if not tables:
        raise ValueError(f"{name}: no file can be read; the first problem is: {next(iter(problems.values()))}")
    good, tables = _same_columns(good, tables, root, invalid, problems)
    return _stacked(name, root, good, tables, problems), labels


def _paths(source: Any) -> tuple[str, Path, list[Path]]:
    """Return the name of a collection, its folder, and its files in their natural order."""
    if isinstance(source, list | tuple):
        paths = [Path(x) for x in source]
        lost = next((path for path in paths if not path.is_file()), None)
        if lost is not None:
            raise FileNotFoundError(f"The file {str(lost)!r} does not exist.")
        root = Path(os.path.commonpath([path.absolute().parent for path in paths]))
        return "1 file" if len(paths) == 1 else f"{len(paths)} files", root, [path.absolute() for path in paths]
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
    return text, root, sorted(paths, key=_natural)


def _unreadable(error: OSError) -> None:
    raise type(error)(f"The folder {error.filename!r} cannot be read; check its permissions.") from error


def _natural(path: Path) -> list[Any]:
    """Return a key that sorts run2 before run10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", str(path))]


def _stem(path: Path) -> str:
    return path.name.partition(".")[0].lower()


def _id(path: Path, root: Path) -> str:
    """Return the path of a file below the folder, without its extensions."""
    return without_extensions(path.relative_to(root)).as_posix()


def without_extensions(path: PurePath) -> PurePath:
    """Return the path of a table without its extension, and without ``.gz``."""
    path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return path.with_suffix("") if path.suffix.lower() in TABLES else path


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


def _document(path: Path) -> Columns:
    text = read_text(path, "text", "word")
    raw = np.empty(1, dtype=object)
    raw[0] = decoded(text.raw)
    return Columns(text.name, {TEXT: Column(TEXT, raw)}, np.array([1]))


def _same_columns(
    paths: list[Path], tables: list[Columns], root: Path, invalid: str, problems: dict[str | int, str]
) -> tuple[list[Path], list[Columns]]:
    """Return the tables with the columns of the first one; others are problems."""
    names, kept = set(tables[0].columns), []
    for i, (path, table) in enumerate(zip(paths, tables, strict=True)):
        if set(table.columns) == names:
            kept.append(i)
            continue
        odd = sorted(names ^ set(table.columns))[0]
        where = "not in" if odd in names else "only in"
        reason = f"the column {odd!r} is {where} {path.name!r}, compared with {paths[0].name!r}"
        sentence = f"{reason}; all files need the same columns."
        if invalid == "raise":
            raise ValueError(sentence[0].upper() + sentence[1:])
        problems[_id(path, root)] = sentence
    return [paths[i] for i in kept], [tables[i] for i in kept]


def _stacked(
    name: str, root: Path, paths: list[Path], tables: list[Columns], problems: dict[str | int, str]
) -> Columns:
    """Return the rows of all tables as one, with the columns "file" and "folder"."""
    sizes = [len(table) for table in tables]

    def repeated(value: Callable[[Path], str]) -> NDArray[Any]:
        return np.repeat(np.array([value(path) for path in paths], dtype=object), sizes)

    columns = {FILE: Column(FILE, repeated(lambda path: _id(path, root)))}
    depths = {len(path.relative_to(root).parts) for path in paths}
    if depths == {2} and len({path.parent for path in paths}) > 1:
        columns[FOLDER] = Column(FOLDER, repeated(lambda path: path.parent.name))
    elif max(depths) > 1:
        deep = max(paths, key=lambda path: len(path.parts)).relative_to(root)
        raise ValueError(
            f"{name}: labels come from sub-folders, one per class, but {deep.as_posix()!r} is "
            f"{'in the only one' if depths == {2} else 'at another depth'}; pass the folder that contains those of the "
            "classes, or a pattern."
        )
    for key, first in tables[0].columns.items():
        if key in columns:
            raise ValueError(f"{name}: a column is named {key!r}, as that of the files' names is; rename it.")
        raws = [table.columns[key].raw for table in tables]
        if any(raw.dtype != raws[0].dtype for raw in raws) and any(raw.dtype == object for raw in raws):
            raws = [raw.astype(object) for raw in raws]
        columns[key] = Column(key, np.concatenate(raws), first.decimal)
    lines = [table.lines if table.lines is not None else np.arange(len(table)) for table in tables]
    for path, table in zip(paths, tables, strict=True):
        problems |= {f"{path.name}, {key}": text for key, text in table.problems.items()}
    files = repeated(lambda path: path.relative_to(root).as_posix())
    return Columns(name, columns, np.concatenate(lines), tables[0].header, problems, files)


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
        raise ValueError(
            f"{option('labels')} needs ids to join the two tables; {passing('id')} with the column of ids."
        )
    other = _labels_table(labels)
    ids = _id_of(other, roles.id)
    found = roles_of(
        other, id=ids, time=False, values=(), label=label, target=target, group=group, covariates=covariates
    )
    unanswered = label is False and target is False  # the table has groups or covariates only
    if found.label is None and found.target is None and not unanswered:
        rest = [name for name in other.columns if name not in (*found.id, found.group, *found.covariates)]
        if len(rest) != 1:
            raise ValueError(
                f"{other.name}: no column is named like a label; {passing('label')} or {option('target')}."
            )
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
