"""Shares of kernels that are made of Fisher scores, which are sums over observations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.kernels._explain._shares import (
    Shares,
    Weights,
    layout,
    not_additive,
    observed,
    over_channels,
    plain_shares,
    weighted_rows,
)
from mercer.kernels._tangents import log_odds
from mercer.kernels.fisher import Fisher
from mercer.kernels.top import TOP
from mercer.models.scores import dense, is_posterior, lengths_of
from mercer.models.step_scores import channel_shares, prefix_log_prob, step_scores

BLOCK = 1 << 23
"""Number of scores of single observations in memory at once."""
NEAR_ZERO = 0.01
"""A feature is near zero if so little is left of the sum of its absolute terms."""


@plain_shares.register(Fisher)
def _fisher(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    r"""Share :math:`\langle w, \phi(W g)\rangle` with :math:`g = \sum_t g_t`; of a power, in proportion (AS)."""
    models = kernel.model_
    if is_posterior(source):
        raise not_additive(kernel, "was fitted to posteriors, which have no transitions of single steps")
    _, per, power = kernel._recipe()
    parametrization, whiten = kernel.parametrization, kernel._whiten
    vector = weights.of_features(kernel)
    if _are_words(source, models):
        if power != 1:
            raise not_additive(kernel, f"takes the power {power:g} of scores of word counts")
        found = _tokens(models, source, vector if whiten is None else whiten.pulled(vector), parametrization)
    elif power == 1:
        found = _steps(models, source, vector if whiten is None else whiten.pulled(vector), parametrization)
    else:
        found = _powered(kernel, source, vector, power)
    return found if per == "sequence" else found.scaled(1 / np.maximum(lengths_of(source), 1))


# -- scores of observations ------------------------------------------------------------------------------------


def _blocks(source: Any, width: int) -> Iterator[tuple[slice, slice, Any]]:
    """Yield samples, their positions and the samples themselves, with a limited number of scores at once."""
    offsets = layout(source)[2]
    most, start = max(1, BLOCK // max(width, 1)), 0
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
    return _carried(shares, source)


def _powered(kernel: Any, source: Any, vector: Floats, power: float) -> Shares:
    r"""Return shares of powers of whitened scores, :math:`z_t \phi(z) / z`, and how much is near zero."""
    models, whiten, parametrization = kernel.model_, kernel._whiten, kernel.parametrization
    shares, channels = Shares.zeros(source, len(vector)), _Channels(models, source)
    shares.near = np.zeros((len(shares.offsets) - 1, len(vector), 2))
    # Of scores per step, the power is taken of the mean.
    lengths = np.ones(len(shares.near)) if kernel._recipe().per == "sequence" else np.maximum(lengths_of(source), 1)
    for samples, at, block in _blocks(source, vector.shape[1]):
        rows = dense(step_scores(models, block, parametrization), "power")
        places = shares.offsets[samples.start : samples.stop + 1] - at.start
        for i, (a, b) in enumerate(pairwise(places.tolist()), start=samples.start):
            part = rows[a:b]
            z = part if whiten is None else np.asarray(whiten.applied(part))
            total, size = z.sum(axis=0) / lengths[i], np.abs(z).sum(axis=0) / lengths[i]
            factor = np.zeros_like(total)
            np.power(np.abs(total), power - 1, out=factor, where=total != 0)
            own = vector * factor
            pulled = own if whiten is None else whiten.pulled(own)
            where = slice(at.start + a, at.start + b)
            shares.values[where] = channels.summed(part, pulled, where)
            terms = np.abs(own) * size * lengths[i]
            shares.near[i, :, 0] = terms[:, np.abs(total) < NEAR_ZERO * size].sum(axis=1)
            shares.near[i, :, 1] = terms.sum(axis=1)
    return _carried(shares, source)


class _Channels:
    """Sums of weighted scores by channel: parameters belong to channels, or to a step as a whole."""

    def __init__(self, models: Any, source: Any) -> None:
        number = layout(source)[1]
        self.shares = sparse.csr_array(channel_shares(models, number)) if number > 1 else None
        if self.shares is not None:
            seen = observed(source).astype(float)
            seen[~seen.any(axis=1), 0] = 1.0  # carried to an observed step later
            self.fraction = seen / seen.sum(axis=1, keepdims=True)

    def summed(self, rows: Any, vector: Floats, at: slice) -> Floats:
        """Return the sums of scores ``(T, P)`` of the positions ``at`` with weights ``(R, P)``, ``(T, D, R)``."""
        if self.shares is None:
            return np.asarray(rows @ vector.T)[:, None, :]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
        parts = np.stack([np.asarray((rows * weights) @ self.shares) for weights in vector], axis=-1)
        return np.asarray(parts[:, :-1] + parts[:, -1:] * self.fraction[at][:, :, None])


def _carried(shares: Shares, source: Any) -> Shares:
    """Give the shares of steps without any observed value to the next observed step of the sample.

    What is known about a state that emits nothing comes from later observations; the rest is bias.
    """
    unseen = np.asarray(~observed(source).any(axis=1))
    if not unseen.any():
        return shares
    whole = shares.values.sum(axis=1)
    for i in np.unique(np.searchsorted(shares.offsets, np.flatnonzero(unseen), side="right") - 1):
        a, b = shares.offsets[i], shares.offsets[i + 1]
        seen = np.flatnonzero(~unseen[a:b])
        target = np.searchsorted(seen, np.flatnonzero(unseen[a:b]))
        moved = whole[a:b][unseen[a:b]]
        late = target == len(seen)
        shares.bias[i] += moved[late].sum(axis=0)
        steps = np.zeros((b - a, whole.shape[1]))
        np.add.at(steps, seen[target[~late]], moved[~late])
        shares.values[a:b][unseen[a:b]] = 0.0
        shares.values[a:b] += over_channels(steps, source[i : i + 1])
    return shares


# -- words -----------------------------------------------------------------------------------------------------


def _are_words(source: Any, models: Any) -> bool:
    """Whether samples are counts of words, whose scores are sums over the words that occur."""
    return hasattr(models, "token_probabilities") and not isinstance(source, Sequences)


def _word_shares(source: Any, each: Floats) -> Floats:
    """Return counts times the worth of every word, ``(R, words)``, for the positions of counts."""
    if isinstance(source, CSRRows):
        return np.asarray((each[:, source.indices] * source.data).T[:, None, :])
    return np.asarray(np.asarray(source, dtype=np.float64)[:, :, None] * each.T)


def _tokens(models: Any, source: Any, vector: Floats, parametrization: str) -> Shares:
    r"""Share :math:`\sum_v w_v (x_v - n p_v)`: a word that occurs x times gets :math:`x (w_v - \sum_u w_u p_u)`."""
    shares = Shares.zeros(source, len(vector))
    p = np.asarray(models.token_probabilities(), dtype=np.float64)
    for c, own in enumerate(np.split(vector, len(models), axis=1)):
        if parametrization == "logit":
            each = own - (own @ p[c])[:, None]
        else:
            each = np.divide(own, p[c], out=np.zeros_like(own), where=p[c] > 0) - own.sum(axis=1)[:, None]
        shares.values += _word_shares(source, each)
    return shares


# -- log odds --------------------------------------------------------------------------------------------------


@plain_shares.register(TOP)
def _top(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Share log odds by what every observation adds to them, and their gradients as scores."""
    models, count = kernel.model_, len(kernel.model_)
    odds, coefficients = kernel._odds(source)
    size = odds.shape[1]
    of_odds, of_scores = _top_weights(kernel, weights, size)
    if kernel._scales is not None:
        of_odds = of_odds * kernel._scales[0]
        of_scores = of_scores * kernel._scales[1].reshape(count, -1)
    if _are_words(source, models):
        if count > 2:
            raise not_additive(kernel, f"has log odds of {count} classes, which are not sums over words")
        found = _token_odds(kernel, source, of_odds)
        vector = np.einsum("rvkp,vk->rkp", of_scores, coefficients[0])
        return found.plus(_tokens(models, source, vector.reshape(len(vector), -1), kernel.parametrization))
    found = _odds(kernel, source, of_odds)
    offsets = found.offsets
    steps, channels = Shares.zeros(source, len(of_odds)), _Channels(models, source)
    for samples, at, block in _blocks(source, count * of_scores.shape[-1]):
        rows = step_scores(models, block, kernel.parametrization)
        for i in range(samples.start, samples.stop):
            vector = np.einsum("rvkp,vk->rkp", of_scores, coefficients[i]).reshape(len(of_odds), -1)
            within = slice(offsets[i] - at.start, offsets[i + 1] - at.start)
            where = slice(offsets[i], offsets[i + 1])
            steps.values[where] = channels.summed(rows[within], vector, where)
    found = found.plus(_carried(steps, source))
    return found if kernel.per == "sequence" else found.scaled(1 / np.maximum(lengths_of(source), 1))


