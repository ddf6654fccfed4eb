r"""Proof that strips of columns with a common exponent are accurate, and for which parameters and lengths.

Tilted numbers. Divide the numbers of cell (i, j) by e^(i+j). Then the weight of an alignment (a set of matches, in
increasing order in both strings) is the product of its match weights, at most p each, times G per nonempty run of
inserted letters, G = g/e, for any length; and z(i, j) is the sum over all alignments of the first i and j letters.
Let D(i, j) be the same sum for all letters after these, H = max(1, G) and L = min(1, G).

Exponents. A strip has an exponent E in each group of rows, and stores numbers as (number) 2^(start-E). E never
decreases, neither down the rows nor to the right. It starts at 0, where z(0,0) = 1, and is raised only if the z of the
last column of a strip would be stored above 2^(start+1); then this z is stored above 2^start.

(1) z(i', j') >= L^2 z(i, j) for i' >= i, j' >= j: appended letters open at most one run in either string. So the
    z of the last column of a strip is stored above 2^start L^2 in all rows. If that column lies beyond the end of t
    (nothing matches there), the z of the last column of t is stored above 2^start L^2 / H.
(2) z(i+1, j) <= rho z(i, j), rho = H + p (1 + m G) / L: the new letter is inserted, or matched with one of m letters.
    So numbers stay below 2^top, top = start + 1 + (rows + 1) log2 rho + log2 1/L, in a group of ``rows`` rows.
(3) A loss of a at (i, j) reduces the result by at most a D(i, j) / L.
(4) z(n, m) >= z(i, j) D(i, j) / H^2: join an alignment before (i, j) and one after it; two runs may become one.
(5) D(i, j) <= S D(i, j') for j <= j' <= j + w, w the width of the strip: from an alignment after (i, j), remove the r
    matches with t_(j+1) .. t_j'. At most C(w,r) C(n,r) alignments become the same one, and weights decrease by at most
    p^r H^(2r+2) / L^2. So S = H^2 / L^2 sum_r C(w,r) C(n,r) (p H^2)^r.

Together: if every loss is stored below 2^floor, and there are at most eight per cell, then the total loss relative to
z(n, m) is at most 8 n m S H^3 L^-3 2^(floor - start) = 2^(need + floor - start), with

    need = 3 + log2(n m) + log2 sum_r C(w,r) C(n,r) (p H^2)^r + 5 |log2 G|.

Float64 starts at 2^0. Numbers underflow below 2^-1022, and so do the factors that convert numbers below 2^top from one
strip to the next: floor = top - 1022. Float32 has little range. It starts as high as the growth of similar strings
allows; its factors are split into two, so floor = -124; and if numbers grow faster than expected, they become infinite
and stay infinite, which is detected at the end.

Local alignments (MK-5d). A flank of l letters has the tilted weight A(l): a if l = 0, else B R^l, and R >= 1. Let
K = max(a/B, B/a), and let z(i, j) contain the flanks A(i) A(j) before the first match. Inside a strip, numbers are also
divided by R per column; from strip to strip, exponents decrease by w log2 R, up to one in total: the scale of the
strips is the one above. A letter of t that is inserted then has a weight of at most 1, in a gap or in a flank, so that
all of the above holds with a few more factors, since for l <= l' also A(l) <= K A(l'):

(1) with L/K in place of L, and H K in place of H beyond the end of t.
(2) with rho = max(H, K R) + p (1 + m G) K / L.
(4) If no match remains before (i, j), or after it, the joined alignment has a longer flank, A(l) >= A(l') / K, or one
    flank instead of two, A(l + l') >= A(l) A(l') / max(1, a, B).
(5) Removed matches make the last flank longer: K^-2.

The weights of the flanks of s are stored relative to that of the last row of a group, which loses R^rows. So top grows
by w log2 R, and need by 12 log2 K + 2 log2 max(1, a, B) + rows log2 R + 8.
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
"""Largest number of letters of a string for which the float64 lanes are proved accurate."""
_DIGITS = {"float64": 60, "float32": 30}
"""Relative losses are below two to minus this."""


class FlankWeights(NamedTuple):
    """Tilted weights of the flanks of local alignments: ``none``, or first * growth^(letters - 1)."""

    none: float
    first: float
    growth: float
    """At least 1."""

    @property
    def uneven(self) -> float:
        """The factor K of the proof."""
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
    precision : {"float64", "float32"}
        Dtype of the numbers.
    rows : int
        Number of rows between two updates of the exponents.
    start : int
        Exponent at which numbers start, and to which they are rescaled.
    budget : float
        Bits available for `need`.
    match, gap : float
        The largest tilted match weight p, and the tilted weight of a run G.
    strip : int
        Number of columns of a strip.
    """

    precision: str
    rows: int
    start: int
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


def scaling64(match: float, gap: float, flanks: FlankWeights | None = None, strip: int = STRIP) -> Scaling | None:
    """Choose the rows of a group for float64, from the largest tilted match weight and that of a run.

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
        budget = 1022 - top - _DIGITS["float64"] - (0 if flanks is None else flanks.need(rows))
        if top < 1000 and need(LONGEST, LONGEST, match, gap, strip) <= budget:
            return Scaling("float64", rows, 0, budget, match, gap, strip)
    return None


def scaling32(match: float, gap: float, typical: float, flanks: FlankWeights | None = None) -> Scaling | None:
    """Choose the rows of a group and the start for float32; ``typical`` is the growth per row of similar strings."""
    if not (0 < gap < math.inf and match < 2.0**60):
        return None
    more = 0.0 if flanks is None else math.log2(flanks.growth)
    for rows in (16, 8, 4, 2, 1):
        room = math.ceil(16 + rows * (math.log2(1 + typical) + more))
        # An exponent may be raised by 128 - start + 3 log2 1/L at once, in one factor.
        if room <= 60 and 1 + room + 3 * abs(math.log2(gap)) < 126:
            start = 127 - room
            budget = start + 124 - _DIGITS["float32"] - (0 if flanks is None else flanks.need(rows))
            return Scaling("float32", rows, start, budget, match, gap)
    return None
