"""Log determinants and quadratic forms of S + S' for every pair of full or diagonal covariances.

The same elimination as `_planes.log_det_and_quadratic`, with 64 pairs at once: one matrix of the left side with 64 of
the right, in loops that vectorize. It works in the L1 cache and releases the GIL. NumPy computes the logarithms, with
a vectorized loop, a few rows at a time, so that everything stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled

BLOCK = 64
"""Number of members of the right side that are computed together: a block, in loops that the compiler vectorizes."""
PIVOTS = 4
"""Number of pivots that are multiplied before taking a logarithm, which costs as much as the rest of a step."""
_CHUNK = 1 << 15  # pairs that fit the L2 cache


def packed(mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Pack lower triangles ``(N, d (d + 1) / 2)``, or variances ``(N, d)``, and means ``(N, d)``: contiguous."""
    if covariance.ndim == mean.ndim:
        return np.ascontiguousarray(covariance), np.ascontiguousarray(mean)
    rows, columns = np.tril_indices(mean.shape[-1])
    return np.ascontiguousarray(covariance[:, rows, columns]), np.ascontiguousarray(mean)


def log_kernels(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    scale: float,
    identity: float,
    weight: float,
    own: Floats,
    theirs: Floats,
) -> Floats:
    """Return own + theirs - log|M| / 2 - weight v' M^{-1} v, ``(I, J)``, for M = scale (S + S') + identity, v = m - m'.

    Parameters
    ----------
    left, right : pair of ndarrays
        The result of `packed` for each side.
    scale, identity : float
        Coefficients of the matrix M.
    weight : float
        Weight of the quadratic form.
    own, theirs : ndarray of shape (I,) and (J,)
        Terms added for every member of each side.

    Returns
    -------
    ndarray of shape (I, J)
        Not finite where a product of pivots left the range of float64.
    """
    if len(theirs) < BLOCK < len(own):  # most of the block would be padding
        return np.ascontiguousarray(log_kernels(right, left, scale, identity, weight, theirs, own).T)
    value = np.empty((len(own), len(theirs)))
    for rows, products, quadratic in _chunks(left, right, scale, identity):
        np.log(products, out=products)
        _combine(products, quadratic, weight, own[rows], theirs, value[rows])
    return value


def solve(
    left: tuple[Floats, Floats], right: tuple[Floats, Floats], scale: float, identity: float
) -> tuple[Floats, Floats]:
    """Return log|M| and v' M^{-1} v, ``(I, J)`` each, for M = scale (S + S') + identity, v = m - m'."""
    shape = len(left[1]), len(right[1])
    log_det, squares = np.empty(shape), np.empty(shape)
    for rows, products, quadratic in _chunks(left, right, scale, identity):
        np.sum(np.log(products), axis=0, out=log_det[rows])
        squares[rows] = quadratic
    return log_det, squares


