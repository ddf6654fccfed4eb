"""Scaled forward-backward recursions of many runs: assignment to lanes and threads, and soundness checks.

The compiled loops are in `mercer.compiled.forward`. `mercer.models._forward.interface` calls this module first and
repeats unsound runs with `mercer.compiled.forward_ranged`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import is_compiled
from mercer.compiled.forward import FOUND, TRUSTED, Sink, history_size, passes, work_size
from mercer.compiled.forward_form import Form
from mercer.compiled.forward_sinks import EXPECTATIONS, STEPS, expectations_room, steps_room
from mercer.compiled.forward_steps import FLOOR
from mercer.compiled.lanes import aligned
from mercer.compiled.layout import owned
from mercer.models._forward.interface import Runs
from mercer.models._forward.work import CHUNK_SECONDS, share

LANE_STATES = 20
"""Runs of models with more states are processed one by one, because a single run fills the lanes."""
LANES_AFTER_SECONDS = 0.25
"""Lanes of one number of states are compiled when they would have saved this time: so much work usually comes again."""
GROUP_NUMBERS = 8_000_000
"""Runs are processed one by one if a group of them would store more weights than this."""


class Problem(NamedTuple):
    """Models and evidence for the compiled loops: flat, contiguous, writable, positive values raised to the floor."""

    loop: tuple[Any, ...]
    """Values and codes of the evidence, number of codes, initial, transition, exact transition, number of states."""
    initial: Floats
    """``(N, n)``."""
    transition: Floats
    """``(N, n, n)``."""

    @classmethod
    def of(cls, initial: Floats, transition: Floats, log_density: Floats | None, codes: Any, table: Any) -> Problem:
        """Take log densities ``(T, n)``, or codes ``(T,)`` and their table ``(N, n, n_codes)``."""
        if log_density is not None:
            values, symbols, n_codes = owned(log_density, np.float64), np.empty(0, np.int64), 0
        else:
            values, symbols, n_codes = _raised(table.swapaxes(1, 2)), owned(codes, np.int64), table.shape[2]
        exact = np.array(transition, dtype=np.float64)
        arrays = (x.reshape(-1) for x in (_raised(initial), _raised(transition), exact))
        return cls((values.reshape(-1), symbols, n_codes, *arrays, initial.shape[1]), initial, transition)

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.initial.shape[1])

    @property
    def raised(self) -> Floats:
        """Whether a probability of the model was raised to the floor, ``(N,)``."""
        first, step = ((x > 0) & (x < FLOOR) for x in (self.initial, self.transition))
        return np.any(first, axis=1) | np.any(step, axis=(1, 2))

    @property
    def mixing(self) -> Floats:
        """Bound on the ratio of two backward weights in every model, ``(N,)``: inf if a transition is impossible."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1.0 / self.transition.min(axis=(1, 2), initial=1.0).astype(np.float64)


class Targets(NamedTuple):
    """Flat output arrays of expectations; empty if not requested."""

    first: Floats
    transitions: Floats
    visits: Floats
    states: Floats
    symbols: Floats


class _Group(NamedTuple):
    """Consecutive groups of one form, for one thread."""

    form: Form
    slots: Floats
    first: int
    last: int
    longest: int


