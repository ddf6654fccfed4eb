"""Shares of kernels that are made of others: sums, multiples, normalized, centered and residual kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.kernels._explain._pulled import pulled_back
from mercer.kernels._explain._shares import Shares, Weights, handles, not_additive, shares_of
from mercer.kernels.algebra import Scaled, Sum
from mercer.kernels.centered import Centered
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.normalized import Normalized
from mercer.kernels.residualized import Residualized
from mercer.kernels.targetaligned import TargetAligned


def part_shares(kernel: Any, at: int, data: Any, source: Any, weights: Weights, factor: Any = 1.0) -> Shares:
    """Return the shares of one part of a compound kernel, whose sources have a view for each part."""
    if weights.over_features:
        raise not_additive(kernel, "has no features that are sums over positions")
    own = Weights(weights.values * factor, weights.reference.parts[at])
    return shares_of(kernel._parts()[at], data, source.parts[at], own)


@handles(Sum)
def _sum(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    first, *rest = (part_shares(kernel, at, data, source, weights) for at in range(len(kernel._parts())))
    for part in rest:
        first = first.plus(part)
    return first


@handles(TargetAligned)
def _aligned(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    used = kernel.weights_[kernel.weights_ > 0].tolist()
    first, *rest = (part_shares(kernel, at, data, source, weights, factor) for at, factor in enumerate(used))
    for part in rest:
        first = first.plus(part)
    return first


@handles(FisherEnsemble)
def _ensemble(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Add the shares of all parts, passed back through the transformers of their views."""
    series = kernel._series(data, reset=False)
    total = Shares.zeros(series, len(weights.values))
    for view, transformer in enumerate(kernel.transformers_):
        parts = [at for at, own in enumerate(kernel._view_of) if own == view]
        first, *rest = (part_shares(kernel, at, data, source, weights, float(kernel.weights_[at])) for at in parts)
        for part in rest:
            first = first.plus(part)
        total = total.plus(pulled_back(transformer, series, first))
    return total


@handles(Scaled)
def _scaled(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    return part_shares(kernel, 0, data, source, weights, float(kernel.weight))


@handles(Normalized)
def _normalized(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    return part_shares(kernel, 0, data, source, weights)


def _numbers(values: Any) -> Floats:
    return np.asarray(to_numpy(values), dtype=np.float64)


@handles(Centered)
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


@handles(Residualized)
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
