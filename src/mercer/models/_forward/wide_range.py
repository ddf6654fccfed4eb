"""Forward and backward of one sequence with numbers that cannot leave their range: slow, and right everywhere.

A weight is a mantissa and an exponent of its own, both float64: m 2^e. Unlike logarithms, such numbers keep
their digits over a hundred thousand steps. What the scaled recursions cannot answer for comes here. These loops are
compiled by Numba; `mercer.models._forward.interface` imports this file when it needs it.
"""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

__all__ = ["forward_all", "from_logs", "wide_expectations", "wide_likelihood"]


_LOG_2 = math.log(2.0)
# log 2 in two parts, the first of so few bits that its products with whole numbers are exact
_LOG_2_HIGH, _LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_NEVER = -1e300
"""Exponent of zero: below all others, and sums of two of them are no infinities."""


@compiled
def from_logs(logs: Floats) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Mantissas and exponents of numbers that are given by their logarithms, two axes."""
    mantissa, exponent = np.zeros(logs.shape), np.full(logs.shape, _NEVER)
    for t in range(logs.shape[0]):
        for j in range(logs.shape[1]):
            if logs[t, j] > -np.inf:
                whole = np.rint(logs[t, j] / _LOG_2)
                mantissa[t, j] = math.exp((logs[t, j] - whole * _LOG_2_HIGH) - whole * _LOG_2_LOW)
                exponent[t, j] = whole
    return mantissa, exponent


@compiled
def _split(value: float) -> tuple[float, float]:  # pragma: no cover - compiled
    if value == 0.0:
        return 0.0, _NEVER
    mantissa, exponent = math.frexp(value)
    return mantissa, float(exponent)


@compiled
def _split_all(values: Floats) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    mantissa, exponent = np.empty(values.size), np.empty(values.size)
    flat = values.ravel()
    for k in range(values.size):
        mantissa[k], exponent[k] = _split(flat[k])
    return mantissa.reshape(values.shape), exponent.reshape(values.shape)


@compiled
def _scaled(mantissa: float, exponent: float) -> float:  # pragma: no cover - compiled
    """Return m 2^e as a plain number, zero where it is too small for one."""
    if mantissa == 0.0 or exponent < -1100.0:
        return 0.0
    return math.ldexp(mantissa, int(exponent))


@compiled
def _sum(mantissa: Floats, exponent: Floats) -> tuple[float, float]:  # pragma: no cover - compiled
    top = _NEVER
    for k in range(mantissa.size):
        if mantissa[k] > 0.0:
            top = max(top, exponent[k])
    total = 0.0
    for k in range(mantissa.size):
        total += _scaled(mantissa[k], exponent[k] - top)
    m, e = _split(total)
    return m, e + top if total > 0.0 else _NEVER


@compiled
def _begin(m: Floats, e: Floats, initial: Floats, lm: Floats, le: Floats) -> None:  # pragma: no cover - compiled
    for j in range(m.size):
        a, b = _split(initial[j])
        m[j], e[j] = a * lm[j], b + le[j]


@compiled
def _step(
    m: Floats, e: Floats, am: Floats, ae: Floats, lm: Floats, le: Floats, new_m: Floats, new_e: Floats
) -> bool:  # pragma: no cover - compiled
    """Go to the next observation; return whether it is possible."""
    n = m.size
    terms_m, terms_e = np.empty(n), np.empty(n)
    possible = False
    for j in range(n):
        for i in range(n):
            terms_m[i], terms_e[i] = m[i] * am[i, j], e[i] + ae[i, j]
        value, exponent = _sum(terms_m, terms_e)
        value, more = _split(value * lm[j])
        new_m[j], new_e[j] = value, exponent + le[j] + more if value > 0.0 else _NEVER
        possible |= value > 0.0
    return possible


@compiled
def wide_likelihood(initial: Floats, transition: Floats, lm: Floats, le: Floats) -> float:  # pragma: no cover
    """Log probability of one sequence whose likelihoods are ``lm 2^le``, ``(L, n)``, L >= 1."""
    length, n = lm.shape
    am, ae = _split_all(transition)
    m, e, new_m, new_e = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    _begin(m, e, initial, lm[0], le[0])
    for t in range(1, length):
        if not _step(m, e, am, ae, lm[t], le[t], new_m, new_e):
            return -np.inf
        m, e, new_m, new_e = new_m, new_e, m, e
    total, exponent = _sum(m, e)
    return math.log(total) + exponent * _LOG_2 if total > 0.0 else -np.inf


@compiled
def forward_all(
    initial: Floats, am: Floats, ae: Floats, lm: Floats, le: Floats, m: Floats, e: Floats
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Write the forward probabilities ``m 2^e``, ``(L, n)``; return their last sum, 0 if the sequence is impossible."""
    _begin(m[0], e[0], initial, lm[0], le[0])
    for t in range(1, len(lm)):
        if not _step(m[t - 1], e[t - 1], am, ae, lm[t], le[t], m[t], e[t]):
            return 0.0, 0.0
    return _sum(m[-1], e[-1])


@compiled
def wide_expectations(
    initial: Floats, transition: Floats, lm: Floats, le: Floats, states: Floats, transitions: Floats
) -> float:  # pragma: no cover - compiled
    """Write posteriors of the states ``(L, n)`` and expected transitions ``(n, n)``; return the log probability.

    Both become zero where the sequence is impossible.
    """
    length, n = lm.shape
    am, ae = _split_all(transition)
    m, e = np.empty((length, n)), np.empty((length, n))
    states[:] = 0.0
    transitions[:] = 0.0
    total, exponent = forward_all(initial, am, ae, lm, le, m, e)
    if total == 0.0:
        return -np.inf
    beta_m, beta_e, new_m, new_e = np.ones(n), np.zeros(n), np.empty(n), np.empty(n)
    terms_m, terms_e = np.empty(n), np.empty(n)
    for t in range(length - 1, -1, -1):
        for i in range(n):
            states[t, i] = _scaled(m[t, i] * beta_m[i] / total, e[t, i] + beta_e[i] - exponent)
        if t == 0:
            break
        for i in range(n):
            for j in range(n):
                terms_m[j], terms_e[j] = am[i, j] * (lm[t, j] * beta_m[j]), ae[i, j] + le[t, j] + beta_e[j]
                weight = m[t - 1, i] * terms_m[j] / total
                transitions[i, j] += _scaled(weight, e[t - 1, i] + terms_e[j] - exponent)
            new_m[i], new_e[i] = _sum(terms_m, terms_e)
        beta_m, beta_e, new_m, new_e = new_m, new_e, beta_m, beta_e
    return math.log(total) + exponent * _LOG_2
