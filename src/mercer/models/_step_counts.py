"""Expected numbers of pairs of neighboring symbols and their hidden states (MK-7, second order)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._native import call
from mercer.data import Sequences
from mercer.models._forward.interface import Runs, steps
from mercer.models.hidden import HiddenChain, SymbolShares, require_possible

DENSE_COLUMNS = 4096
"""Largest number of columns of a dense matrix of counts."""


def step_counts(chain: HiddenChain, X: Sequences) -> Any:
    """Implement `HiddenChain.step_counts`."""
    shares = SymbolShares(chain.emission)
    n, k, size = chain.n_states, len(shares.alphabet), len(X)
    dense = (n * k) ** 2 <= DENSE_COLUMNS
    cells = _Cells.every(X, k) if dense and not np.any(X.values >= k) else _Cells.present(X)
    values = _summed(chain, X, cells)
    if cells.owner is None:
        return values.reshape(size, -1)
    return (_dense if dense else _sparse)(size, shares, cells, values)


class _Cells:
    """Cells in which steps are summed: one per sequence and pair of codes."""

    cell: Floats
    """Cell of the step into each observation, counted within its sequence, ``(T,)``."""
    ends: Floats
    """Cells of sequence i are ``ends[i]:ends[i + 1]``."""
    owner: Floats | None = None
    """Sequence of every cell; None if every sequence has all pairs of symbols."""
    first: Floats
    second: Floats
    """Codes of every cell."""

    @classmethod
    def every(cls, X: Sequences, k: int) -> _Cells:
        """Make cells of all pairs of ``k`` symbols, in the order of the output table."""
        self = cls()
        self.cell = X.values.astype(np.int64)
        self.cell[1:] += k * self.cell[:-1]  # NumPy reads all before it writes
        self.ends = np.arange(len(X) + 1) * k * k
        return self

    @classmethod
    def present(cls, X: Sequences) -> _Cells:
        """Make cells of the pairs of codes that occur, sequence by sequence."""
        self = cls()
        used = np.flatnonzero(np.bincount(X.values))
        width = len(used)
        place = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int64)
        place[used] = np.arange(width)
        self.cell, owner, pair = (np.zeros(len(X.values), dtype=np.int64) for _ in range(3))
        offsets = np.asarray(X.offsets, dtype=np.int64)
        count = call(
            "pair_cells", codes=place[X.values], offsets=offsets, width=width, cell=self.cell, owner=owner, pair=pair
        )
        self.owner, pair = owner[:count], pair[:count]
        self.first, self.second = used[pair // max(width, 1)], used[pair % max(width, 1)]
        self.ends = np.searchsorted(self.owner, np.arange(len(X) + 1))
        return self


def _summed(chain: HiddenChain, X: Sequences, cells: _Cells) -> Floats:
    """Mean posteriors of the steps of every cell, ``(cells, n, n)``."""
    runs = Runs.shared(np.asarray(X.offsets))
    evidence = chain.evidence(X.values)
    values, log_prob = steps(chain.initial, chain.transition, evidence, runs, cells.cell, cells.ends)
    require_possible(X, log_prob)
    return values


def _dense(size: int, shares: SymbolShares, cells: Any, values: Floats) -> Floats:
    n, k = shares.probability.shape
    out = np.zeros((size, k, k, n, n))
    plain = (cells.first < k) & (cells.second < k)
    out[cells.owner[plain], cells.first[plain], cells.second[plain]] = values[plain]
    for mine, before, after in _vague(shares, cells, plain):
        out[cells.owner[mine]] += np.einsum("sij,ia,jb->sabij", values[mine], before, after)
    return out.reshape(size, -1)


def _sparse(size: int, shares: SymbolShares, cells: Any, values: Floats) -> Any:
    n, k = shares.probability.shape
    states = np.arange(n * n)
    plain = (cells.first < k) & (cells.second < k)
    begin = (cells.first[plain] * k + cells.second[plain]) * (n * n)
    rows, columns, data = [np.repeat(cells.owner[plain], n * n)], [(begin[:, None] + states).ravel()], [values[plain]]
    for mine, left, right in _vague(shares, cells, plain):
        a, b = np.flatnonzero(left.any(axis=0)), np.flatnonzero(right.any(axis=0))
        part = np.einsum("sij,ia,jb->sabij", values[mine], left[:, a], right[:, b])
        places = (a[:, None] * k + b).reshape(-1, 1) * (n * n) + states
        rows.append(np.repeat(cells.owner[mine], part[0].size))
        columns.append(np.tile(places.ravel(), len(mine)))
        data.append(part)
    entries = np.concatenate([part.ravel() for part in data])
    where = np.concatenate(rows), np.concatenate(columns)
    out = sparse.coo_matrix((entries, where), shape=(size, (n * k) ** 2)).tocsr()
    out.sum_duplicates()
    return out


def _vague(shares: SymbolShares, cells: Any, plain: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Iterate over pairs of codes with an ambiguity code: their cells, and the shares of the symbols in them."""
    rest = np.flatnonzero(~plain)
    first, second = cells.first[rest], cells.second[rest]
    for a, b in np.unique(np.stack([first, second], axis=1), axis=0):
        yield rest[(first == a) & (second == b)], shares.of(int(a)), shares.of(int(b))
