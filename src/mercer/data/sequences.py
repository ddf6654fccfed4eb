"""Sequences of symbols or vectors of any lengths: the internal form of all sequence input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import as_array
from mercer._checks import is_listing, is_number
from mercer._parameters import check
from mercer._parameters import function as callable_rule
from mercer.data import ragged as _ragged
from mercer.data._container import Container, build, check_channels, check_ids, naming, unwrap
from mercer.data._forms import Problem, as_floats, notify_channels_first, read_item
from mercer.data.alphabet import Alphabet
from mercer.data.channels import channel_names, in_order
from mercer.data.ragged import offsets_of


class Sequences(Container):
    """Immutable sequences of symbols or of vectors, of different lengths, stored as flat values and offsets.

    Parameters
    ----------
    data : array-like
        Samples, indexed by the first axis. Symbols: strings, 1-D integer or string arrays, or a 2-D integer
        array. Vectors: 1-D float arrays (univariate), ``(T, d)`` arrays, a 2-D float array (N univariate
        series), or a 3-D array ``(N, T, d)``. DataFrames, in a list, whose time, if they have one, orders their rows;
        or one DataFrame with a MultiIndex of series and time. Also pandas Series, pyarrow and Awkward arrays of these,
        the output of `objects`, and Sequences. NaN and None mark missing values.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, optional
        Alphabet of the symbols; by default inferred from the data.
    unknown : {"raise", "missing"}
        What to do with a symbol that is not in the alphabet.
    ids : iterable of str, optional
        Distinct names of the sequences, for messages; positions by default.
    invalid : {"raise", "mask"}
        Whether to raise at the first sequence that cannot be read, or to leave out all such sequences and report
        them in `kept` and `problems`.
    channels : iterable of str, optional
        Distinct names of the coordinates of vectors: an estimator finds channels in another order by them, and features
        are named after them. By default the columns, if the sequences are DataFrames: in the order of the first.

    Attributes
    ----------
    values : ndarray
        Concatenated codes of symbols, ``(T,)`` int32, or vectors, ``(T, d)`` float32 or float64; read-only.
    offsets : ndarray of shape (N + 1,)
        Sequence i is ``values[offsets[i]:offsets[i + 1]]``.
    alphabet : Alphabet or None
        None for vectors.
    ids : tuple of str, or None
        Names of the sequences, if given.
    kept : ndarray of bool
        Which input sequences were kept; all, unless ``invalid="mask"``.
    problems : dict
        Maps the id or position of every omitted sequence to the reason.
    channels : tuple of str, or None
        Names of the coordinates, if they are known.

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
        channels: Iterable[str] | None = None,
    ) -> None:
        inside = unwrap(data)
        if inside is not data and all(isinstance(x, Sequences) for x in inside):
            inside = Sequences.concat(inside)
        data = inside
        if not isinstance(data, Sequences):
            columns = channel_names(data)
            aligned = data if columns is None else in_order(data, columns, "sequence 0")
            if channels is None:
                notify_channels_first(aligned)
            built = build(aligned, alphabet, unknown, ids, invalid)
            width = None if built.alphabet is not None else int(built.values.shape[1])
            self._hold(*built, check_channels(channels, width) or (None if width is None else columns))
            return
        if alphabet is not None:
            data._check_alphabet(Alphabet.of(alphabet))
        named = data.channels if channels is None else check_channels(channels, data.dimension)
        own = data.ids if ids is None else check_ids(ids, len(data))
        self._hold(data.values, data.offsets, data.alphabet, own, data.kept, data.problems, named)

    @classmethod
    def from_aeon(cls, X: Any, *, ids: Iterable[str] | None = None, invalid: str = "raise") -> Sequences:
        """Read time series in aeon's format: an array ``(N, d, T)`` or a list of ``(d, T)`` arrays.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.data import Sequences
        >>> Sequences.from_aeon(np.zeros((4, 3, 10)))
        Sequences(4 sequences of 3-dimensional vectors (float64), lengths 10)
        """
        if isinstance(X, np.ndarray) and (X.ndim < 2 or X.dtype.kind not in "biufO"):
            return cls(X, ids=ids, invalid=invalid)
        if not is_listing(X):
            raise TypeError(f"X must be an array of shape (N, d, T), or a list of series; got {X!r}.")
        items = []
        for x in X:  # 1-D is a univariate series; the constructor reports items that are not numeric arrays
            result = read_item(x)
            numeric = not isinstance(result, Problem) and result[0] in ("integers", "vectors")
            items.append(as_floats(np.asarray(x).T) if numeric else x)
        return cls._make(*build(items, None, "raise", ids, invalid))

    @classmethod
    def from_hmmlearn(
        cls, X: Any, lengths: Any = None, *, alphabet: Any = None, ids: Iterable[str] | None = None
    ) -> Sequences:
        """Read stacked sequences in hmmlearn's format; one integer column means symbols, anything else vectors.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences.from_hmmlearn([[0], [1], [1], [0], [2]], [3, 2])
        Sequences(2 sequences of symbols from {0, 1, 2}, lengths 2 to 3)
        """
        X = as_array(X, "X", "a 2-D array of stacked sequences")
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2:
            raise ValueError(f"X must be a 2-D array of stacked sequences, as in hmmlearn; got {X.ndim} axes.")
        if X.shape[1] == 1 and X.dtype.kind != "f":
            X = X[:, 0]
        elif X.dtype.kind in "biu":
            X = as_floats(X)
        return cls([X] if lengths is None else _ragged.unstacked(X, lengths), alphabet=alphabet, ids=ids)

    @classmethod
    def from_codes(cls, codes: Any, alphabet: Any, *, ids: Iterable[str] | None = None) -> Sequences:
        """Read codes of symbols, as returned by a model's ``sample``.

        Parameters
        ----------
        codes : array of shape (N, T), or list of N arrays of shape (T_i,)
            Integer codes of the alphabet: positions of its symbols, then of its ambiguity codes, then `missing`;
            -1 after the end of a sequence.
        alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols
            The alphabet of the codes.
        ids : iterable of str, optional
            Names of the sequences.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> list(Sequences.from_codes([[0, 1, 1], [3, 2, -1]], "dna"))
        ['ACC', 'TG']
        """
        known = Alphabet.of(alphabet)
        if not is_listing(codes):
            raise TypeError(f"codes must be an array of shape (N, T), or a list of arrays; got {codes!r}.")
        rows = [as_array(row, "codes", "a list of arrays of codes") for row in codes]
        names = check_ids(ids, len(rows))
        for i, row in enumerate(rows):
            if row.ndim != 1 or (row.dtype.kind not in "iu" and row.size):
                raise TypeError(
                    f"{naming(names, i)} has shape {row.shape} and dtype {row.dtype}; pass an integer array of "
                    "shape (N, T), such as p.sample(10, 3)[0], or a list of 1-D integer arrays."
                )
        flat = np.concatenate([np.empty(0, dtype=np.int64), *rows])
        offsets = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
        ended, owner = flat == -1, np.repeat(np.arange(len(rows)), np.diff(offsets))
        resumed = np.append(ended[:-1] & ~ended[1:] & (owner[:-1] == owner[1:]), False)[: len(flat)]
        bad = np.flatnonzero(resumed | (~ended & ((flat < 0) | (flat >= known.n_codes))))
        if len(bad):
            i = owner[bad[0]]
            raise ValueError(
                f"{naming(names, i)} has the code {flat[bad[0]]} at position {bad[0] - offsets[i]}; codes of "
                f"{known.describe()} are 0 to {known.n_codes - 1}, and -1 after the end."
            )
        lengths = np.bincount(owner[~ended], minlength=len(rows))
        return cls._make(flat[~ended].astype(np.int32), offsets_of(lengths), known, names)

    @classmethod
    def concat(cls, parts: Iterable[Sequences]) -> Sequences:
        """Concatenate Sequences of the same alphabet or dimension.

        Ids and names of channels are kept if all parts have them; channels are put in the order of the first part.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> X = Sequences(["ab", "b"])
        >>> list(Sequences.concat([X, X[:1]]))
        ['ab', 'b', 'ab']
        """
        if not is_listing(parts):
            raise TypeError(f"parts must be a list of Sequences; got {parts!r}.")
        parts = list(parts)
        if not parts:
            raise ValueError("parts must not be empty; pass at least one Sequences.")
        for i, part in enumerate(parts):
            if not isinstance(part, Sequences):
                raise TypeError(f"Part {i} is a {type(part).__name__}; convert it with Sequences(...) first.")
            if part.dimension != parts[0].dimension:
                raise ValueError(f"Part {i} has {part._what()}, but part 0 has {parts[0]._what()}; they must agree.")
            if parts[0].alphabet is not None:
                part._check_alphabet(parts[0].alphabet)
        ids = None
        if all(part.ids is not None for part in parts):
            ids = tuple(name for part in parts for name in part.ids or ())
        channels = parts[0].channels if all(part.channels is not None for part in parts) else None
        if channels is not None:
            parts = [part if part.channels == channels else part.in_channels(channels, "part 0") for part in parts]
        values = np.concatenate([part.values for part in parts])
        offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
        return cls._make(values, offsets, parts[0].alphabet, ids, None, None, channels)

    def recode(self, alphabet: Any) -> Sequences:
        """Encode the same symbols in another alphabet, which must contain all that occur.

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
            raise ValueError(f"{where}, which is not in the alphabet {new.describe()}; use the union of the alphabets.")
        return Sequences._make(values, self.offsets, new, self.ids)

    def require(self, kind: str, owner: Any, cure: str = "") -> Sequences:
        """Return self; raise if the sequences are not of a kind.

        Parameters
        ----------
        kind : {"vectors", "symbols"}
            The kind that is needed.
        owner : str or object
            What needs it, for the message; an object is named by its class.
        cure : str, optional
            What to do instead; by default, how to pass this kind.
        """
        if self.is_symbols == (kind == "symbols"):
            return self
        if self.alphabet is not None and not isinstance(self.alphabet.symbols[0], str):
            cure = "Integers are read as symbols; pass floats."
        elif not cure:
            cure = "Pass strings or integers." if kind == "symbols" else "Pass numbers, or Sequences(X).one_hot()."
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise TypeError(f"{name} requires {kind}; got {self._what()}. {cure}")

    def require_some(self) -> Sequences:
        """Return self; raise if there is no sequence."""
        if not len(self):
            raise ValueError("X is empty; pass at least one sequence.")
        return self

    def require_nonempty(self) -> Sequences:
        """Return self; raise if a sequence is empty."""
        empty = np.flatnonzero(self.lengths == 0)
        if len(empty):
            raise ValueError(f"{self.name(empty[0])} is empty; drop it, as in X[X.lengths > 0].")
        return self

    def require_windows(self, order: int) -> None:
        """Raise if a sequence has no window of ``order + 1`` steps."""
        if not is_number(order) or order < 0 or order != int(order):
            raise ValueError(f"order must be an integer, at least 0; got {order!r}.")
        short = np.flatnonzero(self.lengths <= order)
        if len(short):
            raise ValueError(
                f"{self.name(short[0])} has length {self.lengths[short[0]]}, but windows of order {order} "
                f"need {order + 1}; drop it, or decrease order."
            )

    def digests(self) -> list[bytes]:
        """Return a 16-byte hash of every sequence, which depends on its content only.

        The content is the stored codes and alphabet, or the vectors and their dtype.

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
        """Apply a function to the flat values; it must return one code or vector per time step.

        Names of channels are kept if the number of coordinates stays the same.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences([[1.0, 2.0]]).mapped(lambda x: 2 * x)[0]
        array([[2.],
               [4.]])
        """
        check(callable_rule(), function=function)
        values = as_array(function(self.values), "The values of the function")
        if values.shape[:1] != self.values.shape[:1]:
            raise ValueError(
                f"The function must return one row for each of {len(self.values)} time steps; got shape {values.shape}."
            )
        if self.alphabet is not None:
            if values.dtype.kind not in "iu" or np.any(values < 0) or np.any(values >= self.alphabet.n_codes):
                raise ValueError(f"The function must return codes from 0 to {self.alphabet.n_codes - 1}.")
        elif values.dtype.kind != "f" or values.ndim != 2 or np.isinf(values).any():
            raise ValueError("The function must return a float array of shape (T, d) with finite values or NaN.")
        channels = self.channels if values.shape == self.values.shape else None
        return self._make(values, self.offsets, self.alphabet, self.ids, None, None, channels)

    def windows(self, order: int) -> Sequences:
        """Stack ``order + 1`` consecutive vectors, oldest first; shape ``(T - order, (order + 1) d)`` per sequence.

        Examples
        --------
        >>> from mercer.data import Sequences
        >>> Sequences([[1.0, 2.0, 3.0]]).windows(1)[0]
        array([[1., 2.],
               [2., 3.]])
        """
        self.require("vectors", "windows()").require_windows(order)
        return OverlappingWindows._make(*_ragged.windows(self.values, self.offsets, int(order)), None, self.ids)

    def one_hot(self) -> Sequences:
        """One-hot encode symbols as vectors, ``(T, k)``; ambiguity codes and missing symbols raise.

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
        """Count every symbol in every sequence, ``(N, k)`` float64; ambiguity codes and missing symbols raise.

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
        alphabet = self.require("symbols", f"{what}()").alphabet
        assert alphabet is not None
        return alphabet

    def _observed(self, what: str) -> Alphabet:
        """Return the alphabet; raise if a code is ambiguous or missing."""
        alphabet = self._symbols(what)
        where = self._first(self.values >= len(alphabet))
        if where:
            raise ValueError(
                f"{where}, which stands for several symbols of {alphabet.describe()}, so {what}() is not "
                "defined; drop the sequence, or use a model, which sums over the symbols."
            )
        return alphabet

    def _first(self, bad: NDArray[np.bool_]) -> str | None:
        """Describe the first marked symbol and its position, or return None."""
        flat = np.flatnonzero(bad)[:1]
        if len(flat) == 0 or self.alphabet is None:
            return None
        data, positions = _ragged.locate(self.offsets, flat)
        symbol = self.alphabet.decode(self.values[flat])[0]
        return f"{self.name(data[0])} has the symbol {symbol!r} at position {positions[0]}"

    def _check_alphabet(self, alphabet: Alphabet) -> None:
        if self.alphabet is None:
            raise TypeError("X contains vectors, which have no alphabet; omit alphabet=.")
        if self.alphabet != alphabet:
            raise ValueError(
                f"The sequences must have the alphabet {alphabet.describe()}; got {self.alphabet.describe()}. "
                "Create all Sequences with the same alphabet=, or use X.recode(alphabet)."
            )


class OverlappingWindows(Sequences):
    """Sequences whose steps are windows of others, in which every value is several times."""

    __slots__ = ()


def refuse_windows(X: Any, owner: str) -> None:
    """Raise for overlapping windows: their likelihood is composite.

    Parameters
    ----------
    X : data
        Data, as a user passed them.
    owner : str
        What needs the probability of the data.
    """
    if isinstance(X, OverlappingWindows):
        raise TypeError(
            f"{owner} requires the probability of a series; windows overlap, and their likelihood, which counts values "
            "several times, is not one. Pass the series without windows."
        )
