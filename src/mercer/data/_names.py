"""Names that people give to the columns of tables and the keys of headers, and the roles that they tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

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


def telling(names: Iterable[str]) -> dict[str, str]:
    """Return the roles id, time, label and target that the names of columns tell, with the first column of each."""
    names = list(names)
    found = {role: looks_like(role, names) for role in ("id", "time", "label", "target")}
    return {role: columns[0] for role, columns in found.items() if columns}


def _named(names: list[str], known: Collection[str]) -> list[str]:
    """Return the names that are known; y is not, where it is a coordinate."""
    axes = _axes(names)
    return [name for name in names if plain(name) in known and not (axes and plain(name) == "y")]


def _axes(names: list[str]) -> bool:
    """Whether y is a coordinate, next to x, and not a label."""
    return {"x", "y"} <= {plain(name) for name in names}


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
    stem = "".join(words[:-1])
    numbered = (words[-1].isdigit() or words[-1] == "name") and stem in (_words_of("label") | _words_of("target")) - {
        "y"
    }
    return numbered or words[0] in _ANSWERS or words[-1] in _ANSWERS or plain(name) in ("ytrue", "ypred")


def _is_about(name: str, y: str, names: list[str]) -> bool:
    """Whether a name has the words of ``y`` and others, such as y_encoded; y_acc next to x_acc is a coordinate."""
    words, own = _split(name), _split(y)
    if not own or len(words) <= len(own) or all(word.isdigit() for word in words[len(own) :]):
        return False  # numbered columns, such as gait1 and gait2, are time steps
    if len(plain(y)) == 1:
        return words[0] == own[0] and not (y == "y" and f"x{plain(name)[1:]}" in {plain(other) for other in names})
    return any(words[i : i + len(own)] == own for i in range(len(words) - len(own) + 1))
