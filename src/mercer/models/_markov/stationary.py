"""Where a Markov chain spends its time in the long run."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.models import _stationary

LARGEST = 2048
"""Contexts of a chain whose equations are solved."""


def long_run(chains: Any) -> Floats:
    """Return the Cesaro limit of the law of contexts, from the initial law on, ``(N, C)``."""
    contexts, k = chains.n_contexts, len(chains.alphabet)
    if contexts > LARGEST:
        raise ValueError(
            f"chains of order {chains.order} over {k} symbols have {contexts} contexts, and the long run is solved for "
            f"{LARGEST} at most: lower the order"
        )
    out = np.empty((len(chains), contexts))
    after = (np.arange(contexts)[:, None] * k + np.arange(k)) % contexts
    for i in range(len(chains)):
        one = chains[i : i + 1].dense()
        initial, rows = to_numpy(one.initial)[0].astype(float), to_numpy(one.transition)[0].astype(float)
        step = np.zeros((contexts, contexts))
        for s in range(k):
            step[np.arange(contexts), after[:, s]] += rows[:, s]
        out[i] = _stationary.long_run(initial[None], step[None])[0]
    return out
