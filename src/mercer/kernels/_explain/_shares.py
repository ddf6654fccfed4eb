"""Shares of positions in weighted sums of kernel values, for kernels whose features are sums over positions.

`plain_shares` is a generic function: a kernel with exact shares registers a function for its class. Shares pass back
through transformers of series to the original time steps and channels: a value that a transformer computes from others
passes its share on to these, in proportion to the absolute values of the coefficients, so that nothing is lost, and no
share becomes larger. Constants, such as the mean that `Standardize` subtracts, get nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._refusals import NotAdditive
from mercer.data.channels import inside
from mercer.data.csr import CSRRows
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Delays, Derivatives, PerStep, numbers_from_one
from mercer.kernels._data import n_objects, unwrapped
from mercer.kernels._estimators import is_word, kinds
from mercer.kernels._operands import CenteredCounts

LINEAR = 1e-9
"""A transformer of time steps is affine if its output is that of a matrix up to this fraction."""


@dataclass
class Shares:
    """Shares of S positions of all samples, one after the other, with D channels, in R outputs."""

    values: Floats  # (S, D, R)
    offsets: Floats  # (n_samples + 1,): sample i has the positions offsets[i] to offsets[i + 1]
    bias: Floats  # (n_samples, R): what belongs to no position
    near: Floats | None = (
        None  # (n_samples, R, 2): absolute terms of features near zero, where a power is steep; of all
    )

    @staticmethod
    def zeros(source: Any, outputs: int) -> Shares:
        """Return no shares, for the positions of a source."""
        positions, channels, offsets = layout(source)
        return Shares(np.zeros((positions, channels, outputs)), offsets, np.zeros((len(offsets) - 1, outputs)))

    def scaled(self, factor: Floats) -> Shares:
        """Multiply all shares of a sample by a number, ``(n_samples,)``."""
        repeated = np.repeat(factor, np.diff(self.offsets))
        near = None if self.near is None else self.near * np.abs(factor)[:, None, None]
        return Shares(self.values * repeated[:, None, None], self.offsets, self.bias * factor[:, None], near)

    def plus(self, other: Shares) -> Shares:
        """Add shares of the same positions."""
        near = [part.near for part in (self, other) if part.near is not None]
        total = sum(near) if near else None
        return Shares(self.values + other.values, self.offsets, self.bias + other.bias, total)  # type: ignore[arg-type]

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
def plain_shares(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Return shares before normalization; the parameters are those of `shares_of`."""
    raise not_additive(kernel, "is not a sum over positions")


