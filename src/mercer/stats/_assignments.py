"""Assignments of objects to two samples that are equally probable if both have one distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import comb, prod

import numpy as np

from mercer._array import Floats
from mercer.stats._input import Indices


@dataclass(frozen=True)
class Design:
    """Which assignments of objects to the first sample are exchangeable.

    Parameters
    ----------
    first : ndarray of bool, shape (N,)
        Whether an object is in the first sample.
    units : ndarray of int, shape (N,)
        The group of every object.
    """

    first: Floats
    units: Indices

    @property
    def crossed(self) -> bool:
        """Whether a group has objects in both samples: then only objects of one group are exchanged."""
        mixed = np.unique(np.column_stack([self.units, self.first]), axis=0)
        return len(mixed) > self.units.max() + 1

    @property
    def permuted(self) -> str:
        """What is exchanged: "objects", "groups" or "objects within groups"."""
        if self.units.max() + 1 == len(self.units):
            return "objects"
        return "objects within groups" if self.crossed else "groups"

    def _items(self) -> Indices:
        """Return the item of every object: what is exchanged as a whole, a group or one object."""
        return np.arange(len(self.units)) if self.crossed else self.units

    def _blocks(self) -> list[tuple[Indices, Floats]]:
        """Return the items of each block of exchangeable ones, with 1 for those of the first sample."""
        items = self._items()
        first = np.zeros(items.max() + 1)
        first[items] = self.first
        if not self.crossed:
            return [(np.arange(len(first)), first)]
        inside = [np.flatnonzero(self.units == u) for u in range(self.units.max() + 1)]
        return [(block, first[block]) for block in inside]

    def count(self) -> int:
        """Return the number of different assignments."""
        return prod(comb(len(block), int(first.sum())) for block, first in self._blocks())

    def every(self) -> Floats:
        """Return all assignments, ``(N, count)``, with 1 for objects of the first sample."""
        blocks = self._blocks()
        choices = product(*(combinations(block.tolist(), int(first.sum())) for block, first in blocks))
        out = np.zeros((self._items().max() + 1, self.count()))
        for column, choice in enumerate(choices):
            out[[item for items in choice for item in items], column] = 1.0
        return out[self._items()]

    def drawn(self, size: int, rng: np.random.Generator) -> Floats:
        """Return random assignments, ``(N, size)``."""
        out = np.zeros((self._items().max() + 1, size))
        for block, first in self._blocks():
            out[block] = rng.permuted(np.repeat(first[:, None], size, axis=1), axis=0)
        return out[self._items()]
