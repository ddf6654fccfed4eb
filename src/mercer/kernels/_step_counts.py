"""Expected numbers of pairs of neighbouring symbols and their hidden states (MK-7, second order)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data import Sequences
from mercer.kernels._hidden import Chain, SymbolShares, expected
from mercer.models._forward.interface import Densities, Evidence, Expectations, Runs, Symbols, expectations
from mercer.models._forward.work import CHUNK_SECONDS, share

__all__ = ["step_counts"]

DENSE_COLUMNS = 4096
"""Columns of a matrix of counts that is still dense."""


def step_counts(model: Any, X: Sequences) -> Any:
    """Mean over the steps of every sequence, ``(N, k k n n)``: dense, or a CSR matrix where there are many columns.

    Columns are the two symbols, then the two states. A sequence without a step has zeros.
    """
    chain = Chain.of(model)
    shares = SymbolShares(chain.emission)
    evidence = chain.evidence(X.values)
    found = expected(model, X, evidence, states=True)
    n, k, size = chain.n_states, len(shares.alphabet), len(X)
    dense = (n * k) ** 2 <= DENSE_COLUMNS
    cells = _Cells.every(X, k) if dense and not np.any(X.values >= k) else _Cells.present(X)
    values = cells.summed(chain, evidence, found)
    if cells.owner is None:
        return values.reshape(size, -1)
    return (_dense if dense else _sparse)(size, shares, cells, values)


class _Cells:
    """Where steps are summed: a cell for every sequence and pair of codes."""

    def __init__(self, X: Sequences, used: Floats) -> None:
        place = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int64)
        place[used] = np.arange(len(used))
        self.X, self.used, self.width = X, used, len(used)
        self.codes = place[X.values]
        self.offsets = np.asarray(X.offsets, dtype=np.int64)
        self.cell = np.zeros(len(self.codes), dtype=np.int64)
        self.owner: Floats | None = None
        self.ends = self.first = self.second = np.empty(0, dtype=np.int64)

    @classmethod
    def every(cls, X: Sequences, k: int) -> _Cells:
        """Make cells of all pairs of ``k`` symbols: the table that is asked for."""
        self = cls(X, np.arange(k))
        self.cell[1:] = self.codes[:-1] * k + self.codes[1:]
        self.cell += np.repeat(np.arange(len(X)) * k * k, X.lengths)
        self.ends = np.arange(len(X) + 1) * k * k
        return self

    @classmethod
    def present(cls, X: Sequences) -> _Cells:
        """Make cells of the pairs of codes that are there, sequence by sequence."""
        from mercer.kernels._hidden_loops import pair_cells

        self = cls(X, np.flatnonzero(np.bincount(X.values)))
        owner, pair = (np.zeros(len(self.codes), dtype=np.int64) for _ in range(2))
        count = pair_cells(self.codes, self.offsets, self.width, self.cell, owner, pair)
        self.owner, pair = owner[:count], pair[:count]
        self.first, self.second = self.used[pair // max(self.width, 1)], self.used[pair % max(self.width, 1)]
        self.ends = np.searchsorted(self.owner, np.arange(len(X) + 1))
        return self

    def summed(self, chain: Chain, evidence: Evidence, found: Expectations) -> Floats:
        """Mean posteriors of the steps of every cell, ``(cells, n, n)``."""
        from mercer.kernels._hidden_loops import step_counts as compiled

        n, offsets = chain.n_states, self.offsets
        if isinstance(evidence, Symbols):
            table, row = evidence.probability[0].T[self.used], self.codes
        else:
            top = np.max(evidence.log_density, axis=1, keepdims=True, initial=-np.inf)
            table, row = np.exp(evidence.log_density - top), np.arange(len(self.codes))
        table, initial, transition = (np.ascontiguousarray(a) for a in (table, chain.initial[0], chain.transition[0]))
        values, sound = np.zeros((int(self.ends[-1]), n, n)), np.ones(len(self.X), dtype=bool)
        loop = compiled(n)

        def work(part: slice) -> None:
            given = initial, transition, table, row, found.states, offsets, part.start, part.stop
            loop(*given, self.cell, self.ends, values, sound)

        each = (10 + n * n) * 1e-9  # seconds of a step
        starts = np.searchsorted(offsets, np.arange(0, len(row), max(1, int(CHUNK_SECONDS / each)))).tolist()
        share(work, [slice(*ends) for ends in pairwise(dict.fromkeys([0, *starts, len(self.X)]))], each * len(row))
        for s in np.flatnonzero(~sound):
            rows = slice(int(offsets[s]), int(offsets[s + 1]))
            mine = self.cell[rows][1:]
            values[self.ends[s] : self.ends[s + 1]] = 0.0
            values[mine] = _by_wider_chain(chain, table[row[rows]], self.codes[rows]) / max(len(mine), 1)
        return values


def _by_wider_chain(chain: Chain, likelihood: Floats, codes: Floats) -> Floats:
    """Compute expected steps, between the codes of each step, of a sequence whose numbers leave the range of floats.

    Codes become part of the states: (i, c) emits nothing but c, so that the transitions of such states are what is
    asked, and forward-backward knows what to do about the range. It takes the number of codes squared times as long.
    """
    kinds, place = np.unique(codes, return_inverse=True)
    n, k = chain.n_states, len(kinds)
    seen = np.full((len(codes), n, k), -np.inf)
    with np.errstate(divide="ignore"):
        seen[np.arange(len(codes)), :, place] = np.log(likelihood)
    initial = np.repeat(chain.initial[0], k) / k
    transition = np.repeat(np.repeat(chain.transition[0], k, axis=0), k, axis=1) / k
    evidence, runs = Densities(seen.reshape(len(codes), -1)), Runs.shared(np.array([0, len(codes)]))
    found = expectations(initial[None], transition[None], evidence, runs)
    steps = np.moveaxis(found.transitions[0].reshape(n, k, n, k), (1, 3), (0, 1))
    return np.asarray(steps[place[:-1], place[1:]])


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
    """Cells with an ambiguity code, one pair of codes after the other, and the shares of the symbols in them."""
    rest = np.flatnonzero(~plain)
    first, second = cells.first[rest], cells.second[rest]
    for a, b in np.unique(np.stack([first, second], axis=1), axis=0):
        yield rest[(first == a) & (second == b)], shares.of(int(a)), shares.of(int(b))
