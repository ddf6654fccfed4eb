"""What becomes of pairs of chains whose sums leave the floating range: they are done again, with care."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from mercer._array import Array, namespace, safe_log
from mercer.models._chains.sweep import Side, aligned_pairs, log_sweep, without_gradient

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

    floor = smallest_weight(left)[:, None] * smallest_weight(right)[None, :]
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


def doubt(values: Array, floor: Array, bound: Callable[[], float]) -> Array:
    """Set to NaN what may lack a path that was lost on the way.

    A product of two tiny transition weights can round to zero while other paths keep the sum alive; that
    loss matters if those others fade so much more quickly that the lost path would have overtaken them. It
    cannot have where the sum stayed near its upper bound: what is lost is below the square root of the
    smallest number, relative to the sum, and can grow no faster than the bound.
    """
    xp = namespace(values)
    log_tiny = math.log(float(xp.finfo(values.dtype).smallest_normal))
    plain = floor >= math.exp(log_tiny / 3)
    if bool(xp.all(plain)):
        return values
    near = without_gradient(values[-1, ...]) >= bound() + 0.2 * log_tiny
    return xp.where(plain | near, values, xp.nan)


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
    """Redo the pairs for which leaf kernels that rounded to zero decide where a path can go.

    Parameters
    ----------
    values : array of shape (H, N)
        Log kernels of N pairs.
    lost : array of bool of shape (N,)
        Where a leaf kernel is zero beside a larger one and its logarithm is finite.
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
            where = _cut_off(*sides) | xp.any(mine == -xp.inf, axis=0)
            parts.append(patch(mine, where, functools.partial(again, *sides)))
        return xp.concat(parts, axis=1)

    def again(left: Side, right: Side, log_psi: Array, which: Array) -> Array:
        left, right, log_psi = take_pairs(left, right, log_psi, which)
        logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
        return log_sweep(logs[0], logs[1], log_psi, lengths)

    return patch(values, lost, compute)


def _cut_off(left: Side, right: Side, log_psi: Array) -> Array:
    """Tell which pairs reach some states only over leaf kernels that round to zero beside the largest."""
    xp = namespace(log_psi)
    top = xp.max(log_psi, axis=(1, 2), keepdims=True)
    kept = _support(xp.exp(log_psi - xp.where(xp.isfinite(top), top, xp.zeros_like(top))))
    transposed, other = xp.matrix_transpose(_support(left[1])), _support(right[1])
    start = _support(left[0])[:, :, None] * _support(right[0])[:, None, :]

    def reached(allowed: Array) -> Array:
        marks = start * allowed
        for _ in range(log_psi.shape[1] * log_psi.shape[2]):
            more = _support(marks + transposed @ marks @ other * allowed)
            if bool(xp.all(more == marks)):
                break
            marks = more
        return marks

    return xp.any(reached(xp.astype(log_psi > -xp.inf, kept.dtype)) * kept != reached(kept), axis=(1, 2))


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
    """Compute aligned pairs: -inf without a path, else scaled at every step, else in the log domain."""
    xp = namespace(psi)

    def scaled(which: Array) -> Array:
        some = take_pairs(left, right, psi, which)
        values = _watched_pairs(*some, lengths)
        return patch(values, xp.any(xp.isnan(values), axis=0), lambda rest: logarithmic(*some, rest))

    def logarithmic(left: Side, right: Side, psi: Array, which: Array) -> Array:
        left, right, psi = take_pairs(left, right, psi, which)
        logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
        return log_sweep(logs[0], logs[1], safe_log(psi), lengths)

    dead = xp.full((len(lengths), psi.shape[0]), -xp.inf, dtype=psi.dtype, device=psi.device)
    return patch(dead, _alive(left, right, psi, lengths[0]), scaled)


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


def _watched_pairs(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute aligned pairs scaled at every step, with NaN where any entry underflowed on the way."""
    xp = namespace(psi)
    tiny = float(xp.finfo(psi.dtype).smallest_normal)
    transposed, other, leaf = xp.matrix_transpose(_support(left[1])), _support(right[1]), _support(psi)
    marks = _support(left[0])[:, :, None] * _support(right[0])[:, None, :] * leaf
    start = left[0][:, :, None] * right[0][:, None, :] * psi
    lost = xp.any((marks > 0) & (start < tiny), axis=(1, 2))

    def watch(phi: Array) -> Array:
        nonlocal marks, lost
        marks = _support(transposed @ marks @ other * leaf)
        lost = lost | xp.any((marks > 0) & (phi < tiny), axis=(1, 2))
        return phi

    values = aligned_pairs(left, right, psi, lengths, 1, watch)
    return xp.where(lost, xp.nan, values)
