"""Strings under an affine pair HMM as operands of the Gram engine (MK-5b)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Floats, Mask
from mercer._native.pairs import affine_pairs
from mercer._rescue import rescued
from mercer.data import Sequences
from mercer.models._pairs.affine import EXTEND, OPEN, AffineMachine, AffineParameters
from mercer.models._pairs.affine_range import LONGEST, FlankWeights, rows_of_group
from mercer.models._pairs.machine import MachineOperand

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
    c, o, e = map(float, affine.rates[:3])
    match = c * (1 - o) ** 2 * (joint / r[:, None] / r) / e**2
    base = float(np.log1p(-c) + 2 * np.log1p(-o))
    flanks = None
    if affine.is_local:
        opened, extended = affine.flank
        first = opened * (1 - extended) / (1 - o) / e
        flanks = FlankWeights((1 - opened) / (1 - o), first, extended / e)
    return Odds(match, np.log(r) + np.log(e), o * (1 - e) / (1 - o) / e, base, flanks)


class Fast(NamedTuple):
    """The recursion in lanes, computed once for all strings."""

    odds: Odds
    rows: int
    """Between two updates of the exponents."""


def fast_recursion(affine: AffineParameters) -> Fast | None:
    """Prepare the recursion in lanes; None if the parameters are too extreme for it."""
    insertion, extend = affine.insertion, affine.rates[EXTEND]
    gap = affine.rates[OPEN] * (1 - extend) / (1 - affine.rates[OPEN])
    if min(extend, gap, insertion.min()) < 1e-60:
        return None
    if affine.is_local and (affine.flank[0] < 1e-60 or affine.flank[1] < extend):
        return None  # the lanes need flanks that do not end earlier than gaps
    fast = odds(affine)
    rows = rows_of_group(float(fast.match.max()), fast.gap, fast.flanks)
    return None if rows is None else Fast(fast, rows)


@dataclass(eq=False)
class AffineOperand(MachineOperand):
    """Strings that are compared under one model: in lanes, or as any pair HMM where these are not accurate.

    Parameters
    ----------
    fast : Fast or None
        The recursion in lanes.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("machine", "fast")

    fast: Fast | None

    @classmethod
    def of(cls, model: Any, X: Sequences) -> Self:
        """Prepare strings for the single model of a batch."""
        affine = AffineParameters.of(model)
        affine = affine._replace(joint=(affine.joint + affine.joint.T) / 2)
        return cls(X, AffineMachine.of(affine, 2).machine, fast_recursion(affine))

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile: a few milliseconds of work, in whole blocks of lanes."""
        side = math.sqrt(TILE_CELLS) / max(1.0, float(self.X.lengths.mean()) if len(self) else 1.0)
        return int(np.clip(16 * math.ceil(side / 16), 16, 256))

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``; -inf if a pair is impossible."""
        out = np.empty((len(self), len(other)))
        sound = np.zeros(out.shape, dtype=bool)
        if self.fast:
            rows, columns = (np.flatnonzero(in_range(X)) for X in (self.X, other.X))
            place = np.ix_(rows, columns)
            out[place] = self[rows]._in_lanes(other[columns])
            sound[place] = np.isfinite(out[place])
        return rescued(out, sound, lambda rows, columns: self.some(other, rows, columns))

    def alone(self) -> Floats:
        """Log kernel of every string with itself, ``(N,)``, by small squares of strings of similar length."""
        if not self.fast:
            return super().alone()
        out, order = np.empty(len(self)), np.argsort(self.X.lengths, kind="stable")
        for begin in range(0, len(self), SQUARE):
            some = order[begin : begin + SQUARE]
            out[some] = np.diag(self[some].pair(self[some]))
        return out

    def _in_lanes(self, other: Self) -> Floats:
        """Log kernels of every pair in SIMD lanes; not finite if numbers leave the floating-point range."""
        assert self.fast is not None
        numbers, rows = self.fast
        left, right = (self.X.values, self.X.offsets), (other.X.values, other.X.offsets)
        logs = affine_pairs(numbers.match, left, right, numbers.gap, numbers.flanks, rows)
        mine, theirs = (letter_sums(numbers.log_letter, X) for X in (self.X, other.X))
        return np.asarray(logs + (numbers.base + (mine[:, None] + theirs)))


def in_range(X: Sequences) -> Mask:
    """Return which strings the lanes take: not empty, and of at most `LONGEST` letters."""
    return (X.lengths > 0) & (X.lengths <= LONGEST)


def letter_sums(logs: Floats, X: Sequences) -> Floats:
    """Sum the logarithms of the letters of each string, independently of other strings."""
    # The last sum is of values beyond the last offset, which belong to no string.
    sums = np.add.reduceat(np.append(logs[X.values], 0.0), X.offsets)[:-1]
    return np.where(X.lengths > 0, sums, 0.0)
