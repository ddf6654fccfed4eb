"""Windows of symbols as counts: the empirical mean map of strings as an inner product of explicit features (EMMK-2).

With e = exp(-2 gamma), the base kernel of two windows of w symbols is e^d, with d the number of positions in which they
differ. There are three ways to sum it over all pairs of windows of two strings; the cheapest depends only on the
alphabet and on w, so that all data of a kernel use the same one:

* "table": count every window in a table of A^w cells, and apply the square root of e + (1 - e) I along every axis. Then
  kernels are inner products of tables. Best while the table is small: DNA up to seven symbols.
* "gaps": the product over positions of e + (1 - e) [x = y] is a sum over all sets S of positions of
  e^(w - |S|) (1 - e)^|S| [x_S = y_S], an inner product of counts of windows with gaps. Those of few positions are
  dense, all others sparse. Best for large alphabets: three amino acids have 1,261 dense columns and 198 counts of whole
  windows instead of 8,000 cells.
* "pairs": walk along all diagonals of a pair of strings with a running number of differences. L L' steps for
  any w, and no memory; for long windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats, logsumexp, safe_log
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.ragged import windows_of
from mercer.kernels._operands import Rows
from mercer.kernels.base.transformer import NoFeatures
from mercer.kernels.spectrum import INDEXED_COLUMNS, FarColumns

MOST_CELLS = 1 << 14
"""Number of features per string above which "pairs" is used."""
DENSE_CELLS = 1024
"""Windows with gaps are counted in one dense matrix if the number of different ones is at most this."""
SPARSE_COST = 64
"""Cost of sparse counts of one set of positions, in cells of a table."""
CHUNK = 1 << 16
"""Number of table cells computed at once, so that they stay in the cache."""
MOST_COLUMNS = 1 << 27
"""Largest number of explicit features: a linear model has one coefficient for each (1 GiB)."""
GAPPED_CHUNK = 1 << 22
"""Number of windows with gaps that are listed at once, before equal ones are counted."""
LOST = 1e-260
"""Inner products below this have lost terms by underflow, and are recomputed in the log domain."""
PAIRS_SYMBOLS = 4096
"""Number of symbols on one side of a tile for "pairs"."""

Places = tuple[int, ...]


def way_of(n_symbols: int, width: int) -> str:
    """Choose "table", "gaps" or "pairs", whichever is cheapest."""
    if width * np.log(n_symbols + 1) >= 63 * np.log(2):
        return "pairs"  # too many windows with gaps for an integer index
    table = n_symbols**width
    gaps = sum(
        comb(width, j) * (n_symbols**j if n_symbols**j <= DENSE_CELLS else SPARSE_COST) for j in range(width + 1)
    )
    if min(table, gaps) > MOST_CELLS:
        return "pairs"
    return "table" if table <= gaps else "gaps"


@dataclass(frozen=True)
class WindowCounts:
    """Strings under the empirical mean map of windows of symbols."""

    strings: Sequences
    """Strings without wildcards, each at least as long as a window."""
    width: int
    """Number of symbols in a window."""
    gamma: float
    """Parameter of the base kernel."""
    parts: tuple[Any, ...]
    """Rows whose inner products add up to the kernel; empty for "pairs"."""

    order = None

    @classmethod
    def of(cls, strings: Sequences, width: int, gamma: float) -> WindowCounts:
        """Count windows; raise for wildcards, and for strings shorter than a window."""
        n_symbols = len(strings._observed("a mean map of windows"))
        way = way_of(n_symbols, width)
        if way == "table":
            parts: tuple[Any, ...] = (Rows(_tables(strings, n_symbols, width, gamma)),)
        elif way == "gaps":
            every = _sets_of_places(width)
            few = [s for s in every if n_symbols ** len(s) <= DENSE_CELLS]
            parts = (Rows(_dense(strings, n_symbols, width, gamma, few)),)
            if len(few) < len(every):
                rows = _gapped(strings, n_symbols, width, gamma, every[len(few) :])
                indexed = rows.shape[1] <= INDEXED_COLUMNS
                parts = (*parts, Rows(CSRRows.of(rows)) if indexed else FarColumns(rows))
        else:
            parts = ()
        return cls(strings, width, gamma, parts)

    @property
    def tile_hint(self) -> int:
        """Number of strings in a tile."""
        if self.parts:
            return 512
        average = self.strings.offsets[-1] / max(len(self), 1)
        return int(np.clip(PAIRS_SYMBOLS / max(average, 1), 1, 256))

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, key: Any) -> WindowCounts:
        return replace(self, strings=self.strings[key], parts=tuple(part[key] for part in self.parts))

    def inner(self, other: WindowCounts) -> Floats:
        """Return the kernels of every pair."""
        if not self.parts:
            return np.exp(self.pair(other))
        first, *others = (a.inner(b) for a, b in zip(self.parts, other.parts, strict=True))
        for values in others:
            first += values
        return np.asarray(first)

    def squares(self) -> Floats:
        """Return the self-kernel of every string, which is at least 1 / its number of windows."""
        return np.asarray(sum(part.squares() for part in self.parts)) if self.parts else np.exp(self.alone())

    def pair(self, other: WindowCounts) -> Floats:
        """Return the log kernels of every pair, exact even where the kernel underflows."""
        if self.parts:
            values = self.inner(other)
            logs = safe_log(values)
            left, right = np.nonzero(values < LOST)
        else:
            logs = np.empty((len(self), len(other)))
            left, right = (index.ravel() for index in np.indices(logs.shape))
        if len(left):
            logs[left, right] = self._walked(other, left, right)
        return np.asarray(logs)

    def alone(self) -> Floats:
        """Return the log self-kernel of every string."""
        every = np.arange(len(self))
        return np.asarray(safe_log(self.squares())) if self.parts else self._walked(self, every, every)

    def features(self) -> Array:
        """Return explicit features: a dense table of all windows, or a CSR array of all windows with gaps.

        Columns are windows in alphabetical order; a gap comes after the last symbol.
        """
        n_symbols = len(self.strings.alphabet or ())
        way = way_of(n_symbols, self.width)
        if way == "pairs" or (n_symbols + 1) ** self.width > MOST_COLUMNS:
            raise NoFeatures(
                f"EmpiricalMeanMap has too many explicit features here: windows of {self.width} symbols out of "
                f"{n_symbols}. Lower order, or use its Gram matrix or mc.Landmarks."
            )
        if way == "table":
            return self.parts[0].dense()
        return _gapped(self.strings, n_symbols, self.width, self.gamma, _sets_of_places(self.width))

    def _walked(self, other: WindowCounts, left: Floats, right: Floats) -> Floats:
        """Log kernels of pairs of strings, from the numbers of pairs of windows that differ in 0, 1, ... positions."""
        from mercer._native.points import difference_counts

        x, y = self.strings, other.strings
        counts = difference_counts((x.values, y.values), (x.offsets, y.offsets), (left, right), self.width)
        with np.errstate(over="ignore"):  # a difference costs infinity, but no difference costs 0
            costs = self.gamma * (2.0 * np.arange(self.width + 1))
        logs = logsumexp(safe_log(counts) - costs, axis=1)
        return np.asarray(logs - np.log(counts.sum(axis=1)))


def _sets_of_places(width: int) -> list[Places]:
    """Return all sets of positions of a window, small ones first."""
    return [places for size in range(width + 1) for places in combinations(range(width), size)]


def _tables(strings: Sequences, n_symbols: int, width: int, gamma: float) -> Floats:
    """Shares of all windows, (N, A^w), times the square root of e + (1 - e) I along every axis."""
    cells = n_symbols**width
    first, last = (_root(n_symbols, places, gamma) for places in (width // 2, width - width // 2))
    out = np.empty((len(strings), cells))
    step = max(1, CHUNK // cells)
    for begin in range(0, len(strings), step):
        part = strings[begin : begin + step]
        found = windows_of(part.values, part.offsets, n_symbols, width)
        counts = np.bincount(found.owner * cells + found.code, minlength=len(part) * cells)
        shares = counts.reshape(len(part), cells) / (part.lengths - width + 1)[:, None]
        table = shares.reshape(len(part), len(first), len(last))
        out[begin : begin + step] = (first @ (table @ last)).reshape(len(part), cells)  # two halves of the positions
    return out


def _root(n_symbols: int, places: int, gamma: float) -> Floats:
    """Return the square root of e + (1 - e) I for several positions; no entry is negative, so nothing cancels."""
    e, rest = np.exp(-2.0 * gamma), -np.expm1(-2.0 * gamma)
    own = np.sqrt(rest)
    shared = e / (np.sqrt(rest + n_symbols * e) + own)
    root = np.ones((1, 1))
    for _ in range(places):
        root = np.kron(root, own * np.eye(n_symbols) + shared)
    return root


def _dense(strings: Sequences, n_symbols: int, width: int, gamma: float, sets: list[Places]) -> Floats:
    """Weighted shares of windows with gaps, the sets of positions concatenated, (N, cells)."""
    ends = np.cumsum([0, *(n_symbols ** len(places) for places in sets)])
    out = np.empty((len(strings), int(ends[-1])))
    step = max(1, CHUNK // DENSE_CELLS)
    for begin in range(0, len(strings), step):
        part = strings[begin : begin + step]
        found = windows_of(part.values, part.offsets, n_symbols, width)
        scale = 1 / (part.lengths - width + 1)
        for places, first, last in zip(sets, ends[:-1], ends[1:], strict=True):
            code = found.owner
            for place in places:
                code = code * n_symbols + part.values[found.start + place]
            counts = np.bincount(code, minlength=len(part) * (last - first)).reshape(len(part), -1)
            out[begin : begin + step, first:last] = counts * (_weight(len(places), width, gamma) * scale)[:, None]
    return out


def _gapped(strings: Sequences, n_symbols: int, width: int, gamma: float, sets: list[Places]) -> Any:
    """Weighted shares of windows with gaps, a CSR array ``(N, (A + 1)^w)``; the digit A is a gap."""
    powers = [(n_symbols + 1) ** (width - 1 - place) for place in range(width)]
    weights = np.array([_weight(len(places), width, gamma) for places in sets])
    windows = strings.lengths - width + 1
    chunk = np.cumsum(windows * len(sets)) // GAPPED_CHUNK
    made = []
    for part in np.split(np.arange(len(strings)), np.flatnonzero(np.diff(chunk)) + 1):
        some, count = strings[part], windows[part]
        start = windows_of(some.values, some.offsets, n_symbols, width).start
        symbols = some.values.astype(np.int64)
        code = np.empty((len(start), len(sets)), dtype=np.int64)
        for column, places in zip(code.T, sets, strict=True):
            column[:] = sum(n_symbols * powers[place] for place in range(width) if place not in places)
            for place in places:
                column += symbols[start + place] * powers[place]
        data = np.multiply.outer(np.repeat(1 / count, count), weights)
        pointers = np.concatenate([[0], np.cumsum(count)]) * len(sets)
        shape = (len(part), (n_symbols + 1) ** width)
        rows = sparse.csr_array((data.ravel(), code.ravel(), pointers), shape=shape)
        rows.sum_duplicates()
        made.append(rows)
    return made[0] if len(made) == 1 else sparse.vstack(made, format="csr")


def _weight(places: int, width: int, gamma: float) -> float:
    """Return the root of e^(w - |S|) (1 - e)^|S|."""
    return float(np.exp(-gamma * (width - places)) * (-np.expm1(-2.0 * gamma)) ** (places / 2))
