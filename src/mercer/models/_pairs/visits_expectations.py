"""What is expected of the trajectories of two strings: visits, transitions, matches (MK-5, FK-7).

Forward as in `mercer.models._pairs.visits_loops`, backward the same way. Rows of the forward table are kept at every
so many rows and computed again in between, so that the memory grows with the length to the power 3/2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.models._forward.work import share
from mercer.models._pairs.visits_operand import LANE_STATES, LANES, Tables, groups, log_kernels, side
from mercer.models._pairs.visits_single import Expected, Parameters

__all__ = ["pair_counts", "pair_matches", "tables_of"]

GROUP_NUMBERS = 1 << 24
"""Pairs so long that eight of them would keep more weights than this go one by one."""


def tables_of(model: Parameters) -> Tables:
    """Write a model as the recursions of pairs want it."""
    emission = np.ascontiguousarray(((1 - model.silent)[:, None] * model.letters).T)
    return Tables(emission, model.silent, model.for_two())


def pair_counts(model: Parameters, X: Sequences, first: Floats, second: Floats) -> Expected:
    """Return what is expected of the trajectories that wrote the strings ``first[p]`` and ``second[p]``, for every p.

    Pairs that are impossible have the log probability -inf, and zeros.
    """
    tables, n, size = tables_of(model), len(model.silent), len(first)
    value = _truth(tables, X, first, second)
    found = _Sums(
        np.zeros((size, n + 1)),
        np.zeros((size, n, n + 1)),
        np.zeros((size, n, model.letters.shape[1])),
        np.zeros((size, n)),
        np.full(size, -np.inf),
    )
    possible = value > -np.inf
    nothing = X.lengths[first] + X.lengths[second] == 0
    found.start[nothing & possible, n] = 1 / tables.pairs.start[n] if tables.pairs.start[n] > 0 else 0.0
    found.value[nothing] = value[nothing]
    _add_up(tables, X, first, second, np.flatnonzero(possible & ~nothing), found)
    _check_range(X, first, second, value, found.value)
    counts = tables.pairs.unfold(found.start, found.step)
    return Expected(
        value,
        model.initial * counts.initial,
        model.transition * counts.transition,
        found.symbols,
        found.once + 2 * counts.silent,
    )


class _Sums(NamedTuple):
    """What the loops write: gradients in the eliminated model, numbers, and log kernels."""

    start: Floats
    step: Floats
    symbols: Floats
    once: Floats
    value: Floats


def _add_up(tables: Tables, X: Sequences, first: Floats, second: Floats, which: Floats, found: _Sums) -> None:
    """Run forward and backward over some pairs: eight at once, or one by one where that takes too much memory."""
    from mercer.models._pairs.visits_backward import pair_sweep
    from mercer.models._pairs.visits_backward_lanes import lane_counts

    codes, offsets = side(X)
    first, second = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    emission, silent, begin, inner, stop, _ = tables.arrays
    n, nobody = len(silent), np.zeros((0, 0))
    tall, wide = X.lengths[first[which]], X.lengths[second[which]]
    room = np.sqrt(tall + 1.0) * (wide + 2.0) * (n + 1) * 2 * LANES
    alone = (room > GROUP_NUMBERS) | (n > LANE_STATES)
    slots = groups(first[which[~alone]], tall[~alone], wide[~alone])
    filled = np.append(which[~alone], -1)  # where a slot is -1, so is the pair

    def single(p: int) -> None:
        s, t = (codes[offsets[i] : offsets[i + 1]] for i in (first[p], second[p]))
        found.value[p] = pair_sweep(
            s, t, emission, silent, begin, inner.reshape(n, n), stop, *(part[p] for part in found[:4]), nobody
        )

    def eight(some: Floats) -> None:
        lane_counts(n)(filled[some], first, second, codes, offsets, emission, silent, begin, inner, stop, *found)

    seconds = n * n * 1e-9
    share(eight, list(slots), float((tall * wide)[~alone].sum()) * seconds)
    share(single, which[alone].tolist(), float((tall * wide)[alone].sum()) * 5 * seconds)


def pair_matches(model: Parameters, X: Sequences) -> tuple[Floats, float]:
    """Return the posterior that symbols of the two strings of ``X`` come from one visit, and the log kernel."""
    from mercer.models._pairs.visits_backward import pair_sweep

    tables, n = tables_of(model), len(model.silent)
    one = np.zeros(1, dtype=np.int64)
    value = float(_truth(tables, X, one, one + 1)[0])
    matched = np.zeros((int(X.lengths[0]), int(X.lengths[1])))
    if value == -np.inf:
        raise ValueError("the two sequences have probability zero together, so that nothing is known of their matches")
    if len(X.values):
        codes, offsets = side(X)
        s, t = codes[: offsets[1]], codes[offsets[1] :]
        emission, silent, begin, inner, stop, _ = tables.arrays
        start, step, symbols = np.zeros(n + 1), np.zeros((n, n + 1)), np.zeros((n, model.letters.shape[1]))
        again = pair_sweep(
            s, t, emission, silent, begin, inner.reshape(n, n), stop, start, step, symbols, np.zeros(n), matched
        )
        _check_range(X, one, one + 1, np.array([value]), np.array([again]))
    return matched, value


def _truth(tables: Tables, X: Sequences, first: Floats, second: Floats) -> Floats:
    """Log kernels, in pieces for threads."""
    pieces = [slice(begin, begin + 64) for begin in range(0, len(first), 64)]
    value = np.empty(len(first))

    def work(some: slice) -> None:
        value[some] = log_kernels(tables, X, X, first[some], second[some])

    cells = float((X.lengths[first] * X.lengths[second]).sum())
    share(work, pieces, cells * len(tables.silent) * 2e-9)
    return value


def _check_range(X: Sequences, first: Floats, second: Floats, value: Floats, again: Floats) -> None:
    """Raise where a trajectory that decides was lost below the floating range."""
    known = value > -np.inf
    off = np.zeros(len(value), dtype=bool)
    off[known] = ~(np.abs(again[known] - value[known]) <= 1e-7 * np.maximum(1.0, np.abs(value[known]) * 1e-3))
    if off.any():
        p = int(np.flatnonzero(off)[0])
        raise ArithmeticError(
            f"what {X.name(first[p])} and {X.name(second[p])} expect of the model leaves the floating range "
            f"(log kernel {value[p]:.6g}): raise its smallest probabilities, as smoothing does in a fit"
        )
