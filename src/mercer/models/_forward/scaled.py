"""Scaled forward and backward recursions of many runs: the lane and the thread of every run, and whether it is sound.

The compiled loops stand in `mercer.models._forward.loops`; `mercer.models._forward.interface` asks this file first and
hands what is not sound to `mercer.models._forward.wide_range`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled.lanes import LANES, aligned
from mercer.models._forward.loops import FOUND, TRUSTED, both_passes, forward_pass, history_size, work_size
from mercer.models._forward.steps import FLOOR
from mercer.models._forward.work import CHUNK_SECONDS, share

__all__ = ["Problem", "Targets", "scaled_expectations", "scaled_log_likelihoods"]

LANE_STATES = 20
"""Models of more states have their own lanes full: their runs go one by one."""
GROUP_NUMBERS = 8_000_000
"""Runs so long that eight of them would keep more weights than this go one by one."""


class Problem(NamedTuple):
    """Models and evidence as the compiled loops want them: flat, contiguous, writable, what is possible raised."""

    values: Floats
    codes: Floats
    n_codes: int
    initial: Floats
    transition: Floats
    exact: Floats
    n: int
    mixing: Floats
    """Bound on the ratio of two backward weights in every model, ``(N,)``: inf where a transition is impossible."""
    raised: Floats
    """Whether a probability of the model had to be raised, ``(N,)``."""

    @classmethod
    def of(cls, initial: Floats, transition: Floats, log_density: Floats | None, codes: Any, table: Any) -> Problem:
        """Take log densities ``(T, n)``, or codes ``(T,)`` and their table ``(N, n, n_codes)``."""
        n = initial.shape[1]
        first, step = _raised(initial), _raised(transition)
        raised = np.any(first != initial, axis=1) | np.any(step != transition, axis=(1, 2))
        smallest = transition.min(axis=(1, 2), initial=1.0)
        with np.errstate(divide="ignore", over="ignore"):
            mixing = 1.0 / smallest.astype(np.float64)
        if log_density is not None:
            values, symbols, n_codes = _owned(log_density, np.float64), np.empty(0, np.int64), 0
        else:
            values, symbols, n_codes = _raised(table.swapaxes(1, 2)), _owned(codes, np.int64), table.shape[2]
        exact = np.array(transition, dtype=np.float64).reshape(-1)
        return cls(values.reshape(-1), symbols, n_codes, first.reshape(-1), step.reshape(-1), exact, n, mixing, raised)


class Targets(NamedTuple):
    """Where expectations are written, flat: empty where nobody wants them."""

    first: Floats
    transitions: Floats
    visits: Floats
    states: Floats
    symbols: Floats


class _Group(NamedTuple):
    """Consecutive groups of one form, for one thread."""

    form: int
    slots: Floats
    first: int
    last: int
    longest: int


def scaled_log_likelihoods(problem: Problem, runs: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the log probability of every run, and whether it is sound."""
    found = _pass(problem, runs, None)
    log_prob, least, low = found[:, 0], found[:, 1], found[:, 2]
    model, length = runs[2], runs[1]
    sound = least >= 1 / TRUSTED
    # Nothing was raised; or every state leads to every other, and their backward weights are within a known ratio.
    # Twice the floor, because sums and quotients were rounded.
    exact = (low >= 2 * FLOOR) & ~problem.raised[model]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        bounded = problem.mixing[model] / least <= TRUSTED
    doubtful = np.flatnonzero(sound & ~exact & ~bounded & (length > 0))
    room = max(1, GROUP_NUMBERS // problem.n**2)
    for begin in range(0, len(doubtful), room):
        some = doubtful[begin : begin + room]
        part = tuple(x[some] for x in runs)
        nothing = np.empty(0)
        size = len(some) * problem.n
        targets = Targets(np.empty(size), np.empty(size * problem.n), np.empty(size), nothing, nothing)
        sound[some] = _sound(_pass(problem, part, targets))  # type: ignore[arg-type]
    return log_prob.copy(), sound


def scaled_expectations(
    problem: Problem, runs: tuple[Floats, Floats, Floats], targets: Targets
) -> tuple[Floats, Floats]:
    """Write expectations; return the log probability of every run, and whether all of it is sound."""
    found = _pass(problem, runs, targets)
    return found[:, 0].copy(), _sound(found)


def _sound(found: Floats) -> Floats:
    """Tell where the sums are in range and the backward weights leave what was raised without effect; not for NaN."""
    return (found[:, 1] >= 1 / TRUSTED) & (found[:, 3] <= TRUSTED)


def _pass(problem: Problem, runs: tuple[Floats, Floats, Floats], targets: Targets | None) -> Floats:
    """Run one pass, or both where there are targets; return what was found, ``(S, FOUND)``."""
    n, length = problem.n, runs[1]
    found = np.zeros((len(length), FOUND))
    found[:, 1] = 1.0  # an empty run is sound
    found[:, 2] = 1.0
    flat = found.reshape(-1)
    items, seconds = _groups(n, length, history=targets is not None)

    def work(item: _Group) -> None:
        scratch = aligned((work_size(item.form, n),))
        given = (
            problem.values, problem.codes, problem.n_codes, problem.initial, problem.transition, *runs, item.slots,
            item.first, item.last, n, scratch, flat,
        )  # fmt: skip
        if targets is None:
            forward_pass(item.form)(*given)
        else:
            history = aligned((history_size(item.form, item.longest),))
            both_passes(item.form)(*given, history, problem.exact, *targets)

    share(work, items, seconds)
    return found


def _groups(n: int, length: Floats, history: bool) -> tuple[list[_Group], float]:
    """Cut runs into groups and groups into pieces of work; the forms have the same bits, so any choice is right.

    Eight runs of a group take as long as the longest. Runs of one's own take about a third of that each, if n is small.
    """
    order = np.argsort(-length, kind="stable")
    order = order[: np.count_nonzero(length)]
    blocks = -(-n // LANES)
    alone = order
    items: list[_Group] = []
    total = 0.0
    if n <= LANE_STATES:
        slots = np.full((-(-len(order) // LANES), LANES), -1)
        slots.flat[: len(order)] = order
        lengths = np.where(slots < 0, 0, length[slots])
        together = lengths.sum(axis=1) >= (2.5 + n / 6) * lengths[:, 0]
        if history:
            together &= lengths[:, 0] * n * LANES * 2 <= GROUP_NUMBERS
        alone = slots[~together].reshape(-1)
        alone = alone[alone >= 0]
        lanes = np.ascontiguousarray(slots[together]).reshape(-1)
        total += _cut(items, n, lanes, lengths[together, 0], (60 + 2.5 * n * n) * 1e-9)
    total += _cut(items, -blocks, np.ascontiguousarray(alone), length[alone], (60 + 5 * n * blocks) * 1e-9)
    return items, total


def _cut(items: list[_Group], form: int, slots: Floats, longest: Floats, step: float) -> float:
    """Add pieces of about `CHUNK_SECONDS`; return the seconds of all. It depends on the runs alone."""
    if not len(longest):
        return 0.0
    seconds = np.cumsum(longest * step)
    marks = np.searchsorted(seconds, np.arange(CHUNK_SECONDS, seconds[-1], CHUNK_SECONDS))
    ends = np.unique(np.append(marks, len(longest)))
    for first, last in zip(np.append(0, ends[:-1]), ends, strict=True):
        if last > first:
            items.append(_Group(form, slots, int(first), int(last), int(longest[first:last].max())))
    return float(seconds[-1])


def _raised(x: Floats) -> Floats:
    """Copy probabilities, those between zero and the floor raised to it."""
    x = np.array(x, dtype=np.float64, order="C")
    x[(x > 0) & (x < FLOOR)] = FLOOR
    return x


def _owned(x: Any, dtype: Any) -> Floats:
    """Make an array contiguous and writable: Numba would compile anew for one that is not."""
    return np.require(x, dtype, ["C", "W"])
