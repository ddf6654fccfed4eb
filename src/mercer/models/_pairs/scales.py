"""Scales of substitution matrices: natural logarithms per unit of their scores."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from mercer._array import Floats
from mercer._parallel import single_blas

LETTERS = 64
"""No implied scale is searched for more letters than codons, because it takes hundreds of decompositions."""


def printed_unit(header: Any) -> float | None:
    """Read the unit that the header of a matrix states, as a fraction of a bit."""
    for line in header:
        found = re.search(r"in 1/(\d+) bit units|scale = ln\(2\)/(\d+)", str(line), re.IGNORECASE)
        if found:
            return float(np.log(2.0)) / int(found[1] or found[2])
    return None


def _excess(scores: Floats, u: float) -> float:
    """Total of the implied background at scale ``u``, less 1: sum of the inverse of exp(u S)."""
    values, vectors = np.linalg.eigh(np.exp(u * scores))
    with np.errstate(divide="ignore"):
        return float(((vectors.sum(axis=0) ** 2) / values).sum()) - 1.0


def implied_scale(scores: Floats) -> float | None:
    """Find the scale at which the implied background is a distribution: positive, with sum 1 (Yu and Altschul 2005)."""
    k = len(scores)
    apart = scores[~np.eye(k, dtype=bool)]
    if (
        k > 1 and np.ptp(apart) == 0 and np.ptp(np.diag(scores)) == 0
    ):  # a match and a mismatch score: the distribution is uniform
        return karlin_altschul(scores, np.full(k, 1.0 / k))
    return _searched(np.ascontiguousarray(scores).tobytes(), k) if k <= LETTERS else None


@lru_cache(maxsize=64)
def _searched(content: bytes, k: int) -> float | None:
    """Search all scales, from the largest; cached, because every fit of a grid search needs it."""
    scores = np.frombuffer(content).reshape(k, k)
    grid = np.geomspace(1e-2, 30.0, 300) / max(float(np.abs(scores).max()), 1e-300)
    with single_blas():
        excess = np.array([_excess(scores, u) for u in grid])
        with np.errstate(invalid="ignore"):
            crossed = np.flatnonzero(np.sign(excess[1:]) != np.sign(excess[:-1]))
        for i in crossed[::-1]:
            u = float(brentq(lambda u: _excess(scores, u), grid[i], grid[i + 1], xtol=1e-14 * grid[i]))
            if abs(_excess(scores, u)) < 1e-6 and implied_background(np.exp(u * scores)) is not None:
                return u  # not a pole, where the sign changes as well
    return None


def implied_background(ratio: Floats) -> Floats | None:
    """Return the distribution that equals the marginals of its joint distribution, or None if it is not positive."""
    try:
        distribution = np.linalg.solve(ratio, np.ones(len(ratio)))
    except np.linalg.LinAlgError:
        return None
    return distribution / distribution.sum() if np.isfinite(distribution).all() and (distribution > 0).all() else None


def karlin_altschul(scores: Floats, distribution: Floats) -> float | None:
    """Solve sum q_a q_b exp(u S_ab) = 1 for u > 0 (Karlin and Altschul 1990); None if there is no solution."""
    weights, largest = distribution[:, None] * distribution, float(scores.max())
    if float((weights * scores).sum()) >= 0 or largest <= 0:
        return None

    def excess(u: float) -> float:
        return float((weights * np.exp(u * scores)).sum()) - 1.0

    high = 1.0 / largest
    while excess(high) <= 0:
        high *= 2
    low = high
    while excess(low) >= 0:
        low /= 2
    return float(brentq(excess, low, high, xtol=1e-14 * low))
