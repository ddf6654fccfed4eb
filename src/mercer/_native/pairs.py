"""Pair HMMs (MK-5): alignments of two strings, computed by native/pairs_*.hpp.

Strings of one side are all codes, and offsets: string i is ``codes[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call


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
    place, memory = np.zeros(3, np.int64), np.empty(8 * (2 * longest + longest // rows + 3))
    arguments = {
        "match": match, "left": left[0], "left_offsets": left[1], "right": right[0], "right_offsets": right[1],
        "order": np.argsort(sizes, kind="stable"), "gap": gap, "none": none, "first": first, "growth": growth,
        "single": precision == "float32", "start": start, "rows": rows, "place": place, "memory": memory,
        "log_value": value,
    }  # fmt: skip
    while call("affine_pairs", **arguments):
        pass  # a bounded amount of work at a time, so that an interrupt is answered
    return value
