"""Forward-backward over the joint states of several chains (PPK-6.1).

Few joint states are the states of one hidden Markov model. For more, the transitions of a step are applied chain by
chain, so that a step over J joint states of C chains of n states costs C n J multiplications, not J^2. Every chain is
applied to the first axis and becomes the last one; after all chains the axes are in their old order. Small neighboring
chains are applied together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log
from mercer._parallel import single_blas
from mercer.models._forward.interface import Densities, Runs, expectations

FEW_JOINT = 64
"""Number of joint states up to which EM and kernels use the hidden Markov model of all joint states."""
DENSE = 256
"""Number of joint states up to which expectations use one table of the transitions of all joint states."""
MOST_JOINT = 100_000
"""Number of joint states up to which probabilities are exact."""
TOGETHER = 16
"""Number of joint states up to which neighboring chains are applied together: one large product beats several small."""
MEMORY = 1 << 21
"""Numbers that a forward pass keeps at once; longer runs are recomputed piece by piece."""


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


def check_joint(joint: int, cure: str) -> None:
    """Raise if there are too many joint states."""
    if joint > MOST_JOINT:
        raise ValueError(f"These models have {joint:,} joint states, more than {MOST_JOINT:,}. {cure}")


def joint_states(n: int, chains: int) -> Floats:
    """Return indicators of the states of all chains in each joint state, ``(n^C, C n)``."""
    at = np.indices((n,) * chains).reshape(chains, -1)
    found = np.zeros((at.shape[1], chains * n))
    for c in range(chains):
        found[np.arange(len(found)), c * n + at[c]] = 1.0
    return found


def _kron(parts: Iterable[Floats], found: Floats) -> Floats:
    for part in parts:
        found = np.kron(found, part)
    return found


class Linear:
    """Arithmetic of scaled numbers."""

    enter, leave, of_logs = staticmethod(np.asarray), staticmethod(np.asarray), staticmethod(np.exp)
    times, product = staticmethod(np.multiply), staticmethod(np.matmul)

    @staticmethod
    def scaled(x: Floats) -> tuple[Floats, Any]:
        """Divide by the sum; return its logarithm, too."""
        total = x.sum()
        return x / (total if total > 0 else 1.0), safe_log(total)


class Logs:
    """Arithmetic of logarithms, for runs whose numbers underflow."""

    enter, leave, of_logs = staticmethod(safe_log), staticmethod(np.exp), staticmethod(np.asarray)
    times = staticmethod(np.add)

    @staticmethod
    def product(a: Floats, b: Floats) -> Floats:
        """Multiply two matrices."""
        return logsumexp(a[:, :, None] + b, axis=1)

    @staticmethod
    def scaled(x: Floats) -> tuple[Floats, Any]:
        """Subtract the logarithm of the sum; return it, too."""
        total = logsumexp(x.ravel())
        return x - (total if np.isfinite(total) else 0.0), total


class _Pass:
    """Steps over all joint states, in one arithmetic."""

    def __init__(self, initial: Iterable[Floats], transition: Iterable[Floats], kind: Any) -> None:
        groups: list[Floats] = []
        self.sizes: list[tuple[int, ...]] = []
        """Numbers of states of the chains that are applied together."""
        for step in transition:
            if groups and len(groups[-1]) * len(step) <= TOGETHER:
                groups[-1], self.sizes[-1] = np.kron(groups[-1], step), (*self.sizes[-1], len(step))
            else:
                groups.append(step)
                self.sizes.append((len(step),))
        self.kind = kind
        self.steps = [kind.enter(step) for step in groups]
        self.initial = kind.enter(_kron(initial, np.ones(1)))

    def ahead(self, x: Floats, step: Floats) -> Floats:
        """Apply a transition to the first axis, which becomes the last."""
        return np.asarray(self.kind.product(x.reshape(len(step), -1).T, step)).ravel()

    def weighted(self, x: Floats, logs: Floats) -> tuple[Floats, Any]:
        """Multiply by the likelihoods of an observation; return scaled numbers and the logarithm of the scale."""
        top = logs.max()
        top = top if np.isfinite(top) else 0.0
        x, scale = self.kind.scaled(self.kind.times(x, self.kind.of_logs(logs - top)))
        return x, scale + top

    def forward(self, alpha: Floats | None, rows: Iterable[Floats]) -> Iterator[tuple[Floats, Any]]:
        """Yield the forward variables of each observation and its log probability given those before it."""
        for logs in rows:
            if alpha is None:
                alpha = self.initial
            else:
                for step in self.steps:
                    alpha = self.ahead(alpha, step)
            alpha, scale = self.weighted(alpha, logs)
            yield alpha, scale

    def back(self, alpha: Floats, beta: Floats, transitions: Floats) -> Floats:
        """Add the expected transitions from one observation to the next; return the backward variables of the first."""
        moved = [alpha]
        for step in self.steps[:-1]:
            moved.append(self.ahead(moved[-1], step))
        chain = len(transitions)
        for left, step, sizes in zip(reversed(moved), reversed(self.steps), reversed(self.sizes), strict=True):
            g = len(step)
            pairs = self.kind.times(step, self.kind.product(left.reshape(g, -1), beta.reshape(-1, g)))
            pairs = self.kind.leave(self.kind.scaled(pairs)[0]).reshape(*sizes, *sizes)
            chain -= len(sizes)
            for c in range(len(sizes)):
                others = tuple(k for k in range(2 * len(sizes)) if k % len(sizes) != c)
                transitions[chain + c] += pairs.sum(axis=others)
            beta = np.asarray(self.kind.product(step, beta.reshape(-1, g).T)).ravel()
        return beta


def log_probabilities(
    initial: Iterable[Floats], transition: Iterable[Floats], rows: Callable[[], Iterable[Floats]]
) -> Floats:
    """Return the log probability of all observations up to each one, ``(T,)``.

    Parameters
    ----------
    initial, transition : arrays of shape (n,) and (n, n)
        Of every chain.
    rows : callable
        ``rows()`` yields the log densities of each observation under all joint states.
    """
    with single_blas():  # threads lose more than they gain at products of this size
        for kind in (Linear, Logs):
            found = np.array([scale for _, scale in _Pass(initial, transition, kind).forward(None, rows())])
            if not np.isneginf(found).any():  # otherwise impossible, or out of range
                break
    return np.cumsum(found)


def joint_log_prob(initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices) -> Floats:
    """Return the log probability of every run, ``(S,)``; parameters as in `expected_joint`."""
    size = max(1, MEMORY // initial.shape[1] ** len(initial))

    def rows(begin: int, end: int) -> Iterator[Floats]:
        for start in range(begin, end, size):
            yield from evidence.log_density(np.arange(start, min(start + size, end)))

    found = np.zeros(len(offsets) - 1)
    for s, (begin, end) in enumerate(pairwise(offsets)):
        if end > begin:
            found[s] = log_probabilities(initial, transition, partial(rows, begin, end))[-1]
    return found


def expected_joint(
    initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices, *, by_run: bool = False
) -> Joint:
    """Return the expected statistics of all runs under one model.

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
    total, size = int(offsets[-1]), len(offsets) - 1
    shown = joint_states(n, chains)
    owner = np.arange(size) if by_run else np.zeros(size, dtype=int)
    kinds = np.zeros((size if by_run else 1, evidence.n_kinds, n**chains))
    if n**chains > DENSE:
        found = Joint(
            np.zeros(size),
            np.zeros((size, chains, n)),
            np.zeros((size, *transition.shape)),
            np.zeros((total, chains, n)),
            kinds,
        )
        with single_blas():
            passes = [_Pass(initial, transition, kind) for kind in (Linear, Logs)]
            for s, (begin, end) in enumerate(pairwise(offsets)):
                for one in passes if end > begin else ():
                    run = _smoothed(one, evidence, begin, end, found.transitions[s], shown)
                    found.log_prob[s] = -np.inf if run is None else run[0]
                    if run is not None:
                        found.states[begin:end] = run[1].reshape(-1, chains, n)
                        found.first[s] = found.states[begin]
                        found.kinds[owner[s]] += run[2]
                        break
        return found
    table = Densities(evidence.log_density(np.arange(total)))
    start, steps = _kron(initial, np.ones(1)), _kron(transition, np.ones((1, 1)))
    dense = expectations(start[None], steps[None], table, Runs.shared(offsets), states=True)
    assert dense.states is not None
    own = shown.reshape(-1, chains, n)
    first = np.einsum("sj,jci->sci", dense.first, own)
    steps = np.stack([own[:, c].T @ dense.transitions @ own[:, c] for c in range(chains)], axis=1)
    if evidence.n_kinds == 1 and not by_run:
        kinds[0, 0] = dense.states.sum(axis=0)
    else:
        np.add.at(kinds, (np.repeat(owner, np.diff(offsets)), evidence.kind), dense.states)
    return Joint(dense.log_prob, first, steps, (dense.states @ shown).reshape(total, chains, n), kinds)


