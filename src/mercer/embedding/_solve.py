"""The spectral solution: from features of training triples to the operators of a filter (HSE-3, HSE-7, HSE-8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from mercer._array import Floats, Indices
from mercer._notices import notify

RANK = 1e-7
"""Singular values below this fraction of the largest are rounding."""
ENTRIES = 1 << 18
"""Number of entries of an array that is made for a part of the triples, so that it stays in a processor's cache."""
LARGEST_TENSOR = 1 << 25
"""Maximum number of entries of a tensor of features, 256 MiB."""


class Block(NamedTuple):
    """Features of the triples of some sequences.

    Parameters
    ----------
    windows : array of shape (T, r)
        Features of all windows.
    past, future, shifted, firsts : array of int
        Which of them are the past, the future and the shifted future of every triple, and which begin a sequence.
    seen : array of shape (m, s)
        Features of current observations.
    numbers : array of shape (m, d)
        Current observations as vectors: symbols one-hot, objects without coordinates.
    """

    windows: Floats
    past: Indices
    future: Indices
    shifted: Indices
    firsts: Indices
    seen: Floats
    numbers: Floats

    def parts(self, entries: int) -> Iterator[slice]:
        """Cut the triples into parts of which each has ``entries`` numbers per triple."""
        size = max(ENTRIES // max(entries, 1), 128)
        return (slice(begin, begin + size) for begin in range(0, len(self.past), size))


class Moments:
    """Sums over triples, with rows of features ``z``, to which further triples can be added.

    Attributes
    ----------
    count, firsts : int
        Number of triples, and of windows that begin a sequence.
    crossed, own : array of shape (r, r)
        Sums of ``z_future z_past'`` and of ``z_past z_past'``.
    observed : array of shape (s, s)
        Sum of ``z z'`` of the current observations.
    past, future, first : array of shape (r,)
        Sums of features.
    value, seen : array of shape (d,), array of shape (s,)
        Sums of current observations and of their features.
    longest : float
        Largest norm of the features of a future window.
    """

    def __init__(self, block: Block) -> None:
        r, s = block.windows.shape[1], block.seen.shape[1]
        self.count, self.firsts, self.longest = 0, 0, 0.0
        self.crossed, self.own, self.observed = np.zeros((r, r)), np.zeros((r, r)), np.zeros((s, s))
        self.past, self.future, self.first = np.zeros((3, r))
        self.value, self.seen = np.zeros(block.numbers.shape[1]), np.zeros(s)
        self.add(block)

    def add(self, block: Block) -> None:
        """Add the triples of a block."""
        past, future = block.windows[block.past], block.windows[block.future]
        self.count += len(past)
        self.firsts += len(block.firsts)
        self.crossed += future.T @ past
        self.own += past.T @ past
        self.observed += block.seen.T @ block.seen
        self.past += past.sum(axis=0)
        self.future += future.sum(axis=0)
        self.first += block.windows[block.firsts].sum(axis=0)
        self.value += block.numbers.sum(axis=0)
        self.seen += block.seen.sum(axis=0)
        norms = np.einsum("ij,ij->i", future, future)
        self.longest = max(self.longest, float(np.sqrt(norms.max(initial=0.0))))


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

    @classmethod
    def of(cls, block: Block, left: Floats, right: Floats) -> Third:
        """Return the sums over a block, with vectors ``left`` of shifted and ``right`` of past windows, ``(T, N)``."""
        n, s, d = left.shape[1], block.seen.shape[1], block.numbers.shape[1]
        found = cls(np.zeros((s, n * n)), np.zeros((n, n)), np.zeros((s, n)), np.zeros((d, n)))
        for part in block.parts(n * n):
            writes, reads, seen = left[block.shifted[part]], right[block.past[part]], block.seen[part]
            found.gain += seen.T @ (writes[:, :, None] * reads[:, None, :]).reshape(-1, n * n)
            found.unseen += writes.T @ reads
            found.density += seen.T @ reads
            found.mean += block.numbers[part].T @ reads
        return found

    def add(self, other: Third) -> None:
        """Add the sums over other triples."""
        self.gain += other.gain
        self.unseen += other.unseen
        self.density += other.density
        self.mean += other.mean

    def project(self, left: Floats, right: Floats) -> Third:
        """Return the sums with ``writes = z_shifted @ left`` and ``reads = z_past @ right``."""
        r, n = left.shape
        gain = np.matmul(left.T, self.gain.reshape(-1, r, r) @ right).reshape(-1, n * n)
        return Third(gain, left.T @ self.unseen @ right, self.density @ right, self.mean @ right)


@dataclass(frozen=True)
class Operators:
    """Parameters of a filter with N components.

    Parameters
    ----------
    start, normalizer : array of shape (N,)
        The first belief, normalized; the functional that is 1 on beliefs.
    unseen : array of shape (N, N)
        Operator of a missing step: the sum over all training points with equal weights.
    metric : array of shape (N, N)
        Inner products of the embedded predictions, ``b' metric b'`` (HSE-9).
    radius : float
        Largest norm of the features of a training window. A belief is a mean of such features, projected, so that it
        cannot be longer.
    singular_values : array
        Those that were kept.
    gain : array of shape (s, N * N)
        Operators of the features of an observation.
    density, mean : array of shape (s, N), array of shape (d, N)
        Predicted features of the next observation, and its mean, from a belief.
    right : array of shape (r, N)
        Weights of the training triples from the features of their past windows, ``reads = z_past @ right``.
    """

    start: Floats
    normalizer: Floats
    unseen: Floats
    metric: Floats
    radius: float
    singular_values: Floats
    gain: Floats
    density: Floats
    mean: Floats
    right: Floats

    @property
    def n(self) -> int:
        """Number of components."""
        return len(self.start)


def kept(values: Floats, n: int) -> int:
    """Return the number of components, at most the numerical rank; warn if it is reduced."""
    rank = int(np.sum(values > RANK * values[0])) if len(values) and values[0] > 0 else 0
    if rank == 0:
        raise ValueError(
            "Past and future windows have no covariance, so there is nothing to predict. Pass data that vary, or "
            "another kernel."
        )
    if rank < n:
        notify(
            f"n_components = {n} is above the numerical rank of the covariance of past and future windows; it was "
            f"reduced to {rank}. Set n_components to at most {rank}."
        )
    return min(n, rank)


def solved(moments: Moments, source: Block | Third, start: str, n: int, alpha: float, solver: str) -> Operators:
    """Return the operators, O(m r^2 + m r N^2) in all.

    Parameters
    ----------
    moments : Moments
        Sums over the training triples.
    source : Block or Third
        The features of all triples, or the sums of products of three of them.
    start : {"stationary", "first"}
        The first belief: the mean of all future windows, or of those that sequences begin with.
    n : int
        Number of components.
    alpha : float
        Regularization.
    solver : {"svd", "reduced_rank"}
        How the subspace is chosen.
    """
    m = moments.count
    crossed = moments.crossed / m
    target = crossed
    if solver == "reduced_rank":
        own, basis = np.linalg.eigh(moments.own / m)
        target = (crossed @ basis) / np.sqrt(np.maximum(own, 0.0) + alpha) @ basis.T
    left, singular, _ = np.linalg.svd(target, full_matrices=False)
    n = kept(singular, n)
    left = left[:, :n]
    reached = left.T @ crossed
    inverse = np.linalg.solve(reached @ reached.T, reached).T
    right = inverse / m
    if isinstance(source, Block):
        projected = Third.of(source, source.windows @ left, source.windows @ right)
    else:
        projected = source.project(left, right)
    second = moments.observed / m
    second[np.diag_indices_from(second)] += alpha
    # Rows of the transpose are contiguous: a step reads each of them once.
    gain: Any = np.ascontiguousarray(linalg.solve(second, projected.gain, assume_a="pos", check_finite=False).T).T
    embedded = crossed @ inverse
    if start == "first" and not moments.firsts:
        raise ValueError("No sequence begins with a window without missing steps. Use start='stationary'.")
    first = left.T @ (moments.first / moments.firsts if start == "first" else moments.future / m)
    normalizer = inverse.T @ moments.past / m
    scale = float(normalizer @ first)
    if not np.isfinite(scale) or abs(scale) < 1e-6:
        raise ValueError(
            "The first belief cannot be normalized: past windows do not predict future ones. Use fewer components, a "
            "larger alpha or more data."
        )
    radius = max(moments.longest * (1 + 1e-9), 1e-300)  # rounding alone is not a reason to pull a belief back
    metric = embedded.T @ embedded
    return Operators(
        first / scale, normalizer, projected.unseen, metric, radius, singular[:n], gain, projected.density,
        projected.mean, right,
    )  # fmt: skip
