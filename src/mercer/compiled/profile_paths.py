"""The best path of a sequence through a profile hidden Markov model (Viterbi), in the log domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Indices
from mercer.compiled.code import compiled

_FROM_MATCH, _FROM_INSERT, _FROM_DELETE, _FROM_BEGIN = 0, 1, 2, 3


@compiled
def best_path(codes: Indices, model: Any, path: Indices) -> float:  # pragma: no cover - compiled
    """Write the states of the best path; return its log odds against background symbols.

    The ``model`` is that of `mercer.compiled.profiles`, in logarithms. ``path (L,)`` is k for the match state of node
    k, -k for its insert state, and 0 for a flank.
    """
    odds, insert_odds, steps, entry, leave, flanks = model
    length, m = codes.shape[0], entry.shape[0] - 2
    # Two bits for where a match comes from, one each for an insert (from insert) and a delete state (from delete).
    came = np.zeros((length + 1, m + 2), np.uint8)
    left_at, left_kind = np.zeros(length + 1, np.int64), np.zeros(length + 1, np.uint8)
    flags = np.zeros((3, length + 1), np.uint8)
    again, ended, joined = flags[0], flags[1], flags[2]
    before, after = np.full((3, m + 2), -np.inf), np.full((3, m + 2), -np.inf)
    n, j, c = 0.0, -np.inf, -np.inf
    b = flanks[1]
    for t in range(1, length + 1):
        code, best_left = codes[t - 1], -np.inf
        for k in range(1, m + 1):
            best, mark = b + entry[k], _FROM_BEGIN
            for kind in range(3):
                value = before[kind, k - 1] + steps[(0, 3, 5)[kind], k - 1]
                if value > best:
                    best, mark = value, kind
            after[0, k] = best + odds[code, k]
            stay, opened = before[1, k] + steps[4, k], before[0, k] + steps[1, k]
            after[1, k] = max(stay, opened) + insert_odds[code, k]
            if stay > opened:
                mark |= 4
            on, first = after[2, k - 1] + steps[6, k - 1], after[0, k - 1] + steps[2, k - 1]
            after[2, k] = max(on, first)
            if on > first:
                mark |= 8
            came[t, k] = mark
            for kind in (0, 2):
                if leave[k] + after[kind, k] > best_left:
                    best_left, left_at[t], left_kind[t] = leave[k] + after[kind, k], k, kind
        n += flanks[0]
        again[t], ended[t] = best_left + flanks[2] > j + flanks[0], best_left + flanks[3] > c + flanks[0]
        j, c = max(j + flanks[0], best_left + flanks[2]), max(c + flanks[0], best_left + flanks[3])
        joined[t] = j > n
        b = max(n, j) + flanks[1]
        before, after = after, before
    value = c + flanks[1]
    path[:] = 0
    t, flank = length, 1  # 1: in C, 2: in J
    while value > -np.inf and t > 0:
        if not (ended[t] if flank == 1 else again[t]):
            t -= 1
            continue
        k, kind = left_at[t], left_kind[t]
        while kind != _FROM_BEGIN:
            mark = came[t, k]
            if kind == 0:
                path[t - 1] = k
                kind, t, k = mark & 3, t - 1, k - 1
            elif kind == 1:
                path[t - 1] = -k
                kind, t = (1 if mark & 4 else 0), t - 1
            else:
                kind, k = (2 if mark & 8 else 0), k - 1
        if not joined[t]:
            break
        flank = 2
    return value
