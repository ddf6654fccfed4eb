"""Base class of `Sequences`: construction from any input form, storage, NumPy-style indexing and pickling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing, is_whole
from mercer._immutable import Immutable
from mercer._notices import described
from mercer._parameters import check, one_of
from mercer._wording import passing
from mercer.data import ragged as _ragged
from mercer.data._forms import ONE_SERIES, Flat, Problem, flatten
from mercer.data.alphabet import Alphabet
from mercer.data.objects import Datum


def naming(ids: tuple[str, ...] | None, i: int) -> str:
    """Return the name of sequence ``i`` for messages."""
    return f"sequence {int(i)}" if ids is None else f"sequence {ids[int(i)]!r}"


def check_channels(channels: Any, dimension: int | None) -> tuple[str, ...] | None:
    """Return the names of channels as a tuple of distinct strings, one per coordinate."""
    if channels is None:
        return None
    names = _names(channels)
    if dimension is None:
        raise TypeError("channels name the coordinates of vectors; got symbols. Omit channels=.")
    if len(names) != dimension or len(set(names)) != dimension:
        raise ValueError(f"channels must be {dimension} distinct names, one per coordinate; got {list(names)!r}.")
    return names


def _names(channels: Any) -> tuple[str, ...]:
    if isinstance(channels, str) or not is_listing(channels):
        raise TypeError(f"channels must be a list of strings; got {channels!r}.")
    return tuple(str(name) for name in channels)


def difference(own: Sequence[str], names: Sequence[str], where: str) -> str:
    """Return what is wrong with the channels ``own`` in place of ``names``; "" if they are the same in any order."""
    absent, new = ([x for x in one if x not in other] for one, other in ((names, own), (own, names)))
    found = [f"missing: {described(absent, 8)}"] * bool(absent) + [f"unexpected: {described(new, 8)}"] * bool(new)
    return f"must have the channels {described(names, 8)}, as {where}; {'; '.join(found)}." if found else ""


class Container(Immutable):
    """Flat values, offsets, alphabet, ids and names of channels; the arrays are read-only and not shared."""

    __slots__ = ("alphabet", "channels", "ids", "kept", "offsets", "problems", "values")
    values: NDArray[Any]
    offsets: NDArray[np.int64]
    alphabet: Alphabet | None
    ids: tuple[str, ...] | None
    kept: NDArray[np.bool_]
    problems: dict[str | int, str]
    channels: tuple[str, ...] | None

    def _hold(
        self,
        values: NDArray[Any],
        offsets: NDArray[np.int64],
        alphabet: Alphabet | None,
        ids: tuple[str, ...] | None,
        kept: NDArray[np.bool_] | None = None,
        problems: dict[str | int, str] | None = None,
        channels: tuple[str, ...] | None = None,
    ) -> None:
        """Store checked arrays, which the caller must not write to later."""
        kept = np.ones(len(offsets) - 1, dtype=bool) if kept is None else kept
        for x in (values, offsets, kept):
            x.setflags(write=False)
        self._fill(values=values, offsets=offsets, alphabet=alphabet, ids=ids, kept=kept, problems=problems or {})
        self._fill(channels=channels)

    @classmethod
    def _make(cls, *content: Any) -> Self:
        """Construct from checked arrays, which the caller must not write to later."""
        out = cls.__new__(cls)
        out._hold(*content)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        content = (self.values, self.offsets, self.alphabet, self.ids, self.kept, self.problems)
        return type(self)._make, content if self.channels is None else (*content, self.channels)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int]:
        """Shape ``(N,)``; lets scikit-learn index the sequences like an array."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """Number of axes: 1."""
        return 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of every sequence."""
        return np.diff(self.offsets)

    @property
    def is_symbols(self) -> bool:
        """Whether the sequences are symbols of an alphabet."""
        return self.alphabet is not None

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors; None for symbols."""
        return None if self.is_symbols else int(self.values.shape[1])

    def name(self, i: int) -> str:
        """Return the name of sequence ``i`` for messages: "sequence 'seq7'" or "sequence 3"."""
        if not is_whole(i, -len(self)) or i >= len(self):
            raise IndexError(f"{i!r} is not an index of {len(self)} sequences.")
        return naming(self.ids, i)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            n = len(self)
            try:
                index = np.arange(n)[key]
            except (IndexError, TypeError, ValueError):
                raise IndexError(f"{key!r} is not an index of {n} sequences.") from None
            if np.ndim(index) == 1:
                return self._take(index)
            if np.ndim(index) > 1:
                raise IndexError("Sequences have one axis; index them with an integer, a slice or a 1-D array.")
            key = index
        if not -len(self) <= key < len(self):
            raise IndexError(f"Index {key} is out of range for {len(self)} sequences.")
        i = int(key) % len(self)
        return self._decoded(self.values[self.offsets[i] : self.offsets[i + 1]])

    def _take(self, index: NDArray[np.intp]) -> Self:
        values, offsets = _ragged.gather(self.values, self.offsets, index)
        ids = None
        if self.ids is not None:
            names = np.empty(len(self), dtype=object)
            names[:] = self.ids
            ids = tuple(names[index].tolist())
        return self._make(values, offsets, self.alphabet, ids, None, None, self.channels)

    def with_channels(self, channels: Iterable[str] | None) -> Self:
        """Return the same vectors with other names of the channels, or without names.

        Parameters
        ----------
        channels : iterable of str or None
            One distinct name per coordinate of the vectors.

        Examples
        --------
        >>> import mercer as mc
        >>> mc.Sequences([[1.0, 2.0]]).with_channels(["speed"]).channels
        ('speed',)
        """
        content = (self.values, self.offsets, self.alphabet, self.ids, self.kept, self.problems)
        return self._make(*content, check_channels(channels, self.dimension))

    def in_channels(self, channels: Sequence[str], where: str = "in fit") -> Self:
        """Return the same vectors with the channels in another order; other names raise.

        Parameters
        ----------
        channels : sequence of str
            The names of all channels, in the order that is asked for.
        where : str
            What has the channels in this order, for the message.

        Examples
        --------
        >>> import mercer as mc
        >>> X = mc.Sequences([[[1.0, 2.0], [3.0, 4.0]]], channels=["speed", "height"])
        >>> X.in_channels(["height", "speed"])[0]
        array([[2., 1.],
               [4., 3.]])
        """
        own, names = self.channels or (), _names(channels)
        wrong = difference(own, names, where)
        if wrong:
            raise ValueError(f"X {wrong} If these are the same quantities, rename them with X.with_channels([...]).")
        values = self.values[:, [own.index(name) for name in names]]
        return self._make(values, self.offsets, None, self.ids, self.kept, self.problems, names)

    def require_dimension(self, expected: int | None, where: str = "the training data had") -> Self:
        """Return self; raise if the vectors have another number of coordinates.

        Parameters
        ----------
        expected : int or None
            The number of coordinates; None for symbols, for which nothing is checked.
        where : str
            What has that number, for the message.
        """
        found = self.dimension
        if found is None or expected is None or found == expected:
            return self
        rows = found == 1 and len(self) and (self.lengths == expected).all()  # of one series, passed without a list
        cure = f" {ONE_SERIES}" if rows else ""
        raise ValueError(f"The data must have {expected} coordinates, as {where}; got {found}.{cure}")

    def _decoded(self, values: NDArray[Any]) -> Any:
        return values if self.alphabet is None else self.alphabet.decode(values)

    def __iter__(self) -> Iterator[Any]:
        # Decode one by one: a missing token changes the dtype of its own sequence only.
        if self.alphabet is not None and not self.alphabet.is_characters:
            return (self[i] for i in range(len(self)))
        whole = self._decoded(self.values)
        return (whole[a:b] for a, b in pairwise(self.offsets.tolist()))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        ragged = " of different lengths" if len(set(self.lengths.tolist())) > 1 else ""
        scale = "" if self.is_symbols else " To scale or project them, use mc.PerStep(StandardScaler())."
        raise TypeError(
            f"Sequences{ragged} cannot be converted to an array; use a kernel first, as in "
            f"make_pipeline(kernel, SVC(kernel='precomputed')), or use X.values and X.offsets.{scale}"
        )

    def _what(self) -> str:
        if self.alphabet is not None:
            return f"symbols from {self.alphabet.describe()}"
        return f"{self.dimension}-dimensional vectors"

    def __repr__(self) -> str:
        what = self._what() + ("" if self.is_symbols else f" ({self.values.dtype})")
        few, many = (self.lengths.min(), self.lengths.max()) if len(self) else (0, 0)
        spread = f"{few}" if few == many else f"{few} to {many}"
        omitted = f", {len(self.problems)} left out (see X.problems)" if self.problems else ""
        return f"{type(self).__name__}({len(self)} sequences of {what}, lengths {spread}{omitted})"


class Built(NamedTuple):
    """Content of `Sequences`, in the argument order of `Container._hold`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    alphabet: Alphabet | None
    ids: tuple[str, ...] | None
    kept: NDArray[np.bool_]
    problems: dict[str | int, str]


