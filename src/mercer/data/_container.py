"""Base class of `Sequences`: storage, NumPy-style indexing and pickling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing, is_whole
from mercer._immutable import Immutable
from mercer._notices import described
from mercer.data import ragged as _ragged
from mercer.data._forms import ONE_SERIES
from mercer.data.alphabet import Alphabet


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