def _chunks(
    left: tuple[Floats, Floats], right: tuple[Floats, Floats], scale: float, identity: float
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield rows, products of up to four pivots ``(planes, rows, J)``, and quadratic forms ``(rows, J)``."""
    shapes, means = left
    other = _in_blocks(right[0]), _in_blocks(right[1])
    (n, d), m = means.shape, len(right[1])
    run = _full if shapes.shape[1] > d else _diagonal
    step = max(1, min(n, _CHUNK // max(m, 1)))
    products, quadratic = np.empty((-(-d // PIVOTS), step, m)), np.empty((step, m))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        size = rows.stop - first
        some = products[:, :size], quadratic[:size]
        run(shapes[rows], means[rows], *other, scale, identity, *some)
        yield rows, *some


def _in_blocks(x: Floats) -> Floats:
    """Arrange rows as (blocks, columns, BLOCK); the last block repeats its last row."""
    blocks = -(-len(x) // BLOCK)
    index = np.minimum(np.arange(blocks * BLOCK), len(x) - 1)
    return np.ascontiguousarray(x[index].reshape(blocks, BLOCK, -1).transpose(0, 2, 1))


@compiled(contract=True)
def _combine(
    logs: Floats, quadratic: Floats, weight: float, own: Floats, theirs: Floats, value: Floats
) -> None:  # pragma: no cover - compiled
    planes, n, m = logs.shape
    for i in range(n):
        mine = own[i]
        for j in range(m):
            value[i, j] = mine + theirs[j] - weight * quadratic[i, j] - 0.5 * logs[0, i, j]
        for k in range(1, planes):
            for j in range(m):
                value[i, j] -= 0.5 * logs[k, i, j]


@compiled(contract=True)
def _diagonal(
    variances: Floats,
    means: Floats,
    other_variances: Floats,
    other_means: Floats,
    scale: float,
    identity: float,
    products: Floats,
    quadratic: Floats,
) -> None:  # pragma: no cover - compiled
    n, d = means.shape
    m = quadratic.shape[1]
    # v^2 / s + v'^2 / s' over a common denominator: one division for four coordinates.
    numerator, denominator, total = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for block in range(other_means.shape[0]):
        theirs, their_means = other_variances[block], other_means[block]
        start = block * BLOCK
        width = min(BLOCK, m - start)
        for i in range(n):
            for lane in range(BLOCK):
                total[lane] = 0.0
            for first in range(0, d, PIVOTS):
                for lane in range(BLOCK):
                    numerator[lane] = 0.0
                    denominator[lane] = 1.0
                for k in range(first, min(first + PIVOTS, d)):
                    mean, own = means[i, k], variances[i, k]
                    for lane in range(BLOCK):
                        v = mean - their_means[k, lane]
                        s = scale * (own + theirs[k, lane]) + identity
                        numerator[lane] = numerator[lane] * s + v * v * denominator[lane]
                        denominator[lane] = denominator[lane] * s
                for lane in range(BLOCK):
                    total[lane] += numerator[lane] / denominator[lane]
                for lane in range(width):
                    products[first // PIVOTS, i, start + lane] = denominator[lane]
            for lane in range(width):
                quadratic[i, start + lane] = total[lane]


@compiled(contract=True)
def _full(
    triangles: Floats,
    means: Floats,
    other_triangles: Floats,
    other_means: Floats,
    scale: float,
    identity: float,
    products: Floats,
    quadratic: Floats,
) -> None:  # pragma: no cover - compiled
    n, d = means.shape
    m = quadratic.shape[1]
    work = np.empty((d * (d + 1) // 2, BLOCK))
    v = np.empty((d, BLOCK))
    factor = np.empty(BLOCK)
    inverse = np.empty(BLOCK)
    product = np.empty(BLOCK)
    total = np.empty(BLOCK)
    for block in range(other_means.shape[0]):
        theirs, their_means = other_triangles[block], other_means[block]
        start = block * BLOCK
        width = min(BLOCK, m - start)
        for i in range(n):
            p = 0
            for a in range(d):
                for lane in range(BLOCK):
                    v[a, lane] = means[i, a] - their_means[a, lane]
                for b in range(a + 1):
                    own = triangles[i, p]
                    shift = identity if a == b else 0.0
                    for lane in range(BLOCK):
                        work[p, lane] = scale * (own + theirs[p, lane]) + shift
                    p += 1
            for lane in range(BLOCK):
                total[lane] = 0.0
                product[lane] = 1.0
            for k in range(d):
                kk = k * (k + 1) // 2 + k
                for lane in range(BLOCK):
                    inverse[lane] = 1.0 / work[kk, lane]
                    product[lane] *= work[kk, lane]
                    total[lane] += v[k, lane] * v[k, lane] * inverse[lane]
                if k % PIVOTS == PIVOTS - 1 or k == d - 1:
                    for lane in range(width):
                        products[k // PIVOTS, i, start + lane] = product[lane]
                    for lane in range(BLOCK):
                        product[lane] = 1.0
                for a in range(k + 1, d):
                    row = a * (a + 1) // 2
                    for lane in range(BLOCK):
                        factor[lane] = work[row + k, lane] * inverse[lane]
                        v[a, lane] -= factor[lane] * v[k, lane]
                    for b in range(k + 1, a + 1):
                        bk = b * (b + 1) // 2 + k
                        for lane in range(BLOCK):
                            work[row + b, lane] -= factor[lane] * work[bk, lane]
            for lane in range(width):
                quadratic[i, start + lane] = total[lane]
