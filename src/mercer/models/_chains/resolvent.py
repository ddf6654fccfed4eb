"""Discounted kernels of coupled chains (PPK-4.2b): the sum over all lengths, as a series or by a linear system.

With Op = (P kron P') diag(psi) and v the weights of the first pair of states,

    k_d = (1 - d) sum_{t >= 0} d^t v Op^t 1 = (1 - d) v x,    x = 1 + d Op x.

The series is swept from the right, U_t = (d Op)^t 1, because the largest entry g of U_t then bounds the
remainder: at most g + g^2 + ... times the sum so far. Once g < 1 the sum is proved finite, and no rescaling is needed.
If the series converges slowly and a pair has few states, the linear system is solved instead; x > 0 proves that the sum
is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from mercer._array import Array, identity, logsumexp, namespace, safe_log, to_numpy
from mercer._native.chains import discounted_lanes
from mercer.models._chains.coupled import LOG_ENTRIES, fits_lanes, patch, pieces, scaled_leaves
from mercer.models._chains.sweep import Aligned, Layout, Side, Tile, largest, sums, without_gradient
from mercer.models.discount import MOST_STEPS, TAIL, discounted_sum, infinite, too_slow

# Pairs of states up to which a linear system is faster than any series, and up to which its matrix is formed at all.
_SYSTEM_AT_ONCE = 16
_LARGEST_SYSTEM = 1024
# Logarithm beyond which a leaf kernel overflows.
_LARGEST_LOG = 700.0
_LARGEST_SOLUTION = 1e12


def discounted_chains(
    layout: Layout, left: Side, right: Side, log_psi: Array, d: float, *, check: bool = False, logarithms: bool = False
) -> Array:
    """Compute the log discounted kernels of pairs of chains.

    Parameters
    ----------
    layout : Aligned or Tile
        Whether chain i of the left side is paired with chain i of the right, or with all.
    left, right : pair of arrays
        Initial and transition weights, (I, n) and (I, n, n), (J, m) and (J, m, m).
    log_psi : array of shape (I, n, J, m), or (N, n, m) if aligned
        Logarithms of the leaf kernels.
    d : float
        The discount; every chain must have a finite kernel with itself.
    check : bool, default=False
        Whether chains are paired with themselves, and an error names one whose kernel is infinite.
    logarithms : bool, default=False
        Whether weights are given as logarithms.

    Returns
    -------
    array of shape (I, J) or (N,)
        Logarithms.
    """
    xp = namespace(log_psi)

    def failure() -> Exception:
        if not check:
            return too_slow(d, MOST_STEPS)
        return diverging((xp.exp(left[0]), xp.exp(left[1])) if logarithms else left, log_psi, d)

    def redo(which: Array) -> Array:
        a, b, leaf = layout.take(left, right, log_psi, which)
        if not logarithms:
            a, b = ((safe_log(first), safe_log(step)) for first, step in (a, b))
        return _logarithmic(a, b, leaf, d, failure)[None, :]

    found = xp.full_like(largest(layout, log_psi), xp.nan)
    if not logarithms:
        found = _discounted(layout, left, right, log_psi, d, failure)
    flat = xp.reshape(found, (1, -1))
    return xp.reshape(patch(flat, xp.isnan(flat[0, ...]), redo, pieces(left, right)), found.shape)


def _logarithmic(left: Side, right: Side, log_psi: Array, d: float, failure: Callable[[], Exception]) -> Array:
    """Compute log discounted kernels of aligned pairs from logarithms of weights."""
    xp = namespace(log_psi)

    def terms() -> Iterator[tuple[Array, Array]]:
        start = left[0][:, :, None] + right[0][:, None, :] + log_psi
        reached, other = (safe_log(_reached(side[0] > -xp.inf, side[1] > -xp.inf, start)) for side in (left, right))
        shut = reached[:, :, None] + other[:, None, :]
        table = xp.zeros_like(start)
        while True:
            value = logsumexp(start + table, axis=(-2, -1))
            half = logsumexp((log_psi + table)[:, :, None, :] + right[1][:, None, :, :], axis=-1)
            table = logsumexp(left[1][:, :, :, None] + half[:, None, :, :], axis=-2) + shut
            yield value, without_gradient(xp.max(table, axis=(-2, -1)))

    total = discounted_sum(terms(), d)
    if bool(xp.any(xp.isnan(total))):
        raise failure()
    return total


# ------------------------------------------------------------------ values


def _discounted(
    layout: Layout, left: Side, right: Side, log_psi: Array, d: float, failure: Callable[[], Exception]
) -> Array:
    """Sum over all lengths: as a series, else by a linear system. NaN if a sum is too small for numbers.

    The series is summed in SIMD lanes in NumPy. It is not tried if a system is faster than any series.
    """
    xp = namespace(log_psi)
    leaf, top = scaled_leaves(layout, log_psi)
    # The first leaf has its own scale. Later ones may underflow, because longer sequences then do not matter.
    factors = d * xp.exp(xp.clip(top, None, _LARGEST_LOG))
    # Unreachable states, such as padding, must not affect the bound.
    a, b = (weights * _reached(first > 0, weights > 0, weights)[..., :, None] for first, weights in (left, right))
    size = int(left[0].shape[-1] * right[0].shape[-1])
    few = size <= _LARGEST_SYSTEM

    def solve(which: Array) -> Array:
        """Solve x = 1 + d Op x for some pairs, and return start . x."""
        if not few:
            raise failure()
        (first, p), (other, q), some = layout.take((left[0], a), (right[0], b), leaf, which)
        scaled = some * xp.take(xp.reshape(factors, (-1,)), which, axis=0)[:, None, None]
        both = p[:, :, None, :, None] * q[:, None, :, None, :] * scaled[:, None, None, :, :]
        matrix = xp.astype(identity(leaf, size) - xp.reshape(both, (-1, size, size)), xp.float64)
        start = xp.reshape(xp.astype(Aligned.outer(first, other) * some, xp.float64), (-1, size))
        return xp.astype(xp.sum(start * _solved(matrix, failure), axis=-1), leaf.dtype)[None, :]

    # A linear system costs as much as this many steps of a series.
    if layout is Tile and fits_lanes(left[0], right[0]):
        patience = max(256, round(size**1.5)) if few else MOST_STEPS
        flat = leaf.reshape(len(leaf) * leaf.shape[1], -1)
        total = discounted_lanes((left[0], a), (right[0], b), flat, factors, TAIL, patience)
    elif size > _SYSTEM_AT_ONCE:
        patience = max(64, round(size**1.5 / 6)) if few else MOST_STEPS
        total = _series(layout, layout.outer(left[0], right[0]) * leaf, a, b, leaf * layout.wide(factors), patience)
    else:
        total = xp.full_like(top, xp.nan)
    found = xp.reshape(total, (1, -1))
    total = xp.reshape(patch(found, xp.isnan(found[0, ...]), solve, max(1, LOG_ENTRIES // size**2)), total.shape)
    tiny = math.sqrt(float(xp.finfo(total.dtype).smallest_normal))
    return xp.where(without_gradient(total) >= tiny, safe_log(total) + top + math.log1p(-d), xp.nan)


def _series(layout: Layout, start: Array, a: Array, b: Array, psi: Array, patience: int) -> Array:
    """Sum start . U_t with U_t = (d Op)^t 1; NaN if convergence is too slow."""
    xp = namespace(psi)
    back = xp.matrix_transpose(b)
    total, table = sums(layout, start), xp.ones_like(psi)
    for time in range(1, patience + 1):
        table = layout.right(layout.left(a, psi * table), back)
        total = total + sums(layout, start * table)
        if time < 8 or time % 8 == 0:
            highest = float(without_gradient(xp.max(table)))
            if highest <= TAIL:
                return total
            if not highest < 1e100:
                break
    return xp.full_like(without_gradient(total), xp.nan)


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
