"""Forward and backward of one sequence in numbers of unlimited range: slower, but always correct.

Used for sequences that the scaled recursions of `mercer.compiled.forward` cannot compute. Unlike logarithms, such
numbers (`mercer.compiled.ranged`) keep their digits over a hundred thousand steps. Likelihoods are ``lv 2^(512 lk)``,
``(L, n)`` with L >= 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.ranged import LOG_RADIX, NEVER, plain, plus, split, tidy, times


@compiled
def _product(v: Floats, k: Any, mv: Floats, mk: Any, new_v: Floats, new_k: Any) -> None:  # pragma: no cover - compiled
    """Multiply a row by a matrix."""
    for j in range(v.size):
        total, exponent = 0.0, NEVER
        for i in range(v.size):
            term, power = times(v[i], k[i], mv[i, j], mk[i, j])
            total, exponent = plus(total, exponent, term, power)
        new_v[j], new_k[j] = tidy(total, exponent)


@compiled
def _weigh(v: Floats, k: Any, lv: Floats, lk: Any, new_v: Floats, new_k: Any) -> None:  # pragma: no cover - compiled
    """Multiply two rows elementwise."""
    for j in range(v.size):
        new_v[j], new_k[j] = times(v[j], k[j], lv[j], lk[j])


@compiled
def _sum(v: Floats, k: Any) -> tuple[float, int]:  # pragma: no cover - compiled
    total, exponent = 0.0, NEVER
    for j in range(v.size):
        total, exponent = plus(total, exponent, v[j], k[j])
    return tidy(total, exponent)


@compiled
def _forward(
    initial: Floats, transition: Floats, lv: Floats, lk: Any, pv: Floats, pk: Any, v: Floats, k: Any
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Run the forward recursion; return the probability of the sequence, zero if it is impossible.

    Writes predictions ``p`` (state weights before the observation) and forward weights, ``(rows, n)``; with two rows,
    observations alternate between them.
    """
    mv, mk = split(transition)
    pv[0], pk[0] = split(initial)
    rows = len(v)
    _weigh(pv[0], pk[0], lv[0], lk[0], v[0], k[0])
    for t in range(1, len(lv)):
        before, at = (t - 1) % rows, t % rows
        _product(v[before], k[before], mv, mk, pv[at], pk[at])
        _weigh(pv[at], pk[at], lv[t], lk[t], v[at], k[at])
        if not v[at].any():
            return 0.0, NEVER
    return _sum(v[(len(lv) - 1) % rows], k[(len(lv) - 1) % rows])


@compiled
def _log(v: float, k: int) -> float:  # pragma: no cover - compiled
    return math.log(v) + k * LOG_RADIX if v > 0.0 else -math.inf


@compiled
def ranged_likelihood(initial: Floats, transition: Floats, lv: Floats, lk: Any) -> float:  # pragma: no cover - compiled
    """Return the log probability of one sequence."""
    n = len(initial)
    total, exponent = _forward(
        initial, transition, lv, lk, np.empty((2, n)), np.empty((2, n), np.int64), np.empty((2, n)),
        np.empty((2, n), np.int64),
    )  # fmt: skip
    return _log(total, exponent)


@compiled
def ranged_posteriors(
    initial: Floats, transition: Floats, lv: Floats, lk: Any, cell: Any, steps: Floats, states: Floats, first: Floats,
    ratios: bool,
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Write posteriors of the steps and, if their arrays are not empty, of the states; return the log probability.

    The posteriors of the step to observation t are added to the matrix ``cell[t]`` of ``steps``; those of the states
    are ``states (L, n)``. Both become zero if the sequence is impossible. If ``ratios``, they are divided by their
    own factors, computed without the division (FK-8): steps by the transition, states by the likelihood, and the first
    state, in ``first (n,)``, by its initial probability.
    """
    length, n = lv.shape
    pv, pk, v, k = (
        np.empty((length, n)), np.empty((length, n), np.int64), np.empty((length, n)), np.empty((length, n), np.int64)
    )  # fmt: skip
    states[:] = 0.0
    steps[:] = 0.0
    total, exponent = _forward(initial, transition, lv, lk, pv, pk, v, k)
    if total == 0.0:
        return -math.inf
    mv, mk = split(transition)
    back_v, back_k = split(transition.T.copy())
    beta_v, beta_k, ahead_v, ahead_k = np.empty(n), np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64)
    beta, power = tidy(1.0 / total, -exponent)
    beta_v[:] = beta
    beta_k[:] = power
    for t in range(length - 1, -1, -1):
        if states.size > 0:
            for i in range(n):
                before, power = (pv[t, i], pk[t, i]) if ratios else (v[t, i], k[t, i])
                states[t, i] = plain(*times(before, power, beta_v[i], beta_k[i]))
        _weigh(beta_v, beta_k, lv[t], lk[t], ahead_v, ahead_k)
        if t == 0:
            for i in range(first.size):
                first[i] = plain(ahead_v[i], ahead_k[i])
            break
        for i in range(n):
            for j in range(n):
                term, more = ahead_v[j], ahead_k[j]
                if not ratios:
                    term, more = times(mv[i, j], mk[i, j], term, more)
                steps[cell[t], i, j] += plain(*times(v[t - 1, i], k[t - 1, i], term, more))
        _product(ahead_v, ahead_k, back_v, back_k, beta_v, beta_k)
    return _log(total, exponent)


@compiled
def ranged_ratios(
    initial: Floats, transition: Floats, likelihood: Floats, offsets: Any, first: Floats, steps: Floats, visits: Floats
) -> None:  # pragma: no cover - compiled
    """Write posteriors divided by their own factors (FK-8); NaN if a sequence is impossible.

    ``likelihood (T, n)`` are floats; sequence s has the rows ``offsets[s]:offsets[s + 1]``. ``first (S, n)`` becomes
    gamma_1 / pi, ``steps (S, n, n)`` the sum over t of xi_t / A, ``visits (T, n)`` gamma_t divided by the likelihood.
    """
    for s in range(len(offsets) - 1):
        rows = slice(offsets[s], offsets[s + 1])
        if rows.start == rows.stop:
            continue
        lv, lk = split(likelihood[rows])
        cell = np.zeros(len(lv), np.int64)
        log = ranged_posteriors(initial, transition, lv, lk, cell, steps[s : s + 1], visits[rows], first[s], True)
        if log == -math.inf:
            first[s] = np.nan
