"""Points with missing coordinates under full covariances: those that lack the same coordinates are computed together.

Groups are computed all at once, as stacks of matrices of the full size, so that the time does not depend on how many
patterns of missing coordinates there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask

NUMBERS = 2**20
"""Entries of the matrices that are computed at once."""
SINGULAR = 1e-13
"""Eigenvalues of a correlation matrix, relative to the largest one, that count as zero."""


class Gaps(NamedTuple):
    """Groups of points of one model that lack the same coordinates; points without any coordinate are left out."""

    rows: Indices
    """The points, those of a group one after the other."""
    offsets: Indices
    """Group g has the points ``rows[offsets[g]:offsets[g + 1]]``."""
    owner: Indices
    """Model of each group, ``(G,)``, ascending."""
    seen: Mask
    """Which coordinates the points of each group have, ``(G, d)``."""

    @property
    def both(self) -> Mask:
        """Which pairs of coordinates are seen, ``(G, 1, d, d)``."""
        return np.asarray(self.seen[:, None, :, None] & self.seen[:, None, None, :])

    @property
    def group(self) -> Indices:
        """Group of each point."""
        return np.repeat(np.arange(len(self.owner)), np.diff(self.offsets))

    def blocks(self, n: int) -> Iterator[Gaps]:
        """Yield some groups at a time, so that matrices of n states of each fit into memory."""
        step = max(1, NUMBERS // (n * self.seen.shape[1] ** 2))
        for begin in range(0, len(self.owner), step):
            offsets = self.offsets[begin : begin + step + 1]
            rows, which = self.rows[offsets[0] : offsets[-1]], slice(begin, begin + step)
            yield Gaps(rows, offsets - offsets[0], self.owner[which], self.seen[which])

    def covariances(self, covariance: Floats) -> Floats:
        """Covariances ``(N, n, d, d)`` of what each group has seen, the identity elsewhere: ``(G, n, d, d)``."""
        return np.where(self.both, covariance[self.owner], np.eye(covariance.shape[-1]))

    def precisions(self, covariance: Floats) -> Floats:
        """Inverses of the covariances of what each group has seen, zero elsewhere; pseudo-inverses of singular ones."""
        found = self.covariances(covariance)
        sd = np.sqrt(np.diagonal(found, axis1=-2, axis2=-1))
        sd = np.where(sd > 0, sd, 1.0)
        scale = sd[..., :, None] * sd[..., None, :]
        return np.where(self.both, np.linalg.pinv(found / scale, rcond=SINGULAR, hermitian=True) / scale, 0.0)


def gaps_of(x: Floats, owner: Indices) -> Gaps:
    """Group the points ``(T, d)`` that have some of their coordinates (not NaN), by model and by what they lack."""
    missing = np.isnan(x)
    rows = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    keys = np.column_stack([owner[rows], np.packbits(missing[rows], axis=1)])
    order = np.lexsort(keys.T[::-1])
    rows, keys = rows[order], keys[order]
    first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(rows)])
    return Gaps(rows, np.append(first, len(rows)), owner[rows[first]], ~missing[rows[first]])


def patterns(x: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Yield the points that have the same coordinates, ascending, and these; points without any are left out."""
    found = gaps_of(x, np.zeros(len(x), dtype=int))
    whole = np.flatnonzero(~np.isnan(x).any(axis=1))
    if len(whole):
        yield whole, np.arange(x.shape[1])
    for k, seen in enumerate(found.seen):
        yield found.rows[found.offsets[k] : found.offsets[k + 1]], np.flatnonzero(seen)
