"""Strings under an affine pair HMM as operands of the Gram engine (MK-5b)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Floats
from mercer._coupling import OneAxis
from mercer._native.pairs import affine_pairs, ranged_affine
from mercer._rescue import rescued
from mercer.data import Sequences
from mercer.models._pairs.affine_expectations import AffineParameters
from mercer.models._pairs.affine_range import FlankWeights, Scaling, scaling32, scaling64

SQUARE = 8
"""Number of strings of similar length whose kernels with themselves are computed at once."""
TILE_CELLS = 2e7
"""Number of cells of the recursion per tile: a few milliseconds."""


class Odds(NamedTuple):
    """Input of the recursion.

    With the letters' reference probabilities r divided out, and x = (1-e) X / (1-o), y = (1-e) Y / (1-o)^2 in place of
    the X and Y of MK-5b, the recursion has one gap weight g = o (1-e) / (1-o) and the same form for both strings::

        M(i,j) = match[s_i,t_j] z(i-1,j-1)
        x(i,j) = inserted[s_i] (g M(i-1,j) + e x(i-1,j)),    u = M + x
        y(i,j) = inserted[t_j] (g u(i,j-1) + e y(i,j-1)),    z = u + y
        log kappa = base + log z(n,m) + sum log r[s_i] + sum log r[t_j]

    with match[a,b] = c (1-o)^2 J[a,b] / (r_a r_b) and inserted = insertion / r. Here r is the distribution of
    insertions, so that inserted is 1; and numbers are tilted, divided by e per letter, which makes e 1 too.
    """

    match: Floats
    """Tilted, ``(C, C)``."""
    log_letter: Floats
    """log (r e), ``(C,)``."""
    gap: float
    """g / e, the weight of a run of insertions."""
    base: float
    """log((1-c) (1-o)^2)."""
    flanks: FlankWeights | None
    """Tilted weights of the flanks of local alignments (MK-5d), divided by 1-o; None if alignments are global."""


def odds(affine: AffineParameters) -> Odds:
    """Compute the tilted odds of a model whose distribution of insertions has no zeros."""
    joint, r = affine.joint_of_codes, affine.insertion_of_codes
    o, e, c, flank = affine.open, affine.extend, affine.continuation, affine.flank
    match = c * (1 - o) ** 2 * (joint / r[:, None] / r) / e**2
    base = float(np.log1p(-c) + 2 * np.log1p(-o))
    flanks = None
    if flank is not None:
        first = flank.open * (1 - flank.extend) / (1 - o) / e
        flanks = FlankWeights((1 - flank.open) / (1 - o), first, flank.extend / e)
    return Odds(match, np.log(r) + np.log(e), o * (1 - e) / (1 - o) / e, base, flanks)


class Recursion(NamedTuple):
    """Parameters of the recursion, computed once for all strings."""

    affine: AffineParameters
    """For the recursion in numbers of unlimited range."""
    fast: Odds | None
    """For the lanes; None if they have no safe scaling."""
    scalings: tuple[Scaling, ...]
    """Scalings of the lanes, in the order in which they are tried; empty if the parameters are too extreme."""


def recursion(model: Any, precision: str) -> Recursion:
    """Choose the recursion for the single model of a batch."""
    affine = AffineParameters.of(model)
    affine = affine._replace(joint=(affine.joint + affine.joint.T) / 2)
    insertion, gap = affine.insertion, affine.open * (1 - affine.extend) / (1 - affine.open)
    if min(affine.extend, gap, insertion.min()) < 1e-60:  # far beyond the range of the lanes
        return Recursion(affine, None, ())
    if affine.flank is not None and (affine.flank.open < 1e-60 or affine.flank.extend < affine.extend):
        return Recursion(affine, None, ())  # the lanes need flanks that do not end earlier than gaps
    fast = odds(affine)
    most, least = float(fast.match.max()), float(fast.match.min(where=fast.match > 0, initial=1.0))
    scalings = [scaling64(most, fast.gap, fast.flanks)]
    if precision == "float32" and least > 1e-30:
        growth = float(insertion @ np.diag(fast.match)[: len(insertion)])
        scalings.insert(0, scaling32(most, fast.gap, growth, fast.flanks))
    return Recursion(affine, fast, tuple(s for s in scalings if s is not None))


class AffineOperand(OneAxis):
    """Strings that are compared under one model.

    Parameters
    ----------
    values, offsets : ndarray
        Concatenated codes of all strings; string i is ``values[offsets[i]:offsets[i + 1]]``.
    recursion : Recursion
        Parameters of the recursion.
    """

    def __init__(self, values: Any, offsets: Any, recursion: Recursion) -> None:
        self.values = values
        self.offsets = offsets
        self.recursion = recursion
        self.lengths = np.diff(offsets)

    @classmethod
    def of(cls, model: Any, X: Sequences, precision: str) -> Self:
        """Prepare strings for the single model of a batch."""
        return cls(X.values, X.offsets, recursion(model, precision))

    @property
    def order(self) -> Any:
        """Sort by length, so that neighboring lanes end at the same time."""
        return np.argsort(self.lengths, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile: a few milliseconds of work, in whole blocks of lanes."""
        side = math.sqrt(TILE_CELLS) / max(1.0, float(self.lengths.mean()) if len(self) else 1.0)
        return int(np.clip(16 * math.ceil(side / 16), 16, 256))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Self:
        chosen = np.arange(len(self))[key]
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return type(self)(self.values[places], offsets, self.recursion)

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``; -inf if a pair is impossible."""
        out = np.empty((len(self), len(other)))
        sound = np.zeros(out.shape, dtype=bool)
        for scaling in self.recursion.scalings:
            asked = ~sound & scaling.answers(self.lengths, other.lengths)
            rows, columns = np.flatnonzero(asked.any(axis=1)), np.flatnonzero(asked.any(axis=0))
            if len(rows):
                place = np.ix_(rows, columns)
                logs = self[rows]._in_lanes(other[columns], scaling)
                known = asked[place] & np.isfinite(logs)
                out[place] = np.where(known, logs, out[place])
                sound[place] |= known
        return rescued(out, sound, lambda rows, columns: self._ranged(other, rows, columns))

    def alone(self) -> Floats:
        """Log kernel of every string with itself, ``(N,)``, by small squares of strings of similar length."""
        everyone = np.arange(len(self))
        if not self.recursion.scalings:
            return self._ranged(self, everyone, everyone)
        out, order = np.empty(len(self)), self.order
        for begin in range(0, len(self), SQUARE):
            some = order[begin : begin + SQUARE]
            out[some] = np.diag(self[some].pair(self[some]))
        return out

    def _in_lanes(self, other: Self, scaling: Scaling) -> Floats:
        """Log kernels of every pair in SIMD lanes; not finite if numbers leave the floating-point range."""
        numbers = self.recursion.fast
        assert numbers is not None
        left, right = (self.values, self.offsets), (other.values, other.offsets)
        logs = affine_pairs(
            numbers.match, left, right, numbers.gap, numbers.flanks, scaling.precision, scaling.start, scaling.rows
        )
        mine, theirs = (letter_sums(numbers.log_letter, side.values, side.offsets) for side in (self, other))
        logs += numbers.base + (mine[:, None] + theirs)
        return logs

    def _ranged(self, other: Self, rows: Any, columns: Any) -> Floats:
        """Log kernels of the pairs (rows[p], columns[p]) by the recursion that is accurate for all parameters."""
        left, right = (self.values, self.offsets), (other.values, other.offsets)
        return ranged_affine(self.recursion.affine.of_codes, left, right, rows, columns)


def letter_sums(logs: Floats, values: Any, offsets: Any) -> Floats:
    """Sum the logarithms of the letters of each string, independently of other strings."""
    # The last sum is of values beyond the last offset, which belong to no string.
    sums = np.add.reduceat(np.append(logs[values], 0.0), offsets)[:-1]
    return np.where(np.diff(offsets) > 0, sums, 0.0)
