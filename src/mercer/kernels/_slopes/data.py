r"""Derivatives of `EmpiricalMeanMap` and `LatentMeanMap`, not normalised, by gamma and gamma_states.

Between symbols and between hidden states these kernels are polynomials in e = exp(-2 gamma), the worth of a mismatch.
A polynomial of degree K is known from K + 1 matrices, with its derivative, and no difference is taken:
dk / d gamma = -2 e dk / de. Between vectors the derivative is -sum of \|x - y\|^2 times the base kernel.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp, safe_log
from mercer._coupling import smoothed_features
from mercer.data.segments import segments
from mercer.gram._engine import fill
from mercer.kernels._operands import Rows
from mercer.kernels._slopes.counts import symbol_mean_map
from mercer.kernels._slopes.points import mean_squares
from mercer.kernels._weighted_points import WeightedPoints
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.models._kde.points import Points
from mercer.models.hidden import hidden_chain

FAR = 1000.0
"""A gamma at which mismatches are worth nothing: exp(-2 FAR) is zero."""
MOST_DEGREE = 8
"""Windows of more symbols have their pairs counted: a polynomial would take as many matrices."""
SMALL = 1e-6
"""Kernels below this have lost digits to the rounding of larger ones in the polynomial, and are counted, too."""


def value_slopes(kernel: Any, name: str, source: Any) -> tuple[Floats, Floats] | None:
    """Return a kernel's values, as such or as logarithms by its domain, and their derivatives by one parameter.

    Neither is normalised. None where there is no closed form here.
    """
    plain = copy.copy(kernel)
    plain.normalize = False
    return _of_points(plain, source) if isinstance(kernel, EmpiricalMeanMap) else _of_states(plain, name, source)


def _matrix(kernel: Any, source: Any, log: bool = False) -> Floats:
    return np.asarray(kernel._matrix(kernel._prepared(source), None, log=log), dtype=np.float64)


def _of_mismatches(kernel: Any, name: str, source: Any, degree: int) -> Floats:
    """Derive a polynomial in e, of values."""
    nodes = (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2  # from 0 to 1, which is gamma from infinity to 0
    e = math.exp(-2 * float(getattr(kernel, name)))
    slope: Any = 0.0
    for j, gamma in enumerate((FAR, *(-0.5 * np.log(nodes[1:-1])), 0.0)):
        changed = copy.copy(kernel)
        setattr(changed, name, float(gamma))
        slope = slope + _lagrange_slope(nodes, j, e) * _matrix(changed, source)
    return np.asarray(-2 * e * slope)


def _lagrange_slope(nodes: Floats, j: int, e: float) -> float:
    """Derive the polynomial that is 1 at node j, and 0 at all others, at e."""
    others = np.delete(nodes, j)
    return float(sum(np.prod(e - np.delete(others, i)) for i in range(len(others))) / np.prod(nodes[j] - others))


# -- sets of points --------------------------------------------------------------------------------------------


def _of_points(kernel: Any, source: Any) -> tuple[Floats, Floats] | None:
    if kernel.domain == "linear":  # random features; symbols are exact, but no logarithms
        return None
    width, gamma = int(kernel.order) + 1, float(kernel.gamma)
    logs = _matrix(kernel, source, log=True)
    if source.is_symbols:
        return logs, symbol_mean_map(1, gamma, logs) if width == 1 else _of_windows(kernel, source, width, logs)
    windows = source.windows(width - 1) if width > 1 else source
    points = PointSets(Points(windows.values, windows.offsets).packed, windows.lengths, gamma, logs)
    return logs, np.asarray(fill(lambda a, b: a.slopes(b), points, label="derivatives"))


class PointSets:
    """Sets of points beside their log kernels: derivatives, a tile at a time."""

    order: Floats | None = None

    def __init__(self, packed: Any, sizes: Floats, gamma: float, logs: Floats, at: Floats | None = None) -> None:
        self.packed = packed
        self.sizes = sizes
        self.gamma = gamma
        self.logs = logs
        self.at = np.arange(len(sizes)) if at is None else at

    @property
    def tile_hint(self) -> int:
        """Sets of a tile, by their average number of points."""
        return int(np.clip(1024 / max(float(np.mean(self.sizes)), 1.0), 1, 256)) if len(self) else 1

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, key: Any) -> PointSets:
        at = np.arange(len(self))[key]
        return PointSets(self.packed[at], self.sizes[at], self.gamma, self.logs, self.at[at])

    def slopes(self, other: PointSets) -> Floats:
        """Derive the log kernels of every pair."""
        logs = self.logs[np.ix_(self.at, other.at)]
        factor = np.full(logs.shape, self.gamma)
        return -mean_squares(self.packed, other.packed, (self.sizes, other.sizes), factor, logs)


def _of_windows(kernel: Any, source: Any, width: int, logs: Floats) -> Floats:
    """Derive log kernels of windows of symbols."""
    slopes = np.zeros(logs.shape)
    poor = logs < math.log(SMALL)
    if width <= MOST_DEGREE:
        slopes = _of_mismatches(kernel, "gamma", source, width) / np.exp(np.where(poor, 0.0, logs))
    else:
        poor[:] = True
    left, right = np.nonzero(np.triu(poor))
    if len(left):
        slopes[left, right] = slopes[right, left] = -2 * _mean_differences(source, width, kernel.gamma, left, right)
    return slopes


def _mean_differences(source: Any, width: int, gamma: float, left: Floats, right: Floats) -> Floats:
    """Average the number of differing symbols over all pairs of windows, with the weights of the base kernel."""
    from mercer.compiled.windows import difference_counts

    counts = np.zeros((len(left), width + 1))
    codes = np.ascontiguousarray(source.values, dtype=np.int32)
    difference_counts(codes, codes, source.offsets, source.offsets, left, right, width, counts)
    differences = np.arange(width + 1)
    logs = safe_log(counts) - 2.0 * gamma * differences
    return np.asarray(np.exp(logs - logsumexp(logs, axis=1)[:, None]) @ differences)


# -- observations and hidden states ----------------------------------------------------------------------------


def _of_states(kernel: Any, name: str, source: Any) -> tuple[Floats, Floats]:
    """Derive LMMK-1: of degree 2 in the mismatches of states, of which steps have two."""
    values = _matrix(kernel, source)
    symbols = getattr(source, "is_symbols", False)
    if name == "gamma_states":
        return values, _of_mismatches(kernel, "gamma_states", source, 2)
    if symbols:  # of degree 1, and of 2 where gamma is that of states, too
        return values, _of_mismatches(kernel, "gamma", source, 2 if kernel.gamma_states is None else 1)
    slope = _of_observations(kernel, source)
    if kernel.gamma_states is None:
        kernel.gamma_states = float(kernel.gamma)
        slope = slope + _of_mismatches(kernel, "gamma_states", source, 2)
    return values, slope


def _of_observations(kernel: Any, source: Any) -> Floats:
    """Derive the sum of base kernels of vectors, or of random features, times inner products of states."""
    gamma = float(kernel.gamma)
    found = hidden_chain(kernel.model_, type(kernel).__name__).expected(source, states=True)
    states = smoothed_features(found.states, gamma if kernel.gamma_states is None else float(kernel.gamma_states))
    points, offsets = segments(source)
    points = np.asarray(points, dtype=np.float64)
    states = states / np.repeat(np.maximum(np.diff(offsets), 1), np.diff(offsets))[:, None]
    if kernel._frequencies is not None:
        frequencies = math.sqrt(2 * gamma) * kernel._frequencies
        rows, turned = _random_features(points, states, offsets, frequencies)
        half = rows @ turned.T / (2 * gamma)
        return np.asarray(half + half.T)
    # -|x - y|^2 = -|x|^2 - |y|^2 + 2 <x, y> is an inner product: of weights that the two sides do not share.
    points = points - points.mean(axis=0)
    squares = np.sum(points * points, axis=1, keepdims=True)
    ones = np.ones_like(squares)
    nothing = Rows(np.zeros((len(offsets) - 1, 0)))
    sides = []
    for factors in ((-squares, -ones, 2 * points), (ones, squares, points)):
        weights = (np.concatenate(factors, axis=1)[:, :, None] * states[:, None, :]).reshape(len(points), -1)
        sides.append(WeightedPoints.of(points, weights, offsets, gamma, nothing))
    return np.asarray(fill(lambda a, b: a.inner(b), sides[0], sides[1], label="derivatives"))


def _random_features(points: Floats, states: Floats, offsets: Floats, frequencies: Floats) -> tuple[Floats, Floats]:
    """Sum random Fourier features times those of states, and their derivatives by the log of the frequencies."""
    count = frequencies.shape[1]
    rows, turned = (np.empty((len(offsets) - 1, 2 * count * states.shape[1])) for _ in range(2))
    for i in range(len(rows)):
        some = slice(int(offsets[i]), int(offsets[i + 1]))
        angle = points[some] @ frequencies
        cosine, sine = np.cos(angle), np.sin(angle)
        rows[i] = (np.concatenate([cosine, sine], axis=1).T @ states[some]).ravel()
        turned[i] = (np.concatenate([-angle * sine, angle * cosine], axis=1).T @ states[some]).ravel()
    return rows / math.sqrt(count), turned / math.sqrt(count)
