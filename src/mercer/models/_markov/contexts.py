"""Contexts of different lengths: the rows of a Markov chain that are one (remark 12.33 of the source; FK-6)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._checks import is_listing, is_whole
from mercer.data import Alphabet, Sequences
from mercer.models._markov.counts import transitions_of

Words = tuple[Any, ...]
"""Contexts: strings, or tuples of symbols if a symbol has several characters; the shortest first."""

LONGEST = 5
"""Largest order of a chain."""


class Tie(NamedTuple):
    """The rows of a table of contexts of ``order`` symbols that are the same row.

    Parameters
    ----------
    row : ndarray of shape (k^order,)
        The kept context of every full context, numbered from 0 to U - 1; kept contexts that no full one falls back to
        are left out.
    first : ndarray of shape (U,)
        The first full context of every kept one.
    kept : tuple
        The U kept contexts.
    """

    row: Indices
    first: Indices
    kept: Words

    def summed(self, table: Floats) -> Floats:
        """Add up the counts of full contexts, ``(n, k^order, w)``, per kept context, ``(n, U, w)``."""
        out = np.zeros((len(self.first), table.shape[0], table.shape[2]))
        np.add.at(out, self.row, np.moveaxis(table, 1, 0))
        return np.moveaxis(out, 0, 1)


def check_contexts(name: str, value: Any) -> None:
    """Raise unless ``value`` is None, a smallest count, or contexts with the empty one among them."""
    if value is None or is_whole(value, 1):
        return
    if isinstance(value, str | bytes) or not is_listing(value):
        raise TypeError(
            f"{name} must be None, the smallest count of a context (1 or more), or a list of contexts such as "
            f"['', 'a', 'ba']; got {value!r}."
        )
    if not any(len(word) == 0 for word in value if hasattr(word, "__len__")):
        raise ValueError(
            f"{name} must include the empty context, for positions where no longer one is a suffix of the past; got "
            f"{list(value)!r}. Add ''."
        )


def canonical(contexts: Any, alphabet: Alphabet, order: int) -> Words:
    """Return given contexts without repetitions, in the order of their lengths and of the alphabet."""
    check_contexts("contexts", contexts)
    k, found = len(alphabet), set()
    for i, word in enumerate(contexts):
        codes = tuple(alphabet.encode(word, unknown="missing").tolist()) if len(word) else ()
        if len(codes) > order:
            cure = f"Use order={len(codes)}, or leave it out" if len(codes) <= LONGEST else "Leave it out"
            raise ValueError(f"contexts[{i}] = {word!r} has {len(codes)} symbols, more than order = {order}. {cure}.")
        if any(code >= k for code in codes):
            raise ValueError(
                f"contexts[{i}] = {word!r} contains a symbol that is not in the alphabet {alphabet}, or stands for "
                "several. Use plain symbols of the alphabet."
            )
        found.add((len(codes), codes))
    return tuple(_word(codes, alphabet) for _, codes in sorted(found))


def _word(codes: Any, alphabet: Alphabet) -> Any:
    symbols = tuple(alphabet.symbols[code] for code in codes)
    return "".join(symbols) if _are_letters(alphabet) else symbols


def _are_letters(alphabet: Alphabet) -> bool:
    return all(isinstance(symbol, str) and len(symbol) == 1 for symbol in alphabet.symbols)


def from_header(values: Any) -> Words:
    """Read contexts from the header of a file."""
    return tuple(value if isinstance(value, str) else tuple(value) for value in values)


def frequent(X: Sequences, alphabet: Alphabet, order: int, end: bool, least: int) -> Words:
    """Return the contexts of up to ``order`` symbols that come before at least ``least`` symbols or ends of ``X``."""
    k, found = len(alphabet), [_word((), alphabet)]
    for length in range(1, order + 1):
        _, window, _ = transitions_of(X.values, X.offsets, k, length, end)
        code, count = np.unique(window // (k + end), return_counts=True)
        digits = k ** np.arange(length - 1, -1, -1)
        found += [_word((c // digits % k).tolist(), alphabet) for c in code[count >= least]]
    return tuple(found)


def tie_of(contexts: Words, alphabet: Alphabet, order: int) -> Tie:
    """Return which rows of all contexts of ``order`` symbols are one: those with the same longest kept suffix."""
    return _tie(contexts, tuple(alphabet.symbols), order)


@lru_cache(maxsize=16)
def _tie(contexts: Words, symbols: tuple[Any, ...], order: int) -> Tie:
    k, code = len(symbols), {symbol: i for i, symbol in enumerate(symbols)}
    past, longest = np.arange(k**order), np.full(k**order, -1)
    for length in range(order + 1):  # longer suffixes replace shorter ones
        kept = np.full(k**length, -1)
        for i, word in enumerate(contexts):
            if len(word) == length:
                kept[sum(code[s] * k ** (length - 1 - j) for j, s in enumerate(word))] = i
        found = kept[past % k**length]
        longest = np.where(found >= 0, found, longest)
    used, first, row = np.unique(longest, return_index=True, return_inverse=True)
    for array in (first, row):
        array.setflags(write=False)
    return Tie(row, first, tuple(contexts[i] for i in used))
