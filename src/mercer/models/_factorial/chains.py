"""Forward-backward over the joint states of several chains, one chain after the other (PPK-6.1).

The transitions of a step are applied chain by chain, so that a step over J joint states of C chains of n states costs
C n J multiplications, not J^2. Every chain is applied to the first axis and becomes the last one; after all chains the
axes are in their old order. Small neighboring chains are applied together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log
from mercer._parallel import single_blas

TOGETHER = 16
"""Number of joint states up to which neighboring chains are applied together: one large product beats several small."""
MEMORY = 1 << 23
"""Numbers that the forward pass keeps at once; longer runs are recomputed piece by piece."""


class Evidence(Protocol):
    """Likelihoods of observations under all joint states."""

    kind: Indices
    """Which observations count together, ``(T,)``: those of one symbol, or with the same missing coordinates."""

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""

    def log_density(self, rows: Any) -> Floats:
        """Return log densities of some observations under all joint states, ``(len(rows), J)``."""


class Joint(NamedTuple):
    """Expected statistics of S runs; zero for impossible and empty runs."""

    log_prob: Floats
    """``(S,)``: -inf for impossible runs."""
    first: Floats
    """Posteriors of the first states, ``(S, C, n)``."""
    transitions: Floats
    """Expected numbers of transitions, ``(S, C, n, n)``."""
    states: Floats
    """Posteriors of the states at every observation, ``(T, C, n)``."""
    kinds: Floats
    """Sums of the posteriors of the joint states over the observations of each kind, ``(S or 1, K, J)``."""


class Groups(NamedTuple):
    """Chains that are applied together: transitions of each group, and the numbers of states of its chains."""

    transitions: list[Floats]
    sizes: list[tuple[int, ...]]

    @classmethod
    def of(cls, transitions: Sequence[Floats]) -> Groups:
        """Join neighbors while they have few joint states."""
        found: list[Floats] = []
        sizes: list[tuple[int, ...]] = []
        for step in transitions:
            n = len(step)
            if found and len(found[-1]) * n <= TOGETHER:
                found[-1], sizes[-1] = np.kron(found[-1], step), (*sizes[-1], n)
            else:
                found.append(np.asarray(step, dtype=np.float64))
                sizes.append((n,))
        return cls(found, sizes)


class Linear:
    """Numbers themselves, scaled."""

    enter = staticmethod(np.asarray)
    times = staticmethod(np.multiply)

    @staticmethod
    def evidence(logs: Floats) -> tuple[Floats, Floats]:
        """Return likelihoods divided by the largest, ``(b, J)``, and its logarithm."""
        top = logs.max(axis=-1)
        top = np.where(np.isfinite(top), top, 0.0)
        return np.exp(logs - top[:, None]), top

    @staticmethod
    def scaled(x: Floats) -> tuple[Floats, Floats]:
        """Divide by the sum over the last axis; return its logarithm, -inf where all are zero."""
        total = x.sum(axis=-1)
        return x / np.where(total > 0, total, 1.0)[:, None], safe_log(total)

    @staticmethod
    def ahead(x: Floats, step: Floats) -> Floats:
        """Apply a transition to the first axis, which becomes the last, ``(b, J)``."""
        b, g = len(x), len(step)
        return (x.reshape(b, g, -1).swapaxes(1, 2) @ step).reshape(b, -1)

    @staticmethod
    def back(x: Floats, step: Floats) -> Floats:
        """Apply a transition from the right to the last axis, which becomes the first, ``(b, J)``."""
        b, g = len(x), len(step)
        return (step @ x.reshape(b, -1, g).swapaxes(1, 2)).reshape(b, -1)

    @staticmethod
    def crossed(x: Floats, y: Floats, step: Floats) -> Floats:
        """Return posteriors of the transitions of the first axis of x to the last of y, ``(b, g, g)``."""
        b, g = len(x), len(step)
        found = step * (x.reshape(b, g, -1) @ y.reshape(b, -1, g))
        total = found.sum(axis=(1, 2), keepdims=True)
        return found / np.where(total > 0, total, 1.0)

    @staticmethod
    def posterior(x: Floats, y: Floats) -> tuple[Floats, bool]:
        """Return normalized products, and whether none of them vanishes."""
        found = x * y
        total = found.sum(axis=-1, keepdims=True)
        return found / np.where(total > 0, total, 1.0), bool((total > 0).all())


class Logs:
    """Logarithms, for runs whose numbers underflow."""

    enter = staticmethod(safe_log)
    times = staticmethod(np.add)

    @staticmethod
    def evidence(logs: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms as they are."""
        return logs, np.zeros(len(logs))

    @staticmethod
    def scaled(x: Floats) -> tuple[Floats, Floats]:
        """Subtract the log sum."""
        total = np.asarray(logsumexp(x, axis=-1))
        return x - np.where(np.isfinite(total), total, 0.0)[:, None], total

    @staticmethod
    def ahead(x: Floats, step: Floats) -> Floats:
        """Apply a transition, as `Linear.ahead`."""
        b, g = len(x), len(step)
        rows = x.reshape(b, g, -1)
        return np.stack([logsumexp(rows + step[:, j, None], axis=1) for j in range(g)], axis=-1).reshape(b, -1)

    @staticmethod
    def back(x: Floats, step: Floats) -> Floats:
        """Apply a transition, as `Linear.back`."""
        b, g = len(x), len(step)
        rows = x.reshape(b, -1, g)
        return np.stack([logsumexp(rows + step[i], axis=2) for i in range(g)], axis=1).reshape(b, -1)

    @staticmethod
    def crossed(x: Floats, y: Floats, step: Floats) -> Floats:
        """Return posteriors of transitions, as `Linear.crossed`."""
        b, g = len(x), len(step)
        left, right = x.reshape(b, g, -1), y.reshape(b, -1, g)
        logs = np.stack([logsumexp(left + right[:, None, :, j], axis=2) for j in range(g)], axis=-1) + step
        return np.exp(logs - logsumexp(logs.reshape(b, -1), axis=-1)[:, None, None])

    @staticmethod
    def posterior(x: Floats, y: Floats) -> tuple[Floats, bool]:
        """Return normalized products, as `Linear.posterior`."""
        return np.exp(Logs.scaled(x + y)[0]), True


