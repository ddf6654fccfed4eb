"""BLOSUM62 (Henikoff and Henikoff 1992), the matrix that most alignments of proteins use, as NCBI publishes it."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats

UNIT = float(np.log(2.0)) / 2
"""Scores are in half bits."""
HALF = """
    A 4
    R -1 5
    N -2 0 6
    D -2 -2 1 6
    C 0 -3 -3 -3 9
    Q -1 1 0 0 -3 5
    E -1 0 0 2 -4 2 5
    G 0 -2 0 -1 -3 -2 -2 6
    H -2 0 1 -1 -3 0 0 -2 8
    I -1 -3 -3 -3 -1 -3 -3 -4 -3 4
    L -1 -2 -3 -4 -1 -2 -3 -4 -3 2 4
    K -1 2 0 -1 -3 1 1 -2 -1 -3 -2 5
    M -1 -1 -2 -3 -1 0 -2 -3 -2 1 2 -1 5
    F -2 -3 -3 -3 -2 -3 -3 -3 -1 0 0 -3 0 6
    P -1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4 7
    S 1 -1 1 0 -1 0 0 0 -1 -2 -2 0 -1 -2 -1 4
    T 0 -1 0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1 1 5
    W -3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1 1 -4 -3 -2 11
    Y -2 -2 -2 -3 -2 -1 -2 -3 2 -1 -1 -2 -1 3 -3 -2 -2 2 7
    V 0 -3 -3 -3 -1 -2 -2 -3 -3 3 1 -2 1 -1 -2 -2 0 -3 -1 4
    B -2 -1 3 4 -3 0 1 -1 0 -3 -4 0 -3 -3 -2 0 -1 -4 -3 -3 4
    Z -1 0 0 1 -3 3 4 -2 0 -3 -3 1 -1 -3 -1 0 -1 -3 -2 -2 1 4
    X 0 -1 -1 -1 -2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -2 0 0 -2 -1 -1 -1 -1 -1
    * -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 1
"""
"""A letter, and its scores with those above and with itself; B is D or N, Z is E or Q, X is any, * is the end."""


def blosum62() -> tuple[list[str], Floats]:
    """Return the letters and the scores, ``(24, 24)``."""
    lines = [line.split() for line in HALF.split("\n") if line.strip()]
    scores = np.zeros((len(lines), len(lines)))
    for i, (_, *row) in enumerate(lines):
        scores[i, : i + 1] = scores[: i + 1, i] = list(map(float, row))
    return [letter for letter, *_ in lines], scores
