"""Random choices among objects that depend on a seed and on the objects, never on their order."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from mercer._array import Floats, safe_log, to_numpy

BLOCK = 1 << 22
"""Number of kernel values of a block of rows."""
GREEDY_VALUES = 1 << 27
"""Number of entries of the Cholesky factor of the greedy choice; 1 GB."""
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

    def several(self, m: int, weights: Floats) -> Floats:
        """Choose up to ``m`` entries of ``member`` without replacement, with probabilities ``weights``."""
        total = np.bincount(self.member, weights)
        order = np.argsort(-(safe_log(total) + self._gumbel(2)), kind="stable")
        return order[: min(m, int(np.count_nonzero(total)))]

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


def by_residual(kernel: Any, source: Any, among: Floats, m: int, draw: Draw) -> tuple[Floats, Floats]:
    """Choose up to ``m`` objects by pivoted Cholesky: each is the one that the chosen ones represent worst.

    Every choice evaluates one column of the kernel matrix. The factor takes m numbers per object, so that only a
    uniform part of ``among`` is considered where there are more than `GREEDY_VALUES` numbers. Equally bad objects are
    chosen by ``draw``.

    Returns
    -------
    indices : array of shape (m,)
        The chosen objects, out of ``among``; fewer than m if they represent all others exactly.
    traces : array of shape (m + 1,)
        Sum of the squared distances of the considered objects from the span of the first 0, 1, ... chosen ones.
    """
    most = max(m, GREEDY_VALUES // m)
    among = among[np.argsort(draw.uniform(0)[among], kind="stable")[:most]]
    evaluation = kernel._evaluation
    prepared = evaluation.prepared(source)[among]
    residual = _self_kernels(evaluation, prepared)
    least = SAME * float(residual.max())
    factor, kinds, chance = np.empty((m, len(among))), draw.member[among], draw.uniform(1)[among]
    indices: list[int] = []
    traces = [float(residual.sum())]
    while len(indices) < m and residual.max() > least:
        worst = np.flatnonzero(residual >= residual.max() * (1 - SAME))
        at, t = int(worst[np.argmax(chance[worst])]), len(indices)
        column = np.asarray(to_numpy(evaluation.matrix(prepared, prepared[np.array([at])])), dtype=float)[:, 0]
        factor[t] = (column - factor[:t, at] @ factor[:t]) / np.sqrt(residual[at])
        residual = np.maximum(residual - factor[t] ** 2, 0.0)
        residual[kinds == kinds[at]] = 0.0
        indices.append(int(among[at]))
        traces.append(float(residual.sum()))
    return np.array(indices, dtype=int), np.array(traces)


def by_leverage(kernel: Any, source: Any, among: Floats, m: int, draw: Draw) -> Floats:
    """Choose up to ``m`` objects with probabilities proportional to their ridge leverage scores.

    The scores are those of `leverage_scores`, with m objects that are chosen uniformly as the sample.
    """
    evaluation = kernel._evaluation
    prepared = evaluation.prepared(source)[among]
    sample = draw.different(among, m)
    weights = np.zeros(len(draw.member))
    weights[among] = leverage_scores(evaluation, prepared, sample, max(1, m // 8))
    chosen = draw.several(m, weights)
    kinds = draw.member[among]
    first = {int(kind): int(at) for kind, at in zip(kinds[::-1], among[::-1], strict=True)}
    return np.array([first[int(kind)] for kind in chosen])


def leverage_scores(evaluation: Any, prepared: Any, sample: Floats, rank: int) -> Floats:
    r"""Estimate the ridge leverage scores :math:`(K (K + \lambda)^{-1})_{ii}` from a sample of s objects.

    The score is :math:`r_i / (r_i + \lambda)`, where :math:`r_i = k_{ii} - k_{iS} (K_{SS} + \lambda s/N)^{-1} k_{Si}`
    is what the other objects of the sample, each of which stands for N/s objects, do not represent (one level of the
    recursive scheme of Musco and Musco 2017). :math:`\lambda` is the sum of the eigenvalues of K after the first
    ``rank``, divided by ``rank``; those of K are estimated by N/s times those of the sample. Exact if all objects are
    in the sample. The rows are computed in blocks.

    Returns
    -------
    array of shape (N,)
    """
    n, part = len(prepared), prepared[sample]
    values, vectors = np.linalg.eigh(np.asarray(to_numpy(evaluation.matrix(part, None)), dtype=float))
    values = np.maximum(values, 0.0)
    own = max(float(values[: len(values) - rank].sum()) / rank, SAME * float(values[-1]))
    ridge = own * n / len(sample)
    root = vectors / np.sqrt(values + own)
    left = _self_kernels(evaluation, prepared)
    step = max(1, BLOCK // len(sample))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        columns = np.asarray(to_numpy(evaluation.matrix(prepared[rows], part)), dtype=float)
        left[rows] -= np.sum((columns @ root) ** 2, axis=1)
    left[sample] = 1 / np.sum(root**2, axis=1) - own  # without the object itself, by the inverse of the matrix
    left = np.maximum(left, SAME * ridge)
    return np.asarray(left / (left + ridge))


def _self_kernels(evaluation: Any, prepared: Any) -> Floats:
    return np.array(to_numpy(evaluation.exp(evaluation.diagonal(prepared))), dtype=float)
