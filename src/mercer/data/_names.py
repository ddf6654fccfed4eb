"""Names that people give to the columns of tables and the keys of headers, and the roles that they tell."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Names in lower case without signs; an earlier group of names wins over a later one.
_SUBJECTS = "subject subjectid patient patientid participant participantid person personid donor donorid"
NAMES: dict[str, tuple[str, ...]] = {
    "id": (
        "id",
        "ids seriesid sequenceid seqid sampleid recordingid caseid trialid sessionid episodeid trackid uid uuid "
        "recording series sample case trial session episode track accession file filename name",
        _SUBJECTS + " user userid customer customerid unit unitid device deviceid",
    ),
    "time": (
        "time",
        "t timestamp timestamps datetime date times timestep step frame tick elapsed timesec timeseconds timems "
        "seconds sec milliseconds ms minutes hours",
        "second minute hour day week month year",
    ),
    "label": ("label", "labels class classes classlabel classname category diagnosis", "y"),
    "target": ("target", "targets response outcome"),
    "group": ("group", "groups family familyid gene geneid cluster clusterid", _SUBJECTS),
    "channel": ("channel", "variable channelname channelid dimension dim dimid sensor sensorname signal feature kind"),
    "sequence": ("sequence", "seq text document sentence review message abstract string dna rna protein peptide"),
}
_ENDS = {"id": r"[a-z0-9](?:[\s_.\-]+[iI][dD]|I[dD])$", "time": r"(?i)[\s_.\-](?:date|datetime|timestamp)$"}
"""Ends of names that tell a role: machine_id, engineID, "visit date"."""


def plain(name: str) -> str:
    """Return a name in lower case without signs: "Subject_ID" and "subject id" are "subjectid"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def looks_like(role: str, names: Iterable[str]) -> list[str]:
    """Return the columns that look like a role, those of its best names only."""
    names = list(names)
    axes = {"x", "y"} <= {plain(name) for name in names}  # y is a coordinate then, not a label
    for level in NAMES[role]:
        known = level.split()
        found = [name for name in names if plain(name) in known and not (axes and plain(name) == "y")]
        if found:
            return found
    return [name for name in names if role in _ENDS and re.search(_ENDS[role], name)]


def telling(names: Iterable[str]) -> dict[str, str]:
    """Return the roles id, time, label and target that the names of columns tell, with the first column of each."""
    names = list(names)
    found = {role: looks_like(role, names) for role in ("id", "time", "label", "target")}
    return {role: columns[0] for role, columns in found.items() if columns}
