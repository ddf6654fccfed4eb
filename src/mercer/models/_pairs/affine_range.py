"""For which parameters and lengths strips of columns with a common exponent are accurate (MK-5e).

Names of the proof: p is the largest tilted match weight, G the tilted weight of a run, H = max(1, G), L = min(1, G).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

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


def need(n: int, match: float, gap: float, strip: int = STRIP) -> float:
    """Bits between a result and the possible loss in one cell, for strings of n letters."""
    r = np.arange(strip + 1)
    weight = 2 * max(0.0, math.log(gap)) + (math.log(match) if match > 0 else -1e3)
    chosen = gammaln(strip + 1) - gammaln(r + 1) - gammaln(strip - r + 1)
    placed = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
    ways = float(logsumexp(chosen + placed + r * weight)) / math.log(2)
    return 3 + 2 * math.log2(n) + ways + 5 * abs(math.log2(gap))


def rows_of_group(match: float, gap: float, flanks: FlankWeights | None = None, strip: int = STRIP) -> int | None:
    """Return after how many rows exponents must be updated, given the largest tilted match weight and that of a run.

    Strings of at most `LONGEST` letters are then accurate. None if no number is safe; then every number needs its own
    exponent.
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
        if top < 1000 and need(LONGEST, match, gap, strip) <= budget:
            return rows
    return None
