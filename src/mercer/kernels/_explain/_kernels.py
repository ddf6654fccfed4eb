"""Shares of kernels that sum over windows, counts or columns, and of kernels that are made of others."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer.data.csr import CSRRows
from mercer.data.ragged import windows_of
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.kernels._explain._shares import (
    Shares,
    Weights,
    not_additive,
    observed,
    over_channels,
    plain_shares,
    pulled_back,
    shares_of,
)
from mercer.kernels.algebra import Scaled, Sum
from mercer.kernels.centered import Centered
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.linear_rbf import Linear
from mercer.kernels.normalized import Normalized
from mercer.kernels.posteriorcounts import PosteriorCounts
from mercer.kernels.residualized import Residualized
from mercer.kernels.spectrum import Spectrum
from mercer.kernels.targetaligned import TargetAligned
from mercer.models.hidden import HiddenChain, SymbolShares, hidden_chain

BLOCK = 1 << 22
"""Number of kernel values of windows with reference objects in memory at once."""

# -- windows ---------------------------------------------------------------------------------------------------


@plain_shares.register(Spectrum)
def _spectrum(kernel: Any, data: Any, source: Sequences, weights: Weights) -> Shares:
    """Spread the count of every window equally over its k positions."""
    width = int(kernel.k)
    found = windows_of(source.values, source.offsets, len(kernel.alphabet_), width)
    codes, place = np.unique(found.code, return_inverse=True)
    digits = codes[:, None] // len(kernel.alphabet_) ** np.arange(width - 1, -1, -1) % len(kernel.alphabet_)
    windows = _pieces(source, digits.astype(source.values.dtype).ravel(), width)
    shares = Shares.zeros(source, len(weights.values))
    if len(codes):
        _spread(shares, source, found.start, _window_sums(kernel, windows, weights)[place], width)
    return shares


@plain_shares.register(EmpiricalMeanMap)
def _mean_map(kernel: Any, data: Any, source: Sequences, weights: Weights) -> Shares:
    """Spread what every window adds to the mean equally over its positions."""
    width = int(kernel.order) + 1
    counts = source.lengths - width + 1
    shares = Shares.zeros(source, len(weights.values))
    local = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.repeat(source.offsets[:-1], counts) + local
    content = source.values[start[:, None] + np.arange(width)]
    place = np.arange(len(start))
    if source.is_symbols:
        content, place = np.unique(content, axis=0, return_inverse=True)
    windows = _pieces(source, content.reshape(len(content) * width, *source.values.shape[1:]), width)
    sums = _window_sums(kernel, windows, weights)[place.ravel()]
    _spread(shares, source, start, sums / np.repeat(counts, counts)[:, None], width)
    return shares


def _pieces(source: Sequences, values: Floats, width: int) -> Sequences:
    """Return windows as sequences of their own."""
    offsets = np.arange(len(values) // width + 1, dtype=np.int64) * width
    return Sequences._make(values, offsets, source.alphabet, None, None, None, source.channels)


def _window_sums(kernel: Any, windows: Sequences, weights: Weights) -> Floats:
    """Return the weighted sums of every window by itself, ``(windows, R)``, not normalized."""
    plain = kernel._copy()
    plain.normalize = False
    if weights.over_features:
        return np.asarray(to_numpy(plain.features(windows) @ weights.values.T), dtype=np.float64)
    evaluation = plain._evaluation
    columns = evaluation.prepared(weights.reference)
    step = max(1, BLOCK // max(1, weights.values.shape[1]))
    blocks = (evaluation.prepared(windows[at : at + step]) for at in range(0, len(windows), step))
    return np.concatenate([np.asarray(to_numpy(evaluation.matrix(a, columns))) @ weights.values.T for a in blocks])


def _spread(shares: Shares, source: Sequences, start: Indices, sums: Floats, width: int) -> None:
    """Add what windows contribute to the shares of their positions, in equal parts; no position is missing."""
    steps = np.zeros((len(source.values), sums.shape[1]))
    for j in range(width):
        steps[start + j] += sums / width
    shares.values += over_channels(steps, source)


# -- counts and columns ----------------------------------------------------------------------------------------


@plain_shares.register(Linear)
def _linear(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Share an inner product by columns."""
    vector = weights.of_features(kernel)
    shares = Shares.zeros(source, len(vector))
    if isinstance(source, CSRRows):
        shares.values[:, 0] = (vector[:, source.indices] * source.data).T
    else:
        shares.values[:] = np.asarray(to_numpy(source), dtype=float)[:, :, None] * vector.T
    return shares


