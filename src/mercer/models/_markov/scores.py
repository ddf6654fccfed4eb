"""Fisher scores of sequences under Markov chains: observed minus expected counts of windows (FK-6, FK-7)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.models._markov.counts import CELLS, transitions_of
from mercer.models._markov.readings import in_parts
from mercer.models._scores.weighted import check_parametrization, difference

DENSE_STEPS = 1 << 20
"""Up to this number of entries, the scores of single observations are dense."""


def sequence_scores(chains: Any, X: Sequences, parametrization: str, as_sparse: bool) -> Any:
    """Scores in the rows of ``transition``, dense ``(N, M, P)`` or CSR ``(N M, P)``; see `MarkovChains`."""
    check_parametrization(parametrization)
    k, width = len(chains.alphabet), len(chains.alphabet) + chains.end
    n_parameters, tie = chains.n_contexts * width, chains._tie
    if tie is not None:
        n_parameters = len(tie.kept) * width
    if not as_sparse and len(chains) * len(X) * n_parameters > CELLS:
        raise ValueError(
            f"The scores of {len(X)} sequences under {len(chains)} chains have {n_parameters} columns, too many for a "
            "dense matrix. Use sequence_scores(X, sparse=True), or lower the order."
        )
    uncertain = np.zeros(len(X), dtype=bool)
    uncertain[np.repeat(np.arange(len(X)), X.lengths)[X.values >= k]] = True
    certain = np.flatnonzero(~uncertain)
    owner, window, _ = transitions_of(X[certain].values, X[certain].offsets, k, chains.order, chains.end)
    plain = sparse.csr_array((np.ones(len(owner)), (certain[owner], _kept(window, tie, width))), (len(X), n_parameters))
    plain.sum_duplicates()
    found = []
    for i in range(len(chains)):
        counts = plain
        if uncertain.any():
            counts = plain + _expected(chains, i, X, np.flatnonzero(uncertain), n_parameters)
        found.append(_centered(chains, i, counts, parametrization, X))
    if as_sparse:
        return sparse.vstack(found, format="csr")
    return np.stack([scores.toarray() for scores in found]) if found else np.empty((0, len(X), n_parameters))


def chain_step_scores(chains: Any, X: Sequences, parametrization: str) -> Any:
    """Scores of the transitions into every observation of plain symbols, ``(T, N P)``: dense, or CSR."""
    check_parametrization(parametrization)
    k, width = len(chains.alphabet), len(chains.alphabet) + chains.end
    _, window, position = transitions_of(X.values, X.offsets, k, chains.order, chains.end)
    shape = (len(X.values), len(chains.score_names()))
    counts = sparse.csr_array((np.ones(len(window)), (position, _kept(window, chains._tie, width))), shape=shape)
    found = [_centered(chains, i, counts.copy(), parametrization, X) for i in range(len(chains))]
    rows = sparse.hstack(found, format="csr")
    return rows if rows.shape[0] * rows.shape[1] > DENSE_STEPS else rows.toarray()


def _kept(window: Floats, tie: Any, width: int) -> Floats:
    """Return the cells of windows in the table of the kept contexts; ``tie`` is None if all are kept."""
    return window if tie is None else tie.row[window // width] * width + window % width


def _expected(chains: Any, i: int, X: Sequences, which: Floats, n_parameters: int) -> Any:
    """Compute expected counts of windows in sequences with ambiguous symbols, CSR ``(M, P)``."""
    some = X[which]
    chain = chains._lookup(i)
    # The first symbols are given (FK-6); if the initial distribution excludes all their readings, these count equally.
    chain = chain._replace(initial=np.maximum(chain.initial, 1e-100 * chain.initial.max()))
    parts = []
    for part, readings in in_parts(some, chains.alphabet, chains.order, chains.end):
        owner, window, number = readings.expected_windows(chain)
        parts.append((owner + part.start, window, number))
    owner, window, number = (np.concatenate(x) for x in zip(*parts, strict=True))
    moves = some.lengths - chains.order + chains.end > 0
    impossible = np.setdiff1d(np.flatnonzero(moves), owner)
    if len(impossible):
        raise _no_score(some, impossible[0])
    window = _kept(window, chains._tie, len(chains.alphabet) + chains.end)
    return sparse.csr_array((number, (which[owner], window)), shape=(len(X), n_parameters))


def _no_score(X: Sequences, i: int) -> ValueError:
    return ValueError(
        f"{X.name(i)} has probability zero under the shared model, so it has no score. Fit the model with "
        "prior='pooled' or smoothing=1, or leave the sequence out."
    )


def _centered(chains: Any, i: int, counts: Any, parametrization: str, X: Sequences) -> Any:
    """Subtract the expected counts of windows from the observed ones, context by context."""
    width = len(chains.alphabet) + chains.end
    table = to_numpy(chains.transition[i])
    if chains._tie is not None:
        table = table[chains._tie.first]
    counts.sum_duplicates()  # sorts the entries by row and column
    entries = counts.tocoo()
    key = entries.row.astype(np.int64) * len(table) + entries.col // width
    begins = np.ones(len(key), dtype=bool)
    begins[1:] = key[1:] != key[:-1]
    visited, line = key[begins], np.cumsum(begins) - 1  # one line per context that a sequence visits
    row, context = np.divmod(visited, len(table))
    cells = np.bincount(line * width + entries.col % width, weights=entries.data, minlength=len(visited) * width)
    number = cells.astype(float).reshape(len(visited), width)  # counts of an empty selection are integers
    visits = number.sum(axis=1, keepdims=True)
    p = table[context]
    impossible = row[((p == 0) & (number > 0)).any(axis=1)]
    if len(impossible):
        raise _no_score(X, impossible[0])
    expected = visits * p
    if parametrization == "weight":
        number = np.divide(number, p, out=np.zeros_like(number), where=p > 0)
        expected = np.broadcast_to(visits, p.shape)
    centred = difference(number, expected, visits)
    columns = context[:, None] * width + np.arange(width)
    lines = np.broadcast_to(row[:, None], columns.shape)
    scores = sparse.csr_array((centred.ravel(), (lines.ravel(), columns.ravel())), shape=counts.shape)
    scores.eliminate_zeros()
    return scores