def shares_of(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Return the shares of all positions in weighted sums of kernel values or features.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel.
    data : input of the kernel
        Data, as they were passed to the kernel.
    source : source
        The compared objects that the kernel makes of them.
    weights : Weights
        Weights of reference objects or of features.
    """
    if not kernel.normalize:
        return plain_shares(kernel, data, source, weights)
    if not weights.over_features:
        weights = weights._replace(values=weights.values * unit_factor(kernel, weights.reference))
    return plain_shares(kernel, data, source, weights).scaled(unit_factor(kernel, source))


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


# -- transformers --------------------------------------------------------------------------------------------


def through(steps: Any, data: Any, shares: Shares) -> Shares:
    """Return the shares of the positions of ``data``, from those of the output of several fitted transformers."""
    inputs = [data]
    for step in steps[:-1]:
        inputs.append(step.transform(inputs[-1]))
    for step, before in zip(steps[::-1], inputs[::-1], strict=True):
        shares = pulled_back(step, before, shares)
    return shares


def pulled_back(step: Any, before: Any, shares: Shares) -> Shares:
    """Return the shares of the positions of the input of one transformer."""
    if is_word(step, "passthrough"):
        return shares
    if "Pipeline" in kinds(step):
        return through([part for _, part in step.steps], before, shares)
    if type(step) not in BACK:
        raise NotAdditive(
            f"mc.explain cannot pass shares back through {type(step).__name__}. Use method='marginal', or apply it to "
            "the data before the pipeline."
        )
    X = Sequences(inside(unwrapped(before)))
    return BACK[type(step)](step, X, shares)


def _clock(step: Any, X: Sequences, shares: Shares) -> Shares:
    """Give the share of the time to the channels of its step."""
    seen = observed(X)
    number = seen.sum(axis=1, keepdims=True)
    time = shares.values[:, -1]
    values = shares.values[:, :-1] + (seen / np.maximum(number, 1))[:, :, None] * time[:, None, :]
    lost = segment_sum(np.where(number > 0, 0.0, time), shares.offsets)
    return Shares(values, shares.offsets, shares.bias + lost, shares.near)


def _derivatives(step: Any, X: Sequences, shares: Shares) -> Shares:
    """Give half of the share of a difference to each of the two values."""
    orders = numbers_from_one("orders", step.orders)
    own, *blocks = np.split(shares.values, len(orders) + 1, axis=1)
    steps = np.arange(len(own))
    before = np.maximum(steps - 1, np.repeat(X.offsets[:-1], X.lengths))
    after = np.minimum(steps + 1, np.repeat(X.offsets[1:], X.lengths) - 1)
    values = own.copy()
    for order, block in zip(orders, blocks, strict=True):
        for _ in range(order):
            block = _added((before, block / 2), (after, block / 2))
        values += block
    return Shares(values, shares.offsets, shares.bias, shares.near)


def _delays(step: Any, X: Sequences, shares: Shares) -> Shares:
    lags = numbers_from_one("lags", step.lags)
    own, *blocks = np.split(shares.values, len(lags) + 1, axis=1)
    first, steps = np.repeat(X.offsets[:-1], X.lengths), np.arange(len(own))
    values = own.copy()
    for lag, block in zip(lags, blocks, strict=True):
        values += _added((np.maximum(steps - lag, first), block))
    return Shares(values, shares.offsets, shares.bias, shares.near)


def _resampled(step: Any, X: Sequences, shares: Shares) -> Shares:
    """Give the share of an interpolated value to the two values that it lies between."""
    values, bias = np.zeros((len(X.values), *shares.values.shape[1:])), shares.bias.copy()
    count = int(step.n_steps)
    for i, length in enumerate(X.lengths.tolist()):
        places = np.linspace(0.0, length - 1.0, count) if count > 1 else np.array([(length - 1) / 2])
        given = shares.values[shares.offsets[i] : shares.offsets[i + 1]]
        for channel, column in enumerate(X[i].T):
            seen = np.flatnonzero(~np.isnan(column))
            if not len(seen):  # the channel is 0 everywhere
                bias[i] += given[:, channel].sum(axis=0)
                continue
            place = np.interp(places, seen, np.arange(len(seen)))
            left = np.minimum(place.astype(int), max(len(seen) - 2, 0))
            right = np.minimum(left + 1, len(seen) - 1)
            part = (place - left)[:, None]
            target = values[X.offsets[i] : X.offsets[i + 1], channel]
            np.add.at(target, seen[left], given[:, channel] * (1 - part))
            np.add.at(target, seen[right], given[:, channel] * part)
    return Shares(values, X.offsets, bias, shares.near)


def _per_step(step: Any, X: Sequences, shares: Shares) -> Shares:
    """Pass back through an affine transformer of time steps; raise if it is not affine."""
    width = X.values.shape[1]
    level = step._steps(np.zeros((1, width)))[0]
    matrix = step._steps(np.eye(width)) - level  # (input, output)
    known = X.values[~np.isnan(X.values).any(axis=1)]
    expected, found = known @ matrix + level, step._steps(known) if len(known) else known @ matrix + level
    size = np.abs(known) @ np.abs(matrix) + np.abs(level)
    if not np.all(np.abs(found - expected) <= LINEAR * size + 1e-12):
        raise NotAdditive(
            f"mc.explain cannot pass shares back through PerStep({type(step.transformer_).__name__}), which is not "
            "linear. Use method='marginal', or apply it to the data before the pipeline."
        )
    total = np.abs(matrix).sum(axis=0)
    part = np.abs(matrix) / np.where(total > 0, total, 1.0)
    lost = segment_sum((shares.values * (total == 0)[None, :, None]).sum(axis=1), shares.offsets)
    values = np.einsum("io,sor->sir", part, shares.values)
    return Shares(np.asarray(values), shares.offsets, shares.bias + lost, shares.near)


def _added(*parts: tuple[Indices, Floats]) -> Floats:
    """Sum shares at the positions that they are passed to."""
    found = np.zeros_like(parts[0][1])
    for where, values in parts:
        np.add.at(found, where, values)
    return found


BACK: dict[type, Callable[[Any, Sequences, Shares], Shares]] = {
    Clock: _clock,
    Delays: _delays,
    Derivatives: _derivatives,
    PerStep: _per_step,
    Resample: _resampled,
    Standardize: lambda step, X, shares: shares,  # every value is shifted and scaled by itself
}
"""How shares pass back through each transformer."""
