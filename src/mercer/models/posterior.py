"""What hidden states are expected to be, given sequences: computed here, or elsewhere."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._batch import row_digests
from mercer._immutable import Immutable
from mercer.data import Sequences
from mercer.data.ragged import digests, gather
from mercer.data.segments import segment_sum

__all__ = ["Posterior"]

TOLERANCE = 1e-4
"""How far posteriors computed elsewhere, in single precision perhaps, may be from summing to one."""


class Posterior(Immutable):
    """Posteriors of the hidden states of sequences; immutable.

    ``HMMs.posterior`` makes it. Posteriors that were computed elsewhere can be put into one.

    Parameters
    ----------
    X : Sequences or what makes them
        The N sequences, of T observations in all.
    states : array of shape (T, n), or list of N arrays
        Posterior of the states at every observation, the sequences one after the other.
    transitions : None, array of shape (N, n, n) or (number of steps, n, n), default=None
        Expected numbers of transitions of every sequence, or posteriors of every single step (as glhmm's Xi), which are
        added up; a sequence of L observations has L - 1 steps.
    log_prob : array of shape (N,), default=None
        Log probabilities of the sequences, where known.

    Attributes
    ----------
    states : ndarray of shape (T, n)
        Posteriors of all sequences, end to end; ``posterior[i]`` is that of sequence i.
    transitions : ndarray of shape (N, n, n), or None
        Expected numbers of transitions.
    log_prob : ndarray of shape (N,), or None
        Log probabilities.
    X : Sequences
        What was observed.
    offsets, lengths, ids
        Those of ``X``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.models.Posterior([[0.0, 1.0], [2.0]], np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
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
                raise ValueError(f"log_prob has shape {log_prob.shape}: give one number per sequence, {(len(X),)}")
            bad = np.flatnonzero(~(log_prob < np.inf))
            if len(bad):
                raise ValueError(
                    f"the log probability of {X.name(bad[0])} is {log_prob[bad[0]]}: give numbers, or log_prob=None "
                    "where they are not known"
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
        """Return 16 bytes for every sequence that depend on it and its posteriors alone."""
        parts = [self.X.digests(), digests(self.states, self.offsets, b"states")]
        if self.transitions is not None:
            parts.append(row_digests(self.transitions.reshape(len(self), -1)))
        return [blake2b(b"".join(row), digest_size=16).digest() for row in zip(*parts, strict=True)]

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, key: Any) -> Any:
        """Return one sequence's posteriors ``(L, n)``, or a `Posterior` of some sequences."""
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            if not -len(self) <= key < len(self):
                raise IndexError(f"there is no sequence {key}; there are {len(self)}")
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
    """Return posteriors ``(T, n)`` whose rows are probabilities."""
    if isinstance(states, list | tuple) and not (len(states) and all(np.ndim(row) == 1 for row in states)):
        lengths = [len(piece) for piece in states]
        if len(lengths) != len(X) or np.any(np.array(lengths, dtype=int) != X.lengths):
            i = next((i for i, (a, b) in enumerate(zip(lengths, X.lengths, strict=False)) if a != b), None)
            at = f"{X.name(i)} has {X.lengths[i]} observations and {lengths[i]} rows" if i is not None else ""
            at = at or f"there are {len(lengths)} arrays for {len(X)} sequences"
            raise ValueError(f"states do not fit the sequences: {at}; give one row per observation")
        states = [np.asarray(piece, dtype=float) for piece in states]
        odd = next((i for i, piece in enumerate(states) if piece.ndim != 2), None)
        if odd is not None:
            raise ValueError(
                f"the states of {X.name(odd)} have shape {states[odd].shape}: give one row per observation, "
                f"({X.lengths[odd]}, n)"
            )
        odd = next((i for i, piece in enumerate(states) if piece.shape[1] != states[0].shape[1]), None)
        if odd is not None:
            raise ValueError(
                f"the states of {X.name(odd)} have {states[odd].shape[1]} columns, those of {X.name(0)} "
                f"{states[0].shape[1]}: give one column per state of one model"
            )
        states = np.concatenate(states) if states else np.empty((0, 1))
    elif isinstance(states, list | tuple) and len({len(row) for row in states}) > 1:
        raise ValueError("the rows of states differ in length: give one number per state, or a list of N arrays")
    states = np.array(states, dtype=float)
    if states.ndim != 2 or len(states) != len(X.values):
        raise ValueError(f"states has shape {states.shape}: give one row per observation, ({len(X.values)}, n)")
    bad = np.flatnonzero(~((states >= 0).all(axis=1) & (np.abs(states.sum(axis=1) - 1) <= TOLERANCE)))
    if len(bad):
        i = int(np.searchsorted(X.offsets, bad[0], side="right")) - 1
        raise ValueError(
            f"the posterior of {X.name(i)} at observation {bad[0] - X.offsets[i]} is {states[bad[0]]}: give "
            "probabilities that sum to one"
        )
    return states


def _checked_transitions(X: Sequences, transitions: Floats, n: int) -> Floats:
    """Return expected numbers of transitions ``(N, n, n)``, of single steps added up."""
    steps = np.maximum(X.lengths - 1, 0)
    total = int(steps.sum())
    if transitions.shape not in ((len(X), n, n), (total, n, n)):
        raise ValueError(
            f"transitions has shape {transitions.shape}: give one matrix per sequence, {(len(X), n, n)}, or per step, "
            f"{(total, n, n)}"
        )
    mass = transitions.sum(axis=(1, 2))
    close = TOLERANCE * np.maximum(steps, 1)
    summed = len(transitions) == len(X) and bool(np.all(np.abs(mass - steps) <= close))
    if not summed and len(transitions) == total:
        bad = np.flatnonzero(~(np.abs(mass - 1) <= TOLERANCE))
        if len(bad):
            raise ValueError(f"the posterior of step {bad[0]} sums to {mass[bad[0]]:.6g}, not to one")
        transitions = segment_sum(transitions, np.concatenate([[0], np.cumsum(steps)]))
    elif not summed:
        i = int(np.flatnonzero(~(np.abs(mass - steps) <= close))[0])
        raise ValueError(f"the transitions of {X.name(i)} sum to {mass[i]:.6g}: it has {steps[i]} steps")
    if np.any(transitions < 0):
        raise ValueError("transitions holds a negative number: give expected numbers of transitions")
    return transitions


def _check_agreement(X: Sequences, states: Floats, transitions: Floats) -> None:
    """Raise where transitions leave, or enter, states in other numbers than the posteriors say."""
    total = segment_sum(states, X.offsets)
    some = np.flatnonzero(X.lengths > 0)
    leaving, entering = total.copy(), total.copy()
    leaving[some] -= states[X.offsets[some + 1] - 1]
    entering[some] -= states[X.offsets[some]]
    close = TOLERANCE * np.maximum(X.lengths, 1)
    for axis, wanted, what in ((2, leaving, "leave"), (1, entering, "enter")):
        found = transitions.sum(axis=axis)
        bad = np.argwhere(~(np.abs(found - wanted) <= close[:, None]))
        if len(bad):
            i, state = (int(k) for k in bad[0])
            raise ValueError(
                f"the transitions of {X.name(i)} {what} state {state} {found[i, state]:.6g} times, its states say "
                f"{wanted[i, state]:.6g}: give transitions[i, j] from i to j, of the same model as the states"
            )
