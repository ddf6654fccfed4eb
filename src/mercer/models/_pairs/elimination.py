"""Elimination of the silent visits of a pair HMM without subtractions, and their expected counts (MK-5).

A visit is *silent* if it emits nothing to the observed strings: to both strings (probability eps^2), or to a single
string (eps). Elimination sums over silent visits up to the next visit that is not silent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats


class Counts(NamedTuple):
    """Expected counts in the trajectories of S samples, and gradients of their log probabilities in free weights."""

    initial: Floats
    """From the start to every state and, last, to the end: ``(S, n + 1)``; the gradient."""
    transition: Floats
    """From every state to every state and, last, to the end: ``(S, n, n + 1)``; the gradient."""
    silent: Floats
    """Silent visits of every state, ``(S, n)``: the expected number."""


class Eliminated(NamedTuple):
    """A model without silent visits, and the model that it was derived from."""

    start: Floats
    """Weight of starting with a visit to each state; last, of no visit at all: ``(n + 1,)``."""
    step: Floats
    """Weight of the next visit in each state; last, of no further visit: ``(n, n + 1)``."""
    ways: Floats
    """W: weight of entering each state after any number of silent visits, ``(n, n)``."""
    initial: Floats
    """Of the original model, with the end as the last entry, ``(n + 1,)``."""
    transition: Floats
    """Of the original model, with the end as the last column, ``(n, n + 1)``."""
    silent: Floats
    """Probability that a visit is silent, ``(n,)``."""
    kept: Floats
    """Weight of a visit that is not silent, ``(n,)``: 1 if the emission includes it."""

    def unfold(self, start: Floats, step: Floats) -> Counts:
        """Convert gradients in ``start (S, n + 1)`` and ``step (S, n, n + 1)`` to those of the original model.

        With Cl = I + W D, and B the weight of the continuation after entering a state,
        dstep = Cl dT B and dstart = dpi B + pi D dstep.
        """
        n = len(self.silent)
        following = self.step * self.silent[:, None]
        following[:, :n] += np.diag(self.kept)  # B
        passed = (self.initial[:n] * self.silent)[:, None]
        through = step + passed * start[:, None, :]  # gradient of a step out of each visit, including silent ones
        through = through + (self.ways * self.silent).T @ through  # Cl = I + W D
        transition = np.concatenate([through @ following.T, through[..., n:]], axis=2)
        initial = np.concatenate([start @ following.T, start[:, n:]], axis=1)
        onward = through @ self.step.T
        entered = np.einsum("cd,scd->sd", self.transition[:, :n], onward) + self.initial[:n] * (start @ self.step.T)
        return Counts(initial, transition, self.silent * entered)


def eliminate(initial: Floats, transition: Floats, silent: Floats, loud: Floats, kept: Floats) -> Eliminated:
    """Eliminate silent visits.

    State by state, the paths through its silent visits are added to the direct paths (Kleene's algorithm, as Grassmann,
    Taksar and Heyman use it for stationary distributions). There are no subtractions, so zeros stay zero and results
    are accurate to rounding.

    Parameters
    ----------
    initial : ndarray of shape (n + 1,)
        Probabilities of the first state; last, of an empty trajectory.
    transition : ndarray of shape (n, n + 1)
        Probabilities of the next state; last, of the end.
    silent, loud : ndarray of shape (n,)
        Probability that a visit is silent, and one minus it, computed without cancellation.
    kept : ndarray of shape (n,)
        Weight of a visit that is not silent: ``loud``, or 1 if the emission includes it.
    """
    n = len(silent)
    step = np.array(transition, dtype=np.float64)
    stays = np.ones(n + 1)  # weight that stops at a state: all of it, and after its elimination the loud part
    for c in range(n):
        arrives = step[c] * stays
        arrives[c] = step[c, c] * loud[c]
        left = arrives.sum()  # one minus the silent returns, computed from their complement
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
    """Return the expected number of visits to each state, ``(n,)``; arguments as in `eliminate`."""
    n = len(transition)
    entered = np.flatnonzero(_reaching(transition[:, :n].T, initial[:n] > 0))
    first, all_silent = initial[entered], np.ones(len(entered))
    some = np.append(entered, n)
    passed = eliminate(initial[some], transition[np.ix_(entered, some)], all_silent, 0 * all_silent, all_silent)
    visits = np.zeros(n)
    visits[entered] = first + first @ passed.ways
    return visits


def check_trajectories(initial: Floats, transition: Floats, stop: Floats, silent: Floats, where: str = "") -> None:
    """Raise if a set of states never stops and never emits, or a state can be entered and never reaches the end.

    Parameters
    ----------
    initial, transition, stop, silent : ndarray of shape (n,), (n, n), (n,) and (n,)
        Probabilities of one model.
    where : str
        Names the model in messages.
    """
    ends = _reaching(transition, stop > 0)
    stuck = np.flatnonzero(~_reaching(transition, (stop > 0) | (silent < 1)))
    if len(stuck):
        several = len(stuck) > 1
        who = f"States {', '.join(map(str, stuck))}{where}" if several else f"State {stuck[0]}{where}"
        raise ValueError(
            f"{who} never emit{'' if several else 's'} and never stop{'' if several else 's'}, so silent visits never "
            "end. Use a positive stop there, or silent smaller than 1."
        )
    entered = _reaching(transition.T, initial > 0)
    lost = np.flatnonzero(entered & ~ends)
    if len(lost):
        raise ValueError(
            f"State {lost[0]}{where} can be entered but never reaches the end, so its strings never end. Use a "
            "positive stop in a state that it leads to."
        )


def _reaching(transition: Floats, goal: Floats) -> Floats:
    """Return which states reach a goal in any number of steps."""
    found = goal.copy()
    for _ in range(len(goal)):
        more = found | (transition[:, found] > 0).any(axis=1)
        if np.array_equal(more, found):
            break
        found = more
    return np.asarray(found)
