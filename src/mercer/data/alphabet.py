"""Alphabets: symbols, ambiguity codes, and the encoding of sequences as integers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import as_array
from mercer._checks import is_listing
from mercer._immutable import Immutable
from mercer._notices import notify
from mercer._parameters import NONE, Rule, boolean, check, one_of
from mercer._wording import option, passing, wording
from mercer.data._forms import Kind, Problem, code_points, flatten, read_item
from mercer.data._symbols import (
    NAMED,
    UNREAD,
    Ambiguous,
    Codes,
    Symbol,
    as_symbol,
    check_symbols,
    tabulate,
)

LONGEST_SHOWN = 20
"""Number of characters of a symbol shown in messages; a wrongly nested symbol may be a whole sequence."""


class Alphabet(Immutable):
    """A finite, ordered set of symbols with optional ambiguity codes.

    Alphabets are immutable and hashable, and compare equal if their content is equal. Codes ``0 .. k-1`` are the
    symbols in the given order, followed by the sorted ambiguity codes. The last code, `missing`, stands for any symbol.

    Parameters
    ----------
    symbols : iterable of str or iterable of int
        Single characters, tokens or integers, all distinct.
    ambiguous : mapping, optional
        Maps each ambiguity code to the set of symbols that it may stand for. A code for one symbol is a synonym of
        it; a code for all symbols is read as `missing`.
    fold_case : bool, optional
        Whether to look up a string that is not a symbol in upper and lower case. True for the named alphabets,
        False by default for others.

    Attributes
    ----------
    symbols : tuple
        The symbols, in the order of their codes.
    ambiguous : tuple of pairs
        Ambiguity codes with their sets, sorted.
    fold_case : bool
        Whether case is folded.

    Notes
    -----
    `Alphabet.of` provides "dna", "rna" and "protein" with the IUPAC codes. DNA does not contain U, and RNA does not
    contain T. In proteins, U (selenocysteine) is read as C and O (pyrrolysine) as K, as in HMMER. Gaps (``-`` and
    ``.``) and stops (``*``) are not residues and are unknown in all three: remove them, or read them as missing
    with ``unknown="missing"``.

    Examples
    --------
    >>> from mercer.data import Alphabet
    >>> dna = Alphabet.of("dna")
    >>> dna
    Alphabet.of('dna')
    >>> dna.encode("ACgtN")
    array([ 0,  1,  2,  3, 14], dtype=int32)
    >>> dna.membership[dna.encode("R")]
    array([[1., 0., 1., 0.]])
    >>> Alphabet(["up", "down"]).encode(["down", "up"])
    array([1, 0], dtype=int32)
    """

    __slots__ = ("_ambiguity", "_codes", "_membership", "ambiguous", "fold_case", "symbols")
    symbols: tuple[Symbol, ...]
    ambiguous: Ambiguous
    fold_case: bool
    _codes: Codes
    _ambiguity: NDArray[np.float64] | None
    _membership: NDArray[np.float64] | None

    def __init__(
        self,
        symbols: Iterable[Symbol],
        ambiguous: Mapping[Any, Iterable[Symbol]] | None = None,
        fold_case: bool | None = None,
    ) -> None:
        if not is_listing(symbols):
            raise TypeError(f"symbols must be a string or a list of symbols; got {symbols!r}.")
        if not isinstance(ambiguous, Mapping | None):
            raise TypeError(f"ambiguous must be a mapping from codes to sets of symbols; got {ambiguous!r}.")
        for code, members in (ambiguous or {}).items():
            if not is_listing(members):
                raise TypeError(f"ambiguous[{code!r}] must be a string or a list of symbols; got {members!r}.")
        check(boolean() | NONE, fold_case=fold_case)
        known = tuple(as_symbol(s) for s in symbols)
        sets = {as_symbol(c): frozenset(as_symbol(s) for s in set_) for c, set_ in (ambiguous or {}).items()}
        check_symbols(known, tuple(sets.items()))
        pairs = tuple((c, sets[c]) for c in sorted(sets, key=lambda c: (str(type(c)), c)))
        codes = tabulate(known, pairs, bool(fold_case))
        self._fill(symbols=known, ambiguous=pairs, fold_case=bool(fold_case), _codes=codes)
        self._fill(_ambiguity=None, _membership=None)

    @classmethod
    def of(cls, spec: Any) -> Alphabet:
        """Return the alphabet for ``spec``: an Alphabet, "dna", "rna", "protein", or an iterable of symbols.

        The output of `to_header` gives its alphabet, too.
        """
        if isinstance(spec, Alphabet):
            return spec
        if isinstance(spec, Mapping) and spec.keys() == {"symbols", "ambiguous", "fold_case"}:
            return cls.from_header(spec)
        if isinstance(spec, str) and spec.lower() in NAMED:
            return _named(spec.lower())
        if isinstance(spec, str) and len(set(spec)) < len(spec):
            twice = next(s for i, s in enumerate(spec) if s in spec[:i])
            raise ValueError(
                f"alphabet must be 'dna', 'rna', 'protein' or a set of distinct symbols; got {spec!r}, which contains "
                f"{twice!r} twice."
            )
        if not is_listing(spec):
            raise TypeError(
                f"alphabet must be 'dna', 'rna', 'protein', an Alphabet or an iterable of symbols; got {spec!r}."
            )
        return cls(spec)

    @classmethod
    def find(cls, data: Any) -> Alphabet:
        """Return the sorted alphabet of the symbols in ``data``, which may have any form that `Sequences` accepts.

        Examples
        --------
        >>> from mercer.data import Alphabet
        >>> Alphabet.find(["GATTA", "CC"])
        Alphabet('ACGT')
        """
        if isinstance(getattr(data, "alphabet", None), Alphabet):
            used = {data.alphabet.symbols[c] for c in np.unique(data.values) if c < len(data.alphabet)}
            return cls(sorted(used))
        flat = flatten(data)
        if flat.problems:
            i = min(flat.problems)
            raise flat.problems[i].error(f"sequence {i} {flat.problems[i].text}")
        return cls._found(flat.kind, flat.values)

    @classmethod
    def _found(cls, kind: Kind, values: NDArray[Any]) -> Alphabet:
        """Return the sorted alphabet of flat values."""
        symbols: list[Any]
        if kind == "vectors":
            raise TypeError("X contains real numbers, which have no alphabet; pass strings or integers.")
        if kind == "characters":
            found = np.flatnonzero(np.bincount(values)) if values.dtype == np.uint8 else np.unique(values)
            symbols = [s for s in map(chr, found.tolist()) if s != UNREAD]
            _warn_of_nucleotides(set(symbols))
        elif kind == "integers":
            symbols = np.unique(values).tolist()
        else:
            symbols = sorted(set(values.tolist()) - {None, UNREAD})
        if not symbols:
            raise ValueError(f"X contains no symbols, so the alphabet cannot be inferred; {passing('alphabet')}.")
        return cls(symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def sets(self) -> tuple[frozenset[Symbol], ...]:
        """For every code, the set of symbols that it stands for."""
        return self._codes.sets

    @property
    def n_codes(self) -> int:
        """Number of codes: symbols, ambiguity codes, and `missing`."""
        return len(self.sets)

    @property
    def missing(self) -> int:
        """Code of a missing symbol: the last code, which stands for any symbol."""
        return len(self.sets) - 1

    @property
    def is_characters(self) -> bool:
        """Whether all symbols and codes are single characters, so that sequences decode to str."""
        return self._codes.bytes is not None

    @property
    def ambiguity(self) -> NDArray[np.float64]:
        """0/1 matrix ``(n_codes - k - 1, k)``: the rows of `membership` for the ambiguity codes only."""
        if self._ambiguity is None:
            sets = self.sets[len(self) : -1]
            position = {s: i for i, s in enumerate(self.symbols)} if sets else {}
            out = np.zeros((len(sets), len(self)))
            for row, set_ in zip(out, sets, strict=True):
                row[[position[s] for s in set_]] = 1.0
            out.setflags(write=False)
            self._fill(_ambiguity=out)
            return out
        return self._ambiguity

    def _checked(self, codes: Any) -> NDArray[np.int64]:
        """Return codes as an array of integers; raise if one is not a code."""
        codes = as_array(codes, "codes", "an array of codes")
        if codes.dtype.kind not in "biuf" or not np.all((codes >= 0) & (codes < self.n_codes)):
            raise ValueError(f"codes must be whole numbers from 0 to {self.n_codes - 1}; got {codes!r}.")
        return codes.astype(np.int64, copy=False)

    def indicators(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the rows of `membership` for ``codes``, ``(..., k)``, without computing the whole matrix."""
        codes = self._checked(codes)
        flat, k = codes.reshape(-1), len(self)
        out = np.zeros((flat.size, k))
        plain = np.flatnonzero(flat < k)
        out[plain, flat[plain]] = 1.0
        ambiguous = np.flatnonzero((flat >= k) & (flat < self.missing))
        out[ambiguous] = self.ambiguity[flat[ambiguous] - k]
        out[flat == self.missing] = 1.0
        return out.reshape(*codes.shape, k)

    @property
    def membership(self) -> NDArray[np.float64]:
        """0/1 matrix ``(n_codes, k)``; ``membership @ probability`` is the likelihood of every code.

        The matrix is large if there are thousands of symbols; use `ambiguity` and `indicators` then.
        """
        if self._membership is None:
            out = self.indicators(np.arange(self.n_codes))
            out.setflags(write=False)
            self._fill(_membership=out)
            return out
        return self._membership

    def encode(self, data: Any, unknown: str = "raise") -> NDArray[np.int32]:
        """Encode one sequence (a str or a 1-D array of symbols).

        Parameters
        ----------
        data : str, bytes or 1-D array-like of symbols
            The sequence; None marks a missing symbol.
        unknown : {"raise", "missing"}
            What to do with a symbol that is not in the alphabet.

        Examples
        --------
        >>> from mercer.data import Alphabet
        >>> Alphabet("ab").encode("abc", unknown="missing")
        array([0, 1, 2], dtype=int32)
        """
        check(one_of("raise", "missing"), unknown=unknown)
        result = read_item(data)
        if isinstance(result, Problem):
            raise result.error(f"The sequence {result.text}")
        kind, piece = result
        values = code_points(piece) if isinstance(piece, str) else piece
        codes = self._lookup(kind, values, "The sequence")
        bad = np.flatnonzero(codes < 0)
        if len(bad) and unknown == "raise":
            raise ValueError(f"The sequence {self._unknown(kind, values[bad[0]], int(bad[0]))}")
        codes[bad] = self.missing
        return codes

    def decode(self, codes: Any) -> str | NDArray[Any]:
        """Decode one sequence: to a str if all symbols are characters, else to an array of symbols.

        A missing symbol becomes the letter for it (N, X) if there is one, else U+FFFD in a str and None in an
        array; `encode` accepts all of these.

        Examples
        --------
        >>> from mercer.data import Alphabet
        >>> Alphabet.of("protein").decode([0, 1, 23])
        'ACX'
        >>> Alphabet(range(3)).decode([2, 0])
        array([2, 0])
        """
        codes = self._checked(codes)
        if self.is_characters:
            points = np.array([ord(str(s)) for s in self._codes.printed], dtype="<u4")
            return points[codes].tobytes().decode("utf-32-le", "surrogatepass")
        symbols = np.empty(self.n_codes, dtype=object)
        symbols[:] = self._codes.printed
        out: NDArray[Any] = symbols[codes]
        if self._codes.printed[-1] is None and (codes == self.missing).any():
            return out
        return out.astype(np.int64 if isinstance(self.symbols[0], int) else np.str_)

    def union(self, other: Alphabet) -> Alphabet:
        """Return the sorted union of both alphabets and of their ambiguity codes.

        Examples
        --------
        >>> from mercer.data import Alphabet
        >>> Alphabet("ac").union(Alphabet("ab"))
        Alphabet('abc')
        """
        if not isinstance(other, Alphabet):
            raise TypeError(f"other must be an Alphabet; got {other!r}. Use Alphabet.of(...).")
        if self == other:
            return self
        mine, theirs = dict(self.ambiguous), dict(other.ambiguous)
        symbols: set[Any] = {*self.symbols, *other.symbols}
        clash = any(mine[c] != theirs[c] for c in mine.keys() & theirs.keys()) or symbols & {*mine, *theirs}
        if clash or len({type(s) for s in symbols}) > 1:
            raise ValueError(
                f"The alphabets {self.describe()} and {other.describe()} are incompatible; "
                "create all Sequences with the same alphabet."
            )
        return Alphabet(sorted(symbols), mine | theirs, self.fold_case or other.fold_case)

    def to_header(self) -> dict[str, Any]:
        """Return the content as a JSON-serializable dictionary."""
        pairs: list[Any] = [[code, [s for s in self.symbols if s in set_]] for code, set_ in self.ambiguous]
        return {"symbols": list(self.symbols), "ambiguous": pairs, "fold_case": self.fold_case}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Alphabet:
        """Return the alphabet from the output of `to_header`.

        Examples
        --------
        >>> from mercer.data import Alphabet
        >>> Alphabet.from_header(Alphabet.of("rna").to_header()) == Alphabet.of("rna")
        True
        """
        if not isinstance(header, Mapping) or not {"symbols", "ambiguous", "fold_case"} <= header.keys():
            raise ValueError(f"header must be the output of Alphabet.to_header; got {header!r}.")
        try:
            ambiguous = dict(header["ambiguous"])
        except (TypeError, ValueError):
            raise ValueError(
                f"'ambiguous' of header must be pairs of a code and its symbols; got {header['ambiguous']!r}."
            ) from None
        return cls(header["symbols"], ambiguous, header["fold_case"])

    def digest(self) -> bytes:
        """Return a 16-byte hash of the content."""
        return blake2b(json.dumps(self.to_header()).encode(), digest_size=16).digest()

    def describe(self) -> str:
        """Return a short description of the symbols for messages."""
        if self.is_characters and len(self) <= 30:
            text = "".join(map(str, self.symbols))
        elif len(self) <= 8:
            text = "{" + ", ".join(map(repr, self.symbols)) + "}"
        else:
            text = "{" + ", ".join(map(repr, self.symbols[:4])) + f", ... {len(self)} symbols" + "}"
        name = self._name()
        return f"{text} ({name})" if name else text

    def _name(self) -> str | None:
        return next((name for name in NAMED if self == _named(name)), None)

    def _lookup(self, kind: Kind, values: NDArray[Any], name: str) -> NDArray[np.int32]:
        """Encode flat values, with -1 for unknown symbols; ``name`` names the sequence in messages."""
        if len(values) == 0:
            return np.empty(0, dtype=np.int32)
        if kind == "vectors":
            raise TypeError(f"{name} contains real numbers, which have no alphabet; pass symbols, or omit alphabet=.")
        first = values[0] if kind != "tokens" else next((s for s in values if s is not None), None)
        text = kind == "characters" or isinstance(first, str)
        if first is not None and text != isinstance(self.symbols[0], str):
            content = "text" if text else "integers"
            cure = "" if text else " If the integers are codes, use mc.Sequences.from_codes(codes, alphabet)."
            raise TypeError(
                f"{name} contains {content}, but the alphabet {self.describe()} does not; pass a matching one.{cure}"
            )
        if kind == "characters" and self._codes.bytes is None:
            raise TypeError(
                f"{name} is a str, which is read as single characters, but the alphabet {self.describe()} "
                "has longer symbols; pass lists of symbols, such as text.split()."
            )
        if values.dtype == np.uint8 and self._codes.bytes is not None:
            return self._codes.bytes[values]
        symbols = map(chr, values.tolist()) if kind == "characters" else values.tolist()
        return np.fromiter(map(self._codes.by_symbol.get, symbols, repeat(-1)), np.int32, len(values))

    def _unknown(self, kind: Kind, value: Any, position: int) -> str:
        """Return the message for an unknown symbol, with the cure."""
        symbol: Any = chr(value) if kind == "characters" else value if isinstance(value, str) else int(value)
        missing = f"{option('unknown', 'missing')} to treat it as missing"
        cure = f"pass {missing}, or {option('alphabet')}, or create Sequences from all data before splitting them"
        other = {("dna", "U"): "rna", ("rna", "T"): "dna"}.get((self._name() or "", str(symbol).upper()))
        if other:
            cure = f"{passing('alphabet', other)}, or {missing}"
        elif isinstance(symbol, str) and len(symbol) > 1 and self.is_characters:
            cure = (
                "pass the strings themselves, not nested in lists (for a table, one column, such as df['s']), or "
                f"{option('alphabet')} if this is one symbol"
            )
            symbol = symbol if len(symbol) <= LONGEST_SHOWN else symbol[:LONGEST_SHOWN] + "..."
        elif symbol in ("-", ".", "*"):
            cure = f"remove it, or pass {missing}"
        elif isinstance(symbol, str) and {symbol.upper(), symbol.lower()} & self._codes.by_symbol.keys():
            cure = f"pass an Alphabet with fold_case=True, or {missing}"
        where = f"at position {position}, which is not in the alphabet {self.describe()}"
        return f"has the symbol {symbol!r} {where}; {wording().phrase('unknown symbol', cure)}."

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alphabet):
            return NotImplemented
        return self is other or self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[Any, ...]:
        return self.symbols, self.ambiguous, self.fold_case

    def __reduce__(self) -> tuple[Any, ...]:
        return Alphabet, (self.symbols, dict(self.ambiguous), self.fold_case)

    def __repr__(self) -> str:
        name = self._name()
        if name:
            return f"Alphabet.of({name!r})"
        plain = self.is_characters and len(self) <= 30
        symbols = repr("".join(map(str, self.symbols))) if plain else self.describe()
        more = f", ambiguous={list(dict(self.ambiguous))}" if self.ambiguous else ""
        return f"Alphabet({symbols}{more}{', fold_case=True' if self.fold_case else ''})"


