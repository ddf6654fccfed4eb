"""Windows that differ in a few positions, counted by the positions in which they agree.

Two windows at distance d have the same number I(d) of strings within m mismatches of both, whatever their symbols
(`common_strings`). Let G_j be the number of pairs of windows that agree in k - j given positions, summed over all
choices of these positions: a pair at distance d is counted C(k - d, j - d) times. So the mismatch kernel is
sum_j w_j G_j with j up to 2m, where the weights solve sum_j w_j C(k - d, j - d) = I(d) (`weights`). Every G_j is
an inner product of counts of windows with gaps, of which a window has one per choice of positions, and not one per
string within the mismatches: 16 in place of 96 for k = 5, m = 1 and amino acids, and 7 in place of 58 for k = 3.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats


def neighbors(k: int, symbols: int, m: int) -> int:
    """Return the number of strings within m mismatches of a string."""
    return sum(comb(k, j) * (symbols - 1) ** j for j in range(m + 1))


def common_strings(k: int, symbols: int, m: int, distance: int) -> int:
    """Return the number of strings within m mismatches of both of two strings that differ in ``distance`` positions."""
    d, total = distance, 0
    for first in range(d + 1):  # positions with the symbol of the first string, where the two differ
        for second in range(d - first + 1):  # and with that of the second
            other = d - first - second
            ways = comb(d, first) * comb(d - first, second) * (symbols - 2) ** other
            for changed in range(min(k - d, m - d + min(first, second)) + 1):  # where they agree
                total += ways * comb(k - d, changed) * (symbols - 1) ** changed
    return total


def weights(k: int, symbols: int, m: int) -> list[int]:
    """Return the weight of the windows with j gaps, for j = 0 .. min(2m, k)."""
    most = min(2 * m, k)
    found = [0] * (most + 1)
    for d in range(most, -1, -1):
        beyond = sum(found[j] * comb(k - d, j - d) for j in range(d + 1, most + 1))
        found[d] = common_strings(k, symbols, m, d) - beyond
    return found


def gapped_columns(k: int, symbols: int, m: int) -> tuple[int, int]:
    """Return the number of gapped windows of one window, and the number of all of them."""
    shapes = [(comb(k, j), symbols ** (k - j)) for j in range(min(2 * m, k) + 1)]
    return sum(number for number, _ in shapes), sum(number * width for number, width in shapes)


class GappedRows:
    """Counts of windows with gaps: inner products with one weight per number of gaps.

    Parameters
    ----------
    counts, weighted : Rows or FarColumns
        Counts, ``(N, columns)``, and the same multiplied by the weight of each column.
    norms : ndarray of shape (N,)
        The kernel of every row with itself.
    windows : scipy.sparse.csr_array of shape (N, symbols^k)
        Counts of the windows without gaps, from which explicit features are made.
    """

    order: Floats | None = None

    def __init__(self, counts: Any, weighted: Any, norms: Floats, windows: Any) -> None:
        self.counts, self.weighted, self.norms, self.windows = counts, weighted, norms, windows
        self.tile_hint = counts.tile_hint

    @classmethod
    def of(cls, windows: Any, symbols: int, k: int, m: int, rows: Callable[[Any], Any]) -> GappedRows:
        """Make the operand from counts of windows, a CSR array ``(N, symbols^k)``; ``rows`` makes one of its parts."""
        code, n = windows.indices.astype(np.int64), windows.shape[0]
        owner = np.repeat(np.arange(n), np.diff(windows.indptr))
        digits = [code // symbols ** (k - 1 - p) % symbols for p in range(k)]
        parts, factors = [], []
        for gaps, weight in enumerate(weights(k, symbols, m)):
            for kept in combinations(range(k), k - gaps) if weight else ():
                column = np.zeros(len(code), dtype=np.int64)
                for p in kept:
                    column = column * symbols + digits[p]
                part = sparse.csr_array((windows.data, (owner, column)), shape=(n, symbols ** (k - gaps)))
                part.sum_duplicates()
                parts.append(part)
                factors.append(weight)
        counts = sparse.hstack(parts, format="csr")
        starts = np.cumsum([0] + [part.shape[1] for part in parts])
        factor = np.array(factors, dtype=float)[np.searchsorted(starts, counts.indices, side="right") - 1]
        weighted = sparse.csr_array((counts.data * factor, counts.indices, counts.indptr), shape=counts.shape)
        return cls(rows(counts), rows(weighted), np.asarray(counts.multiply(weighted).sum(axis=1)).ravel(), windows)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, key: Any) -> GappedRows:
        return GappedRows(self.counts[key], self.weighted[key], self.norms[key], self.windows[key])

    def inner(self, other: GappedRows) -> Floats:
        """Return the kernel of every pair of rows: sums of whole numbers, exact below 2^53."""
        return np.asarray(self.counts.inner(other.weighted))

    def squares(self) -> Floats:
        """Return the kernel of every row with itself."""
        return self.norms
