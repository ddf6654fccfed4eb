"""Random choices among objects that depend on a seed and on the objects, never on their order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from mercer._array import Floats, safe_log, to_numpy

SAME = 1e-12
"""Squared distances below this fraction of the largest self-kernel are rounding: the objects are the same."""


class Draw:
    """Random numbers of objects: number ``t`` of an object comes from the seed, its digest and t.

    Parameters
    ----------
    seed : int
        Below 2^64.
    digests : list of bytes
        One for every object; equal objects have equal ones.
    """

    def __init__(self, seed: int, digests: list[bytes]) -> None:
        key = seed.to_bytes(8, "little")
        found = [int.from_bytes(blake2b(d, key=key, digest_size=8).digest(), "little") for d in digests]
        self._state = np.array(found, dtype=np.uint64)
        _, self._first, self.member = np.unique(self._state, return_index=True, return_inverse=True)
        self.n_kinds = len(self._first)

    def uniform(self, t: Any) -> Floats:
        """Return number ``t`` of every object, above 0 and below 1; or of each its own number ``t``."""
        with np.errstate(over="ignore"):  # splitmix64 (Steele, Lea and Flood 2014), which counts modulo 2^64
            z = self._state + np.asarray(t + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54

    def beside(self, m: int) -> Floats:
        """Return all objects in random order, but for one each of ``m`` kinds; equal objects have places of their own.

        The ones left out come last of their kind, and those kinds as late as can be: a start of what is returned is a
        random choice among all objects, unless it is so long that the others would be of fewer kinds.
        """
        by_kind = np.argsort(self.member, kind="stable")
        count = np.bincount(self.member)
        rank = np.empty(len(by_kind), dtype=np.int64)  # of an object among its equals
        rank[by_kind] = np.arange(len(by_kind)) - np.repeat(np.cumsum(count) - count, count)
        order = np.argsort(self.uniform(-rank), kind="stable")
        last = np.zeros(self.n_kinds, dtype=np.int64)
        np.maximum.at(last, self.member[order], np.arange(len(order)))
        return np.delete(order, np.sort(last)[self.n_kinds - m :])

    def different(self, among: Floats, m: int) -> Floats:
        """Choose up to ``m`` different ones of the objects ``among``, all alike; returns places in ``among``."""
        _, first = np.unique(self.member[among], return_index=True)
        return np.asarray(first[np.argsort(self.uniform(1)[among][first], kind="stable")][:m])

    def one(self, t: int, weights: Floats) -> int:
        """Choose a number of ``member``, one for equal objects, by probabilities proportional to ``weights``.

        The largest of log w + G, with Gumbel numbers G, is a draw by the weights w, and does not depend on the order.
        """
        total = np.bincount(self.member, weights)
        gumbel = -np.log(-np.log(self.uniform(t + 2)[self._first]))
        return int(np.argmax(safe_log(total) + gumbel))


def far_apart(kernel: Any, source: Any, among: Floats, m: int, draw: Draw) -> Floats:
    """Choose up to ``m`` objects as k-means++ does, in the feature space of a fitted kernel (KK-4).

    Every choice evaluates one column of the kernel matrix, of all objects of ``source`` with the chosen one.

    Returns
    -------
    array of shape (m,)
        The chosen ones, of those at the places ``among``; fewer where all the others equal one of them.
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
