"""The coupled chain: one recursion for every kernel between hidden Markov models (PPK-4.2, GMMK-6).

For two models with initial weights pi, pi', transition weights A, A' and leaf kernels psi,

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L,

where o multiplies entry by entry. Weights are nonnegative and need not sum to one. Every tile is computed in three
stages: fast, in floating-point numbers (`fast_kernels`); a check of which pairs are accurate (`repaired`); and those
that may not be again, in numbers of unlimited range (`careful_kernels`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._native.chains import ranged_pairs, small_chains
from mercer.models._chains.sweep import Side, crossed, largest, log_sweep, sweep, taken, without_gradient

# Up to these sizes, SIMD lanes are faster than products of large matrices.
_LANE_STATES = 40
_LANE_SYMBOLS = 64
LOG_ENTRIES = 2**22
"""Entries of the largest array of a sweep in the log domain: 32 MB."""
_CHUNK = 1 << 15
"""Numbers that fit into the L2 cache."""


def chain_tile(n_states: int) -> int:
    """Recommend a number of models on each side of a tile, which takes 1 to 10 ms and fits into the cache."""
    for states, tile in ((4, 256), (8, 128), (24, 64), (_LANE_STATES, 32)):
        if n_states <= states:
            return tile
    return 8


def coupled_chains(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute the log kernels of pairs of chains (PPK-4.2).

    Parameters
    ----------
    left, right : pair of arrays
        Initial and transition weights, probabilities to the power rho, such as those of `crossed`.
    log_psi : array of shape (I, J, n, m), or (N, n, m) if aligned
        Logarithms of the leaf kernels.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1; one sweep serves all of them.

    Returns
    -------
    array of shape (H, I, J) or (H, N)
        Logarithms of the kernels, one row per length; -inf if a kernel is zero.
    """
    psi, scale = scaled_leaves(log_psi)
    values = fast_kernels(left, right, psi, lengths)
    return repaired(values, left, right, lambda: log_psi, lengths, scale, _tiny_leaves(psi, log_psi))


def coupled_features(left: tuple[Array, ...], right: tuple[Array, ...], lengths: tuple[int, ...]) -> Array:
    """Compute a tile in NumPy whose leaf kernels are inner products of nonnegative features.

    The features, (I, n, k) and (J, m, k), are the third array of each side; for categorical emissions they are
    probabilities to the power rho.
    """
    a, b = crossed((left[0], left[1]), (right[0], right[1]))
    inner = functools.cache(functools.partial(inner_products, left[2], right[2]))
    if left[2].shape[-1] <= _LANE_SYMBOLS and fits_lanes(a, b):
        values = small_chains(left, right, lengths)
    else:
        values = fast_kernels(a, b, inner(), lengths)
    return repaired(values, a, b, lambda: safe_log(inner()), lengths)


def inner_products(a: Array, b: Array) -> Array:
    """Multiply features (I, n, k) and (J, m, k) to leaf kernels (I, J, n, m)."""
    xp, (i, n, k), (j, m, _) = namespace(a), a.shape, b.shape
    return states_last(xp.reshape(xp.reshape(a, (i * n, k)) @ xp.reshape(b, (j * m, k)).T, (i, n, j, m)))


def states_last(table: Array) -> Array:
    """Return a table (I, n, J, m), as it lies in memory, as (I, J, n, m), or the reverse."""
    return namespace(table).permute_dims(table, (0, 2, 1, 3))


# ------------------------------------------------------------------ fast


def fits_lanes(left: Side, right: Side) -> bool:
    """Whether the native library takes these chains: all pairs, float64 in NumPy, and not too many states."""
    a, b = left[0], right[0]
    if a.ndim != 3 or not is_numpy_array(a) or a.dtype != np.float64 or b.dtype != np.float64:
        return False
    n, m = a.shape[-1], b.shape[-1]
    return bool(0 < n <= _LANE_STATES and n * m <= _LANE_STATES**2 and a.size and b.size)


