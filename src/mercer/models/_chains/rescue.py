"""What becomes of pairs of chains whose sums leave the floating range: they are done again, with care."""

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
    """Redo the pairs of a tile that are NaN, and only these."""
    xp = namespace(values)
    (i, n), (j, m) = left[0].shape, right[0].shape

    def take(which: Array) -> tuple[Side, Side, Array]:
        table = psi() if callable(psi) else psi
        pairs = xp.reshape(xp.permute_dims(xp.reshape(table, (i, n, j, m)), (0, 2, 1, 3)), (i * j, n, m))
        rows, columns = which // j, which % j
        return (
            (xp.take(left[0], rows, axis=0), xp.take(left[1], rows, axis=0)),
            (xp.take(right[0], columns, axis=0), xp.take(right[1], columns, axis=0)),
            xp.take(pairs, which, axis=0),
        )

    weights = smallest_weight(left), smallest_weight(right)
    # The usual case first, in two passes: all is well.
    least = 1.0 if 0 in values.shape else float(xp.min(weights[0])) * float(xp.min(weights[1]))
    if least >= _plain(values) and not bool(xp.any(xp.isnan(values))):
        return values
    floor = weights[0][:, None] * weights[1][None, :]
    values = doubt(values, floor, lambda: upper_bound(left, right, psi() if callable(psi) else psi, lengths[-1]))
    redone = replace_unsound(xp.reshape(values, (len(lengths), i * j)), take, lengths)
    return xp.reshape(redone, values.shape)


def take_pairs(left: Side, right: Side, psi: Array, which: Array) -> tuple[Side, Side, Array]:
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
    """Return the product of two weights above which no step loses a path."""
    return float(namespace(values).finfo(values.dtype).smallest_normal) ** (1 / 3)


def doubt(values: Array, floor: Array, bound: Callable[[], float]) -> Array:
    """Set to NaN what may lack a path that was lost on the way.

    A product of two tiny transition weights can round to zero while other paths keep the sum alive; that
    loss matters if those others fade so much more quickly that the lost path would have overtaken them. It
    cannot have where the sum stayed near its upper bound: what is lost is below the square root of the
    smallest number, relative to the sum, and can grow no faster than the bound.
    """
    xp = namespace(values)
    log_tiny = math.log(float(xp.finfo(values.dtype).smallest_normal))
    plain = floor >= _plain(values)
    if bool(xp.all(plain)):
        return values
    near = without_gradient(values[-1, ...]) >= bound() + 0.2 * log_tiny
    return xp.where(plain | near, values, xp.nan)


def robust_weight(side: Side) -> Array:
    """Find the smallest positive weight of every chain; zero where some transition has no weight."""
    xp = namespace(*side)
    positive = xp.all(without_gradient(side[1]) > 0, axis=(-2, -1))
    smallest = smallest_weight(side)
    return xp.where(positive, smallest, xp.zeros_like(smallest))


