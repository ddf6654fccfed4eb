"""Pair hidden Markov models as states and steps: kernels and expected counts, also of single strings (MK-5, FK-7).

A single string is a pair with the empty string, under a finite-state machine whose states give symbols to the first
string only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import FieldOperand
from mercer._native.pairs import Machine, log_kernels
from mercer._probability import ratio
from mercer.data import Alphabet, Sequences
from mercer.models._forward.interface import CHUNK_SECONDS, share
from mercer.models._pairs.matches import Matches, read_pair

GROUP = 8
"""Number of pairs that are computed together: a vector, or several."""
SECONDS_OF_AN_EDGE = 4e-9
"""Approximate seconds per pair of positions of two strings, and edge, with expected counts."""
TILE_EDGES = 1 << 23
"""Number of cells times edges of a tile that takes some milliseconds."""
END = "end"


def machine_of(
    states: Mapping[Any, tuple[int, Any]],
    edges: Iterable[tuple[Any, Any, float]],
    tables: Mapping[Any, Floats],
    codes: int,
) -> Machine:
    """Create a machine from named states.

    Parameters
    ----------
    states : dict
        From names to the strings that get a symbol (0: none, 1: first, 2: second, 3: both), and the name of the table
        of its probabilities, or None.
    edges : iterable of (name, name, float)
        Source, target and weight; the last target is `END`.
    tables : dict of ndarrays
        Probabilities of codes, ``(C,)``, or of pairs of codes, ``(C, C)``.
    codes : int
        Number of codes, C.
    """
    number = {name: q for q, name in enumerate([*states, END])}
    ends = np.cumsum([0, *(table.size for table in tables.values())]).tolist()
    begins = dict(zip([*tables, None], ends, strict=True)) | {None: 0}
    steps = [(number[source], number[target], weight) for source, target, weight in edges]
    return Machine(
        np.array([(given, begins[table]) for given, table in states.values()], dtype=np.int64),
        np.array([step[:2] for step in steps], dtype=np.int64),
        np.array([step[2] for step in steps], dtype=np.float64),
        np.concatenate([table.ravel() for table in tables.values()]),
        codes,
    )


class Gradients(NamedTuple):
    """Log kernels of P pairs, and their gradients; zero for impossible pairs."""

    log_kernel: Floats
    """``(P,)``."""
    weights: Floats
    """``(P, E)``."""
    table: Floats
    """``(P, T)``."""


def by_itself(X: Sequences) -> tuple[Sequences, Indices, Indices]:
    """Pair every string with the empty string: return the second side, and the indices of both."""
    nothing = Sequences._make(X.values[:0], np.zeros(2, dtype=np.int64), X.alphabet, None)
    return nothing, np.arange(len(X)), np.zeros(len(X), dtype=np.int64)


def logs_of(machine: Machine, X: Sequences, Z: Sequences, first: Indices, second: Indices) -> Floats:
    """Log kernel of X[first[p]] and Z[second[p]] for every p; -inf if a pair is impossible.

    Each value depends on its two strings only, not on the other pairs.
    """
    order = _grouped(first, X.lengths[first], Z.lengths[second])
    value = np.empty(len(first))
    left, right = (X.values, X.offsets), (Z.values, Z.offsets)
    value[order] = log_kernels(machine, left, right, first[order], second[order], machine.easy)
    return value


def gradients(
    machine: Machine, X: Sequences, Z: Sequences, first: Indices, second: Indices, *, zeros: bool = False
) -> Gradients:
    """Compute log kernels as `logs_of`, and their gradients; with ``zeros`` also in probabilities of zero."""
    tall, wide = X.lengths[first], Z.lengths[second]
    order, easy = _grouped(first, tall, wide), machine.easy and not zeros
    left, right = (X.values, X.offsets), (Z.values, Z.offsets)
    shapes = (len(first),), (len(first), len(machine.weights)), (len(first), len(machine.table))
    found = Gradients(*map(np.zeros, shapes))

    def work(some: Indices) -> None:
        sums = np.zeros((len(some), shapes[1][1])), np.zeros((len(some), shapes[2][1]))
        found.log_kernel[some] = log_kernels(machine, left, right, first[some], second[some], easy, sums)
        found.weights[some], found.table[some] = sums

    seconds = float((tall + 1) @ (wide + 1)) * len(machine.weights) * SECONDS_OF_AN_EDGE / GROUP
    # Many short pairs share a call.
    size = GROUP * max(1, round(CHUNK_SECONDS * len(order) / GROUP / max(seconds, 1e-9)))
    share(work, [order[begin : begin + size] for begin in range(0, len(order), size)], seconds)
    return found._replace(table=ratio(found.table, machine.table)) if easy else found


def matches_of(machine: Machine, alphabet: Alphabet, first: Any, second: Any) -> Matches:
    """Return the posterior probabilities that symbols of two sequences were given together.

    Its memory, besides the result, grows with the length to the power 3/2.
    """
    s, t = read_pair(alphabet, first, second)
    left, right = ((x, np.array([0, len(x)])) for x in (s, t))
    one, probability = np.zeros(1, dtype=np.int64), np.zeros((len(s), len(t)))
    sums = np.zeros((1, len(machine.weights))), np.zeros((1, len(machine.table)))
    value = log_kernels(machine, left, right, one, one, machine.easy, sums, probability)[0]
    if value == -np.inf:
        raise ValueError(
            "The two sequences have joint probability zero, so their matches are undefined. Use a model without zeros."
        )
    probability = np.minimum(probability, 1.0)
    return Matches(alphabet.decode(s), alphabet.decode(t), probability, float(value))


@dataclass(eq=False)
class MachineOperand(FieldOperand):
    """Strings that share a model; see `mercer._coupling.Operand`.

    Parameters
    ----------
    X : Sequences
        Strings of its alphabet.
    machine : Machine
        The model.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("machine",)

    X: Sequences
    machine: Machine

    @property
    def order(self) -> Floats | None:
        """Sort by length, so that the lanes of a vector end at about the same time."""
        return np.argsort(self.X.lengths, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile of some milliseconds, in whole vectors."""
        cells = max(float(np.mean(self.X.lengths)) if len(self.X) else 1.0, 1.0) ** 2 * len(self.machine.weights)
        return int(np.clip(math.sqrt(TILE_EDGES / cells) // GROUP * GROUP, GROUP, 256))

    def pair(self, other: Self) -> Floats:
        """Log kernels of all pairs, ``(I, J)``; -inf if a pair is impossible."""
        rows, columns = len(self), len(other)
        first, second = np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)
        return self.some(other, first, second).reshape(rows, columns)

    def alone(self) -> Floats:
        """Log kernel of every string with itself, ``(N,)``."""
        every = np.arange(len(self))
        return self.some(self, every, every)

    def some(self, other: Self, rows: Indices, columns: Indices) -> Floats:
        """Log kernels of the pairs (rows[p], columns[p]), right for all parameters and lengths."""
        return logs_of(self.machine, self.X, other.X, rows, columns)


def _grouped(first: Indices, tall: Indices, wide: Indices) -> Indices:
    """Return the order of pairs in which those of similar size share a vector.

    Strings of the first side are sorted by length; their partners too, alternately ascending and descending, so that a
    group that spans the end of one row and the start of the next has pairs of similar size.
    """
    by_row = np.lexsort((first, tall))
    row = np.empty(len(first), dtype=np.int64)
    row[by_row] = np.cumsum(np.diff(first[by_row], prepend=-1) != 0)
    return np.lexsort((np.where(row % 2, -wide, wide), row))
