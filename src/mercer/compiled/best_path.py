"""The best path of hidden states of one sequence (Viterbi), in the log domain, compiled by Numba."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled
def log_path(log_initial: Floats, log_transition: Floats, table: Floats, path: Floats) -> float:  # pragma: no cover
    """Write the most probable states ``(L,)``; return the joint log probability of sequence and path."""
    length, n = table.shape
    best, after, came = log_initial + table[0], np.empty(n), np.empty((length, n), dtype=np.int32)
    for t in range(1, length):
        for j in range(n):
            arg = 0
            for i in range(1, n):
                if best[i] + log_transition[i, j] > best[arg] + log_transition[arg, j]:
                    arg = i
            came[t, j] = arg
            after[j] = best[arg] + log_transition[arg, j] + table[t, j]
        best, after = after, best
    state = int(np.argmax(best))
    value = best[state]
    for t in range(length - 1, -1, -1):
        path[t] = state
        if t > 0:
            state = came[t, state]
    return float(value)
