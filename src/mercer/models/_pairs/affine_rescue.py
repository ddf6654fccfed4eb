"""The affine recursion with numbers that cannot leave their range: slow, and right for all parameters.

These loops are compiled by Numba; `mercer.models._pairs.affine_operand` imports this file when it needs it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.ranged import LOG_RADIX, NEVER, plus, split, tidy, times
from mercer.models._pairs.affine_odds import Factors

__all__ = ["wide_kernels"]


@compiled
def _odds(
    joint: Floats, insertion: Floats, reference: Floats, o: float, c: float
) -> tuple[Floats, Any, Floats, Any]:  # pragma: no cover - compiled
    """Return match = c (1-o)^2 J / (r r) and inserted = insertion / r as numbers and exponents."""
    match, match_k = split(joint)
    inserted, inserted_k = split(insertion)
    r, rk = split(reference)
    cv, ck = tidy(c, 0)
    cv, ck = tidy(cv * (1.0 - o) * (1.0 - o), ck)
    for a in range(r.size):
        if r[a] == 0.0:  # never shown: nothing to divide
            continue
        inserted[a], inserted_k[a] = tidy(inserted[a] / r[a], inserted_k[a] - rk[a])
        for b in range(r.size):
            if r[b] > 0.0:
                v, k = times(match[a, b], match_k[a, b], cv, ck)
                v, k = tidy(v / r[a], k - rk[a])
                match[a, b], match_k[a, b] = tidy(v / r[b], k - rk[b])
    return match, match_k, inserted, inserted_k


@compiled
def _one(
    s: Any, t: Any, match: Floats, match_k: Any, inserted: Floats, inserted_k: Any, gap: Any, extend: Any
) -> float:  # pragma: no cover - compiled
    """Logarithm of z(n, m) for two strings of codes."""
    n, m = s.size, t.size
    gv, gk = gap
    ev, ek = extend
    if gv == 0.0:  # nothing is ever inserted: letter i goes with letter i
        if n != m:
            return -np.inf
        mv, mk = 1.0, 0
        for i in range(n):
            mv, mk = times(mv, mk, match[s[i], t[i]], match_k[s[i], t[i]])
        return math.log(mv) + mk * LOG_RADIX if mv > 0.0 else -np.inf
    # In row i, x holds x(i, j) when row i is begun, and x(i + 1, j) afterwards; z holds z(i - 1, j), then z(i, j).
    z, zk = np.zeros(m + 1), np.full(m + 1, NEVER)
    x, xk = np.zeros(m + 1), np.full(m + 1, NEVER)
    for i in range(n + 1):
        yv, yk, corner, corner_k = 0.0, NEVER, 0.0, NEVER  # y(i, j), and z(i - 1, j - 1)
        for j in range(m + 1):
            if i > 0 and j > 0:
                a, b = s[i - 1], t[j - 1]
                mv, mk = times(corner, corner_k, match[a, b], match_k[a, b])
            else:
                mv, mk = (1.0, 0) if i == 0 and j == 0 else (0.0, NEVER)
            corner, corner_k = z[j], zk[j]
            uv, uk = plus(mv, mk, x[j], xk[j])
            z[j], zk[j] = plus(uv, uk, yv, yk)
            if i < n:
                av, ak = times(mv, mk, gv, gk)
                bv, bk = times(x[j], xk[j], ev, ek)
                av, ak = plus(av, ak, bv, bk)
                x[j], xk[j] = times(av, ak, inserted[s[i]], inserted_k[s[i]])
            if j < m:
                av, ak = times(uv, uk, gv, gk)
                bv, bk = times(yv, yk, ev, ek)
                av, ak = plus(av, ak, bv, bk)
                yv, yk = times(av, ak, inserted[t[j]], inserted_k[t[j]])
    if z[m] == 0.0:
        return -np.inf
    return math.log(z[m]) + zk[m] * LOG_RADIX


@compiled
def _pairs(
    left: Any, left_offsets: Any, right: Any, right_offsets: Any, rows: Any, columns: Any,
    joint: Floats, insertion: Floats, reference: Floats, o: float, e: float, c: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    match, match_k, inserted, inserted_k = _odds(joint, insertion, reference, o, c)
    ov, ok = tidy(o, 0)
    gap, extend = tidy(ov * (1.0 - e) / (1.0 - o), ok), tidy(e, 0)
    for p in range(rows.size):
        i, j = rows[p], columns[p]
        s = left[left_offsets[i] : left_offsets[i + 1]]
        t = right[right_offsets[j] : right_offsets[j + 1]]
        out[p] = _one(s, t, match, match_k, inserted, inserted_k, gap, extend)


def wide_kernels(left: tuple[Any, Any], right: tuple[Any, Any], rows: Any, columns: Any, numbers: Factors) -> Floats:
    """Compute log z(n, m) of the pairs (rows[p], columns[p]), of codes and offsets on both sides; -inf: impossible."""
    out = np.empty(len(rows))
    codes = [np.ascontiguousarray(side[0], np.int32).copy() for side in (left, right)]
    offsets = [np.ascontiguousarray(side[1], np.int64).copy() for side in (left, right)]
    _pairs(
        codes[0], offsets[0], codes[1], offsets[1], np.asarray(rows, np.int64), np.asarray(columns, np.int64),
        *numbers, out,
    )  # fmt: skip
    return out
