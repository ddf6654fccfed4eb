"""Assignments and permutations of objects that are exchangeable under the null hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import comb, factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import Floats
from mercer._notices import notify
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
        """Kind of the exchanged units: "objects", "groups" or "objects within groups"."""
        if self.units.max() + 1 == len(self.units):
            return "objects"
        return "objects within groups" if self.crossed else "groups"

    @property
    def exchangeable(self) -> Design:
        """The design of the statistic: within groups, pairs of one group tell most, and permutations allow them."""
        return Design(self.first, np.arange(len(self.units))) if self.crossed else self

    @property
    def smaller(self) -> int:
        """Number of units of the smaller sample."""
        items = self._items()
        return min(len(np.unique(items[side])) for side in (self.first, ~self.first))

    def observed(self) -> Floats:
        """Return the assignment of both samples, 1 for objects of the first."""
        return self.first.astype(float)

    def weights(self) -> Floats:
        """Return the weight of every object in the difference of the means of both samples."""
        return np.where(self.first, 1 / self.first.sum(), -1 / (~self.first).sum())

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
        return [(block, first[block]) for block in members(self.units)]

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
            out[block] = _shuffled(first, size, rng)
        return out[self._items()]


@dataclass(frozen=True)
class Orders:
    """Permutations of objects within blocks.

    Parameters
    ----------
    blocks : list of ndarray of int
        The objects of every block; together all N.
    """

    blocks: list[Indices]

    def count(self) -> int:
        """Return the number of different permutations."""
        return prod(factorial(len(block)) for block in self.blocks)

    def every(self) -> Indices:
        """Return all permutations, ``(count, N)``."""
        out = np.empty((self.count(), sum(map(len, self.blocks))), dtype=np.int64)
        for row, choice in enumerate(product(*(permutations(block.tolist()) for block in self.blocks))):
            for block, order in zip(self.blocks, choice, strict=True):
                out[row, block] = order
        return out

    def drawn(self, size: int, rng: np.random.Generator) -> Indices:
        """Return random permutations, ``(size, N)``."""
        out = np.empty((size, sum(map(len, self.blocks))), dtype=np.int64)
        for block in self.blocks:
            out[:, block] = _shuffled(block, size, rng).T
        return out


@dataclass(frozen=True)
class Signs:
    """Signs of independent errors of mean zero: all combinations are as likely, if errors are symmetric.

    Parameters
    ----------
    size : int
        Number of objects.
    """

    size: int

    def count(self) -> int:
        """Return the number of combinations that differ in more than the sign of all."""
        return 2 ** (self.size - 1)

    def every(self) -> Floats:
        """Return all combinations, ``(count, N)``."""
        return np.array([(1.0, *signs) for signs in product((1.0, -1.0), repeat=self.size - 1)])

    def drawn(self, size: int, rng: np.random.Generator) -> Floats:
        """Return random signs, ``(size, N)``."""
        return rng.choice([-1.0, 1.0], size=(size, self.size))


def all_or_drawn(
    orders: Any, n_permutations: int, rng: np.random.Generator, *, few: float, permuted: str, cure: str
) -> tuple[NDArray[Any], bool]:
    """Return all permutations, or ``n_permutations`` random ones if there are more, and whether these are all.

    With fewer than ``few``, a test cannot reject: a warning says so, with ``cure``.
    """
    count = orders.count()
    if count < few:
        notify(
            f"There are only {count} permutations of {permuted}, so the smallest possible p-value is {1 / count:.2g}. "
            f"{cure}"
        )
    exact = count <= n_permutations
    return orders.every() if exact else orders.drawn(n_permutations, rng), exact


def members(units: Indices) -> list[Indices]:
    """Return the objects of every group."""
    return [np.flatnonzero(units == u) for u in range(units.max() + 1)]


def _shuffled(values: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return values in random orders, one per column, ``(n, size)``."""
    return rng.permuted(np.repeat(values[:, None], size, axis=1), axis=0)
