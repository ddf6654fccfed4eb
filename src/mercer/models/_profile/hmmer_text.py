"""HMMER3's text format: one profile is a header, three lines per node, and a line "//"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from mercer._array import Floats
from mercer.data import Alphabet
from mercer.data.text import Text, decoded
from mercer.models._profile.nodes import GROUPS, TRANSITIONS

FORMATS = ("HMMER3/f", "HMMER3/e", "HMMER3/d", "HMMER3/c", "HMMER3/b")
"""Formats that are read; "f" is written. Older ones have fewer columns of annotation."""
ALPHABETS = {"amino": "protein", "dna": "dna", "rna": "rna"}
COLUMNS = {"f": "map consensus reference mask structure", "e": "map consensus reference structure"}
"""Annotation of a node, after its match emissions; formats before "e" have no consensus."""
TEXTS = {"NAME": "name", "ACC": "accession", "DESC": "description", "DATE": "date"}
WHOLE = {"MAXL": "max_length", "NSEQ": "n_sequences", "CKSUM": "checksum"}
FLAGS = {"MAP": "map", "CONS": "consensus", "RF": "reference", "MM": "mask", "CS": "structure"}
CUTOFFS = ("GA", "TC", "NC")
PER_LINE = 3
TOLERANCE = 2e-3
"""How far a row may be from a sum of one: numbers in files have a few digits."""


@dataclass
class Profile:
    """One profile of a file."""

    match: Floats
    """``(M, k)``."""
    insert: Floats
    """``(M + 1, k)``."""
    transitions: Floats
    """``(M + 1, 7)``."""
    alphabet: Alphabet
    annotations: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Read profiles line by line; every problem is an error that names the line."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.lines = decoded(text.raw).split("\n")
        self.at = 0

    def profiles(self) -> Iterator[Profile]:
        """Yield every profile of the file."""
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

    # -- header ------------------------------------------------------------------------------------------

    def _profile(self) -> Profile:
        words = self._next("a header")
        if words[0] not in FORMATS:
            known = "HMMER2 or binary" if words[0].startswith("HMMER2") else "another"
            self._fail(
                f"a profile must begin with HMMER3/f; got {words[0]!r}, of {known} format. Convert the file by "
                "hmmconvert."
            )
        version = words[0][-1]
        columns = COLUMNS.get(version, "map reference structure").split()
        head = self._header()
        n_nodes, alphabet = head.pop("n_nodes"), head.pop("alphabet")
        symbols = list(alphabet.symbols)
        letters = [x.upper() for x in self.lines[self.at - 1].split()[1:]]
        if letters != symbols:
            self._fail(f"the letters must be {''.join(symbols)}, in this order; got {' '.join(letters)!r}.")
        arrows = self._next("the names of the transitions")
        if tuple(arrows) != TRANSITIONS:
            self._fail(f"the transitions must be {' '.join(TRANSITIONS)!r}; got {' '.join(arrows)!r}.")
        return self._nodes(n_nodes, alphabet, columns, head)

    def _header(self) -> dict[str, Any]:
        """Read the lines up to that of the letters."""
        found: dict[str, Any] = {"flags": set()}
        while True:
            words = self._next("the line HMM")
            key, rest = words[0], words[1:]
            if key == "HMM":
                break
            if key == "//":
                self._fail("the profile ends before its nodes; it is damaged.")
            self._entry(found, key, rest)
        for key, name in (("LENG", "n_nodes"), ("ALPH", "alphabet"), ("NAME", "name")):
            if name not in found:
                self._fail(f"the header of the profile has no line {key}; add it.")
        return found

    def _entry(self, found: dict[str, Any], key: str, rest: list[str]) -> None:
        if not rest:
            self._fail(f"the line {key} has no value.")
        if key in TEXTS:
            found[TEXTS[key]] = " ".join(rest)
        elif key in WHOLE:
            found[WHOLE[key]] = self._whole(key, rest[0])
        elif key == "LENG":
            found["n_nodes"] = self._whole(key, rest[0])
            if found["n_nodes"] < 1:
                self._fail(f"LENG must be 1 or more; got {rest[0]}.")
        elif key == "ALPH":
            if rest[0].lower() not in ALPHABETS:
                self._fail(f"ALPH must be amino, DNA or RNA; got {rest[0]!r}.")
            found["alphabet"] = Alphabet.of(ALPHABETS[rest[0].lower()])
        elif key in FLAGS:
            if rest[0].lower() == "yes":
                found["flags"].add(FLAGS[key])
        elif key == "EFFN":
            found["effective_number"] = self._number(key, rest[0])
        elif key in CUTOFFS:
            found.setdefault("cutoffs", {})[key] = [self._number(key, x.rstrip(";")) for x in rest[:2]]
        elif key == "STATS":
            if len(rest) != 4:
                self._fail(f"STATS must have two words and two numbers; got {' '.join(rest)!r}.")
            found.setdefault("stats", {})[" ".join(rest[:2])] = [self._number(key, x) for x in rest[2:]]
        else:  # COM, and lines of later versions
            found.setdefault("lines", []).append([key, " ".join(rest)])

    def _whole(self, key: str, word: str) -> int:
        if not word.isdecimal():
            self._fail(f"{key} must be a whole number; got {word!r}.")
        return int(word)

    def _number(self, key: str, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            self._fail(f"{key} must be a number; got {word!r}.")
        return value

    # -- nodes -------------------------------------------------------------------------------------------

    def _nodes(self, m: int, alphabet: Alphabet, columns: list[str], head: dict[str, Any]) -> Profile:
        k, flags = len(alphabet), head.pop("flags")
        words = self._next("node 0")
        if words[0] == "COMPO":
            head["composition"] = self._row(words[1:], k, "COMPO", (slice(None),)).tolist()
            words = self._next("the insert emissions of node 0")
        insert, transitions, match, notes = [self._row(words, k, "node 0", (slice(None),))], [], [], []
        transitions.append(self._row(self._next("the transitions of node 0"), 7, "node 0", GROUPS))
        for node in range(1, m + 1):
            what = f"node {node} of {m}"
            words = self._next(what)
            if words[0] != str(node):
                self._fail(f"{what} must follow; got {words[0]!r}. The profile is damaged, or LENG is wrong.")
            match.append(self._row(words[1 : k + 1], k, what, (slice(None),)))
            notes.append(words[k + 1 :])
            insert.append(self._row(self._next(f"the insert emissions of {what}"), k, what, (slice(None),)))
            transitions.append(self._row(self._next(f"the transitions of {what}"), 7, what, GROUPS))
        end = self._next("//")
        if end[0] != "//":
            self._fail(f"'//' must follow node {m}; got {end[0]!r}. The profile is damaged, or LENG is wrong.")
        for i, name in enumerate(columns):
            if name in flags:
                head[name] = self._notes(notes, i, name)
        return Profile(np.array(match), np.array(insert), np.array(transitions), alphabet, head)

    def _notes(self, notes: list[list[str]], i: int, name: str) -> Any:
        """Return one column of annotation: columns of the alignment, or a string with a letter per node."""
        short = next((node for node, words in enumerate(notes, start=1) if len(words) <= i), None)
        if short is not None:
            self._fail(f"node {short} has no {name} annotation, but the header says that there is one.")
        column = [words[i] for words in notes]
        if name != "map":
            return "".join(word[0] for word in column)
        return [int(word) if word.isdecimal() else 0 for word in column]

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


# -- writing ---------------------------------------------------------------------------------------------


def word_of(alphabet: Alphabet) -> str:
    """Return HMMER's name of an alphabet: amino, DNA or RNA."""
    word = next(word for word, name in ALPHABETS.items() if Alphabet.of(name) == alphabet)
    return word if word == "amino" else word.upper()


