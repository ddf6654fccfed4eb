"""Profiles configured for sequences: local or whole, once or several times, in sequences of some length."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats

MODES = ("local", "glocal", "unilocal", "uniglocal")
"""HMMER's names: "glocal" aligns the whole profile, "uni" once per sequence."""


class SearchProfile(NamedTuple):
    """One profile in one mode; arrays over nodes have places for node 0 and node M + 1."""

    odds: Floats
    """Odds of every code in every match state against the background, ``(codes, M + 2)``."""
    insert_odds: Floats
    """The same of insert states; 0 for node M, which has none."""
    transitions: Floats
    """``(7, M + 2)``, in HMMER's order; 0 at nodes 0 and M."""
    entry: Floats
    """Probability to enter at every node, ``(M + 2,)``."""
    leave: Floats
    """Weight of the exit from every node, ``(M + 2,)``."""
    again: float
    """Probability of one more hit."""
    log_background: Floats
    """Log background probability of every code."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes, M."""
        return len(self.entry) - 2

    def flanks(self, length: float) -> Floats:
        """Return the probabilities to stay in and to leave a flank, of one more hit and of no more."""
        move = leaving(self.again, length)
        return np.array([1.0 - move, move, self.again, 1.0 - self.again])


def more_hits(mode: str) -> float:
    """Return the probability of one more hit."""
    return 0.0 if mode.startswith("uni") else 0.5


def leaving(again: float, length: float) -> float:
    """Return the probability to leave a flank at each symbol, such that all flanks have ``length`` symbols on average.

    There are ``2 + again / (1 - again)`` flanks on average, and ``again`` is 0 or 1/2.
    """
    return (2 + 2 * again) / (length + 2 + 2 * again)


def occupancy(transitions: Floats) -> Floats:
    """Return the probability that a path through the profile uses the match state of every node, ``(M,)``."""
    m = len(transitions) - 1
    out = np.empty(m)
    out[0] = transitions[0, 0] + transitions[0, 1]
    for k in range(1, m):
        stay = transitions[k, 0] + transitions[k, 1]
        out[k] = out[k - 1] * stay + (1.0 - out[k - 1]) * transitions[k, 5]
    return out


def entries(transitions: Floats, mode: str) -> Floats:
    """Return the probabilities to enter the profile at every match state, ``(M,)``.

    Local: in proportion to `occupancy`, such that every end is equally probable. Whole: through the delete states
    before the node.
    """
    m = len(transitions) - 1
    if mode.endswith("glocal"):
        out = np.empty(m)
        out[0] = 1.0 - transitions[0, 2]
        skipped = transitions[0, 2] * np.cumprod(np.append(1.0, transitions[1 : m - 1, 6]))[: m - 1]
        out[1:] = skipped * transitions[1:m, 5]
        return out
    used = occupancy(transitions)
    return np.asarray(used / np.sum(used * np.arange(m, 0, -1)))


def entry_gradient(transitions: Floats, mode: str, counts: Floats) -> Floats:
    """Return t d/dt of the log probability of entries with expected ``counts (N, M)``, ``(N, M + 1, 7)``."""
    n, m = counts.shape
    out = np.zeros((n, m + 1, 7))
    if mode.endswith("glocal"):
        later = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # entries at node k or later
        begin = transitions[0, 2]
        # The entry at node 1 has probability 1 - t[0, m->d], which stands for both other transitions of node 0.
        out[:, 0, :2] = counts[:, :1] * transitions[0, :2] / max(1.0 - begin, np.finfo(float).tiny)
        if m > 1:
            out[:, 0, 2] = later[:, 1]
            out[:, 1:m, 5] = counts[:, 1:]
            out[:, 1 : m - 1, 6] = later[:, 2:]
        return out
    used, ends = occupancy(transitions), np.arange(m, 0, -1.0)
    share = used * ends / np.sum(used * ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        adjoint = np.where(used > 0, (counts - counts.sum(axis=1, keepdims=True) * share) / used, 0.0)
    for k in range(m - 1, 0, -1):
        stay = transitions[k, 0] + transitions[k, 1]
        out[:, k, :2] = adjoint[:, k, None] * used[k - 1] * transitions[k, :2]
        out[:, k, 5] = adjoint[:, k] * (1.0 - used[k - 1]) * transitions[k, 5]
        adjoint[:, k - 1] += adjoint[:, k] * (stay - transitions[k, 5])
    out[:, 0, :2] = adjoint[:, :1] * transitions[0, :2]
    return out


def search_profile(models: Any, i: int) -> SearchProfile:
    """Configure member ``i`` of a batch."""
    match, insert, transitions = models.nodes(i)
    sets, background = models.alphabet.membership, models.background.reshape(-1, models.dimension)[i]
    base, m = sets @ background, len(match)
    odds, insert_odds = np.zeros((len(sets), m + 2)), np.zeros((len(sets), m + 2))
    odds[:, 1 : m + 1] = (match @ sets.T / base).T
    insert_odds[:, 1:m] = 1.0 if models.insertion == "background" else (insert[1:m] @ sets.T / base).T
    steps = np.zeros((7, m + 2))
    steps[:, 1:m] = transitions[1:m].T
    entry, leave = np.zeros(m + 2), np.zeros(m + 2)
    entry[1 : m + 1] = entries(transitions, models.mode)
    leave[m if models.mode.endswith("glocal") else 1 : m + 1] = 1.0
    return SearchProfile(odds, insert_odds, steps, entry, leave, more_hits(models.mode), np.log(base))