def _top_weights(kernel: Any, weights: Weights, size: int) -> tuple[Floats, Floats]:
    """Return the weights of log odds ``(R, V)`` and of gradients ``(R, V, C, P)``."""
    count, values = len(kernel.model_), weights.values
    if weights.over_features:
        return values[:, :size], values[:, size:].reshape(len(values), size, count, -1)
    tangents = kernel._evaluation.prepared(weights.reference).operand
    gradients = [
        [weighted_rows(values * tangents.coefficients[:, v, k], rows) for k, rows in enumerate(tangents.scores)]
        for v in range(size)
    ]
    return values @ tangents.odds, np.moveaxis(np.array(gradients), 2, 0)


def _odds(kernel: Any, source: Any, weights: Floats) -> Shares:
    """Share log odds: the change with every observation; those of no observation are bias."""
    shares = Shares.zeros(source, len(weights))
    prior = np.log(kernel.priors_)
    start = log_odds(prior[None])[0]
    for _, at, block in _blocks(source, 1 << 10):
        odds = log_odds(prefix_log_prob(kernel.model_, block) + prior)[0]
        before = np.concatenate([start, odds[:-1]])
        first = shares.offsets[(shares.offsets >= at.start) & (shares.offsets < at.stop)] - at.start
        before[first] = start
        shares.values[at] = over_channels((odds - before) @ weights.T, block)
    return shares.with_bias((start @ weights.T)[0])


def _token_odds(kernel: Any, source: Any, weights: Floats) -> Shares:
    p = np.asarray(kernel.model_.token_probabilities(), dtype=np.float64)
    logs = np.log(np.where(p > 0, p, 1.0))
    shares = Shares.zeros(source, len(weights))
    shares.values += _word_shares(source, np.outer(weights[:, 0], logs[1] - logs[0]))
    prior = float(np.log(kernel.priors_[1]) - np.log(kernel.priors_[0]))
    return shares.with_bias(prior * weights[:, 0])
