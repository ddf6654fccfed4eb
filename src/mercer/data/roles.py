"""Roles of the columns of a table (id, time, label, target, group, values), guessed from their names and contents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np

from mercer._notices import described
from mercer._wording import SEVERAL, option, passing, wording
from mercer.data.columns import Columns

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
        "t timestamp timestamps datetime date times timestep step frame tick elapsed timesec timeseconds timems "
        "seconds sec milliseconds ms minutes hours",
        "second minute hour day week month year epoch",
    ),
    "label": ("label", "labels class classes classlabel classname category diagnosis", "y"),
    "target": ("target", "targets response outcome"),
    "group": ("group", "groups family familyid gene geneid cluster clusterid", _SUBJECTS),
    "channel": ("channel", "variable channelname channelid dimension dim dimid sensor sensorname signal feature kind"),
    "sequence": ("sequence", "seq text document sentence review message abstract string dna rna protein peptide"),
}
_ENDS = {"id": r"[a-z0-9](?:[\s_.\-]+[iI][dD]|I[dD])$", "time": r"(?i)[\s_.\-](?:date|datetime|timestamp)$"}
"""Ends of names that tell a role: machine_id, engineID, "visit date"."""
_CODES = {"id", "ids", "code", "no", "nr", "num", "number", "idx", "index"}
"""Last words of names such as subject_no, person_code and class_id: a role, and how it is counted."""
_ANSWERS = {"label", "labels", "class", "classes", "category", "diagnosis", "outcome"}
"""Last words of names such as true_label, next to another label."""


def plain(name: str) -> str:
    """Return a name in lower case without signs: "Subject_ID" and "subject id" are "subjectid"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def looks_like(role: str, names: Iterable[str]) -> list[str]:
    """Return the columns that look like a role, those of its best names only."""
    names = list(names)
    for level in NAMES[role]:
        found = _named(names, level.split())
        if found:
            return found
    return [name for name in names if _ends_like(role, name)]


def all_like(role: str, names: Iterable[str]) -> list[str]:
    """Return the columns that look like a role, at any level of its names."""
    names = list(names)
    certain = _named(names, _words_of(role))
    return [name for name in names if name in certain or _ends_like(role, name)]


def all_answers(names: Iterable[str], y: str | None = None) -> list[str]:
    """Return the columns that would tell y next to another y: also class_id, label_2, true_label and y_true.

    Names with that of the column ``y`` in them tell it too: gait_score next to gait.
    """
    names = list(names)
    certain = {*all_like("label", names), *all_like("target", names)}
    return [name for name in names if name in certain or _tells_y(name) or (y and _is_about(name, y, names))]


def _named(names: list[str], known: Collection[str]) -> list[str]:
    """Return the names that are known; y is not, where it is a coordinate."""
    axes = {"x", "y"} <= {plain(name) for name in names}
    return [name for name in names if plain(name) in known and not (axes and plain(name) == "y")]


def _words_of(role: str) -> set[str]:
    return {word for level in NAMES[role] for word in level.split()}


