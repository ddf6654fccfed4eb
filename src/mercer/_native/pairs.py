"""Pair HMMs (MK-5): alignments of two strings, computed by native/pairs_*.hpp.

Strings of one side are all codes, and offsets: string i is ``codes[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call

CELLS_OF_A_CALL = 1e7
"""Number of cells of pairs, times states, after which an interrupt is answered."""


def affine_pairs(
    match: Floats,
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    gap: float,
    flanks: tuple[float, float, float] | None,
    precision: str,
    start: int,
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
    precision : {"float64", "float32"}
        Type of the numbers.
    start : int
        Exponent at which numbers start, and to which they are rescaled.
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
        "single": precision == "float32", "start": start, "rows": rows, "place": np.zeros(3, np.int64),
        "memory": np.empty(8 * (2 * longest + longest // rows + 3)), "log_value": value,
    }  # fmt: skip
    while call("affine_pairs", **arguments):
        pass  # a bounded amount of work at a time, so that an interrupt is answered
    return value


def ranged_affine(
    model: tuple[Floats, Floats, Floats],
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    rows: Any,
    columns: Any,
    counts: tuple[Floats, Floats, Floats] | None = None,
    probability: Floats | None = None,
) -> Floats:
    """Compute log kernels of given pairs in numbers of unlimited range, and add expected counts (MK-5b, MK-5d).

    Parameters
    ----------
    model : tuple of ndarrays
        Joint probabilities of two codes (C, C), those of inserted codes (C,), where ambiguity codes sum over their
        symbols; and rates: open, extend, continuation, and of local alignments open and extend of flanks.
    left, right : codes and offsets of strings
        As in `Sequences`.
    rows, columns : ndarray of int of shape (P,)
        Indices of the strings of each pair.
    counts : tuple of ndarrays, default=None
        Expected counts of each possible pair are added: matches (P, C, C), inserted letters (P, C), and (P, 5) opened
        and extended runs, opened and extended flanks, and the probability of no match.
    probability : ndarray of shape (n, m), default=None
        Receives the probability of every match of a single pair; only with ``counts``.

    Returns
    -------
    ndarray of shape (P,)
        Logarithms; -inf if a pair is impossible.
    """
    value = np.empty(len(rows))
    joint, insertion, rates = model
    for part in _parts(left, right, rows, columns, 3):
        matched, letters, runs = (None, None, None) if counts is None else (x[part] for x in counts)
        strings = (*left, *right, rows[part], columns[part])
        call(
            "ranged_affine", joint=joint, insertion=insertion, rates=rates, strings=strings, log_value=value[part],
            matched=matched, letters=letters, runs=runs, probability=probability,
        )  # fmt: skip
    return value


def _parts(left: tuple[Any, Any], right: tuple[Any, Any], rows: Any, columns: Any, states: int) -> list[slice]:
    """Divide pairs into parts of bounded work, in whole vectors."""
    sides = ((left[1], rows), (right[1], columns))
    tall, wide = (float(np.diff(offsets)[which].max(initial=1)) for offsets, which in sides)
    size = max(8, int(CELLS_OF_A_CALL / (tall * wide * states)) // 8 * 8)
    return [slice(begin, begin + size) for begin in range(0, len(rows), size)]


def general_pairs(
    model: tuple[Floats, Floats, Floats, Floats, Floats, float],
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    rows: Any,
    columns: Any,
    floor: float,
) -> Floats:
    """Compute log kernels of given pairs under a model of any states (MK-5).

    Parameters
    ----------
    model : tuple
        Emission of each code (C, n), silent (n,), and without visits that emit nothing: start (n,), step (n, n), stop
        (n,) and the log kernel of two empty strings.
    left, right : codes and offsets of strings
        As in `Sequences`.
    rows, columns : ndarray of int of shape (P,)
        Indices of the strings of each pair; fast if pairs of similar size are next to each other.
    floor : float
        Smallest weight of a cell, relative to its largest, with which floats are accurate. Pairs with smaller ones are
        computed in numbers of unlimited range; all pairs if it is above 1.

    Returns
    -------
    ndarray of shape (P,)
        Logarithms; -inf if no trajectory emits both strings.
    """
    value = np.empty(len(rows))
    for part in _parts(left, right, rows, columns, len(model[1])):
        strings = (*left, *right, rows[part], columns[part])
        call("general_pairs", model=model[:5], strings=strings, empty=model[5], floor=floor, log_value=value[part])
    return value


def general_expected(
    model: tuple[Floats, Floats, Floats, Floats, Floats, float],
    strings: tuple[Any, Any],
    rows: Any,
    columns: Any,
    sums: tuple[Floats, Floats, Floats, Floats, Floats],
    matched: Floats | None = None,
) -> None:
    """Write expected counts of the trajectories of given pairs, of which none has two empty strings (MK-5).

    Parameters
    ----------
    model, strings, rows, columns
        As in `general_pairs`.
    sums : tuple of ndarrays
        Zeros; receive gradients in start (P, n + 1) and in step and stop (P, n, n + 1), expected counts of symbols
        (P, n, C) and of visits that emit one symbol only (P, n), and log kernels (P,).
    matched : ndarray, default=None
        Receives the posteriors that two symbols of a single pair are from one visit.
    """
    gain, moves, symbols, once, value = sums
    call(
        "general_expected", model=model[:5], strings=(*strings, *strings, rows, columns), gain=gain, moves=moves,
        symbols=symbols, once=once, log_value=value, matched=matched,
    )  # fmt: skip
