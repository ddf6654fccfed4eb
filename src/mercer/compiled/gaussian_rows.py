"""Log densities of points under the Gaussians of their own model, with the states of a model in SIMD lanes.

Every point is computed separately, so that its bits do not depend on other points.
"""

from __future__ import annotations

import math

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.lanes import Emitter, Value, aligned, vector_function
from mercer.compiled.layout import owned
from mercer.compiled.machine import MACHINE

LANES = MACHINE.width
"""Number of states in SIMD lanes."""
_LOG_2PI = math.log(2 * math.pi)


class GaussianRows:
    """Gaussians of N models, arranged in lanes.

    Parameters
    ----------
    mean : ndarray of shape (N, n, d)
        Means.
    covariance : ndarray of shape (N, n, d, d), (N, n, d) or (N, n)
        Regular covariances: full, diagonal or isotropic.
    """

    def __init__(self, mean: Floats, covariance: Floats) -> None:
        self.shape = models, n, d = mean.shape
        self.width = width = -(-n // LANES) * LANES
        self.mean = _side_by_side(mean, width)
        self.full = covariance.ndim == mean.ndim + 1
        if self.full:
            lower, log_det = np.empty((models, n, d * (d + 1) // 2)), np.empty((models, n))
            _factors(owned(covariance), lower, log_det)
            constant = -(d * _LOG_2PI + log_det) / 2
            self.parts = _side_by_side(lower, width), _side_by_side(constant[..., None], width)
        else:
            variance = np.broadcast_to(covariance.reshape(models, n, -1), mean.shape)
            terms = -(_LOG_2PI + np.log(variance)) / 2
            self.parts = _side_by_side(-0.5 / variance, width), _side_by_side(terms, width)

    def fill(self, x: Floats, owner: Floats, out: Floats) -> None:
        """Write the log density of every point in every state of its own model.

        Parameters
        ----------
        x : ndarray of shape (T, d)
            Points. NaN is marginalized if the covariances are diagonal; full covariances return NaN.
        owner : ndarray of int of shape (T,)
            Position of the model of every point.
        out : ndarray of shape (T, n)
            Output array.
        """
        _, n, d = self.shape
        points = owned(x).reshape(-1)
        loop = _full if self.full else _diagonal
        loop(points, owned(owner, np.int64), self.mean, *self.parts, d, n, self.width, out)


def _side_by_side(x: Floats, width: int) -> Floats:
    """Arrange (N, n, c) as [model][c][state], flat, with states padded by zeros."""
    models, n, count = x.shape
    out = aligned((models, count, width))
    out[..., n:] = 0.0
    out[..., :n] = x.swapaxes(1, 2)
    return out.reshape(-1)


@vector_function(LANES)
def _add_squares(
    e: Emitter, total: Value, at: Value, x: Value, point: Value, mean: Value, factor: Value, row: Value,
    d: Value, width: Value,
) -> None:  # fmt: skip
    """Add factor (x - mean)^2 over d coordinates, for a vector of states."""
    b = e.builder

    def terms(a: Value) -> list[Value]:
        line = b.add(row, b.mul(a, width))
        difference = b.fsub(e.spread(x, b.add(point, a)), e.load(mean, line))
        return [e.multiply(e.multiply(difference, difference), e.load(factor, line))]

    e.store(e.add(e.load(total, at), e.loop_sums(1, d, terms)[0]), total, at)


@vector_function(LANES)
def _add(e: Emitter, total: Value, at: Value, terms: Value, row: Value) -> None:
    """Add a vector of numbers."""
    e.store(e.add(e.load(total, at), e.load(terms, row)), total, at)


@vector_function(LANES)
def _substitute(
    e: Emitter, solved: Value, total: Value, at: Value, x: Value, point: Value, mean: Value, row: Value,
    lower: Value, line: Value, a: Value, width: Value,
) -> None:  # fmt: skip
    """Solve one more coordinate of L y = x - mean, for some states, and subtract y^2 / 2; 1 / L_aa ends the row."""
    b = e.builder

    def terms(k: Value) -> list[Value]:
        return [
            e.multiply(e.load(lower, b.add(line, b.mul(k, width))), e.load(solved, e.offset(e.constant(0), k, LANES)))
        ]

    known = e.loop_sums(1, a, terms)[0]
    difference = b.fsub(b.fsub(e.spread(x, point), e.load(mean, row)), known)
    value = e.multiply(difference, e.load(lower, b.add(line, b.mul(a, width))))
    e.store(value, solved, e.offset(e.constant(0), a, LANES))
    e.store(e.add(e.load(total, at), e.multiply(e.multiply(value, e.number(-0.5)), value)), total, at)


@compiled
def _diagonal(
    x: Floats, owner: Floats, mean: Floats, factor: Floats, terms: Floats, d: int, n: int, width: int, out: Floats
) -> None:  # pragma: no cover - compiled
    total, constant = np.empty(width), np.empty(width)
    known = -1
    for t in range(len(owner)):
        model = owner[t] * d * width
        if owner[t] != known:
            known = owner[t]
            for j in range(width):
                constant[j] = 0.0
                for a in range(d):
                    constant[j] += terms[model + a * width + j]
        missing = False
        for a in range(d):
            missing |= np.isnan(x[t * d + a])
        for j in range(width):
            total[j] = 0.0 if missing else constant[j]
        for j in range(0, width, LANES):
            if not missing:
                _add_squares(total, j, x, t * d, mean, factor, model + j, d, width)
                continue
            for a in range(d):
                if not np.isnan(x[t * d + a]):
                    row = model + a * width + j
                    _add(total, j, terms, row)
                    _add_squares(total, j, x, t * d + a, mean, factor, row, 1, width)
        for j in range(n):
            out[t, j] = total[j]


@compiled
def _full(
    x: Floats, owner: Floats, mean: Floats, lower: Floats, constant: Floats, d: int, n: int, width: int, out: Floats
) -> None:  # pragma: no cover - compiled
    total, solved = np.empty(width), np.empty(d * LANES)
    for t in range(len(owner)):
        for j in range(width):
            total[j] = constant[owner[t] * width + j]
        for j in range(0, width, LANES):
            line = owner[t] * (d * (d + 1) // 2) * width + j
            for a in range(d):
                row = (owner[t] * d + a) * width + j
                _substitute(solved, total, j, x, t * d + a, mean, row, lower, line, a, width)
                line += (a + 1) * width
        for j in range(n):
            out[t, j] = total[j]


@compiled
def _factors(covariance: Floats, lower: Floats, log_det: Floats) -> None:  # pragma: no cover - compiled
    """Compute Cholesky factors, row by row, with inverse diagonals, and log determinants."""
    models, n, d, _ = covariance.shape
    for m in range(models):
        for s in range(n):
            log_det[m, s] = 0.0
            at = 0
            for a in range(d):
                other = 0
                for b in range(a + 1):
                    value = covariance[m, s, a, b]
                    for k in range(b):
                        value -= lower[m, s, at + k] * lower[m, s, other + k]
                    if a == b:
                        log_det[m, s] += math.log(value)
                        lower[m, s, at + b] = 1 / math.sqrt(value)
                    else:
                        lower[m, s, at + b] = value * lower[m, s, other + b]
                    other += b + 1
                at += a + 1
