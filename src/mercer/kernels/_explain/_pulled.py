"""Shares passed back through transformers of series to the original time steps and channels.

A value that a transformer computes from others passes its share on to these, in proportion to the absolute values of
the coefficients: nothing is lost, and no share becomes larger. Constants, such as the mean that `Standardize`
subtracts, get nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._refusals import NotAdditive
from mercer.data.channels import inside
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Delays, Derivatives, PerStep, numbers_from_one
from mercer.kernels._data import unwrapped
from mercer.kernels._estimators import is_word, kinds
from mercer.kernels._explain._shares import Shares, observed

LINEAR = 1e-9
"""A transformer of time steps is affine if its output is that of a matrix up to this fraction."""


def through(steps: Any, data: Any, shares: Shares) -> Shares:
    """Return the shares of the positions of ``data``, from those of the output of several transformers.

    Parameters
    ----------
    steps : sequence of transformers
        Fitted transformers.
    data : data
        Input of the first one.
    shares : Shares
        Shares of the positions of the output of the last one.
    """
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


def _same(step: Any, X: Sequences, shares: Shares) -> Shares:
    """Pass back through a transformer that shifts and scales every value by itself."""
    return shares


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


BACK = {
    Clock: _clock,
    Delays: _delays,
    Derivatives: _derivatives,
    PerStep: _per_step,
    Resample: _resampled,
    Standardize: _same,
}
"""How shares pass back through each transformer."""
