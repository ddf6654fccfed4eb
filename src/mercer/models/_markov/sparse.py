"""Tables of Markov chains of high order: each chain stores its own contexts, and all share the rest."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats

CELLS = 1 << 27
"""Largest number of entries of a dense table (1 GiB)."""


class Compressed:
    """Entries of N chains, concatenated, and entries that all chains share; immutable.

    ``indices[indptr[i]:indptr[i + 1]]`` are the columns of chain i, ascending, and ``data`` their values;
    ``shared_indices`` and ``shared_data`` belong to all chains.
    """

    parts: ClassVar[tuple[str, ...]] = ("data", "indices", "indptr", "shared_data", "shared_indices", "columns")

    def __init__(
        self, data: Any, indices: Any, indptr: Any, shared_data: Any, shared_indices: Any, columns: Any
    ) -> None:
        self.data = _kept(data, np.float64)
        self.indices = _kept(indices, np.int64)
        self.indptr = _kept(indptr, np.int64)
        self.shared_data = _kept(shared_data, np.float64)
        self.shared_indices = _kept(shared_indices, np.int64)
        self.columns = int(columns)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        kept = f"{len(self.indices)} entries of their own, {len(self.shared_indices)} shared"
        return f"{type(self).__name__}({len(self)} chains over {self.columns} places: {kept})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        raise TypeError(
            f"{type(self).__name__} is not an array, because most of it is not stored. Use that of p.dense()."
        )

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.data.dtype

    def as_arrays(self) -> dict[str, Floats]:
        """Return the content as arrays, for a file."""
        return {name: np.asarray(getattr(self, name)) for name in self.parts}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.parts)

    def __getitem__(self, key: Any) -> Self:
        """Select chains by a slice or an array."""
        rows = np.arange(len(self))[key]
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][rows] - indptr[:-1], lengths)
        return self._with(self, self.data[entries], self.indices[entries], indptr, rows)

    def joined(self, parts: Sequence[Self]) -> Self:
        """Concatenate chains; they must share the same entries."""
        for part in parts:
            same = np.array_equal(part.shared_indices, self.shared_indices)
            if not same or not np.array_equal(part.shared_data, self.shared_data):
                raise ValueError(
                    "These Markov chains share different rows, because they were fitted with different priors. Fit "
                    "them together, or join p.dense() and q.dense()."
                )
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        return self._with(
            parts,
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
            None,
        )

    def _with(self, source: Any, data: Floats, indices: Floats, indptr: Floats, rows: Floats | None) -> Self:
        """Make a table with the same columns, from the chains ``rows`` of one table or from several tables."""
        return type(self)(data, indices, indptr, self.shared_data, self.shared_indices, self.columns)

    def row_digests(self) -> list[bytes]:
        """Digest every chain from its content only."""
        shared = self.shared_indices.tobytes() + self.shared_data.tobytes() + repr(self.columns).encode()
        key = blake2b(shared, digest_size=16).digest()
        return [
            blake2b(self.indices[a:b].tobytes() + self.data[a:b].tobytes() + self._extra(i), key=key, digest_size=16)
            .digest()
            for i, (a, b) in enumerate(pairwise(self.indptr.tolist()))
        ]  # fmt: skip

    digests = row_digests

    def _extra(self, i: int) -> bytes:
        """Return the content of a chain other than its entries."""
        return b""

    def check_size(self, cells: int) -> None:
        """Raise if a dense table would be too large."""
        if cells > CELLS:
            raise ValueError(
                f"{len(self)} chains over {self.columns} contexts are {cells:.3g} numbers as a dense array. Lower the "
                "order, or use fewer chains."
            )


class SparseRows(Compressed):
    """Rows of transition probabilities: the chain's own row, else the shared row, else a uniform row.

    ``data`` has the shape ``(entries, w)``, ``columns`` is the number of contexts.
    """

    @property
    def width(self) -> int:
        """Number of outcomes of a row: symbols, and the end if there is one."""
        return int(self.data.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the dense table."""
        return len(self), self.columns, self.width

    def shared_rows(self, contexts: Floats) -> Floats:
        """Return the rows ``(U, w)`` of chains without these contexts."""
        rows = np.full((len(contexts), self.width), 1.0 / self.width)
        hit, at = found_in(self.shared_indices, contexts)
        rows[hit] = self.shared_data[at]
        return rows

    def rows_at(self, i: int, contexts: Floats) -> Floats:
        """Return the rows ``(U, w)`` of chain ``i``."""
        rows = self.shared_rows(contexts)
        begin, end = self.indptr[i], self.indptr[i + 1]
        hit, at = found_in(self.indices[begin:end], contexts)
        rows[hit] = self.data[begin + at]
        return rows

    def at(self, contexts: Floats, symbols: Floats) -> Floats:
        """Probability of symbols after contexts in every chain, ``(N, U)``."""
        out = np.empty((len(self), len(contexts)))
        out[:] = self.shared_rows(contexts)[np.arange(len(contexts)), symbols]
        for i, (begin, end) in enumerate(pairwise(self.indptr.tolist())):
            hit, at = found_in(self.indices[begin:end], contexts)
            out[i, hit] = self.data[begin + at, symbols[hit]]
        return out

    def lookup(self, i: int) -> tuple[Floats, Floats]:
        """Return the index of every context of chain ``i`` in a table of rows, and that table."""
        begin, end = self.indptr[i], self.indptr[i + 1]
        uniform = np.full((1, self.width), 1.0 / self.width)
        slots = np.zeros(self.columns, dtype=np.int64)
        slots[self.shared_indices] = 1 + np.arange(len(self.shared_indices))
        slots[self.indices[begin:end]] = 1 + len(self.shared_indices) + np.arange(end - begin)
        return slots, np.concatenate([uniform, self.shared_data, self.data[begin:end]])

    def merged(self, i: int) -> tuple[Floats, Floats]:
        """Return the contexts and rows of chain ``i``, its own and the shared ones."""
        contexts = np.union1d(self.shared_indices, self.indices[self.indptr[i] : self.indptr[i + 1]])
        return contexts, self.rows_at(i, contexts)

    def dense(self) -> Floats:
        """Return all rows, ``(N, C, w)``."""
        self.check_size(len(self) * self.columns * self.width)
        out = np.full(self.shape, 1.0 / self.width)
        out[:, self.shared_indices] = self.shared_data
        out[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] = self.data
        return out


