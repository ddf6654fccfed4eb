"""Elimination of the silent visits of a pair HMM without subtractions, and their expected counts (MK-5).

A visit is *silent* where it gives nothing to anybody who reads along: to both strings (probability eps^2), or to the
one string (eps). Elimination follows the trajectory through silent visits to the next visit that is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats


class Counts(NamedTuple):
    """Expected numbers in the trajectories of S data, and gradients of their log probabilities in free weights."""

    initial: Floats
    """From the start to every state and, last, to the end: ``(S, n + 1)``; the gradient."""
    transition: Floats
    """From every state to every state and, last, to the end: ``(S, n, n + 1)``; the gradient."""
    silent: Floats
    """Silent visits of every state, ``(S, n)``: the expected number."""


class Eliminated(NamedTuple):
    """A model whose visits are never silent, and how it came about."""

    start: Floats
    """Weight of beginning with a visit of every state; last, of no visit at all: ``(n + 1,)``."""
    step: Floats
    """Weight of the next visit being in every state; last, of there being none: ``(n, n + 1)``."""
    ways: Floats
    """W: weight of entering every state after any number of silent visits, ``(n, n)``."""
    initial: Floats
    """Of the model before, with the end as the last entry, ``(n + 1,)``."""
    transition: Floats
    """Of the model before, with the end as the last column, ``(n, n + 1)``."""
    silent: Floats
    """Probability that a visit is silent, ``(n,)``."""
    kept: Floats
    """Weight of a visit that is not, ``(n,)``: 1 where the emission has its own."""

    def unfold(self, start: Floats, step: Floats) -> Counts:
        """Turn gradients of log probabilities in ``start (S, n + 1)`` and ``step (S, n, n + 1)`` into those of before.

        With Cl = I + W D, and B what follows once a state is entered, dstep = Cl dT B and dstart = dpi B + pi D dstep.
        """
        n = len(self.silent)
        following = self.step * self.silent[:, None]
        following[:, :n] += np.diag(self.kept)  # B
        passed = (self.initial[:n] * self.silent)[:, None]
        through = step + passed * start[:, None, :]  # what is gained by a step out of every visit, silent ones at first
        through = through + (self.ways * self.silent).T @ through  # Cl = I + W D
        transition = np.concatenate([through @ following.T, through[..., n:]], axis=2)
        initial = np.concatenate([start @ following.T, start[:, n:]], axis=1)
        onward = through @ self.step.T
        entered = np.einsum("cd,scd->sd", self.transition[:, :n], onward) + self.initial[:n] * (start @ self.step.T)
        return Counts(initial, transition, self.silent * entered)


def eliminate(initial: Floats, transition: Floats, silent: Floats, loud: Floats, kept: Floats) -> Eliminated:
    """Eliminate silent visits.

    State by state, the ways through its silent visits are added to those around it (Kleene, as Grassmann, Taksar and
    Heyman do it for stationary distributions). Nothing is subtracted: zeros stay zeros and every digit is right.

    Parameters
    ----------
    initial : ndarray of shape (n + 1,)
        Probabilities of the first state; last, of an empty trajectory.
    transition : ndarray of shape (n, n + 1)
        Probabilities of the next state; last, of the end.
    silent, loud : ndarray of shape (n,)
        Probability that a visit is silent, and one minus it, computed without cancellation.
    kept : ndarray of shape (n,)
        Weight of a visit that is not silent: ``loud``, or 1 where the emission has its own.
    """
    n = len(silent)
    step = np.array(transition, dtype=np.float64)
    stays = np.ones(n + 1)  # what arrives at a state and goes no further: all, and after its turn the loud part
    for c in range(n):
        arrives = step[c] * stays
        arrives[c] = step[c, c] * loud[c]
        left = arrives.sum()  # one minus the silent returns, by what is complementary to them
        if silent[c] > 0:
            step += np.outer(step[:, c] * (silent[c] / left), step[c])
        stays[c] = loud[c]
    start = np.array(initial, dtype=np.float64)
    start += (initial[:n] * silent) @ step
    ways = step[:, :n].copy()
    step[:, :n] *= kept
    start[:n] *= kept
    return Eliminated(start, step, ways, initial, transition, silent, kept)


def expected_visits(initial: Floats, transition: Floats) -> Floats:
    """Return how often a trajectory visits every state on average, ``(n,)``; arguments as those of `eliminate`."""
    n = len(transition)
    entered = np.flatnonzero(_reaching(transition[:, :n].T, initial[:n] > 0))
    first, all_silent = initial[entered], np.ones(len(entered))
    some = np.append(entered, n)
    passed = eliminate(initial[some], transition[np.ix_(entered, some)], all_silent, 0 * all_silent, all_silent)
    visits = np.zeros(n)
    visits[entered] = first + first @ passed.ways
    return visits


def check_trajectories(initial: Floats, transition: Floats, stop: Floats, silent: Floats, where: str = "") -> None:
    """Raise where a set of states never stops and never emits, or a state can be entered and never reaches the end.

    Parameters
    ----------
    initial, transition, stop, silent : ndarray of shape (n,), (n, n), (n,) and (n,)
        Of one model.
    where : str
        Names the model in messages.
    """
    ends = _reaching(transition, stop > 0)
    stuck = np.flatnonzero(~_reaching(transition, (stop > 0) | (silent < 1)))
    if len(stuck):
        several = len(stuck) > 1
        who = f"states {', '.join(map(str, stuck))}{where}" if several else f"state {stuck[0]}{where}"
        raise ValueError(
            f"{who} never emit{'' if several else 's'} and never stop{'' if several else 's'}, so that silent visits "
            "go on for ever: give stop a positive probability there, or make silent smaller than 1"
        )
    entered = _reaching(transition.T, initial > 0)
    lost = np.flatnonzero(entered & ~ends)
    if len(lost):
        raise ValueError(
            f"state {lost[0]}{where} can be entered and never reaches the end, so that its strings would never be "
            "finished: give stop a positive probability in a state that it leads to"
        )


def _reaching(transition: Floats, goal: Floats) -> Floats:
    """Which states lead to a goal in any number of steps."""
    found = goal.copy()
    for _ in range(len(goal)):
        more = found | (transition[:, found] > 0).any(axis=1)
        if np.array_equal(more, found):
            break
        found = more
    return np.asarray(found)
