"""What the states of models think of observations: from an emission, of any family or mixture, to evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.families.categorical import Categoricals
from mercer.models._forward_backward import Densities, Evidence, Symbols

CELLS = 20_000
"""Points times states whose densities are computed at once: their parameters stay in the cache."""


def evidence_of(emission: Any, x: Any, owner: Floats) -> Evidence:
    """Ask the states of every point's own model.

    Parameters
    ----------
    emission : batch of shape (N, n)
        What every state of every model emits.
    x : ndarray of shape (T, ...)
        Points: codes of symbols, or vectors.
    owner : ndarray of int of shape (T,)
        Position of the model of every point, ascending.
    """
    if isinstance(emission, Categoricals):
        return Symbols(np.asarray(x), code_probabilities(emission))
    return Densities(row_log_prob(emission, x, owner))


def code_probabilities(emission: Categoricals) -> Floats:
    """Probability of every code, ``(*B, n_codes)``: symbols, sums for ambiguity codes, 1 for the missing one."""
    p = to_numpy(emission.probability)
    sets = emission.alphabet.ambiguity
    return np.concatenate([p, p @ sets.T, np.ones_like(p[..., :1])], axis=-1)


def row_log_prob(emission: Any, x: Any, owner: Floats) -> Floats:
    """Log density of every point in the states of its own model, ``(T, n)``."""
    n = int(emission.shape[-1])
    table = np.empty((x.shape[0], n))
    if hasattr(x, "indptr"):  # sparse rows cannot be aligned with a batch of models: one model at a time
        ends = np.searchsorted(owner, np.arange(len(emission) + 1))
        for i in range(len(emission)):
            rows = slice(int(ends[i]), int(ends[i + 1]))
            table[rows] = to_numpy(emission[i].log_prob(x[rows])).T
        return table
    step = max(1, CELLS // n)
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        aligned = emission[owner[rows]]  # every point beside its own states
        table[rows] = to_numpy(aligned.log_prob(x[rows][:, None]))[..., 0]
    return table
