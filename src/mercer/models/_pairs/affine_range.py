"""For which parameters and lengths strips of columns with a common exponent are accurate (MK-5e).

Names of the proof: p is the largest tilted match weight, G the tilted weight of a run, H = max(1, G), L = min(1, G).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from mercer._array import Floats

STRIP = 8
"""Number of columns of the widest strip on any processor (native/pairs_affine.hpp); narrower ones lose less."""
LONGEST = 1 << 20
"""Largest number of letters of a string for which the lanes are proved accurate."""
_DIGITS = 60
"""Relative losses are below two to minus this."""


class FlankWeights(NamedTuple):
    """Tilted weights of the flanks of local alignments: ``none``, or first * growth^(letters - 1)."""

    none: float
    first: float
    growth: float
    """At least 1."""

    @property
    def uneven(self) -> float:
        """The factor K of MK-5e."""
        ratio = self.none * self.growth / self.first
        return max(ratio, 1 / ratio)

    def need(self, rows: int) -> float:
        """Bits in addition to those of global alignments."""
        joined = math.log2(max(1.0, self.none, self.first / self.growth))
        return 12 * math.log2(self.uneven) + 2 * joined + rows * math.log2(self.growth) + 8


class Scaling(NamedTuple):
    """Scaling that keeps the numbers of the lanes in range.

    Parameters
    ----------
    rows : int
        Number of rows between two updates of the exponents.
    budget : float
        Bits available for `need`.
    match, gap : float
        The largest tilted match weight p, and the tilted weight of a run G.
    strip : int
        Number of columns of a strip.
    """

    rows: int
    budget: float
    match: float
    gap: float
    strip: int = STRIP

    def answers(self, n: Any, m: Any) -> Any:
        """Return for which strings of n and m letters, ``(I,)`` and ``(J,)``, results are accurate: bool ``(I, J)``."""
        longest = int(n.max(initial=0)), int(m.max(initial=0))
        # Usually all are safe, which the longest pair shows, since `need` grows with both lengths.
        if longest[1] <= LONGEST and _need_of_longest(*longest, self.match, self.gap, self.strip) <= self.budget:
            return (n > 0)[:, None] & (m > 0)
        with np.errstate(divide="ignore"):
            rows = need(n, 1, self.match, self.gap, self.strip)
            columns = np.where(m <= LONGEST, np.log2(m), np.inf)
        return (rows[:, None] + columns <= self.budget) & (n > 0)[:, None] & (m > 0)

    def answers_alone(self, n: Any) -> Any:
        """Return for which strings of n letters, ``(N,)``, the result of each with itself is accurate."""
        some = np.maximum(n, 1)
        return (
            (need(some, 1, self.match, self.gap, self.strip) + np.log2(some) <= self.budget) & (n > 0) & (n <= LONGEST)
        )


def need(n: Any, m: float, match: float, gap: float, strip: int = STRIP) -> Floats:
    """Bits between a result and the possible loss in one cell, for strings of n and m letters."""
    n = np.asarray(n, dtype=float)
    r = np.arange(strip + 1)
    weight = 2 * max(0.0, math.log(gap)) + (math.log(match) if match > 0 else -1e3)
    chosen = gammaln(strip + 1) - gammaln(r + 1) - gammaln(strip - r + 1)
    placed = gammaln(n[..., None] + 1) - gammaln(r + 1) - gammaln(np.maximum(n[..., None] - r, 0) + 1)
    placed = np.where(r <= n[..., None], placed, -np.inf)
    ways = logsumexp(chosen + placed + r * weight, axis=-1) / math.log(2)
    return np.asarray(3 + np.log2(n * m) + ways + 5 * abs(math.log2(gap)))


@lru_cache(maxsize=256)
def _need_of_longest(n: int, m: int, match: float, gap: float, strip: int) -> float:
    """Return `need` of one pair, cached because every tile of a Gram matrix needs it."""
    return float(need(max(n, 1), max(m, 1), match, gap, strip))


def scaling(match: float, gap: float, flanks: FlankWeights | None = None, strip: int = STRIP) -> Scaling | None:
    """Choose the rows of a group from the largest tilted match weight and that of a run.

    None if no choice is safe; then every number needs its own exponent.
    """
    if not (0 < gap < math.inf and match < math.inf):
        return None
    high, low, rise = max(1.0, gap), min(1.0, gap), 0.0
    if flanks is not None:
        rise = STRIP * math.log2(flanks.growth)
        high, low = max(high, flanks.growth * flanks.uneven), low / flanks.uneven
    growth = math.log2(high + match * (1 + LONGEST * gap) / low)
    for rows in (32, 16, 8, 4, 2, 1):
        top = 1 + (rows + 1) * growth - math.log2(low) + rise
        budget = 1022 - top - _DIGITS - (0 if flanks is None else flanks.need(rows))
        if top < 1000 and need(LONGEST, LONGEST, match, gap, strip) <= budget:
            return Scaling(rows, budget, match, gap, strip)
    return None
