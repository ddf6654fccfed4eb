"""Shares of kernels of expected counts and of columns: posterior counts, and inner products of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.data.csr import CSRRows
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.kernels._explain._shares import Shares, Weights, handles, not_additive, observed
from mercer.kernels.linear_rbf import Linear
from mercer.kernels.posteriorcounts import PosteriorCounts
from mercer.models.hidden import HiddenChain, SymbolShares, hidden_chain


@handles(Linear)
def _linear(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Share an inner product by columns."""
    vector = weights.values
    if not weights.over_features:
        reference = weights.reference
        rows = reference.to_scipy() if isinstance(reference, CSRRows) else np.asarray(to_numpy(reference), dtype=float)
        vector = np.asarray(vector @ rows)
    shares = Shares.zeros(source, len(vector))
    if isinstance(source, CSRRows):
        shares.values[:, 0] = (vector[:, source.indices] * source.data).T
    else:
        shares.values[:] = np.asarray(to_numpy(source), dtype=float)[:, :, None] * vector.T
    return shares


@handles(PosteriorCounts)
def _posterior_counts(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Share expected counts by position; the counts of missing symbols are bias."""
    model = kernel.model_
    if hasattr(model, "latent_cliques"):
        raise not_additive(kernel, f"of {type(model).__name__} counts whole rows")
    chain = hidden_chain(model, "PosteriorCounts")
    vector = weights.values
    if not weights.over_features:
        rows = kernel._features(kernel._evaluation.prepared(weights.reference).operand)
        vector = np.asarray(vector @ rows)
    return _single(chain, source, vector) if int(kernel.k) == 1 else _pairs(chain, source, vector)


def _single(chain: HiddenChain, source: Sequences, vector: Floats) -> Shares:
    symbols = SymbolShares(chain.emission)
    n, k = symbols.probability.shape
    states = chain.expected(source, states=True).states
    assert states is not None
    table = vector.reshape(len(vector), k, n)
    codes, place = np.unique(source.values, return_inverse=True)
    worth = np.array([np.einsum("ia,rai->ir", symbols.of(int(code)), table) for code in codes])
    counts = np.einsum("ti,tir->tr", states, worth.reshape(len(codes), n, len(vector))[place])
    counts /= np.repeat(np.maximum(source.lengths, 1), source.lengths)[:, None]
    seen = observed(source)
    shares = Shares.zeros(source, len(vector))
    shares.values[:, 0] = np.where(seen, counts, 0.0)
    return shares.with_bias(segment_sum(np.where(seen, 0.0, counts), source.offsets))


def _pairs(chain: HiddenChain, source: Sequences, vector: Floats) -> Shares:
    """Share the counts of neighbors, half to each of the two; all to one of them if the other is missing."""
    symbols = SymbolShares(chain.emission)
    n, k = symbols.probability.shape
    table = vector.reshape(len(vector), k, k, n, n)
    moves = chain.step_posteriors(source)
    second = np.setdiff1d(np.arange(len(source.values)), source.offsets)  # all but the first of every sequence
    pairs = np.stack([source.values[second - 1], source.values[second]], axis=1)
    kinds, place = np.unique(pairs, axis=0, return_inverse=True)
    worth = [np.einsum("ia,jb,rabij->rij", symbols.of(int(a)), symbols.of(int(b)), table) for a, b in kinds]
    counts = np.zeros((len(source.values), len(vector)))
    for kind, value in enumerate(worth):
        at = second[place.ravel() == kind]
        counts[at] = np.einsum("tij,rij->tr", moves[at], value)
    counts /= np.repeat(np.maximum(source.lengths - 1, 1), source.lengths)[:, None]
    seen = observed(source)[:, 0]
    number = seen[second].astype(float) + seen[second - 1]
    part = counts[second] / np.maximum(number, 1.0)[:, None]
    shares, lost = Shares.zeros(source, len(vector)), np.zeros_like(counts)
    shares.values[second, 0] += np.where(seen[second, None], part, 0.0)
    shares.values[second - 1, 0] += np.where(seen[second - 1, None], part, 0.0)
    lost[second] = np.where((number == 0)[:, None], counts[second], 0.0)
    return shares.with_bias(segment_sum(lost, source.offsets))
