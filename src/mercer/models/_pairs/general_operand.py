"""Strings under one pair HMM as operands: tables of the recursion and grouping of pairs in lanes (MK-5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Floats
from mercer._coupling import FieldOperand
from mercer._native.pairs import general_pairs
from mercer.data import Sequences
from mercer.models._pairs.elimination import Eliminated

GROUP = 8
"""Number of pairs that are computed together: a vector, or several."""
TILE_CELLS = 1 << 21
"""Number of cells times states of a tile that takes a few milliseconds."""


class Tables(NamedTuple):
    """Parameters of one model for the compiled loops."""

    emission: Floats
    """Probability that a visit emits a symbol of each code, ``(n_codes, n)``: (1 - eps) times that of its letters."""
    silent: Floats
    """eps, ``(n,)``."""
    pairs: Eliminated
    """The model without visits that emit nothing to both strings."""

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
        """Emission, silent, start, step, stop, and the log probability of two empty strings."""
        n, (start, step) = len(self.silent), self.pairs[:2]
        last = math.log(start[n]) if start[n] > 0 else -math.inf
        return self.emission, self.silent, start[:n], step[:, :n], step[:, n], last

    @property
    def floor(self) -> float:
        """Smallest weight of a cell whose products cannot underflow."""
        emits = _smallest(self.emission)
        factor = emits * min(emits, _smallest(self.silent)) * min(_smallest(self.pairs.step), 1.0)
        return math.inf if factor < 2.0**-800 else 2.0**-800 / factor


def _smallest(values: Floats) -> float:
    """Return the smallest nonzero number, or 1 if all are zero."""
    return float(np.min(values, where=values > 0, initial=1.0))


@dataclass(eq=False)
class GeneralOperand(FieldOperand):
    """Strings that share a pair HMM of shape (1,); see `mercer._coupling.Operand`.

    Parameters
    ----------
    tables : Tables
        The model.
    X : Sequences
        Strings of its alphabet.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("tables",)

    tables: Tables
    X: Sequences

    @property
    def order(self) -> Floats | None:
        """Sort by length, so that the lanes of a vector end at about the same time."""
        return np.argsort(self.X.lengths, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile of a few milliseconds, in whole vectors."""
        n = len(self.tables.silent)
        cells = max(float(np.mean(self.X.lengths)) if len(self.X) else 1.0, 1.0) ** 2 * n
        return int(np.clip(math.sqrt(TILE_CELLS / cells) // GROUP * GROUP, GROUP, 256))

    def pair(self, other: Self) -> Floats:
        """Log kernels of all pairs, ``(I, J)``."""
        rows, columns = len(self), len(other)
        first, second = np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)
        return log_kernels(self.tables, self.X, other.X, first, second).reshape(rows, columns)

    def alone(self) -> Floats:
        """Log kernel of every string with itself, ``(N,)``."""
        every = np.arange(len(self))
        return log_kernels(self.tables, self.X, self.X, every, every)


def log_kernels(tables: Tables, X: Sequences, Z: Sequences, first: Floats, second: Floats) -> Floats:
    """Log kernel of X[first[p]] and Z[second[p]] for every p; -inf if no trajectory emits both.

    Each value depends on its two strings only, not on the other pairs.
    """
    order = grouped(first, X.lengths[first], Z.lengths[second])
    value = np.empty(len(first))
    value[order] = general_pairs(
        tables.arrays, (X.values, X.offsets), (Z.values, Z.offsets), first[order], second[order], tables.floor
    )
    return value


def grouped(first: Floats, tall: Floats, wide: Floats) -> Floats:
    """Return the order of pairs in which those of similar size share a vector.

    Strings of the first side are sorted by length; their partners too, alternately ascending and descending, so that a
    group that spans the end of one row and the start of the next has pairs of similar size.
    """
    by_row = np.lexsort((first, tall))
    row = np.empty(len(first), dtype=np.int64)
    row[by_row] = np.cumsum(np.diff(first[by_row], prepend=-1) != 0)
    return np.lexsort((np.where(row % 2, -wide, wide), row))
