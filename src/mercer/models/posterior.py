"""Posteriors of hidden states, computed by mercer or by another library."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from mercer._array import Floats, as_array, to_numpy
from mercer._batch import row_digests
from mercer._immutable import Immutable
from mercer.data import Sequences
from mercer.data.ragged import digests, gather
from mercer.data.segments import segment_sum

__all__ = ["Posterior"]

TOLERANCE = 1e-4
"""Tolerance of the sums of posteriors, which other libraries may compute in single precision."""


class Posterior(Immutable):
    """Posteriors of the hidden states of sequences; immutable.

    ``HMMs.posterior`` returns it. It can also be created from posteriors computed by another library.

    Parameters
    ----------
    X : Sequences, or anything that converts to them
        The N sequences, with T observations in total.
    states : array of shape (T, n), or list of N arrays
        Posterior probabilities of the states at each observation, concatenated over sequences.
    transitions : None, array of shape (N, n, n) or (number of steps, n, n), default=None
        Expected transition counts of each sequence, or posteriors of each step (such as glhmm's Xi), which are summed;
        a sequence of L observations has L - 1 steps.
    log_prob : array of shape (N,), default=None
        Log probabilities of the sequences, if known.

    Attributes
    ----------
    states : ndarray of shape (T, n)
        Posteriors of all sequences, concatenated; ``posterior[i]`` is that of sequence i.
    transitions : ndarray of shape (N, n, n), or None
        Expected transition counts.
    log_prob : ndarray of shape (N,), or None
        Log probabilities.
    X : Sequences
        The sequences.
    offsets, lengths, ids
        Those of ``X``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.models.Posterior(
    ...     [[0.0, 1.0], [2.0]], np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    ... )
    >>> p
    Posterior(2 sequences, 2 states)
    >>> p[0]
    array([[1. , 0. ],
           [0.5, 0.5]])
    >>> p[1:].lengths
    array([1])
    """

    __slots__ = ("X", "log_prob", "states", "transitions")

    X: Sequences
    states: Floats
    transitions: Floats | None
    log_prob: Floats | None

    def __init__(self, X: Any, states: Any, transitions: Any = None, log_prob: Any = None) -> None:
        X = X if isinstance(X, Sequences) else Sequences(X)
        states = _checked_states(X, states)
        if transitions is not None:
            transitions = _checked_transitions(X, np.array(transitions, dtype=float), states.shape[1])
            _check_agreement(X, states, transitions)
        if log_prob is not None:
            log_prob = np.array(log_prob, dtype=float)
            if log_prob.shape != (len(X),):
                raise ValueError(
                    f"log_prob must have one number per sequence, shape {(len(X),)}; got shape {log_prob.shape}."
                )
            bad = np.flatnonzero(~(log_prob < np.inf))
            if len(bad):
                raise ValueError(
                    f"log_prob must be numbers below infinity; got {log_prob[bad[0]]} for {X.name(bad[0])}. Use "
                    "log_prob=None if they are not known."
                )
        self._hold(X, states, transitions, log_prob)

    @classmethod
    def _make(cls, X: Sequences, states: Floats, transitions: Floats | None, log_prob: Floats | None) -> Posterior:
        """Build from fields that are known to be valid."""
        self = object.__new__(cls)
        self._hold(X, states, transitions, log_prob)
        return self

    def _hold(self, X: Sequences, states: Floats, transitions: Floats | None, log_prob: Floats | None) -> None:
        for array in (states, transitions, log_prob):
            if array is not None:
                array.setflags(write=False)
        self._fill(X=X, states=states, transitions=transitions, log_prob=log_prob)

    @property
    def offsets(self) -> Floats:
        """Sequence i has the rows ``offsets[i]:offsets[i + 1]`` of `states`."""
        return self.X.offsets

    @property
    def lengths(self) -> Floats:
        """Numbers of observations."""
        return self.X.lengths

    @property
    def ids(self) -> tuple[str, ...] | None:
        """Names of the sequences."""
        return self.X.ids

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.states.shape[1])

    def digests(self) -> list[bytes]:
        """Return a digest of 16 bytes per sequence; it depends only on the sequence and its posteriors."""
        parts = [self.X.digests(), digests(self.states, self.offsets, b"states")]
        if self.transitions is not None:
            parts.append(row_digests(self.transitions.reshape(len(self), -1)))
        return [blake2b(b"".join(row), digest_size=16).digest() for row in zip(*parts, strict=True)]

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, key: Any) -> Any:
        """Return the posteriors of one sequence, ``(L, n)``, or a `Posterior` of several sequences."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            if not -len(self) <= key < len(self):
                raise IndexError(f"Index {key} is out of range for {len(self)} sequences.")
            i = int(key) % len(self)
            return self.states[self.offsets[i] : self.offsets[i + 1]]
        which = np.arange(len(self))[np.asarray(key, dtype=None if key else int) if isinstance(key, list) else key]
        states, _ = gather(self.states, self.offsets, which)
        log_prob = None if self.log_prob is None else self.log_prob[which]
        transitions = None if self.transitions is None else self.transitions[which]
        return self._make(self.X[which], states, transitions, log_prob)

    def __reduce__(self) -> Any:
        return type(self)._make, (self.X, self.states, self.transitions, self.log_prob)

    def __repr__(self) -> str:
        return f"Posterior({len(self)} sequences, {self.n_states} states)"


def _checked_states(X: Sequences, states: Any) -> Floats:
    """Return posteriors as an array ``(T, n)``; raise if the rows are not probabilities."""
    if isinstance(states, list | tuple) and not (len(states) and all(np.ndim(row) == 1 for row in states)):
        if len(states) != len(X):
            raise ValueError(f"states must have one array per sequence; got {len(states)} for {len(X)} sequences.")
        pieces = [np.asarray(piece, dtype=float) for piece in states]
        for i, piece in enumerate(pieces):
            if piece.ndim != 2 or piece.shape != (X.lengths[i], *pieces[0].shape[1:]):
                raise ValueError(
                    "states must have one row per observation and the same columns for all sequences, shape "
                    f"({X.lengths[i]}, n) for {X.name(i)}; got shape {piece.shape}."
                )
        states = np.concatenate(pieces) if pieces else np.empty((0, 1))
    states = np.array(as_array(states, "states", "rows of one number per state"), dtype=float)
    if states.ndim != 2 or len(states) != len(X.values):
        raise ValueError(
            f"states must have one row per observation, shape ({len(X.values)}, n); got shape {states.shape}."
        )
    bad = np.flatnonzero(~((states >= 0).all(axis=1) & (np.abs(states.sum(axis=1) - 1) <= TOLERANCE)))
    if len(bad):
        i = int(np.searchsorted(X.offsets, bad[0], side="right")) - 1
        raise ValueError(
            f"Posteriors must be probabilities that sum to one; got {states[bad[0]]} for {X.name(i)} at observation "
            f"{bad[0] - X.offsets[i]}."
        )
    return states


def _checked_transitions(X: Sequences, transitions: Floats, n: int) -> Floats:
    """Return expected transition counts ``(N, n, n)``; posteriors of single steps are summed."""
    steps = np.maximum(X.lengths - 1, 0)
    total = int(steps.sum())
    if transitions.shape not in ((len(X), n, n), (total, n, n)):
        raise ValueError(
            f"transitions must have one matrix per sequence, shape {(len(X), n, n)}, or per step, shape "
            f"{(total, n, n)}; got shape {transitions.shape}."
        )
    mass = transitions.sum(axis=(1, 2))
    close = TOLERANCE * np.maximum(steps, 1)
    summed = len(transitions) == len(X) and bool(np.all(np.abs(mass - steps) <= close))
    if not summed and len(transitions) == total:
        bad = np.flatnonzero(~(np.abs(mass - 1) <= TOLERANCE))
        if len(bad):
            raise ValueError(f"The posterior of step {bad[0]} sums to {mass[bad[0]]:.6g}, not to one.")
        transitions = segment_sum(transitions, np.concatenate([[0], np.cumsum(steps)]))
    elif not summed:
        i = int(np.flatnonzero(~(np.abs(mass - steps) <= close))[0])
        raise ValueError(f"The transitions of {X.name(i)} must sum to its {steps[i]} steps; got {mass[i]:.6g}.")
    if np.any(transitions < 0):
        raise ValueError(f"transitions must be nonnegative expected counts; got {transitions.min():.6g}.")
    return transitions


def _check_agreement(X: Sequences, states: Floats, transitions: Floats) -> None:
    """Raise if the transitions that leave or enter a state contradict the posteriors of the states."""
    total = segment_sum(states, X.offsets)
    nonempty = np.flatnonzero(X.lengths > 0)
    leaving, entering = total.copy(), total.copy()
    leaving[nonempty] -= states[X.offsets[nonempty + 1] - 1]
    entering[nonempty] -= states[X.offsets[nonempty]]
    close = TOLERANCE * np.maximum(X.lengths, 1)
    for axis, wanted, what in ((2, leaving, "leave"), (1, entering, "enter")):
        found = transitions.sum(axis=axis)
        bad = np.argwhere(~(np.abs(found - wanted) <= close[:, None]))
        if len(bad):
            i, state = (int(k) for k in bad[0])
            raise ValueError(
                f"The transitions of {X.name(i)} {what} state {state} {found[i, state]:.6g} times, its states imply "
                f"{wanted[i, state]:.6g}. transitions[i, j] must be from i to j, under the same model as the states."
            )


# Stationary distributions of Markov chains.

LARGEST = 2048
"""Largest number of contexts for which the equations are solved."""


def long_run(initial: Floats, transition: Floats) -> Floats:
    """Long-run fraction of time in every state, ``(N, n)``: the Cesaro limit of the chain started from ``initial``.

    Parameters
    ----------
    initial, transition : ndarray of shape (N, n) and (N, n, n)
        Probabilities of N chains.

    Examples
    --------
    >>> long_run(np.array([[1.0, 0.0]]), np.array([[[0.9, 0.1], [0.3, 0.7]]])).round(4)
    array([[0.75, 0.25]])
    """
    found = np.empty(initial.shape)
    regular = (transition > 0).all(axis=(-2, -1))
    if regular.any():
        found[regular] = _eliminated(transition[regular])
    for i in np.flatnonzero(~regular):
        found[i] = _reducible(initial[i], transition[i])
    return found


def long_run_of_contexts(chains: Any) -> Floats:
    """Return the Cesaro limit of the distribution of contexts from the initial one, ``(N, C)``."""
    contexts, k = chains.n_contexts, len(chains.alphabet)
    if contexts > LARGEST:
        raise ValueError(
            f"Chains of order {chains.order} over {k} symbols have {contexts} contexts; the stationary distribution is "
            f"computed for {LARGEST} at most. Lower the order."
        )
    out = np.empty((len(chains), contexts))
    after = (np.arange(contexts)[:, None] * k + np.arange(k)) % contexts
    for i in range(len(chains)):
        initial, rows = (to_numpy(x[i]).astype(float) for x in (chains.initial, chains.transition))
        step = np.zeros((contexts, contexts))
        for s in range(k):
            step[np.arange(contexts), after[:, s]] += rows[:, s]
        out[i] = long_run(initial[None], step[None])[0]
    return out


def _eliminated(transition: Floats) -> Floats:
    """Stationary distributions of irreducible chains ``(N, n, n)``.

    Eliminates one state after the other without subtraction (Grassmann, Taksar and Heyman), so every entry is accurate
    to a few rounding errors, for sticky chains too.
    """
    a = transition.astype(np.float64)
    n = a.shape[-1]
    for k in range(n - 1, 0, -1):
        leaving = a[:, k, :k].sum(axis=-1)
        a[:, :k, k] /= leaving[:, None]
        a[:, :k, :k] += a[:, :k, k, None] * a[:, k, None, :k]
    weight = np.zeros(a.shape[:2])
    weight[:, 0] = 1.0
    for k in range(1, n):
        weight[:, k] = (weight[:, :k] * a[:, :k, k]).sum(axis=-1)
        weight /= weight.sum(axis=-1, keepdims=True)
    return weight


def _reducible(initial: Floats, transition: Floats) -> Floats:
    """Weight every closed class by the probability of being absorbed there.

    Transient states are eliminated one after the other, without subtraction: their mass is passed on to their
    successors.
    """
    count, label = connected_components(transition > 0, directed=True, connection="strong")
    inside = label == np.arange(count)[:, None]
    closed = [c for c in inside if not np.any(transition[np.ix_(c, ~c)] > 0)]
    a, start = transition.astype(np.float64), initial.astype(np.float64)
    left = np.ones(len(start), dtype=bool)
    for k in np.flatnonzero(~np.any(closed, axis=0)):
        left[k] = False
        onward = a[k, left] / a[k, left].sum()
        start[left] += start[k] * onward
        a[:, left] += a[:, k, None] * onward
    found = np.zeros(len(start))
    for members in closed:
        found[members] = start[members].sum() * _eliminated(transition[np.ix_(members, members)][None])[0]
    return found / found.sum()
