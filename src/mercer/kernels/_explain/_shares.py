"""Shares of positions in weighted sums of kernel values, for kernels whose features are sums over positions.

`plain_shares` is a generic function: a kernel with exact shares registers a function for its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce, singledispatch
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Indices, to_numpy
from mercer._checks import NotAdditive
from mercer.data.csr import CSRRows
from mercer.data.ragged import window_steps, windows_of
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.families import ExponentialFamily
from mercer.kernels._data import n_objects
from mercer.kernels._explain._back import through
from mercer.kernels._operands import CenteredCounts
from mercer.kernels.algebra import Scaled, Sum
from mercer.kernels.centered import Centered
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Diagonal, Fisher
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.linear_rbf import Linear
from mercer.kernels.normalized import Normalized
from mercer.kernels.oligo import Oligo
from mercer.kernels.spectrum import Spectrum
from mercer.kernels.targetaligned import TargetAligned
from mercer.kernels.windowscores import WindowScores
from mercer.models.scores import dense, is_posterior, lengths_of
from mercer.models.step_scores import channel_shares, step_scores

WINDOW_VALUES = 1 << 22
"""Number of kernel values of windows with reference objects in memory at once."""
SCORES = 1 << 23
"""Number of scores of single observations in memory at once."""


@dataclass
class Shares:
    """Shares of S positions of all samples, one after the other, with D channels, in R outputs."""

    values: Floats  # (S, D, R)
    offsets: Floats  # (n_samples + 1,): sample i has the positions offsets[i] to offsets[i + 1]
    bias: Floats  # (n_samples, R): what belongs to no position
    by_channel: bool = True  # whether each share was computed from one channel, so that shares tell channels apart

    @staticmethod
    def zeros(source: Any, outputs: int) -> Shares:
        """Return no shares, for the positions of a source."""
        positions, channels, offsets = layout(source)
        return Shares(np.zeros((positions, channels, outputs)), offsets, np.zeros((len(offsets) - 1, outputs)))

    def scaled(self, factor: Floats) -> Shares:
        """Multiply all shares of a sample by a number, ``(n_samples,)``."""
        repeated = np.repeat(factor, np.diff(self.offsets))
        values, bias = self.values * repeated[:, None, None], self.bias * factor[:, None]
        return replace(self, values=values, bias=bias)

    def plus(self, other: Shares) -> Shares:
        """Add shares of the same positions."""
        by_channel = self.by_channel and other.by_channel
        return Shares(self.values + other.values, self.offsets, self.bias + other.bias, by_channel)

    def with_bias(self, bias: Floats) -> Shares:
        """Add constants, ``(n_samples, R)`` or ``(R,)``."""
        return replace(self, bias=self.bias + bias)


class Weights(NamedTuple):
    """Weights of reference objects, ``(R, N)``, or of explicit features, ``(R, P)``, in R outputs."""

    values: Floats
    reference: Any = None  # the reference objects; None for weights of features

    @property
    def over_features(self) -> bool:
        """Whether features are weighted."""
        return self.reference is None

    def of_features(self, kernel: Any) -> Floats:
        """Return the weights of the features of a kernel, ``(R, P)``."""
        if self.over_features:
            return self.values
        return weighted_rows(self.values, kernel._evaluation.prepared(self.reference).operand)


def weighted_rows(weights: Floats, operand: Any) -> Floats:
    """Return the weighted sums of rows of features, ``(R, P)``."""
    if isinstance(operand, CenteredCounts):
        counts = weights @ operand.rows.values.rows.to_scipy()
        return np.asarray(counts - np.outer(weights @ operand.totals, operand.expected))
    rows = operand.values.rows.to_scipy() if operand.sparse else np.asarray(to_numpy(operand.values), dtype=np.float64)
    return np.asarray(weights @ rows)


@singledispatch
def plain_shares(kernel: Any, source: Any, weights: Weights) -> Shares:
    """Return shares before normalization; the parameters are those of `shares_of`."""
    raise not_additive(kernel, "is not a sum over positions")


def shares_of(kernel: Any, source: Any, weights: Weights) -> Shares:
    """Return the shares of all positions in weighted sums of kernel values or features.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel.
    source : source
        The compared objects that the kernel makes of them.
    weights : Weights
        Weights of reference objects or of features.
    """
    if not kernel.normalize:
        return plain_shares(kernel, source, weights)
    if not weights.over_features:
        weights = weights._replace(values=weights.values * unit_factor(kernel, weights.reference))
    return plain_shares(kernel, source, weights).scaled(unit_factor(kernel, source))


def not_additive(kernel: Any, why: str) -> NotAdditive:
    """Return the error of a kernel that has no shares."""
    return NotAdditive(
        f"{type(kernel).__name__} {why}, so its decisions have no exact shares. Use method='marginal', which leaves "
        "out positions."
    )


def unit_factor(kernel: Any, source: Any) -> Floats:
    """Return the factors that normalize the features of objects, ``(N,)``; 0 for objects of zero norm."""
    prepared = kernel._evaluation.prepared(source)
    norm = np.asarray(to_numpy(prepared.norm), dtype=np.float64)
    factor = np.exp(-norm / 2) if kernel.domain == "log" else 1 / np.sqrt(norm)
    return np.where(prepared.zero, 0.0, factor) if prepared.zero is not None else factor


def layout(source: Any) -> tuple[int, int, Floats]:
    """Return the number of positions and channels of data, and the offsets of the samples."""
    if isinstance(source, Sequences):
        return len(source.values), source.dimension or 1, np.asarray(source.offsets)
    if isinstance(source, CSRRows):  # the positions of a sparse row are its entries
        return len(source.indices), 1, np.asarray(source.indptr)
    n = n_objects(source)
    return n, int(np.shape(source)[1]), np.arange(n + 1)


def observed(source: Any) -> Floats:
    """Return which values are observed, ``(S, D)``: not NaN, and not the code of a missing symbol."""
    if isinstance(source, Sequences) and source.alphabet is not None:
        return np.asarray(source.values != source.alphabet.missing)[:, None]
    if isinstance(source, CSRRows):
        return np.ones((len(source.indices), 1), dtype=bool)
    values = source.values if isinstance(source, Sequences) else np.asarray(source)
    return ~np.isnan(values)


def over_channels(steps: Floats, source: Any) -> Floats:
    """Spread shares of whole steps, ``(S, R)``, equally over the observed channels, ``(S, D, R)``."""
    seen = observed(source)
    fraction = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    return np.asarray(steps[:, None, :] * fraction[:, :, None])


# -- windows ---------------------------------------------------------------------------------------------------


@plain_shares.register(Spectrum)
def _spectrum(kernel: Any, source: Sequences, weights: Weights) -> Shares:
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


@plain_shares.register(Oligo)
def _oligo(kernel: Any, source: Sequences, weights: Weights) -> Shares:
    """Spread what every word at its position adds equally over its symbols."""
    blur, vector = kernel.blur(), weights.values
    if not weights.over_features:
        vector = np.asarray(vector @ kernel._features(kernel._evaluation.prepared(weights.reference).operand))
    found = windows_of(source.values, source.offsets, len(kernel.alphabet_), int(kernel.k))
    worth = vector.reshape(len(vector), -1, blur.shape[1])[:, found.code]
    shares = Shares.zeros(source, len(vector))
    sums = np.einsum("rwj,wj->wr", worth, blur[found.start - source.offsets[found.owner]])
    _spread(shares, source, found.start, sums, int(kernel.k))
    return shares


@plain_shares.register(EmpiricalMeanMap)
def _mean_map(kernel: Any, source: Sequences, weights: Weights) -> Shares:
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
    step = max(1, WINDOW_VALUES // max(1, weights.values.shape[1]))
    blocks = (evaluation.prepared(windows[at : at + step]) for at in range(0, len(windows), step))
    return np.concatenate([np.asarray(to_numpy(evaluation.matrix(a, columns))) @ weights.values.T for a in blocks])


def _spread(shares: Shares, source: Sequences, start: Indices, sums: Floats, width: int) -> None:
    """Add what windows contribute to the shares of their positions, in equal parts; no position is missing."""
    steps = np.zeros((len(source.values), sums.shape[1]))
    for j in range(width):
        steps[start + j] += sums / width
    shares.values += over_channels(steps, source)
    shares.by_channel = False


@plain_shares.register(WindowScores)
def _window_scores(kernel: Any, source: Sequences, weights: Weights) -> Shares:
    """Spread what every window adds equally over its observed values."""
    vector = weights.of_features(kernel)
    shares = Shares.zeros(source, len(vector))
    features = kernel._evaluation.prepared(source).operand.values
    for i, (start, stop) in enumerate(pairwise(source.offsets.tolist())):
        steps = np.arange(stop - start)
        seen = ~np.isnan(source.values[start:stop])
        own = shares.values[start:stop]
        for dilation, worth in kernel.worth(source[i : i + 1], vector):
            place = window_steps(np.array([0, len(steps)]), steps, kernel.length, dilation)
            inside = seen[place].astype(float)
            inside /= np.maximum(inside.sum(axis=(1, 2), keepdims=True), 1.0)
            np.add.at(own, place, inside[..., None] * worth[:, None, None, :])
        shares.bias[i] = vector @ features[i] - own.sum(axis=(0, 1))
    shares.by_channel = False
    return shares


# -- columns ---------------------------------------------------------------------------------------------------


@plain_shares.register(Linear)
def _linear(kernel: Any, source: Any, weights: Weights) -> Shares:
    """Share an inner product by columns."""
    vector = weights.of_features(kernel)
    shares = Shares.zeros(source, len(vector))
    shares.values[:] = _column_shares(source, vector)
    return shares


def _column_shares(source: Any, each: Floats) -> Floats:
    """Return values times the worth of every column, ``(R, columns)``, for the positions of rows."""
    if isinstance(source, CSRRows):
        return np.asarray((each[:, source.indices] * source.data).T[:, None, :])
    return np.asarray(np.asarray(to_numpy(source), dtype=np.float64)[:, :, None] * each.T)


# -- Fisher scores ----------------------------------------------------------------------------------------------


@plain_shares.register(Fisher)
def _fisher(kernel: Any, source: Any, weights: Weights) -> Shares:
    r"""Share :math:`\langle w, \phi(W g)\rangle` with :math:`g = \sum_t g_t`; of a power, in proportion (AS)."""
    models = kernel.model_
    if is_posterior(source):
        raise not_additive(kernel, "was fitted to posteriors, which have no transitions of single steps")
    _, per, power = kernel._recipe()
    parametrization, whiten = kernel.parametrization, kernel._whiten
    vector = weights.of_features(kernel)
    if hasattr(models, "token_probabilities") and not isinstance(source, Sequences):  # counts of words
        if power != 1:
            raise not_additive(kernel, f"takes the power {power:g} of scores of word counts")
        found = _tokens(models, source, vector if whiten is None else whiten.pulled(vector), parametrization)
    elif power == 1:
        found = _steps(models, source, vector if whiten is None else whiten.pulled(vector), parametrization)
    else:
        found = _powered(kernel, source, vector, power)
    return found if per == "sequence" else found.scaled(1 / np.maximum(lengths_of(source), 1))


def _blocks(source: Any, width: int) -> Iterator[tuple[slice, slice, Any]]:
    """Yield samples, their positions and the samples themselves, with a limited number of scores at once."""
    offsets = layout(source)[2]
    most, start = max(1, SCORES // max(width, 1)), 0
    while start < len(offsets) - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1)
        yield slice(start, stop), slice(int(offsets[start]), int(offsets[stop])), source[start:stop]
        start = stop


def _steps(models: Any, source: Any, vector: Floats, parametrization: str) -> Shares:
    """Return the shares of observations in weighted sums of scores, with the same weights for all samples."""
    shares = Shares.zeros(source, len(vector))
    channels = _Channels(models, source)
    for _, at, block in _blocks(source, vector.shape[1]):
        shares.values[at] = channels.summed(step_scores(models, block, parametrization), vector, at)
    shares.by_channel = channels.separate
    return _observed_only(shares, source)


def _powered(kernel: Any, source: Any, vector: Floats, power: float) -> Shares:
    r"""Return shares of powers of whitened scores, :math:`z_t \phi(z) / z`."""
    models, whiten, parametrization = kernel.model_, kernel._whiten, kernel.parametrization
    shares, channels = Shares.zeros(source, len(vector)), _Channels(models, source)
    # Of scores per step, the power is taken of the mean.
    n = len(shares.offsets) - 1
    lengths = np.ones(n) if kernel._recipe().per == "sequence" else np.maximum(lengths_of(source), 1)
    for samples, at, block in _blocks(source, vector.shape[1]):
        rows = dense(step_scores(models, block, parametrization), "power")
        places = shares.offsets[samples.start : samples.stop + 1] - at.start
        for i, (a, b) in enumerate(pairwise(places.tolist()), start=samples.start):
            part = rows[a:b]
            z = part if whiten is None else np.asarray(whiten.applied(part))
            total = z.sum(axis=0) / lengths[i]
            factor = np.zeros_like(total)
            np.power(np.abs(total), power - 1, out=factor, where=total != 0)
            own = vector * factor
            pulled = own if whiten is None else whiten.pulled(own)
            where = slice(at.start + a, at.start + b)
            shares.values[where] = channels.summed(part, pulled, where)
    shares.by_channel = channels.separate and (whiten is None or isinstance(whiten, Diagonal))
    return _observed_only(shares, source)


class _Channels:
    """Sums of weighted scores by channel: parameters belong to channels, or to a step as a whole."""

    def __init__(self, models: Any, source: Any) -> None:
        number = layout(source)[1]
        self.shares, self.separate = None, True
        if number > 1:
            shares = channel_shares(models, number)
            # The scores of a channel depend on other channels through covariances and through posteriors of states.
            self.separate = isinstance(models, ExponentialFamily) and bool((shares[:, :-1].max(axis=1) == 1).all())
            self.shares = sparse.csr_array(shares)
            seen = observed(source).astype(float)
            seen[~seen.any(axis=1), 0] = 1.0  # which becomes bias
            self.fraction = seen / seen.sum(axis=1, keepdims=True)

    def summed(self, rows: Any, vector: Floats, at: slice) -> Floats:
        """Return the sums of scores ``(T, P)`` of the positions ``at`` with weights ``(R, P)``, ``(T, D, R)``."""
        if self.shares is None:
            return np.asarray(rows @ vector.T)[:, None, :]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
        parts = np.stack([np.asarray((rows * weights) @ self.shares) for weights in vector], axis=-1)
        return np.asarray(parts[:, :-1] + parts[:, -1:] * self.fraction[at][:, :, None])


def _observed_only(shares: Shares, source: Any) -> Shares:
    """Make bias of the shares of steps without any observed value, whose states are known from other steps only."""
    unseen = np.asarray(~observed(source).any(axis=1))
    lost = np.where(unseen[:, None], shares.values.sum(axis=1), 0.0)
    shares.values[unseen] = 0.0
    return shares.with_bias(segment_sum(lost, shares.offsets))


def _tokens(models: Any, source: Any, vector: Floats, parametrization: str) -> Shares:
    r"""Share :math:`\sum_v w_v (x_v - n p_v)`: a word that occurs x times gets :math:`x (w_v - \sum_u w_u p_u)`."""
    shares = Shares.zeros(source, len(vector))
    p = np.asarray(models.token_probabilities(), dtype=np.float64)
    for c, own in enumerate(np.split(vector, len(models), axis=1)):
        if parametrization == "logit":
            each = own - (own @ p[c])[:, None]
        else:
            each = np.divide(own, p[c], out=np.zeros_like(own), where=p[c] > 0) - own.sum(axis=1)[:, None]
        shares.values += _column_shares(source, each)
    return shares


# -- kernels that are made of others ---------------------------------------------------------------------------


def part_shares(kernel: Any, at: int, source: Any, weights: Weights, factor: Any = 1.0) -> Shares:
    """Return the shares of one part of a compound kernel, whose sources have a view for each part."""
    if weights.over_features:
        raise not_additive(kernel, "has no features that are sums over positions")
    own = Weights(weights.values * factor, weights.reference.parts[at])
    return shares_of(kernel._parts()[at], source.parts[at], own)


@plain_shares.register(Sum)
@plain_shares.register(Scaled)
@plain_shares.register(Normalized)
@plain_shares.register(TargetAligned)
def _weighted_parts(kernel: Any, source: Any, weights: Weights) -> Shares:
    factors = [1.0] * len(kernel._parts())
    if isinstance(kernel, Scaled):
        factors = [float(kernel.weight)]
    elif isinstance(kernel, TargetAligned):
        factors = kernel.weights_[kernel.weights_ > 0].tolist()
    parts = (part_shares(kernel, at, source, weights, factor) for at, factor in enumerate(factors))
    return reduce(Shares.plus, parts)


@plain_shares.register(FisherEnsemble)
def _ensemble(kernel: Any, source: Any, weights: Weights) -> Shares:
    """Add the shares of all parts, passed back through their transformers."""
    vectors = np.split(weights.of_features(kernel), kernel._ends[1:-1], axis=1)
    total, filled = Shares.zeros(source, len(weights.values)), kernel._filled(source)
    for part, steps, weight, vector in zip(
        kernel.kernels_, kernel.transformers_, kernel.weights_, vectors, strict=True
    ):
        own = reduce(lambda X, step: step.transform(X), steps, filled)
        found = shares_of(part, part._accept(own, reset=False), Weights(np.sqrt(weight) * vector))
        total = total.plus(through(steps, filled, found))
    return through(kernel.filling_, source, total)


@plain_shares.register(Centered)
def _centered(kernel: Any, source: Any, weights: Weights) -> Shares:
    """Shares of :math:`k(x, z) - m(x) - m(z) + m`: the training objects get weights, the rest is bias."""
    found = part_shares(kernel, 0, source, weights)
    numbers = to_numpy(kernel._evaluation.prepared(weights.reference).operand.numbers)
    total, inner = weights.values.sum(axis=1), kernel._inner
    equal = np.repeat(-total[:, None] / len(inner.train_), len(inner.train_), axis=1)
    found = found.plus(shares_of(inner, source.parts[0], Weights(equal, inner.train_)))
    return found.with_bias(float(kernel._mean) * total - weights.values @ numbers)
