"""What a model remembers of its training data, so that new data are read and checked alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from mercer.cli._data_options import Reading
from mercer.data.sequences import Sequences
from mercer.data.text import Records


@dataclass(frozen=True)
class Known:
    """What the training data had, so that new data are read alike."""

    reader: str = ""
    """"fasta", "table", "ts", "ucr" or "svmlight"."""
    is_folder: bool = False
    """Whether there was one file per recording."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """Columns of a table by their role."""
    words: list[str] | None = None
    """Words that are counted in documents, or the number of features of svmlight's format."""
    alphabet: dict[str, Any] | None = None
    """Alphabet of strings, as `Alphabet.to_header` writes it: that of the new strings may look different."""
    step: float | None = None
    """Time between two steps, if it is regular."""
    length: int | None = None
    """Length of all series, if it is the same."""

    @classmethod
    def of(cls, path: Path, reader: str, records: Records) -> Known:
        """Return what these records have."""
        X, is_folder = records.X, not path.is_file()
        if not isinstance(X, Sequences):
            words = list(records.channels) or [str(X.shape[1])]
            return cls(reader, is_folder, records.columns, words)
        alphabet = None if X.alphabet is None else X.alphabet.to_header()
        lengths = np.unique(X.lengths)
        length = int(lengths[0]) if len(lengths) == 1 and alphabet is None else None
        return cls(reader, is_folder, records.columns, None, alphabet, records.step, length)

    @classmethod
    def from_file(cls, saved: Any) -> Known:
        """Return what a saved model says of its training data."""
        given = saved if isinstance(saved, dict) else {}
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})


OWN = ("id", "label-table", "skip-bad")
"""Options of a prediction that say how to read new data; it takes all others from the model."""
_AGAIN = {"p": "fit", "P": "Fit"}


def of_new_data(text: str) -> str:
    """Return what is wrong with new data, with cures that a prediction has."""
    found = re.match(r"--([\w-]+) ('[^']*'|\S+) is not a", text)
    if found:
        name = found[2].strip("'")
        text = f"The model requires {name!r} ({found[1]}), which is not a{text[found.end() :]}"
        cures = {
            "confounds": f" Or pass --label-table with the id and {name!r}.",
            "id": " Pass --id with the column that names the series, or a folder with one file per series.",
        }
        return text + cures.get(found[1], "")
    cure = "pass --skip-bad to skip such records, or fit the model again with --unknown missing."
    text = re.sub(r"(which is not in the alphabet .*); (pass|remove) .*", rf"\1; {cure}", text)
    return re.sub(rf"([pP])ass (?=--(?!{'|'.join(OWN)}))", lambda x: f"{_AGAIN[x[1]]} the model again and pass ", text)


def check_new(path: Path, reader: str, records: Records, reading: Reading, known: Known) -> None:
    """Raise if new series have another time step than the training data, or lost their first value."""
    new, old = records.step, known.step
    if new and old and not reading.time_channel and abs(new - old) > 0.05 * old:  # as much as a regular grid may vary
        raise ValueError(
            f"{path} has time steps of {new:g}, and the model was fitted to steps of {old:g}; pass data with steps of "
            f"{old:g}, or fit the model again with --resample {old:g}, which predict then uses, too."
        )
    if reader == "ucr" and known.length and (records.X.lengths == known.length - 1).all():
        raise ValueError(
            f"{path} has {known.length} numbers in a line, and the first of them would be taken for a label; add a "
            f"first column, such as 0, to the {known.length} values. Predictions do not use it."
        )
