"""Shares of kernels that sum over windows: spectrum kernels and empirical mean maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer.data.ragged import windows_of
from mercer.data.sequences import Sequences
from mercer.kernels._explain._shares import FeatureWeights, Shares, Weights, handles, over_channels
from mercer.kernels._mismatches import GappedRows
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.spectrum import Spectrum

BLOCK = 1 << 22
"""Number of kernel values of windows with reference objects in memory at once."""


@handles(Spectrum)
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


@handles(EmpiricalMeanMap)
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
        return FeatureWeights(np.eye(len(weights.values)), weights.values).sums(plain.features(windows))
    if isinstance(kernel, Spectrum):  # the features of the reference objects are summed once
        reference = kernel._evaluation.prepared(weights.reference).operand
        own = plain._prepare(windows)
        if isinstance(own, GappedRows):  # counts of windows with gaps, weighted on one of the sides
            reference, own = reference.weighted, own.counts
        return FeatureWeights(weights.values, plain._features(reference)).sums(plain._features(own))
    step = max(1, BLOCK // max(1, weights.values.shape[1]))
    columns = plain._evaluation.prepared(weights.reference)
    found = [
        np.asarray(to_numpy(plain._evaluation.matrix(plain._evaluation.prepared(windows[at : at + step]), columns)))
        @ weights.values.T
        for at in range(0, len(windows), step)
    ]
    return np.concatenate(found)


def _spread(shares: Shares, source: Sequences, start: Indices, sums: Floats, width: int) -> None:
    """Add what windows contribute to the shares of their positions, in equal parts; no position is missing."""
    steps = np.zeros((len(source.values), sums.shape[1]))
    for j in range(width):
        steps[start + j] += sums / width
    shares.values += over_channels(steps, source)
