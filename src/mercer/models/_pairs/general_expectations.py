"""Expected counts of the trajectories of two strings: visits, transitions, matches (MK-5, FK-7)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.models._forward.work import share
from mercer.models._pairs.general_operand import GROUP_NUMBERS, Tables, groups, log_kernels, side
from mercer.models._pairs.general_single import Expected, Parameters


def tables_of(model: Parameters) -> Tables:
    """Convert a model to the parameters of the pair recursions."""
    emission = np.ascontiguousarray(((1 - model.silent)[:, None] * model.letters).T)
    return Tables(emission, model.silent, model.for_two())


def pair_counts(model: Parameters, X: Sequences, first: Floats, second: Floats) -> Expected:
    """Return expected counts of the trajectories that emit the strings ``first[p]`` and ``second[p]``, for each p.

    Impossible pairs have log probability -inf and zero counts.
    """
    tables, n, size = tables_of(model), len(model.silent), len(first)
    value = _truth(tables, X, first, second)
    found = _Sums.zeros(size, *model.letters.shape)
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
    """Output of the loops: gradients in the eliminated model, counts, and log kernels."""

    start: Floats
    step: Floats
    symbols: Floats
    once: Floats
    value: Floats

    @classmethod
    def zeros(cls, size: int, n: int, codes: int) -> _Sums:
        """Allocate zeros for ``size`` pairs under a model of n states."""
        start, step, symbols, once = map(np.zeros, ((size, n + 1), (size, n, n + 1), (size, n, codes), (size, n)))
        return cls(start, step, symbols, once, np.full(size, -np.inf))


def _add_up(tables: Tables, X: Sequences, first: Floats, second: Floats, which: Floats, found: _Sums) -> None:
    """Run forward-backward over some pairs: in SIMD lanes, or one by one if that needs too much memory."""
    from mercer.compiled.pairs_general import LANES
    from mercer.compiled.pairs_general_expected import expected_sweep

    first, second = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    *arrays, _ = tables.arrays
    n, codes, nothing = len(tables.silent), side(X), np.empty((0, 0))
    tall, wide = X.lengths[first[which]], X.lengths[second[which]]
    alone = np.sqrt(tall + 1.0) * (wide + 2.0) * (n + 1) * 2 * LANES > GROUP_NUMBERS
    for lanes, some in ((LANES, ~alone), (1, alone)):
        sweep = expected_sweep(n, lanes)

        def work(slots: Floats, sweep: Any = sweep) -> None:
            sweep(slots, first, second, *codes, *arrays, *found, nothing)

        slots = groups(first[which[some]], tall[some], wide[some], lanes)
        seconds = float((tall * wide)[some].sum()) * n * n * 8e-9 / lanes
        share(work, list(np.append(which[some], -1)[slots]), seconds)


def pair_matches(model: Parameters, X: Sequences) -> tuple[Floats, float]:
    """Return the posterior that symbols of the two strings of ``X`` were emitted by one visit, and the log kernel."""
    from mercer.compiled.pairs_general_expected import expected_sweep

    tables, one = tables_of(model), np.zeros(1, dtype=np.int64)
    value = float(_truth(tables, X, one, one + 1)[0])
    matched = np.zeros((int(X.lengths[0]), int(X.lengths[1])))
    if value == -np.inf:
        raise ValueError("The two sequences have joint probability zero, so their matches are undefined.")
    if len(X.values):
        found = _Sums.zeros(1, *model.letters.shape)
        *arrays, _ = tables.arrays
        expected_sweep(len(model.silent), 1)(one, one, one + 1, *side(X), *arrays, *found, matched)
        _check_range(X, one, one + 1, np.array([value]), found.value)
    return matched, value


def _truth(tables: Tables, X: Sequences, first: Floats, second: Floats) -> Floats:
    """Log kernels, split into pieces for threads."""
    pieces = [slice(begin, begin + 64) for begin in range(0, len(first), 64)]
    value = np.empty(len(first))

    def work(some: slice) -> None:
        value[some] = log_kernels(tables, X, X, first[some], second[some])

    cells = float((X.lengths[first] * X.lengths[second]).sum())
    share(work, pieces, cells * len(tables.silent) * 2e-9)
    return value


def _check_range(X: Sequences, first: Floats, second: Floats, value: Floats, again: Floats) -> None:
    """Raise if a trajectory that matters underflowed."""
    known = value > -np.inf
    off = np.zeros(len(value), dtype=bool)
    off[known] = ~(np.abs(again[known] - value[known]) <= 1e-7 * np.maximum(1.0, np.abs(value[known]) * 1e-3))
    if off.any():
        p = int(np.flatnonzero(off)[0])
        raise ArithmeticError(
            f"The expected counts of {X.name(first[p])} and {X.name(second[p])} under- or overflow (log kernel "
            f"{value[p]:.6g}). Raise the smallest probabilities of the model, as smoothing does in a fit."
        )