@plain_shares.register(PosteriorCounts)
def _posterior_counts(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Share expected counts by position; the counts of missing symbols are bias."""
    model = kernel.model_
    if hasattr(model, "latent_cliques"):
        raise not_additive(kernel, f"of {type(model).__name__} counts whole rows")
    chain = hidden_chain(model, "PosteriorCounts")
    vector = weights.of_features(kernel)
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


# -- kernels that are made of others ---------------------------------------------------------------------------


def part_shares(kernel: Any, at: int, data: Any, source: Any, weights: Weights, factor: Any = 1.0) -> Shares:
    """Return the shares of one part of a compound kernel, whose sources have a view for each part."""
    if weights.over_features:
        raise not_additive(kernel, "has no features that are sums over positions")
    own = Weights(weights.values * factor, weights.reference.parts[at])
    return shares_of(kernel._parts()[at], data, source.parts[at], own)


@plain_shares.register(Sum)
@plain_shares.register(Scaled)
@plain_shares.register(Normalized)
@plain_shares.register(TargetAligned)
def _weighted_parts(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    factors = [1.0] * len(kernel._parts())
    if isinstance(kernel, Scaled):
        factors = [float(kernel.weight)]
    elif isinstance(kernel, TargetAligned):
        factors = kernel.weights_[kernel.weights_ > 0].tolist()
    parts = (part_shares(kernel, at, data, source, weights, factor) for at, factor in enumerate(factors))
    return reduce(Shares.plus, parts)


@plain_shares.register(FisherEnsemble)
def _ensemble(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Add the shares of all parts, passed back through the transformers of their views."""
    series = kernel._accept(data, reset=False)
    total = Shares.zeros(series, len(weights.values))
    for view, transformer in enumerate(kernel.transformers_):
        parts = [at for at, own in enumerate(kernel._view_of) if own == view]
        own = (part_shares(kernel, at, data, source, weights, float(kernel.weights_[at])) for at in parts)
        total = total.plus(pulled_back(transformer, series, reduce(Shares.plus, own)))
    return total


def _numbers(values: Any) -> Floats:
    return np.asarray(to_numpy(values), dtype=np.float64)


@plain_shares.register(Centered)
def _centered(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Shares of :math:`k(x, z) - m(x) - m(z) + m`: the training objects get weights, the rest is bias."""
    found = part_shares(kernel, 0, data, source, weights)
    operand = kernel._evaluation.prepared(weights.reference).operand
    total = weights.values.sum(axis=1)
    constant = float(kernel._mean) * total - weights.values @ _numbers(operand.numbers)
    if kernel._known is None:  # in a compact pipeline, the mean of a new object has no influence
        inner = kernel._inner
        equal = np.repeat(-total[:, None] / len(inner.train_), len(inner.train_), axis=1)
        found = found.plus(shares_of(inner, data, source.parts[0], Weights(equal, inner.train_)))
    return found.with_bias(constant)


@plain_shares.register(Residualized)
def _residualized(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Shares of :math:`k(x, z) - q(x) u(z)' - u(x) q(z)'`, with :math:`u(x) = k(x, Z) U - q(x) H`."""
    data = getattr(data, "objects", data)
    found = part_shares(kernel, 0, data, source, weights)
    reference = kernel._evaluation.prepared(weights.reference).operand
    q, u = _numbers(reference.q), _numbers(reference.u)
    own = kernel._coordinates(source.parts[1])
    bias = -own @ (weights.values @ u).T
    if kernel._known is None:
        inner, along = kernel._inner, weights.values @ q
        found = found.plus(shares_of(inner, data, source.parts[0], Weights(-along @ kernel._basis.T, inner.train_)))
        bias = bias + own @ (along @ _numbers(kernel._half)).T
    return found.with_bias(bias)
