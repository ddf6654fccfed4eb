r"""Profile HMMs as operands of `ProbabilityProduct` (PPK-4.2d).

Powers are taken of the joint probability of symbols and states (PPK-4.0): of every emission and transition. A profile
ends by itself, so that the kernel sums over strings of all lengths.

Soundness of the scaled lanes. A step of the recursion multiplies numbers by a transition of each profile and by an
emission product: by at least 2^-190, if positive transitions are at least 2^-60 and positive emissions at least 2^-35.
A result is sound if no positive F, D or E is stored below 2^-700 and no factor between tiles is below 2^-100. Then
numbers that enter a tile are at least 2^-860, since A and B are one transition away from F or D. What follows from them
in a step is at least 2^-990, a normal number, which is recorded as below 2^-700: nothing is lost without a record.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer._coupling import OneAxis
from mercer._rescue import rescued

SMALLEST = 2.0**-60
"""Smallest positive transition of a profile that is computed in floats."""
SMALLEST_EMISSION = 2.0**-35
LOWEST = 2.0**-700
"""Smallest positive number of a sound result, relative to the largest that enters its tile."""
TILE_CELLS = 4e6
"""Number of cells per tile of a Gram matrix: some tens of milliseconds."""


class ProfileOperand(OneAxis):
    """Profiles as operands of the Gram engine.

    Parameters
    ----------
    emission : ndarray of shape (T, 2, A + 1)
        Emission probabilities of the match and insert state of every node, begin and end included; the last symbol is
        that of begin and end.
    transition : ndarray of shape (T, 7)
        Transition probabilities mm, im, dm, md, dd into every node, and mi, ii at it.
    offsets : ndarray of int of shape (N + 1,)
        Profile n has the nodes ``offsets[n]`` to ``offsets[n + 1] - 1``.
    rho : float
        Power of all probabilities.
    """

    def __init__(self, emission: Floats, transition: Floats, offsets: Any, rho: float) -> None:
        self.emission = emission
        self.transition = transition
        self.offsets = offsets
        self.rho = rho
        self.sizes = np.diff(offsets)

    @classmethod
    def of(cls, match: Floats, insert: Floats, transitions: Floats, sizes: Any, rho: float) -> Self:
        """Prepare profiles.

        Parameters
        ----------
        match : ndarray of shape (sum M, A)
            Emission probabilities of the match states of all profiles, one after the other.
        insert : ndarray of shape (sum (M + 1), A)
            Emission probabilities of the insert states, from that of the begin on.
        transitions : ndarray of shape (sum (M + 1), 7)
            Transition probabilities from every node, from the begin on: m->m, m->i, m->d, i->m, i->i, d->m, d->d. Those
            of the last node to a match state lead to the end.
        sizes : ndarray of int of shape (N,)
            Number of nodes M of every profile, without begin and end.
        rho : float
            Power of all probabilities.
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes + 2)])
        first, last = offsets[:-1], offsets[1:] - 1
        inner, begins = np.ones(offsets[-1], dtype=bool), np.ones(offsets[-1], dtype=bool)
        inner[first] = inner[last] = begins[last] = False
        emission = np.zeros((offsets[-1], 2, np.shape(match)[1] + 1))
        emission[inner, 0, :-1] = match
        emission[begins, 1, :-1] = insert
        emission[first, 0, -1] = emission[last, 0, -1] = 1.0
        m_m, m_i, m_d, i_m, i_i, d_m, d_d = np.asarray(transitions, dtype=np.float64).T
        transition = np.zeros((offsets[-1], 7))
        transition[begins, 5] = m_i
        transition[begins, 6] = np.where(m_i > 0, i_i, 0.0)  # no path enters it: no loop
        after = np.flatnonzero(begins) + 1
        transition[after, :5] = np.stack([m_m, i_m, d_m, m_d, d_d], axis=1)
        transition[first + 1, 2] = transition[first + 1, 4] = 0.0  # the begin has no delete state
        transition[last, 3:5] = 0.0  # nor has the end
        transition[first, 0] = 1.0  # the recursion enters the begin like any node
        return cls(emission, transition, offsets, float(rho))

    @property
    def order(self) -> Any:
        """Sort by size, so that the lanes of a vector end at about the same node."""
        return np.argsort(self.sizes, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile, in whole vectors."""
        side = math.sqrt(TILE_CELLS) / max(1.0, float(self.sizes.mean()) if len(self) else 1.0)
        return int(np.clip(16 * math.ceil(side / 16), 16, 256))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Self:
        chosen = np.arange(len(self))[key]
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return type(self)(self.emission[places], self.transition[places], offsets, self.rho)

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``: -inf if no string is common, inf if the sum diverges."""
        from mercer.compiled.profile_product import lane_products

        value, exponent, lowest = lane_products(self._powers, other._powers)
        sound = np.isfinite(value) & (lowest >= LOWEST) & (self._normal[:, None] & other._normal)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(value)
        logs += math.log(2) * exponent
        return rescued(logs, sound, lambda rows, columns: self._ranged(other, rows, columns))

    def alone(self) -> Floats:
        """Log kernel of every profile with itself, ``(N,)``, by small squares of profiles of similar size."""
        from mercer.compiled.profile_product import LANES

        out, order = np.empty(len(self)), self.order
        for begin in range(0, len(self), LANES):
            some = self[order[begin : begin + LANES]]
            out[order[begin : begin + LANES]] = np.diag(some.pair(some))
        return out

    def _ranged(self, other: Self, rows: Any, columns: Any) -> Floats:
        """Log kernels of the pairs (rows[p], columns[p]) in numbers of unlimited range."""
        from mercer.compiled.profile_product import lane_products
        from mercer.compiled.ranged import LOG_RADIX

        out = np.empty(len(rows))
        for row in np.unique(rows):
            here = rows == row
            value, exponent, _ = lane_products(self[[row]]._ranged_powers, other[columns[here]]._ranged_powers, True)
            with np.errstate(divide="ignore"):
                out[here] = np.log(value[0]) + LOG_RADIX * exponent[0]
        return np.where(np.isnan(out), np.inf, out)  # inf * 0 after a sum that diverges

    @cached_property
    def _powers(self) -> tuple[Floats, Floats, Any]:
        return self.emission**self.rho, self.transition**self.rho, self.offsets

    @cached_property
    def _ranged_powers(self) -> tuple[Floats, Floats, Any]:
        """The same with the exponents of `mercer.compiled.ranged` in a last axis of two."""
        from mercer.compiled.pairs_numbers import ZERO_EXPONENT
        from mercer.compiled.ranged import LOG_RADIX

        def numbers(x: Floats, power: Floats) -> Floats:
            logs = self.rho * np.log(x, where=x > 0, out=np.zeros(x.shape))
            k = np.rint(logs / LOG_RADIX)
            v = np.where(k == 0, power, np.exp(logs - k * LOG_RADIX))
            return np.stack([v, np.where(x > 0, k, ZERO_EXPONENT)], axis=-1)

        emission, transition, offsets = self._powers
        return numbers(self.emission, emission), numbers(self.transition, transition), offsets

    @cached_property
    def _normal(self) -> Any:
        """Whether the powers of each profile are in the range of the proof, ``(N,)``."""
        emission, transition, offsets = self._powers
        tiny = ((emission < SMALLEST_EMISSION) & (self.emission > 0)).any(axis=(1, 2))
        tiny |= ((transition < SMALLEST) & (self.transition > 0)).any(axis=1)
        return ~np.logical_or.reduceat(tiny, offsets[:-1]) if len(self) else np.ones(0, dtype=bool)


def log_products(profiles: ProfileOperand, others: ProfileOperand | None = None) -> Floats:
    """Compute the log kernels of all pairs of two sets of profiles, or of one, ``(I, J)``."""
    return profiles.pair(profiles if others is None else others)
