"""Expected counts of the trajectories of two strings: visits, transitions, matches (MK-5, FK-7)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._native.pairs import general_expected
from mercer.data import Sequences
from mercer.models._forward.interface import share
from mercer.models._pairs.general_operand import GROUP, Tables, grouped, log_kernels
from mercer.models._pairs.general_single import PairExpectations, Parameters


def tables_of(model: Parameters) -> Tables:
    """Convert a model to the parameters of the pair recursions."""
    emission = np.ascontiguousarray(((1 - model.silent)[:, None] * model.letters).T)
    return Tables(emission, model.silent, model.for_two())


def pair_counts(model: Parameters, X: Sequences, first: Floats, second: Floats) -> PairExpectations:
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
    return PairExpectations(
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
    """Run forward-backward over some pairs, several of similar size together."""
    order = which[grouped(first[which], X.lengths[first[which]], X.lengths[second[which]])]

    def work(some: Floats) -> None:
        part = _Sums.zeros(len(some), *found.symbols.shape[1:])
        general_expected(tables.arrays, (X.values, X.offsets), first[some], second[some], part)
        for whole, values in zip(found, part, strict=True):
            whole[some] = values

    n, cells = len(tables.silent), X.lengths[first[which]] * X.lengths[second[which]]
    tasks = [order[begin : begin + GROUP] for begin in range(0, len(order), GROUP)]
    share(work, tasks, float(cells.sum()) * n * n * 8e-9 / GROUP)


def pair_matches(model: Parameters, X: Sequences) -> tuple[Floats, float]:
    """Return the posterior that symbols of the two strings of ``X`` were emitted by one visit, and the log kernel."""
    tables, one = tables_of(model), np.zeros(1, dtype=np.int64)
    value = float(_truth(tables, X, one, one + 1)[0])
    matched = np.zeros((int(X.lengths[0]), int(X.lengths[1])))
    if value == -np.inf:
        raise ValueError("The two sequences have joint probability zero, so their matches are undefined.")
    if len(X.values):
        found = _Sums.zeros(1, *model.letters.shape)
        general_expected(tables.arrays, (X.values, X.offsets), one, one + 1, found, matched)
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
