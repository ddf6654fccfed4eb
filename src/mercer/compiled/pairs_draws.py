"""Random trajectories of a pair HMM and their symbols (MK-5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled
def walk(
    rng: np.random.Generator, state: Any, step: Floats, silent: Floats, letters: Floats, copies: int
) -> tuple[Any, Any, Any]:  # pragma: no cover - compiled
    """Simulate all trajectories, one visit at a time; return owners and symbols in order, and their number."""
    n, on = len(silent), np.flatnonzero(state < len(silent))
    used, loud = np.zeros(copies, np.int64), np.empty(len(on), np.bool_)
    owner, symbol = np.empty((copies, 1024), np.int32), np.empty((copies, 1024), np.int32)
    while len(on):
        if used.max() + len(on) > owner.shape[1]:
            more = np.empty((copies, owner.shape[1] + len(on)), np.int32)
            owner, symbol = np.concatenate((owner, more), axis=1), np.concatenate((symbol, more), axis=1)
        for copy in range(copies):
            for q, who in enumerate(on):
                loud[q] = rng.random() >= silent[state[who]]
            for q, who in enumerate(on):
                if loud[q]:
                    owner[copy, used[copy]] = who
                    symbol[copy, used[copy]] = _outcome(letters[state[who]], rng.random())
                    used[copy] += 1
        for who in on:
            state[who] = _outcome(step[state[who]], rng.random())
        on = on[state[on] < n]
    return owner, symbol, used


@compiled
def _outcome(upper: Floats, uniform: float) -> int:  # pragma: no cover - compiled
    """Draw from cumulative probabilities, as `mercer._probability.drawn` does."""
    draw, k = uniform * upper[-1], 0
    while k < len(upper) - 1 and draw >= upper[k]:
        k += 1
    return k
