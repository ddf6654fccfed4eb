"""Rows of counts, dense or CSR, for the distributions of word counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Array, as_float, namespace
from mercer._checks import is_whole
from mercer.data import Alphabet
from mercer.data.csr import CSRRows
from mercer.families.domains import check_counts


def check_trials(trials: Any) -> None:
    """Raise unless ``trials`` is a number of draws."""
    if not is_whole(trials):
        raise ValueError(f"trials = {trials!r}: give the number of draws, 1 or more, as an int")


def checked_words(alphabet: Any, columns: int, what: str) -> Alphabet | None:
    """Return the vocabulary, None where there is none, or raise where it has not one word for every column."""
    words = None if alphabet is None else Alphabet.of(alphabet)
    if words is not None and len(words) != columns:
        raise ValueError(f"{columns} {what} for a vocabulary of {len(words)} words: give one word per column")
    return words


def unpacked_words(shared: dict[str, Any]) -> dict[str, Any]:
    """Return shared values with the vocabulary of a file's header; there may be none."""
    words = shared.get("alphabet")
    return shared | {"alphabet": None if words is None else Alphabet.from_header(words)}


def dense_counts(x: Any) -> Array:
    """Return counts as a dense array of floats."""
    if sparse.issparse(x):
        return np.asarray(sparse.csr_array(x).toarray(), dtype=float)
    return x.dense() if isinstance(x, CSRRows) else as_float(x)


def check_rows(x: Array, who: str) -> None:
    """Raise where a count is negative or was not observed."""
    check_counts(x, who)
    if bool(namespace(x).any(namespace(x).isnan(x))):
        raise ValueError("a row of counts holds NaN: give all of its counts, or leave it out")
