"""Pair HMMs (MK-5): alignments of two strings, computed by native/pairs_*.hpp.

Strings of one side are all codes, and offsets: string i is ``codes[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call

CELLS_OF_A_CALL = 2e7
"""Number of cells of pairs, times edges, after which an interrupt is answered."""
EASY = 2.0**-100
"""Smallest weight of which a few products with numbers of unlimited range need no normalization."""


def affine_pairs(
    match: Floats,
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    gap: float,
    flanks: tuple[float, float, float] | None,
    rows: int,
) -> Floats:
    """Sum over all alignments of every pair of strings of two sides, in SIMD lanes (MK-5b, MK-5d).

    Parameters
    ----------
    match : ndarray of shape (C, D)
        Tilted match weights of the codes of the left and right strings, c (1-o)^2 R / e^2.
    left, right : codes and offsets of strings
        As in `Sequences`.
    gap : float
        Tilted weight of a run, g / e.
    flanks : tuple of float, or None
        Of local alignments, the tilted weights of a flank of no letters and of one letter, and the factor of each
        further letter, at least 1.
    rows : int
        Number of rows between two updates of the exponents.

    Returns
    -------
    ndarray of shape (I, J)
        Logarithms; not finite where numbers left the floating-point range, or a string is empty.
    """
    sizes = np.diff(right[1])
    longest = -(-int(np.diff(left[1]).max(initial=0)) // rows) * rows
    none, first, growth = flanks or (0.0, 0.0, 0.0)
    value = np.full((len(left[1]) - 1, len(sizes)), np.nan)
    arguments = {
        "match": match, "left": left[0], "left_offsets": left[1], "right": right[0], "right_offsets": right[1],
        "order": np.argsort(sizes, kind="stable"), "gap": gap, "none": none, "first": first, "growth": growth,
        "rows": rows, "place": np.zeros(3, np.int64),
        "memory": np.empty(8 * (2 * longest + longest // rows + 3)), "log_value": value,
    }  # fmt: skip
    while call("affine_pairs", **arguments):
        pass  # a bounded amount of work at a time, so that an interrupt is answered
    return value


class Machine(NamedTuple):
    """A pair hidden Markov model as states and edges; state 0 begins with weight 1."""

    states: Indices
    """``(Q, 2)``: which strings get a symbol (0: none, 1: the first, 2: the second, 3: both), and where the emissions
    of a state begin in the table. States without symbols come after those that lead to them."""
    edges: Indices
    """``(E, 2)``: source and target; the end is Q."""
    weights: Floats
    """``(E,)``."""
    table: Floats
    """Probabilities of codes, ``(C,)``, or of pairs of codes, ``(C, C)``, one after the other: ``(T,)``."""
    codes: int
    """Number of codes, C."""

    @property
    def easy(self) -> bool:
        """Whether products of a few weights stay in the range of floats."""
        least = min(np.min(x, where=x > 0, initial=1.0) for x in (self.weights, self.table))
        return bool(least > EASY)


def log_kernels(
    machine: Machine,
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    rows: Any,
    columns: Any,
    easy: bool,
    sums: tuple[Floats, Floats] | None = None,
    matched: Floats | None = None,
) -> Floats:
    """Compute log kernels of given pairs in numbers of unlimited range, and expected counts (MK-5).

    Parameters
    ----------
    machine : Machine
        The model.
    left, right : codes and offsets of strings
        As in `Sequences`.
    rows, columns : ndarray of int of shape (P,)
        Indices of the strings of each pair; fast if pairs of similar size are next to each other.
    easy : bool
        Whether to compute with weights that need no exponents of their own.
    sums : tuple of ndarrays, default=None
        Receive gradients in the weights (P, E), and in the table (P, T), times the table if ``easy``.
    matched : ndarray of shape (n, m), default=None
        Zeros; receive the posteriors that symbols of a single pair were given together; only with ``sums``.

    Returns
    -------
    ndarray of shape (P,)
        Logarithms; -inf if a pair is impossible.
    """
    value = np.empty(len(rows))
    for part in _parts(left, right, rows, columns, len(machine.edges)):
        passed, emitted = (None, None) if sums is None else (x[part] for x in sums)
        call(
            "pairs", machine=machine[:4], codes=machine.codes, strings=(*left, *right, rows[part], columns[part]),
            easy=easy, log_value=value[part], passed=passed, emitted=emitted, matched=matched,
        )  # fmt: skip
    return value


def _parts(left: tuple[Any, Any], right: tuple[Any, Any], rows: Any, columns: Any, edges: int) -> list[slice]:
    """Divide pairs into parts of bounded work, in whole vectors."""
    sides = ((left[1], rows), (right[1], columns))
    tall, wide = (float(np.diff(offsets)[which].max(initial=1)) for offsets, which in sides)
    size = max(8, int(CELLS_OF_A_CALL / ((tall + 1) * (wide + 1) * edges)) // 8 * 8)
    return [slice(begin, begin + size) for begin in range(0, len(rows), size)]