def check_notes(notes: dict[str, Any], m: int) -> None:
    """Raise if an annotation of nodes does not have one entry for each of the m nodes."""
    for name in FLAGS.values():
        if notes.get(name) and len(notes[name]) != m:
            raise ValueError(
                f"The annotation {name!r} of the profile {notes['name']!r} must have one entry per node, {m} of them; "
                f"got {len(notes[name])}. Correct it, or leave it out."
            )


def lines_of(profile: Profile) -> Iterator[str]:
    """Yield the lines of one profile in format HMMER3/f."""
    notes, m = profile.annotations, len(profile.match)
    symbols = list(map(str, profile.alphabet.symbols))
    yield "HMMER3/f [mercer]"
    for key in ("NAME", "ACC", "DESC"):
        if notes.get(TEXTS[key]):
            yield f"{key:<5} {' '.join(str(notes[TEXTS[key]]).split())}"  # a line break would damage the file
    yield f"LENG  {m}"
    if "max_length" in notes:
        yield f"MAXL  {notes['max_length']}"
    yield f"ALPH  {word_of(profile.alphabet)}"
    for key in ("RF", "MM", "CONS", "CS", "MAP"):
        yield f"{key:<5} {'yes' if notes.get(FLAGS[key]) else 'no'}"
    if notes.get("date"):
        yield f"DATE  {notes['date']}"
    for key, value in notes.get("lines", []):
        yield f"{key:<5} {value}"
    for key, name in (("NSEQ", "n_sequences"), ("EFFN", "effective_number"), ("CKSUM", "checksum")):
        if name in notes:
            yield f"{key:<5} {notes[name]:.6f}" if key == "EFFN" else f"{key:<5} {notes[name]}"
    for key in CUTOFFS:
        if key in notes.get("cutoffs", {}):
            yield f"{key:<5} {' '.join(f'{x:.2f}' for x in notes['cutoffs'][key])}"
    for key, (location, scale) in notes.get("stats", {}).items():
        first, second = key.split(" ")
        yield f"STATS {first} {second:<8} {location:8.4f} {scale:8.5f}"
    yield "HMM     " + "".join(f"{s:>6}   " for s in symbols)
    yield "        " + "".join(f"{s:>7}  " for s in TRANSITIONS)
    if "composition" in notes:
        yield f"  COMPO {_numbers(notes['composition'])}"
    yield f"        {_numbers(profile.insert[0])}"
    yield f"        {_numbers(profile.transitions[0])}"
    for node in range(1, m + 1):
        at = notes["map"][node - 1] if notes.get("map") else "-"
        marks = (notes[name][node - 1] if notes.get(name) else "-" for name in COLUMNS["f"].split()[1:])
        yield f"{node:>7} {_numbers(profile.match[node - 1])} {at:>6} {' '.join(marks)}"
        yield f"        {_numbers(profile.insert[node])}"
        yield f"        {_numbers(profile.transitions[node])}"
    yield "//"


def _numbers(p: Any) -> str:
    with np.errstate(divide="ignore"):
        logs = np.abs(np.log(np.asarray(p, dtype=float)))
    return " ".join("       *" if np.isinf(x) else f"{x:8.5f}" for x in logs)