def fast_kernels(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute log kernels in floating-point numbers; NaN if the sums of a pair leave their range."""
    if fits_lanes(left, right):
        i, j, n, m = psi.shape
        a, b = (left[0][:, 0], left[1][:, 0]), (right[0][0], right[1][0])
        return small_chains(a, b, lengths, states_last(psi).reshape(i * n, j * m))
    return sweep(left, right, psi, lengths)


def scaled_leaves(log_psi: Array) -> tuple[Array, Array]:
    """Turn log leaf kernels into values with one scale per pair of models, and return the logarithms of the scales."""
    if is_numpy_array(log_psi) and log_psi.ndim == 4 and log_psi.size:
        psi, top = _scaled_tile(states_last(log_psi))
        return states_last(psi), top
    top = largest(log_psi)
    return namespace(log_psi).exp(log_psi - top[..., None, None]), top


def _scaled_tile(log_psi: Floats) -> tuple[Floats, Floats]:
    """Scale a tile (I, n, J, m) in NumPy, a few models at a time, to stay in the cache."""
    i, n, j, m = log_psi.shape
    blocks = log_psi.reshape(i, n, j * m)
    psi, top = np.empty_like(blocks), np.empty((i, j), log_psi.dtype)
    step = max(1, _CHUNK // (n * j * m))
    for first in range(0, i, step):
        some = blocks[first : first + step]
        # Along the long axis first, row by row, because maxima over short axes are slow.
        columns = some.max(axis=1).reshape(-1, j, m)
        highest = functools.reduce(np.maximum, (columns[:, :, b] for b in range(m)))
        highest = np.where(np.isfinite(highest), highest, 0.0)
        top[first : first + step] = highest
        out = psi[first : first + step]
        np.subtract(some, np.repeat(highest, m, axis=1)[:, None, :], out=out)
        np.exp(out, out=out)
    return psi.reshape(log_psi.shape), top


# ------------------------------------------------------------------ is it accurate?


def repaired(
    values: Array,
    left: Side,
    right: Side,
    log_psi: Callable[[], Array],
    lengths: tuple[int, ...],
    scale: Array | None = None,
    tiny: Array | None = None,
) -> Array:
    """Repeat the pairs that are NaN, or that may have lost a path to underflow while their sum did not underflow.

    Parameters
    ----------
    values : array of shape (H, I, J) or (H, N)
        Log kernels, without the scales of leaf kernels.
    left, right : pair of arrays
        Initial and transition weights.
    log_psi : callable
        Returns the logarithms of the leaf kernels, a table.
    lengths : tuple of int
        Numbers of time steps.
    scale : array of shape (I, J) or (N,), default=None
        Logarithms of the scales of leaf kernels, which count once per time step.
    tiny : array of bool of shape (I, J) or (N,), default=None
        Pairs with leaf kernels that are positive and tiny, relative to the scale; None if there are none.

    Notes
    -----
    A pair is accurate if one of these holds: no product of two weights is tiny, and no leaf kernel; or no transition is
    impossible and no product of weights is tiny, so that every lost path has an alternative through the best pair of
    states, which loses two steps and gains more than the underflow; or the kernel is near its upper bound. Lost paths
    are below the square root of the smallest number, relative to the sum at that time, and grow no faster than the
    largest row sums allow, so that they do not matter to a kernel that stays near that bound.
    """
    xp = namespace(values)
    column = xp.reshape(beside(values, lengths, values.dtype), (-1,) + (1,) * (values.ndim - 1))
    total = values if scale is None else values + column * scale
    if tiny is None and is_calm(values, left, right):
        return total
    info, table = xp.finfo(values.dtype), log_psi()
    half, leaf = 0.5 * math.log(float(info.smallest_normal)), without_gradient(table)
    top = largest(leaf)
    ordinary = _smallest_weight(left) * _smallest_weight(right) >= _plain(values)
    if tiny is not None:
        starts = (left[0] > 0)[..., :, None] & (right[0] > 0)[..., None, :]
        begins = xp.max(xp.where(starts, leaf, -xp.inf), axis=(-2, -1)) - top >= half
        open_a, open_b = (xp.all(side[1] > 0, axis=(-2, -1)) for side in (left, right))
        ordinary = ordinary & (~tiny | (begins & open_a & open_b))
    bounds = xp.reshape(beside(values, _bounds(left, right, lengths), values.dtype), column.shape)
    near = xp.all(without_gradient(total) - column * top >= bounds + (half - math.log(float(info.eps))), axis=0)
    sound = (ordinary | near) & ~xp.any(xp.isnan(values), axis=0)
    return _again(total, ~sound, left, right, table, lengths)


def is_calm(values: Array, left: Side, right: Side) -> bool:
    """Whether no pair left the floating-point range, and no product of weights is tiny."""
    xp = namespace(values)
    if 0 in values.shape:
        return True
    least = float(xp.min(_smallest_weight(left))) * float(xp.min(_smallest_weight(right)))
    return least >= _plain(values) and not bool(xp.any(xp.isnan(values)))


def _plain(values: Array) -> float:
    """Return the size of a leaf kernel, or a product of two weights, above which no step loses a path to underflow."""
    return float(namespace(values).finfo(values.dtype).smallest_normal) ** (1 / 3)


def _tiny_leaves(psi: Array, log_psi: Array) -> Array | None:
    """Mark the pairs with leaf kernels that are positive and tiny; None if there are none."""
    xp = namespace(psi)
    if 0 in psi.shape or float(without_gradient(xp.min(psi))) >= _plain(psi):
        return None
    found = xp.any((psi < _plain(psi)) & (log_psi > -xp.inf), axis=(-2, -1))
    return found if bool(xp.any(found)) else None


def _smallest_weight(side: Side) -> Array:
    """Find the smallest positive weight of every chain."""
    xp = namespace(*side)
    initial, transition = (without_gradient(x) for x in side)
    smallest = [xp.min(xp.where(x > 0, x, xp.inf), axis=-1) for x in (initial, transition)]
    return xp.minimum(smallest[0], xp.min(smallest[1], axis=-1))


def _bounds(left: Side, right: Side, lengths: tuple[int, ...]) -> list[float]:
    """Bound the log kernels of all pairs whose leaf kernels are at most 1: by the largest sums of rows."""
    logs = []
    for part in (0, 1):
        largest_sums = [to_numpy(without_gradient(side[part])).sum(axis=-1).max() for side in (left, right)]
        logs.append(float(safe_log(np.asarray(largest_sums)).sum()))
    return [logs[0] + (length - 1) * logs[1] if length > 1 else logs[0] for length in lengths]


# ------------------------------------------------------------------ again, with range


def careful_kernels(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Do as `coupled_chains` with the logarithms of all weights, in numbers of unlimited range: slow, always right."""
    xp = namespace(log_psi)
    unknown = xp.zeros((len(lengths), *log_psi.shape[:-2]), dtype=log_psi.dtype, device=log_psi.device)
    return _again(unknown, unknown[0, ...] == 0, left, right, log_psi, lengths, logarithms=True)


def _again(
    values: Array,
    where: Array,
    left: Side,
    right: Side,
    log_psi: Array,
    lengths: tuple[int, ...],
    logarithms: bool = False,
) -> Array:
    """Compute the marked pairs in numbers of unlimited range: the native ones in NumPy, else logarithms."""
    xp = namespace(values)

    def compute(which: Array) -> Array:
        a, b, leaf = taken(left, right, log_psi, which)
        if all(is_numpy_array(x) and x.dtype == np.float64 for x in (*a, *b, leaf)):
            everyone = np.arange(len(leaf))
            return ranged_pairs(a, b, everyone, everyone, leaf, lengths, logarithms)
        if not logarithms:
            a, b = ((safe_log(first), safe_log(step)) for first, step in (a, b))
        return log_sweep(a, b, leaf, lengths)

    flat = patch(xp.reshape(values, (len(lengths), -1)), xp.reshape(where, (-1,)), compute, pieces(left, right))
    return xp.reshape(flat, values.shape)


def pieces(left: Side, right: Side) -> int:
    """Count the pairs of chains that a sweep in the log domain takes at once, to bound its memory."""
    n, m = int(left[0].shape[-1]), int(right[0].shape[-1])
    return max(1, LOG_ENTRIES // (n * m * max(n, m)))


def patch(values: Array, where: Array, compute: Callable[[Array], Array], size: int) -> Array:
    """Replace what ``where`` marks along the last axis, ``size`` places at a time, without writing into ``values``."""
    xp = namespace(values)
    if not bool(xp.any(where)):
        return values
    which = xp.nonzero(where)[0]
    count = int(which.shape[0])
    parts = [compute(which[first : min(first + size, count)]) for first in range(0, count, size)]
    position = xp.cumulative_sum(xp.astype(where, xp.int64)) - 1
    position = xp.where(where, position, xp.zeros_like(position))
    return xp.where(where, xp.take(xp.concat(parts, axis=-1), position, axis=-1), values)