def _split(name: str) -> list[str]:
    """Return the words of a name in lower case: "subject_no", "SubjectNo" and "subject no" have two."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _ends_like(role: str, name: str) -> bool:
    """Whether the end of a name tells the role; class_id is a label, not an id."""
    if role not in ("label", "target") and any(_is_coded(y, name) for y in ("label", "target")):
        return False
    return _is_coded(role, name) or (role in _ENDS and re.search(_ENDS[role], name) is not None)


def _is_coded(role: str, name: str) -> bool:
    """Whether a name is one of the role and a code, such as subject_no."""
    *stem, last = _split(name) or [""]
    return last in _CODES and "".join(stem) in _words_of(role) - {"id", "ids", "y", "t"}


def _tells_y(name: str) -> bool:
    words = _split(name)
    if len(words) < 2:
        return False
    known = (_words_of("label") | _words_of("target")) - {"y"}
    numbered = (words[-1].isdigit() or words[-1] == "name") and "".join(words[:-1]) in known
    return numbered or words[0] in _ANSWERS or words[-1] in _ANSWERS or plain(name) in ("ytrue", "ypred")


def _is_about(name: str, y: str, names: list[str]) -> bool:
    """Whether a name has the words of ``y`` and others, such as y_encoded; y_acc next to x_acc is a coordinate."""
    words, own = _split(name), _split(y)
    if not own or len(words) <= len(own) or all(word.isdigit() for word in words[len(own) :]):
        return False  # numbered columns, such as gait1 and gait2, are time steps
    if len(plain(y)) == 1:
        return words[0] == own[0] and not (y == "y" and f"x{plain(name)[1:]}" in {plain(other) for other in names})
    return any(words[i : i + len(own)] == own for i in range(len(words) - len(own) + 1))


Choice: TypeAlias = str | int | bool | None
"""A column by its name, False for none, None to guess it from the names."""


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
    table: Columns,
    *,
    id: str | Iterable[str] | bool | None = None,
    time: Choice = None,
    values: Any = None,
    label: Choice = None,
    target: Choice = None,
    group: Choice = None,
    covariates: Any = None,
    ignore: Any = None,
) -> Roles:
    """Return the roles of the columns: those that are given, and guesses for the others."""
    given = {"time": time, "label": label, "target": target, "group": group}
    ids = _several(table, id, "id")
    beside = _several(table, covariates, "covariates")
    ignored = _several(table, ignore, "ignore")
    others = {*ids, *beside, *ignored, *(str(choice) for choice in given.values())}
    asked = _several(table, values, "values", others)
    listed = tuple(name for name in asked if name not in ignored)
    if asked and not listed:
        raise ValueError(
            f"{table.name}: all columns of {option('values', values)} are ignored; leave out one of the two."
        )
    found: dict[str, str | None] = {
        role: None if choice is None or choice is False else _known(table, choice, role)
        for role, choice in given.items()
    }
    if label not in (None, False) and target not in (None, False):
        raise ValueError(f"{option('label', label)} and {option('target', target)} cannot both be y; pass one of them.")
    taken = {*ids, *listed, *beside, *ignored, *(name for name in found.values() if name is not None)}
    free = [name for name in table.columns if name not in taken and not _is_row_number(table, name)]
    guessed = set()
    if id is None:
        ids = tuple(_guess(table, "id", free))
        guessed |= {"id"} if ids else set()
        free = [name for name in free if name not in ids]
    no_y = found["label"] is None and found["target"] is None
    for role, choice in given.items():
        if choice is None and (role not in ("label", "target") or no_y):
            name = next(iter(_guess(table, role, free)), None)
            free = [x for x in free if x != name]
            if name is None or (role in ("label", "target") and table.columns[name].kind == "empty"):
                continue  # new data often have the column of labels, but no labels
            found[role] = name
            guessed.add(role)
    if no_y and found["label"] and found["target"]:
        raise ValueError(
            f"{table.name}: the columns {found['label']!r} (a class) and {found['target']!r} (a number) could both be "
            f"y; {passing('label', found['label'])} or {option('target', found['target'])}."
        )
    if "id" in guessed:
        used = {*listed, *beside, found["label"], found["target"], found["time"]}
        _check_id(table, ids[0], [name for name in table.columns if name not in used])
    if values is None:
        settled = any(found[role] is not None or given[role] is False for role in ("label", "target"))
        free = _without_roles(table, free, settled, found["label"] or found["target"])
        listed = _guess_values(table, free, ids, settled)
        guessed.add("values")
    return Roles(ids, **found, values=listed, covariates=beside, guessed=frozenset(guessed))


def _check_id(table: Columns, id: str, names: list[str]) -> None:
    """Raise if the series of a guessed id have several values of another column that looks like an id."""
    rows: list[tuple[int, int, str]] = []
    for other in all_like("id", names):
        first: dict[str | None, int] = {}
        texts = table.columns[other].text
        for row, key in enumerate(table.columns[id].text):
            start = row if texts[row] is None else first.setdefault(key, row)
            if key is not None and texts[start] != texts[row]:
                rows.append((start, row, other))
                break
    if not rows:
        return
    start, row, other = rows[0]
    both = [name for name in table.columns if name == id or name in {x for _, _, x in rows}]
    key, values = table.columns[id].text[row], table.columns[other].text
    places = f"{table.place(start)} and {table.place(row)}"
    raise ValueError(
        f"{table.name}: the {id} {key!r} occurs with the {other} {values[start]!r} and {values[row]!r} ({places}); "
        f"{passing('id', both)} if they name a series together, or {option('id', id)} if {id!r} does by itself."
    )


def _without_roles(table: Columns, free: list[str], settled: bool, y: str | None) -> list[str]:
    """Return the columns that may be values by a guess; ``settled`` tells whether y is given, found or excluded.

    A second column that looks like y would tell the answer, and ids, times and groups are not measured.
    """
    others = {name for role in ("id", "time", "label", "target", "group") for name in all_like(role, table.columns)}
    others |= set(all_answers(table.columns, y)) if settled else set()
    others |= {"folder"} if table.files is not None else set()
    return [name for name in free if name not in others and table.columns[name].kind != "empty"]


class UnknownColumn(ValueError):
    """A column that a role asks for is not in the table."""

    def __init__(self, role: str, column: Any, reason: str) -> None:
        super().__init__(f"{option(role, column)} {reason}")
        self.role, self.column, self.reason = role, column, reason


def _known(table: Columns, choice: Any, role: str) -> str:
    """Return a column by its name, or raise."""
    name = str(choice).strip()
    if choice is True or not isinstance(choice, str | int) or name not in table.columns:
        known = described(table.columns, 12)
        raise UnknownColumn(role, choice, f"is not a column of {table.name}; its columns are {known}.")
    return name


def _several(table: Columns, choice: Any, role: str, others: Collection[str] = ()) -> tuple[str, ...]:
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


def _guess(table: Columns, role: str, names: list[str]) -> list[str]:
    """Return the column that looks like a role, in a list; raise if there are several."""
    found = looks_like(role, names)
    if len(found) > 1:
        shown = " and ".join(map(repr, found))
        both = f", or {option(role, found)} if they name a series together" if role == "id" else ""
        raise ValueError(
            f"{table.name}: the columns {shown} could all be the {role}; {passing(role, found[0])}{both}, or "
            f"{option(role, False)} for none."
        )
    return found


def _is_row_number(table: Columns, name: str) -> bool:
    """Whether a column without a name holds the numbers of the rows, as pandas writes them."""
    if not re.fullmatch(r"column 1|Unnamed: ?\d+|index", name) or not table.header:
        return False
    numbers = table.columns[name].numbers
    return bool((numbers[1:] - numbers[:-1] == 1).all() and numbers[:1] in (0.0, 1.0))


def _guess_values(table: Columns, free: list[str], ids: tuple[str, ...], settled: bool) -> tuple[str, ...]:
    """Return the columns of values: a column of sequences, all numbers, or the only column that is left.

    ``settled`` tells whether y is given, found or excluded.
    """
    kinds = {name: table.columns[name].kind for name in free}
    lists = [name for name in free if kinds[name] == "list"]
    if lists:
        return tuple(lists)
    sequences = [x for x in looks_like("sequence", free) if kinds[x] == "text"]
    text = [name for name in free if kinds[name] in ("text", "date")]
    numbers = [name for name in free if kinds[name] == "number"]
    for name in text:
        cure = table.columns[name].mark_cure
        if cure:
            raise ValueError(f"{table.name}: the column {name!r} {cure}.")
    if len(sequences) == 1:
        return (sequences[0],)
    if len(text) == 1 and not numbers and kinds[text[0]] == "text":
        return (text[0],)
    channel = looks_like("channel", text)
    if channel and numbers:
        raise ValueError(
            f"{table.name}: the column {channel[0]!r} ({_first(table, channel[0])}) looks like the name of a channel; "
            "make one column per channel first, as with pandas' df.pivot_table(index=[...], "
            f"columns={channel[0]!r}, values={numbers[-1]!r})."
        )
    if text:
        raise _unknown_role(table, text, ids, settled)
    if not numbers:
        raise ValueError(f"{table.name} has no column of values; {passing('values', SEVERAL)}.")
    return tuple(numbers)


def _unknown_role(table: Columns, names: list[str], ids: tuple[str, ...], settled: bool) -> ValueError:
    """Return the error of columns of text or dates whose names do not tell their role, with an example of a cure."""
    sizes = {}
    for name in names if not settled else ():  # a class has several samples, and a sample has one class
        column = table.columns[name].text
        pairs = set(zip(*(table.columns[x].text for x in ids), column, strict=True))
        if 1 < len(set(column)) < len(pairs) == len({pair[:-1] for pair in pairs} if ids else column):
            sizes[name] = len(set(column))
    label = min(sizes, key=sizes.__getitem__, default=None)
    rest = [name for name in names if name != label]
    example = ([option("label", label)] if label else []) + ([option("ignore", rest)] if rest else [])
    shown = ", ".join(f"{name!r} ({_first(table, name)})" for name in names)
    what = f"the columns {shown} contain" if len(names) > 1 else f"the column {shown} contains"
    return ValueError(
        f"{table.name}: {what} text or dates, and no name among them tells a role; {passing('id')}, "
        f"{option('time')}, {option('label')} or {option('group')} for what is used and {option('ignore')} for the "
        f"others, for example {wording().phrase('between options', ', ').join(example)}."
    )


def _first(table: Columns, name: str) -> str:
    return repr(next((x for x in table.columns[name].text if x is not None), "")[:20])


def looks_long(table: Columns, names: Iterable[str]) -> tuple[str, str] | None:
    """Return two columns that count like an id and a time, whatever their names; None if there are none.

    The first, text or whole numbers, is constant in blocks of rows, each with another value; the second makes equal
    steps within every block.
    """
    whole, texts = {}, {}
    for name in names:
        if table.columns[name].kind == "text":
            codes: dict[str | None, int] = {}
            texts[name] = np.array([codes.setdefault(x, len(codes)) for x in table.columns[name].text], dtype=float)
            continue
        x = table.columns[name].numbers
        if len(x) > 3 and np.isfinite(x).all() and (x == np.round(x)).all():
            whole[name] = x
    for name, x in (whole | texts).items():
        starts = np.flatnonzero(np.diff(x) != 0) + 1
        sizes = np.diff([0, *starts, len(x)])
        if not len(starts) or len(np.unique(x)) != len(sizes) or sizes.min() < 2 or sizes.max() < 3:
            continue
        inside = np.ones(len(x) - 1, dtype=bool)
        inside[starts - 1] = False
        for other, t in whole.items():
            within, between = np.diff(t)[inside], np.diff(t)[~inside]
            if other != name and within[0] > 0 and (within == within[0]).all() and (between < 0).all():
                return name, other
    return None
