r"""Explanation by marginalization: a decision as it is, minus the decision had a position not been observed.

A generative model can do without an observation: it sums over all values that the observation could have had. No value
has to be invented in its place. Here every position of a sample, or every window of positions, is marked as missing in
a copy of the sample, and the fitted pipeline decides on all copies at once. The parts of the pipeline determine what
"not observed" means:

- A model that all samples share (`Marginalization`, `LatentMeanMap`, `Fisher`, ...) sums over the position,
  :math:`k(x_{\setminus t}, z) = \sum_a k(x_{t \to a}, z)`. A normalized kernel is that of the sample with a missing
  value: the self-kernel sums over both of its sides, :math:`\sum_{a, b} k(x_{t \to a}, x_{t \to b})`.
- A model that is fitted to every sample (`ProbabilityProduct`, `MeanMap`, `JensenShannon` of an estimator) is fitted
  again without the position: it is not counted (families, Markov chains), or is summed over in every step of EM (hidden
  Markov models, linear dynamical systems).
- A point of a set, and a token of a document, is left out: the points of a set are independent. In counts of words, a
  word is not observed if none of its tokens is, so its count is zero.
- A transformer before the kernel, such as `Derivatives`, marks all values as missing that it computes from a missing
  value.

Contributions are not additive: two positions that carry the same evidence have little effect each, and a window over
both has a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._checks import is_whole
from mercer.data import Sequences

__all__ = ["Marginalized", "marginalized"]

MOST_VALUES = 1 << 22
"""Number of symbols, or coordinates, of the copies that are decided on at once."""
Place = tuple[int, ...]
"""A position, or a position and a channel."""


class Marginalized(NamedTuple):
    """Decisions on N samples, and by how much each position changes them."""

    decision: Floats
    """``(N, R)``, for R decision functions."""
    contributions: list[Floats]
    """For each sample ``(T, R)``, or ``(T, d, R)`` by channel; positive if the position increases the decision."""


def marginalized(
    decide: Callable[[Any], Any],
    X: Any,
    *,
    window: int = 1,
    by_channel: bool = False,
    drop: bool = False,
    absent: float = np.nan,
    part: str = "the kernel",
) -> Marginalized:
    """Decide on samples with and without each of their positions.

    Parameters
    ----------
    decide : function
        Maps M samples to decisions of shape (M,) or (M, R).
    X : Sequences, or matrix of shape (N, T), dense or CSR
        N sequences of symbols or of vectors, or N rows, whose columns are the positions.
    window : int, default=1
        Number of consecutive positions that are missing at the same time. The contribution of position t is that of
        the window around t, which begins at ``t - window // 2``; windows are cut at the ends of the sequence.
    by_channel : bool, default=False
        Whether single channels of vectors are missing, in place of whole time steps.
    drop : bool, default=False
        Whether positions are left out, in place of being marked as missing: the same for sets, whose points are
        independent, and the only way for models of points that do not accept missing coordinates.
    absent : float, default=nan
        Entry of a matrix that is not observed; 0 for counts of words.
    part : str
        What reads the samples, for messages.

    Returns
    -------
    Marginalized
        The decisions, and the contributions: exactly zero where nothing was observed.

    Examples
    --------
    >>> from mercer.data import Sequences
    >>> from mercer._explain._marginalized import marginalized
    >>> number_of_b = lambda X: [float(sum(s == "b" for s in x)) for x in X]
    >>> marginalized(number_of_b, Sequences(["abba"])).contributions[0].ravel()
    array([0., 1., 1., 0.])
    """
    if not is_whole(window, 1):
        raise ValueError(f"window must be a whole number, at least 1; got {window!r}.")
    is_sequences = isinstance(X, Sequences)
    if by_channel and (drop or not (is_sequences and X.dimension)):
        raise ValueError("by_channel=True needs series of vectors, in which NaN is missing. Use by_channel=False.")
    decision = _decided(decide, X)
    if window > 1 and not is_sequences:
        raise ValueError(f"The columns of a matrix have no order, so window must be 1; got {window}.")
    samples: Any = _Sequences(X, int(window), by_channel, drop) if is_sequences else _Rows(X, absent)
    out = [np.zeros((*samples.shape(i), decision.shape[1])) for i in range(len(decision))]
    for places, copies in _batches(samples, len(decision)):
        try:
            without = _decided(decide, copies)
        except (TypeError, ValueError, NotImplementedError) as error:  # X itself is accepted, so the gaps are refused
            raise TypeError(
                f"Explanation by marginalization marks positions as missing, which {part} does not accept: {error} "
                "Use a kernel whose model sums over missing values, such as mc.HMM or mc.AffinePairHMM, or a kernel "
                "with additive features, such as mc.Spectrum or mc.Fisher."
            ) from error
        for (i, *place), value in zip(places, without, strict=True):
            out[i][tuple(place)] = decision[i] - value
    return Marginalized(decision, out)


def _decided(decide: Callable[[Any], Any], X: Any) -> Floats:
    values = np.asarray(decide(X), dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def _batches(samples: Any, n: int) -> Iterator[tuple[list[Place], Any]]:
    """Yield copies of samples with missing positions, and the sample and the place of each copy."""
    places: list[Place] = []
    copies: list[Any] = []
    size = 0
    for i in range(n):
        for place, copy in samples.copies(i):
            places.append((i, *place))
            copies.append(copy)
            size += copy.nnz if sparse.issparse(copy) else copy.size
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
        self.is_sparse = sparse.issparse(X)
        if self.is_sparse and absent != 0:
            raise TypeError("The zeros of a sparse matrix are observed values. Pass a dense matrix; NaN is missing.")
        self.X, self.absent = sparse.csr_array(X) if self.is_sparse else np.asarray(X, dtype=np.float64), absent

    def shape(self, i: int) -> Place:
        return (int(self.X.shape[1]),)

    def copies(self, i: int) -> Iterator[tuple[Place, Any]]:
        """Yield a copy for each column; none where it is absent already, so that it contributes zero."""
        row = self.X[[i]].toarray()[0] if self.is_sparse else self.X[i]
        for t in np.flatnonzero(~(np.isnan(row) | (row == self.absent))):
            copy = row.copy()
            copy[t] = self.absent
            yield (int(t),), sparse.csr_array(copy[None]) if self.is_sparse else copy

    def joined(self, copies: list[Any]) -> Any:
        return sparse.vstack(copies, format="csr") if self.is_sparse else np.stack(copies)