def _smoothed(
    one: _Pass, evidence: Evidence, begin: int, end: int, transitions: Floats, shown: Floats
) -> tuple[float, Floats, Floats] | None:
    """Return the log probability, posteriors and sums of kinds of a run; None if it is impossible or underflows.

    Expected transitions are written to the given array.
    """
    kind, joint = one.kind, len(shown)
    width = max(1, MEMORY // joint)
    log_prob, piece = 0.0, [(np.empty(0), 0.0)]
    before: list[Floats | None] = [None]  # forward variables just before each piece
    cuts = range(begin, end, width)
    for cut in cuts:
        logs = evidence.log_density(np.arange(cut, min(cut + width, end)))
        piece = list(one.forward(before[-1], logs))
        before.append(piece[-1][0])
        log_prob += sum(float(scale) for _, scale in piece)
    if np.isneginf(log_prob):
        return None
    transitions[...] = 0.0
    states, kinds = np.empty((end - begin, shown.shape[1])), np.zeros((evidence.n_kinds, joint))
    beta = np.broadcast_to(kind.enter(np.ones(1)), (joint,))
    for k in reversed(range(len(cuts))):
        if k < len(cuts) - 1:
            logs = evidence.log_density(np.arange(cuts[k], cuts[k] + width))
            piece = list(one.forward(before[k], logs))
        for t in reversed(range(len(piece))):
            posterior, total = kind.scaled(kind.times(piece[t][0], beta))
            if np.isneginf(total):
                return None
            posterior = kind.leave(posterior)
            states[cuts[k] - begin + t] = posterior @ shown
            kinds[evidence.kind[cuts[k] + t]] += posterior
            earlier = piece[t - 1][0] if t else before[k]
            if earlier is not None:
                beta = one.back(earlier, one.weighted(beta, logs[t])[0], transitions)
    return log_prob, states, kinds
