"""Samples without some of their positions, and decisions on all of these at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data import Sequences

MOST_VALUES = 1 << 22
"""Number of symbols, or coordinates, of the copies that are decided on at once."""
Place = tuple[int, ...]
"""A position, or a position and a channel."""


def changes(
    decide: Callable[[Any, Floats], Floats],
    decision: Floats,
    X: Any,
    *,
    window: int = 1,
    by_channel: bool = False,
    drop: bool = False,
    absent: float = np.nan,
) -> list[Floats]:
    """Return by how much the positions of samples increase decisions: with the position, minus without it.

    Parameters
    ----------
    decide : function
        Maps M samples, and the indices of the samples of which they are copies, to decisions of shape (M, R).
    decision : array of shape (N, R)
        The decisions on the samples themselves.
    X : Sequences, or matrix of shape (N, T), dense or CSR
        N sequences of symbols or of vectors, or N rows. The positions of a row are its columns, of a sparse row its
        stored entries.
    window : int, default=1
        Number of consecutive positions that are missing at the same time. The change of position t is that of the
        window around t, which begins at ``t - window // 2``; windows are cut at the ends of the sequence.
    by_channel : bool, default=False
        Whether single channels of vectors are missing, in place of whole time steps.
    drop : bool, default=False
        Whether positions are left out, in place of being marked as missing: the same for sets, whose points are
        independent.
    absent : float, default=nan
        Entry of a row that is not observed; 0 for counts of words.

    Returns
    -------
    list of N arrays of shape (T, R), or (T, d, R) by channel
        Exactly zero where nothing was observed.
    """
    samples: Any
    if isinstance(X, Sequences):
        samples = _Sequences(X, window, by_channel, drop)
    else:
        samples = _SparseRows(X) if sparse.issparse(X) else _Rows(X, absent)
    out = [np.zeros((*samples.shape(i), decision.shape[1])) for i in range(len(decision))]
    for places, copies in _batches(samples, len(decision)):
        without = decide(copies, np.array([place[0] for place in places]))
        for (i, *place), value in zip(places, without, strict=True):
            out[i][tuple(place)] = decision[i] - value
    return out


def _batches(samples: Any, n: int) -> Iterator[tuple[list[Place], Any]]:
    """Yield copies of samples with missing positions, and the sample and the place of each copy."""
    places: list[Place] = []
    copies: list[Any] = []
    size = 0
    for i in range(n):
        for place, copy in samples.copies(i):
            places.append((i, *place))
            copies.append(copy)
            size += copy.size
            if size >= MOST_VALUES:
                yield places, samples.joined(copies)
                places, copies, size = [], [], 0
    if places:
        yield places, samples.joined(copies)


class _Sequences:
    """Sequences, whose positions are marked as missing."""

    def __init__(self, X: Sequences, window: int, by_channel: bool, drop: bool) -> None:
        self.X, self.window, self.by_channel, self.drop = X, window, by_channel, drop
        self.channels = range(X.dimension or 0)
        self.missing = np.nan if X.alphabet is None else X.alphabet.missing

    def shape(self, i: int) -> Place:
        """Return the number of positions, and of channels."""
        length = int(self.X.lengths[i])
        return (length, len(self.channels)) if self.by_channel else (length,)

    def copies(self, i: int) -> Iterator[tuple[Place, Any]]:
        """Yield a copy for each place; none where the window is missing already, so that it contributes zero."""
        values = self.X.values[self.X.offsets[i] : self.X.offsets[i + 1]]
        observed = ~np.isnan(values) if self.X.alphabet is None else values != self.missing
        for t in range(len(values)):
            first = t - self.window // 2
            rows = slice(max(first, 0), first + self.window)
            for channel in [(c,) for c in self.channels] if self.by_channel else [()]:
                if not observed[(rows, *channel)].any():
                    continue
                if self.drop:
                    yield (t,), np.delete(values, rows, axis=0)
                else:
                    copy = values.copy()
                    copy[(rows, *channel)] = self.missing
                    yield (t, *channel), copy

    def joined(self, copies: list[Any]) -> Sequences:
        """Return the copies as sequences, without ids, which would not be distinct."""
        if self.X.alphabet is not None:
            return Sequences.from_codes(copies, self.X.alphabet)
        return Sequences(copies, channels=self.X.channels)


class _Rows:
    """Rows of a matrix, whose entries are set to ``absent``."""

    def __init__(self, X: Any, absent: float) -> None:
        self.X, self.absent = np.asarray(X, dtype=np.float64), absent

    def shape(self, i: int) -> Place:
        """Return the number of positions, and of channels."""
        return (int(self.X.shape[1]),)

    def copies(self, i: int) -> Iterator[tuple[Place, Any]]:
        """Yield a copy for each column; none where it is absent already, so that it contributes zero."""
        row = self.X[i]
        for t in np.flatnonzero(~(np.isnan(row) | (row == self.absent))):
            copy = row.copy()
            copy[t] = self.absent
            yield (int(t),), copy

    def joined(self, copies: list[Any]) -> Any:
        """Return the copies as a matrix."""
        return np.stack(copies)


class _SparseRows:
    """Rows of counts, of which one stored entry is left out."""

    def __init__(self, X: Any) -> None:
        self.X = sparse.csr_array(X)

    def shape(self, i: int) -> Place:
        """Return the number of positions, and of channels."""
        return (int(self.X.indptr[i + 1] - self.X.indptr[i]),)

    def copies(self, i: int) -> Iterator[tuple[Place, Any]]:
        row = slice(self.X.indptr[i], self.X.indptr[i + 1])
        data, indices = self.X.data[row], self.X.indices[row]
        for t in range(len(data)):
            yield (t,), np.stack([np.delete(data, t), np.delete(indices, t)])

    def joined(self, copies: list[Any]) -> Any:
        """Return the copies as a matrix."""
        ends = np.cumsum([0, *(copy.shape[1] for copy in copies)])
        data, indices = np.concatenate(copies, axis=1)
        return sparse.csr_array((data, indices.astype(np.int64), ends), shape=(len(copies), self.X.shape[1]))
