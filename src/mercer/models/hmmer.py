"""Files of profile hidden Markov models in HMMER's text format.

One profile is a header, three lines per node (match emissions and text, insert emissions, transitions), and "//".
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mercer._array import Floats, safe_log
from mercer._atomic import replacing
from mercer._files import check_path, check_target
from mercer.data import Alphabet
from mercer.data.text import Source, Text, decoded, read_text
from mercer.models._profile.nodes import GROUPS, TRANSITIONS
from mercer.models.profile_hmm import ProfileHMMs

COLUMNS = {"f": 5, "e": 4}
"""Number of words of text of a node, by format: map, consensus, reference, mask, structure; "e" has no mask, older ones
no consensus either."""
FORMATS = tuple(f"HMMER3/{version}" for version in "fedcb")
ALPHABETS = {"AMINO": "protein", "DNA": "dna", "RNA": "rna"}
FLAGS = ("RF", "MM", "CONS", "CS", "MAP")
"""Lines that say which words of text the nodes have."""
NAMES = {"NAME": "name", "ACC": "accession", "DESC": "description"}
TOLERANCE = 2e-3
"""How far a row may be from a sum of one: numbers in files have a few digits."""
ONE_GROUP = (slice(None),)


def read_hmmer(path: Source) -> ProfileHMMs:
    """Read all profile hidden Markov models of a file in HMMER3's text format, such as Pfam's.

    Parameters
    ----------
    path : str, path or open file
        A plain or gzipped file with one or more profiles of one alphabet (amino, DNA or RNA).

    Returns
    -------
    ProfileHMMs of shape (N,)
        Its ``annotations`` have the name, accession and description of every profile, the other lines of its header,
        and the columns of text of its nodes. Rows of probabilities are divided by their sums, since numbers in files
        have five digits.

    See Also
    --------
    write_hmmer : Write profiles.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mercer as mc
    >>> profiles = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
    >>> with TemporaryDirectory() as folder:
    ...     mc.models.write_hmmer(profiles, Path(folder, "tiny.hmm"))
    ...     mc.models.read_hmmer(Path(folder, "tiny.hmm"))
    ProfileHMMs(shape=(1,), 4 nodes, alphabet=Alphabet.of('dna'), mode='local')
    """
    text = read_text(path, "HMMER3", "profile")
    found = list(_Reader(text).profiles())
    words = list(dict.fromkeys(profile["ALPH"] for profile in found))  # in the order of the file
    if len(words) > 1:
        raise ValueError(
            f"{text.name} has profiles of two alphabets, {words[0]} and {words[1]}. Split it into one file each."
        )
    arrays: dict[str, Any] = {
        name: [profile[name] for profile in found] for name in ("match", "insert", "transitions", "annotations")
    }
    return ProfileHMMs(**arrays, alphabet=ALPHABETS[words[0].upper()])


def write_hmmer(profiles: ProfileHMMs, path: str | os.PathLike[str]) -> None:
    """Write profile hidden Markov models to a file in HMMER3's text format (HMMER3/f).

    HMMER's programs read the file. Those that report E-values need the STATS lines of a file that HMMER wrote, which
    are kept; of other profiles, ``hmmbuild`` or pyhmmer can calibrate them.

    Parameters
    ----------
    profiles : ProfileHMMs
        Profiles of proteins, DNA or RNA. The format has no place for the mode, the length and the background.
    path : str or path
        The file to write; gzipped if it ends in ``.gz``. An existing file is replaced when the new one is complete.

    See Also
    --------
    read_hmmer : Read profiles.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mercer as mc
    >>> profiles = mc.ProfileHMM().fit(["MK-LW", "MRYLW"]).model_
    >>> with TemporaryDirectory() as folder:
    ...     mc.models.write_hmmer(profiles, Path(folder, "tiny.hmm"))
    ...     print(Path(folder, "tiny.hmm").read_text()[:53])
    HMMER3/f [mercer]
    NAME  profile_0
    LENG  5
    ALPH  amino
    """
    if not isinstance(profiles, ProfileHMMs):
        raise TypeError(f"profiles must be ProfileHMMs; got {profiles!r}. Use the model_ of a fitted ProfileHMM.")
    check_path(path)
    check_target(Path(path), os.fspath(path))
    if not len(profiles.match):
        raise ValueError("profiles must have at least one profile; got none, and HMMER reads no empty file.")
    words = {Alphabet.of(name): word for word, name in ALPHABETS.items()}
    if profiles.alphabet not in words:
        raise ValueError(
            f"HMMER's format is for proteins, DNA and RNA; got the alphabet {profiles.alphabet.describe()}. Use "
            "mc.save."
        )
    lines = [line for i in range(len(profiles.match)) for line in _lines(profiles, i, words[profiles.alphabet])]
    raw = ("\n".join(lines) + "\n").encode()
    with replacing(path) as file:
        file.write(gzip.compress(raw) if os.fspath(path).endswith(".gz") else raw)


class _Reader:
    """Read profiles line by line; every problem is an error that names the line."""

    def __init__(self, text: Text) -> None:
        self.text, self.at = text, 0
        self.lines = decoded(text.raw).split("\n")

    def profiles(self) -> Iterator[dict[str, Any]]:
        """Yield the arrays, the annotations and the alphabet of every profile."""
        while self._skip_blank():
            yield self._profile()

    def _fail(self, sentence: str) -> NoReturn:
        raise self.text.error(min(self.at, len(self.lines)), sentence)

    def _skip_blank(self) -> bool:
        while self.at < len(self.lines) and not self.lines[self.at].strip():
            self.at += 1
        return self.at < len(self.lines)

    def _next(self, what: str) -> list[str]:
        """Return the words of the next line that is not blank."""
        if not self._skip_blank():
            self._fail(f"the file ends, but {what} must follow; it is cut short. Download or copy it again.")
        self.at += 1
        return self.lines[self.at - 1].split()

    def _profile(self) -> dict[str, Any]:
        first = self._next("a header")[0]
        if first not in FORMATS:
            self._fail(f"a profile must begin with HMMER3/f; got {first!r}. Convert the file by hmmconvert.")
        head, notes = self._header()
        if not head["LENG"].isdecimal() or int(head["LENG"]) < 1:
            self._fail(f"LENG must be a whole number, 1 or more; got {head['LENG']!r}.")
        if head["ALPH"].upper() not in ALPHABETS:
            self._fail(f"ALPH must be amino, DNA or RNA; got {head['ALPH']!r}.")
        symbols = list(map(str, Alphabet.of(ALPHABETS[head["ALPH"].upper()]).symbols))
        letters = [word.upper() for word in self.lines[self.at - 1].split()[1:]]
        if letters != symbols:
            self._fail(f"the letters must be {''.join(symbols)}, in this order; got {' '.join(letters)!r}.")
        arrows = self._next("the names of the transitions")
        if tuple(arrows) != TRANSITIONS:
            self._fail(f"the transitions must be {' '.join(TRANSITIONS)!r}; got {' '.join(arrows)!r}.")
        match, insert, transitions = self._nodes(int(head["LENG"]), len(symbols), COLUMNS.get(first[-1], 3), notes)
        return {
            "match": match,
            "insert": insert,
            "transitions": transitions,
            "annotations": notes,
            "ALPH": head["ALPH"],
        }

    def _header(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Read the lines up to that of the letters; return those that are needed, and the annotations."""
        head: dict[str, str] = {}
        notes: dict[str, Any] = {"lines": []}
        while (words := self._next("the line HMM"))[0] != "HMM":
            key, value = words[0], " ".join(words[1:])
            if key == "//":
                self._fail("the profile ends before its nodes; it is damaged.")
            if not value:
                self._fail(f"the line {key} has no value.")
            if key in ("LENG", "ALPH"):
                head[key] = value
            elif key in NAMES:
                notes[NAMES[key]] = value
            else:
                notes["lines"].append([key, value])
        for key in ("LENG", "ALPH", "NAME"):
            if key not in head and NAMES.get(key) not in notes:
                self._fail(f"the header of the profile has no line {key}; add it.")
        return head, notes

    def _nodes(self, m: int, k: int, columns: int, notes: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
        words = self._next("node 0")
        if words[0] == "COMPO":
            notes["composition"] = self._row(words[1:], k, "COMPO", ONE_GROUP).tolist()
            words = self._next("the insert emissions of node 0")
        match, insert = [], [self._row(words, k, "node 0", ONE_GROUP)]
        transitions = [self._row(self._next("the transitions of node 0"), 7, "node 0", GROUPS)]
        notes["nodes"] = []
        for node in range(1, m + 1):
            what = f"node {node} of {m}"
            words = self._next(what)
            if words[0] != str(node):
                self._fail(f"{what} must follow; got {words[0]!r}. The profile is damaged, or LENG is wrong.")
            text = words[k + 1 :]
            if len(text) < columns:
                self._fail(f"{what} must have {columns} words after its {k} numbers; got {len(text)}.")
            mask, consensus = ["-"] * (columns < 5), ["-"] * (columns < 4)
            notes["nodes"].append([text[0], *consensus, *text[1 : columns - 1], *mask, text[columns - 1]])
            match.append(self._row(words[1 : k + 1], k, what, ONE_GROUP))
            insert.append(self._row(self._next(f"the insert emissions of {what}"), k, what, ONE_GROUP))
            transitions.append(self._row(self._next(f"the transitions of {what}"), 7, what, GROUPS))
        end = self._next("//")
        if end[0] != "//":
            self._fail(f"'//' must follow node {m}; got {end[0]!r}. The profile is damaged, or LENG is wrong.")
        return np.array(match), np.array(insert), np.array(transitions)

    def _row(self, words: list[str], count: int, what: str, groups: tuple[slice, ...]) -> Floats:
        """Return probabilities from negative natural logarithms, "*" for zero; every group sums to one."""
        if len(words) != count:
            self._fail(f"{what} must have {count} numbers here; got {len(words)}.")
        values = np.empty(count)
        for j, word in enumerate(words):
            try:
                values[j] = np.inf if word == "*" else float(word)
            except ValueError:
                values[j] = np.nan
            if not values[j] >= 0 or (word != "*" and np.isinf(values[j])):
                self._fail(f"{what} has {word!r} where a negative log probability, 0 or more, or * must be.")
        p = np.exp(-values)
        for group in groups:
            total = p[group].sum()
            if not abs(total - 1) <= TOLERANCE:
                self._fail(f"the probabilities of {what} sum to {total:.4g}, not to one. The profile is damaged.")
            p[group] /= total
        return p


def _lines(profiles: ProfileHMMs, i: int, word: str) -> Iterator[str]:
    """Yield the lines of one profile in format HMMER3/f."""
    (match, insert, transitions), m = profiles.nodes(i), int(profiles.n_nodes.ravel()[i])
    notes = profiles.annotations.dictionaries()[i] | {"name": profiles.names[i]}
    nodes = notes.get("nodes") or [["-"] * 5] * m
    if len(nodes) != m:
        raise ValueError(
            f"The annotation 'nodes' of the profile {notes['name']!r} must have one entry per node, {m} of them; got "
            f"{len(nodes)}. Correct it, or leave it out."
        )
    yield "HMMER3/f [mercer]"
    for key, name in NAMES.items():
        if notes.get(name):
            yield f"{key:<5} {' '.join(str(notes[name]).split())}"  # a line break would damage the file
    yield f"LENG  {m}"
    yield f"ALPH  {word.lower() if word == 'AMINO' else word}"
    given = notes.get("lines", [])
    flags = dict.fromkeys(FLAGS, "no") | dict(given) | {"CONS": "yes"}
    yield from (f"{key:<5} {flags[key]}" for key in FLAGS)
    yield from (f"{key:<5} {' '.join(value.split())}" for key, value in given if key not in FLAGS)
    yield "HMM     " + "".join(f"{symbol:>6}   " for symbol in profiles.alphabet.symbols)
    yield "        " + "".join(f"{arrow:>7}  " for arrow in TRANSITIONS)
    if "composition" in notes:
        yield f"  COMPO {_numbers(notes['composition'])}"
    yield f"        {_numbers(insert[0])}"
    yield f"        {_numbers(transitions[0])}"
    for node, letter in enumerate(profiles.consensus[i], start=1):
        place, consensus, *others = nodes[node - 1]
        text = " ".join([letter if consensus == "-" else consensus, *others])
        yield f"{node:>7} {_numbers(match[node - 1])} {place:>6} {text}"
        yield f"        {_numbers(insert[node])}"
        yield f"        {_numbers(transitions[node])}"
    yield "//"


def _numbers(p: Any) -> str:
    logs = np.abs(safe_log(np.asarray(p, dtype=float)))
    return " ".join("       *" if np.isinf(x) else f"{x:8.5f}" for x in logs)
