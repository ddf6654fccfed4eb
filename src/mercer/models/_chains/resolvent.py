"""Discounted kernels of coupled chains (PPK-4.2b): the sum over all lengths, as a series or by a linear system.

With Op = (P kron P') diag(psi) and v the weights of the first pair of states,

    k_d = (1 - d) sum_{t >= 0} d^t v Op^t 1 = (1 - d) v x,    x = 1 + d Op x.

The series is swept from the right, U_t = (d Op)^t 1, because the largest entry g of U_t then bounds the
remainder: at most g + g^2 + ... times the sum so far. Once g < 1 the sum is proved finite, and no rescaling is needed.
If the series converges slowly and a pair has few states, the linear system is solved instead; x > 0 proves that the sum
is finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, identity, logsumexp, namespace, safe_log, to_numpy
from mercer._rescue import rescued
from mercer.models._chains.coupled import fits_lanes
from mercer.models._chains.layout import Aligned, Layout, Tile
from mercer.models._chains.rescue import LOG_ENTRIES, patch, pieces, take_from_tile, take_pairs
from mercer.models._chains.sweep import Side, without_gradient
from mercer.models.discount import MOST_STEPS, TAIL, discounted_sum, infinite, too_slow

# Pairs of states up to which a linear system is faster than any series, and up to which its matrix is formed at all.
_SYSTEM_AT_ONCE = 16
_LARGEST_SYSTEM = 1024
# Logarithm beyond which a leaf kernel overflows.
_LARGEST_LOG = 700.0
_LARGEST_SOLUTION = 1e12


def discounted_chains(left: Side, right: Side, log_psi: Array, d: float) -> Array:
    """Compute the log discounted kernels of all pairs of two sets of chains.

    Parameters
    ----------
    left, right : pair of arrays
        Initial and transition weights, (I, n) and (I, n, n), (J, m) and (J, m, m).
    log_psi : array of shape (I * n, J * m)
        Logarithms of the leaf kernels.
    d : float
        The discount; every chain must have a finite kernel with itself.

    Returns
    -------
    array of shape (I, J)
        Logarithms.
    """
    xp = namespace(log_psi)
    (i, n), (j, m) = left[0].shape, right[0].shape
    table = xp.reshape(log_psi, (i, n, j, m))
    if fits_lanes(left[0], right[0]):
        found = _in_lanes(left, right, log_psi, d)
    else:
        found = _discounted(Tile, left, right, table, d)
    values = xp.reshape(found, (1, i * j))

    def redo(which: Array) -> Array:
        return _redone(*take_from_tile(left, right, log_psi, which), d)

    return xp.reshape(patch(values, xp.isnan(values[0, ...]), redo, pieces(left, right)), (i, j))


def discounted_pairs(side: Side, log_psi: Array, d: float) -> Array:
    """Compute the log discounted kernel of every chain with itself; raise if it is infinite.

    Parameters
    ----------
    side : pair of arrays
        Initial and transition weights, (N, n) and (N, n, n).
    log_psi : array of shape (N, n, n)
        Logarithms of the leaf kernels.
    d : float
        The discount.

    Returns
    -------
    array of shape (N,)
        Logarithms.
    """
    xp = namespace(log_psi)
    values = _discounted(Aligned, side, side, log_psi, d, check=True)

    def redo(which: Array) -> Array:
        return _redone(*take_pairs(side, side, log_psi, which), d)

    return patch(values[None, :], xp.isnan(values), redo, pieces(side, side))[0, ...]


def discounted_log(
    left: Side, right: Side, log_psi: Array, d: float, failure: Callable[[], Exception] | None = None
) -> Array:
    """Compute log discounted kernels from logarithms of weights; leading axes align and broadcast."""
    xp = namespace(log_psi)

    def terms() -> Iterator[tuple[Array, Array]]:
        start = left[0][..., :, None] + right[0][..., None, :] + log_psi
        reached, other = (safe_log(_reached(side[0] > -xp.inf, side[1] > -xp.inf, start)) for side in (left, right))
        shut = reached[..., :, None] + other[..., None, :]
        table = xp.zeros_like(start)
        while True:
            value = logsumexp(start + table, axis=(-2, -1))
            half = logsumexp((log_psi + table)[..., :, None, :] + right[1][..., None, :, :], axis=-1)
            table = logsumexp(left[1][..., :, :, None] + half[..., None, :, :], axis=-2) + shut
            yield value, without_gradient(xp.max(table, axis=(-2, -1)))

    total = discounted_sum(terms(), d)
    if bool(xp.any(xp.isnan(total))):
        raise too_slow(d, MOST_STEPS) if failure is None else failure()
    return total


# ------------------------------------------------------------------ values


def _discounted(layout: Layout, left: Side, right: Side, log_psi: Array, d: float, check: bool = False) -> Array:
    """Sum over all lengths; NaN if the sum is too small and must be repeated in logarithms."""
    xp = namespace(log_psi)
    top = layout.largest(log_psi)
    top = without_gradient(xp.where(xp.isfinite(top), top, xp.zeros_like(top)))
    psi = xp.exp(log_psi - layout.wide(top))
    start = layout.outer(left[0], right[0]) * psi
    # The first leaf has its own scale. Later ones may underflow, because longer sequences then do not matter.
    psi = psi * layout.wide(d * xp.exp(xp.clip(top, None, _LARGEST_LOG)))
    # Unreachable states, such as padding, must not affect the bound.
    a, b = (weights * _reached(first > 0, weights > 0, weights)[..., :, None] for first, weights in (left, right))
    size = int(left[0].shape[-1] * right[0].shape[-1])
    total: Array | None = None
    if size > _SYSTEM_AT_ONCE:
        # A linear system costs as much as this many steps of a sweep.
        patience = max(64, round(size**1.5 / 6)) if size <= _LARGEST_SYSTEM else MOST_STEPS
        total = _series(layout, start, a, b, psi, patience)
    if total is None:

        def failure() -> Exception:
            return diverging(left, log_psi, d) if check else too_slow(d, MOST_STEPS)

        if size > _LARGEST_SYSTEM:
            raise failure()
        total = _systems(layout, start, a, b, psi, failure)
    tiny = math.sqrt(float(xp.finfo(total.dtype).smallest_normal))
    values = safe_log(total) + top + math.log1p(-d)
    return xp.where(without_gradient(total) >= tiny, values, xp.nan)


def _in_lanes(left: Side, right: Side, log_psi: Floats, d: float) -> Floats:
    """Sum over all lengths in NumPy: the series in SIMD lanes, linear systems for pairs with slow convergence."""
    from mercer._native.chains import discounted_lanes

    (i, n), (j, m) = left[0].shape, right[0].shape
    psi, top = scaled_leaves(log_psi, (i, n, j, m), (1, 3))
    factors = d * np.exp(np.minimum(top, _LARGEST_LOG))
    a, b = (weights * _reached(first > 0, weights > 0, weights)[..., :, None] for first, weights in (left, right))
    size = n * m
    patience = max(256, round(size**1.5)) if size <= _LARGEST_SYSTEM else MOST_STEPS
    total = discounted_lanes((left[0], a), (right[0], b), psi, factors, TAIL, patience)

    def careful(rows: Floats, columns: Floats) -> Floats:
        if size > _LARGEST_SYSTEM:
            raise too_slow(d, MOST_STEPS)
        leaf = psi.reshape(i, n, j, m)[rows, :, columns, :]
        start = Aligned.outer(left[0][rows], right[0][columns]) * leaf
        leaf = leaf * factors[rows, columns][:, None, None]
        return _systems(Aligned, start, a[rows], b[columns], leaf, lambda: too_slow(d, MOST_STEPS))

    rescued(total, ~np.isnan(total), careful)
    tiny = math.sqrt(float(np.finfo(np.float64).tiny))
    return np.where(total >= tiny, safe_log(total) + top + math.log1p(-d), np.nan)


def _series(layout: Layout, start: Array, a: Array, b: Array, psi: Array, patience: int) -> Array | None:
    """Sum start . U_t with U_t = (d Op)^t 1; None if convergence is too slow."""
    xp = namespace(psi)
    back = xp.matrix_transpose(b)
    total, table = layout.sums(start), xp.ones_like(psi)
    for time in range(1, patience + 1):
        table = layout.right(layout.left(a, psi * table), back)
        total = total + layout.sums(start * table)
        if time < 8 or time % 8 == 0:
            largest = float(without_gradient(xp.max(table)))
            if largest <= TAIL:
                return total
            if not largest < 1e100:
                return None
    return None


def _systems(layout: Layout, start: Array, a: Array, b: Array, psi: Array, failure: Callable[[], Exception]) -> Array:
    """Solve x = 1 + d Op x for every pair, some pairs at a time, and return start . x."""
    xp = namespace(psi)
    tile = layout is Tile
    if tile:
        i, n, j, m = psi.shape
        start, psi = (xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (i * j, n, m)) for x in (start, psi))
    count, n, m = psi.shape
    size = n * m
    one = xp.astype(identity(psi, size), xp.float64)
    parts = []
    piece = max(1, LOG_ENTRIES // size**2)
    for first in range(0, count, piece):
        some = slice(first, min(first + piece, count))
        where = xp.arange(some.start, some.stop, device=psi.device)
        p = xp.take(a, where // j if tile else where, axis=0)
        q = xp.take(b, where % j if tile else where, axis=0)
        both = p[:, :, None, :, None] * q[:, None, :, None, :] * psi[some, None, None, :, :]
        matrix = one - xp.astype(xp.reshape(both, (-1, size, size)), xp.float64)
        x = _solved(matrix, failure)
        weights = xp.astype(xp.reshape(start[some, ...], (-1, size)), xp.float64)
        parts.append(xp.astype(xp.sum(weights * x, axis=-1), psi.dtype))
    total = xp.concat(parts)
    return xp.reshape(total, (i, j)) if tile else total


def _solved(matrix: Array, failure: Callable[[], Exception]) -> Array:
    """Solve for a right-hand side of ones; a solution that is not positive means that the series diverges."""
    xp = namespace(matrix)
    ones = xp.ones((matrix.shape[0], matrix.shape[1], 1), dtype=matrix.dtype, device=matrix.device)
    try:
        x = xp.linalg.solve(matrix, ones)[..., 0]
    except (np.linalg.LinAlgError, RuntimeError) as error:  # d times the spectral radius is 1 within rounding
        raise failure() from error
    if not bool(xp.all((x > 0) & (x < _LARGEST_SOLUTION))):
        raise failure()
    return x


def _reached(initial: Array, transition: Array, like: Array) -> Array:
    """Return 1 for states that have positive weight at some time, else 0; weights are booleans."""
    xp = namespace(initial)
    marks = initial
    for _ in range(int(initial.shape[-1]) - 1):
        marks = marks | xp.any(marks[..., :, None] & transition, axis=-2)
    return xp.astype(marks, like.dtype)


def _redone(left: Side, right: Side, log_psi: Array, d: float) -> Array:
    """Sum aligned pairs in the log domain, (1, N)."""
    logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
    return discounted_log(logs[0], logs[1], log_psi, d)[None, :]


# ------------------------------------------------------------------ infinite sums


def diverging(side: Side, log_psi: Array, d: float) -> Exception:
    """Return the error of the first chain whose discounted self-kernel is infinite."""
    initial, transition, leaf = (to_numpy(x) for x in (*side, log_psi))
    for i in range(len(initial)):
        radius = spectral_radius(initial[i], transition[i], leaf[i])
        if not d * radius < 1 - 1e-12:
            return infinite(i, radius, d)
    return too_slow(d, MOST_STEPS)


def spectral_radius(initial: Array, transition: Array, log_psi: Array, steps: int = 2000) -> float:
    """Compute the growth factor of the self-kernel k_L of a chain per time step, by powers, in NumPy.

    Parameters
    ----------
    initial, transition : ndarray of shape (n,) and (n, n)
        Weights.
    log_psi : ndarray of shape (n, n)
        Logarithms of the leaf kernels.
    steps : int
        Number of powers; the growth is measured over the second half.
    """
    top = float(log_psi.max())
    psi = np.exp(log_psi - top)
    table, logs = np.outer(initial, initial) * psi, 0.0
    for step in range(steps):
        total = float(table.sum())
        if total == 0:
            return 0.0
        table = (transition.T @ (table / total) @ transition) * psi
        logs += math.log(total) if step > steps // 2 else 0.0
    return math.exp(logs / (steps - 1 - steps // 2) + top)


# Leaf kernels of coupled chains: from logarithms to values with one scale per pair of models.

_CHUNK = 1 << 15  # numbers that fit into the L2 cache


def lost_leaves(psi: Array, log_psi: Array) -> Array | None:
    """Mark leaf kernels that underflow relative to a larger one; None if there are none."""
    xp = namespace(psi)
    if 0 in psi.shape or bool(xp.min(psi) > 0):
        return None
    lost = (psi == 0) & (log_psi > -xp.inf)
    return lost if bool(xp.any(lost)) else None


def scaled_leaves(log_psi: Array, shape: tuple[int, ...], state_axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Turn log leaf kernels into values with one scale per pair of models."""
    if is_numpy_array(log_psi) and len(shape) == 4 and 0 not in shape:
        return _scaled_tile(log_psi, shape)
    xp = namespace(log_psi)
    blocks = xp.reshape(log_psi, shape)
    top = xp.max(blocks, axis=state_axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    psi = xp.reshape(xp.exp(blocks - top), log_psi.shape)
    kept = tuple(n for axis, n in enumerate(shape) if axis not in state_axes)
    return psi, xp.reshape(top, kept)


def _scaled_tile(log_psi: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Scale a tile (I, n, J, m) in NumPy, a few models at a time, to stay in the cache."""
    i, n, j, m = shape
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
