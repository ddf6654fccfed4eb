"""Symbols: the named alphabets, checks of an alphabet, and lookup tables."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Symbol: TypeAlias = str | int
Ambiguous: TypeAlias = tuple[tuple[Symbol, frozenset[Symbol]], ...]

UNREAD = "\ufffd"
"""Printed for a missing character if the alphabet has no letter for it: Unicode's replacement character."""

_PAIRS = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}
_NUCLEOTIDES = _PAIRS | {"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"}
_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
NAMED: dict[str, tuple[str, dict[str, str]]] = {
    "dna": ("ACGT", _NUCLEOTIDES),
    "rna": ("ACGU", {code: set_.replace("T", "U") for code, set_ in _NUCLEOTIDES.items()}),
    "protein": (_AMINO_ACIDS, {"B": "DN", "Z": "EQ", "J": "IL", "X": _AMINO_ACIDS, "U": "C", "O": "K"}),
}


class Codes(NamedTuple):
    """Codes of an alphabet: how each is printed, which symbols it stands for, and how codes are looked up."""

    printed: tuple[Symbol | None, ...]
    sets: tuple[frozenset[Symbol], ...]
    by_symbol: dict[Symbol | None, int]
    bytes: NDArray[np.int32] | None
    """Codes of the first 256 characters, -1 for others; None unless all symbols are single characters."""


def as_symbol(s: Any) -> Symbol:
    """Return a symbol as a plain str or int."""
    if isinstance(s, str):
        return str(s)
    if isinstance(s, int | np.integer | np.bool_):
        if not -(2**63) <= int(s) < 2**63:
            raise ValueError(f"The symbol {s} does not fit into int64; number the symbols from 0.")
        return int(s)
    raise TypeError(f"Symbols must be strings or integers; got {s!r} of type {type(s).__name__}.")


def check_symbols(symbols: tuple[Symbol, ...], ambiguous: Ambiguous) -> None:
    """Raise if symbols and ambiguity codes do not form a valid alphabet."""
    if not symbols:
        raise ValueError("An alphabet must have at least one symbol; got none.")
    codes = dict(ambiguous)
    if len({isinstance(s, str) for s in (*symbols, *codes)}) > 1:
        raise TypeError("The symbols must be all strings or all integers; got both.")
    seen = set[Symbol]()
    for s in symbols:
        if s in seen:
            raise ValueError(f"The symbol {s!r} occurs twice in the alphabet; pass each symbol once.")
        if s == UNREAD or s in codes:
            why = "is reserved for missing characters" if s == UNREAD else "is also an ambiguity code"
            raise ValueError(f"The symbol {s!r} {why}; use another one.")
        seen.add(s)
    for code, set_ in ambiguous:
        if code == UNREAD or not set_ or not set_ <= seen:
            raise ValueError(
                f"The ambiguity code {code!r} stands for {sorted(map(str, set_))}; it must stand for symbols of the "
                "alphabet."
            )


def tabulate(symbols: tuple[Symbol, ...], ambiguous: Ambiguous, fold_case: bool) -> Codes:
    """Assign the codes: symbols, then codes for several but not all symbols, then the code for all."""
    full = frozenset(symbols)
    synonyms = [(code, next(iter(set_))) for code, set_ in ambiguous if len(set_) == 1]
    wild = [code for code, set_ in ambiguous if set_ == full and len(set_) > 1]
    own = [(code, set_) for code, set_ in ambiguous if 1 < len(set_) < len(full)]
    characters = all(isinstance(s, str) and len(s) == 1 for s in (*symbols, *dict(ambiguous)))
    last = wild[0] if wild else UNREAD if characters else None
    printed = (*symbols, *(code for code, _ in own), last)
    by_symbol: dict[Symbol | None, int] = {s: i for i, s in enumerate(printed)}
    by_symbol |= {code: by_symbol[symbol] for code, symbol in synonyms}
    by_symbol |= dict.fromkeys([*wild, None], len(printed) - 1)
    if fold_case:
        for s in [s for s in by_symbol if isinstance(s, str)]:
            by_symbol.setdefault(s.upper(), by_symbol[s])
            by_symbol.setdefault(s.lower(), by_symbol[s])
    sets = (*(frozenset([s]) for s in symbols), *(set_ for _, set_ in own), full)
    first = np.array([by_symbol.get(chr(i), -1) for i in range(256)], dtype=np.int32) if characters else None
    return Codes(printed, sets, by_symbol, first)