class SparseLaws(Compressed):
    """Distributions of the first symbols: a chain's own entries, plus shares of the common and a uniform one.

    ``shares (N, 2)`` are the weights of the shared entries and of the uniform distribution in every chain.
    """

    parts = (*Compressed.parts, "shares")

    def __init__(
        self,
        data: Any,
        indices: Any,
        indptr: Any,
        shared_data: Any,
        shared_indices: Any,
        columns: Any,
        shares: Any,
    ) -> None:
        super().__init__(data, indices, indptr, shared_data, shared_indices, columns)
        self.shares = _kept(shares, np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the dense table."""
        return len(self), self.columns

    def _with(self, source: Any, data: Floats, indices: Floats, indptr: Floats, rows: Floats | None) -> Self:
        shares = np.concatenate([part.shares for part in source]) if rows is None else self.shares[rows]
        return type(self)(data, indices, indptr, self.shared_data, self.shared_indices, self.columns, shares)

    def _extra(self, i: int) -> bytes:
        return self.shares[i].tobytes()

    def at(self, heads: Floats) -> Floats:
        """Probability of the first symbols ``heads`` in every chain, ``(N, U)``."""
        shared = np.zeros(len(heads))
        hit, at = found_in(self.shared_indices, heads)
        shared[hit] = self.shared_data[at]
        out = self.shares[:, :1] * shared + self.shares[:, 1:] / self.columns
        for i, (begin, end) in enumerate(pairwise(self.indptr.tolist())):
            hit, at = found_in(self.indices[begin:end], heads)
            out[i, hit] += self.data[begin + at]
        return out

    def dense(self) -> Floats:
        """Return all distributions, ``(N, H)``."""
        self.check_size(len(self) * self.columns)
        out = np.repeat(self.shares[:, 1:] / self.columns, self.columns, axis=1)
        out[:, self.shared_indices] += self.shares[:, :1] * self.shared_data
        out[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] += self.data
        return out

    def merged(self, i: int) -> tuple[Floats, Floats, float]:
        """Return the entries of chain ``i`` (columns and values) and its share of the uniform distribution."""
        begin, end = self.indptr[i], self.indptr[i + 1]
        heads = np.union1d(self.shared_indices, self.indices[begin:end])
        values = self[i : i + 1].at(heads)[0] - self.shares[i, 1] / self.columns
        return heads, values, float(self.shares[i, 1])

    def totals(self) -> Floats:
        """Sum of every distribution."""
        own = np.zeros(len(self))
        np.add.at(own, np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.data)
        return own + self.shares[:, 0] * self.shared_data.sum() + self.shares[:, 1]


def found_in(sorted_values: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """Return which of ``wanted`` are in ``sorted_values`` (indices into ``wanted``), and where."""
    if not len(sorted_values):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    hit = np.flatnonzero(sorted_values[at] == wanted)
    return hit, at[hit]


def _kept(x: Any, dtype: Any) -> Floats:
    kept = np.array(x, dtype=dtype)
    kept.setflags(write=False)
    return kept
