"""The pair recursion of visits with numbers that cannot leave their range: slow, and right everywhere (MK-5).

Every weight is a mantissa and an exponent of its own. What `mercer.models._pairs.visits_loops` cannot answer for comes
here: models with zeros, in which a weight may be smaller than its neighbours by any factor and yet decide.
"""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

__all__ = ["wide_sweep"]

_LOG_2 = math.log(2.0)
_NEVER = -1e300


@compiled
def _split(values: Floats) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Mantissas and exponents, two axes."""
    mantissa, exponent = np.zeros(values.shape), np.full(values.shape, _NEVER)
    for a in range(values.shape[0]):
        for c in range(values.shape[1]):
            if values[a, c] > 0.0:
                m, e = math.frexp(values[a, c])
                mantissa[a, c], exponent[a, c] = m, e
    return mantissa, exponent


@compiled
def _sum(mantissa: Floats, exponent: Floats, count: int) -> tuple[float, float]:  # pragma: no cover - compiled
    """Add the first numbers m 2^e, relative to the largest exponent."""
    top = _NEVER
    for k in range(count):
        if mantissa[k] > 0.0:
            top = max(top, exponent[k])
    total = 0.0
    for k in range(count):
        if mantissa[k] > 0.0 and exponent[k] - top > -1000.0:
            total += math.ldexp(mantissa[k], int(exponent[k] - top))
    if total == 0.0:
        return 0.0, _NEVER
    m, e = math.frexp(total)
    return m, e + top


@compiled
def wide_sweep(
    first: Floats, second: Floats, codes: Floats, offsets: Floats, other: Floats, ends: Floats,
    table: Floats, silent: Floats, start: Floats, step: Floats, stop: Floats, empty: float, value: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write the logarithm of every pair, ``(P,)``; arguments as those of `visits_loops.plain_sweep`."""
    n = len(start)
    emits_m, emits_e = _split(table)
    silent_m, silent_e = _split(silent.reshape(1, n))
    start_m, start_e = _split(start.reshape(1, n))
    step_m, step_e = _split(step.reshape(n, n))
    stop_m, stop_e = _split(stop.reshape(1, n))
    terms_m, terms_e = np.zeros(max(n, 3)), np.zeros(max(n, 3))
    for pair in range(len(first)):
        s, t = (
            codes[offsets[first[pair]] : offsets[first[pair] + 1]],
            other[ends[second[pair]] : ends[second[pair] + 1]],
        )
        value[pair] = empty
        m, e = np.zeros((2, len(t) + 1, n)), np.full((2, len(t) + 1, n), _NEVER)
        g_m, g_e = np.zeros(n), np.zeros(n)
        for i in range(len(s) + 1):
            new, old = i % 2, 1 - i % 2
            for j in range(len(t) + 1):
                if i + j == 0:
                    m[0, 0], e[0, 0] = start_m[0], start_e[0]
                    continue
                for a in range(n):
                    terms_m[:3] = 0.0
                    if i > 0:
                        here_m, here_e = emits_m[s[i - 1], a], emits_e[s[i - 1], a]
                        terms_m[0] = m[old, j, a] * (here_m * silent_m[0, a])
                        terms_e[0] = e[old, j, a] + here_e + silent_e[0, a]
                    if j > 0:
                        there_m, there_e = emits_m[t[j - 1], a], emits_e[t[j - 1], a]
                        terms_m[1] = m[new, j - 1, a] * (there_m * silent_m[0, a])
                        terms_e[1] = e[new, j - 1, a] + there_e + silent_e[0, a]
                    if i > 0 and j > 0:
                        terms_m[2] = m[old, j - 1, a] * (here_m * there_m)
                        terms_e[2] = e[old, j - 1, a] + (here_e + there_e)
                    g_m[a], g_e[a] = _sum(terms_m, terms_e, 3)
                for c in range(n):
                    for a in range(n):
                        terms_m[a], terms_e[a] = g_m[a] * step_m[a, c], g_e[a] + step_e[a, c]
                    m[new, j, c], e[new, j, c] = _sum(terms_m, terms_e, n)
                if i == len(s) and j == len(t):
                    for a in range(n):
                        terms_m[a], terms_e[a] = g_m[a] * stop_m[0, a], g_e[a] + stop_e[0, a]
                    total, exponent = _sum(terms_m, terms_e, n)
                    value[pair] = math.log(total) + exponent * _LOG_2 if total > 0.0 else -np.inf
