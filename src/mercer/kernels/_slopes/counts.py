"""Derivatives of log kernels between laws of symbols and counts; see `mercer.kernels._slopes.families`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

from mercer._array import Floats, logsumexp, safe_log
from mercer.families import poisson
from mercer.families._counts.convolution import log_factorials
from mercer.kernels._operands import finite
from mercer.kernels._slopes.inner import inner_slope


def planes(p: Floats, q: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the planes of every coordinate, ``(*B, n, 1)`` and ``(*B, 1, m)``."""
    return ((p[..., :, None, i], q[..., None, :, i]) for i in range(p.shape[-1]))


def symbol_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    return inner_slope(p.probability, q.probability, rho, logs)


def multinomial_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    """As `families._counts.convolution.log_sum_over_counts`, with the derivative of every sum beside it (PPK-3.3)."""
    if p.trials == 1:
        return symbol_product(p, q, rho, logs)
    trials = int(p.trials)
    factorials = log_factorials(trials)
    table: list[Floats] = []
    slopes: list[Floats] = []
    for a, b in planes(safe_log(p.dense().probability), safe_log(q.dense().probability)):
        log = a + b
        known = finite(log)
        terms = [np.zeros_like(log)] + [n * rho * log - 2 * rho * factorials[n] for n in range(1, trials + 1)]
        turns = [n * known - 2 * factorials[n] for n in range(trials + 1)]
        if not table:
            table, slopes = terms, turns
            continue
        sums = [np.stack([table[j] + terms[s - j] for j in range(s + 1)]) for s in range(trials + 1)]
        each = [np.stack([slopes[j] + turns[s - j] for j in range(s + 1)]) for s in range(trials + 1)]
        table = [logsumexp(parts, axis=0) for parts in sums]
        slopes = [mean_of(parts, turn, whole) for parts, turn, whole in zip(sums, each, table, strict=True)]
    return np.where(logs > -np.inf, slopes[trials] + 2 * factorials[trials], 0.0)


def mean_of(parts: Floats, slopes: Floats, whole: Floats, axis: Any = 0) -> Floats:
    """Average slopes over ``axis`` with the weights exp(parts), whose log sum over it is ``whole``."""
    weights = np.exp(parts - np.expand_dims(finite(whole), axis))
    return np.asarray(np.sum(weights * slopes, axis=axis))


def symbol_mean_map(trials: float, gamma: float, logs: Floats) -> Floats:
    r"""Derive log ((1 - e) s + e)^trials, e = exp(-2 gamma), from its value alone (GMMK-1).

    With ``u = -logs / trials`` it is ``-2 trials (e^u - 1) / (e^(2 gamma) - 1)``, where u is from 0 to 2 gamma.
    """
    u = np.clip(-logs / trials, 0.0, 2 * gamma)
    return np.asarray(-2 * trials * np.exp(u - 2 * gamma) * np.expm1(-u) / math.expm1(-2 * gamma))


def bernoulli_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    slope = np.zeros_like(logs)
    with np.errstate(divide="ignore"):
        pairs = [(np.log(x.probability), np.log1p(-x.probability)) for x in (p, q)]
    (yes, no), (other_yes, other_no) = pairs
    for (a, b), (c, d) in zip(planes(yes, other_yes), planes(no, other_no), strict=True):
        parts = np.stack(np.broadcast_arrays(a + b, c + d))
        slope += mean_of(rho * parts, finite(parts), logsumexp(rho * parts, axis=0))
    return np.where(logs > -np.inf, slope, 0.0)


def bernoulli_mean_map(p: Any, q: Any, gamma: float, logs: Floats) -> Floats:
    """Derive log((1 - e) s + e), e = exp(-gamma), s the probability that a coordinate is equal."""
    slope = np.zeros_like(logs)
    for g, h in planes(p.probability, q.probability):
        equal, other = g * h + (1 - g) * (1 - h), g * (1 - h) + h * (1 - g)
        slope -= other * special.expit(-(safe_log(equal) + gamma + np.log(-np.expm1(-gamma))))
    return slope


