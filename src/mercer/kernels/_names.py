"""Names of explicit features: words of symbols, and tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

MOST_NAMES = 2**22
"""Largest number of columns that are named; a list of names takes about 60 bytes for each."""


def words(symbols: Sequence[Any], k: int, width: int, gap: str | None = None) -> list[str]:
    """Return all words of k symbols in alphabetical order, ``width`` of them; a gap comes after the last symbol."""
    if width > MOST_NAMES:
        raise ValueError(
            f"There are {width:,} features, and at most {MOST_NAMES:,} are named. Choose columns with "
            "sklearn.feature_selection.SelectKBest, or lower k."
        )
    letters = [str(symbol) for symbol in symbols]
    between = "" if all(len(letter) == 1 for letter in letters) else " "
    gaps = [] if gap is None or len(letters) ** k == width else [gap]
    return [between.join(word) for word in product([*letters, *gaps], repeat=k)]


def channels_of(kernel: Any) -> tuple[str, ...] | None:
    """Return the names of the channels of the training data, if they have names."""
    channels: tuple[str, ...] | None = getattr(getattr(kernel, "train_", None), "channels", None)
    return channels


def table(name: str, rows: Sequence[Any], columns: Sequence[Any]) -> list[str]:
    """Return the names of a table's entries, row by row, each with a last one for the sum."""
    return [f"{name}[{row}, {column}]" for row in (*rows, "all") for column in (*columns, "all")]
