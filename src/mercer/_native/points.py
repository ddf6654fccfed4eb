"""Sums over all pairs of points, or of windows, of two sets, by native/points.hpp and native/windows.hpp.

Every pair of sets is summed separately: its bits do not depend on its neighbors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer._native import call
from mercer._rescue import rescued

SUM, NEAREST, TWO_SUMS, WEIGHTED = 1, 2, 3, 4
"""The sum of 2^t, the smallest squared distance, the sums of 2^t and of its square, the sum of 2^t <v, w>."""
_LOST = 2.0**-900
"""Sums below this have lost terms by underflow, and are recomputed relative to their largest term."""
LONG_CALL = 2e9
"""Work of one call, a fifth of a second: more is done in parts, so that an interrupt is answered."""
LOG2_E = 1 / math.log(2)
_PADDING = 8
"""Whole vectors are loaded: points after the last one are read, and do not count."""


def by_coordinate(points: Floats) -> Floats:
    """Return points ``(T, d)`` coordinate by coordinate, with padding, as a right side: ``(d, T + padding)``."""
    out = np.zeros((points.shape[1], len(points) + _PADDING))
    out[:, : len(points)] = points.T
    return out


@dataclass(frozen=True)
class PointSets:
    """Sets of points, with or without a vector of weights each, as left and as right side of pairs."""

    points: tuple[Floats, Floats]
    """Points ``(T, d)``, and by coordinate."""
    weights: tuple[Floats, Floats] | tuple[None, None]
    """Weights in the same layout, m per point."""
    begin: Floats
    """First point of every set, ``(N,)`` int."""
    size: Floats
    """Number of points of every set."""

    @classmethod
    def of(cls, points: Floats, offsets: Floats, weights: Floats | None = None) -> Self:
        """Arrange points ``(T, d)`` and weights ``(T, m)``, set i at ``offsets[i]:offsets[i + 1]``."""
        points = np.ascontiguousarray(points, np.float64)
        pair = (None, None) if weights is None else (np.ascontiguousarray(weights), by_coordinate(weights))
        return cls((points, by_coordinate(points)), pair, np.asarray(offsets[:-1]), np.diff(offsets))

    def __len__(self) -> int:
        return len(self.begin)

    def __getitem__(self, key: Any) -> PointSets:
        """Take some sets; all share the memory of the points."""
        return replace(self, begin=self.begin[key], size=self.size[key])

    def ask(
        self, term: int, other: PointSets, left: Any, right: Any, scale: Floats, shift: Floats | None = None
    ) -> Floats:
        """Sum over all points of the pairs of sets ``left[p], right[p]``.

        Parameters
        ----------
        term : {SUM, NEAREST, TWO_SUMS, WEIGHTED}
            The quantity to compute, for t = scale |x - y|^2 + shift.
        other : PointSets
            The sets of the right side.
        left, right : ndarray of int of shape (P,)
            Indices of the sets of each pair.
        scale, shift : ndarray of shape (P,)
            Scale and shift of each pair.

        Returns
        -------
        ndarray of shape (P, 2)
            The second column is used by ``TWO_SUMS`` only.
        """
        shift = np.zeros(len(left)) if shift is None else shift

        def compute(spans: Spans, pair: Any) -> Floats:
            return self._sums(term, other, spans, scale[pair], shift[pair], each=False)

        spans = self.begin[left], self.size[left], other.begin[right], other.size[right]
        return _in_parts(compute, spans, 1, self._cost(), term)

    def ask_each(self, term: int, other: PointSets, which: int, scale: float, shift: Floats) -> Floats:
        """Return the result for every point of the single left set with set ``which`` of the right, ``(T,)``."""
        size = max(1, int(LONG_CALL / (self._cost() * max(1, other.size[which]))))
        parts = [np.empty((0, 2))]
        for begin in range(0, len(shift), size):
            some = shift[begin : begin + size]
            spans = (np.array([x]) for x in (self.begin[0] + begin, len(some), other.begin[which], other.size[which]))
            parts.append(self._sums(term, other, tuple(spans), np.array([scale]), some, each=True))
        return np.concatenate(parts)[:, 0]

    def _cost(self) -> int:
        return 8 + sum(x.shape[1] for x in (self.points[0], self.weights[0]) if x is not None)

    def _sums(self, term: int, other: PointSets, spans: Spans, scale: Floats, shift: Floats, each: bool) -> Floats:
        out = np.zeros((len(shift), 2))
        call(
            "point_sums", x=self.points[0], v=self.weights[0], y=other.points[1], w=other.weights[1],
            scale=scale, shift=shift, term=term, each=each, out=out, **_named(spans),
        )  # fmt: skip
        return out


def log_sums(ask: Callable[[int, Any, Floats], Floats], scale: Floats) -> Floats:
    """Return the natural logarithms of sums of 2^(scale |x - y|^2), exact even if every term underflows.

    Parameters
    ----------
    ask : callable
        ``ask(term, which, shift)`` returns `SUM` or `NEAREST` of the given pairs, with ``shift`` added to exponents.
    scale : ndarray of shape (P,)
        Scale of every pair, negative.

    Returns
    -------
    ndarray of shape (P,)
        -inf where all points are infinitely far apart.
    """
    sums = ask(SUM, np.arange(len(scale)), np.zeros(len(scale)))

    def careful(which: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # distances that overflow
            shift = -scale[which] * ask(NEAREST, which, np.zeros(len(which)))
            again = ask(SUM, which, np.minimum(shift, np.finfo(float).max))
            # Beyond 2^56 the rounding error of the shift exceeds the logarithm of the number of terms.
            return np.where(shift > 2.0**56, -shift / LOG2_E, np.log(again) - shift / LOG2_E)

    with np.errstate(divide="ignore"):
        return rescued(np.log(sums), sums >= _LOST, careful)


def window_sums(
    term: int, x: Floats, y: Floats, offsets: tuple[Floats, Floats], pairs: tuple[Any, Any], width: int,
    scale: float, shift: Floats,
) -> Floats:  # fmt: skip
    """Sum over all windows of pairs of sequences of vectors.

    Parameters
    ----------
    term : {SUM, NEAREST}
        The sum of 2^(scale q + shift) over the squared distances q of windows, or the smallest q.
    x, y : ndarray
        All vectors of the left side, ``(T, d)``, and of the right side, `by_coordinate`.
    offsets : pair of ndarrays
        Sequence i of the left side is ``x[offsets[0][i]:offsets[0][i + 1]]``.
    pairs : pair of ndarrays of int of shape (P,)
        Indices of the sequences of each pair.
    width : int
        Number of vectors in a window.
    scale, shift : float and ndarray of shape (P,)
        Scale and shift of the exponents.

    Returns
    -------
    ndarray of shape (P,)
    """

    def compute(spans: Spans, pair: Any) -> Floats:
        out = np.empty(len(spans[0]))
        call("window_sums", x=x, y=y, width=width, scale=scale, shift=shift[pair], term=term, out=out, **_named(spans))
        return out

    return _in_parts(compute, _spans(offsets, pairs), width, 8 + width + x.shape[1], term)


def difference_counts(
    codes: tuple[Any, Any], offsets: tuple[Floats, Floats], pairs: tuple[Any, Any], width: int
) -> Floats:
    """Count the pairs of windows of strings that differ in 0, 1, ..., ``width`` positions, (P, width + 1)."""

    def compute(spans: Spans, pair: Any) -> Floats:
        out = np.empty((len(spans[0]), width + 1))
        call("difference_counts", x=codes[0], y=codes[1], out=out, **_named(spans))
        return out

    return _in_parts(compute, _spans(offsets, pairs), width, 16, SUM)


Spans = tuple[Any, ...]
"""Of pairs of sets or sequences: first point and number of points on the left, and the same on the right."""


def _spans(offsets: tuple[Floats, Floats], pairs: tuple[Any, Any]) -> Spans:
    (x, y), (left, right) = offsets, pairs
    return x[left], np.diff(x)[left], y[right], np.diff(y)[right]


def _named(spans: Spans) -> dict[str, Any]:
    return dict(zip(("begin_x", "size_x", "begin_y", "size_y"), spans, strict=True))


def _in_parts(compute: Callable[[Spans, Any], Floats], spans: Spans, width: int, cost: float, term: int) -> Floats:
    """Compute pairs in calls of bounded work; a long pair in parts of its left side, which depend on its sizes only.

    ``compute`` takes spans and the pairs to which they belong.
    """
    begin, size, right, across = spans
    if cost * float(size @ across.astype(np.float64)) <= LONG_CALL:
        return compute(spans, slice(None))
    windows = np.maximum(size - width + 1, 1)
    work = cost * windows * across.astype(np.float64)
    length = -(-windows // np.ceil(work / LONG_CALL).clip(1).astype(np.int64))
    count = -(-windows // length)
    first, pair = np.cumsum(count) - count, np.repeat(np.arange(len(count)), count)
    at = (np.arange(len(pair)) - first[pair]) * length[pair]
    split = begin[pair] + at, np.minimum(length[pair] + width - 1, size[pair] - at), right[pair], across[pair]
    done = np.cumsum((work / count)[pair]) // LONG_CALL
    edges = [*np.flatnonzero(np.diff(done, prepend=-1)), len(pair)]
    calls = [slice(*edge) for edge in itertools.pairwise(edges)]
    values = np.concatenate([compute(tuple(x[some] for x in split), pair[some]) for some in calls])
    join = np.minimum if term == NEAREST else np.add
    return np.asarray(join.reduceat(values, first, axis=0))
