"""The compiled loop behind `mercer.models._pairs.visits_expectations`: forward and backward over one pair (MK-5).

Tables of a cell are scaled by a power of two of its own. With S the weights of entering a state, G of having visited
it, h of all that follows an entry and Q of all that follows a visit, a posterior is S w Q / kappa, w the emission.
"""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

__all__ = ["pair_sweep"]

_LOG_2 = math.log(2.0)
_NEVER = -1e300


@compiled
def _scaled(values: Floats, top: float) -> float:  # pragma: no cover - compiled
    """Scale a cell to its largest number; return its exponent."""
    largest = values.max()
    if largest <= 0.0:
        values[:] = 0.0
        return _NEVER
    exponent = math.frexp(largest)[1]
    values *= 2.0**-exponent
    return top + exponent


@compiled
def _power(exponent: float) -> float:  # pragma: no cover - compiled
    return 0.0 if exponent < -1000.0 else 2.0**exponent


@compiled
def _forward_row(
    i: int, s: Floats, t: Floats, table: Floats, silent: Floats, start: Floats, step: Floats, old: Floats,
    old_e: Floats, new: Floats, new_e: Floats, been: Floats, been_e: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill row i of S, ``new (m + 1, n)``, and of G, ``been``, from row i - 1 of S."""
    n = len(start)
    for j in range(len(t) + 1):
        been[j], been_e[j] = 0.0, _NEVER
        if i + j == 0:
            new[0] = start
            new_e[0] = _scaled(new[0], 0.0)
            continue
        high = old_e[j] if i > 0 else _NEVER
        near = new_e[j - 1] if j > 0 else _NEVER
        far = old_e[j - 1] if i > 0 and j > 0 else _NEVER
        top = max(high, near, far)
        new[j] = 0.0
        new_e[j] = _NEVER
        if top == _NEVER:
            continue
        x, y, z = _power(high - top), _power(near - top), _power(far - top)
        for a in range(n):
            here = table[s[i - 1], a] if i > 0 else 0.0
            there = table[t[j - 1], a] if j > 0 else 0.0
            g = 0.0
            if i > 0:
                g += old[j, a] * x * (here * silent[a])
            if j > 0:
                g += new[j - 1, a] * y * (there * silent[a])
            if i > 0 and j > 0:
                g += old[j - 1, a] * z * (here * there)
            been[j, a] = g
            for c in range(n):
                new[j, c] += g * step[a, c]
        been_e[j] = top
        new_e[j] = _scaled(new[j], top)


@compiled
def _forward_block(
    begin: int, end: int, s: Floats, t: Floats, table: Floats, silent: Floats, start: Floats, step: Floats,
    rows: Floats, rows_e: Floats, been: Floats, been_e: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill the rows of a block; row 0 of ``rows`` is the last one of the block before."""
    for k in range(end - begin):
        _forward_row(
            begin + k, s, t, table, silent, start, step, rows[k], rows_e[k], rows[k + 1], rows_e[k + 1], been[k],
            been_e[k],
        )  # fmt: skip


@compiled
def _backward_row(
    i: int, s: Floats, t: Floats, table: Floats, silent: Floats, step: Floats, stop: Floats, after: Floats,
    after_e: Floats, here: Floats, here_e: Floats, entered: Floats, entered_e: Floats, been: Floats, been_e: Floats,
    total: float, whole: float, h: Floats, gain: Floats, moves: Floats, symbols: Floats, once: Floats, matched: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill row i of Q, ``here (m + 2, n)``, from row i + 1, and add what is expected of the visits that begin here."""
    n, tall, wide = len(stop), len(s), len(t)
    for j in range(wide, -1, -1):
        here[j], here_e[j] = 0.0, _NEVER
        if i == tall and j == wide:
            here[j] = stop
            here_e[j] = _scaled(here[j], 0.0)
            continue
        high, near = after_e[j] if i < tall else _NEVER, here_e[j + 1]
        far = after_e[j + 1] if i < tall else _NEVER
        top = max(high, near, far)
        if top == _NEVER:
            continue
        x, y, z = _power(high - top), _power(near - top), _power(far - top)
        share = _power(min(entered_e[j] + top - whole, 1000.0)) / total
        for a in range(n):
            up, beside, across = 0.0, 0.0, 0.0
            if i < tall:
                up = table[s[i], a] * silent[a] * (after[j, a] * x)
            if j < wide:
                beside = table[t[j], a] * silent[a] * (here[j + 1, a] * y)
            if i < tall and j < wide:
                across = table[s[i], a] * table[t[j], a] * (after[j + 1, a] * z)
            h[a] = up + beside + across
            weight = entered[j, a] * share
            if weight > 0.0:
                once[a] += weight * (up + beside)
                if i < tall:
                    symbols[a, s[i]] += weight * (up + across)
                if j < wide:
                    symbols[a, t[j]] += weight * (beside + across)
                if matched.size > 0 and i < tall and j < wide:
                    matched[i, j] += weight * across
        if i + j == 0:
            gain[:n] += h * (_power(min(top - whole, 1000.0)) / total)
        weight = _power(min(been_e[j] + top - whole, 1000.0)) / total
        for b in range(n):
            back, g = 0.0, been[j, b] * weight
            for a in range(n):
                back += step[b, a] * h[a]
                moves[b, a] += g * h[a]
            here[j, b] = back
        here_e[j] = _scaled(here[j], top)


@compiled
def pair_sweep(
    s: Floats, t: Floats, table: Floats, silent: Floats, start: Floats, step: Floats, stop: Floats,
    gain: Floats, moves: Floats, symbols: Floats, once: Floats, matched: Floats,
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Add up what is expected of one pair, not both empty; return the log kernel.

    ``gain (n + 1,)`` and ``moves (n, n + 1)`` become gradients in the eliminated start and step, ``symbols (n, C)``
    and ``once (n,)`` numbers of codes written and of nothing written beside a symbol; ``matched``, where it is not
    empty, the posterior that two symbols come from one visit.
    """
    n, tall, wide = len(start), len(s), len(t)
    block = math.ceil(math.sqrt(tall + 1.0))
    count = (tall + block) // block
    kept, kept_e = np.empty((count, wide + 1, n)), np.empty((count, wide + 1))
    rows, rows_e = np.zeros((block + 1, wide + 1, n)), np.full((block + 1, wide + 1), _NEVER)
    been, been_e = np.zeros((block, wide + 1, n)), np.full((block, wide + 1), _NEVER)
    for q in range(count):
        kept[q], kept_e[q] = rows[0], rows_e[0]
        end = min((q + 1) * block, tall + 1)
        _forward_block(q * block, end, s, t, table, silent, start, step, rows, rows_e, been, been_e)
        rows[0], rows_e[0] = rows[block], rows_e[block]
    last = tall - (count - 1) * block
    total, whole = (been[last, wide] * stop).sum(), been_e[last, wide]
    if not total > 0.0:
        return -np.inf
    moves[:, n] += been[last, wide] / total
    after, after_e = np.zeros((wide + 2, n)), np.full(wide + 2, _NEVER)  # Q of row i + 1
    here, here_e = np.zeros((wide + 2, n)), np.full(wide + 2, _NEVER)  # Q of row i
    h = np.zeros(n)
    for q in range(count - 1, -1, -1):
        rows[0], rows_e[0] = kept[q], kept_e[q]
        end = min((q + 1) * block, tall + 1)
        _forward_block(q * block, end, s, t, table, silent, start, step, rows, rows_e, been, been_e)
        for i in range(end - 1, q * block - 1, -1):
            k = i - q * block
            _backward_row(
                i, s, t, table, silent, step, stop, after, after_e, here, here_e, rows[k + 1], rows_e[k + 1], been[k],
                been_e[k], total, whole, h, gain, moves, symbols, once, matched,
            )  # fmt: skip
            after, here = here, after
            after_e, here_e = here_e, after_e
    return math.log(total) + whole * _LOG_2