def check_ids(ids: Iterable[Any] | None, n: int) -> tuple[str, ...] | None:
    """Return ids as a tuple of n distinct strings."""
    if ids is None:
        return None
    if isinstance(ids, str):
        raise TypeError(f"ids must be a list of strings; got the string {ids!r}. Pass [{ids!r}].")
    if not is_listing(ids):
        raise TypeError(f"ids must be a list of strings; got {ids!r}.")
    names = tuple(str(name) for name in ids)
    if len(names) != n:
        raise ValueError(f"ids must have one entry per sequence; got {len(names)} ids for {n} sequences.")
    if len(set(names)) != n:
        seen: dict[str, int] = {}
        for i, name in enumerate(names):
            if name in seen:
                raise ValueError(f"ids must be distinct; got {name!r} at positions {seen[name]} and {i}.")
            seen[name] = i
    return names


def unwrap(data: Any) -> Any:
    """Return the values of an array made by `objects`; return any other input unchanged."""
    items = data if isinstance(data, list | tuple) else None
    if isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1:
        items = data.tolist()
    if items and any(isinstance(x, Datum) for x in items):
        return [x.value if isinstance(x, Datum) else x for x in items]
    return data


def build(data: Any, alphabet: Any, unknown: str, ids: Iterable[Any] | None, invalid: str) -> Built:
    """Read ``data``; raise at the first invalid sequence, or leave out all invalid ones."""
    check(one_of("raise", "missing"), unknown=unknown)
    check(one_of("raise", "mask"), invalid=invalid)
    return build_flat(flatten(data), alphabet, unknown, ids, invalid)


