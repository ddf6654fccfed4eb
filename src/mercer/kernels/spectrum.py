"""Spectrum kernels, which compare strings by their substrings of length k (Leslie, Eskin and Noble 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats
from mercer._parameters import Rules, one_of, whole
from mercer._verdict import Verdict
from mercer.data import Alphabet, Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.csr import CSRRows
from mercer.data.ragged import Windows, windows_of
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._names import words
from mercer.kernels._operands import CHEAP_COLUMNS, InnerProducts, Rows
from mercer.kernels.base.kernel import Kernel

DENSE_COLUMNS = 1024
"""Up to this number of features, rows are dense, because dense products are faster than sparse ones."""
DENSE_SHARE, DENSE_CELLS = 0.05, 1 << 25
"""Rows with at least this share of nonzero entries are dense too, up to this number of entries (256 MiB)."""
INDEXED_COLUMNS = 1 << 22
"""Up to this number of features, tables cover all of them; beyond, only those that occur in a tile."""
NEIGHBORS = 1 << 24
"""Maximum number of pairs of a window and a feature within the mismatches."""


class Words(InnerProducts, Kernel):
    """A kernel of strings that compares their windows of ``k`` plain symbols."""

    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "k": whole(1, cure="It is the length of the counted substrings."),
    }
    alphabet: Any
    unknown: str
    k: int

    def _accepts_empty(self) -> bool:
        return True  # with zero norm

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        learned = None if reset else getattr(self, "alphabet_", None)
        X = Sequences(X, alphabet=self.alphabet if self.alphabet is not None else learned, unknown=self.unknown)
        X.require("symbols", self, "Use EmpiricalMeanMap, or pass strings.")
        if len(X.alphabet) ** min(int(self.k), 63) >= 2**63:  # two symbols reach the limit at k = 63, one symbol never
            raise ValueError(
                f"There are {len(X.alphabet)}^{self.k} strings of {self.k} symbols over the alphabet "
                f"{X.alphabet.describe()}, too many to index with int64. Lower k."
            )
        return X

    def _learn(self, X: Sequences, y: Any = None) -> None:
        assert X.alphabet is not None
        self.alphabet_: Alphabet = X.alphabet

    def _source(self, X: Sequences) -> Sequences:
        if X.alphabet != self.alphabet_:
            raise ValueError(
                f"The sequences have the alphabet {X.alphabet}, but the training data had {self.alphabet_}. Set "
                "alphabet= of the kernel, or make one mc.Sequences of all data before splitting it."
            )
        return X

    def _windows(self, X: Sequences) -> Windows:
        """Return the windows of plain symbols; raise if a string without any cannot be normalized."""
        found = windows_of(X.values, X.offsets, len(self.alphabet_), int(self.k))
        without = np.flatnonzero(np.bincount(found.owner, minlength=len(X)) == 0)
        if len(without) and self.normalize and self.on_zero == "raise":
            i = int(without[0])
            raise ZeroNorm(
                f"{X.name(i)} of length {X.lengths[i]} has no window of {self.k} plain symbols, so it has zero norm "
                "and cannot be normalized. Leave it out, lower k, or set on_zero='zero'."
            )
        return found

    def _features(self, a: Any) -> Any:
        if isinstance(a, FarColumns):
            return a.rows
        return a.values.rows.to_scipy() if a.sparse else a.values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class Spectrum(Words):
    r"""Spectrum kernel: inner products of counts of substrings of length k.

    Parameters
    ----------
    k : int, default=3
        Length of the counted substrings.
    mismatches : int, default=0
        A window counts for every string of length k that differs from it in at most this number of positions.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences`, or infers them from the data.
    unknown : {"raise", "missing"}, default="raise"
        How to treat a symbol outside the alphabet: as an error, or as missing.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with a sequence without any window: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: \phi_u(x) = \#\{\text{windows } v \text{ of } x : d(u, v) \le m\}, \qquad
              k(x, y) = \sum_{u\in\Sigma^k} \phi_u(x)\,\phi_u(y)

    with d the number of positions in which two strings differ and m = ``mismatches``. Windows with an ambiguity code or
    a missing symbol are ignored. Without mismatches, it is the limit of the empirical mean map of windows for large
    gamma (EMMK-2), and the Fisher kernel of a uniform Markov chain of order k - 1 up to a projection (FK-6).

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Spectrum(k=2, normalize=False)(["abab", "aabb", "bbbb"])
    array([[5., 2., 0.],
           [2., 3., 3.],
           [0., 3., 9.]])
    """

    _parameters: ClassVar[Rules] = {"mismatches": whole(0)}
    nonnegative = True

    psd = Verdict("always", "an inner product of counts")

    k: int = 3
    mismatches: int = 0
    alphabet: Any = None
    unknown: str = "raise"
    normalize: bool = True
    on_zero: str = "raise"

    @property
    def _learns_from_call(self) -> bool:
        return bool(self.mismatches) and self.alphabet is None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if int(self.mismatches) >= int(self.k):
            raise ValueError(f"mismatches must be less than k = {self.k}; got {self.mismatches!r}.")

    def _prepare(self, source: Sequences) -> Rows | FarColumns | GappedRows:
        columns = len(self.alphabet_) ** int(self.k)
        found = self._windows(source)
        if columns <= DENSE_COLUMNS:
            cells = np.bincount(found.owner * columns + found.code, minlength=len(source) * columns)
            counts = cells.reshape(len(source), columns).astype(float)
            return Rows(self._spread(counts, np.arange(columns), columns).toarray() if self.mismatches else counts)
        shape = (len(source), columns)
        rows = sparse.csr_array((np.ones(len(found.code)), (found.owner, found.code)), shape=shape)
        rows.sum_duplicates()
        if self.mismatches and self._gapped:
            return GappedRows.of(rows, len(self.alphabet_), int(self.k), int(self.mismatches))
        return operand_of(self._spread_rows(rows) if self.mismatches else rows)

    def _cheap_pairs(self, source: Sequences) -> bool:
        return not self.mismatches and len(self.alphabet_) ** int(self.k) <= CHEAP_COLUMNS

    @property
    def _gapped(self) -> bool:
        """Whether pairs of windows are counted by the positions in which they agree: fewer entries per window."""
        size = int(self.k), len(self.alphabet_), int(self.mismatches)
        entries, columns = gapped_columns(*size)
        return entries < neighbors(*size) and columns < 2**63

    def _spread_rows(self, rows: Any) -> Any:
        """Turn sparse counts of windows into counts of features."""
        windows, place = np.unique(rows.indices, return_inverse=True)
        counts = sparse.csr_array((rows.data, place, rows.indptr), shape=(rows.shape[0], len(windows)))
        found = self._spread(counts, windows, rows.shape[1])
        found.sum_duplicates()
        return found

    def _spread(self, counts: Any, windows: Floats, columns: int) -> Any:
        """Turn counts of windows, ``(N, windows)``, into counts of features, a CSR array ``(N, columns)``."""
        near = self._near(windows)
        # A product of CSR arrays allocates vectors as long as a row, so it gets only the columns that occur.
        occurring, place = np.unique(near, return_inverse=True)
        pointers = np.arange(len(windows) + 1) * near.shape[1]
        step = sparse.csr_array((np.ones(near.size), place.ravel(), pointers), shape=(len(windows), len(occurring)))
        found = sparse.csr_array(counts) @ step
        found.sort_indices()
        return sparse.csr_array((found.data, occurring[found.indices], found.indptr), shape=(found.shape[0], columns))

    def _near(self, windows: Floats) -> Floats:
        """Return the features that each window counts for, ``(windows, neighbors)``."""
        k, symbols, m = int(self.k), len(self.alphabet_), int(self.mismatches)
        number = neighbors(k, symbols, m)
        if number * len(windows) > NEIGHBORS:
            raise ValueError(
                f"{len(windows)} different windows have {number} strings each within {m} mismatches, too many to list. "
                "Lower k or mismatches."
            )
        found = [windows[:, None]]
        for j in range(1, m + 1):
            for places in combinations(range(k), j):
                scale = np.array([symbols**p for p in places], dtype=np.int64)
                digit = windows[:, None] // scale % symbols
                turns = np.array(list(product(range(1, symbols), repeat=j)), dtype=np.int64).reshape(-1, j)
                moved = (digit[:, None, :] + turns) % symbols - digit[:, None, :]
                found.append(windows[:, None] + moved @ scale)
        return np.concatenate(found, axis=1)

    def features(self, X: Any) -> Array:
        """Return the counts of all strings of length k, ``(N, |alphabet|^k)``: dense, or CSR if there are many.

        Columns are the strings in alphabetical order. Rows have unit norm if the kernel is normalized.
        """
        return super().features(X)

    def _features(self, a: Any) -> Any:
        return super()._features(operand_of(self._spread_rows(a.windows)) if isinstance(a, GappedRows) else a)

    def _feature_names(self, width: int) -> list[str]:
        return words(self.alphabet_.symbols, int(self.k), width)


def operand_of(rows: Any) -> Rows | FarColumns:
    """Return the operand of a CSR array of counts: dense where products are then faster."""
    cells = rows.shape[0] * rows.shape[1]
    if rows.nnz > DENSE_SHARE * cells and cells <= DENSE_CELLS:
        return Rows(rows.toarray())
    return Rows(CSRRows.of(rows)) if rows.shape[1] <= INDEXED_COLUMNS else FarColumns(rows)


class FarColumns:
    """Rows with too many features for a table; each tile indexes only those that its two sides share.

    Parameters
    ----------
    rows : scipy.sparse.csr_array
        Counts, with sorted and unique column indices.
    """

    order: Floats | None = None
    tile_hint = 256

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, key: Any) -> FarColumns:
        return FarColumns(self.rows[key])

    def inner(self, other: FarColumns) -> Floats:
        """Return the inner products of every pair of rows."""
        shared = np.intersect1d(self.rows.indices, other.rows.indices)
        a, b = (side._among(shared) for side in (self, other))
        return np.asarray((a @ b.T).toarray())

    def _among(self, columns: Floats) -> Any:
        """Select columns and number them from 0."""
        n = max(len(columns), 1)
        if not len(columns):
            return sparse.csr_array((len(self), n))
        at = np.minimum(np.searchsorted(columns, self.rows.indices), len(columns) - 1)
        kept = columns[at] == self.rows.indices
        pointers = np.concatenate([[0], np.cumsum(kept)])[self.rows.indptr]
        return sparse.csr_array((self.rows.data[kept], at[kept], pointers), shape=(len(self), n))

    def squares(self) -> Floats:
        """Return the squared norms of the rows."""
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()


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
    def of(cls, windows: Any, symbols: int, k: int, m: int) -> GappedRows:
        """Make the operand from counts of windows, a CSR array ``(N, symbols^k)``."""
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
        norms = np.asarray(counts.multiply(weighted).sum(axis=1)).ravel()
        return cls(operand_of(counts), operand_of(weighted), norms, windows)

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
