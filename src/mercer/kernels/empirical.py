"""Empirical mean map kernels between sets of points (Mehta and Gray 2010)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Array, safe_log
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.families._coupling import InnerLeaf
from mercer.families._family import check_gamma, is_whole
from mercer.kernels._base import Kernel
from mercer.kernels._operands import squared_distances

Floats = np.ndarray[Any, Any]

BLOCK_POINTS = 1024
"""Points of one side whose base kernels are alive at once."""


UNDERFLOW = -600.0
"""Log sums below this have lost terms to underflow and are summed once more, as logarithms."""


class EmpiricalMeanMap(Kernel):
    r"""The average base kernel between the points of two sets, or the windows of two sequences.

    Parameters
    ----------
    order : int, default=0
        Compare windows of ``order + 1`` consecutive points; 0 compares points, in any order.
    gamma : float, default=1.0
        Of the base kernel ``exp(-gamma |x - y|^2)``; symbols are one-hot, so that a mismatch costs ``exp(-2 gamma)``.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols of strings; None takes them from `Sequences`, or finds them in the data.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    .. math:: k(X, Y) = \frac1{m m'} \sum_{ij} e^{-\gamma\|x_i-y_j\|^2}

    (EMMK-1; windows: EMMK-2). No model is needed.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.zeros((3, 2)), np.ones((5, 2))]
    >>> mc.EmpiricalMeanMap(gamma=0.5)(sets).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(
        self,
        order: int = 0,
        gamma: float = 1.0,
        alphabet: Any = None,
        normalize: bool = True,
        zero: str = "raise",
    ) -> None:
        self.order = order
        self.gamma = gamma
        self.alphabet = alphabet
        self.normalize = normalize
        self.zero = zero

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return ("alphabet",)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gamma(self.gamma)
        if not is_whole(self.order, 0):
            raise ValueError(
                f"order = {self.order!r}: give 0 for single points, or the number of neighbours in a window"
            )

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        learned = None if reset else getattr(self, "alphabet_", None)
        known = self.alphabet if self.alphabet is not None else learned
        X = Sequences(X, alphabet=known) if known is not None else Sequences(X)
        X.require_nonempty()
        if not X.is_symbols and np.isnan(X.values).any():
            point = int(np.flatnonzero(np.isnan(X.values).any(axis=1))[0])
            owner = int(np.searchsorted(X.offsets, point, side="right")) - 1
            raise ValueError(
                f"{X.name(owner)} has a coordinate that was not observed (NaN): a mean map of the data cannot "
                "marginalise it; use MeanMap(Gaussian('diagonal')), or leave such points out"
            )
        return X

    def _learn(self, X: Sequences, y: Any = None) -> None:
        self.alphabet_ = X.alphabet
        self.dimension_ = X.dimension

    def _source(self, X: Sequences) -> Sequences:
        if X.is_symbols != (self.alphabet_ is not None) or X.dimension != self.dimension_:
            raise ValueError(
                f"the data are {X!r}, unlike the training data: alphabet {self.alphabet_}, dimension {self.dimension_}"
            )
        return X

    def _prepare(self, source: Sequences) -> Any:
        if source.is_symbols and self.order == 0:
            counts = source.counts()
            return InnerLeaf.smoothed(counts / counts.sum(axis=1, keepdims=True), self.gamma)
        points = source.one_hot() if source.is_symbols else source
        return PointSets(points.windows(int(self.order)) if self.order else points, self.gamma)

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of empirical mean embeddings (MM-1, EMMK-1)")


class PointSets:
    """Sets of points: tiles by one matrix product per block of points, then sums over the sets."""

    order: Floats | None = None

    def __init__(self, sets: Sequences, gamma: float) -> None:
        self.sets = sets
        self.gamma = gamma

    @property
    def tile_hint(self) -> int:
        """Sets of a tile: about as many points as a block."""
        average = self.sets.offsets[-1] / max(len(self.sets), 1)
        return int(np.clip(BLOCK_POINTS / max(average, 1), 1, 256))

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, key: Any) -> PointSets:
        return PointSets(self.sets[key], self.gamma)

    def pair(self, other: PointSets) -> Floats:
        """Log average base kernel of every pair of sets."""
        logs = safe_log(self._summed(other))
        if np.any(logs < UNDERFLOW):
            top = np.full(logs.shape, -np.inf)
            for x, y, base in self._blocks(other):
                _reduce(np.maximum, top, base, x, y)
            logs = safe_log(self._summed(other, top)) + top
        return logs - np.log(self.sets.lengths)[:, None] - np.log(other.sets.lengths)

    def alone(self) -> Floats:
        """Log average base kernel of every set with itself."""
        return np.array([self[i : i + 1].pair(self[i : i + 1])[0, 0] for i in range(len(self))])

    def _summed(self, other: PointSets, top: Floats | None = None) -> Floats:
        """Sum base kernels over all points of every pair; ``top``, one logarithm per pair, is taken out of them."""
        total = np.zeros((len(self), len(other)))
        for x, y, base in self._blocks(other):
            if top is not None:
                base -= top[x][:, y]
            _reduce(np.add, total, np.exp(base, out=base), x, y)
        return total

    def _blocks(self, other: PointSets) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Log base kernels, a block of rows and of columns at a time, and the sets that these points belong to."""
        x, y = (side.sets.values.astype(np.float64, copy=False) for side in (self, other))
        owner_x = np.repeat(np.arange(len(self)), self.sets.lengths)
        owner_y = np.repeat(np.arange(len(other)), other.sets.lengths)
        for i in range(0, len(x), BLOCK_POINTS):
            for j in range(0, len(y), BLOCK_POINTS):
                rows, columns = slice(i, i + BLOCK_POINTS), slice(j, j + BLOCK_POINTS)
                yield owner_x[rows], owner_y[columns], _log_rbf(x[rows], y[columns], self.gamma)


def _log_rbf(x: Floats, y: Floats, gamma: float) -> Floats:
    # Below this, the rounding of a logarithm is about 1e-11: one-hot points, most of them equal, take the fast way.
    squared = squared_distances(x, y, negligible=1e4 / gamma if gamma > 0 else np.inf)
    squared *= -gamma
    return squared


def _reduce(operation: Any, total: Floats, base: Floats, owner_x: Floats, owner_y: Floats) -> None:
    """Add a block of base kernels to what is known of the sets that own its points (owners ascend)."""
    rows, row_starts = np.unique(owner_x, return_index=True)
    columns, column_starts = np.unique(owner_y, return_index=True)
    reduced = operation.reduceat(operation.reduceat(base, column_starts, axis=1), row_starts, axis=0)
    where = np.ix_(rows, columns)
    total[where] = operation(total[where], reduced)
