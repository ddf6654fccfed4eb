r"""Profile HMMs as operands of `ProbabilityProduct` (PPK-4.2d).

Powers are taken of the joint probability of symbols and states (PPK-4.0): of every emission and transition. A profile
ends by itself, so that the kernel sums over strings of all lengths.

Soundness of the scaled lanes. Positive transitions are at least 2^-60 and positive emissions at least 2^-200, so that
emission products are at least 2^-400. A result is sound if no positive F, D or E is stored below 2^-400 and no factor
between tiles is below 2^-100. Then numbers that enter a tile are at least 2^-560, since A and B are one transition away
from F or D. What follows from them in a step, which takes a transition and an emission product, is at least 2^-1020, a
normal number, which is recorded as below 2^-400: nothing is lost without a record.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import OneAxis
from mercer._rescue import rescued
from mercer.data.ragged import offsets_of

SMALLEST = 2.0**-60
"""Smallest positive transition of a profile that is computed in floats."""
SMALLEST_EMISSION = 2.0**-200
"""Smallest positive emission of such a profile."""
LOWEST = 2.0**-400
"""Smallest positive number of a sound result, relative to the largest that enters its tile."""
TILE_CELLS = 1e7
"""Number of node pairs of a tile of a Gram matrix: some tens of milliseconds."""
INSERT, LOOP, ENTER, LEAVE = 5, 6, 7, 8


class Nodes(NamedTuple):
    """All nodes of N profiles, each with one node for the begin and one for the end."""

    emission: Floats
    """Of the match and insert states, ``(T, 2, A + 1)``; the last symbol is that of begin and end."""
    transition: Floats
    """mm, im, dm, md, dd into every node, mi, ii at it, and the weights to enter and to leave, ``(T, 9)``."""
    offsets: Indices
    """Profile n has the nodes ``offsets[n]`` to ``offsets[n + 1] - 1``."""

    @classmethod
    def of(cls, match: Floats, insert: Floats, transitions: Floats, sizes: Any) -> Self:
        """Arrange the arrays of HMMER: see `ProfileOperand.of`."""
        sizes = np.asarray(sizes, dtype=np.int64)
        offsets = offsets_of(sizes + 2)
        first, last = offsets[:-1], offsets[1:] - 1
        inner, begins = np.ones(offsets[-1], dtype=bool), np.ones(offsets[-1], dtype=bool)
        inner[first] = inner[last] = begins[last] = False
        emission = np.zeros((offsets[-1], 2, np.shape(match)[1] + 1))
        emission[inner, 0, :-1] = match
        emission[begins, 1, :-1] = insert
        emission[first, 0, -1] = emission[last, 0, -1] = 1.0
        m_m, m_i, m_d, i_m, i_i, d_m, d_d = np.asarray(transitions, dtype=np.float64).T
        transition = np.zeros((offsets[-1], 9))
        transition[begins, INSERT] = m_i
        transition[begins, LOOP] = np.where(m_i > 0, i_i, 0.0)  # no path enters it: no loop
        transition[np.flatnonzero(begins) + 1, :5] = np.stack([m_m, i_m, d_m, m_d, d_d], axis=1)
        transition[first + 1, 2] = transition[first + 1, 4] = 0.0  # the begin has no delete state
        transition[last, 3:5] = 0.0  # nor has the end
        transition[first, ENTER] = transition[last, LEAVE] = 1.0
        return cls(emission, transition, offsets)

    def power(self, rho: float) -> Self:
        """Return powers of all numbers."""
        return self if rho == 1 else type(self)(self.emission**rho, self.transition**rho, self.offsets)

    def ranged_power(self, rho: float) -> Self:
        """Return powers of all numbers with the exponents of `mercer.compiled.ranged`, in a last axis of two."""
        from mercer.compiled.pairs_numbers import ZERO_EXPONENT
        from mercer.compiled.ranged import LOG_RADIX

        def numbers(x: Floats) -> Floats:
            logs = rho * np.log(x, where=x > 0, out=np.zeros(x.shape))
            k = np.rint(logs / LOG_RADIX)
            v = np.where(k == 0, x**rho, np.exp(logs - k * LOG_RADIX))
            return np.stack([v, np.where(x > 0, k, ZERO_EXPONENT)], axis=-1)

        return type(self)(numbers(self.emission), numbers(self.transition), self.offsets)

    def taken(self, members: Indices) -> Self:
        """Return some of the profiles."""
        sizes = np.diff(self.offsets)[members]
        offsets = offsets_of(sizes)
        places = np.repeat(self.offsets[members] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return type(self)(self.emission[places], self.transition[places], offsets)

    def within(self, powers: Self) -> Any:
        """Return whether the powers of each profile are in the range of the proof above, ``(N,)``."""
        tiny = ((powers.emission < SMALLEST_EMISSION) & (self.emission > 0)).any(axis=(1, 2))
        tiny |= ((powers.transition < SMALLEST) & (self.transition > 0)).any(axis=1)
        return ~np.logical_or.reduceat(tiny, self.offsets[:-1]) if len(self.offsets) > 1 else np.ones(0, dtype=bool)


class ProfileOperand(OneAxis):
    """Profiles as operands of the Gram engine.

    Parameters
    ----------
    nodes, powers : Nodes
        All profiles, and the powers of their numbers.
    normal : ndarray of bool of shape (N,)
        Which of them the scaled lanes compute.
    members : ndarray of int
        The profiles of this operand.
    rho : float
        Power of all probabilities.
    """

    def __init__(self, nodes: Nodes, powers: Nodes, normal: Any, members: Indices, rho: float) -> None:
        self.nodes = nodes
        self.powers = powers
        self.normal = normal
        self.members = members
        self.rho = rho
        self.sizes = np.diff(nodes.offsets)[members]

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
        nodes = Nodes.of(match, insert, transitions, sizes)
        powers = nodes.power(rho)
        return cls(nodes, powers, nodes.within(powers), np.arange(len(nodes.offsets) - 1), float(rho))

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
        return len(self.members)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.nodes, self.powers, self.normal, self.members[key], self.rho)

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``: -inf if no string is common, inf if insertions repeat forever."""
        from mercer.compiled.profile_product import lane_products

        value, exponent, lowest = lane_products(self.powers.taken(self.members), other.powers.taken(other.members))
        normal = self.normal[self.members][:, None] & other.normal[other.members]
        sound = np.isfinite(value) & (lowest >= LOWEST) & normal
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(value)
        logs += math.log(2) * exponent
        return rescued(logs, sound, lambda rows, columns: self.ranged(other, rows, columns))

    def alone(self) -> Floats:
        """Log kernel of every profile with itself, ``(N,)``, by small squares of profiles of similar size."""
        from mercer.compiled.profile_product import LANES

        out, order = np.empty(len(self)), self.order
        for begin in range(0, len(self), LANES):
            some = self[order[begin : begin + LANES]]
            out[order[begin : begin + LANES]] = np.diag(some.pair(some))
        return out

    def ranged(self, other: Self, rows: Any, columns: Any) -> Floats:
        """Log kernels of the pairs (rows[p], columns[p]) in numbers of unlimited range."""
        from mercer.compiled.profile_product import lane_products
        from mercer.compiled.ranged import LOG_RADIX

        out = np.empty(len(rows))
        for row in np.unique(rows):
            here = rows == row
            sides = self[[row]], other[columns[here]]
            left, right = (side.nodes.taken(side.members).ranged_power(side.rho) for side in sides)
            value, exponent, _ = lane_products(left, right, ranged=True)
            with np.errstate(divide="ignore"):
                out[here] = np.log(value[0]) + LOG_RADIX * exponent[0]
        return np.where(np.isnan(out), np.inf, out)  # infinity times zero, after a sum that diverges


def log_products(profiles: ProfileOperand, others: ProfileOperand | None = None) -> Floats:
    """Compute the log kernels of all pairs of two sets of profiles, or of one, ``(I, J)``."""
    return profiles.pair(profiles if others is None else others)