def poisson_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    """Sum outwards from the largest term, as `families.poisson._series` does (PPK-3.6)."""
    slope = np.zeros_like(logs)
    for a, b in planes(p.rate, q.rate):
        mean = np.sqrt(a * b)
        top, deviation = np.floor(mean), np.sqrt(mean / (2 * rho))
        stride = np.where(mean >= 12 * deviation, np.clip(np.floor(deviation / 4), 1.0, None), 1.0)
        largest = poisson.log_term(top, mean)
        total, weighted = np.zeros_like(mean), np.zeros_like(mean)
        for step in poisson.steps_around(float(np.max(np.where(stride == 1, mean, 0.0), initial=0.0)), rho):
            n = top + step * stride
            term = np.where(n >= 0, poisson.log_term(np.maximum(n, 0.0), mean) - largest, -np.inf)
            weight = np.exp(2 * rho * term)
            total += weight
            weighted += weight * finite(term)
        slope += 2 * (weighted / total + largest) - (np.sqrt(a) - np.sqrt(b)) ** 2
    return slope


def poisson_mean_map(p: Any, q: Any, gamma: float, logs: Floats) -> Floats:
    """Smooth the law of one side, then meet the other, as `families.poisson._log_mean_map` does (GMMK-10d)."""
    slope = np.zeros_like(logs)
    for i in range(p.rate.shape[-1]):
        a, b = p.rate[..., i], q.rate[..., i]
        widest = float(max(a.max(initial=0.0), b.max(initial=0.0)))
        counts = np.arange(float(int(widest) + poisson.steps_around(widest, 0.5).stop))
        left, right = (poisson.log_term(counts, side[..., None]) for side in (a, b))
        smooth, turned = np.empty_like(left), np.empty_like(left)
        for n in range(len(counts)):
            squares = (counts - n) ** 2
            parts = left - gamma * squares
            smooth[..., n] = logsumexp(parts, axis=-1)
            turned[..., n] = mean_of(parts, -squares, smooth[..., n], axis=-1)
        top = np.full(logs.shape, -np.inf)
        for n in range(len(counts)):
            np.maximum(top, smooth[..., :, None, n] + right[..., None, :, n], out=top)
        total, weighted = np.zeros_like(top), np.zeros_like(top)
        for n in range(len(counts)):
            weight = np.exp(smooth[..., :, None, n] + right[..., None, :, n] - top)
            total += weight
            weighted += weight * turned[..., :, None, n]
        slope += weighted / total
    return slope


def geometric_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    slope = np.zeros_like(logs)
    for a, b in planes(p.probability, q.probability):
        with np.errstate(divide="ignore"):
            failure = np.log1p(-a) + np.log1p(-b)
        some = failure > -np.inf
        safe = np.where(some, failure, -1.0)
        slope += np.log(a) + np.log(b) + np.where(some, safe / np.expm1(-rho * safe), 0.0)
    return slope


def geometric_mean_map(p: Any, q: Any, gamma: float, logs: Floats) -> Floats:
    slope = np.zeros_like(logs)
    for i in range(p.probability.shape[-1]):
        sides = [_one_sided(x.probability[..., i], gamma) for x in (p, q)]
        total = 1 + sides[0][0][..., :, None] + sides[1][0][..., None, :]
        slope -= (sides[0][1][..., :, None] + sides[1][1][..., None, :]) / total
    return slope


def _one_sided(p: Floats, gamma: float) -> tuple[Floats, Floats]:
    """Sum (1 - p)^k exp(-gamma k^2), and k^2 times that, over k >= 1."""
    smallest = float(p.min(initial=1.0))
    decay = -math.log1p(-smallest) if smallest < 1 else math.inf
    total, squares, failure = np.zeros_like(p), np.zeros_like(p), np.ones_like(p)
    for k in range(1, int(min(math.sqrt(60 / gamma), 60 / decay)) + 2):  # what follows is below e^-44 k^2
        failure = failure * (1 - p)
        term = failure * math.exp(-gamma * k * k)
        total += term
        squares += k * k * term
    return total, squares
