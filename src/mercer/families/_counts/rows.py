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
        raise ValueError(f"trials must be an int of 1 or more, the number of draws; got {trials!r}.")


def checked_words(alphabet: Any, columns: int, what: str) -> Alphabet | None:
    """Return the vocabulary, or None; raise if it does not have one word per column."""
    words = None if alphabet is None else Alphabet.of(alphabet)
    if words is not None and len(words) != columns:
        raise ValueError(f"The vocabulary must have one word per column; got {len(words)} words for {columns} {what}.")
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
    """Raise if a count is negative or missing."""
    check_counts(x, who)
    if bool(namespace(x).any(namespace(x).isnan(x))):
        raise ValueError("A row of counts contains NaN. Fill it in, or leave the row out.")
