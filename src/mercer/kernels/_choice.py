"""Random choices among objects that depend on a seed and on the objects, never on their order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from mercer._array import Floats, safe_log, to_numpy

SAME = 1e-12
"""Squared distances below this fraction of the largest self-kernel are rounding errors: the objects are equal."""


class Draw:
    """Random numbers per object: number ``t`` of an object depends on the seed, its digest and t only.

    Parameters
    ----------
    seed : int
        Below 2^64.
    digests : list of bytes
        One per object; equal objects have equal digests.
    """

    def __init__(self, seed: int, digests: list[bytes]) -> None:
        key = seed.to_bytes(8, "little")
        found = [int.from_bytes(blake2b(d, key=key, digest_size=8).digest(), "little") for d in digests]
        self._state = np.array(found, dtype=np.uint64)
        _, self._first, self.member = np.unique(self._state, return_index=True, return_inverse=True)
        self.n_kinds = len(self._first)

    def uniform(self, t: Any) -> Floats:
        """Return number ``t`` of every object, in (0, 1); ``t`` may be an array with one value per object."""
        with np.errstate(over="ignore"):  # splitmix64 (Steele, Lea and Flood 2014), modulo 2^64
            z = self._state + np.asarray(t + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54

    def all_but(self, m: int) -> Floats:
        """Return the objects in random order, without one object from each of ``m`` groups of equal objects.

        The omitted objects are the last of their groups in the random order, and their groups come as late as possible.
        So the first entries are a random choice among all objects, as long as ``m`` different objects remain.
        """
        by_kind = np.argsort(self.member, kind="stable")
        count = np.bincount(self.member)
        rank = np.empty(len(by_kind), dtype=np.int64)  # rank of an object among equal ones
        rank[by_kind] = np.arange(len(by_kind)) - np.repeat(np.cumsum(count) - count, count)
        order = np.argsort(self.uniform(-rank), kind="stable")
        last = np.zeros(self.n_kinds, dtype=np.int64)
        np.maximum.at(last, self.member[order], np.arange(len(order)))
        return np.delete(order, np.sort(last)[self.n_kinds - m :])

    def different(self, among: Floats, m: int) -> Floats:
        """Choose up to ``m`` different objects of ``among``, uniformly; returns positions in ``among``."""
        _, first = np.unique(self.member[among], return_index=True)
        return np.asarray(first[np.argsort(self.uniform(1)[among][first], kind="stable")][:m])

    def _gumbel(self, t: int) -> Floats:
        """Return a Gumbel variable per group of equal objects."""
        return np.asarray(-np.log(-np.log(self.uniform(t)[self._first])))

    def one(self, t: int, weights: Floats) -> int:
        """Choose an entry of ``member`` (one value per group of equal objects), with probabilities ``weights``.

        The argmax of log w + G, with Gumbel variables G, is a draw with probabilities proportional to w (the Gumbel-max
        trick), and does not depend on the order of the objects.
        """
        total = np.bincount(self.member, weights)
        return int(np.argmax(safe_log(total) + self._gumbel(t + 2)))


def far_apart(kernel: Any, source: Any, among: Floats, m: int, draw: Draw) -> Floats:
    """Choose up to ``m`` objects by k-means++ in the feature space of a fitted kernel (KK-4).

    Every choice evaluates one column of the kernel matrix: all objects of ``source`` with the chosen one.

    Returns
    -------
    array of shape (m,)
        The chosen objects, out of ``among``; fewer than m if all others are equal to a chosen one.
    """
    evaluation, log = kernel._evaluation, kernel.domain == "log"
    prepared = evaluation.prepared(source)
    own = to_numpy(evaluation.diagonal(prepared))
    allowed = np.zeros(len(own))
    allowed[among] = 1.0
    weights = allowed
    indices: list[int] = []
    scale = float(np.max(to_numpy(evaluation.exp(own))))
    nearest = np.full(len(own), np.inf)
    while len(indices) < m and weights.any():
        same = draw.member == draw.one(len(indices), weights)
        at = int(np.flatnonzero(same & (allowed > 0))[0])
        column = to_numpy(evaluation.matrix(prepared, prepared[np.array([at])], log=log))
        squared = to_numpy(evaluation.squared_distances(column, own, own[[at]]))[:, 0]
        nearest = np.minimum(nearest, squared)
        nearest[same] = 0.0
        weights = np.where(nearest > SAME * scale, nearest, 0.0) * allowed
        indices.append(at)
    return np.array(indices)