def log_probabilities(
    initial: Sequence[Floats], transition: Sequence[Floats], logs: Callable[[Indices, int], Floats], lengths: Indices
) -> Floats:
    """Return the log probability of every run, ``(S,)``.

    Parameters
    ----------
    initial, transition : sequences of arrays of shape (n,) and (n, n)
        Of every chain.
    logs : callable
        ``logs(runs, t)`` returns the log densities of observation t of some runs under all joint states.
    lengths : array of int of shape (S,)
        Numbers of observations.
    """
    found = np.zeros(len(lengths))
    with single_blas():  # threads lose more than they gain at products of this size
        for runs in _chunks(lengths, prod(map(len, initial)), 1):
            found[runs] = _forward(initial, transition, logs, lengths, runs)
    return found


def _forward(initial: Any, transition: Any, logs: Any, lengths: Indices, runs: Indices, kind: Any = Linear) -> Floats:
    groups = Groups.of(transition)
    steps = [kind.enter(step) for step in groups.transitions]
    total, alpha = np.zeros(len(runs)), np.empty((0, 0))
    for t in range(int(lengths[runs[0]]) if len(runs) else 0):
        alive = int((lengths[runs] > t).sum())
        alpha, scale = _advanced(initial, steps, alpha, logs(runs[:alive], t), t, kind)
        total[:alive] += scale
    lost = np.flatnonzero(np.isneginf(total))
    if kind is Linear and len(lost):  # impossible, or out of range
        total[lost] = _forward(initial, transition, logs, lengths, runs[lost], Logs)
    return total


def _advanced(initial: Any, steps: Any, alpha: Floats, logs: Floats, t: int, kind: Any) -> tuple[Floats, Floats]:
    """Return the scaled forward variables of the next observation, and the logarithms of the scales."""
    weight, top = kind.evidence(logs)
    if t == 0:
        alpha = np.broadcast_to(kind.enter(joint_initial(initial)), weight.shape)
    else:
        alpha = alpha[: len(weight)]
        for step in steps:
            alpha = kind.ahead(alpha, step)
    alpha, scale = kind.scaled(kind.times(alpha, weight))
    return alpha, scale + top


def joint_initial(initial: Iterable[Floats]) -> Floats:
    """Return the probabilities of all joint states, the last chain varying fastest."""
    found: Floats = np.ones(1)
    for row in initial:
        found = np.kron(found, row)
    return found