def nothing_lost(values: Array, left: Side, right: Side, floor: Array, lengths: tuple[int, ...]) -> Array:
    """Tell for which pairs no path matters that underflows while the sum does not; leaf kernels are at most 1.

    Parameters
    ----------
    values : array of shape (H, ...)
        Log kernels, without the scale of leaf kernels.
    left, right : pair of arrays
        Initial and transition weights.
    floor : array
        The products of both sides' `robust_weight`. Where it is positive and not tiny, every path that underflows
        has a neighbor that goes through the best pair of states instead: it loses the weights of two steps and gains
        more than what rounds to zero.
    lengths : tuple of int
        Numbers of time steps. What underflows is below the square root of the smallest number, relative to the sum
        then, and can grow no faster than the largest sums of rows allow: it does not matter to a kernel that
        stays near that bound.
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
    """Tell the same of aligned pairs whose leaf kernels have one scale, that of the first observation included."""
    xp = namespace(log_psi)
    leaf = without_gradient(log_psi)
    top = xp.max(leaf, axis=(1, 2))
    start = (left[0][:, :, None] > 0) & (right[0][:, None, :] > 0)
    begin = xp.max(xp.where(start, leaf, -xp.inf), axis=(1, 2)) - top
    scaled = without_gradient(values) - xp.stack([length * top for length in lengths])
    sound = nothing_lost(scaled, left, right, robust_weight(left) * robust_weight(right), lengths)
    return sound & (begin >= 0.5 * math.log(float(xp.finfo(values.dtype).smallest_normal)))


def replace_unsound(
    values: Array, take: Callable[[Array], tuple[Side, Side, Array]], lengths: tuple[int, ...]
) -> Array:
    """Redo the columns that hold a NaN, some at a time to bound the memory."""
    xp = namespace(values)

    def compute(which: Array) -> Array:
        left, right, psi = take(which)
        size = max(1, LOG_ENTRIES // math.prod((psi.shape[1], psi.shape[2], max(psi.shape[1:]))))
        parts = []
        for first in range(0, which.shape[0], size):
            some = xp.arange(first, min(first + size, which.shape[0]), device=values.device)
            parts.append(_careful(*take_pairs(left, right, psi, some), lengths))
        return xp.concat(parts, axis=1)

    return patch(values, xp.any(xp.isnan(values), axis=0), compute)


def restore_lost(
    values: Array, lost: Array, take: Callable[[Array], tuple[Side, Side, Array]], lengths: tuple[int, ...]
) -> Array:
    """Redo the pairs for which leaf kernels that rounded to zero may matter.

    Parameters
    ----------
    values : array of shape (H, N)
        Log kernels of N pairs.
    lost : array of bool of shape (N,)
        Where a leaf kernel is zero next to a larger one and its logarithm is finite.
    take : callable
        Gives both sides and the logarithms of the leaf kernels of some pairs.
    lengths : tuple of int
        Numbers of time steps.
    """
    xp = namespace(values)

    def compute(which: Array) -> Array:
        left, right, log_psi = take(which)
        size = max(1, LOG_ENTRIES // math.prod((log_psi.shape[1], log_psi.shape[2], max(log_psi.shape[1:]))))
        old, parts = xp.take(values, which, axis=1), []
        for first in range(0, which.shape[0], size):
            some = xp.arange(first, min(first + size, which.shape[0]), device=values.device)
            sides = take_pairs(left, right, log_psi, some)
            mine = xp.take(old, some, axis=1)
            where = ~_lost_nothing(*sides, mine, lengths) | xp.any(mine == -xp.inf, axis=0)
            parts.append(patch(mine, where, functools.partial(again, *sides)))
        return xp.concat(parts, axis=1)

    def again(left: Side, right: Side, log_psi: Array, which: Array) -> Array:
        return _careful_logs(*take_pairs(left, right, log_psi, which), lengths)

    return patch(values, lost, compute)


def patch(values: Array, where: Array, compute: Callable[[Array], Array]) -> Array:
    """Replace the columns of ``values`` that ``where`` marks, without writing into it."""
    xp = namespace(values)
    if not bool(xp.any(where)):
        return values
    columns = compute(xp.nonzero(where)[0])
    position = xp.cumulative_sum(xp.astype(where, xp.int64)) - 1
    position = xp.where(where, position, xp.zeros_like(position))
    return xp.where(where, xp.take(columns, position, axis=1), values)


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
        from mercer.compiled.chains_ranged import ranged_pairs

        everyone = np.arange(len(log_psi))
        return ranged_pairs(left, right, everyone, everyone, log_psi, lengths)
    logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
    return log_sweep(logs[0], logs[1], log_psi, lengths)


def _support(x: Array) -> Array:
    """Mark positive numbers by ones."""
    return namespace(x).astype(x > 0, x.dtype)


def _alive(left: Side, right: Side, psi: Array, length: int) -> Array:
    """Tell which aligned pairs have a path of nonzero weight with ``length`` time steps.

    A path longer than the number of pairs of states visits one twice, and then there are paths of any length.
    """
    transposed, other, leaf = namespace(psi).matrix_transpose(_support(left[1])), _support(right[1]), _support(psi)
    phi = _support(left[0])[:, :, None] * _support(right[0])[:, None, :] * leaf
    for _ in range(1, min(length, psi.shape[1] * psi.shape[2] + 1)):
        phi = _support(transposed @ phi @ other * leaf)
    return namespace(psi).any(phi > 0, axis=(1, 2))
