"""Roles of the columns of a table (id, time, label, target, group, values), found by their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from mercer._notices import described
from mercer._wording import SEVERAL, option, passing
from mercer.data._advice import unknown_role, varies
from mercer.data.columns import Table, numbered_columns

# Names in lower case without signs; an earlier group of names wins over a later one.
_SUBJECTS = "subject subjectid subj subjid patient patientid participant participantid person personid donor donorid"
NAMES: dict[str, tuple[str, ...]] = {
    "id": (
        "id",
        "ids seriesid sequenceid seqid sampleid recordingid caseid trialid sessionid episodeid trackid uid uuid "
        "runid recording series sample case trial session episode run track accession file filename name",
        _SUBJECTS + " user userid customer customerid unit unitid device deviceid",
    ),
    "time": (
        "time",
        "t timestamp timestamps datetime date times timestep timepoint timepoints step frame tick elapsed timesec "
        "timeseconds timems seconds sec milliseconds ms minutes hours",
        "when ts zeit zeitstempel datum created createdat observed observedat recordedat measuredat",
        "second minute hour day week month year epoch",
    ),
    "label": ("label", "labels class classes classlabel classname classid category diagnosis", "y"),
    "target": ("target", "targets response outcome"),
    "group": ("group", "groups family familyid gene geneid cluster clusterid", _SUBJECTS),
    "sequence": ("sequence", "seq text document sentence review message abstract string dna rna protein peptide"),
}

_SURE_TIMES = {name for level in NAMES["time"][:2] for name in level.split()}
"""Names that say more than the type of another column does."""
STRONG_TIMES = _SURE_TIMES | set(NAMES["time"][2].split())
"""Names of times that are never channels of one recording; the hour may be one."""


def looks_like(role: str, names: Iterable[str]) -> list[str]:
    """Return the columns that are named like a role, those of its best names only."""
    names = list(names)
    known = _named(names, {name for level in NAMES[role] for name in level.split()})
    found = next((some for level in NAMES[role] if (some := _named(known, level.split(), names))), [])
    if role == "id" and not found:  # machine_id, but not class_id
        found = [name for name in names if re.search(r"[\s_.\-][iI][dD]$|[a-z]I[dD]$", name)]
        found = [name for name in found if not looks_like("label", [name])]
    return found


def _named(names: list[str], known: Collection[str], all_names: list[str] | None = None) -> list[str]:
    """Return the names that are known, whatever their case and signs; y is not, where it is a coordinate."""
    found = [name for name in names if plain(name) in known]
    axes = any(plain(name) == "y" for name in found) and any(plain(name) == "x" for name in all_names or names)
    return [name for name in found if not (axes and plain(name) == "y")]


def plain(name: str) -> str:
    """Return a name in lower case, without signs."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


Choice: TypeAlias = str | int | bool | None
"""A column by its name, False for none, None to find it by the names."""


