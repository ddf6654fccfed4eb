"""Fisher scores of sequences under Markov chains: numbers of windows minus what is expected of them (FK-6, FK-7)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.models._markov.counts import transitions_of
from mercer.models._markov.sparse import CELLS


def sequence_scores(chains: Any, X: Sequences, parametrization: str, as_sparse: bool) -> Any:
    """Scores in the rows of ``transition``, dense ``(N, M, P)`` or CSR ``(N M, P)``; see `MarkovChains`."""
    if parametrization not in ("logit", "weight"):
        raise ValueError(f"parametrization = {parametrization!r}: give 'logit' or 'weight'")
    k, width = len(chains.alphabet), len(chains.alphabet) + chains.end
    n_parameters = chains.n_contexts * width
    if not as_sparse and len(chains) * len(X) * n_parameters > CELLS:
        raise ValueError(
            f"the scores of {len(X)} sequences under {len(chains)} chains have {n_parameters} columns, too many to be "
            "dense: ask for sequence_scores(X, sparse=True), or lower the order"
        )
    uncertain = np.zeros(len(X), dtype=bool)
    uncertain[np.repeat(np.arange(len(X)), X.lengths)[X.values >= k]] = True
    certain = np.flatnonzero(~uncertain)
    owner, window, _ = transitions_of(X[certain].values, X[certain].offsets, k, chains.order, chains.end)
    plain = sparse.csr_array((np.ones(len(owner)), (certain[owner], window)), shape=(len(X), n_parameters))
    plain.sum_duplicates()
    found = []
    for i in range(len(chains)):
        counts = plain
        if uncertain.any():
            counts = plain + _expected(chains, i, X, np.flatnonzero(uncertain), n_parameters)
        found.append(_centred(chains, i, counts, parametrization, X))
    if as_sparse:
        return sparse.vstack(found, format="csr")
    return np.stack([scores.toarray() for scores in found]) if found else np.empty((0, len(X), n_parameters))


def _expected(chains: Any, i: int, X: Sequences, which: Floats, n_parameters: int) -> Any:
    """Compute expected numbers of windows in the uncertain sequences, CSR ``(M, P)``."""
    from mercer.models._markov.loops import expected_windows

    some = X[which]
    members = chains.alphabet.membership > 0
    owner, window, number = expected_windows(
        *chains.lookup(i), chains.order, len(chains.alphabet), chains.end, some.values, some.offsets, members
    )
    return sparse.csr_array((number, (which[owner], window)), shape=(len(X), n_parameters))


def _centred(chains: Any, i: int, counts: Any, parametrization: str, X: Sequences) -> Any:
    """Subtract what is expected from the numbers of windows, context by context."""
    width = len(chains.alphabet) + chains.end
    entries = counts.tocoo()
    context = entries.col // width
    visits = sparse.csr_array((entries.data, (entries.row, context)), shape=(counts.shape[0], chains.n_contexts))
    visits.sum_duplicates()
    visits = visits.tocoo()
    used, place = np.unique(visits.col, return_inverse=True)
    rows = chains.transition.rows_at(i, used) if chains.sparse else to_numpy(chains.transition[i])[used]
    if parametrization == "weight":
        p = rows[np.searchsorted(used, context), entries.col % width]
        if np.any(p == 0):
            name = X.name(int(entries.row[np.flatnonzero(p == 0)[0]]))
            raise ValueError(
                f"{name} is impossible under the model, so that it has no score in the weights: fit the model with "
                "smoothing=1, say, or use parametrization='logit'"
            )
        counts = sparse.csr_array((entries.data / p, (entries.row, entries.col)), shape=counts.shape)
        rows = np.ones_like(rows)
    shape = (len(visits.data), width)
    columns = visits.col[:, None] * width + np.arange(width)
    expected = visits.data[:, None] * rows[place]
    lines = np.broadcast_to(visits.row[:, None], shape)
    centred = counts - sparse.csr_array((expected.ravel(), (lines.ravel(), columns.ravel())), shape=counts.shape)
    return centred.tocsr()
