"""Mean posteriors of observations with the states of all chains, and of the transitions of each chain (LMMK-0)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models._factorial.table import symbol_counts
from mercer.models.hidden import Clique
from mercer.models.inference import double


def factorial_cliques(model: Any, X: Any) -> list[Clique]:
    """Return the clique of observations and all states, then those of the transitions of each chain."""
    chains, n = (int(size) for size in model.initial.shape[-2:])
    lengths = np.diff(X.offsets)
    found = model._expected(0, X, by_run=True)
    states = tuple(str(i) for i in range(n))
    share = 1 / np.maximum(lengths, 1)
    if model.of_symbols:
        counts = [symbol_counts(double(model.probability)[0], model.alphabet, row) for row in found.kinds]
        tables = np.array(counts).reshape(len(X), n**chains, len(model.alphabet)).swapaxes(1, 2) * share[:, None, None]
        names, column = (tuple(map(str, model.alphabet.symbols)), *(states,) * chains), None
        table = tables.reshape(len(X), len(model.alphabet), *(n,) * chains)
    else:
        joint = model.hmms().hidden_chain().expected(X, states=True).states
        names, column = (states,) * chains, slice(0, model.dimension)
        table = (joint * np.repeat(share, lengths)[:, None]).reshape(-1, *(n,) * chains)
    steps = found.transitions / np.maximum(lengths - 1, 1)[:, None, None, None]
    hidden = (*(False,) * model.of_symbols, *(True,) * chains)
    cliques = [Clique(table, names, hidden, column=column)]
    return cliques + [Clique(steps[:, c], (states, states), (True, True), step=True) for c in range(chains)]
