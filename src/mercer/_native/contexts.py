"""Markov chains of higher order: their products, and sums over uncertain symbols, by native/contexts.hpp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call

STEPS = 1e9
"""Multiplications of one call: longer sweeps are computed in parts, so that they can be interrupted."""
NODES = 1 << 22
"""Contexts of all times of the sequences of one call."""


def context_products(left: tuple[Floats, ...], right: tuple[Floats, ...], steps: Indices) -> Floats:
    """Compute the log kernels of every pair of powered chains (PPK-4.2a).

    Parameters
    ----------
    left, right : tuples of ndarrays
        Weights of the first contexts ``(N, C)``, of symbols after contexts ``(N, C, k)``, and of contexts at the end
        ``(N, C)``.
    steps : ndarray of int of shape (H,)
        Numbers of steps after the first context, ascending.

    Returns
    -------
    ndarray of shape (H, I, J)
    """
    value = np.empty((len(steps), len(left[0]), len(right[0])))
    if not value.size:
        return value
    at_once = max(1, int(STEPS / ((steps[-1] + 1) * max(8, len(right[0])) * left[1][0].size)))
    for begin in range(0, len(left[0]), at_once):
        rows = slice(begin, begin + at_once)
        part = np.empty((len(steps), len(left[0][rows]), len(right[0])))
        call("context_products", left=tuple(x[rows] for x in left), right=right, steps=steps, log_value=part)
        value[:, rows] = part
    return value


class Chain(NamedTuple):
    """A chain for sums over readings."""

    initial: Floats
    """Distribution of the first ``order`` symbols, followed by that of shorter sequences if there is an end state."""
    slots: Indices
    """Row of every context, ``(C,)``."""
    rows: Floats
    """Probabilities of the symbols, and of the end, ``(R, w)``."""
    order: int
    end: bool


def log_probabilities(chain: Chain, codes: Indices, offsets: Indices, members: Any) -> Floats:
    """Log probabilities of sequences with uncertain symbols, ``(M,)``; ``members (codes, k)`` are their readings."""
    value = np.empty(len(offsets) - 1)
    unused = dict.fromkeys(("owner", "window", "number"))
    for begin, end in _parts(np.diff(offsets) + 1):
        _readings(
            chain, codes, offsets[begin : end + 1], members, 2 * len(chain.slots), log_prob=value[begin:end], **unused
        )
    return value


def expected_windows(chain: Chain, codes: Indices, offsets: Indices, members: Any) -> tuple[Indices, Indices, Floats]:
    """Compute the expected numbers of windows (context, symbol) in sequences with uncertain symbols.

    Returns the sequence, the window ``context * w + symbol`` and the expected number of every edge between two layers
    of contexts; windows may occur twice. Impossible sequences have no windows.
    """
    readings = np.asarray(members).sum(axis=1)[codes]
    position = np.arange(len(codes)) - np.repeat(offsets[:-1], np.diff(offsets))

    def earlier(x: Indices, back: int) -> Indices:
        return np.where(position >= back, np.concatenate([x[:back], x[: len(x) - min(back, len(x))]]), 1)

    contexts = np.ones(len(codes), np.int64)  # at most as many as readings of the last symbols
    for back in range(chain.order):
        contexts *= earlier(readings, back)
    sums, windows = (np.concatenate([[0], np.cumsum(x)]) for x in (contexts, earlier(contexts, 1) * readings))
    nodes = np.diff(sums[offsets]) + 1  # and the context before all symbols of order 0
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for begin, end in _parts(nodes):
        size = windows[offsets[end]] - windows[offsets[begin]] + contexts.max(initial=1) * (end - begin)  # and ends
        owner, window, number = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        count = _readings(
            chain, codes, offsets[begin : end + 1], members, nodes[begin:end].max(), log_prob=None, owner=owner,
            window=window, number=number,
        )  # fmt: skip
        found.append((owner[:count] + begin, window[:count], number[:count]))
    owners, places, numbers = zip(*found, strict=True)
    return np.concatenate(owners), np.concatenate(places), np.concatenate(numbers)


def _readings(chain: Chain, codes: Indices, offsets: Indices, members: Any, nodes: int, **found: Any) -> int:
    """Call the recursion for some neighbors among the sequences."""
    own = {"codes": codes[offsets[0] : offsets[-1]], "offsets": offsets - offsets[0], "members": members}
    return call("readings", **chain._asdict(), **own, nodes=nodes, **found)


def _parts(sizes: Indices) -> Iterator[tuple[int, int]]:
    """Yield the first and last of neighbors whose sizes have a sum of about `NODES`."""
    ends = np.unique(np.searchsorted(np.cumsum(sizes), np.arange(NODES, sizes.sum(), NODES), side="right"))
    return ((begin, end) for begin, end in zip([0, *ends], [*ends, len(sizes)], strict=True) if begin < end)