@dataclass(frozen=True)
class Roles:
    """Columns of every role; ``guessed`` holds the roles that were not given."""

    id: tuple[str, ...]
    time: str | None
    label: str | None
    target: str | None
    group: str | None
    values: tuple[str, ...]
    covariates: tuple[str, ...]
    guessed: frozenset[str]

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every role that has some."""
        named = {"time": self.time, "label": self.label, "target": self.target, "group": self.group}
        single = {role: [name] for role, name in named.items() if name is not None}
        several = {"id": self.id, "values": self.values, "covariates": self.covariates}
        return single | {role: list(names) for role, names in several.items() if names}


def roles_of(
    table: Table,
    *,
    id: str | Iterable[str] | bool | None = None,
    values: Any = None,
    covariates: Any = None,
    ignore: Any = None,
    **given: Choice,
) -> Roles:
    """Return the roles of the columns: those that are given, and those that names tell for the others."""
    ids, beside, ignored = (
        _several(table, choice, role) for choice, role in ((id, "id"), (covariates, "covariates"), (ignore, "ignore"))
    )
    others = {*ids, *beside, *ignored, *(str(choice) for choice in given.values())}
    asked = _several(table, values, "values", others)
    listed = tuple(name for name in asked if name not in ignored)
    if asked and not listed:
        raise ValueError(
            f"{table.name}: all columns of {option('values', values)} are ignored; leave out one of the two."
        )
    found = {role: _known(table, name, role) if name not in (None, False) else None for role, name in given.items()}
    if found["label"] and found["target"]:
        labels = f"{option('label', found['label'])} and {option('target', found['target'])}"
        raise ValueError(f"{labels} cannot both be y; pass one of them.")
    taken = {*ids, *listed, *beside, *ignored, *found.values()}
    free = [name for name in table.columns if name not in taken and not _is_row_number(table, name)]
    guessed = set()
    levels = () if set(table.index) & {*ignored} else levels_of(table, ids, id)
    free = [name for name in free if name not in levels]
    if levels:
        ids = levels[:1]
        if given["time"] is None:
            found["time"] = time_of_levels(table, levels, free)
            free = [name for name in free if name != found["time"]]
    elif id is None and (ids := tuple(_guess(table, "id", free))):
        guessed.add("id")
    no_y = found["label"] is None and found["target"] is None
    for role, choice in given.items():
        if choice is None and found[role] is None and (role not in ("label", "target") or no_y):
            names = [name for name in free if name not in (*ids, *found.values())]
            for name in time_of(table, ids, names) if role == "time" else _guess(table, role, names):
                if role not in ("label", "target") or table.columns[name].kind != "empty":
                    found[role] = name  # new data often have the column of labels, but no labels
                    guessed.add(role)
    if no_y and found["label"] and found["target"]:
        raise ValueError(
            f"{table.name}: the columns {found['label']!r} (a class) and {found['target']!r} (a number) could both be "
            f"y; {passing('label', found['label'])} or {option('target', found['target'])}."
        )
    free = [name for name in free if name not in (*ids, *found.values())]
    if "id" in guessed:
        _check_id(table, ids[0], [name for name in (*free, found["group"]) if name is not None])
    if values is None:
        settled = any(found[role] is not None or given[role] is False for role in ("label", "target"))
        kinds = ("id", "time", "group", "label", "target") if settled else ("id", "time", "group")
        roles = set(_named(free, {name for role in kinds for level in NAMES[role] for name in level.split()}))
        roles |= {"folder"} if table.files is not None else set()
        free = [name for name in free if name not in roles and table.columns[name].kind != "empty"]
        needed = ["label"] * (not settled) + ["group"] * (found["group"] is None and given["group"] is None)
        known = {"ids": ids, "time": found["time"], "ignored": ignored, "guessed": "id" in guessed, "needed": needed}
        listed = _guess_values(table, free, **known)
        guessed.add("values")
    return Roles(ids, **found, values=listed, covariates=beside, guessed=frozenset(guessed))


def levels_of(table: Table, ids: tuple[str, ...], id: Any) -> tuple[str, ...]:
    """Return the columns of the series and of the time, which are the levels of a MultiIndex; () without one."""
    levels = table.index
    if len(levels) > 2 and id is None:
        *several, last = levels
        raise ValueError(
            f"{table.name} has a MultiIndex of {len(levels)} levels, {described(levels, 6)}; with two, they are the "
            f"series and the time. If the last one is the time, read it with mc.read_table(df, id={several!r}, "
            f"time={last!r})."
        )
    if len(levels) != 2 or (id is not None and ids != levels[:1]) or id is False:
        return ()
    return () if looks_like("id", levels[1:]) or looks_like("group", levels[1:]) else levels


def time_of_levels(table: Table, levels: tuple[str, ...], names: list[str]) -> str:
    """Return the time of a table with a MultiIndex: its second level, unless that only numbers the rows.

    ``pd.concat(frames, keys=...)`` makes such a level.
    """
    is_time = table.columns[levels[1]].kind == "date" or looks_like("time", levels[1:])
    found = [] if is_time else [x for x in names if looks_like("time", [x]) or table.columns[x].kind == "date"]
    return (time_of(table, levels[:1], found) or [levels[1]])[0]


def time_of(table: Table, ids: tuple[str, ...], names: list[str]) -> list[str]:
    """Return the column of the time, in a list: by its name, or the only column of dates that vary within samples."""
    named = looks_like("time", names)
    dates = [name for name in names if table.columns[name].kind == "date" and varies(table, ids, name)]
    if dates and all(table.columns[name].kind == "date" and name not in dates for name in named):
        named = []  # the day of a recording
    if dates and not any(name in _SURE_TIMES for name in map(plain, named)):
        named = [name for name in named if name in dates] or dates
    return _only(table, "time", named)


def _check_id(table: Table, id: str, names: list[str]) -> None:
    """Raise if the series of an id that was found by its name have several values of another column named so."""
    keys = table.columns[id].text
    for other in _named(names, {name for level in NAMES["id"] for name in level.split()}):
        first: dict[str, int] = {}
        texts = table.columns[other].text
        for row, (key, text) in enumerate(zip(keys, texts, strict=True)):
            if key is None or text is None or texts[first.setdefault(key, row)] == text:
                continue
            both = [name for name in table.columns if name in (id, other)]
            places = f"{table.place(first[key])} and {table.place(row)}"
            raise ValueError(
                f"{table.name}: the {id} {key!r} occurs with the {other} {texts[first[key]]!r} and {text!r} "
                f"({places}); {passing('id', both)} if they name a series together, or {option('id', id)} if {id!r} "
                "does by itself."
            )


class UnknownColumn(ValueError):
    """A column that a role asks for is not in the table."""

    def __init__(self, role: str, column: Any, reason: str) -> None:
        super().__init__(f"{option(role, column)} {reason}")
        self.role, self.column, self.reason = role, column, reason


def _known(table: Table, choice: Any, role: str) -> str:
    """Return a column by its name, or raise."""
    name = str(choice).strip()
    if choice is True or not isinstance(choice, str | int) or name not in table.columns:
        near = get_close_matches(name, table.columns, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = described(table.columns, 12)
        raise UnknownColumn(role, choice, f"is not a column of {table.name}; its columns are {known}.{hint}")
    return name


def _several(table: Table, choice: Any, role: str, others: Collection[str] = ()) -> tuple[str, ...]:
    """Return columns by their names, patterns and ranges; those do not take columns of ``others``."""
    if choice is None or choice is False:
        return ()
    several = [choice] if isinstance(choice, str | int) or not isinstance(choice, Iterable) else list(choice)
    found: list[str] = []
    for name in several:
        free = [x for x in _matching(list(table.columns), str(name).strip()) if x not in others]
        found += free if free else [_known(table, name, role)]
    return tuple(dict.fromkeys(found))


def _matching(columns: list[str], pattern: str) -> list[str]:
    """Return the columns of a pattern such as ``t*``, or of a range such as ``t0:t59`` or ``t0-t59``."""
    if pattern in columns:
        return [pattern]
    for mark in re.finditer("[:-]", pattern):
        ends = pattern[: mark.start()].strip(), pattern[mark.end() :].strip()
        if all(end in columns for end in ends):
            return columns[columns.index(ends[0]) : columns.index(ends[1]) + 1]
    return [name for name in columns if fnmatchcase(name, pattern)]


def _guess(table: Table, role: str, names: list[str]) -> list[str]:
    """Return the column that is named like a role, in a list; raise if there are several."""
    return _only(table, role, looks_like(role, names))


def _only(table: Table, role: str, found: list[str]) -> list[str]:
    """Return the columns that may have a role; raise if there are several."""
    if len(found) > 1:
        shown = " and ".join(map(repr, found))
        both = f", or {option(role, found)} if they name a series together" if role == "id" else ""
        other = option(role, found[1]) if role == "time" else f"{option(role, False)} for none"  # rows keep an order
        raise ValueError(
            f"{table.name}: the columns {shown} could all be the {role}; {passing(role, found[0])}{both}, or {other}."
        )
    return found


def _is_row_number(table: Table, name: str) -> bool:
    """Whether a column holds the numbers of rows, as pandas writes them: whole numbers without a name, in any order."""
    if not re.fullmatch(r"column 1|Unnamed: ?\d+|__index_level_\d+__|index", name) or not table.header:
        return False
    numbers = table.columns[name].numbers
    if name == "index" or (name == "column 1" and "column 2" in table.columns):  # names, so only rows that are counted
        return bool((numbers[1:] - numbers[:-1] == 1).all() and numbers[:1] in (0.0, 1.0))
    return bool((numbers == numbers.round()).all())


def _guess_values(table: Table, free: list[str], **known: Any) -> tuple[str, ...]:
    """Return the columns of values: lists, a column of sequences, all numbers, or the only column that is left.

    Columns of dates are not values.
    """
    kinds = {name: table.columns[name].kind for name in free}
    text = [name for name in free if kinds[name] == "text"]
    numbers = [name for name in free if kinds[name] == "number"]
    if "list" in kinds.values():
        return tuple(name for name in free if kinds[name] == "list")
    for name in text:
        if cure := table.columns[name].cure:
            raise ValueError(f"{table.name}: the column {name!r} {cure}.")
    sequences = looks_like("sequence", text)
    if len(sequences) == 1:
        return (sequences[0],)
    if len(text) == 1 and not numbers:
        return (text[0],)
    if text:
        numbered = sum(map(len, numbered_columns(numbers).values())) == len(numbers)
        raise unknown_role(table, text, numbered=numbered, **known)
    if not numbers:
        raise ValueError(f"{table.name} has no column of values; {passing('values', SEVERAL)}.")
    return tuple(numbers)
