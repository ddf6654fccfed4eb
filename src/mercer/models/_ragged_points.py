"""The points of kernel density estimates: an array of a batch whose members have different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Floats
from mercer._wording import counted
from mercer.data import ragged as _ragged
from mercer.data.ragged import offsets_of

if TYPE_CHECKING:
    from mercer._native.points import PointSets


class Points:
    """N sets of points of one dimension, concatenated; immutable.

    Parameters
    ----------
    data : array of shape (T, d)
        All points.
    indptr : array of shape (N + 1,)
        Set i is ``data[indptr[i]:indptr[i + 1]]``.
    single : bool, default=False
        Whether this is the single set of a batch of shape ().
    """

    parts: ClassVar[tuple[str, ...]] = ("data", "indptr", "single")
    dtype: ClassVar[Any] = np.dtype(np.float64)
    """The type of the coordinates."""
    _axes: ClassVar[int] = 2

    def __init__(self, data: Any, indptr: Any, single: Any = False) -> None:
        values, offsets = np.array(data, dtype=self.dtype, order="C"), np.array(indptr)
        if values.ndim != self._axes or (self._axes == 2 and not values.shape[1]):
            raise ValueError(f"the values of {type(self).__name__} have shape {values.shape}")
        _ragged.check_offsets(offsets, len(values))
        if single and len(offsets) != 2:
            raise ValueError(f"a single model has {len(offsets) - 1} sets of {type(self).__name__}")
        self._hold(values, offsets.astype(np.int64), bool(single))

    def _hold(self, data: Floats, indptr: Floats, single: bool, packed: PointSets | None = None) -> None:
        for array in (data, indptr):
            array.setflags(write=False)
        self.data, self.indptr, self.single, self._packed = data, indptr, single, packed

    @classmethod
    def _make(cls, *content: Any) -> Self:
        """Create from arrays that no other code can modify."""
        made = object.__new__(cls)
        made._hold(*content)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data, self.indptr, self.single)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"Points({len(self)} sets, {len(self.data)} points of {self.dimension} coordinates)"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        raise TypeError("Points of several sets are not a matrix. Use points.data and points.indptr, or points.set(i).")

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.data.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch, followed by that of one point."""
        return (self.dimension,) if self.single else (len(self), self.dimension)

    @property
    def nbytes(self) -> int:
        """Bytes of the points."""
        return int(self.data.nbytes + self.indptr.nbytes)

    @property
    def sizes(self) -> Floats:
        """Number of points of every set, ``(N,)``."""
        return np.diff(self.indptr)

    @property
    def packed(self) -> PointSets:
        """The points in the layout of the compiled loops, cached."""
        if self._packed is None:
            from mercer._native.points import PointSets

            self._packed = PointSets.of(self.data, self.indptr)
        return self._packed

    def set(self, i: int) -> Floats:
        """Return the points of one set, ``(m, d)``."""
        return self.data[self.indptr[i] : self.indptr[i + 1]]

    def __getitem__(self, key: Any) -> Self:
        """Select sets by an integer, a slice or an array."""
        if self.single:
            raise IndexError("A single model cannot be indexed.")
        chosen = np.arange(len(self))[key]
        single = np.ndim(chosen) == 0
        index = np.atleast_1d(chosen)
        if index.ndim != 1:
            raise IndexError("These models have one batch axis. Index it with a number, a slice or a list.")
        data, indptr = _ragged.gather(self.data, self.indptr, index)
        return self._make(data, indptr, single, None if self._packed is None else self._packed[index])

    def counted(self, what: str) -> str:
        """Return how many points the sets have: "1 to 3 points"."""
        few, many = (int(self.sizes.min()), int(self.sizes.max())) if len(self) else (0, 0)
        return (f"{few} to " if few != many else "") + counted(many, what)

    def new_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a batch: one axis, or none for a single model; raise for others."""
        count = len(self)
        wanted = tuple(count if n == -1 else n for n in shape)
        if wanted not in ((count,), ()) or (wanted == () and count != 1):
            raise ValueError(f"These models have one batch axis; {count} of them cannot have the shape {shape}.")
        return wanted

    def shaped(self, single: bool) -> Self:
        """Return one set as the member of a batch of shape () or (1,)."""
        return self._make(self.data, self.indptr, single, self._packed)

    def joined(self, parts: Sequence[Self]) -> Self:
        """Concatenate sets."""
        sizes = np.concatenate([part.sizes for part in parts])
        return self._make(np.concatenate([part.data for part in parts]), offsets_of(sizes), False)

    def row_digests(self) -> list[bytes]:
        """Digest every set from its points in their order."""
        return _ragged.digests(self.data, self.indptr, b"points")

    def as_arrays(self) -> dict[str, Floats]:
        """Return the content as arrays, for a file."""
        return {name: np.asarray(getattr(self, name)) for name in self.parts}


# -- sums of base kernels ------------------------------------------------------------------------------------


def log_sums(a: PointSets, b: PointSets, left: Floats, right: Floats, factor: Floats) -> Floats:
    """Compute log sum_ij exp(-factor |x_i - y_j|^2) for pairs of sets, exact where every term underflows.

    Parameters
    ----------
    a, b : PointSets
        Sets of points.
    left, right : int arrays of shape (P,)
        Which sets of ``a`` and of ``b`` are paired.
    factor : array of shape (P,)
        Positive.
    """
    from mercer._native import points

    scale = -points.LOG2_E * factor

    def ask(term: int, which: Any, shift: Floats) -> Floats:
        return a.ask(term, b, left[which], right[which], scale[which], shift)[:, 0]

    return points.log_sums(ask, scale)


def log_sums_at(x: Floats, packed: PointSets, sets: PointSets, which: int, factor: float) -> Floats:
    """Compute log sum_j exp(-factor |x_t - y_j|^2) for points x ``(T, d)``, also ``packed``, and one set y."""
    from mercer._native import points

    scale = -points.LOG2_E * factor

    def ask(term: int, some: Floats, shift: Floats) -> Floats:
        asked = packed if len(some) == len(x) else points.PointSets.of(x[some], np.array([0, len(some)]))
        return asked.ask_each(term, sets, which, scale, shift)

    return points.log_sums(ask, np.full(len(x), scale))


def two_sums(a: PointSets, factor: Floats) -> Floats:
    """Sum exp(-factor |x_i - x_j|^2) and its square over all i and j of every set, ``(N, 2)``."""
    from mercer._native.points import LOG2_E, TWO_SUMS

    every = np.arange(len(a))
    return a.ask(TWO_SUMS, a, every, every, -LOG2_E * factor)
