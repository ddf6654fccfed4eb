"""Pass shares back through transformers of series to the original time steps and channels.

A value that a transformer computes from others passes its share on to these, in proportion to the absolute values of
the coefficients, so that nothing is lost, and no share becomes larger. Constants, such as the mean that `Standardize`
subtracts, get nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._checks import NotAdditive
from mercer.data.channels import inside
from mercer.data.gaps import FillGaps
from mercer.data.ragged import neighbors, window_steps
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Derivatives, Windows, numbers_from_one, slopes
from mercer.kernels._data import unwrapped
from mercer.kernels._estimators import is_word, kinds


def through(steps: Any, data: Any, shares: Any) -> Any:
    """Return the shares of the positions of ``data``, from those of the output of several fitted transformers."""
    inputs = [data]
    for step in steps[:-1]:
        inputs.append(step.transform(inputs[-1]))
    for step, before in zip(steps[::-1], inputs[::-1], strict=False):  # without steps there is an input all the same
        shares = pulled_back(step, before, shares)
    return shares


def pulled_back(step: Any, before: Any, shares: Any) -> Any:
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


def _clock(step: Any, X: Sequences, shares: Any) -> Any:
    """Give the share of the time to the channels of its step."""
    seen = ~np.isnan(X.values)
    number = seen.sum(axis=1, keepdims=True)
    time = shares.values[:, -1]
    values = shares.values[:, :-1] + (seen / np.maximum(number, 1))[:, :, None] * time[:, None, :]
    lost = segment_sum(np.where(number > 0, 0.0, time), shares.offsets)
    return replace(shares, values=values, bias=shares.bias + lost, by_channel=False)


def _derivatives(step: Any, X: Sequences, shares: Any) -> Any:
    """Give half of the share of a difference to each of the two values."""
    orders = numbers_from_one("orders", step.orders)
    own, *blocks = np.split(shares.values, len(orders) + 1, axis=1)
    levels = [X.values]
    for _ in range(max(orders) - 1):
        levels.append(slopes(levels[-1], X.offsets))
    sides = [neighbors(~np.isnan(level), X.offsets) for level in levels]
    values, channels = own.copy(), np.arange(X.values.shape[1])
    for order, block in zip(orders, blocks, strict=True):
        for before, after in reversed(sides[:order]):
            given, block = block / 2, np.zeros_like(block)
            np.add.at(block, (before, channels), given)
            np.add.at(block, (after, channels), given)
        values += block
    return replace(shares, values=values)


def _windows(step: Any, X: Sequences, shares: Any) -> Any:
    """Give the share of every value in a window to the step that it is a copy of."""
    length, values = int(step.length), np.zeros((*X.values.shape, shares.values.shape[2]))
    steps = window_steps(X.offsets, np.arange(len(X.values)), length, int(step.dilation))
    for place, block in zip(steps.T, np.split(shares.values, length, axis=1), strict=True):
        np.add.at(values, place, block)
    return replace(shares, values=values)


def _filled(step: Any, X: Sequences, shares: Any) -> Any:
    """Give half of the share of a filled value to each of the nearest observed values, or all of it to a single one."""
    gone, channels, values = np.isnan(X.values), np.arange(X.values.shape[1]), shares.values.copy()
    before, after = neighbors(~gone, X.offsets)
    steps = np.arange(len(gone))[:, None]
    given = np.where(gone[:, :, None], values / 2, 0.0)
    values -= 2 * given
    np.add.at(values, (np.where(before == steps, after, before), channels), given)
    np.add.at(values, (np.where(after == steps, before, after), channels), given)
    return replace(shares, values=values)


def _resampled(step: Any, X: Sequences, shares: Any) -> Any:
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
    return replace(shares, values=values, offsets=X.offsets, bias=bias)


BACK: dict[type, Callable[[Any, Sequences, Any], Any]] = {
    Clock: _clock,
    Derivatives: _derivatives,
    FillGaps: _filled,
    Resample: _resampled,
    Windows: _windows,
    Standardize: lambda step, X, shares: shares,  # every value is shifted and scaled by itself
}
"""How shares pass back through each transformer."""
