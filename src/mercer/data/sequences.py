"""Sequences of symbols or of vectors, of any lengths: what data become once, at the border."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data import ragged as _ragged
from mercer.data._build import build, check_ids, unwrap
from mercer.data._container import Container, naming
from mercer.data._forms import Problem, as_floats, offsets_of, read_item
from mercer.data.alphabet import Alphabet


class Sequences(Container):
    """Sequences of symbols, or of vectors, of different lengths; immutable, with flat values and offsets.

    Parameters
    ----------
    data : array-like
        The first axis is always the sample. Symbols: strings, 1-D integer or string arrays, a 2-D integer
        array. Vectors: 1-D float arrays (univariate), ``(T, d)`` arrays, a 2-D float array (N univariate
        series), a 3-D array ``(N, T, d)``. Also pandas Series, pyarrow and awkward arrays of these, what
        `objects` made, and Sequences. NaN and None mean "not observed".
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, optional
        For symbols; found in the data by default.
    unknown : {"raise", "missing"}
        What to do with a symbol that is not in the alphabet.
    ids : iterable of str, optional
        Names of the data, all different, for messages; positions by default.
    invalid : {"raise", "mask"}
        Stop at the first datum that cannot be read, or leave out all of these and tell in `kept` and
        `problems`.

    Attributes
    ----------
    values : ndarray
        Codes ``(T,)`` int32 of symbols, or vectors ``(T, d)`` float32 or float64; all data end to end,
        read-only.
    offsets : ndarray of shape (N + 1,)
        Datum i is ``values[offsets[i]:offsets[i + 1]]``.
    alphabet : Alphabet or None
        None for vectors.
    ids : tuple of str, or None
        None: positions.
    kept : ndarray of bool
        Which of the data given are here; all, unless ``invalid="mask"``.
    problems : dict
        Why the others are not: id or position to a sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import Sequences
    >>> X = Sequences(["ACGT", "GGN", "TTA"], alphabet="dna")
    >>> X
    Sequences(3 sequences of symbols from ACGT (dna), lengths 3 to 4)
    >>> X[1], list(X[[2, 0]])
    ('GGN', ['TTA', 'ACGT'])
    >>> Sequences([np.zeros((5, 2)), np.ones((3, 2))])
    Sequences(2 sequences of 2-dimensional vectors (float64), lengths 3 to 5)
    """

    __slots__ = ()

    def __init__(
        self,
        data: Any,
        *,
        alphabet: Any = None,
        unknown: str = "raise",
        ids: Iterable[str] | None = None,
        invalid: str = "raise",
    ) -> None:
        inside = unwrap(data)
        if inside is not data and all(isinstance(x, Sequences) for x in inside):
            inside = Sequences.concat(inside)
        data = inside
        if not isinstance(data, Sequences):
            self._hold(*build(data, alphabet, unknown, ids, invalid))
            return
        if alphabet is not None:
            data._check_alphabet(Alphabet.of(alphabet))
        names = data.ids if ids is None else check_ids(ids, len(data))
        self._hold(data.values, data.offsets, data.alphabet, names, data.kept, data.problems)

    @classmethod
    def from_aeon(cls, X: Any, *, ids: Iterable[str] | None = None, invalid: str = "raise") -> Sequences:
        """Read time series as aeon keeps them: an array ``(N, d, T)``, or a list of ``(d, T)`` arrays.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.data import Sequences
        >>> Sequences.from_aeon(np.zeros((4, 3, 10)))
        Sequences(4 sequences of 3-dimensional vectors (float64), lengths 10)
        """
        if isinstance(X, np.ndarray) and (X.ndim < 2 or X.dtype.kind not in "biufO"):
            return cls(X, ids=ids, invalid=invalid)
        items = []
        for x in X:  # 1-D: a univariate series; what is no numeric array, the constructor complains about
            got = read_item(x)
            numeric = not isinstance(got, Problem) and got[0] in ("integers", "vectors")
            items.append(as_floats(np.asarray(x).T) if numeric else x)
        return cls(items, ids=ids, invalid=invalid)

    @classmethod
    def from_hmmlearn(
        cls, X: Any, lengths: Any = None, *, alphabet: Any = None, ids: Iterable[str] | None = None
    ) -> Sequences:
        """Read stacked data as hmmlearn keeps them; an integer column is symbols, all else is vectors.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences.from_hmmlearn([[0], [1], [1], [0], [2]], [3, 2])
        Sequences(2 sequences of symbols from {0, 1, 2}, lengths 2 to 3)
        """
        X = np.asarray(X)
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} axes; hmmlearn's data are stacked in a 2-D array")
        sizes = np.asarray([len(X)] if lengths is None else lengths, dtype=np.int64)
        if sizes.sum() != len(X) or (sizes < 0).any():
            raise ValueError(f"the lengths add up to {sizes.sum()}, but X has {len(X)} rows; pass the length of each")
        if X.shape[1] == 1 and X.dtype.kind != "f":
            X = X[:, 0]
        elif X.dtype.kind in "biu":
            X = as_floats(X)
        return cls(np.split(X, np.cumsum(sizes)[:-1]), alphabet=alphabet, ids=ids)

    @classmethod
    def from_codes(cls, codes: Any, alphabet: Any, *, ids: Iterable[str] | None = None) -> Sequences:
        """Read codes of symbols, as the ``sample`` of a model gives them.

        Parameters
        ----------
        codes : array of shape (N, T), or list of N arrays of shape (T_i,)
            Whole numbers: the places of symbols in the alphabet, then of its ambiguity codes and of what is missing;
            -1 where a sequence has ended.
        alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols
            Whose codes they are.
        ids : iterable of str, optional
            Names of the data.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> list(Sequences.from_codes([[0, 1, 1], [3, 2, -1]], "dna"))
        ['ACC', 'TG']
        """
        known = Alphabet.of(alphabet)
        rows = [np.asarray(row) for row in codes]
        names = check_ids(ids, len(rows))
        for i, row in enumerate(rows):
            if row.ndim != 1 or (row.dtype.kind not in "iu" and row.size):
                raise TypeError(
                    f"{naming(names, i)} has shape {row.shape} and type {row.dtype}; pass codes as an integer array of "
                    "shape (N, T), such as p.sample(10, 3)[0], or as a list of 1-D ones"
                )
        flat = np.concatenate([np.empty(0, dtype=np.int64), *rows])
        offsets = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
        ended, owner = flat == -1, np.repeat(np.arange(len(rows)), np.diff(offsets))
        goes_on = np.append(ended[:-1] & ~ended[1:] & (owner[:-1] == owner[1:]), False)[: len(flat)]
        bad = np.flatnonzero(goes_on | (~ended & ((flat < 0) | (flat >= known.n_codes))))
        if len(bad):
            i = owner[bad[0]]
            raise ValueError(
                f"{naming(names, i)} has the code {flat[bad[0]]} at position {bad[0] - offsets[i]}; codes of "
                f"{known.describe()} are 0 to {known.n_codes - 1}, and -1 after the end"
            )
        lengths = np.bincount(owner[~ended], minlength=len(rows))
        return cls._make(flat[~ended].astype(np.int32), offsets_of(lengths), known, names)

    @classmethod
    def concat(cls, parts: Iterable[Sequences]) -> Sequences:
        """Join Sequences of the same alphabet or dimension; ids are kept if all have them.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> X = Sequences(["ab", "b"])
        >>> list(Sequences.concat([X, X[:1]]))
        ['ab', 'b', 'ab']
        """
        parts = list(parts)
        if not parts:
            raise ValueError("there is nothing to join; pass at least one Sequences")
        for i, part in enumerate(parts):
            if not isinstance(part, Sequences):
                raise TypeError(f"part {i} is a {type(part).__name__}; make it with Sequences(...) first")
            if part.dimension != parts[0].dimension:
                raise ValueError(
                    f"part {i} has {part._what()}, but part 0 has {parts[0]._what()}; join data of one sort"
                )
            if parts[0].alphabet is not None:
                part._check_alphabet(parts[0].alphabet)
        ids = None
        if all(part.ids is not None for part in parts):
            ids = tuple(name for part in parts for name in part.ids or ())
        values = np.concatenate([part.values for part in parts])
        offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
        return cls._make(values, offsets, parts[0].alphabet, ids)

    def recode(self, alphabet: Any) -> Sequences:
        """Express the same symbols in another alphabet, which must have all that occur.

        Examples
        --------
        >>> from mercer.data import Alphabet, Sequences
        >>> Sequences(["CA"]).recode("dna").values
        array([1, 0], dtype=int32)
        """
        old, new = self._symbols("recode"), Alphabet.of(alphabet)
        codes = {set_: c for c, set_ in reversed(list(enumerate(new.sets)))}
        table = np.array([*(codes.get(set_, -1) for set_ in old.sets[:-1]), new.missing], dtype=np.int32)
        values = table[self.values]
        where = self._first(values < 0)
        if where:
            raise ValueError(f"{where}, which is not in the alphabet {new.describe()}; use the union of the alphabets")
        return Sequences._make(values, self.offsets, new, self.ids)

    def require_nonempty(self) -> Sequences:
        """Return self, or raise naming the first sequence of length 0."""
        empty = np.flatnonzero(self.lengths == 0)
        if len(empty):
            raise ValueError(f"{self.name(empty[0])} is empty; leave it out, such as with X[X.lengths > 0]")
        return self

    def digests(self) -> list[bytes]:
        """Return 16 bytes for every datum that depend on its content alone, not on place or neighbours.

        Content is what is stored: codes and alphabet, or vectors with their dtype.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> a, b, c = Sequences(["ab", "ba", "ab"]).digests()
        >>> a == b, a == c
        (False, True)
        """
        prefix = b"vectors" if self.alphabet is None else b"symbols" + self.alphabet.digest()
        return _ragged.digests(self.values, self.offsets, prefix)

    def mapped(self, function: Callable[[Any], Any]) -> Sequences:
        """Apply a function to all values at once; it must return one value, or vector, per step.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences([[1.0, 2.0]]).mapped(lambda x: 2 * x)[0]
        array([[2.],
               [4.]])
        """
        values = np.asarray(function(self.values))
        if len(values) != len(self.values):
            raise ValueError(f"the function made {len(values)} steps of {len(self.values)}: it must keep their number")
        if self.alphabet is not None:
            if values.dtype.kind not in "iu" or np.any(values < 0) or np.any(values >= self.alphabet.n_codes):
                raise ValueError(f"the function must return codes from 0 to {self.alphabet.n_codes - 1}")
        elif values.dtype.kind != "f" or values.ndim != 2 or np.isinf(values).any():
            raise ValueError("the function must return finite vectors (or NaN), as an array of shape (T, d)")
        return Sequences._make(values, self.offsets, self.alphabet, self.ids)

    def windows(self, order: int) -> Sequences:
        """Stack ``order + 1`` consecutive vectors, oldest first: ``(T - order, (order + 1) d)`` each.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences([[1.0, 2.0, 3.0]]).windows(1)[0]
        array([[1., 2.],
               [2., 3.]])
        """
        if self.is_symbols:
            raise TypeError("windows are made of vectors, but these are symbols; call one_hot() first")
        if order < 0 or order != int(order):
            raise ValueError(f"order={order} must be a whole number, 0 or more")
        short = np.flatnonzero(self.lengths <= order)
        if len(short):
            raise ValueError(
                f"{self.name(short[0])} has length {self.lengths[short[0]]}, but windows of order {order} "
                f"need {order + 1}; leave it out, or lower the order"
            )
        return Sequences._make(*_ragged.windows(self.values, self.offsets, int(order)), None, self.ids)

    def one_hot(self) -> Sequences:
        """Turn symbols into unit vectors ``(T, k)``; a code that is not one symbol raises.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences(["ba"]).one_hot()[0]
        array([[0., 1.],
               [1., 0.]])
        """
        k = len(self._observed("one_hot"))
        values = np.zeros((len(self.values), k))
        values[np.arange(len(values)), self.values] = 1.0
        return Sequences._make(values, self.offsets, None, self.ids)

    def counts(self) -> NDArray[np.float64]:
        """Count every symbol in every sequence: ``(N, k)`` float64; a code that is not one symbol raises.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences(["aab", "b"]).counts()
        array([[2., 1.],
               [0., 1.]])
        """
        k, n = len(self._observed("counts")), len(self)
        cells = np.repeat(np.arange(n) * k, self.lengths) + self.values
        return np.bincount(cells, minlength=n * k).reshape(n, k).astype(np.float64)

    def _symbols(self, what: str) -> Alphabet:
        if self.alphabet is None:
            raise TypeError(f"{what} is for symbols, but these are vectors; pass strings or integers")
        return self.alphabet

    def _observed(self, what: str) -> Alphabet:
        """Return the alphabet if every code is one symbol."""
        alphabet = self._symbols(what)
        where = self._first(self.values >= len(alphabet))
        if where:
            raise ValueError(
                f"{where}, which stands for several symbols of {alphabet.describe()}, so that {what} is not "
                "defined; leave it out, or use a model, which sums over them"
            )
        return alphabet

    def _first(self, bad: NDArray[np.bool_]) -> str | None:
        """Say where the first marked symbol is."""
        flat = np.flatnonzero(bad)[:1]
        if len(flat) == 0 or self.alphabet is None:
            return None
        data, positions = _ragged.locate(self.offsets, flat)
        symbol = self.alphabet.decode(self.values[flat])[0]
        return f"{self.name(data[0])} has the symbol {symbol!r} at position {positions[0]}"

    def _check_alphabet(self, alphabet: Alphabet) -> None:
        if self.alphabet is None:
            raise TypeError("these are vectors, which have no alphabet; leave out alphabet=")
        if self.alphabet != alphabet:
            raise ValueError(
                f"the sequences have the alphabet {self.alphabet.describe()}, but {alphabet.describe()} is "
                "asked for; make all data with one alphabet=, or use X.recode(alphabet)"
            )