def scaled_log_likelihoods(problem: Problem, runs: Runs) -> tuple[Floats, Floats]:
    """Return the log probability of every run, and whether it is accurate."""
    found = _sweep(problem, runs)
    log_prob, least, low = found[:, 0], found[:, 1], found[:, 2]
    model, length = runs.model, runs.length
    sound = least >= 1 / TRUSTED
    # Accurate if nothing was raised, or if all transitions are possible and bound the ratio of backward weights.
    # The bound is twice the floor because sums and quotients were rounded.
    exact = (low >= 2 * FLOOR) & ~problem.raised[model]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        bounded = problem.mixing[model] / least <= TRUSTED
    doubtful = np.flatnonzero(sound & ~exact & ~bounded & (length > 0))
    room = max(1, GROUP_NUMBERS // problem.n**2)
    for begin in range(0, len(doubtful), room):
        some = doubtful[begin : begin + room]
        part = Runs(*(x[some] for x in runs))
        nothing = np.empty(0)
        size = len(some) * problem.n
        targets = Targets(np.empty(size), np.empty(size * problem.n), np.empty(size), nothing, nothing)
        _, sound[some] = scaled_expectations(problem, part, targets)
    return log_prob.copy(), sound


def scaled_expectations(problem: Problem, runs: Runs, targets: Targets) -> tuple[Floats, Floats]:
    """Write expectations; return the log probability of every run, and whether its results are accurate."""
    given = (*targets, *problem.loop[1:3])  # codes and their number
    found = _sweep(problem, runs, EXPECTATIONS, given, lambda group: expectations_room(group.form, problem.n))
    return found[:, 0].copy(), _sound(found)


def scaled_steps(problem: Problem, runs: Runs, cell: Floats, ends: Floats, out: Floats) -> tuple[Floats, Floats]:
    """Write mean posteriors of the steps of every cell; return log probabilities and whether they are accurate.

    Parameters
    ----------
    cell : ndarray of int of shape (T,)
        Cell of the step into each observation, counted within its run.
    ends : ndarray of int of shape (S + 1,)
        Run s has the cells ``ends[s]:ends[s + 1]``.
    out : ndarray of shape (number of cells, n, n)
        Output.
    """
    counts = np.append(np.diff(ends), 0)  # the last entry is for lanes without a run

    def room(group: _Group) -> int:
        width = group.form.runs
        taken = group.slots[group.first * width : group.last * width].reshape(-1, width)
        return steps_room(group.form, problem.n, int(counts[taken].sum(axis=1).max()))

    found = _sweep(problem, runs, STEPS, (cell, ends, out), room)
    return found[:, 0].copy(), _sound(found)


def _sound(found: Floats) -> Floats:
    """Whether sums are in range and backward weights bound the effect of raised values; False for NaN."""
    return (found[:, 1] >= 1 / TRUSTED) & (found[:, 3] <= TRUSTED)


def _sweep(
    problem: Problem,
    runs: Runs,
    sink: Sink | None = None,
    given: tuple[Any, ...] = (),
    room: Callable[[_Group], int] | None = None,
) -> Floats:
    """Run the forward pass, and the backward pass if there is a sink; return results of shape ``(S, FOUND)``."""
    n, history = problem.n, sink is not None
    last = n if sink is STEPS else 0
    found = np.zeros((len(runs.length), FOUND))
    found[:, 1] = 1.0  # an empty run is sound
    found[:, 2] = 1.0
    flat = found.reshape(-1)
    types = (*problem.loop, *runs, runs.start, 0, 0, flat, flat, flat, flat, given)
    lanes = n <= LANE_STATES and _lanes_pay(n, sink, last, int(runs.length.sum()), types)
    if (n, history, lanes) not in runs.plans:
        runs.plans[n, history, lanes] = _groups(n, runs.length, history, lanes)
    items, seconds = runs.plans[n, history, lanes]

    def work(item: _Group) -> None:
        scratch = aligned((work_size(item.form, n),))
        kept = aligned((history_size(item.form, item.longest, history),))
        own = aligned((0 if room is None else room(item),))
        passes(item.form, sink, last)(
            *problem.loop, *runs, item.slots, item.first, item.last, scratch, kept, own, flat, given
        )

    share(work, items, seconds)
    return found


_saved: dict[tuple[int, Sink | None], float] = {}
"""Seconds that the compiled lanes of some number of states would have saved so far; infinite if they are compiled."""


def _lanes_pay(n: int, sink: Sink | None, last: int, observations: int, types: tuple[Any, ...]) -> bool:
    """Whether to put several runs of n states side by side, which is compiled for n; a row serves several n.

    Code that is on disk is used at once. Other code is compiled when there is enough work for it. All forms give the
    same bits.
    """
    saved, key = _saved.get((n, sink), 0.0), (n, sink)
    if key not in _saved and is_compiled(passes(Form.together(n), sink, last), types):
        saved = np.inf
    else:
        saved += observations * (_row_step(n) - _lanes_step(n) / Form.together(n).lanes)
    _saved[key] = saved
    return saved > LANES_AFTER_SECONDS


def _row_step(n: int) -> float:
    """Return the approximate seconds of one observation of a row."""
    return (60 + 5 * n * Form.alone(n).vectors) * 1e-9


def _lanes_step(n: int) -> float:
    """Return the approximate seconds of one observation of each of the runs in lanes."""
    return (60 + 2.5 * n * n) * 1e-9


def _groups(n: int, length: Floats, history: bool, lanes: bool) -> tuple[list[_Group], float]:
    """Partition runs into groups and groups into pieces of work; all forms give the same bits, so any choice is right.

    A group takes as long as its longest run, so few runs or runs of very different lengths are processed one by one.
    """
    order = np.argsort(-length, kind="stable")
    order = order[: np.count_nonzero(length)]
    single = Form.alone(n)
    alone = order
    items: list[_Group] = []
    total = 0.0
    if lanes:
        form = Form.together(n)
        slots = np.full((-(-len(order) // form.lanes), form.lanes), -1)
        slots.flat[: len(order)] = order
        lengths = np.where(slots < 0, 0, length[slots])
        together = lengths.sum(axis=1) >= form.lanes * (0.3 + n / 48) * lengths[:, 0]
        if history:
            together &= lengths[:, 0] * form.size * 2 <= GROUP_NUMBERS
        alone = slots[~together].reshape(-1)
        alone = alone[alone >= 0]
        side_by_side = np.ascontiguousarray(slots[together]).reshape(-1)
        total += _cut(items, form, side_by_side, lengths[together, 0], _lanes_step(n))
    total += _cut(items, single, np.ascontiguousarray(alone), length[alone], _row_step(n))
    return items, total


def _cut(items: list[_Group], form: Form, slots: Floats, longest: Floats, step: float) -> float:
    """Add pieces of about `CHUNK_SECONDS`; return the total in seconds. The cut depends on the runs only."""
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
    """Copy probabilities; positive ones below the floor are raised to it."""
    x = np.array(x, dtype=np.float64, order="C")
    x[(x > 0) & (x < FLOOR)] = FLOOR
    return x