ALPHABET = Rule(
    "'dna', 'rna', 'protein', an Alphabet or an iterable of symbols, or None",
    lambda value: value is None or isinstance(value, Alphabet) or is_listing(value),
    error=TypeError,
)
"""Rule of the parameter ``alphabet``; `Alphabet.of` checks the symbols."""


def _warn_of_nucleotides(found: set[str]) -> None:
    """Warn if DNA or RNA is read with ambiguity codes or lower case letters as separate symbols."""
    upper = {s.upper() for s in found}
    plain = upper & set("ACGTU")
    # Require all four nucleotides, since words over a, b and c are not DNA.
    if not upper <= {*"ACGTU", *NAMED["dna"][1]} or len(plain) < 4 or {"T", "U"} <= plain:
        return
    odd = sorted(upper - plain) or sorted(s for s in found if s.islower() and s.upper() in found)
    if odd:
        name = "RNA" if "U" in plain else "DNA"
        notify(
            f"The sequences look like {name}, but {odd[0]!r} is read as a separate symbol; "
            f"{passing('alphabet', name.lower())} to read ambiguity codes and lower case letters as such.",
        )


_CACHE: dict[str, Alphabet] = {}


def _named(name: str) -> Alphabet:
    if name not in _CACHE:
        symbols, ambiguous = NAMED[name]
        _CACHE[name] = Alphabet(symbols, ambiguous, fold_case=True)
    return _CACHE[name]
