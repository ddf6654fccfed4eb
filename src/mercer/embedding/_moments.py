"""Sums over training triples: all that the spectral solution needs of the data (HSE-8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices

ENTRIES = 1 << 18
"""Number of entries of an array that is made for a part of the triples, so that it stays in a processor's cache."""
PART = 4096
"""Number of windows whose kernel values are held at a time."""
LARGEST_TENSOR = 1 << 25
"""Maximum number of entries of a tensor of features, 256 MiB; beyond it, the features of all triples are kept."""


def rows(array: Any, index: Indices) -> Any:
    """Return the rows at increasing indices; a view if they follow one another."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return array[index[0] : index[-1] + 1]
    return array[index]


def in_parts(features: Any, cut: Any, index: Indices) -> Floats:
    """Return the features of what ``cut`` returns for indices, ``(n, r)``, a part at a time."""
    if len(index) <= PART:
        return np.asarray(features(cut(index)))
    first = features(cut(index[:PART]))
    out = np.empty((len(index), first.shape[1]))
    out[:PART] = first
    for begin in range(PART, len(index), PART):
        out[begin : begin + PART] = features(cut(index[begin : begin + PART]))
    return out


class Block(NamedTuple):
    """Features of the triples of some sequences.

    Parameters
    ----------
    windows : array of shape (T, r)
        Features of all windows.
    past, future, shifted, firsts : array of int
        Which of them are the past, the future and the shifted future of every triple, and which begin a sequence.
    observed : array of shape (m, s), or None
        Features of current observations; None if they are those of the future windows.
    values : array of shape (m, d), array of shape (m,), or None
        Current observations: vectors, codes of symbols, or None for objects.
    width : int
        Number of coordinates, or of symbols.
    """

    windows: Floats
    past: Indices
    future: Indices
    shifted: Indices
    firsts: Indices
    observed: Floats | None
    values: Any
    width: int

    def parts(self, entries: int, least: int = 256) -> Iterator[slice]:
        """Cut the triples into parts, each with about ``ENTRIES / entries`` of them, ``least`` or more."""
        size = max(ENTRIES // max(entries, 1), least)
        for begin in range(0, len(self.past), size):
            yield slice(begin, begin + size)

    def seen(self, part: slice) -> Floats:
        """Return the features of the current observations, ``(n, s)``."""
        return np.asarray(rows(self.windows, self.future[part]) if self.observed is None else self.observed[part])

    def numbers(self, part: slice) -> Floats:
        """Return the current observations as vectors, ``(n, d)``: symbols one-hot, objects without coordinates."""
        if self.values is None:
            return np.zeros((len(self.past[part]), 0))
        if self.values.ndim == 1:
            return np.asarray(self.values[part][:, None] == np.arange(self.width), dtype=float)
        return np.asarray(self.values[part], dtype=float)


@dataclass
class Moments:
    """Sums over triples, with rows of features ``z``; those of two sets of triples can be added.

    Parameters
    ----------
    count, firsts : int
        Number of triples, and of windows that begin a sequence.
    crossed : array of shape (r, r)
        Sum of ``z_future z_past'``.
    own : array of shape (r, r)
        Sum of ``z_past z_past'``, for reduced-rank regression; else zero.
    observed : array of shape (s, s)
        Sum of ``z z'`` of the current observations.
    past, future, first : array of shape (r,)
        Sums of features.
    value, seen : array of shape (d,), array of shape (s,)
        Sums of current observations and of their features.
    longest : float
        Largest norm of the features of a future window.
    """

    count: int
    firsts: int
    crossed: Floats
    own: Floats
    observed: Floats
    past: Floats
    future: Floats
    first: Floats
    value: Floats
    seen: Floats
    longest: float

    @classmethod
    def of(cls, block: Block, *, regress: bool) -> Moments:
        """Return the sums over the triples of a block."""
        r = block.windows.shape[1]
        s = r if block.observed is None else block.observed.shape[1]
        found = cls(
            len(block.past),
            len(block.firsts),
            np.zeros((r, r)),
            np.zeros((r, r) if regress else (1, 1)),
            np.zeros((s, s)),
            np.zeros(r),
            np.zeros(r),
            block.windows[block.firsts].sum(axis=0),
            np.zeros(block.width if block.values is not None else 0),
            np.zeros(s),
            0.0,
        )
        for part in block.parts(r, least=2048):
            past, future = (rows(block.windows, index[part]) for index in (block.past, block.future))
            seen, ones = block.seen(part), np.ones(len(past))
            found.crossed += future.T @ past
            found.observed += seen.T @ seen
            if regress:
                found.own += past.T @ past
            found.past += ones @ past
            found.future += ones @ future
            found.value += block.numbers(part).sum(axis=0)
            if block.observed is not None:
                found.seen += ones @ seen
            found.longest = max(found.longest, float(np.sqrt(np.einsum("ij,ij->i", future, future).max())))
        if block.observed is None:
            found.seen = found.future
        return found

    def __add__(self, other: Moments) -> Moments:
        both = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Moments(**{**both, "longest": max(self.longest, other.longest)})


@dataclass
class Third:
    """Sums of products of three vectors over triples: the features of the current observation, and two more.

    With the features of windows as the other two, the cost of further triples does not depend on how many there were.
    With their projections to N dimensions, these are the sums that the operators of a filter consist of.

    Parameters
    ----------
    gain : array of shape (s, N * N)
        Sum of ``z_observed writes reads'``.
    unseen : array of shape (N, N)
        Sum of ``writes reads'``.
    density, mean : array of shape (s, N), array of shape (d, N)
        Sums of ``z_observed reads'`` and ``x reads'``.
    """

    gain: Floats
    unseen: Floats
    density: Floats
    mean: Floats

    @staticmethod
    def fits(block: Block) -> bool:
        """Whether the tensor of the features of windows is small enough to be kept."""
        return block.seen(slice(0, 1)).shape[1] * block.windows.shape[1] ** 2 <= LARGEST_TENSOR

    @classmethod
    def empty(cls, block: Block, n: int) -> Third:
        """Return sums over no triples, for blocks like this one and N dimensions."""
        s, d = (find(slice(0, 1)).shape[1] for find in (block.seen, block.numbers))
        return cls(np.zeros((s, n * n)), np.zeros((n, n)), np.zeros((s, n)), np.zeros((d, n)))

    @classmethod
    def of(cls, block: Block) -> Third:
        """Return the sums over the triples of a block, with the features of its windows."""
        found = cls.empty(block, block.windows.shape[1])
        found.add(block)
        return found

    def add(self, block: Block, left: Floats | None = None, right: Floats | None = None) -> None:
        """Add the triples of a block, with vectors ``left`` of shifted and ``right`` of past windows, ``(T, N)``."""
        n, least = len(self.unseen), 128 if left is None else 256  # products of all features are wide
        left, right = (block.windows if one is None else one for one in (left, right))
        for part in block.parts(n * n, least):
            writes, reads = rows(left, block.shifted[part]), rows(right, block.past[part])
            seen = block.seen(part)
            self.gain += seen.T @ (writes[:, :, None] * reads[:, None, :]).reshape(-1, n * n)
            self.unseen += writes.T @ reads
            self.density += seen.T @ reads
            self.mean += block.numbers(part).T @ reads

    def project(self, left: Floats, right: Floats) -> Third:
        """Return the sums with ``writes = z_shifted @ left`` and ``reads = z_past @ right``."""
        r, n = left.shape
        gain = np.matmul(left.T, self.gain.reshape(-1, r, r) @ right).reshape(-1, n * n)
        return Third(gain, left.T @ self.unseen @ right, self.density @ right, self.mean @ right)


class Rows:
    """Features of all triples: linear in their number.

    Parameters
    ----------
    blocks : list of Block
        The features.
    """

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks

    def add(self, block: Block) -> None:
        """Add the triples of a block."""
        self.blocks.append(block)

    def project(self, left: Floats, right: Floats) -> Third:
        """Return the sums with ``writes = z_shifted @ left`` and ``reads = z_past @ right``."""
        n = left.shape[1]
        found = Third.empty(self.blocks[0], n)
        for block in self.blocks:
            both = block.windows @ np.concatenate([left, right], axis=1)
            found.add(block, both[:, :n], both[:, n:])
        return found
