r"""Profile HMMs as operands of `ProbabilityProduct` (PPK-4.2d).

Powers are taken of the joint probability of symbols and states (PPK-4.0): of every emission and transition. A profile
ends by itself, so that the kernel sums over strings of all lengths.

Soundness of the plain lanes of native/profile_product.hpp. Positive transitions are at least 2^-60 and positive
emissions at least 2^-200, so that emission products are at least 2^-400. A result is sound if no positive F, D or E is
stored below 2^-400 and no factor between tiles is below 2^-100. Then numbers that enter a tile are at least 2^-560,
since A and B are one transition away from F or D. What follows from them in a step, which takes a transition and an
emission product, is at least 2^-1020, a normal number, which is recorded as below 2^-400: nothing is lost without a
record.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import FieldOperand
from mercer._immutable import cached_property
from mercer._native.profiles import ProfileNodes, profile_products
from mercer.data.ragged import offsets_of

SMALLEST, SMALLEST_EMISSION = 2.0**-60, 2.0**-200
"""Smallest positive transition and emission of a profile that is computed in plain lanes."""
TILE_CELLS = 1e7
"""Number of node pairs of a tile of a Gram matrix: some tens of milliseconds."""


@dataclass(eq=False)
class ProfileOperand(FieldOperand):
    """Profiles as operands of the Gram engine.

    Parameters
    ----------
    nodes : ProfileNodes
        All profiles, and the powers of their numbers.
    members : ndarray of int
        The profiles of this operand.
    rho : float
        Power of all probabilities.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("nodes", "rho")

    nodes: ProfileNodes
    members: Indices
    rho: float

    @cached_property
    def sizes(self) -> Indices:
        """Number of nodes of each profile."""
        return np.diff(self.nodes.offsets)[self.members]

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
        offsets = offsets_of(sizes + 2)
        first, last = offsets[:-1], offsets[1:] - 1
        inner, begins = np.ones(offsets[-1], dtype=bool), np.ones(offsets[-1], dtype=bool)
        inner[first] = inner[last] = begins[last] = False
        letters = np.shape(match)[1]
        nodes = np.zeros((offsets[-1], 2 * (letters + 1) + 7))
        nodes[inner, :letters] = match
        nodes[first, letters] = nodes[last, letters] = 1.0  # begin and end have a symbol of their own
        nodes[begins, letters + 1 : 2 * letters + 1] = insert
        m_m, m_i, m_d, i_m, i_i, d_m, d_d = np.asarray(transitions, dtype=np.float64).T
        into, at = nodes[:, -7:-2], nodes[:, -2:]
        at[begins] = np.stack([m_i, np.where(m_i > 0, i_i, 0.0)], axis=1)  # no path enters it: no loop
        into[np.flatnonzero(begins) + 1] = np.stack([m_m, i_m, d_m, m_d, d_d], axis=1)
        into[first + 1, 2] = into[first + 1, 4] = 0.0  # the begin has no delete state
        into[last, 3:] = 0.0  # nor has the end
        into[first, 0] = 1.0
        powers = nodes if rho == 1 else nodes**rho
        tiny = (nodes > 0) & (powers < np.repeat([SMALLEST_EMISSION, SMALLEST], [2 * (letters + 1), 7]))
        emits = powers[:, letters + 1 : -7]
        other = (emits != np.repeat(emits[first], sizes + 2, axis=0)) & begins[:, None]
        plain, alike = (
            np.array([not some[i:j].any() for i, j in itertools.pairwise(offsets)], dtype=np.uint8)
            for some in (tiny, other)
        )
        return cls(ProfileNodes(nodes, powers, offsets, plain, alike), np.arange(len(sizes)), float(rho))

    @property
    def order(self) -> Any:
        """Sort by size, so that the lanes of a vector end at about the same node."""
        return np.argsort(self.sizes, kind="stable")

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile, in whole vectors."""
        side = math.sqrt(TILE_CELLS) / max(1.0, float(self.sizes.mean()) if len(self) else 1.0)
        return int(np.clip(16 * math.ceil(side / 16), 16, 256))

    def pair(self, other: Self, ranged: bool = False) -> Floats:
        """Log kernels of every pair, ``(I, J)``: -inf if no string is common, inf if insertions repeat forever."""
        return profile_products((self.nodes, self.members), (other.nodes, other.members), self.rho, ranged)

    def alone(self) -> Floats:
        """Log kernel of every profile with itself, ``(N,)``, by small squares of profiles of similar size."""
        out = np.empty(len(self))
        for some in np.split(self.order, range(4, len(self), 4)):
            out[some] = np.diag(self[some].pair(self[some]))
        return out
