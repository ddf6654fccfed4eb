"""Repetition of pairs of chains whose sums leave the floating-point range."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, namespace, safe_log
from mercer.models._chains.sweep import Side, log_sweep, without_gradient

# Entries of the largest array of a sweep in the log domain: 32 MB.
LOG_ENTRIES = 2**22


def rescue(values: Array, left: Side, right: Side, psi: Array | Callable[[], Array], lengths: tuple[int, ...]) -> Array:
    """Repeat only those pairs of a tile that are NaN."""
    xp, size = namespace(values), pieces(left, right)
    table: Callable[[], Array] = functools.cache(psi) if callable(psi) else lambda: psi
    weights = smallest_weight(left), smallest_weight(right)
    # The usual case first, in two passes: nothing to repeat.
    least = 1.0 if 0 in values.shape else float(xp.min(weights[0])) * float(xp.min(weights[1]))
    if least >= _plain(values) and not bool(xp.any(xp.isnan(values))):
        return values
    floor = weights[0][:, None] * weights[1][None, :]
    values = doubt(values, floor, lambda: upper_bound(left, right, table(), lengths[-1]))
    flat = xp.reshape(values, (len(lengths), -1))
    redone = replace_unsound(flat, lambda which: take_from_tile(left, right, table(), which), lengths, size)
    return xp.reshape(redone, values.shape)


def take_from_tile(left: Side, right: Side, psi: Array, which: Array) -> tuple[Side, Side, Array]:
    """Take some pairs of a tile, row by row: weights of both sides, and leaf kernels out of (I * n, J * m)."""
    xp = namespace(psi)
    (i, n), (j, m) = left[0].shape, right[0].shape
    pairs = xp.reshape(xp.permute_dims(xp.reshape(psi, (i, n, j, m)), (0, 2, 1, 3)), (i * j, n, m))
    a, b = ([xp.take(x, at, axis=0) for x in side] for side, at in ((left, which // j), (right, which % j)))
    return (a[0], a[1]), (b[0], b[1]), xp.take(pairs, which, axis=0)


def take_pairs(left: Side, right: Side, psi: Array, which: Array) -> tuple[Side, Side, Array]:
    """Take some aligned pairs."""
    xp = namespace(psi)
    parts = [xp.take(x, which, axis=0) for x in (*left, *right, psi)]
    return (parts[0], parts[1]), (parts[2], parts[3]), parts[4]


def smallest_weight(side: Side) -> Array:
    """Find the smallest positive weight of every chain."""
    xp = namespace(*side)
    initial, transition = (without_gradient(x) for x in side)
    smallest = [xp.min(xp.where(x > 0, x, xp.inf), axis=-1) for x in (initial, transition)]
    return xp.minimum(smallest[0], xp.min(smallest[1], axis=-1))


def upper_bound(left: Side, right: Side, psi: Array, length: int) -> float:
    """Bound the log kernels of all pairs from above: by the largest sums of rows."""
    xp = namespace(psi)
    first = growth = float(without_gradient(xp.max(psi)))
    for initial, transition in (left, right):
        first *= float(without_gradient(xp.max(xp.sum(initial, axis=-1))))
        growth *= float(without_gradient(xp.max(xp.sum(transition, axis=-1))))
    if first == 0 or growth == 0:
        return -math.inf
    return math.log(first) + (length - 1) * math.log(growth)


def _plain(values: Array) -> float:
    """Return the product of two weights above which no step loses a path to underflow."""
    return float(namespace(values).finfo(values.dtype).smallest_normal) ** (1 / 3)


def doubt(values: Array, floor: Array, bound: Callable[[], float]) -> Array:
    """Set values to NaN if a path that underflowed may matter.

    A product of two tiny transition weights can underflow while other paths keep the sum positive. The loss matters
    if the other paths decay so much faster that the lost path would have dominated later. This is impossible if the
    sum stays near its upper bound: lost paths are below the square root of the smallest number, relative to the sum,
    and grow no faster than the bound.
    """
    xp = namespace(values)
    log_tiny = math.log(float(xp.finfo(values.dtype).smallest_normal))
    plain = floor >= _plain(values)
    if bool(xp.all(plain)):
        return values
    near = without_gradient(values[-1, ...]) >= bound() + 0.2 * log_tiny
    return xp.where(plain | near, values, xp.nan)


def robust_weight(side: Side) -> Array:
    """Find the smallest positive weight of every chain; zero if a transition has weight zero."""
    xp = namespace(*side)
    positive = xp.all(without_gradient(side[1]) > 0, axis=(-2, -1))
    smallest = smallest_weight(side)
    return xp.where(positive, smallest, xp.zeros_like(smallest))


def nothing_lost(values: Array, left: Side, right: Side, floor: Array, lengths: tuple[int, ...]) -> Array:
    """Return for which pairs no path matters that underflows while the sum does not; leaf kernels are at most 1.

    Parameters
    ----------
    values : array of shape (H, ...)
        Log kernels, without the scale of leaf kernels.
    left, right : pair of arrays
        Initial and transition weights.
    floor : array
        The products of `robust_weight` of both sides. If it is positive and not tiny, every path that underflows
        has an alternative through the best pair of states, which loses the weights of two steps and gains more than
        the underflow.
    lengths : tuple of int
        Numbers of time steps. Lost paths are below the square root of the smallest number, relative to the sum at
        that time, and grow no faster than the largest row sums allow, so they do not matter to a kernel that stays
        near that bound.
    """
    xp = namespace(values)
    log_tiny = math.log(float(xp.finfo(values.dtype).smallest_normal))

    def log_sums(k: int) -> float:
        sums = [float(without_gradient(xp.max(xp.sum(side[k], axis=-1)))) for side in (left, right)]
        return sum(math.log(x) if x > 0 else -math.inf for x in sums)

    first, growth = log_sums(0), log_sums(1)
    near = floor >= _plain(values)
    constant, close = without_gradient(values), True
    for h, length in enumerate(lengths):
        close = close & (constant[h, ...] >= first + (length - 1) * growth + 0.4 * log_tiny)
    return near | close


def _lost_nothing(left: Side, right: Side, log_psi: Array, values: Array, lengths: tuple[int, ...]) -> Array:
    """Return the same for aligned pairs with one scale of leaf kernels, including the first observation."""
    xp = namespace(log_psi)
    leaf = without_gradient(log_psi)
    top = xp.max(leaf, axis=(1, 2))
    start = (left[0][:, :, None] > 0) & (right[0][:, None, :] > 0)
    begin = xp.max(xp.where(start, leaf, -xp.inf), axis=(1, 2)) - top
    scaled = without_gradient(values) - xp.stack([length * top for length in lengths])
    sound = nothing_lost(scaled, left, right, robust_weight(left) * robust_weight(right), lengths)
    return sound & (begin >= 0.5 * math.log(float(xp.finfo(values.dtype).smallest_normal)))


def pieces(left: Side, right: Side) -> int:
    """Count the pairs of chains that a sweep in the log domain takes at once, to bound its memory."""
    n, m = int(left[0].shape[-1]), int(right[0].shape[-1])
    return max(1, LOG_ENTRIES // (n * m * max(n, m)))


def replace_unsound(
    values: Array, take: Callable[[Array], tuple[Side, Side, Array]], lengths: tuple[int, ...], size: int
) -> Array:
    """Redo the columns that hold a NaN, ``size`` at a time."""
    xp = namespace(values)
    return patch(values, xp.any(xp.isnan(values), axis=0), lambda which: _careful(*take(which), lengths), size)


def restore_lost(
    values: Array, lost: Array, take: Callable[[Array], tuple[Side, Side, Array]], lengths: tuple[int, ...], size: int
) -> Array:
    """Repeat the pairs for which leaf kernels that underflowed may matter.

    Parameters
    ----------
    values : array of shape (H, N)
        Log kernels of N pairs.
    lost : array of bool of shape (N,)
        Whether a leaf kernel is zero although its logarithm is finite.
    take : callable
        Returns both sides and the logarithms of the leaf kernels of selected pairs.
    lengths : tuple of int
        Numbers of time steps.
    """
    xp = namespace(values)

    def compute(which: Array) -> Array:
        pairs, mine = take(which), xp.take(values, which, axis=1)
        where = ~_lost_nothing(*pairs, mine, lengths) | xp.any(mine == -xp.inf, axis=0)
        return patch(mine, where, lambda some: _careful_logs(*take_pairs(*pairs, some), lengths))

    return patch(values, lost, compute, size)


def patch(values: Array, where: Array, compute: Callable[[Array], Array], size: int | None = None) -> Array:
    """Replace what ``where`` marks along the last axis, ``size`` places at a time, without writing into ``values``."""
    xp = namespace(values)
    if not bool(xp.any(where)):
        return values
    which = xp.nonzero(where)[0]
    count = int(which.shape[0])
    size = count if size is None else size
    parts = [compute(which[first : min(first + size, count)]) for first in range(0, count, size)]
    position = xp.cumulative_sum(xp.astype(where, xp.int64)) - 1
    position = xp.where(where, position, xp.zeros_like(position))
    return xp.where(where, xp.take(xp.concat(parts, axis=-1), position, axis=-1), values)


def _careful(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute aligned pairs in numbers of unlimited range: compiled in NumPy, else as logarithms."""
    xp = namespace(psi)
    if is_numpy_array(psi) and psi.dtype == np.float64:
        return _careful_logs(left, right, safe_log(psi), lengths)

    def logarithmic(which: Array) -> Array:
        a, b, leaf = take_pairs(left, right, psi, which)
        return _careful_logs(a, b, safe_log(leaf), lengths)

    dead = xp.full((len(lengths), psi.shape[0]), -xp.inf, dtype=psi.dtype, device=psi.device)
    return patch(dead, _alive(left, right, psi, lengths[0]), logarithmic)


def _careful_logs(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute aligned pairs from the logarithms of their leaf kernels."""
    if is_numpy_array(log_psi) and log_psi.dtype == np.float64:
        from mercer._native.chains import ranged_pairs

        everyone = np.arange(len(log_psi))
        return ranged_pairs(left, right, everyone, everyone, log_psi, lengths)
    logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
    return log_sweep(logs[0], logs[1], log_psi, lengths)


def _support(x: Array) -> Array:
    """Return 1 for positive numbers, else 0."""
    return namespace(x).astype(x > 0, x.dtype)


def _alive(left: Side, right: Side, psi: Array, length: int) -> Array:
    """Return which aligned pairs have a path of nonzero weight with ``length`` time steps.

    A path longer than the number of pairs of states visits one of them twice, so there are paths of any length.
    """
    transposed, other, leaf = namespace(psi).matrix_transpose(_support(left[1])), _support(right[1]), _support(psi)
    phi = _support(left[0])[:, :, None] * _support(right[0])[:, None, :] * leaf
    for _ in range(1, min(length, psi.shape[1] * psi.shape[2] + 1)):
        phi = _support(transposed @ phi @ other * leaf)
    return namespace(psi).any(phi > 0, axis=(1, 2))