def _chunks(lengths: Indices, joint: int, kept: int) -> list[Indices]:
    """Divide runs, from the longest to the shortest, so that ``kept`` observations of each fit into memory."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    order = order[np.asarray(lengths)[order] > 0]
    found, start = [], 0
    while start < len(order):
        each = joint * (kept if kept else int(lengths[order[start]]))
        stop = start + max(1, MEMORY // each)
        found.append(order[start:stop])
        start = stop
    return found


def smoothed(
    initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices, *, by_run: bool = False
) -> Joint:
    """Return the expected statistics of all runs.

    Parameters
    ----------
    initial, transition : array of shape (C, n) and (C, n, n)
        Probabilities of all chains.
    evidence : Evidence
        Likelihoods of the observations.
    offsets : array of int of shape (S + 1,)
        Run s has the observations ``offsets[s]:offsets[s + 1]``.
    by_run : bool, default=False
        Whether ``kinds`` are those of each run, rather than of all.
    """
    chains, n = initial.shape
    size, total = len(offsets) - 1, int(offsets[-1])
    found = Joint(
        np.zeros(size),
        np.zeros((size, chains, n)),
        np.zeros((size, chains, n, n)),
        np.zeros((total, chains, n)),
        np.zeros((size if by_run else 1, evidence.n_kinds, n**chains)),
    )
    lengths = np.diff(offsets)
    with single_blas():
        for runs in _chunks(lengths, n**chains, 0):
            if not _smooth(initial, transition, evidence, offsets, runs, found, Linear):
                for run in runs:  # numbers of some run underflow: all of them again, in logarithms
                    _smooth(initial, transition, evidence, offsets, np.array([run]), found, Logs)
    return found


def _smooth(
    initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices, runs: Indices, found: Joint, kind: Any
) -> bool:
    """Add the statistics of some runs, from the longest to the shortest; return False if numbers underflow."""
    groups = Groups.of(list(transition))
    steps = [kind.enter(step) for step in groups.transitions]
    start, lengths = offsets[runs], np.diff(offsets)[runs]
    alive = [int((lengths > t).sum()) for t in range(int(lengths[0]))]
    joint = initial.shape[1] ** initial.shape[0]
    width = max(1, MEMORY // (len(runs) * joint))

    def logs(t: int) -> Floats:
        return evidence.log_density(start[: alive[t]] + t)

    def advance(alpha: Floats, t: int) -> tuple[Floats, Floats]:
        return _advanced(initial, steps, alpha, logs(t), t, kind)

    log_prob, alpha = np.zeros(len(runs)), np.empty((0, 0))
    before: list[Floats] = []  # forward variables just before each piece
    piece: list[Floats] = []
    for t in range(len(alive)):
        if t % width == 0:
            before.append(alpha)
            piece = []
        alpha, scale = advance(alpha, t)
        log_prob[: alive[t]] += scale
        piece.append(alpha)
    if kind is Linear and np.isneginf(log_prob).any():
        return False
    found.log_prob[runs] = log_prob
    if np.isneginf(log_prob).any():
        return True
    sums = _Sums.of(found, groups, initial)
    beta = np.empty((0, joint))
    for k in range(len(before) - 1, -1, -1):
        if k < len(before) - 1:
            alpha, piece = before[k], []
            for t in range(k * width, (k + 1) * width):
                alpha, _ = advance(alpha, t)
                piece.append(alpha)
        for t in range(k * width + len(piece) - 1, k * width - 1, -1):
            alpha = piece[t - k * width]
            fresh = np.broadcast_to(kind.enter(np.ones(1)), (len(alpha) - len(beta), joint))
            beta = np.concatenate([beta, fresh])
            states, sound = kind.posterior(alpha, beta)
            if not sound and kind is Linear:
                sums.forget(runs)
                return False
            sums.add_states(runs[: alive[t]], start[: alive[t]] + t, states, evidence, t)
            if t:
                weight, _ = kind.evidence(logs(t))
                beta, _ = kind.scaled(kind.times(weight, beta))
                earlier = piece[t - 1 - k * width] if t > k * width else before[k]
                beta = sums.add_transitions(runs[: alive[t]], earlier[: alive[t]], beta, steps, kind)
    sums.keep()
    return True


class _Sums(NamedTuple):
    """Statistics that a backward pass collects."""

    found: Joint
    kinds: Floats
    groups: Groups
    shown: Floats

    @classmethod
    def of(cls, found: Joint, groups: Groups, initial: Floats) -> _Sums:
        shown = joint_states(initial.shape[1], len(initial))
        return cls(found, np.zeros_like(found.kinds), groups, shown)

    def add_states(self, runs: Indices, rows: Indices, states: Floats, evidence: Evidence, t: int) -> None:
        _, chains, n = self.found.states.shape
        each = (states[:, None, :] @ self.shown).reshape(-1, chains, n)
        self.found.states[rows] = each
        if t == 0:
            self.found.first[runs] = each
        if len(self.kinds) == len(self.found.first):
            self.kinds[runs, evidence.kind[rows]] += states
        else:
            np.add.at(self.kinds[0], evidence.kind[rows], states)

    def add_transitions(self, runs: Indices, alpha: Floats, beta: Floats, steps: Any, kind: Any) -> Floats:
        """Add the expected transitions into an observation; return the backward variables of the one before."""
        partial = [alpha]
        for step in steps[:-1]:
            partial.append(kind.ahead(partial[-1], step))
        chain = self.found.transitions.shape[1]
        for left, step, sizes in zip(reversed(partial), reversed(steps), reversed(self.groups.sizes), strict=True):
            pairs = kind.crossed(left, beta, step)
            chain -= len(sizes)
            pairs = pairs.reshape(len(pairs), *sizes, *sizes)
            for c in range(len(sizes)):
                others = tuple(1 + k for k in range(2 * len(sizes)) if k % len(sizes) != c)
                self.found.transitions[runs, chain + c] += pairs.sum(axis=others)
            beta = kind.back(beta, step)
        return beta

    def forget(self, runs: Indices) -> None:
        self.found.transitions[runs] = 0.0

    def keep(self) -> None:
        self.found.kinds[...] += self.kinds


def joint_states(n: int, chains: int) -> Floats:
    """Return indicators of the states of all chains in each joint state, ``(n^C, C n)``."""
    at = np.indices((n,) * chains).reshape(chains, -1)
    found = np.zeros((at.shape[1], chains * n))
    for c in range(chains):
        found[np.arange(len(found)), c * n + at[c]] = 1.0
    return found