def build_flat(flat: Flat, alphabet: Any, unknown: str, ids: Iterable[Any] | None, invalid: str) -> Built:
    """Check flat sequences; raise at the first invalid one, or leave out all invalid ones."""
    n = len(flat.offsets) - 1
    names = check_ids(ids, n)
    if invalid == "raise":
        _raise_first(flat.problems, names)
    known = None if alphabet is None else Alphabet.of(alphabet)
    if flat.kind == "vectors" and known is None:
        _find_infinities(flat)
        values: NDArray[Any] = flat.values
    else:
        known = _find_alphabet(flat, names) if known is None else known
        values = _encode(flat, known, unknown, names)
    if invalid == "raise":
        _raise_first(flat.problems, names)
    kept = np.ones(n, dtype=bool)
    kept[list(flat.problems)] = False
    offsets = flat.offsets
    if flat.problems:
        values, offsets = _ragged.gather(values, offsets, np.flatnonzero(kept))
    kept_ids = tuple(name for name, keep in zip(names, kept, strict=True) if keep) if names is not None else None
    messages: dict[str | int, str] = {}
    for i in sorted(flat.problems):
        messages[i if names is None else names[i]] = f"{naming(names, i)} {flat.problems[i].text}"
    return Built(values, offsets, known, kept_ids, kept, messages)


def _raise_first(problems: dict[int, Problem], names: tuple[str, ...] | None) -> None:
    """Raise the first problem, if any."""
    if problems:
        i = min(problems)
        raise problems[i].error(f"{naming(names, i)} {problems[i].text}")


def _find_alphabet(flat: Flat, names: tuple[str, ...] | None) -> Alphabet:
    """Return the alphabet of the valid sequences."""
    good = np.setdiff1d(np.arange(len(flat.offsets) - 1), list(flat.problems))
    if flat.problems and len(good) == 0:
        i = min(flat.problems)
        raise ValueError(f"All sequences are invalid: {naming(names, i)} {flat.problems[i].text}")
    if flat.kind == "empty":
        if not len(good):
            raise ValueError(f"X is empty; pass at least one sequence, or for symbols {passing('alphabet')}.")
        raise ValueError(
            f"All sequences are empty, so symbols cannot be told from vectors. For symbols, {passing('alphabet')}."
        )
    values = _ragged.gather(flat.values, flat.offsets, good)[0] if flat.problems else flat.values
    return Alphabet._found(flat.kind, values)


def _find_infinities(flat: Flat) -> None:
    """Add a problem for every sequence with an infinite coordinate."""
    bad = np.flatnonzero(np.isinf(flat.values).any(axis=1))
    for i, at in zip(*_ragged.locate(flat.offsets, bad), strict=True):
        row = flat.values[flat.offsets[i] + at]
        value = row[np.isinf(row)][0]
        text = f"has the value {value} at position {at}; use NaN for missing values."
        flat.problems.setdefault(int(i), Problem(ValueError, text))


def _encode(flat: Flat, alphabet: Alphabet, unknown: str, names: tuple[str, ...] | None) -> NDArray[np.int32]:
    """Encode flat symbols, and add a problem for every sequence with an unknown symbol."""
    first = int(np.argmax(np.diff(flat.offsets) > 0)) if len(flat.offsets) > 1 else 0
    name = naming(names, first) if len(flat.offsets) > 1 else "X"
    codes = alphabet._lookup(flat.kind, flat.values, name)
    bad = np.flatnonzero(codes < 0)
    if not len(bad):
        return codes
    if unknown == "missing":
        codes[bad] = alphabet.missing
        return codes
    for i, at in zip(*_ragged.locate(flat.offsets, bad), strict=True):
        text = alphabet._unknown(flat.kind, flat.values[flat.offsets[i] + at], int(at))
        flat.problems.setdefault(int(i), Problem(ValueError, text))
    return codes
