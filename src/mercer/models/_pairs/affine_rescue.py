"""The affine recursion with numbers that cannot leave their range: slow, and right for all parameters.

A number is v 2^(512 k) with 2^-256 <= v < 2^256, or zero. Digits are those of float64, and the range is endless.
These loops are compiled by Numba; `mercer.models._pairs.affine_operand` imports this file when it needs it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from mercer._array import Floats
from mercer.models._pairs.affine_odds import Odds

__all__ = ["wide_kernels"]

_compiled = njit(nogil=True, cache=True, error_model="numpy")

_DIGIT = 2.0**512
_HIGH, _LOW = 2.0**256, 2.0**-256
_NEVER = -(1 << 40)
"""Exponent of zero, below all others."""
_LOG_DIGIT = 512 * math.log(2.0)


@_compiled
def _tidy(v: float, k: int) -> tuple[float, int]:  # pragma: no cover - compiled
    if v == 0.0:
        return 0.0, _NEVER
    while v >= _HIGH:
        v /= _DIGIT
        k += 1
    while v < _LOW:
        v *= _DIGIT
        k -= 1
    return v, k


@_compiled
def _times(v: float, k: int, w: float, l: int) -> tuple[float, int]:  # noqa: E741  # pragma: no cover - compiled
    return _tidy(v * w, k + l)


@_compiled
def _plus(v: float, k: int, w: float, l: int) -> tuple[float, int]:  # noqa: E741  # pragma: no cover - compiled
    """Add; where the exponents are two apart, the smaller number is below 2^-512 of the larger."""
    if k == l:
        return _tidy(v + w, k)
    if k == l + 1:
        return _tidy(v + w / _DIGIT, k)
    if l == k + 1:
        return _tidy(w + v / _DIGIT, l)
    return (v, k) if k > l else (w, l)


@_compiled
def _split(values: Floats) -> tuple[Floats, Any]:  # pragma: no cover - compiled
    v, k = np.empty(values.shape), np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape):
        v[place], k[place] = _tidy(values[place], 0)
    return v, k


@_compiled
def _one(
    s: Any, t: Any, match: Floats, match_k: Any, inserted: Floats, inserted_k: Any, gap: float, extend: float
) -> float:  # pragma: no cover - compiled
    """Logarithm of z(n, m) for two strings of codes."""
    n, m = s.size, t.size
    gv, gk = _tidy(gap, 0)
    ev, ek = _tidy(extend, 0)
    # In row i, x holds x(i, j) when row i is begun, and x(i + 1, j) afterwards; z holds z(i - 1, j), then z(i, j).
    z, zk = np.zeros(m + 1), np.full(m + 1, _NEVER)
    x, xk = np.zeros(m + 1), np.full(m + 1, _NEVER)
    for i in range(n + 1):
        yv, yk, corner, corner_k = 0.0, _NEVER, 0.0, _NEVER  # y(i, j), and z(i - 1, j - 1)
        for j in range(m + 1):
            if i > 0 and j > 0:
                a, b = s[i - 1], t[j - 1]
                mv, mk = _times(corner, corner_k, match[a, b], match_k[a, b])
            else:
                mv, mk = (1.0, 0) if i == 0 and j == 0 else (0.0, _NEVER)
            corner, corner_k = z[j], zk[j]
            uv, uk = _plus(mv, mk, x[j], xk[j])
            z[j], zk[j] = _plus(uv, uk, yv, yk)
            if i < n:
                av, ak = _times(mv, mk, gv, gk)
                bv, bk = _times(x[j], xk[j], ev, ek)
                av, ak = _plus(av, ak, bv, bk)
                x[j], xk[j] = _times(av, ak, inserted[s[i]], inserted_k[s[i]])
            if j < m:
                av, ak = _times(uv, uk, gv, gk)
                bv, bk = _times(yv, yk, ev, ek)
                av, ak = _plus(av, ak, bv, bk)
                yv, yk = _times(av, ak, inserted[t[j]], inserted_k[t[j]])
    if z[m] == 0.0:
        return -np.inf
    return math.log(z[m]) + zk[m] * _LOG_DIGIT


@_compiled
def _pairs(
    left: Any, left_offsets: Any, right: Any, right_offsets: Any, rows: Any, columns: Any,
    match: Floats, inserted: Floats, gap: float, extend: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    table, table_k = _split(match)
    letter, letter_k = _split(inserted)
    for p in range(rows.size):
        i, j = rows[p], columns[p]
        s = left[left_offsets[i] : left_offsets[i + 1]]
        t = right[right_offsets[j] : right_offsets[j + 1]]
        out[p] = _one(s, t, table, table_k, letter, letter_k, gap, extend)


def wide_kernels(left: tuple[Any, Any], right: tuple[Any, Any], rows: Any, columns: Any, numbers: Odds) -> Floats:
    """Compute log z(n, m) of the pairs (rows[p], columns[p]), of codes and offsets on both sides; -inf: impossible."""
    out = np.empty(len(rows))
    codes = [np.ascontiguousarray(side[0], np.int32).copy() for side in (left, right)]
    offsets = [np.ascontiguousarray(side[1], np.int64).copy() for side in (left, right)]
    _pairs(
        codes[0], offsets[0], codes[1], offsets[1], np.asarray(rows, np.int64), np.asarray(columns, np.int64),
        numbers.match, numbers.inserted, numbers.gap, numbers.extend, out,
    )  # fmt: skip
    return out
